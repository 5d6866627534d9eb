"""Capture the attention of any PyTorch network while it runs: `attncli.capture`.

    with attncli.capture(tokens=tokens) as seen:
        network(x)
    seen.record().weights

A torch mode sees every torch call inside the block, even in other people's code, and changes no module. It sees:

    F.scaled_dot_product_attention    queries, keys, values and mask are its arguments
    F.multi_head_attention_forward    its projections are computed a second time
    flex_attention                    its functions of scores and masks are evaluated for each cell
    softmax of a product              attention written by hand: its weights, once they multiply values

The network's own kernels compute its results; weights are computed in addition, at the one place where queries meet
keys (`attncli.models.block.meet`). With `taps`, the network continues with the output of that place.
"""

import inspect
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.module import (
    _global_forward_hooks_with_kwargs,
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from attncli.base.arrays import Bools, Floats, as_numpy
from attncli.base.errors import RequestError
from attncli.base.printable import first_line
from attncli.models.block import Block, Tap, meet, select_numbers
from attncli.models.calls import block_of, by_head, no_projection
from attncli.models.devices import STORAGE
from attncli.models.hand_written import PRODUCTS, HandWritten, Product, WrittenWeights, is_parameter, tensors_of
from attncli.models.taps import transformed_lengths
from attncli.models.weighing import map_dtype, weigh
from attncli.record import AttentionRecord
from attncli.record.making import as_tokens, joined_steps, record_of
from attncli.record.parts import ModelInfo
from attncli.text.tokens import Tokens

_TRANSPOSES = {"transpose", "permute", "swapaxes", "swapdims", "movedim", "moveaxis", "t", "adjoint", "__get__"}
_CROSS = {
    "cross_attn",
    "crossattention",
    "cross_attention",
    "encoder_attn",
    "EncDecAttention",
    "multihead_attn",
    "attn2",
}
_SELF = {"self_attn", "self_attention", "SelfAttention", "attn1"}
_FUSED = nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention  # have a kernel for a whole module


@dataclass(eq=False)
class Call:
    """One call of attention.

    name: the path of its module. layer: the number of that module, in the order of first calls. number: the number of
    the call among the module's calls. kind: "encoder", "decoder" or "cross". shape: of all its weights, `[text,
    head, query, key]`. heads, queries: the numbers of those that are kept. weights: their weights, `[text, head, query,
    key]`. allowed: the cells that its mask allows, bool `[text, query, key]`; None if unknown, as in hand-written
    attention. is_norm: the weights are multiplied by ‖v W_O‖ of each key. marks: one number of each key, `[text, key]`,
    by which a later call recognizes it; None if unknown.
    """

    name: str
    layer: int
    number: int
    kind: str
    shape: tuple[int, int, int, int]
    heads: Sequence[int]
    queries: range
    weights: Floats
    allowed: Bools | None
    is_norm: bool = False
    marks: Floats | None = None

    def __repr__(self) -> str:
        texts, heads, queries, keys = self.shape
        batch = f"{texts} texts, " if texts > 1 else ""
        return f"<{self.name or 'attention'}: {batch}{heads} heads, {queries} x {keys}, {self.kind}>"


SAME_KEY = 1e-3  # of the largest number: a key that changes more between two calls is another one
_NO_TAPS = "taps can't read or change attention that is written by hand in this way"


class _Known(NamedTuple):
    """A tensor of hand-written attention, and its stage.

    what: "scores", a product of two activations; "exp" of scores; or "weights". keys: the number of keys of the scores.
    last: keys are the last dimension, otherwise the second to last. softmax: the weights before dropout, until they are
    kept.
    """

    what: str
    keys: int
    last: bool = True
    softmax: list[Tensor] | None = None


class _Keep(Tap):
    """Keeps the weights of some heads of a block. kept: `[text, head, query, key]`."""

    kept: Tensor

    def __init__(self, heads: Sequence[int]) -> None:
        self.heads = heads

    def begin(self, block: Block) -> Block:
        like = block.query.new_empty(0, dtype=map_dtype(block.query))
        self.kept = STORAGE.empty((len(block.query), len(self.heads), block.query.shape[2], block.key.shape[2]), like)
        return block

    def places(self, block: Block) -> Sequence[int]:
        return self.heads

    def out(self, part: Block) -> Tensor | None:
        """Return memory if all weights are computed in one part, and nothing needs gradients."""
        whole = self.kept.shape == (*part.query.shape[:3], part.key.shape[2])
        return self.kept if whole and not torch.is_grad_enabled() else None

    def weights(self, part: Block, weights: Tensor) -> None:
        if weights is not self.kept:
            ours, where = select_numbers(part, self.heads)
            self.kept[:, where, part.queries, part.keys] = weights[:, ours].detach().to(self.kept.dtype)


class _Give(Tap):
    """Holds the weights of a block with their gradients, for a network that returns them."""

    def __init__(self, heads: Sequence[int]) -> None:
        self.heads = heads
        self.parts_of: list[Tensor] = []  # some queries each

    def places(self, block: Block) -> Sequence[int]:
        return self.heads

    def weights(self, part: Block, weights: Tensor) -> None:
        if self.heads:
            self.parts_of.append(weights)


def capture(
    network: nn.Module | None = None,
    *,
    tokens: Any = None,
    key_tokens: Any = None,
    tokenizer: Any = None,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    queries: slice = slice(None),
    calls: Sequence[int] | None = None,
    measure: str = "weight",
    taps: Sequence[Tap] = (),
) -> "Capture":
    """Return a context in which the attention of a PyTorch network is recorded as it runs.

    network: the network to record; None for everything that runs in this thread. tokens: of its texts, as for
    `record_of`, or the tokenizer's output for a batch. key_tokens: of the keys of cross-attention. tokenizer: names the
    tokens from the first ids that the network looks up; a tokenizer, or the name of a model. Without tokens and
    tokenizer, tokens are named by position. layers, heads, queries, calls: what to keep, by number; layers are counted
    in the order in which they run, calls per module. queries=slice(-1, None) avoids memory for all pairs of tokens, and
    heads=[] keeps only shapes. measure: "norm" keeps ‖α v W_O‖ instead of the weights α, where W_O is the module that
    reads the joined outputs. taps: read or change each block (`attncli.models.block.Tap`).

    It sees `F.scaled_dot_product_attention`, `nn.MultiheadAttention`, `flex_attention`, and attention written by hand
    whose weights are a softmax over the keys of a product of queries and keys. Compiled networks run uncompiled in the
    context. It does not see other threads, networks of torch.jit, or kernels of other packages.
    """
    if network is not None and not isinstance(network, nn.Module):
        raise RequestError(
            f"capture takes a network, an nn.Module, not {type(network).__name__}: omit it to capture all networks"
        )
    if isinstance(tokenizer, str):
        from attncli.models.hub import locate
        from attncli.text.tokenizer import read_backend

        tokenizer = read_backend(locate(tokenizer).path)
    return Capture(network, tokens, key_tokens, tokenizer, layers, heads, queries, calls, measure, list(taps))


class Capture(TorchFunctionMode):
    """The mode that sees calls, and afterwards holds what it has seen.

    calls: every attention that ran, in order. missed: attention without a map, and the reasons.
    """

    # The setting for compiled networks is shared by all threads, so the last capture to end restores it.
    _lock = threading.Lock()
    _begun = 0
    _stance: Any

    def __init__(
        self,
        network: nn.Module | None,
        tokens: Any,
        key_tokens: Any,
        tokenizer: Any,
        layers: Sequence[int] | None,
        heads: Sequence[int] | None,
        queries: slice,
        calls: Sequence[int] | None,
        measure: str,
        taps: list[Tap],
    ) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self.missed: list[str] = []
        self._network, self._tokens, self._key_tokens, self._tokenizer = network, tokens, key_tokens, tokenizer
        self._layers, self._heads, self._queries, self._calls, self._taps = layers, heads, queries, calls, taps
        self._measure = measure
        # With norms: a call, its block with values, and its outputs, until W_O reads them.
        self._waiting: tuple[Call, Block, Tensor] | None = None
        # Ids `[text, token]` that embeddings looked up, the id of the table, and True in a decoder.
        self._lookups: list[tuple[Tensor, int, bool]] = []
        self._paths: dict[int, str] = {}  # of modules, by id
        self._running: list[nn.Module] = []  # modules, the innermost last
        self._layer_of: dict[str, int] = {}
        self._count_of: Counter[str] = Counter()
        self._known: WeakIdKeyDictionary = WeakIdKeyDictionary()  # `_Known` of tensors, while these live
        self._in_blocks: set[str] = set()  # modules that compute their softmax in blocks of keys
        self._written = HandWritten()  # with taps, which need a whole block
        self._hooks: list[Any] = []
        self._thread = 0

    # --- while the network runs ---------------------------------------------------------------------------

    def __enter__(self) -> "Capture":
        if self._hooks:
            raise RequestError("this capture is already running: make another one for a nested block")
        self._thread = threading.get_ident()
        self._hooks = [
            register_module_forward_pre_hook(self._enter_module),
            register_module_forward_hook(self._leave_module, with_kwargs=True, always_call=True),
        ]
        with Capture._lock:
            if Capture._begun == 0:
                Capture._stance = torch.compiler.set_stance("force_eager")
                Capture._stance.__enter__()
            Capture._begun += 1
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        for hook in self._hooks:
            hook.remove()
            _global_forward_hooks_with_kwargs.pop(hook.id, None)  # which torch does not remove
        self._hooks = []
        self._running.clear()
        self._known.clear()
        self._written = HandWritten()
        super().__exit__(*error)
        with Capture._lock:
            Capture._begun -= 1
            if Capture._begun == 0:
                Capture._stance.__exit__(*error)

    def _enter_module(self, module: nn.Module, inputs: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        if not self._running:
            root = module if self._network is None else self._network
            # without the prefix of torch.compile
            paths = ((one, name.replace("_orig_mod.", "")) for name, one in root.named_modules())
            self._paths.update((id(one), name.removeprefix("_orig_mod")) for one, name in paths)
        self._running.append(module)
        if self._waiting is not None and type(module).__name__ in ("Linear", "Conv1D") and inputs:
            call, block, output = self._waiting
            joined = output.transpose(1, 2).flatten(2)
            if inputs[0].numel() == joined.numel() and torch.equal(inputs[0].reshape(joined.shape), joined):
                self._multiply_by_norms(call, block._replace(projection=partial(by_head, module, block)))
                self._waiting = None

    def _multiply_by_norms(self, call: Call, block: Block) -> None:
        """Multiply a call's weights by ‖v W_O‖ of each key."""
        with torch.no_grad():
            lengths = transformed_lengths(block.only(list(call.heads)))
        call.weights = call.weights * as_numpy(lengths)[:, :, None]
        call.is_norm = True

    def _leave_module(self, module: nn.Module, inputs: Any, options: Any, output: Any = None) -> Any:
        """Note that a module has ended. If torch has a kernel for the whole module, return that kernel's result.

        The mode prevents torch from using that kernel, and the replacement differs in the last bits. After an error
        torch passes no options.
        """
        if threading.get_ident() != self._thread or module not in self._running:
            return None
        while self._running[-1] is not module:  # modules that raised, and whose caller continued
            self._running.pop()
        try:
            outermost = [one for one in self._running if isinstance(one, _FUSED)] == [module]
            if not outermost or output is None or module.training or self._taps:
                return None
            with torch._C.DisableTorchFunction():
                return module.forward(*inputs, **options)
        finally:
            self._running.pop()

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self._network is not None and not any(id(one) in self._paths for one in self._running):
            return func(*args, **kwargs)
        if func in _BLOCKS:
            return self._meet(func, args, kwargs)
        name = getattr(func, "__name__", "")
        if self._taps and (by_hand := self._written.find(name, args, kwargs)) is not None:
            return self._tap_handwritten(*by_hand)
        result = func(*args, **kwargs)
        if self._taps:
            self._written.follow(name, args, kwargs, result)
        if isinstance(result, Tensor) and not result.is_nested:
            if func is F.embedding and args[0].dim() in (1, 2):
                inside = any(self._paths.get(id(one), "").startswith("decoder") for one in self._running)
                self._lookups.append((torch.atleast_2d(args[0].detach()), id(args[1]), inside))
            if name in PRODUCTS or self._known:
                try:
                    self._follow(name, args, kwargs, result)
                except Exception as error:  # as in `_meet`
                    if self._taps:
                        raise
                    self.missed.append(f"{self._name_of_module() or 'attention'}: {first_line(error)}")
        return result

    def _meet(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Keep the weights of a call. Return the network's own result, or with taps the changed one."""
        result = None if self._taps else func(*args, **kwargs)
        name = self._name_of_module()
        try:
            packed = func is F.scaled_dot_product_attention and self._running and _is_packed(self._running[-1], *args)
            result = self._keep_block((_packed if packed else _BLOCKS[func])(*args, **kwargs), name, result)
        except Exception as error:  # the network continues if no map can be made
            if self._taps:
                raise
            self.missed.append(f"{name or 'attention'}: {first_line(error)}")
        return result

    def _tap_handwritten(self, weights: WrittenWeights, product: Product) -> Tensor:
        """Replace hand-computed weights by a block, so that taps can change it.

        Raises RequestError if the block would not give the same weights.
        """
        name, block = self._name_of_module(), weights.block(product.right, self._texts)
        theirs = product.restore(weights.weights.to(product.right.dtype).reshape(product.left.shape) @ product.right)
        with torch.no_grad():
            same = torch.allclose(product.result(meet(block, (), weigh)), theirs, rtol=1e-3, atol=1e-5)
        if weights.changed or not same or name in self._in_blocks:
            raise RequestError(f"{name or 'attention'}: {_NO_TAPS}")
        return self._keep_block(_FoundBlock(block, False, False, lambda output, _: product.result(output)), name, None)

    def _keep_block(self, found: "_FoundBlock", name: str, result: Any) -> Any:
        """Keep the weights of a block. Return the result of the call, or with taps the changed one."""
        layer, chosen = self._begin(name, len(found.block.numbers))
        block = found.block._replace(layer=layer)
        kept = None
        if self._taps:
            keep, given = _Keep(chosen), _Give(range(len(block.numbers)) if found.returns_weights else ())
            output = meet(block, [*self._taps, keep, given], weigh)
            whole = torch.cat(given.parts_of, dim=2).to(block.query.dtype) if found.returns_weights else None
            result = found.result(output, whole)
            kept = keep.kept[:, :, self._queries]
        elif chosen:
            keep = _Keep(range(len(chosen)))
            with torch.no_grad():
                meet(block.only(chosen).bare.some_queries(self._queries), [keep], weigh)
            kept = keep.kept
        shape = (*block.query.shape[:3], block.key.shape[2])
        mask = block.allowed()
        mask = block.query.new_ones(1, 1, 1, dtype=torch.bool) if mask is None else mask.any(dim=1)
        later = shape[2] > 1 if mask.numel() == 1 else bool(_sees_later(mask.any(dim=0).expand(shape[2:])))
        allowed = None if kept is None else as_numpy(mask.expand(shape[0], *shape[2:])[:, self._queries])
        call = self._keep(name, shape, chosen, kept, allowed, later, found.other_keys)
        call.marks = as_numpy(block.key[:, 0, :, 0].detach())
        if self._measure == "norm" and chosen:
            if block.projection is not no_projection:
                self._multiply_by_norms(call, block)
            else:
                outputs: Tensor = result[0] if isinstance(result, tuple) else result
                self._waiting = call, block, outputs.detach().reshape(*shape[:3], -1)
        return result

    def _follow(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], result: Tensor) -> None:
        """Find hand-written attention: a product of two activations, its softmax over keys, and a product with values.

        Scores and weights are followed through operations that keep their keys: scales, masks, dropout, changes of
        shape and dtype.
        """
        tensors = list(tensors_of(args, kwargs))
        known = [one for one in tensors if one in self._known]
        if name in PRODUCTS:
            tensors = tensors[1:] if name == "baddbmm" else tensors
            weights = next((one for one in known if self._known[one].what != "scores"), None)
            if weights is None:
                if len(tensors) > 1 and not any(map(is_parameter, tensors)):
                    self._known[result] = _Known("scores", result.shape[-1])
                return
            place = next(place for place, one in enumerate(tensors) if one is weights)
            if _sums_over_keys(args[0], place, self._known[weights].last):
                by_matmul = place == 0 and name != "einsum"
                self._keep_by_hand(weights, tensors[1] if by_matmul else None, result)
            return
        if not known or result in self._known or name == "linear":
            return
        [source, *_], found = known, self._known[known[0]]
        if found.what == "scores" and name in ("softmax", "_safe_softmax"):
            dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
            if dim in (-1, result.dim() - 1):
                self._known[result] = found._replace(what="weights", softmax=[result.detach()])  # until it meets values
        elif found.what == "scores" and name in ("exp", "exp_", "logsumexp", "logaddexp"):
            if name in ("exp", "exp_"):
                self._known[result] = found._replace(what="exp", softmax=[])
            else:
                self._refuse_by_hand()
        elif name in _TRANSPOSES and _is_transposed(source, result):
            self._known[result] = found._replace(last=not found.last)
        elif result.dim() and any(
            one.shape[-1:] == result.shape[-1:] and one.numel() == result.numel() for one in tensors
        ):
            self._known[result] = found
        elif result.shape[:-1] == source.shape[:-1]:  # keys that belong to no token, such as sinks
            if found.what == "scores" and name in ("cat", "concat", "pad") and len(known) == 1:
                self._known[result] = found
            elif found.softmax and name == "__getitem__" and result.shape[-1] == found.keys:
                self._known[result] = found._replace(softmax=[result.detach()])

    def _refuse_by_hand(self) -> None:
        """Drop the maps of a module that computes its softmax in blocks of keys."""
        name = self._name_of_module()
        self._in_blocks.add(name)
        self.calls = [call for call in self.calls if call.name != name]
        line = f"{name or 'attention'}: its softmax is computed in blocks of keys, so there is no complete map"
        if line not in self.missed:
            self.missed.append(line)

    def _keep_by_hand(self, weights: Tensor, value: Tensor | None, output: Tensor) -> None:
        """Keep weights that multiply values. The weights of a softmax are kept once, before dropout."""
        found, name = self._known[weights], self._name_of_module()
        if self._taps:
            raise RequestError(f"{name or 'attention'}: {_NO_TAPS}")
        if found.what == "exp":
            dim = -1 if found.last else -2
            if not torch.allclose(weights.sum(dim), torch.ones_like(weights.sum(dim)), atol=1e-3):
                self._refuse_by_hand()
            found.softmax.append(weights.detach() if found.last else weights.detach().mT)
            self._known[weights] = found._replace(what="weights")
        if not found.softmax or name in self._in_blocks:
            return
        texts = self._texts

        def heads(x: Tensor) -> Tensor:
            """Return `[text, head, token, size]`."""
            if x.dim() == 3 and len(x) % texts == 0:  # heads of all texts, one after another
                return x.reshape(texts, -1, *x.shape[1:])
            return x.reshape(-1, *x.shape[-3:]) if x.dim() > 3 else x[(None,) * (4 - x.dim())]

        weights = heads(found.softmax.pop())
        _, chosen = self._begin(name, weights.shape[1])
        kept = None
        if chosen:
            kept = (weights if len(chosen) == weights.shape[1] else weights[:, chosen])[:, :, self._queries]
            kept = STORAGE.empty(kept.shape, kept).copy_(kept)  # the network may overwrite its own tensor
        later = bool(_sees_later((weights[:, 0] != 0).any(dim=0)))
        call = self._keep(name, tuple(weights.shape), chosen, kept, None, later, False)
        if self._measure == "norm" and chosen and value is not None:
            value, output = heads(value.detach()), heads(output.detach())
            self._waiting = call, block_of(None, output, value, value, None, None, {}), output

    @property
    def _texts(self) -> int:
        """The number of texts, from the first ids that were looked up."""
        return len(self._lookups[0][0]) if self._lookups else 1

    def _name_of_module(self) -> str:
        return next((self._paths[id(one)] for one in reversed(self._running) if id(one) in self._paths), "")

    def _begin(self, name: str, count: int) -> tuple[int, list[int]]:
        """Return the layer of a module's attention, and the heads out of `count` to keep from this call."""
        layer = self._layer_of.setdefault(name, len(self._layer_of))
        wanted = self._layers is None or layer in self._layers
        if not wanted or not (self._calls is None or self._count_of[name] in self._calls):
            return layer, []
        return layer, [head for head in range(count) if self._heads is None or head in self._heads]

    def _keep(
        self,
        name: str,
        shape: tuple[int, ...],
        heads: list[int],
        weights: Tensor | None,
        allowed: Bools | None,
        later: bool,
        other_keys: bool,
    ) -> Call:
        """Keep a call with the wanted rows of some heads, and return it. later: a query may see keys after it."""
        texts, of_all, queries, keys = shape
        parts = name.split(".")
        before = next((call for call in reversed(self.calls) if call.name == name), None)
        grows = before is not None and before.shape[3] + queries == keys
        if _CROSS & {*parts} or (not _SELF & {*parts} and (other_keys or (queries != keys and not grows))):
            kind = "cross"
        elif any(part.startswith("encoder") for part in parts):
            kind = "encoder"
        elif any(part.startswith("decoder") for part in parts):
            kind = "decoder"
        else:
            kind = "encoder" if later else "decoder"
        rows = (range(queries) if kind == "cross" else range(keys - queries, keys))[self._queries]
        if weights is None:
            found: Floats = np.zeros((texts, 0, len(rows), keys), np.float32)
        else:
            found = as_numpy(weights.float() if weights.dtype.itemsize < 4 else weights)
        layer, number = self._layer_of[name], self._count_of[name]
        whole = texts, of_all, queries, keys
        self._count_of[name] += 1
        self.calls.append(Call(name, layer, number, kind, whole, heads, rows, found, allowed))
        return self.calls[-1]

    # --- afterwards ---------------------------------------------------------------------------------------

    def __getitem__(self, name: str | int) -> Call:
        """Return the first call of a module, by its path or the number of its layer."""
        found = next((call for call in self.calls if name in (call.name, call.layer)), None)
        if found is None:
            names = ", ".join({repr(call.name): None for call in self.calls})
            raise RequestError(f"no attention ran in {name!r}; it ran in {names or 'no module'}")
        return found

    def __repr__(self) -> str:
        if not self.calls:
            return f"<no map could be made of {self.missed[0]}>" if self.missed else "<no attention was seen>"
        parts = []
        for kind in dict.fromkeys(call.kind for call in self.calls):
            of_kind = [call for call in self.calls if call.kind == kind]
            sizes = {call.shape[1:] for call in of_kind}
            layers = len({call.layer for call in of_kind})
            size = "several sizes" if len(sizes) > 1 else "{} heads, {} x {}".format(*sizes.pop())
            parts.append(f"{kind}: {layers} layers, {size}")
        return f"<{len(self.calls)} attentions · {' · '.join(parts)}>"

    def records(
        self, kind: str | None = None, *, layers: Sequence[int] | None = None, call: int | None = None
    ) -> list[AttentionRecord]:
        """Return a record of each text: its maps `[layer, head, query, key]`, of layers in the order of their calls.

        kind: "encoder", "decoder" or "cross", if there are several. layers: the layers to take, by default all. call:
        the number of the call; without it, calls whose keys grow by their queries, as with a cache, are joined into one
        causal map.
        Raises RequestError if nothing was seen, if layers have different shapes, and if texts change places between
        calls, as in beam search.
        """
        if not self.calls:
            raise RequestError(
                f"no map could be made of {self.missed[0]}"
                if self.missed
                else "no attention was seen: call the network inside the block, in this thread; kernels of other "
                "packages are not seen"
            )
        kinds = list(dict.fromkeys(one.kind for one in self.calls))
        if kind is None and len(kinds) > 1:
            raise RequestError(f"there are {' and '.join(kinds)} attentions: choose one, as in record({kinds[0]!r})")
        chosen: dict[int, list[Call]] = {}
        for one in self.calls:
            wanted = (layers is None or one.layer in layers) and call in (None, one.number)
            if one.heads and one.kind == (kind or kinds[0]) and wanted:
                chosen.setdefault(one.layer, []).append(one)
        if not chosen:
            raise RequestError(
                f"no such attention: there is {' and '.join(kinds)} attention in layers 0 to {len(self._layer_of) - 1}"
            )
        joined = [_join_calls(calls) for calls in chosen.values()]
        without = [one.name for one in joined if self._measure == "norm" and not one.is_norm]
        if without:
            raise RequestError(
                f"norms need the output projection, but none reads the outputs of {without[0] or 'the attention'} "
                "directly: omit measure"
            )
        shapes = {one.weights.shape for one in joined}
        if len(shapes) > 1:
            sizes = "; ".join(f"layer {one.layer} {list(one.weights.shape)}" for one in joined)
            raise RequestError(
                f"layers have different shapes [text, head, query, key]: {sizes}: choose some with layers=[...]"
            )
        return [self._record(joined, text) for text in range(len(joined[0].weights))]

    def record(self, kind: str | None = None, *, text: int = 0, **options: Any) -> AttentionRecord:
        """Return the record of one text, the first by default. Options and errors are those of `records`."""
        found = self.records(kind, **options)
        if not 0 <= text < len(found):
            raise RequestError(f"there is no text {text}: the batch has {len(found)}, counted from 0")
        return found[text]

    def page(self, path: str | Path | None = None, kind: str | None = None, *, text: int = 0, **options: Any) -> str:
        """Return an HTML document of one text, as `AttentionRecord.page`. `attncli.page.page` takes several."""
        return self.record(kind, text=text).page(path, **options)

    def _record(self, calls: list[Call], text: int) -> AttentionRecord:
        weights = np.stack([call.weights[text] for call in calls])
        queries, keys = weights.shape[2:]
        kind = calls[0].kind
        mask, rows = None, None
        if all(call.allowed is not None for call in calls):
            mask = np.stack([call.allowed[text] for call in calls])  # type: ignore[index]
        if kind == "cross":
            given = self._tokens if self._key_tokens is None else self._key_tokens
            key_tokens = self._name_tokens(given, text, keys, False)
            tokens = self._name_tokens(self._tokens, text, queries, True)
        else:
            if self._tokens is not None and len({one.kind for one in self.calls}) == 1:
                count = len(self._given_tokens(self._tokens, text))
                if count != keys:
                    raise RequestError(f"{count} tokens were given, but the network read {keys}: give one for each")
            tokens, key_tokens = self._name_tokens(self._tokens, text, keys, False), None
            if queries < keys:
                rows = list(calls[0].queries)
                tokens, key_tokens = tokens.take(rows), tokens
        found = record_of(
            weights,
            tokens,
            key_tokens,
            mask=mask,
            layers=[call.layer for call in calls],
            heads=list(calls[0].heads),
            kind=kind,
            measure=self._measure,
            model=ModelInfo(
                type(self._network).__name__ if self._network is not None else "network",
                "",
                "",
                len(self._layer_of),
                max(calls[0].heads) + 1,
                0,
            ),
        )
        return replace(found, rows=rows)

    def _name_tokens(self, given: Any, text: int, count: int, decoder: bool) -> Tokens:
        """Name the tokens of a text: as given, by the ids that an embedding looked up, or by position."""
        if given is not None and len(found := self._given_tokens(given, text)) == count:
            return found
        looked_up = [one for one in self._lookups if one[2]] if decoder else self._lookups
        looked_up = looked_up or self._lookups
        if self._tokenizer is not None and looked_up:
            words = [ids for ids, table, _ in looked_up if table == looked_up[0][1]]  # the first table: the tokens'
            whole = next((ids for ids in words if ids.shape[1] == count), None)
            if whole is None:  # step by step, with a cache
                whole = torch.cat([ids for ids in words if len(ids) == len(words[0])], dim=1)[:, :count]
            if whole.shape[1] == count and text < len(whole):
                of_ids = getattr(self._tokenizer, "convert_ids_to_tokens", None)
                ids = whole[text].tolist()
                names = of_ids(ids) if of_ids else [self._tokenizer.id_to_token(one) for one in ids]
                return as_tokens([str(name) for name in names], "tokens")
        return as_tokens([str(place) for place in range(count)], "tokens")

    @staticmethod
    def _given_tokens(given: Any, text: int) -> Tokens:
        """Return the given tokens of a text."""
        if isinstance(given, Sequence) and given and not isinstance(given[0], str):
            given = given[text]
        return as_tokens(given, "tokens", batch=None if isinstance(given, list) else text)


class _FoundBlock(NamedTuple):
    """The block of an attention call, and how to build the call's result.

    other_keys: its keys belong to other tokens than its queries. returns_weights: it returns weights besides outputs.
    result: builds the call's result from outputs `[text, head, query, head_dim]` and the weights of all heads.
    """

    block: Block
    other_keys: bool
    returns_weights: bool
    result: Callable[[Tensor, Tensor | None], Any]


def _fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> _FoundBlock:
    """Return the block of `F.scaled_dot_product_attention`, without dropout.

    A causal mask begins at the first query and key, as torch documents. Without a dimension of heads there is one head.
    """
    lead = query.shape[:-2]
    if not enable_gqa:
        masks = [] if attn_mask is None else [attn_mask]
        lead = torch.broadcast_shapes(*(one.shape[:-2] for one in (query, key, value, *masks)))

    def heads(x: Tensor) -> Tensor:
        """Return `[text, head, token, size]`."""
        x = x if enable_gqa else x.expand(*lead, *x.shape[-2:])
        return x.reshape(-1, *x.shape[-3:]) if x.dim() > 3 else x.reshape(-1, 1, *x.shape[-2:])

    mask = attn_mask
    if is_causal:
        mask = query.new_ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
    if mask is not None:
        mask = mask[(None,) * (4 - mask.dim())] if enable_gqa or mask.dim() <= 2 else heads(mask)
    block = block_of(None, heads(query), heads(key), heads(value), mask, scale, {})
    return _FoundBlock(block, False, False, lambda output, _: output.reshape(*lead, *output.shape[-2:]))


def _is_packed(module: Any, query: Tensor | None = None, *others: Any) -> bool:
    """Return True if transformers turned the heads that share keys into queries, as it does for a single token."""
    groups = getattr(module, "num_key_value_groups", 1)
    heads = getattr(getattr(module, "config", None), "num_attention_heads", 0)
    return groups > 1 and query is not None and query.shape[1:3] == (heads // groups, groups)


def _packed(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, **options: Any) -> _FoundBlock:
    """Return the block of a single token whose heads are packed (`_is_packed`)."""
    texts, groups, shared = query.shape[:3]
    if attn_mask is not None and attn_mask.shape[1] > 1:
        attn_mask = attn_mask.reshape(texts, groups * shared, 1, -1)
    unpacked = query.reshape(texts, groups * shared, 1, -1)
    found = _fused(unpacked, key, value, attn_mask, **{**options, "enable_gqa": True})
    return found._replace(result=lambda output, _: output.reshape(texts, groups, shared, -1))


def _multi_head(*args: Any, **kwargs: Any) -> _FoundBlock:
    """Return the block of `nn.MultiheadAttention`, without dropout. Its projections are computed once more."""
    given = inspect.signature(F.multi_head_attention_forward).bind(*args, **kwargs)
    given.apply_defaults()
    a = given.arguments
    one_text = a["query"].dim() == 2
    inputs = [x[:, None] if one_text else x for x in (a["query"], a["key"], a["value"])]
    _, texts, width = inputs[0].shape
    separate = a["use_separate_proj_weight"]
    matrices = [a[f"{name}_proj_weight"] for name in "qkv"] if separate else a["in_proj_weight"].chunk(3)
    biases = (None,) * 3 if a["in_proj_bias"] is None else a["in_proj_bias"].chunk(3)
    query, key, value = (F.linear(*each) for each in zip(inputs, matrices, biases, strict=True))
    if a["bias_k"] is not None:
        key = torch.cat([key, a["bias_k"].expand(1, texts, width)])
        value = torch.cat([value, a["bias_v"].expand(1, texts, width)])
    query, key, value = (
        one.reshape(len(one), texts, a["num_heads"], -1).permute(1, 2, 0, 3) for one in (query, key, value)
    )
    if a["static_k"] is not None:
        key = a["static_k"].reshape(*key.shape[:2], -1, key.shape[-1])
    if a["static_v"] is not None:
        value = a["static_v"].reshape(*value.shape[:2], -1, value.shape[-1])
    if a["add_zero_attn"]:
        key, value = F.pad(key, (0, 0, 0, 1)), F.pad(value, (0, 0, 0, 1))
    padding, mask = a["key_padding_mask"], a["attn_mask"]
    padding = None if padding is None else padding.reshape(texts, 1, 1, -1)
    mask = mask.reshape(texts, -1, *mask.shape[-2:]) if mask is not None and mask.dim() == 3 else mask
    added = query.new_zeros(texts, 1, 1, key.shape[2])
    for one in (padding, mask):
        if one is not None:
            if one.dtype == torch.bool:  # True = hidden, unlike in `scaled_dot_product_attention`
                one = query.new_zeros(one.shape).masked_fill(one, -torch.inf)
            added = added + F.pad(one, (0, key.shape[2] - one.shape[-1]))

    def result(output: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor | None]:
        made = F.linear(output.permute(2, 0, 1, 3).flatten(2), a["out_proj_weight"], a["out_proj_bias"])
        if weights is not None and a["average_attn_weights"]:
            weights = weights.mean(dim=1)
        return (made[:, 0], None if weights is None else weights[0]) if one_text else (made, weights)

    block = block_of(None, query, key, value, added, None, {})
    block = block._replace(projection=lambda: a["out_proj_weight"].unflatten(1, (a["num_heads"], -1)))
    return _FoundBlock(block, a["query"] is not a["key"], a["need_weights"], result)


def _flex(
    query: Tensor, key: Tensor, value: Tensor, score_mod: Any, block_mask: tuple[Any, ...], scale: float, *_: Any
) -> _FoundBlock:
    """Return the block of torch's `flex_attention`. The change by `score_mod` becomes a positional term.

    score_mod(score, text, head, query, key) and mask_mod(text, head, query, key), the last of block_mask, are functions
    of single numbers, which torch vectorizes.
    """
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
    from torch.nn.attention.flex_attention import _vmap_for_bhqkv, create_mask

    texts, heads, queries = query.shape[:3]
    device = str(query.device)
    mask = create_mask(block_mask[-1], texts, heads, queries, key.shape[2], device=device)
    block = block_of(None, query, key, value, mask, scale, {})

    def positional(part: Block) -> dict[str, Tensor]:
        scores = part.scale * (part.query @ part.key.mT)
        ranges = [range(part.texts.start, part.texts.stop), part.numbers]
        ranges += [range(part.queries.start, part.queries.stop), range(part.keys.start, part.keys.stop)]
        numbers = (torch.tensor(list(some), device=device) for some in ranges)
        with TransformGetItemToIndex():
            return {"score_mod": _vmap_for_bhqkv(score_mod, (0,))(scores, *numbers) - scores}

    def result(output: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        return output, output.new_empty(0), output.new_empty(0)

    return _FoundBlock(block._replace(positional=positional), False, False, result)


_BLOCKS: dict[Any, Callable[..., _FoundBlock]] = {
    F.scaled_dot_product_attention: _fused,
    F.multi_head_attention_forward: _multi_head,
    torch.ops.higher_order.flex_attention: _flex,
}


def _join_calls(calls: list[Call]) -> Call:
    """Join the calls of one module whose keys grow by their queries. Raises RequestError if they don't."""
    if len(calls) == 1:
        return calls[0]
    past = 0
    for call in calls:
        queries, keys = call.weights.shape[2:]
        if keys != past + queries or call.weights.shape[:2] != calls[0].weights.shape[:2]:
            name = calls[0].name or "the network"
            raise RequestError(f"{name} ran {len(calls)} times: choose one with call=0 or --call 0")
        past = keys
    for before, after in pairwise(calls):
        if before.marks is not None and after.marks is not None:
            moved = np.abs(after.marks[:, : before.marks.shape[1]] - before.marks).max(initial=0)
            if moved > SAME_KEY * np.abs(before.marks).max(initial=0):
                name = calls[0].name or "the network"
                raise RequestError(
                    f"the texts change places between the calls of {name}, as in beam search: generate with "
                    "num_beams=1, or choose a call with call=0 or --call 0"
                )
    seen = [np.any(call.weights, axis=1) if call.allowed is None else call.allowed for call in calls]
    [weights] = joined_steps([[call.weights] for call in calls])
    [allowed] = joined_steps([[np.expand_dims(one, 1)] for one in seen])
    return replace(calls[0], kind="decoder", weights=weights, allowed=allowed[:, 0])


def _sees_later(seen: Tensor) -> Tensor:
    """Return True if any query sees a later key, from bool `[query, key]`. The last of both are the same token."""
    return seen.triu(seen.shape[1] - seen.shape[0] + 1).any()


def _sums_over_keys(equation: Any, place: int, last: bool) -> bool:
    """Return True if a product sums over keys. place: the index of the weights in it. equation: a string in einsum."""
    if not isinstance(equation, str):
        return last if place == 0 else not last
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    key = inputs.split(",")[place][-1 if last else -2]
    return key not in output if arrow else inputs.count(key) > 1


def _is_transposed(source: Tensor, result: Tensor) -> bool:
    """Return True if queries and keys are transposed in a view of a tensor."""
    if source.dim() < 2 or result.shape[-2:] != source.mT.shape[-2:]:
        return False
    return result.shape[-2:] != source.shape[-2:] or result.stride()[-1] == source.stride()[-2] != source.stride()[-1]
