"""Schemas of records' files, as tables. `attncli.record.masks` checks the arrays."""

from typing import Any

from attncli.base import choices
from attncli.base.schema import anything, each, fields, flag, maybe, name, one_of, real, refuse, text, whole
from attncli.record.masks import MEASURES

MOST_HEADS = 10**6  # in a layer, and layers in a model
LARGEST_ID = 2**31 - 1  # in a vocabulary; unknown ids are -1
LONGEST_CHANGES = 10**5  # characters that describe a network's modifications
LONGEST_TERM = 100  # characters of a term's name
SEGMENTS = 2  # XLNet's [CLS] belongs to neither text


def offset(value: Any, what: str) -> None:
    """Accept [start, end), characters of a text."""
    each(whole(), 2)(value, what)
    if value[0] > value[1]:
        refuse(value, what, "a start and an end that is not smaller")


def share(value: Any, what: str) -> None:
    """Accept a number from 0 to 1."""
    real()(value, what)
    if not 0 <= value <= 1:
        refuse(value, what, "a number from 0 to 1")


MODEL = fields(
    {
        "name": name(),
        "path": name(),
        "sha256": name(),
        "layers": whole(1, MOST_HEADS),
        "heads": whole(1, MOST_HEADS),
        "hidden_size": whole(),
    },
    {"changes": text(LONGEST_CHANGES)},  # missing in older files
)

TOKENS_OF = {
    "text": each(text()),
    "ids": each(whole(-1, LARGEST_ID)),
    "segments": each(whole(0, SEGMENTS)),
    "words": each(maybe(whole())),
    "offsets": each(offset),
    "special": each(flag()),
    "padding": each(flag()),
}
SHOWN = {"shown": each(text())}  # missing in older files


def tokens(value: Any, what: str) -> None:
    """Accept the fields of `Tokens`, each with one entry per token."""
    fields(TOKENS_OF, {**SHOWN, "written": each(text())})(value, what)
    lengths = {field: len(entries) for field, entries in value.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{what}: the fields have different lengths: {lengths}")
    last: dict[int, int] = {}
    for segment, word in zip(value["segments"], value["words"], strict=True):
        if word is not None and word < last.get(segment, 0):
            raise ValueError(f"{what}: the words of segment {segment} are not in order")
        last[segment] = last.get(segment, 0) if word is None else word


ANSWER = fields(
    {"label": text(), "logit": real(), "probability": maybe(share), "start": maybe(whole()), "end": maybe(whole())}
)
SAID = fields(
    {"output": text(), "kind": one_of(choices.names(choices.Output)), "single": flag(), "answers": each(ANSWER)}
)


def prediction(value: Any, count: int) -> None:
    """Check that the answers refer to tokens of a text with `count` tokens."""
    for place, answer in enumerate(value["answers"]):
        start, end = answer["start"], answer["end"]
        if (start is None) != (end is None) or (end is not None and not start < end <= count):
            refuse([start, end], f"prediction: answers {place}", "tokens of the text")


WHICH = {"kind": one_of(choices.names(choices.Kind)), "measure": one_of(MEASURES)}  # missing in older files

DTYPE = {"dtype": one_of(choices.names(choices.Dtype))}  # missing in older files
SINKS = {"sinks": flag()}  # only in files of networks with sinks

# The labels of a .npz, and of each text of a .safetensors.
LABELS = fields(
    {"tokens": tokens, "mask_name": one_of(choices.names(choices.Mask)), "model": MODEL},
    {**WHICH, **DTYPE, **SINKS, "key_tokens": maybe(tokens), "terms": each(text(LONGEST_TERM)), "prediction": SAID},
)

# The optional fields of another program's .npz, except those with an entry per token.
PLAIN = fields({}, {**WHICH, **SINKS, "layers": each(whole()), "heads": each(whole()), "model": name()})

# Masks that differ from their name's: for each query, [start, end) of each run of keys (`attncli.record.masks`).
MASKS = each(fields({"layers": each(whole()), "allowed": each(each(each(whole(), 2)))}))

# The output of `run --json`. Its weights, nested lists, are checked as an array.
DOCUMENT = fields(
    {
        "model": MODEL,
        "records": each(
            fields(
                {
                    "tokens": each(text()),
                    "segments": each(whole(0, SEGMENTS)),
                    "mask": one_of(choices.names(choices.Mask)),
                    "attention": each(
                        fields({"layer": whole(), "head": whole(), "weights": anything}, {"terms": anything})
                    ),
                },
                {
                    **WHICH,
                    **DTYPE,
                    **SINKS,
                    **SHOWN,
                    "key_tokens": each(text()),
                    "key_shown": each(text()),
                    "masks": MASKS,
                    "prediction": SAID,
                },
            )
        ),
    }
)
