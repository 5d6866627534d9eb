"""Put our attention function into networks of transformers, where queries meet keys.

transformers accepts a registered attention function, which most of its networks call instead of their own. Ours builds
a `Block` from its arguments and passes it to `meet`, as the walk through our own networks does:

    network(**inputs) ──► attention module ──► _tap_transformers(q, k, v, mask) ──► meet(block, taps) ──► output

    with passing(TappedPass(places, part, run, taps, mask, real)):
        network(**inputs)

Where a network computes attention by hand (Falcon, BLOOM, GPT-Neo, MPNet, DeBERTa), a mode of torch sees its products
and puts `meet` in their place (`attncli.models.hand_written`).
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attncli.attention import MASKS, self_mask
from attncli.attention.masks import Rule
from attncli.models.block import Block, Tap, meet
from attncli.models.calls import block_of, by_head, no_projection
from attncli.models.hand_written import HandWritten, Product, WrittenWeights
from attncli.models.rows import LayerMask, RowRun
from attncli.models.weighing import weigh


def for_all_queries(mask: str) -> list[Rule]:
    """Return a mask's rules that are the same for all queries, which transformers can apply to any network."""
    two = torch.ones(1, 2, dtype=torch.bool)
    return [rule for rule in MASKS[mask] if self_mask(two, rule).shape[2] == 1]


def general_masks() -> list[str]:
    """Return the masks that transformers can apply to any network: those with only such rules."""
    return [name for name, rules in MASKS.items() if len(for_all_queries(name)) == len(rules)]


_PROVEN = 1e-2  # tolerance of a match found in a network, also in half precision
NAME = "attncli"  # the name under which transformers registers our function
_PARTS = ("encoder", "decoder", "cross")


@dataclass
class TappedPass:
    """A forward pass whose blocks are offered to taps.

    part: the attention whose blocks are offered, for the texts of `run`. mask: a name of MASKS. real: False at [PAD],
    bool `[text, key]`. last: the layer after which the pass may end, if any. values: that layer's outputs are needed.
    stack: the half of the network whose first vectors are kept in `x`, `[text, token, hidden_size]`, or replaced by it.
    decoded: the output of a decoder's last layer, after which an encoder-decoder's pass ends. masks: by the id of each
    mask that layers received, that mask and its converted form.
    """

    places: "AttentionModules"
    part: str
    run: RowRun
    taps: Sequence[Tap]
    mask: str
    real: Tensor
    last: int | None = None
    values: bool = True
    x: Tensor | None = None
    beginning: Tensor | None = None
    inside: str | None = None
    decoded: Tensor | None = None
    masks: dict[int, tuple[Any, LayerMask | None]] = field(default_factory=dict)
    calls: Counter[int] = field(default_factory=Counter)

    @property
    def half(self) -> str:
        """Return the half of an encoder-decoder that contains the part."""
        return "encoder" if self.part == "encoder" else "decoder"


@dataclass
class SearchPass:
    """A forward pass that finds which modules call our function, and which modules join their heads.

    calls: of our function: the module, its block, and the heads' joined outputs `[text, query, head * size]`.
    projections: by module that calls, the module that multiplies its joined heads with W_O. tokens_first: the network
    computes `[token, text, hidden_size]`.
    """

    calls: list[tuple[nn.Module, Block, Tensor]] = field(default_factory=list)
    tokens_first: bool = False
    projections: dict[int, nn.Module] = field(default_factory=dict)

    @contextmanager
    def watching(self, network: nn.Module) -> Iterator[None]:
        """Watch the modules of a network that may be W_O."""
        from transformers.pytorch_utils import Conv1D

        linear = [module for module in network.modules() if isinstance(module, nn.Linear | Conv1D)]
        hooks = [module.register_forward_hook(self.multiplied) for module in linear]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def multiplied(self, module: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Check, after every Linear and Conv1D, if the module multiplies the joined outputs of the heads."""
        if not self.calls or not inputs or not isinstance(inputs[0], Tensor):
            return
        caller, block, joined = self.calls[-1]
        given = inputs[0].reshape(-1, inputs[0].shape[-1])
        joined = joined.flatten(0, 1).to(given.dtype)
        if given.shape != joined.shape or not torch.equal(given, joined):
            return
        weight = by_head(module, block)
        parts = torch.einsum("rhd,nhd->rn", given.unflatten(-1, (len(block.numbers), -1)).double(), weight.double())
        bias = getattr(module, "bias", None)
        made = parts if bias is None else parts + bias.double()
        if torch.allclose(made, output.flatten(0, -2).double(), rtol=_PROVEN, atol=_PROVEN):
            self.projections[id(caller)] = module


_CURRENT: ContextVar[TappedPass | SearchPass | None] = ContextVar("the current forward pass", default=None)


class _PassEnded(BaseException):
    """Raised when a pass has computed its results. A BaseException, so that transformers does not catch it."""


@contextmanager
def passing(current: TappedPass | SearchPass, by_hand: nn.Module | None = None) -> Iterator[None]:
    """Observe the forward pass inside the block. It ends early when nothing else is needed.

    by_hand: as in `AttentionModules`, for a `SearchPass`.
    """
    if isinstance(current, TappedPass):
        by_hand = current.places.by_hand
    token = _CURRENT.set(current)
    try:
        with nullcontext() if by_hand is None else _InPlace(by_hand):
            yield
    except _PassEnded:
        pass
    finally:
        _CURRENT.reset(token)


class _InPlace(TorchFunctionMode):
    """Calls our place where the code of a network multiplies weights with values."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.followed = HandWritten()
        self.running: list[nn.Module] = []  # the innermost last

    def __enter__(self) -> Any:
        self.hooks: list[Any] = []
        for module in self.network.modules():
            self.hooks.append(module.register_forward_pre_hook(lambda one, _: self.running.append(one)))
            self.hooks.append(module.register_forward_hook(self._leave))
        return super().__enter__()

    def _leave(self, *_: Any) -> None:
        self.running.pop()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for hook in self.hooks:
            hook.remove()

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        found = self.followed.find(name, args, kwargs)
        if found is not None and self._is_place(*found):
            weights, product = found
            current = _CURRENT.get()
            block = weights.block(product.right, len(current.run.texts) if isinstance(current, TappedPass) else 1)
            return product.result(_offer(self.running[-1], block, block.mask))
        result = func(*args, **kwargs)
        self.followed.follow(name, args, kwargs, result)
        return result

    def _is_place(self, weights: WrittenWeights, product: Product) -> bool:
        """Return whether to use our place here: in a search, whether it gives the result of the network's own
        product."""
        current = _CURRENT.get()
        if isinstance(current, TappedPass):
            return id(self.running[-1]) in current.places.layers
        try:
            made = product.result(meet(weights.block(product.right, 1), (), weigh))
        except RuntimeError:  # queries and keys of other shapes
            return False
        return torch.allclose(made, product.restore(product.left @ product.right), rtol=_PROVEN, atol=_PROVEN)


def find_attention(network: Any, encoder: Any, decoder: Any, inputs: dict[str, Tensor]) -> "AttentionModules | None":
    """Prepare a network for our place, and find its modules of attention: those that call a registered
    function, else those that compute it by hand.

    encoder, decoder: its halves without a head, identical for a network with one stack. inputs: of one text; a decoder
    reads fewer tokens than its encoder. Returns None if no attention has one map per head.
    """
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, _tap_transformers)
    AttentionMaskInterface.register(NAME, _their_mask)
    network.config.use_cache = False
    decoder.config.use_cache = False
    halves: dict[str | None, Any] = {None: encoder}
    if decoder is not encoder:
        halves = {"encoder": encoder, "decoder": decoder}
        decoder.register_forward_hook(leave)
    for half, stack in halves.items():
        stack.register_forward_pre_hook(partial(enter, half))
        stack.get_input_embeddings().register_forward_hook(partial(_embedded, half))
    tokens = [inputs[name].shape[1] for name in ("input_ids", "decoder_input_ids") if name in inputs]
    for name, by_hand in ((NAME, None), ("eager", network)):
        trial = SearchPass()
        set_attention(network, name)
        errors = nullcontext() if by_hand else suppress(Exception)
        with errors, torch.inference_mode(), trial.watching(network), passing(trial, by_hand):
            network(**inputs)
        half = None if encoder is decoder else encoder
        places = AttentionModules.of(network, trial, half, tokens, by_hand is not None)
        if places.parts:
            return places
    return None


def set_attention(network: nn.Module, name: str) -> None:
    """Set the attention function of a network, and of the networks in it, which may have a config of their own."""
    for one in network.modules():
        if is_of_transformers(one):
            one.set_attn_implementation(name)  # type: ignore[operator]


def is_of_transformers(network: Any) -> bool:
    """Return True for a network of transformers. Importing transformers takes two seconds; other networks need none."""
    loaded = sys.modules.get("transformers.modeling_utils")
    return loaded is not None and isinstance(network, loaded.PreTrainedModel)


def enter(half: str | None, *_: Any) -> None:
    """Record in the current pass which half of an encoder-decoder runs."""
    current = _CURRENT.get()
    if isinstance(current, TappedPass):
        current.inside = half


def _embedded(half: str | None, module: nn.Module, inputs: Any, output: Tensor) -> Tensor | None:
    """Keep the token embeddings, or replace them."""
    current = _CURRENT.get()
    if isinstance(current, SearchPass):
        current.tokens_first = len(output) > 1
    if not isinstance(current, TappedPass) or current.inside != half or half not in (None, current.half):
        return None
    if current.beginning is not None:
        output = current.beginning.transpose(0, 1) if current.places.tokens_first else current.beginning
    current.x = output.transpose(0, 1) if current.places.tokens_first else output
    return output


def leave(module: nn.Module, inputs: Any, output: Any) -> None:
    """Keep a decoder's output, and end the pass of an encoder-decoder, whose head runs separately."""
    current = _CURRENT.get()
    if isinstance(current, TappedPass):
        current.decoded = output[0]
        raise _PassEnded


def _their_mask(*shape: Any, allow_is_causal_skip: bool = True, dtype: Any = None, **more: Any) -> Tensor | None:
    """Return the allowed cells, bool `[text, 1, query, key]`. A causal mask is never left to the attention function."""
    from transformers.masking_utils import sdpa_mask

    return sdpa_mask(*shape, allow_is_causal_skip=False, **more)


def _tap_transformers(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **more: Any,
) -> tuple[Tensor, None]:
    """Compute attention for a module of transformers, and offer its block to the taps of the current pass.

    query `[text, head, query, head_dim]`, key and value `[text, key head, key, head_dim]`, after positions; mask: bool
    or additive; `more` may hold softcap, s_aux (sinks, one score per head) and position_bias.
    Returns the output `[text, query, head, head_dim]`, and no weights.
    """
    block = block_of(module, query, key, value, attention_mask, scaling, more)
    return _offer(module, block, attention_mask).transpose(1, 2).contiguous(), None


def _offer(module: nn.Module, block: Block, mask: Any) -> Tensor:
    """Offer a module's block to the taps of the current pass. mask: the one that the block's was made from, or None.

    Returns the output `[text, head, query, head_dim]`.
    """
    current = _CURRENT.get()
    layer = current.places.layer(module, current) if isinstance(current, TappedPass) else None
    if not isinstance(current, TappedPass) or layer is None:
        output = meet(block, (), weigh)
        if isinstance(current, SearchPass):
            current.calls.append((module, block, output.transpose(1, 2).flatten(2)))
        return output
    if id(mask) not in current.masks:  # most layers receive the same mask
        current.masks[id(mask)] = mask, requested_mask(block.mask, current)
    block = block._replace(
        layer=layer,
        run=current.run,
        mask=current.masks[id(mask)][1],
        projection=partial(current.places.projection, module, block),
    )
    if layer == current.last and not current.values:
        block = block._replace(value=block.value[..., :0])
    output = meet(block, current.taps, weigh)
    current.run.masks[layer] = block.mask
    if layer == current.last:
        raise _PassEnded
    return output


def requested_mask(mask: LayerMask | None, current: TappedPass) -> LayerMask | None:
    """Derive the requested mask from a layer's training mask. The layer's window remains.

    A causal mask is extended by its transpose: keys allowed in the past are also allowed in the future. Then the named
    mask is applied.
    """
    if current.part == "cross":
        return mask
    shown = self_mask(current.real, *MASKS[current.mask])
    if mask is not None and mask.shown is not None:
        trained = mask.shown
        shown = shown & (trained | trained.mT if trained.shape[2] > 1 else trained)
    return None if bool(shown.all()) else LayerMask(shown, None)


@dataclass
class AttentionModules:
    """The modules of a network that call our function, with their parts and layers.

    layers: by module, its part and the layers that it computes, one per call in a pass. blocks: one of each part.
    projections: by module, the module that multiplies its joined heads with W_O. sinks: the parts with sink scores.
    by_hand: the network, if its own code computes attention. tokens_first: as in `SearchPass`.
    """

    layers: dict[int, tuple[str, list[int]]]
    blocks: dict[str, Block]
    projections: dict[int, nn.Module]
    sinks: frozenset[str]
    by_hand: nn.Module | None
    tokens_first: bool

    @classmethod
    def of(
        cls, network: nn.Module, trial: SearchPass, encoder: nn.Module | None, tokens: Sequence[int], by_hand: bool
    ) -> "AttentionModules":
        """Find parts and layers by a pass in which the encoder reads more tokens than the decoder.

        A layer's number is its module's index in its stack, or the order of calls if a module is called several times.
        A network of one stack is an encoder if a token attends to later ones, else a decoder. A module whose attention
        is not one map of all tokens is omitted (windows, pooled tokens).
        """
        names = {id(module): name for name, module in network.named_modules()}
        of_encoder = {id(module) for module in encoder.modules()} if encoder is not None else set()
        found: dict[str, list[nn.Module]] = {part: [] for part in _PARTS}
        blocks: dict[str, Block] = {}
        sinks: set[str] = set()
        shown = [None if block.mask is None else block.mask.shown for _, block, _ in trial.calls]
        only = "encoder" if any(one is None or bool(one.triu(1).any()) for one in shown) else "decoder"
        others = {id(one) for one, block, _ in trial.calls if not {block.run.length, block.run.keys} <= {*tokens}}
        for module, block, _ in trial.calls:
            if id(module) in others:
                continue
            if encoder is None:
                part = only
            elif id(module) in of_encoder:
                part = "encoder"
            else:
                part = "decoder" if block.run.keys == tokens[-1] else "cross"
            found[part].append(module)
            blocks.setdefault(part, block)
            if block.sinks is not None:
                sinks.add(part)
        layers: dict[int, tuple[str, list[int]]] = {}
        for part, modules in found.items():
            for module, number in zip(modules, numbers_of([names[id(one)] for one in modules]), strict=True):
                layers.setdefault(id(module), (part, []))[1].append(number)
        watched = network if by_hand else None
        return cls(layers, blocks, trial.projections, frozenset(sinks), watched, trial.tokens_first)

    def projection(self, module: nn.Module, block: Block) -> Tensor:
        """Return W_O of a module's layer, `[hidden_size, head, head_dim]`. Raises RequestError if there is none."""
        found = self.projections.get(id(module))
        return no_projection() if found is None else by_head(found, block).to(block.value.dtype)

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(part for part in _PARTS if part in self.blocks)

    def layer(self, module: nn.Module, current: TappedPass) -> int | None:
        """Return the layer that a call of a module computes; None if it belongs to another part."""
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
    """Number modules, in the order of their calls, by the first index in their names that distinguishes them."""
    indices = [[int(one) for one in name.split(".") if one.isdigit()] for name in names]
    if not names or len(set(names)) < len(names) or not all(indices):
        return list(range(len(names)))
    for numbers in zip(*indices, strict=False):
        if len(set(numbers)) == len(names):
            return list(numbers)
    return list(range(len(names))) if len(names) > 1 else [indices[0][0]]
