"""A network that transformers runs, with our attention function and with its own eager attention, on the same texts.

    ours: texts ──► Engine.take, last_hidden ──► network with our attention function ──┐
                                                                                            ├──► the same?
    theirs: token numbers ──► network with its eager attention, and hooks on its modules ───┘

The eager side's numbers are transformers' own: the inputs are made here, weights come out of `output_attentions`, and
changes are made by hooks on modules.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from functools import cached_property
from inspect import signature
from itertools import count
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attncli.base.errors import RequestError
from attncli.features.compare.beside import NothingToCompare, Peers, cut, real_tokens
from attncli.models.transformers_engine import TransformersModel
from attncli.models.transformers_network import takes
from attncli.models.transformers_peer import positions_after_padding
from attncli.models.transformers_place import NAME, set_attention
from attncli.text.tokens import DecoderInput, EncoderInput, Tokens

SOME = 4  # [PAD] tokens to append
MASKS_OF_MODULES = ("attention_mask", "mask")  # names of the mask parameter of attention modules


class EagerResult(NamedTuple):
    """The results of transformers' eager attention for a text.

    weights: `[layer, head, query, key]`; outputs: the output of each layer's attention module, `[token, size]`; made:
    the network's output.
    """

    weights: Tensor
    outputs: list[Tensor]
    made: Any

    @property
    def last(self) -> Tensor:
        """The last vectors, `[token, size]`: of the decoder, if there is one."""
        every = getattr(self.made, "decoder_hidden_states", None) or self.made.hidden_states
        last: Tensor = every[-1][0]
        return last


class Eager:
    """A network of transformers with its own eager attention, run on exactly the tokens that our attention function
    gets.

    model: the same network with our attention in it, as the part that is compared. layers: the layers that have
    attention. names: the modules that call an attention function.
    """

    exact = False  # many networks compute norms and softmax in float32 for any dtype
    has_padding_rows = False

    def __init__(self, model: TransformersModel, network: Any = None) -> None:
        self.model = model
        self.network = model.network if network is None else network
        self.copied = network is not None
        self.by_hand = model.places.by_hand is not None
        self.device = model.device
        self.dtype = self.network.dtype
        self.layers = model.select_layers("all")
        names, places = {id(module): name for name, module in model.network.named_modules()}, model.places
        own = {one: layers for one, (part, layers) in places.layers.items() if part == model.part}
        self.names = [names[one] for one in own]

    @cached_property
    def in_float32(self) -> "Eager":
        return Eager(self.model, deepcopy(self.network).float())

    # --- running ------------------------------------------------------------------------------------------

    def theirs(self, tokens: Tokens, mask: str, shown: Mapping[int, Tensor] | None = None) -> EagerResult:
        """Run the network, with its head, on one text.

        shown: the visible keys by layer, bool `[1, 1 or head, query, key]`, in place of those of the mask.
        """
        allowed = {} if mask == self.model.usual_mask(None) else dict(enumerate(self.visible_keys(tokens, mask)))
        allowed |= {self.layers.index(layer): one for layer, one in (shown or {}).items()}
        with ExitStack() as stack:
            stack.enter_context(self.eager())
            if allowed:
                stack.enter_context(self.replace_masks(allowed))
            outputs = stack.enter_context(self.keep_outputs(self.names))
            made = self.call(self.inputs_of(tokens, mask))
        name = f"{self.model.part}_attentions" if self.model.paired else "attentions"
        weights = list(getattr(made, name))
        if len(weights) != len(self.layers) or len(outputs) != len(self.layers):
            raise RequestError(
                f"{self.model.place.name} can't be compared: attncli counts {len(self.layers)} layers, transformers "
                f"gives weights of {len(weights)} layers and called {len(outputs)} attention modules"
            )
        return EagerResult(torch.cat(weights), outputs, made)

    def call(self, inputs: dict[str, Tensor]) -> Any:
        with self.model.running():
            return self.network(**inputs, output_attentions=True, output_hidden_states=True)

    def inputs_of(self, tokens: Tokens, mask: str) -> dict[str, Tensor]:
        """Return the inputs that transformers' own tokenizer would give the network for these tokens."""
        read = tokens.encoder_input if isinstance(tokens, DecoderInput) else tokens
        real = [1 if mask == "none" else int(not padding) for padding in read.padding]
        inputs = {"input_ids": [read.ids], "attention_mask": [real]}
        if self.model.returns_segments:
            inputs["token_type_ids"] = [read.segments]
        if read.first and takes(self.network, "position_ids"):
            inputs["position_ids"] = positions_after_padding([read]).tolist()
        if self.model.paired:
            inputs["decoder_input_ids"] = [tokens.output_tokens.ids]
        return {name: torch.tensor(numbers, device=self.device) for name, numbers in inputs.items()}

    @contextmanager
    def eager(self) -> Iterator[None]:
        """Use the network's own eager attention instead of ours. A copy of the network keeps it."""
        set_attention(self.network, "eager")
        try:
            yield
        finally:
            if not self.copied and not self.by_hand:
                set_attention(self.network, NAME)

    # --- hooks --------------------------------------------------------------------------------------------

    @contextmanager
    def hooked(self, names: Iterable[str], hook: Callable[[nn.Module], Any]) -> Iterator[None]:
        """Register hooks on modules while the context lasts."""
        handles = [hook(self.network.get_submodule(name)) for name in dict.fromkeys(names)]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    @contextmanager
    def keep_outputs(self, names: Iterable[str]) -> Iterator[list[Tensor]]:
        """Keep the outputs of modules, `[token, size]` each, in the order of their calls."""
        kept: list[Tensor] = []

        def keep(module: nn.Module, inputs: Any, output: Any) -> None:
            vectors = output[0] if isinstance(output, tuple | list) else output
            kept.append(vectors[:, 0] if self.model.places.tokens_first else vectors[0])

        with self.hooked(names, lambda module: module.register_forward_hook(keep)):
            yield kept

    @contextmanager
    def replace_masks(
        self, shown: Mapping[int, Tensor] | None, seen: list[Tensor | None] | None = None
    ) -> Iterator[None]:
        """Replace the masks of attention modules, by the number of the call; bool, like `shown` in `theirs`.

        seen: collects their original masks. Raises NothingToCompare if they take no mask.
        """
        if self.by_hand:
            raise NothingToCompare("its own code applies masks, so they can't be replaced")
        calls = count()

        def put(module: nn.Module, args: Any, kwargs: Any) -> Any:
            bound = signature(module.forward).bind(*args, **kwargs)
            name = next((one for one in MASKS_OF_MODULES if one in signature(module.forward).parameters), None)
            if name is None:
                raise NothingToCompare("its attention modules take no mask")
            call = next(calls)
            if seen is not None:
                seen.append(bound.arguments.get(name))
            if shown is not None and call in shown:
                hidden = torch.zeros_like(shown[call], dtype=self.dtype)
                bound.arguments[name] = hidden.masked_fill(~shown[call], torch.finfo(self.dtype).min)
            return bound.args, bound.kwargs

        with self.hooked(self.names, lambda module: module.register_forward_pre_hook(put, with_kwargs=True)):
            yield

    # --- masks --------------------------------------------------------------------------------------------

    def visible_keys(self, tokens: Tokens, mask: str) -> list[Tensor]:
        """Return the keys that a named mask allows in each layer, bool `[1, 1, query, key]`.

        The keys that the network itself hides (the future, or outside a window) are read from the masks of its modules.
        If the mask shows the future, a window reaches as far ahead as back.
        """
        seen: list[Tensor | None] = []
        everything = {"attention_mask": torch.ones_like(self.inputs_of(tokens, mask)["attention_mask"])}
        with torch.inference_mode(), self.eager(), self.replace_masks(None, seen):
            self.call(self.inputs_of(tokens, mask) | everything)
        part, keys = self.model.part, tokens
        if isinstance(tokens, DecoderInput) and part == "cross":
            keys = tokens.encoder_input
        real = torch.tensor([not padding for padding in keys.padding], device=self.device)
        made = []
        for one in seen:
            allowed = torch.ones(len(tokens), len(keys), dtype=torch.bool, device=self.device)
            if one is not None:
                added = one[0, 0, :, : len(keys)]
                allowed = allowed & (added if one.dtype == torch.bool else added > torch.finfo(one.dtype).min / 2)
            if mask == "causal":
                allowed = allowed.tril()
            elif part != "cross":
                allowed = allowed | allowed.T
            made.append((allowed if mask == "none" else allowed & real)[None, None])
        return made


class EagerPeers(Peers):
    """A network with our attention function and with its own eager attention."""

    model: TransformersModel
    reference: Eager

    def __init__(
        self, eager: Eager, texts: Sequence[Tokens], mask: str | None = None, layers: Sequence[int] | None = None
    ) -> None:
        super().__init__(eager.model, eager, texts, mask, layers)

    def run_theirs(self, tokens: Tokens, mask: str) -> EagerResult:
        with torch.inference_mode():
            return self.reference.theirs(tokens, mask)

    def places(self, layers: Iterable[int]) -> list[int]:
        return [self.reference.layers.index(layer) for layer in layers]

    def their_vectors(self, theirs: EagerResult) -> list[Tensor]:
        return [theirs.outputs[place] for place in self.places(self.layers)]

    def our_vectors(self, tokens: Tokens, mask: str) -> list[Tensor]:
        with torch.inference_mode(), self.reference.keep_outputs(self.reference.names) as outputs:
            self.answering.last_hidden([tokens], mask)
        return [outputs[place] for place in self.places(self.layers)]

    def logits(self, tokens: Tokens) -> Tensor:
        made = self.theirs(tokens).made
        if getattr(made, "start_logits", None) is not None:
            return torch.stack([made.start_logits[0], made.end_logits[0]], dim=-1)
        if getattr(made, "logits", None) is None:
            raise NothingToCompare("it has no head")
        return made.logits[0]

    def hidden(self, tokens: Tokens, mask: str) -> Tensor:
        with torch.inference_mode():
            return ~torch.cat(self.reference.visible_keys(tokens, mask))[self.places(self.layers), 0].cpu()

    def padded(self) -> list[tuple[Tokens, Tokens]]:
        if self.model.tokenizer.pad_id is None:
            return [(one, one) for one in self.plain]
        return [(part, self.pad(part)) for one in self.plain for part in (one, cut(one, real_tokens(one) // 2 or 1))]

    def pad(self, tokens: Tokens) -> Tokens:
        """Append at most SOME [PAD] to the text that is read."""
        tokenizer, count = self.model.tokenizer, real_tokens(tokens)
        length = min(count + SOME, tokenizer.max_tokens)
        if isinstance(tokens, DecoderInput):
            return DecoderInput(
                **tokens.lists, encoder_input=tokenizer.pad(tokens.encoder_input, length), labels=tokens.labels
            )
        made = tokenizer.pad(tokens.plain, length)
        if isinstance(tokens, EncoderInput):
            return EncoderInput(**made.lists, decoder_input=tokens.decoder_input, labels=tokens.labels)
        return made
