"""A network that transformers runs, with our place in it and with its own eager attention, on the same texts.

    ours: texts ──► Engine.take, last_hidden ──► network with our attention function ──┐
                                                                                            ├──► the same?
    theirs: token numbers ──► network with its eager attention, and hooks on its modules ───┘

The eager side's numbers are transformers' own: the inputs are made here, weights come out of `output_attentions`, and
changes are made by hooks on modules. `WAYS_OF_EAGER` has, as data, the ways that go through the very calls that the
commands make.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import deepcopy
from functools import cached_property, partial
from inspect import signature
from itertools import count
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attncli.attention import MASKS
from attncli.base.errors import RequestError
from attncli.checks.passes import Pass, Passes, is_half, run_finite
from attncli.checks.tolerance import scaled_tolerance, vector_size, weight_size
from attncli.effects.change import Edge, Head, Hide, Put, Unchanged
from attncli.effects.gradients import gate_gradients
from attncli.features.compare.agreement import Agreement, Way, difference, precision_of, tally_up, worst
from attncli.features.compare.beside import TEXTS, TOKENS, NothingToCompare
from attncli.features.compare.ways import Along, Check, each_way
from attncli.models.taken import Taken, as_record
from attncli.models.taps import Outputs
from attncli.models.transformers_engine import TransformersModel
from attncli.models.transformers_peer import Reference
from attncli.models.transformers_place import NAME, set_attention
from attncli.record import Request
from attncli.record.grouping import axes_of
from attncli.record.selection import Grouping, Selection
from attncli.text.tokens import Fed, Read, Tokens

MASKS_OF_MODULES = ("attention_mask", "mask")  # what modules of attention call their mask


class Theirs(NamedTuple):
    """What transformers' eager attention makes of a text.

    weights: `[layer, head, query, key]`; outputs: what comes out of each layer's attention module, `[token, size]`;
    joined: what the heads give to each layer's output projection, `[token, size]`; last: what comes out of
    the last layer; made: what the network returns.
    """

    weights: Tensor
    outputs: list[Tensor]
    joined: list[Tensor]
    last: Tensor
    made: Any


class Eager(Reference):
    """A network of transformers with its own eager attention, run on exactly the tokens that our place runs on.

    model: the same network with our place in it, as the part that is compared. layers: all that have attention. names:
    of the modules that call an attention function.
    """

    exact = False  # norms and softmax of many networks compute in float32, whatever was asked for
    has_padding_rows = False

    def __init__(self, model: TransformersModel, network: Any = None) -> None:
        self.model = model
        self.network = model.network if network is None else network
        self.copied = network is not None
        self.device = model.device
        self.dtype = self.network.dtype
        self.layers = model.select_layers("all")
        names, places = {id(module): name for name, module in model.network.named_modules()}, model.tapped
        own = {one: layers for one, (part, layers) in places.layers.items() if part == model.part}
        self.names = [names[one] for one in own]
        self.projections: dict[int, str] | None = None

    @cached_property
    def in_float32(self) -> "Eager":
        return Eager(self.model, deepcopy(self.network).float())

    # --- running ------------------------------------------------------------------------------------------

    def run(self, tokens: Tokens, mask: str) -> tuple[list[Tensor], list[Tensor]]:
        """Return every layer's weights, and what comes out of its attention, after a place for the embeddings."""
        with torch.inference_mode():
            theirs = self.theirs(tokens, mask)
        return list(theirs.weights), [theirs.outputs[0], *theirs.outputs]

    def theirs(
        self,
        tokens: Tokens,
        mask: str,
        put: Callable[[int, Tensor], Tensor] | None = None,
        shown: Mapping[int, Tensor] | None = None,
        head: bool = False,
        first: Callable[[Tensor], Tensor] | None = None,
    ) -> Theirs:
        """Run the network on one text.

        put: changes the joined heads of a layer, `[1, token, size]`. shown: by layer what may be attended to, bool
        `[1, 1 or head, query, key]`, in place of what the mask says. head: with the head upon the network. first:
        changes the vectors of the tokens.
        """
        joined: list[Tensor] = []
        projections = self.joining(tokens)

        def join(call: int, inputs: Tensor) -> Tensor:
            joined.append(inputs[0])
            changed = inputs if put is None else put(self.layers[call], inputs)
            return without(changed, [self.columns(changed, head) for head in self.silenced(self.layers[call])])

        asked_for = {} if mask == self.model.usual_mask(None) else dict(enumerate(self.shown(tokens, mask)))
        asked_for |= {self.layers.index(layer): one for layer, one in (shown or {}).items()}
        embedding = self.half("encoder" if self.model.part == "encoder" else "decoder").get_input_embeddings()
        with ExitStack() as stack:
            stack.enter_context(self.eager())
            if first is not None:
                handle = embedding.register_forward_hook(lambda module, inputs, output: first(output))
                stack.callback(handle.remove)
            stack.enter_context(self.inputs_changed(projections.values(), join))
            if asked_for:
                stack.enter_context(self.masks_put(asked_for))
            outputs = stack.enter_context(self.outputs_kept(self.names))
            last = stack.enter_context(kept_last(self.half("decoder")))
            made = self.call(self.inputs_of(tokens, mask), head)
        name = f"{self.model.part}_attentions" if self.model.paired else "attentions"
        weights = list(getattr(made, name))
        if len(weights) != len(self.layers) or len(outputs) != len(self.layers):
            raise RequestError(
                f"transformers gives weights of {len(weights)} layers of {self.model.place.name}, attncli counts "
                f"{len(self.layers)}, and {len(outputs)} modules were called: they are not the same"
            )
        after = last[0] if last else made.hidden_states[-1][0]  # OPT's head calls what is inside the stack
        return Theirs(torch.cat(weights), outputs, joined, after, made)

    def call(self, inputs: dict[str, Tensor], head: bool) -> Any:
        """Call the network; one of one stack without its head, unless that is asked for."""
        network = self.network if head or self.model.paired else self.half("decoder")
        with self.model.running():
            return network(**inputs, output_attentions=True, output_hidden_states=True)

    def half(self, part: str) -> Any:
        """Return the half of the network that a part is in, without a head."""
        if not self.model.paired:
            return self.network.base_model
        return (self.network.get_encoder() if part == "encoder" else self.network.get_decoder()).base_model

    def inputs_of(self, tokens: Tokens, mask: str) -> dict[str, Tensor]:
        """Return what transformers' own tokenizer would hand to the network, of tokens that are there already."""
        read = tokens.read if isinstance(tokens, Fed) else tokens
        real = [1 if mask == "none" else int(not padding) for padding in read.padding]
        inputs = {"input_ids": [read.ids], "attention_mask": [real]}
        if self.model.tells_segments:
            inputs["token_type_ids"] = [read.segments]
        if self.model.paired:
            inputs["decoder_input_ids"] = [tokens.spoken.ids]
        return {name: torch.tensor(numbers, device=self.device) for name, numbers in inputs.items()}

    @contextmanager
    def eager(self) -> Iterator[None]:
        """Put the network's own eager attention in the place of ours. A copy has it from the first time on."""
        set_attention(self.network, "eager")
        try:
            yield
        finally:
            if not self.copied:
                set_attention(self.network, NAME)

    def joining(self, tokens: Tokens) -> dict[int, str]:
        """Return by layer the name of the module whose input is the joined heads; none where a layer has none such.

        They are found when they are first asked for, by a pass through these tokens.
        """
        if self.projections is None:
            found, heads = dict[int, str](), Outputs()

            def look(name: str, module: nn.Module, inputs: Any) -> None:
                if not heads.kept or getattr(module.weight, "ndim", 0) != 2:
                    return
                layer = next(reversed(heads.kept))
                joined = heads.kept[layer][0].transpose(0, 1).flatten(1)
                if inputs[0].numel() == joined.numel() and torch.equal(inputs[0].view_as(joined), joined):
                    found.setdefault(layer, name)

            modules = [(name, one) for name, one in self.model.network.named_modules() if hasattr(one, "weight")]
            handles = [one.register_forward_pre_hook(partial(look, name)) for name, one in modules]
            with torch.inference_mode():
                self.model.silencing([]).last_hidden([tokens], taps=[heads])
            for handle in handles:
                handle.remove()
            self.projections = found if len(found) == len(self.layers) else {}
        return self.projections

    # --- hooks --------------------------------------------------------------------------------------------

    @contextmanager
    def hooked(self, names: Iterable[str], hook: Callable[[nn.Module], Any]) -> Iterator[None]:
        """Register what `hook` registers with modules, as long as the context lasts."""
        handles = [hook(self.network.get_submodule(name)) for name in dict.fromkeys(names)]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    @contextmanager
    def outputs_kept(self, names: Iterable[str]) -> Iterator[list[Tensor]]:
        """Keep what comes out of modules, `[token, size]` each, in the order of their calls."""
        kept: list[Tensor] = []

        def keep(module: nn.Module, inputs: Any, output: Any) -> None:
            kept.append((output[0] if isinstance(output, tuple) else output)[0])

        with self.hooked(names, lambda module: module.register_forward_hook(keep)):
            yield kept

    @contextmanager
    def inputs_changed(self, names: Iterable[str], change: Callable[[int, Tensor], Tensor | None]) -> Iterator[None]:
        """Put what `change` makes of the inputs of modules in their place; it is told the number of the call."""
        calls = count()

        def changed(module: nn.Module, inputs: tuple[Any, ...]) -> Any:
            made = change(next(calls), inputs[0])
            return None if made is None else (made, *inputs[1:])

        with self.hooked(names, lambda module: module.register_forward_pre_hook(changed)):
            yield

    @contextmanager
    def masks_put(self, shown: Mapping[int, Tensor] | None, seen: list[Tensor | None] | None = None) -> Iterator[None]:
        """Give attention modules masks by the number of their call, bool as `theirs` takes them.

        seen: gets the masks that they are given otherwise. Raises NothingToCompare where they take none.
        """
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

    def silenced(self, layer: int) -> list[int]:
        """Return the heads of a layer that the model silences."""
        return [head for its, head in self.model.silenced if its == layer]

    def columns(self, joined: Tensor, head: int) -> slice:
        """Return the columns of one head among the joined ones."""
        size = joined.shape[-1] // self.model.heads
        return slice(head * size, (head + 1) * size)

    # --- masks --------------------------------------------------------------------------------------------

    def shown(self, tokens: Tokens, mask: str) -> list[Tensor]:
        """Return what a mask of this name shows in each layer, bool `[1, 1, query, key]`.

        What the network hides by itself, the future and what lies outside a window, is read off the masks that its
        modules are given; a mask that shows the future shows as much of it as of the past.
        """
        seen: list[Tensor | None] = []
        everything = {"attention_mask": torch.ones_like(self.inputs_of(tokens, mask)["attention_mask"])}
        with torch.inference_mode(), self.eager(), self.masks_put(None, seen):
            self.call(self.inputs_of(tokens, mask) | everything, head=False)
        part, keys = self.model.part, tokens.read if isinstance(tokens, Fed) and self.model.part == "cross" else tokens
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

    # --- our side -----------------------------------------------------------------------------------------

    def ready(self, tokens: Tokens, target: str | None = None) -> Tokens:
        """Return the tokens of a text with those of the other half of an encoder-decoder."""
        return self.model.with_answer(tokens, target)

    def ours(self, tokens: Tokens, mask: str) -> tuple[list[Tensor], Tensor]:
        """Return what comes out of each layer's attention where our place is, and out of the last layer."""
        with torch.inference_mode(), self.outputs_kept(self.names) as outputs:
            [last] = self.model.last_hidden([tokens], mask)
        return outputs, last

    def beside(self, layers: Sequence[int], mask: str) -> Callable[[Tokens], Passes]:
        """Return what sends one text through the network with our place in it, and with its eager attention."""
        places = [self.layers.index(layer) for layer in layers]

        def both(tokens: Tokens) -> Passes:
            [taken] = self.model.take([asked(tokens)], Request(list(layers), mask=mask))
            outputs, _ = self.ours(tokens, mask)
            (weights, states), lost = run_finite(self, tokens, mask)
            theirs = Pass([weights[place] for place in places], [states[place + 1] for place in places])
            exact = None
            if is_half(self.dtype):
                weights, states = self.in_float32.run(tokens, mask)
                exact = Pass([weights[place] for place in places], [states[place + 1] for place in places])
            return Passes(Pass(list(taken.weights), [outputs[place] for place in places]), theirs, exact, lost)

        return both


def asked(tokens: Tokens) -> Tokens:
    """Return the tokens as a request has them: an encoder alone is not told what a decoder is fed."""
    return tokens.plain if isinstance(tokens, Read) else tokens


def without(joined: Tensor, columns: Sequence[slice]) -> Tensor:
    """Return joined heads with 0 in some columns."""
    if columns:
        joined = joined.clone()
    for some in columns:
        joined[..., some] = 0
    return joined


@contextmanager
def kept_last(stack: nn.Module) -> Iterator[list[Tensor]]:
    """Keep what comes out of a stack of layers, `[token, size]`."""
    kept: list[Tensor] = []
    handle = stack.register_forward_hook(lambda module, inputs, output: kept.append(output[0][0]), prepend=True)
    try:
        yield kept
    finally:
        handle.remove()


def compare_eager(
    eager: Eager, texts: Iterable[Tokens], mask: str | None = None, layers: Selection = "all"
) -> Agreement:
    """Hold our place inside a network of transformers against its own eager attention, layer by layer.

    texts: as `Eager.ready` makes them. Raises RequestError for an unknown mask or a layer out of range, ValueError when
    there is no text.
    """
    mask, chosen = eager.model.usual_mask(mask), eager.model.select_layers(layers)
    return tally_up(eager.model, eager.beside(chosen, mask), texts, mask, chosen, eager)


class BesideEager:
    """A network with our place in it and with its eager attention, and some texts: their first tokens.

    plain: the texts without [PAD]; layers: those that are compared.
    """

    def __init__(
        self, eager: Eager, texts: Sequence[Tokens], mask: str | None = None, layers: Sequence[int] | None = None
    ) -> None:
        self.eager = eager
        self.model = eager.model
        self.mask = self.model.usual_mask(mask)
        self.layers = eager.layers if layers is None else list(layers)
        self.texts = [cut(one, TOKENS) for one in texts[:TEXTS]]
        self.plain = [cut(one, real_tokens(one)) for one in self.texts]
        self.known: dict[tuple[Any, ...], Theirs] = {}

    def theirs(self, tokens: Tokens, mask: str | None = None) -> Theirs:
        """Return what the eager attention makes of a text, by default under the mask that was asked for, once."""
        read = tokens.read if isinstance(tokens, Fed) else tokens
        mask = self.mask if mask is None else mask
        key = (mask, *(tuple(one) for one in (tokens.ids, tokens.spoken.ids, read.ids, read.padding, read.segments)))
        if key not in self.known:
            with torch.inference_mode():
                self.known[key] = self.eager.theirs(tokens, mask, head=True)
        return self.known[key]

    def weights(self, tokens: Tokens, mask: str | None = None) -> Tensor:
        """Return their weights of the layers that are compared, `[layer, head, query, key]`."""
        return self.theirs(tokens, mask).weights[self.places(self.layers)]

    def places(self, layers: Iterable[int]) -> list[int]:
        """Return where layers stand among all that have attention."""
        return [self.eager.layers.index(layer) for layer in layers]

    def logits(self, tokens: Tokens) -> Tensor:
        """Return what their head says of a text. Raises NothingToCompare where there is none."""
        made = self.theirs(tokens).made
        if getattr(made, "start_logits", None) is not None:
            return torch.stack([made.start_logits[0], made.end_logits[0]], dim=-1)
        if getattr(made, "logits", None) is None:
            raise NothingToCompare("it has no head")
        logits: Tensor = made.logits[0]
        return logits

    def states(self, tokens: Tokens) -> list[Tensor]:
        """Return their vectors after the embeddings and after every layer of what reads the text."""
        made = self.theirs(tokens).made
        return [one[0] for one in (made.encoder_hidden_states if self.model.paired else made.hidden_states)]

    @property
    def outer_heads(self) -> list[int]:
        """The last head and the first one, in this order."""
        return [*{self.model.heads - 1: None, 0: None}]

    @property
    def ends(self) -> list[int]:
        """The layers at which passes end that end early: the first two, and the last one."""
        return sorted({*self.layers[:2], self.layers[-1]})

    def apart(self, taken: Taken, tokens: Tokens, mask: str | None = None) -> float:
        """Return how far weights of a text that the model gives are from theirs."""
        expected = self.theirs(tokens, mask).weights[self.places(taken.asked.layers)][:, taken.asked.heads]
        rows = real_rows(tokens)
        return difference(taken.weights[..., rows, :], expected[..., rows, :])

    def allowed(self, kind: str, single: bool = False) -> float:
        """Return the largest difference that rounding explains of numbers of a kind.

        kind: "weights", "norms", "logits", "last" vectors, "hidden" states, "shares" of the largest number, or "exact".
        """
        if kind == "exact" or is_half(self.model.dtype):
            return 0.0
        sizes = [1.0]
        for text in self.plain if kind != "shares" else ():
            theirs = self.theirs(text)
            if kind == "weights":
                sizes.append(weight_size(theirs.weights))
            elif kind == "norms":
                sizes += map(vector_size, theirs.joined)
            elif kind == "logits":
                with suppress(NothingToCompare):
                    sizes.append(vector_size(self.logits(text)))
            elif kind == "last":
                sizes.append(vector_size(theirs.last))
            else:
                sizes += map(vector_size, self.states(text))
        return scaled_tolerance(precision_of(self.model, self.eager), self.model.depth, max(sizes))


def real_rows(tokens: Tokens) -> list[int]:
    """Return the places of tokens that are not [PAD]."""
    return [place for place, padding in enumerate(tokens.padding) if not padding]


def real_tokens(tokens: Tokens) -> int:
    """Return how many tokens of a text are read that are not [PAD]."""
    return len(real_rows(tokens.read if isinstance(tokens, Fed) else tokens))


def cut(tokens: Tokens, length: int, fed: int = TOKENS) -> Tokens:
    """Return the first tokens of what is read, and of what a decoder is fed."""
    if isinstance(tokens, Fed):
        return Fed(**first_tokens(tokens, fed).plain.lists, read=first_tokens(tokens.read, length), goal=tokens.goal)
    some = first_tokens(tokens, length)
    return (
        Read(**some.plain.lists, fed=first_tokens(tokens.fed, fed), goal=tokens.goal)
        if isinstance(tokens, Read)
        else some
    )


def first_tokens(tokens: Tokens, length: int) -> Tokens:
    """Return the first tokens, at most so many."""
    return tokens.take(range(min(len(tokens), length)))


# --- ways --------------------------------------------------------------------------------------------


SOME = 4  # tokens of [PAD]


def taken(
    both: BesideEager, texts: list[Tokens], layers: Selection | None = None, heads: Selection = "all", **more: object
) -> list[tuple[Tokens, Taken]]:
    """Return what the model gives of each text, by default of the layers that are compared."""
    request = Request(both.layers if layers is None else layers, heads, mask=both.mask, **more)  # type: ignore[arg-type]
    return list(zip(texts, both.model.take([asked(one) for one in texts], request), strict=True))


def all_apart(both: BesideEager, found: list[tuple[Tokens, Taken]]) -> float:
    """Return how far the weights of several texts are from theirs."""
    return worst(both.apart(one, text) for text, one in found)


def together(both: BesideEager) -> float:
    """Texts of mixed lengths in one pass, several of each length; they come in their order."""
    lengths = [(one, length) for one in both.plain for length in (real_tokens(one) // 2 or 1, real_tokens(one))]
    mixed = [cut(one, length, fed) for one, length in lengths for fed in (len(one.spoken), len(one.spoken) // 2 or 1)]
    found = taken(both, mixed)
    strayed = sum(one.tokens.ids != text.ids for text, one in found)
    return worst([float(strayed), all_apart(both, found)])


def one_layer(both: BesideEager) -> float:
    """One layer alone: the pass ends there."""
    return worst(all_apart(both, taken(both, both.texts, [layer])) for layer in both.ends)


def some_heads(both: BesideEager) -> float:
    """Two heads of one layer alone, others in each, the later one first."""
    heads = both.model.heads
    pairs = [(layer, [(layer + 1) % heads, layer % heads] if heads > 1 else [0]) for layer in both.ends]
    return worst(all_apart(both, taken(both, both.texts, [layer], some)) for layer, some in pairs)


def some_heads_of_all(both: BesideEager) -> float:
    """Two heads of all layers, the later ones first. The others go through the fused kernel."""
    return all_apart(both, taken(both, both.texts, both.layers[::-1], both.outer_heads))


def padded(both: BesideEager) -> list[tuple[Tokens, Tokens]]:
    """Return each text, and the first half of it, without and with [PAD] on the right."""
    if both.model.tokenizer.pad_id is None:
        raise NothingToCompare("its tokenizer has no padding token")
    return [(part, pad(both, part)) for one in both.plain for part in (one, cut(one, real_tokens(one) // 2 or 1))]


def pad(both: BesideEager, tokens: Tokens) -> Tokens:
    """Return a text with [PAD] in what is read, as many as SOME where there is room."""
    tokenizer, count = both.model.tokenizer, real_tokens(tokens)
    length = min(count + SOME, tokenizer.max_tokens)
    if isinstance(tokens, Fed):
        return Fed(**tokens.lists, read=tokenizer.pad(tokens.read, length), goal=tokens.goal)
    made = tokenizer.pad(tokens.plain, length)
    return Read(**made.lists, fed=tokens.fed, goal=tokens.goal) if isinstance(tokens, Read) else made


def padding(both: BesideEager) -> float:
    """Texts with [PAD] give real tokens the weights of the texts without."""
    pairs, differences = padded(both), []
    request = Request(both.layers)
    for (plain, _), one in zip(pairs, both.model.take([asked(long) for _, long in pairs], request), strict=True):
        expected, rows = both.weights(plain, both.model.usual_mask(None)), real_rows(plain)
        differences.append(difference(one.weights[..., rows, : expected.shape[-1]], expected[..., rows, :]))
        differences.append(float(one.weights[..., rows, expected.shape[-1] :].abs().sum()))
    return worst(differences)


def under_mask(both: BesideEager, mask: str) -> float:
    """Texts under a mask, with [PAD] where there is one: weights, last vectors, and what the record's mask hides."""
    try:
        both.model.usual_mask(mask)
    except RequestError as error:
        raise NothingToCompare(str(error)) from error
    texts = both.plain if both.model.tokenizer.pad_id is None else [long for _, long in padded(both)]
    request, differences = Request(both.layers, mask=mask), []
    for text, one in zip(texts, both.model.take([asked(text) for text in texts], request), strict=True):
        theirs, rows = both.theirs(text, mask), real_rows(text)
        differences.append(both.apart(one, text, mask))
        spoken = real_rows(text.spoken)
        differences.append(difference(both.eager.ours(text, mask)[1][spoken], theirs.last[spoken]))
        with torch.inference_mode():
            shown = torch.cat(both.eager.shown(text, mask))[both.places(both.layers), 0][:, rows]
        made = torch.tensor(as_record(both.model, one, request).masks).to(shown.device)[:, rows]
        differences.append(float((made != shown).sum()))
        differences.append(float((one.weights[..., rows, :] * ~shown[:, None]).abs().sum()))
    return worst(differences)


def grouped(both: BesideEager, grouping: Grouping) -> float:
    """Words in place of their pieces, or some tokens alone: weights to pieces added up, and from pieces averaged."""
    differences = []
    for text, one in taken(both, both.plain, grouping=grouping):
        axes = axes_of(
            grouping, text.plain, text.read if both.model.part == "cross" and isinstance(text, Fed) else None
        )
        to_words = torch.stack([both.weights(text)[..., group].sum(dim=-1) for group in axes.keys.groups], dim=-1)
        expected = torch.stack([to_words[..., group, :].mean(dim=-2) for group in axes.queries.groups], dim=-2)
        differences.append(difference(one.weights, expected))
    return worst(differences)


def some_tokens(both: BesideEager) -> float:
    """The first token and the last one alone."""
    last = min(len(one) for one in both.plain) - 1
    return grouped(both, Grouping(tokens=sorted({0, last})))


def silenced(both: BesideEager) -> float:
    """One head of each layer silenced, another in each: weights, and last vectors."""
    check_projections(both)
    heads = both.model.heads
    gone = [(layer, layer % heads) for layer in both.eager.layers if (layer, layer % heads) not in both.model.silenced]
    model, text = both.model.without(gone), both.texts[0]

    def put(layer: int, joined: Tensor) -> Tensor:
        return without(joined, [both.eager.columns(joined, head) for its, head in gone if its == layer])

    with torch.inference_mode():
        theirs = both.eager.theirs(text, both.mask, put)
        [one] = model.take([asked(text)], Request(both.layers, mask=both.mask))
        [last] = model.last_hidden([text], both.mask)
    rows, spoken = real_rows(text), real_rows(text.spoken)
    return worst(
        [
            difference(one.weights[..., rows, :], theirs.weights[both.places(both.layers)][..., rows, :]),
            difference(last[spoken], theirs.last[spoken]),
        ]
    )


def check_projections(both: BesideEager) -> None:
    """Raises NothingToCompare where the heads go to no projection as they are."""
    if not both.eager.joining(both.plain[0]):
        raise NothingToCompare("something else than an output projection is done to its heads first")


def vectors(both: BesideEager) -> float:
    """softmax(scale · q·k + terms) of what a record keeps is the weights; without sinks, which no record keeps."""
    differences = []
    for text, one in taken(both, both.texts, vectors="all"):
        rows, count = real_rows(text), len(both.layers)
        query, key = (part.unflatten(0, (count, -1)).double() for part in one.vectors)
        scores = (
            query @ key.mT * torch.from_numpy(one.scales).to(query.device).unflatten(0, (count, -1))[..., None, None]
        )
        for term in one.terms.values():
            scores = scores + term.unflatten(0, (count, -1))
        made = scores.masked_fill(~one.masks[:, None], -torch.inf).softmax(dim=-1)
        theirs = both.weights(text).double()
        expected = theirs / theirs.sum(dim=-1, keepdim=True)
        differences.append(difference(made[..., rows, :], expected[..., rows, :]))
    return worst(differences)


# --- norms ----------------------------------------------------------------------------------------------


def norms(both: BesideEager) -> float:
    """`--measure norm`: ‖α v W_O‖ of all heads in one pass, and of two heads alone."""
    check_projections(both)
    text, differences = both.plain[0], []
    expected = both.weights(text).double() * torch.stack([lengths(both, text, one) for one in both.layers])[:, :, None]
    for heads in ("all", both.outer_heads):
        [(_, one)] = taken(both, [text], heads=heads, measure="norm")
        differences.append(difference(one.weights, expected[:, one.asked.heads]))
    return worst(differences)


def lengths(both: BesideEager, text: Tokens, layer: int) -> Tensor:
    """Return ‖v W_O‖ of the values in a layer, `[head, key]`: what their own projection makes of each alone.

    A query that sees one key only has that key's value in its joined heads, times its weight.
    """
    place = both.places([layer])[0]
    _, heads, queries, keys = both.theirs(text).weights.shape
    projection = both.eager.network.get_submodule(both.eager.joining(text)[layer])
    found = []
    for start in range(0, keys, queries):
        shown = torch.eye(keys, dtype=torch.bool, device=both.eager.device).roll(-start, dims=0)[:queries]
        shown = shown if queries <= keys else torch.cat([shown, shown[:1].expand(queries - keys, -1)])
        with torch.inference_mode():
            theirs = both.eager.theirs(text, both.mask, shown={layer: shown[None, None]})
            some = min(queries, keys - start)
            weights = theirs.weights[place, :, range(some), range(start, start + some)]
            values = theirs.joined[place][:some].unflatten(-1, (heads, -1)).transpose(0, 1) / weights[..., None]
            alone = torch.zeros(heads, some, heads, values.shape[-1], dtype=values.dtype, device=values.device)
            alone[range(heads), :, range(heads)] = values
            made = projection(alone.flatten(2)) - projection(torch.zeros_like(alone.flatten(2)))
        found.append(made.double().norm(dim=-1))
    return torch.cat(found, dim=1)


# --- what is changed ------------------------------------------------------------------------------------


def cuts(both: BesideEager) -> float:
    """`cut`: edges of one head hidden, in the first layer and in the last one, side by side."""
    text, heads = both.plain[0], both.model.heads
    unchanged, edges = Unchanged.of(both.model, text, both.mask), edges_to_cut(both, text)
    cut_heads = [(both.layers[0], heads - 1), (both.layers[-1], heads // 2)]
    made = unchanged.copies(0, [Hide([head], edges) for head in cut_heads])
    with torch.inference_mode():
        expected = [theirs_cut(both, text, head, edges) for head in cut_heads]
    return worst([difference(unchanged.last[0], both.theirs(text).last), *map(difference, made, expected)])


def ablations(both: BesideEager) -> float:
    """`ablate`, `patch`: another output put in place of a head's, in the first layer and in the last, side by side."""
    check_projections(both)
    text, heads = both.plain[0], both.model.heads
    put_heads = [(both.layers[0], heads - 1), (both.layers[-1], heads // 2)]
    size = both.theirs(text).joined[0].shape[-1] // heads
    vector = torch.linspace(-1, 1, size, dtype=both.model.dtype, device=both.model.device)
    made = Unchanged.of(both.model, text, both.mask).copies(0, [Put({head: vector}) for head in put_heads])
    with torch.inference_mode():
        expected = [theirs_put(both, text, head, vector) for head in put_heads]
    return worst(map(difference, made, expected))


def edges_to_cut(both: BesideEager, text: Tokens) -> list[Edge]:
    """Return edges that weight goes along: from the last query to all keys that it sees but one."""
    seen = (both.weights(text)[0].amax(dim=0)[-1] > 0).nonzero()[:, 0].tolist()
    return [(len(text) - 1, key) for key in seen[:-1]]


def theirs_cut(both: BesideEager, text: Tokens, head: Head, edges: list[Edge]) -> Tensor:
    """Return the last vectors of the eager attention where a mask of its own for each head hides edges of one."""
    if not edges:
        return both.theirs(text).last
    layer, number = head
    shown = both.eager.shown(text, both.mask)[both.places([layer])[0]].repeat(1, both.model.heads, 1, 1)
    queries, keys = zip(*edges, strict=True)
    shown[0, number, queries, keys] = False
    return both.eager.theirs(text, both.mask, shown={layer: shown}).last


def theirs_put(both: BesideEager, text: Tokens, head: Head, vector: Tensor) -> Tensor:
    """Return the last vectors where a vector stands in a head's columns of the joined heads."""

    def put(layer: int, joined: Tensor) -> Tensor:
        if layer == head[0]:
            joined = joined.clone()
            joined[..., both.eager.columns(joined, head[1])] = vector
        return joined

    return both.eager.theirs(text, both.mask, put).last


def gradients(both: BesideEager) -> float:
    """`trust`, `ablate`: the gradients of a number of the last vectors by gates of heads, as shares of the largest."""
    check_projections(both)
    text = Unchanged.of(both.model, both.texts[0], both.mask)
    question = Along(text, real_rows(both.texts[0].spoken))
    layers, heads = both.eager.layers, both.model.heads
    with torch.enable_grad():
        gates = torch.ones(both.model.layers, heads, dtype=both.model.dtype, device=both.model.device).requires_grad_()

        def put(layer: int, joined: Tensor) -> Tensor:
            return joined * gates[layer].repeat_interleave(joined.shape[-1] // heads)

        last = both.eager.theirs(both.texts[0], both.mask, put).last
        [wanted] = torch.autograd.grad(question([last[None]])[0], gates)
    made = gate_gradients(question)[layers]
    return difference(made, wanted[layers]) / (float(wanted.abs().max()) or 1.0)


# --- what comes out -------------------------------------------------------------------------------------


def logits(both: BesideEager) -> float:
    """What the head says of every token, or of the text; and of the last token alone."""
    found = [one for name, one in both.model.outputs().items() if name != "embedding"]
    if not found:
        raise NothingToCompare("it has no head that attncli reads")
    [output], differences = found, []
    for text in both.texts:
        wanted, rows = both.logits(text), real_rows(text.spoken)
        last = both.eager.ours(text, both.mask)[1]
        with torch.inference_mode():
            [made] = output([last], [text])
            if output.of_text:
                differences.append(difference(made, wanted))
                continue
            [of_last] = output([last], [text], [rows[-1:]])
        differences += [difference(made[rows], wanted[rows]), difference(of_last, wanted[rows[-1:]])]
    return worst(differences)


def hidden_states(both: BesideEager) -> float:
    """The vectors after the embeddings and after every layer of what reads the text (`probe`, `explain`)."""
    if both.model.part not in ("encoder", both.model.parts[0]):
        raise NothingToCompare("those of an encoder-decoder are its encoder's: --which encoder")
    differences = []
    for text in both.texts:
        rows, ours = real_rows(text), both.model.hidden_states(text.plain, both.mask)
        differences += [difference(one[rows], two[rows]) for one, two in zip(ours, both.states(text), strict=True)]
    return worst(differences)


def records(both: BesideEager) -> float:
    """What is printed, drawn and saved is what was computed, in float32."""
    request = Request(both.layers, mask=both.mask, which=both.model.part if both.model.paired else None)
    texts = [asked(one) for one in both.texts]
    pairs = zip(both.model.attend_tokens(texts, request), both.model.take(texts, request), strict=True)
    return worst(difference(torch.from_numpy(record.weights), one.weights.float()) for record, one in pairs)


WAYS_OF_EAGER: dict[str, Check[BesideEager]] = {
    "together": Check("texts of mixed lengths, all layers", together),
    "one layer": Check("-l N", one_layer),
    "some heads": Check("-l N -H 3,1", some_heads),
    "some heads of all": Check("-H 3,1, the last layer first", some_heads_of_all),
    "[PAD]": Check("--pad-to: as without [PAD]", padding),
    **{f"mask {name}": Check(f"--mask {name}, with [PAD]", partial(under_mask, mask=name), "last") for name in MASKS},
    "words": Check("--words", partial(grouped, grouping=Grouping(words=True))),
    "some tokens": Check("--tokens", some_tokens),
    "without": Check("--without", silenced, "last"),
    "vectors": Check("--vectors, --terms: softmax(scale q·k + terms)", vectors),
    "norms": Check("--measure norm", norms, "norms"),
    "cuts": Check("cut", cuts, "last"),
    "ablations": Check("ablate, patch", ablations, "last"),
    "gradients": Check("ablate, trust: by gates of heads", gradients, "shares"),
    "logits": Check("what its head says, --at", logits, "logits"),
    "hidden states": Check("probe", hidden_states, "hidden"),
    "records": Check("what is printed is what was computed", records, "exact"),
}


def by_every_way_of_eager(both: BesideEager, done: Callable[[], None] = lambda: None) -> list[Way]:
    """Go all of WAYS_OF_EAGER, in their order; `done` is called after each. In half precision nothing is compared."""
    if not is_half(both.model.dtype):
        return each_way(WAYS_OF_EAGER, both, done)
    note = f"in {both.model.dtype_name} differences are mostly rounding: --dtype float32 compares them"
    return [Way(name, check.of, None, 0.0, note) for name, check in WAYS_OF_EAGER.items()]
