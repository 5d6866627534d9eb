"""How somebody's layer is called: which parameter is the text, which the memory, and whose mask a mask is."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attncli.attention.mistakes import Seen
from attncli.attention.mistakes.layer_formula import LayerInputs
from attncli.base.errors import RequestError
from attncli.checks.theirs.calling.forms import Encoding, Layout, encoded
from attncli.checks.theirs.calling.roles import INPUTS, MASKS, role_of
from attncli.checks.theirs.subjects.subject import Answer, Call, Parameter

OF_MEMORY = re.compile(r"mem|src|source|enc|cross|context|ctx", re.IGNORECASE)
OF_TEXT = re.compile(r"tgt|trg|target|dec|self|look|causal|future|subsequent", re.IGNORECASE)
FLAGS = ("causal", "average", "returns")
CROSS = "memory_"  # before the role of a mask that hides of the memory


class LayerForm(NamedTuple):
    """places: the name of a parameter, its role, and whether it has to be given.

    Roles are "x", "memory", those of masks, and these with "memory_" before them. full: masks are given always, and
    hide nothing where nothing is hidden.
    """

    places: tuple[tuple[str, str, bool], ...]
    by_place: tuple[str, ...]
    layout: Layout
    encodings: Mapping[str, Encoding] = {}
    full: bool = False

    @property
    def masks(self) -> tuple[str, ...]:
        return tuple(role for _, role, _ in self.places if role.removeprefix(CROSS) in MASKS)

    def encoded(self, inputs: LayerInputs) -> dict[str, Tensor] | None:
        """Masks by role, as they are given; None where what is to be hidden can't be said so."""
        made: dict[str, Tensor] = {}
        batch, tokens = inputs.x.shape[:2]
        keys = tokens if inputs.memory is None else inputs.memory.shape[1]
        for seen, of, length in ((inputs.seen, "", tokens), (inputs.memory_seen, CROSS, keys)):
            ours = [role for role in self.encodings if role.startswith(CROSS) == bool(of)]
            for what, roles in ((seen.padding, ("padding", "lengths", "mask")), (seen.pairs, ("mask",))):
                if what is None:
                    continue
                role = next((of + role for role in roles if of + role in ours), None)
                if role is None:
                    return None
                pairs = what[:, None, None, :] if what is seen.padding else what
                pairs = pairs.expand(batch, 1, tokens, length)
                made[role] = pairs
            for role in ours if self.full else ():
                made.setdefault(role, torch.ones(batch, 1, tokens, length, dtype=torch.bool))
        said = {
            role: encoded(mask, self.encodings[role], inputs.heads) for role, mask in made.items() if mask is not None
        }
        return None if any(one is None for one in said.values()) else said  # type: ignore[return-value]

    def call(self, inputs: LayerInputs, dtype: str, **how: Any) -> Call:
        masks = self.encoded(inputs) or {}
        arguments: list[Any] = []
        keywords: dict[str, Any] = {}
        given: dict[str, Any] = {"x": self.layout.put(inputs.x), **masks}
        if inputs.memory is not None:
            given["memory"] = self.layout.put(inputs.memory)
        for name, role, required in self.places:
            if role not in given and not required:
                continue
            value = given.get(role, False if role in FLAGS else None)
            if name in self.by_place and len(arguments) == self.by_place.index(name):
                arguments.append(value)
            else:
                keywords[name] = value
        return Call(tuple(arguments), keywords, dtype, **{"dropout": False, **how})

    def read(self, answer: Answer, inputs: LayerInputs) -> Tensor | None:
        """The first of what it gives that has the output's shape."""
        for raw in answer.outputs:
            if raw.dim() == self.layout.put(inputs.x).dim() and self.layout.take(raw).shape == inputs.x.shape:
                return self.layout.take(raw)
        return None


def places_of(call: Sequence[Parameter], given: Mapping[str, str], decoder: bool) -> tuple[tuple[str, str, bool], ...]:
    """Of a layer's forward. given: what the user said of parameters, by name.

    Raises RequestError when what a parameter is for can't be told.
    """
    named: dict[str, str | None] = {}
    for one in (one for one in call if one.kind != "many"):
        role = given.get(one.name) or role_of(one.name)
        is_mask = role in MASKS or re.search("mask|pad", one.name, re.IGNORECASE)
        named[one.name] = mask_role(one.name, role) if is_mask else role
    required = {one.name for one in call if one.required}
    texts = [
        name
        for name, role in named.items()
        if role in (*INPUTS, "x") or (name in required and role not in (*MASKS, *FLAGS))
    ]
    if not texts:
        raise RequestError("a layer's forward takes x, and no parameter is named so: --map NAME=x says which it is")
    text = next(
        (name for role in ("query", "x") for name in texts if named[name] == role),
        next((name for name in texts if named[name] != "memory"), texts[0]),
    )
    named |= {name: "x" if name == text or not decoder else "memory" for name in texts}
    if decoder:
        named |= of_memory([name for name, role in named.items() if role in MASKS])
    known = {"x", "memory", *FLAGS, *MASKS, *(CROSS + role for role in MASKS)}
    return tuple((name, role, name in required) for name, role in named.items() if role in known and role is not None)


def mask_role(name: str, role: str | None) -> str:
    if role == "lengths":
        return role
    return "padding" if "pad" in name.lower() or role == "padding" else "mask"


def of_memory(names: list[str]) -> dict[str, str]:
    """The roles of those masks that are the memory's; where names say nothing, the text's is the first."""
    said = {name: "text" if OF_TEXT.search(name) else "memory" if OF_MEMORY.search(name) else "" for name in names}
    open_ones = [name for name in names if not said[name]]
    if open_ones and len(names) > 1:
        other = "memory" if "text" in said.values() else "text"
        said[open_ones[0]] = other
        said |= dict.fromkeys(open_ones[1:], "memory")
    roles = {name: mask_role(name, role_of(name)) for name in names}
    return {name: CROSS + roles[name] for name in names if said[name] == "memory"}


def hiding_by(inputs: LayerInputs, role: str, mask: Tensor) -> LayerInputs:
    """With a mask `[batch, 1, query, key]`, or `[batch, key]`, of the text or of the memory."""
    seen = Seen(padding=mask) if mask.dim() == 2 else Seen(pairs=mask)
    return inputs._replace(memory_seen=seen) if role.startswith(CROSS) else inputs._replace(seen=seen)
