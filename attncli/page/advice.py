"""Advice in the Neuron view for a head without q and k: how to make a page with them. "{head}" stands for the head."""

from attncli.base import choices
from attncli.record import AttentionRecord

VIEW = "attncli view --vectors {head} makes a page that has them."
NORMS = "A page of norms has no q and k. A page of weights, without --measure norm, can have them."
SAVED = (
    "attncli run --vectors {head} -o maps.safetensors TEXT saves a record that has them, if attncli runs "
    "the network itself. attncli view --from maps.safetensors then makes the page."
)
ALIGN = "attncli align keeps no q and k, so its pages have weights only."
LIBRARY = 'model.attend(text, vectors="{head}").page(path) makes a page that has them.'
FOREIGN = "record_of(weights, tokens, vectors=(query, key)) makes a record that has them."
LIVE = "They are loaded when this view opens."
MERGED = ""  # units of several tokens have no q and k: the page does not offer Neuron
WHOLE = 'record.page("all.html") makes a page with all q and k of the record.'


ALIGNERS = {f"align-{name}" for name in choices.names(choices.AttentionName)}  # their names in records


def of_record(record: AttentionRecord) -> str:
    """Return the advice for a record in Python."""
    if record.measure != "weight":
        return NORMS
    return ALIGN if record.model.name in ALIGNERS else LIBRARY if record.model.path else FOREIGN


def of_saved(record: AttentionRecord) -> str:
    """Return the advice for a saved record."""
    advice = of_record(record)
    return SAVED if advice == LIBRARY else advice
