"""The place where queries meet keys, in networks that transformers runs.

transformers lets one register an attention function, which most of its networks call in place of their own. Ours makes
a `Block` of what it is given and hands it to `meet`, as the walk through our own networks does:

    network(**inputs) ──► attention module ──► meet_theirs(q, k, v, mask) ──► meet(block, taps) ──► output

    with passing(Pass(places, part, taps)):
        network(**inputs)
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attncli.models.block import Block, Tap
from attncli.models.meeting import meet
from attncli.models.rows import LayerMask, Run

NAME = "attncli"  # what transformers knows our function by
PARTS = ("encoder", "decoder", "cross")


@dataclass
class Pass:
    """One forward pass whose blocks go to taps.

    part: the attention whose blocks the taps are offered; last: the layer after which the pass may end, if any.
    masks: for each layer of the part, what it allowed: bool `[text, 1, query, key]`, or None for everything.
    """

    places: "Places"
    part: str
    taps: Sequence[Tap]
    last: int | None = None
    masks: dict[int, Tensor | None] = field(default_factory=dict)
    calls: Counter[int] = field(default_factory=Counter)


@dataclass
class Trial:
    """A forward pass that finds out which modules call our function: each call's module, queries, keys and heads."""

    calls: list[tuple[nn.Module, int, int, int]] = field(default_factory=list)


CURRENT: ContextVar[Pass | Trial | None] = ContextVar("the forward pass that is watched", default=None)


class Ended(BaseException):
    """All that a pass was for has been computed. No `except Exception` of transformers takes it for an error."""


@contextmanager
def passing(current: Pass | Trial) -> Iterator[None]:
    """Watch the forward pass inside. One that need not go on ends early."""
    token = CURRENT.set(current)
    try:
        yield
    except Ended:
        pass
    finally:
        CURRENT.reset(token)


def register() -> None:
    """Make our function and masks known to transformers."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, meet_theirs)
    AttentionMaskInterface.register(NAME, their_mask)


def their_mask(*shape: Any, allow_is_causal_skip: bool = True, dtype: Any = None, **more: Any) -> Tensor | None:
    """Return what may be attended to, bool `[text, 1, query, key]`: a causal mask is never left to the function."""
    from transformers.masking_utils import sdpa_mask

    return sdpa_mask(*shape, allow_is_causal_skip=False, **more)


def meet_theirs(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **more: Any,
) -> tuple[Tensor, None]:
    """Compute attention for a module of transformers; the taps of the current pass are offered its block.

    query `[text, head, query, head_dim]`, key and value `[text, key head, key, head_dim]`, after positions; mask: bool
    or additive; `more` may hold softcap, s_aux (sinks, one score per head) and position_bias.
    Returns the output `[text, query, head, head_dim]`, and no weights.
    """
    current = CURRENT.get()
    if isinstance(current, Trial):
        current.calls.append((module, query.shape[2], key.shape[2], query.shape[1]))
    layer: int | None = None
    taps: Sequence[Tap] = ()
    if isinstance(current, Pass):
        layer = current.places.layer(module, current)
        taps = () if layer is None else current.taps
    block = block_of(module, query, key, value, attention_mask, scaling, more, layer or 0)
    output = meet(block, taps)
    if isinstance(current, Pass) and layer is not None:
        current.masks[layer] = None if block.mask is None else block.mask.shown
        if layer == current.last:
            raise Ended
    return output.transpose(1, 2).contiguous(), None


def block_of(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scaling: float | None,
    more: dict[str, Any],
    layer: int,
) -> Block:
    """Make a block of what a module of transformers hands to its attention function."""
    texts, heads, queries, size = query.shape
    shared = heads // key.shape[1]
    if shared > 1:  # heads in groups have the same keys and values
        key, value = key.repeat_interleave(shared, dim=1), value.repeat_interleave(shared, dim=1)
    shown, bias = allowed_and_bias(mask, key.shape[2])
    terms = {"bias": bias} if bias is not None else {}
    if more.get("position_bias") is not None:
        terms["position"] = more["position_bias"][..., -queries:, :]
    every = slice(0, queries)
    run = Run(0, list(range(texts)), slice(0, texts * queries), queries, [], None, True, key.shape[2])
    return Block(
        layer=layer,
        numbers=range(heads),
        run=run,
        texts=slice(0, texts),
        queries=every,
        keys=slice(0, key.shape[2]),
        query=query,
        key=key,
        value=value,
        mask=None if shown is None else LayerMask(shown, None),
        scale=size**-0.5 if scaling is None else scaling,
        positional=partial(parts_of, terms) if terms else None,
        given=query[:, 0],
        projection=unknown_projection,
        softcap=more.get("softcap"),
        sinks=more.get("s_aux", getattr(module, "sinks", None)),
    )


def unknown_projection() -> Tensor:
    """Raises NotImplementedError: which of their modules joins the heads is not looked for."""
    raise NotImplementedError("the output projection of a network that transformers runs")


def parts_of(terms: dict[str, Tensor], block: Block) -> dict[str, Tensor]:
    """Return the terms of a whole layer as they are for a block."""
    found = {}
    for name, term in terms.items():
        some = term[block.texts] if term.shape[0] > 1 else term
        some = some[:, list(block.numbers)] if some.shape[1] > 1 else some
        some = some[:, :, block.queries] if some.shape[2] > 1 else some
        found[name] = some[..., block.keys]
    return found


def allowed_and_bias(mask: Tensor | None, keys: int) -> tuple[Tensor | None, Tensor | None]:
    """Split a mask of transformers into what is allowed, bool, and what is added where it is; None for nothing."""
    if mask is None:
        return None, None
    mask = mask[..., :keys]
    if mask.dtype == torch.bool:
        return (None if bool(mask.all()) else mask), None
    hidden = mask <= torch.finfo(mask.dtype).min / 2
    bias = mask.masked_fill(hidden, 0.0)
    return (~hidden if bool(hidden.any()) else None), (bias if bool(bias.any()) else None)


@dataclass
class Places:
    """Which modules of a network call our function, and which layers of which part they are.

    layers: by module, the part and the layers that it computes, one per call in a pass; heads: by part.
    """

    layers: dict[int, tuple[str, list[int]]]
    heads: dict[str, int]

    @classmethod
    def of(cls, network: nn.Module, trial: Trial, encoder: nn.Module | None, decoder_tokens: int) -> "Places":
        """Tell parts and layers apart by a pass in which the encoder reads more tokens than the decoder is fed.

        A layer's number is its module's index in its stack; where a module is called several times, the order of calls.
        """
        names = {id(module): name for name, module in network.named_modules()}
        of_encoder = {id(module) for module in encoder.modules()} if encoder is not None else set()
        found: dict[str, list[nn.Module]] = {part: [] for part in PARTS}
        heads: dict[str, int] = {}
        for module, _, keys, count in trial.calls:
            if encoder is None or id(module) in of_encoder:
                part = "encoder"
            else:
                part = "decoder" if keys == decoder_tokens else "cross"
            found[part].append(module)
            heads.setdefault(part, count)
        layers: dict[int, tuple[str, list[int]]] = {}
        for part, modules in found.items():
            for module, number in zip(modules, numbers_of([names[id(one)] for one in modules]), strict=True):
                layers.setdefault(id(module), (part, []))[1].append(number)
        return cls(layers, heads)

    def layer(self, module: nn.Module, current: Pass) -> int | None:
        """Return the layer that a call of a module computes; None if it is not of the part of the pass."""
        part, layers = self.layers.get(id(module), ("", []))
        if part != current.part:
            return None
        call = current.calls[id(module)]
        current.calls[id(module)] += 1
        return layers[call % len(layers)]

    def numbers(self, part: str) -> list[int]:
        """Return the layers of a part that have attention, ascending."""
        return sorted(number for its, numbers in self.layers.values() if its == part for number in numbers)


def numbers_of(names: Sequence[str]) -> list[int]:
    """Number modules, in the order of their calls, by the first index in their names that tells them apart."""
    indices = [[int(one) for one in name.split(".") if one.isdigit()] for name in names]
    if not names or len(set(names)) < len(names) or not all(indices):
        return list(range(len(names)))
    for numbers in zip(*indices, strict=False):
        if len(set(numbers)) == len(names):
            return list(numbers)
    return list(range(len(names))) if len(names) > 1 else [indices[0][0]]
