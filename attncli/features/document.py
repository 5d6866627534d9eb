"""The documents of commands: their fields, as each feature's file states them, and a JSON Schema made of the fields.

A feature's file ends in FIELDS, a text. A section begins with a heading: a command, or a part that fields of this and
other sections name as their type. A field is a line "name | type | shape or unit | meaning"; an indented line continues
the one before it. A type may also be a choice of `attncli.base.choices`: a str, whose names end the meaning. Other
lines are prose. `attncli/cli/README.md` explains the types, and has the sections as tables.
"""

import importlib
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from attncli import features
from attncli.base import choices

PARTS = """
### model

The model of a document: under `model`, and in `diff` on each side.

name | str | | as in `--model`, or made up for random weights
path | str or null | | where its files are; null for random weights
sha256 | str or null | | of its weight files
layers | int or null | | in the model, not in the document; null, as the next two, if its files don't say (`models
    show`)
heads | int or null | | per layer
hidden_size | int or null | | size of a token's vector between layers
changes | str? | | changes to its network (`--without`): "without 3.1,4.0-2"
key_heads | int? | | per layer, if groups of heads share keys and values

### head

A head, with further fields where it is used.

layer | int | | layer number in the model
head | int | | head number in its layer

### place

A token of a text, as a query or as a key.

index | int | | its position in `tokens` (for a key, in `key_tokens` if present)
token | str | | as in the vocabulary
shown | str? | | as displayed (`explain`, `find`)

### output

The measured output (`ablate`, `cut`, `patch`, `trust`).

kind | str | | cosine, logit, probability, divergence (nats) or distance (share of the vectors' lengths): the unit of
    every
    effect
value | float | in that unit | without any change; the mean over several texts
about | str | | in words

### record

The maps of one text.

tokens | [str] | `[query]` | the units along the queries, and along the keys if there are no `key_tokens`
key_tokens | [str]? | `[key]` | the units along the keys, if they differ from `tokens`
shown | [str]? | `[query]` | `tokens` as displayed, if that differs from the vocabulary's form
key_shown | [str]? | `[key]` | `key_tokens` as displayed, likewise
segments | [int] | `[query]` | 0 for the first text, 1 for the second of a pair
mask | MaskName
masks | [object]? | | only if layers hide more than `mask` does, such as a window
masks.layers | [int] | `[layer]` | the layers with this mask
masks.allowed | [[[int]]] | `[query][run][2]` | the keys that a query may attend to, as runs from the first key to
    before the end; all others are hidden
prediction | object? | | what the model's output head says about the text, if attncli can read it; words only if
    there is a [MASK]
prediction.output | str | | which output: classes, tokens, span, words, or one of the family's own
prediction.kind | str | | classes, tokens, span or words
prediction.single | bool | | true: one label is right and all probabilities sum to 1; false: each label has its own
    probability, or none
prediction.answers | [object] | | for a text its labels (at most 20) or spans (3), best first; for each token its
    label; for each [MASK] 3 words, best first
prediction.answers.label | str | | a label, a word, the words of a span, or a next token with its leading space
prediction.answers.logit | float | logit | for a regression its value; for a span the sum of its start and end
    logits
prediction.answers.probability | float or null | | null for a regression
prediction.answers.start | int or null | | index in `tokens` of its first token; null if it is for the whole text
prediction.answers.end | int or null | | index after its last token
written | int? | | index in `tokens` of the first token that the model wrote (`generate`); `prediction` then has the 5
    most likely next tokens after each token from the one before it
kind | str? | | decoder or cross; missing for encoder attention
measure | str? | | norm, or share of norm; missing for weights
dtype | str? | | bfloat16 or float16, if the maps were computed in it; rows then sum to 1 less exactly
sinks | bool? | | true if heads have a sink score (gpt-oss), which takes part in the softmax without a key: rows
    then sum to at most 1. Also a label of .npz and .safetensors, whose array `sinks` `[head]` has the scores of the
    heads in `neurons`
attention | [head] | | layer by layer; heads of different layers (`-H 3.1,1.8`) in the order chosen, which .npz and
    .safetensors have as the label `pairs`: their weights of other heads are 0
attention.weights | [[float]] | `[query][key]` | each row sums to 1 (with `sinks` to at most 1), or is 0 if the
    query sees no key; norms have no such sum. float32, in the fewest digits that read back the same
attention.terms | {[[float]]}? | `[query][key]` | the terms of each score by name, also for hidden keys: content
    (scaled q · k), and what positions, a bias or a softcap add (`run --terms`)
"""

PLAIN = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "null": "null"}


class Field(NamedTuple):
    """A field of a document. name: its path in the document, as in "query.x"."""

    name: str
    type: str
    unit: str = ""
    meaning: str = ""


class Section(NamedTuple):
    """A document or a part: its fields, with the prose before and after them."""

    before: str
    fields: tuple[Field, ...]
    after: str


def read_sections(text: str) -> dict[str, Section]:
    """Return the sections of a text by their headings."""
    _, *pieces = re.split(r"^### (.+)\n", text, flags=re.MULTILINE)
    return {name: _read_section(body) for name, body in zip(pieces[::2], pieces[1::2], strict=True)}


def _read_section(text: str) -> Section:
    lines = re.sub(r"\n {4,}", " ", text).splitlines()
    rows = [number for number, line in enumerate(lines) if " | " in line]
    first, last = rows[0], rows[-1] + 1
    fields = []
    for line in lines[first:last]:
        field = Field(*(cell.strip() for cell in line.split("|")))
        if hasattr(choices, field.type):
            names = choices.one_of(getattr(choices, field.type))
            field = field._replace(type="str", meaning=f"{field.meaning}: {names}" if field.meaning else names)
        fields.append(field)
    return Section("\n".join(lines[:first]).strip(), tuple(fields), "\n".join(lines[last:]).strip())


@cache
def sections() -> dict[str, Section]:
    """Return the sections of all features: the shared parts, then each command's by the name of its file."""
    found = read_sections(PARTS)
    for commands in features.commands().values():
        for name in commands:
            module = importlib.import_module(features.find_feature(name).__module__)
            found.update(read_sections(getattr(module, "FIELDS", "")))
    return found


def schema_of(name: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 4) of a document of this version."""
    named = {kind for section in sections().values() for one in section.fields for kind in re.findall(r"\w+", one.type)}
    parts = {part: _object(sections()[part].fields) for part in sorted(named & sections().keys())}
    return {**_object(sections()[name].fields), "definitions": parts}


def _object(fields: Sequence[Field]) -> dict[str, Any]:
    properties, needed = {}, []
    for one in fields:
        if "." in one.name:
            continue
        prefix = f"{one.name}."
        below = [more._replace(name=more.name.removeprefix(prefix)) for more in fields if more.name.startswith(prefix)]
        properties[one.name] = _value(one.type.removesuffix("?"), below)
        if not one.type.endswith("?"):
            needed.append(one.name)
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        **({"required": needed} if needed else {}),
    }


def _value(kind: str, below: Sequence[Field]) -> dict[str, Any]:
    if " or " in kind:
        return {"anyOf": [_value(one, below) for one in kind.split(" or ")]}
    if kind in PLAIN:
        return {"type": PLAIN[kind]}
    if kind[0] == "[":
        return {"type": "array", "items": _value(kind[1:-1], below)}
    if kind[0] == "{":
        return {"type": "object", "additionalProperties": _value(kind[1:-1], below)}
    if not below:
        return {"$ref": f"#/definitions/{kind}"}
    return _object([*(sections()[kind].fields if kind != "object" else ()), *below])
