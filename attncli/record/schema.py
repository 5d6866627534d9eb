"""What the files of records have to hold, in tables; their arrays are held to `attncli.record.masks`."""

from typing import Any

from attncli.base import choices
from attncli.base.schema import anything, each, fields, flag, maybe, name, one_of, real, refuse, text, whole
from attncli.record.masks import MEASURES

MOST_HEADS = 10**6  # in a layer, and layers in a model
LARGEST_ID = 2**31 - 1  # in a vocabulary; of a token whose number nobody said it is -1
LONGEST_CHANGES = 10**5  # characters of what was done to a network
LONGEST_TERM = 100  # characters of its name
SEGMENTS = 2  # XLNet's [CLS] is of neither text


def offset(value: Any, what: str) -> None:
    """[start, end), characters of a text."""
    each(whole(), 2)(value, what)
    if value[0] > value[1]:
        refuse(value, what, "where something begins and ends")


def share(value: Any, what: str) -> None:
    """A number from 0 to 1."""
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
    {"changes": text(LONGEST_CHANGES)},  # which older files don't say
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
SHOWN = {"shown": each(text())}  # which older files don't have


def tokens(value: Any, what: str) -> None:
    """The fields of `Tokens`, an entry a token."""
    fields(TOKENS_OF, {**SHOWN, "written": each(text())})(value, what)
    lengths = {field: len(entries) for field, entries in value.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{what}: not every token has one of each: {lengths}")
    last: dict[int, int] = {}
    for segment, word in zip(value["segments"], value["words"], strict=True):
        if word is not None and word < last.get(segment, 0):
            raise ValueError(f"{what}: the words of segment {segment} are not in their order")
        last[segment] = last.get(segment, 0) if word is None else word


ANSWER = fields(
    {"label": text(), "logit": real(), "probability": maybe(share), "start": maybe(whole()), "end": maybe(whole())}
)
SAID = fields(
    {"output": text(), "kind": one_of(choices.names(choices.Output)), "single": flag(), "answers": each(ANSWER)}
)


def prediction(value: Any, count: int) -> None:
    """What is said of a text of so many tokens."""
    for place, answer in enumerate(value["answers"]):
        start, end = answer["start"], answer["end"]
        if (start is None) != (end is None) or (end is not None and not start < end <= count):
            refuse([start, end], f"prediction: answers {place}", "tokens of the text")


WHICH = {"kind": one_of(choices.names(choices.Kind)), "measure": one_of(MEASURES)}  # which older files don't say

DTYPE = {"dtype": one_of(choices.names(choices.Dtype))}  # which older files don't say
SINKS = {"sinks": flag()}  # which files of networks without any don't say

# The labels of a .npz, and of each text of a .safetensors.
LABELS = fields(
    {"tokens": tokens, "mask_name": one_of(choices.names(choices.Mask)), "model": MODEL},
    {**WHICH, **DTYPE, **SINKS, "key_tokens": maybe(tokens), "terms": each(text(LONGEST_TERM)), "prediction": SAID},
)

# What another program's .npz may say besides its tokens, and what is of each of them.
PLAIN = fields({}, {**WHICH, **SINKS, "layers": each(whole()), "heads": each(whole()), "model": name()})

# Masks that are not what their name says: of every query [start, end) of each run of keys (`attncli.record.masks`).
MASKS = each(fields({"layers": each(whole()), "allowed": each(each(each(whole(), 2)))}))

# What `run --json` prints. Its weights, a list of lists in a list, are checked as an array.
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
