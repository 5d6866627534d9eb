"""Show what masks do to the maps of a text, and check the laws of masks and positions on it.

A text goes through the model without a mask, under the causal mask and under the padding mask, with [PAD] appended. Per
head:

    moved     = ½ Σ_key |w - w'|, w' without the mask, mean over the queries that are real tokens (total variation)
    forbidden = the sum of the weights on keys that the mask hides, which must be 0

A law says that two runs of the model give equal vectors in every layer, or, as a control, different ones. Their
difference is compared with rounding: the tolerance is that of `attncli compare` for hidden states, scaled up for
vectors larger than LARGE.

Windows: k consecutive local layers reach k times as far as one; a global layer reaches everything. Below each stack of
local layers one token's vector is changed. Above them, tokens beyond their reach must have the same vectors as before.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypedDict

import numpy as np

from attncli.analysis.patterns import counted_queries, total_variation
from attncli.base import choices
from attncli.base.arrays import titled
from attncli.base.errors import RequestError
from attncli.base.files import DOCUMENTS, PICTURES
from attncli.base.printable import short
from attncli.base.progress import progress
from attncli.base.typed import NotRequired
from attncli.checks.tolerance import TOLERANCES
from attncli.features import options
from attncli.features.inputs import check_one, check_part, layers_or, open_model, read_inputs
from attncli.features.measure import measure
from attncli.models.block import Block, Tap
from attncli.models.parts import self_attention_kind, self_attention_part
from attncli.record import AttentionRecord, Input, ModelInfo, Request
from attncli.record.display import drawn_map, model_name, record_size
from attncli.record.parts import ModelDocument
from attncli.report import Cell, Column, MapAxis, Maps, NextCommand, Panel, Part, Report, Result, Table, TextLine
from attncli.text.tokens import Tokens

if TYPE_CHECKING:
    from torch import Tensor

    from attncli.base.typed import Unpack
    from attncli.models.engine import Engine

UNMASKED: choices.MaskName = "none"
HIDING: tuple[choices.MaskName, ...] = ("causal", "padding")  # each is compared with no mask
CAPTIONS = {"none": "unmasked", "causal": "causal", "padding": "padding"}
SHOWN = 12  # words of a shuffled text
LARGE = 100.0  # an element of a vector; those of BERT reach 20, those of GPT-2 thousands


@measure(options.ComputeOptions, saves=(*PICTURES, *DOCUMENTS), saved_as="what masks do")
def mask(
    model: options.ModelOption = None,
    text: options.Text = None,
    *,
    pair: options.Pair = None,
    file: options.File = None,
    whole: options.Whole = False,
    layer: options.Layers = None,
    head: options.HeadsOption = None,
    pad_to: options.PadTo = None,
    engine: options.EngineOption = "auto",
    which: options.OwnWhich = None,
    target: options.Target = None,
    **how: "Unpack[options.ComputeOptions]",
) -> "MaskedTexts":
    """Show what masks do to a text's maps, and check that they work.

    Shows maps without a mask, under the causal mask and under the padding mask side by side; without -H, those of the
    head whose weight the causal mask moves most. Without --pad-to, four [PAD] are added. Then tests laws, such as:
    hidden [PAD] changes no vector, later tokens change no earlier vector, and without positions the order of the tokens
    does not matter. For layers with a window, a table says how far they reach, and whether tokens beyond that change
    anything. The exit code is 1 if a law does not hold.

    \b
    Examples:
      attncli mask "The trophy does not fit in the suitcase because it is too big."
      attncli mask -l 2 -H 0-3 --pad-to 24 "The cat sat on the mat."
      attncli mask -l 0 -H 2 -o masks.png "The cat sat on the mat."
    """
    inputs = read_inputs(text, pair, file, whole=whole)
    if target is not None:
        check_one(len(inputs), "give one as TEXT for --target")
    request = Request(
        layers_or("-1", layer, head), "all" if head is None else head, pad_to=pad_to, which=which, target=target
    )
    opened = check_part(open_model(model, engine, **how), which)
    found = []
    with progress(len(inputs), "texts") as advance:
        for one in inputs:
            found.append(compare_masks(opened, one, request))
            advance()
    return MaskedTexts(opened.of_part(self_attention_part(opened, which)).info, found, head is not None)


# --- one text under every mask ----------------------------------------------------------------------------


@dataclass(frozen=True)
class MaskEffect:
    """The effect of one mask on one head.

    moved: the total variation distance to the unmasked row, mean over queries: 0 if nothing moved, 1 if all of the
    weight did. forbidden: the sum of the weights on positions that the mask hides; 0 if the mask works.
    """

    moved: float
    forbidden: float

    def document(self) -> "_MovedEntry":
        """Return the entry in what --json prints."""
        return {"moved": self.moved, "forbidden": self.forbidden}


@dataclass(frozen=True)
class Masked:
    """The results of one text under every mask.

    records: by mask, the unmasked one first. effects: by mask and (layer, head). windows: the reach of the layers, if
    some have a window.
    """

    records: dict[str, AttentionRecord]
    effects: dict[str, dict[tuple[int, int], MaskEffect]]
    laws: list["Law"]
    windows: "Windows | None" = None

    @property
    def tokens(self) -> Tokens:
        """The tokens of the text, with the appended [PAD]."""
        return next(iter(self.records.values())).tokens

    @property
    def lawful(self) -> bool:
        """Return whether no law is broken and no weight is on forbidden positions."""
        clean = all(effect.forbidden == 0 for by_head in self.effects.values() for effect in by_head.values())
        return clean and all(law.holds is not False for law in self.laws)

    def document(self) -> "_TextEntry":
        """Return a text's entry in what --json prints."""
        causal, padding = (self.effects[name] for name in HIDING)
        document: _TextEntry = {
            "tokens": self.tokens.text,
            "heads": [
                {
                    "layer": layer,
                    "head": head,
                    "causal": causal[layer, head].document(),
                    "padding": padding[layer, head].document(),
                }
                for layer, head in causal
            ],
            "laws": [law.document() for law in self.laws],
            "lawful": self.lawful,
        }
        if self.windows is not None:
            document["window"] = self.windows.document()
        return document


def compare_masks(engine: "Engine", one: Input, request: Request | None = None) -> Masked:
    """Run a text under every mask, padded to `request.pad_to` tokens, by default with four [PAD].

    Raises RequestError as the tokenizer and the engine do, if the maps would not fit into memory, for cross-attention,
    and for a target or [PAD] that has no effect.
    """
    import torch

    from attncli.attention import MASKS, self_mask
    from attncli.models.engine import check_memory

    request = request or Request()
    request, kind = (
        replace(request, which=self_attention_part(engine, request.which)),
        self_attention_kind(engine, request.which),
    )
    engine.check(request)
    in_decoder = kind == "decoder" and len(engine.parts) > 1
    if request.pad_to is not None and in_decoder:
        raise RequestError("no token of a decoder attends to the encoder's [PAD]: omit --pad-to")
    tokens = engine.tokenizer.encode(one.text, one.pair)
    padded = tokens if in_decoder else engine.tokenizer.pad_some(tokens, request.pad_to)
    [padded] = check_memory(engine, [[padded]], request, copies=len(HIDING))
    records: dict[str, AttentionRecord] = {}
    for name in (UNMASKED, *HIDING):
        [record] = engine.attend_tokens([padded], replace(request, mask=name))
        real = torch.tensor([[not padding for padding in record.tokens.padding]])
        expected = self_mask(real, *MASKS[record.mask_name])[0, 0].numpy()  # even if the engine applied another mask
        records[name] = replace(record, masks=record.masks & expected)
    effects: dict[str, dict[tuple[int, int], MaskEffect]] = {
        name: mask_effects(records[name], records[UNMASKED]) for name in HIDING
    }
    if in_decoder:
        why = "the laws are checked on the part that reads the text"
        untested = [Law(law.name, law.statement, None, None, why) for law in laws_for(engine)]
        return Masked(records, effects, untested)
    laws, windows = check_laws(engine, tokens, padded), measure_windows(engine, tokens)
    return Masked(records, effects, [*laws, *([windows.law] if windows else [])], windows)


def mask_effects(masked: AttentionRecord, unmasked: AttentionRecord) -> dict[tuple[int, int], MaskEffect]:
    """Return the effect of the masks of `masked` on each head, by (layer, head). Both records have the same tokens.

    From the second layer on the head's input differs as well, because the layers below were masked too.
    """
    effects = {}
    real = ~np.array(masked.tokens.padding)
    for layer in masked.layers:
        # Rows of [PAD] are not counted: transformers lets them attend everywhere if a window leaves them no key.
        queries, hidden = counted_queries(masked, layer), ~masked.mask_of(layer) & real[:, None]
        for head in masked.heads_of(layer):
            weights = masked.map(layer, head)
            distances = total_variation(weights, unmasked.map(layer, head), masked.sinks)[queries]
            moved = float(distances.mean()) if len(distances) else 0.0
            effects[layer, head] = MaskEffect(moved, forbidden=float(weights[hidden].sum(dtype=np.float64)))
    return effects


# --- laws -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Law:
    """A law, the largest deviation from it, and whether it holds.

    deviation: the largest absolute difference between two vectors' elements, over all layers and tokens.
    holds: None if it could not be tested (`note` says why), or if an expected change was not seen. leaks: the share of
    real tokens' weight that goes to [PAD], by layer, if the law is about that. tolerance: the part of the deviation
    that rounding explains.
    """

    name: str
    statement: str
    deviation: float | None
    holds: bool | None
    note: str = ""
    leaks: dict[int, float] | None = None
    tolerance: float | None = None

    def document(self) -> "_LawEntry":
        """Return the entry in what --json prints."""
        return asdict(self)  # type: ignore[return-value]


class Deviation(NamedTuple):
    """The largest absolute difference between two vectors' elements, and the part that rounding explains."""

    deviation: float
    tolerance: float
    note: str = ""
    leaks: dict[int, float] | None = None


def check_laws(engine: "Engine", tokens: Tokens, padded: Tokens) -> list[Law]:
    """Check all laws on one text, without and with appended [PAD]. A law that can't be tested says why."""
    laws = []
    for law in laws_for(engine):
        texts = (tokens, padded) if law.takes_padding else (tokens,)
        try:
            found = law.measure(engine, *texts) if law.changes else measure_exactly(law.measure, engine, *texts)
        except RequestError as error:
            laws.append(Law(law.name, law.statement, None, None, str(error)))
            continue
        equal = found.deviation <= found.tolerance
        holds = (None if equal else True) if law.changes else equal
        laws.append(Law(law.name, law.statement, found.deviation, holds, *found[2:], tolerance=found.tolerance))
    return laws


def measure_exactly(measure: Callable[..., Deviation], engine: "Engine", *texts: Any) -> Deviation:
    """Measure a law on texts, and again in float64 if the deviation in float32 is above its tolerance.

    Rounding grows from layer to layer. SmolLM2 has elements of 13,000, whose rounding is large compared with other
    elements after the last norm. In float64 rounding is a billion times smaller, and a broken law stays broken.
    """
    import torch

    from attncli.models.model import own_network

    found = measure(engine, *texts)
    own = own_network(engine)
    if found.deviation <= found.tolerance or own is None or own.dtype != torch.float32:
        return found
    note = f"in float64; {found.deviation:.1e} in float32"
    return measure(own.in_float64, *texts)._replace(note=f"{found.note}; {note}" if found.note else note)


def measure_padding(engine: "Engine", tokens: Tokens, padded: Tokens, forgotten: bool = False) -> Deviation:
    """Compare the vectors of a text with those of its tokens in the padded text.

    forgotten: omit the padding mask, the most common mistake. The vectors of an encoder should change then.

    Raises RequestError if there is no [PAD], and for a decoder without the padding mask.
    """
    import torch

    if len(padded) == len(tokens):
        none = engine.tokenizer.pad_id is None
        raise RequestError("the tokenizer has no [PAD]" if none else "no room for [PAD]: the text fills all positions")
    if forgotten and engine.parts[0] == "decoder":
        raise RequestError("without the padding mask a decoder would also see later tokens")
    real = ~torch.tensor(padded.padding, device=engine.device)
    states = [after[real] for after in engine.hidden_states(padded, "none" if forgotten else None)]
    found = difference(engine, engine.hidden_states(tokens), states)
    if not forgotten:
        return found
    [record] = engine.attend_tokens([padded], Request(mask="none", which=self_attention_part(engine, None)))
    queries, padding = ~np.array(record.tokens.padding), np.array(record.keys.padding)
    weights = record.weights[:, :, queries][..., padding]  # [layer, head, real query, [PAD] key]
    leaks = {
        layer: float(leaked.sum(axis=-1, dtype=np.float64).mean())
        for layer, leaked in zip(record.layers, weights, strict=True)
    }
    note = "weight that leaks to [PAD]: " + ", ".join(f"layer {layer}: {leak:.3f}" for layer, leak in leaks.items())
    return found._replace(note=note, leaks=leaks)


def measure_prefixes(engine: "Engine", tokens: Tokens) -> Deviation:
    """Compare the vectors of the first third and the first two thirds of a text with those of the whole text."""
    every = engine.hidden_states(tokens, "causal")
    lengths = sorted({max(1, len(tokens) * part // 3) for part in (1, 2)})
    found = [
        difference(engine, engine.hidden_states(tokens.take(range(length)), "causal"), every) for length in lengths
    ]
    return max(found)._replace(note=f"prefixes of {' and '.join(map(str, lengths))} tokens")


def measure_with_cache(engine: "Engine", tokens: Tokens) -> Deviation:
    """Compare the vectors of a text read token by token, with a key-value cache, with those of one pass."""
    import torch

    from attncli.models.generation import KeysAndValues
    from attncli.models.model import own_network

    own = own_network(engine)
    assert own is not None  # `laws_for`
    every, cache, found = engine.hidden_states(tokens), KeysAndValues(len(tokens)), []
    with torch.inference_mode():
        for place, number in enumerate(tokens.ids):
            found.append([x[:1] for x in own.walk(own.rows_after([number], place), [cache])])
            cache.kept += 1
    return difference(engine, [torch.cat(of_layer) for of_layer in zip(*found, strict=True)], every)


def measure_permutation(engine: "Engine", tokens: Tokens, positions: bool = False) -> Deviation:
    """Compare the vectors of permuted tokens with permuted vectors.

    positions: whether they are in the input, which is the control; its note has the permuted words.

    Raises RequestError for a network with windows or a convolution, which depend on the order of the tokens, and if the
    engine can't omit positions.
    """
    import torch

    from attncli.models.model import own_network

    own = own_network(engine)
    if own is not None and own.config.goes_by_order:
        raise RequestError("a window or a convolution depends on the order of the tokens")
    order = torch.randperm(len(tokens), generator=torch.Generator().manual_seed(0)).tolist()
    straight = engine.hidden_states(tokens, "none", positions=positions)
    shuffled = engine.hidden_states(tokens.take(order), "none", positions=positions)
    found = difference(engine, [state[order] for state in straight], shuffled)
    if not positions:
        return found
    words = " ".join(tokens.shown[place] for place in order[:SHOWN]) + (" ..." if len(order) > SHOWN else "")
    return found._replace(note=f"read as: {words}")


class _Alone(Tap):
    """Lets every token attend to itself only, in all heads and layers."""

    def begin(self, block: Block) -> Block:
        import torch

        from attncli.models.rows import LayerMask

        itself = torch.eye(block.query.shape[2], dtype=torch.bool, device=block.query.device)
        return block._replace(mask=LayerMask(itself[None, None], None))


def measure_others(engine: "Engine", tokens: Tokens, alone: bool) -> Deviation:
    """Compare the vector of one token, before and after all other tokens are replaced, layer by layer.

    Compares the first token, one in the middle and the last. alone: whether every token attends to itself only.

    Raises RequestError if tokens interact outside attention by design, or the network is not attncli's own.
    """
    import torch

    from attncli.models.model import own_network

    own = own_network(engine)
    if own is None:
        raise RequestError("transformers runs this network, and its masks can't be replaced in every layer")
    if own.config.conv is not None:
        raise RequestError("tokens also interact in a convolution")
    generator, size = torch.Generator().manual_seed(0), own.config.vocab_size
    steps = torch.randint(1, size, (len(tokens),), generator=generator).tolist()
    taps = [_Alone()] if alone else []

    engine.need(engine.layers)

    def read(some: Tokens) -> "list[Tensor]":
        with torch.inference_mode():
            return list(engine.walk(engine.rows([some], None), taps))

    others = [(number + step) % size for number, step in zip(tokens.ids, steps, strict=True)]
    states, moved, largest = read(tokens), [0.0] * (engine.layers + 1), 0.0
    for place in sorted({0, len(tokens) // 2, len(tokens) - 1}):
        ids = [*others[:place], tokens.ids[place], *others[place + 1 :]]
        for layer, (before, after) in enumerate(zip(states, read(replace(tokens, ids=ids)), strict=True)):
            found = difference(engine, [before[place : place + 1]], [after[place : place + 1]])
            moved[layer], largest = max(moved[layer], found.deviation), max(largest, found.tolerance)
    if not any(moved[1:]):
        return Deviation(max(moved), largest, "0 in every layer")
    by_layer = ", ".join(f"layer {layer}: {change:.2g}" for layer, change in enumerate(moved[1:]))
    return Deviation(max(moved), largest, by_layer)


class LawMeasure(NamedTuple):
    """A law, and how it is measured.

    changes: whether it expects a change instead of equal vectors. takes_padding: whether its measure also takes the
    padded text.
    """

    name: str
    statement: str
    measure: Callable[..., Deviation]
    changes: bool = False
    takes_padding: bool = False


CACHE = LawMeasure(
    "key-value cache",
    "reading a text token by token, with a key-value cache, gives the vectors of one pass",
    measure_with_cache,
)
LAWS = (
    LawMeasure(
        "padding", "[PAD] that the mask hides changes no real token's vector", measure_padding, takes_padding=True
    ),
    LawMeasure(
        "forgotten padding mask",
        "without the padding mask, [PAD] changes the vectors",
        partial(measure_padding, forgotten=True),
        changes=True,
        takes_padding=True,
    ),
    LawMeasure("causal", "under the causal mask a prefix's vectors do not depend on what follows", measure_prefixes),
    CACHE,
    LawMeasure(
        "permutation",
        "without positions in the input, permuting the tokens only permutes the vectors",
        measure_permutation,
    ),
    LawMeasure(
        "permutation with positions",
        "with positions in the input, permuting the tokens changes the vectors",
        partial(measure_permutation, positions=True),
        changes=True,
    ),
    LawMeasure(
        "alone",
        "if every token attends to itself only, a token's vectors do not depend on the other tokens",
        partial(measure_others, alone=True),
    ),
    LawMeasure(
        "together",
        "with normal self-attention, a token's vectors depend on the other tokens",
        partial(measure_others, alone=False),
        changes=True,
    ),
)


def laws_for(engine: "Engine") -> list[LawMeasure]:
    """Return the laws for a model. Only decoders in attncli's own network have a key-value cache."""
    from attncli.models.model import own_network

    own = own_network(engine)
    has_cache = own is not None and own.part == "decoder"
    return [law for law in LAWS if has_cache or law is not CACHE]


def difference(engine: "Engine", some: "Sequence[Tensor]", more: "Sequence[Tensor]") -> Deviation:
    """Compare the vectors `[token, hidden_size]` of every layer, for as many tokens as `some` has.

    The deviation is infinite if one has a NaN.
    """
    import torch

    pairs = [(few.double(), many[: len(few)].double()) for few, many in zip(some, more, strict=True)]
    deviation = torch.stack([(few - many).abs().max() for few, many in pairs]).nan_to_num(nan=torch.inf).max()
    largest = torch.stack([few.abs().max() for few, _ in pairs]).nan_to_num(nan=1.0).max()
    return Deviation(float(deviation), tolerance(engine, float(largest)))


def tolerance(engine: "Engine", largest: float) -> float:
    """Return the difference that rounding explains between vectors with elements up to `largest`."""
    # In float64 transformers still computes the norms of Llama and the softmax of T5 in float32.
    single = engine.name == "transformers" and engine.dtype_name == "float64"
    return TOLERANCES["float32" if single else engine.dtype_name].hidden * max(1.0, largest / LARGE)


# --- windows ----------------------------------------------------------------------------------------------

WINDOW = "window", "a token beyond the joint reach of local layers changes no vector after them"
CHANGED = 0  # the token to change: the first, which has the most tokens on one side


@dataclass(frozen=True)
class Reach:
    """The distance, in tokens to either side, over which a layer passes information; None is any distance.

    reach: through this layer. together: through it and the local layers right below it. whole: from the text itself,
    through all layers up to it. beyond, within: the largest change of a vector after this layer, for tokens further
    from the changed one than `together`, and for others; None if there is no such token, or no window.
    """

    layer: int
    reach: int | None
    together: int | None
    whole: int | None
    beyond: float | None = None
    within: float | None = None


@dataclass(frozen=True)
class Windows:
    """The windows of a model on a text.

    tokens: the length of the text. shortest: that of the shortest text in which the narrowest window hides a key.
    """

    layers: list[Reach]
    tokens: int
    shortest: int
    law: Law

    def document(self) -> "_WindowEntry":
        """Return a text's `window` in what --json prints."""
        layers: Any = [asdict(one) for one in self.layers]
        return {"shortest": self.shortest, "hides": self.tokens >= self.shortest, "layers": layers}


class _NegateOutput(Tap):
    """Changes the sign of the output of one layer's attention at the token CHANGED, in all heads."""

    def __init__(self, layer: int) -> None:
        self.layer = layer

    def output(self, block: Block, output: Any) -> Any:
        if block.layer == self.layer:
            output = output.clone()
            output[:, :, CHANGED] *= -1
        return output


def measure_windows(engine: "Engine", tokens: Tokens) -> Windows | None:
    """Measure windows on a text without [PAD]; None if no layer has one, or the engine does not know.

    Below each stack of local layers the vector of CHANGED is changed; below the first layer, by replacing its token.
    """
    import torch

    from attncli.models.model import own_network

    own = own_network(engine)
    if own is None or all(reach is None for reach in own.config.reach):
        return None
    found, states = reaches(own.config.reach), engine.hidden_states(tokens)
    distance = (torch.arange(len(tokens), device=states[0].device) - CHANGED).abs()
    for one in found:
        if one.together is None:
            continue
        if one.layer == 0:
            ids = list(tokens.ids)
            ids[CHANGED] = next((other for other in ids if other != ids[CHANGED]), 0)
            after = engine.hidden_states(replace(tokens, ids=ids))
        elif found[one.layer - 1].together is None:
            with torch.inference_mode():
                after = list(engine.walk(engine.rows([tokens], None), [_NegateOutput(one.layer - 1)]))
        change = after[one.layer + 1].double() - states[one.layer + 1].double()
        moved = change.abs().amax(dim=-1).nan_to_num(nan=torch.inf)  # [token]
        far, near = moved[distance > one.together], moved[(distance <= one.together) & (distance > 0)]
        beyond, within = (float(some.max()) if len(some) else None for some in (far, near))
        found[one.layer] = replace(one, beyond=beyond, within=within)

    shortest = min(reach for reach in own.config.reach if reach is not None) + 2
    measured = [one for one in found if one.beyond is not None]
    if not measured:
        note = f"windows hide nothing in a text of {len(tokens)} tokens: use at least {shortest} tokens"
        return Windows(found, len(tokens), shortest, Law(*WINDOW, None, None, note))
    most = tolerance(engine, max(float(state.abs().max()) for state in states))
    beyond, within = max(one.beyond or 0.0 for one in measured), max(one.within or 0.0 for one in measured)
    # without a change within reach the test shows nothing
    holds = None if beyond <= most and within <= most else beyond <= most
    note = f"within reach the largest change is {within:.2g}"
    return Windows(found, len(tokens), shortest, Law(*WINDOW, beyond, holds, note, tolerance=most))


def reaches(own: Sequence[int | None]) -> list[Reach]:
    """Return, for each layer, how far its windows let it see."""
    found: list[Reach] = []
    together: int | None = 0
    whole: int | None = 0
    for layer, reach in enumerate(own):
        together = None if reach is None else (together or 0) + reach
        whole = None if reach is None or whole is None else whole + reach
        found.append(Reach(layer, reach, together, whole))
    return found


# --- the result -----------------------------------------------------------------------------------------


class _MovedEntry(TypedDict):
    moved: Annotated[float, "weight that moves: total variation distance, mean over queries", "share of the weight"]
    forbidden: Annotated[float, "sum of all weights that the mask forbids: 0 if it works"]


class _HeadEntry(TypedDict):
    """The effect of the masks on each head, compared with no mask."""

    layer: Annotated[int, "layer number in the model"]
    head: Annotated[int, "head number in its layer"]
    causal: Annotated[_MovedEntry, "the causal mask"]
    padding: Annotated[_MovedEntry, "the padding mask"]


class _ReachEntry(TypedDict):
    layer: Annotated[int, "layer number in the model"]
    reach: Annotated[
        int | None, "distance that a token of this layer can attend to; null: any", "tokens to either side"
    ]
    together: Annotated[
        int | None, "distance through this layer and the window layers directly below it", "tokens to either side"
    ]
    whole: Annotated[int | None, "distance through all layers up to it", "tokens to either side"]
    beyond: Annotated[
        float | None,
        "largest change of a vector further than `together` from the changed token: 0 up to rounding; null if there is "
        "none",
    ]
    within: Annotated[float | None, "largest change of the other vectors"]


class _WindowEntry(TypedDict):
    """For networks with a window in some layers."""

    shortest: Annotated[int, "length of the shortest text in which the narrowest window hides a key", "tokens"]
    hides: Annotated[bool, "true if this text is that long"]
    layers: Annotated[list[_ReachEntry], "", "`[layer]`"]


class _LawEntry(TypedDict):
    """The laws that must hold."""

    name: str
    statement: Annotated[str, "in words"]
    deviation: Annotated[
        float | None,
        "largest difference between elements of two vectors; null if there was nothing to compare",
    ]
    holds: Annotated[bool | None, "null if it could not be tested, or if an expected change is too small to see"]
    note: Annotated[str, "details, or why it could not be tested; may be empty"]
    leaks: Annotated[dict[int, float] | None, "weight to [PAD] by layer, if the law is about it", "share of the weight"]
    tolerance: Annotated[float | None, "the deviation that rounding explains; null if it was not measured"]


class _TextEntry(TypedDict):
    """One per text, in order."""

    tokens: Annotated[list[str], "with the appended [PAD]", "`[token]`"]
    heads: list[_HeadEntry]
    window: NotRequired[_WindowEntry]
    laws: list[_LawEntry]
    lawful: Annotated[bool, "true if no law is broken and no forbidden key has weight"]


class MaskDocument(TypedDict):
    """`.csv`: a row per entry of `texts.heads`; the first column, `text`, is the number of the text."""

    model: ModelDocument
    texts: list[_TextEntry]


@dataclass(frozen=True, repr=False)
class MaskedTexts(Result):
    """Texts under every mask. chosen: the heads were chosen, and all are drawn."""

    model: ModelInfo
    texts: list[Masked]
    chosen: bool = False

    def __repr__(self) -> str:
        count = f"{len(self.texts)} text{'s' if len(self.texts) > 1 else ''}"
        return titled(self, self.model.full_name, count, "lawful" if self.lawful else "a law is broken")

    @property
    def lawful(self) -> bool:
        """Return True if no law is broken in any text."""
        return all(one.lawful for one in self.texts)

    @property
    def verdict(self) -> str:
        """How many laws hold; or which are broken, and whether hidden keys have weight."""
        tested = [law for one in self.texts for law in one.laws if law.holds is not None]
        if self.lawful:
            untested = sum(len(one.laws) for one in self.texts) - len(tested)
            rest = f" ({untested} could not be tested)" if untested else ""
            return f"right: {len(tested)} laws hold{rest}, and hidden keys have no weight"
        broken = dict.fromkeys(law.statement for law in tested if not law.holds)
        return f"wrong: {'; '.join(broken) or 'hidden keys have weight'}"

    def document(self) -> MaskDocument:
        """Return what --json prints."""
        return {"model": self.model.document(), "texts": [one.document() for one in self.texts]}

    def report(self) -> Report:
        """Show the maps of some heads under every mask, what the masks moved, how far windows reach, and the laws."""
        some = next(iter(self.texts[0].records.values()))
        one = [*some.unusual, record_size(some)] if len(self.texts) == 1 else [f"{len(self.texts)} texts"]
        parts: list[Part] = []
        for number, text in enumerate(self.texts):
            record = next(iter(text.records.values()))
            if len(self.texts) > 1:
                parts.append(TextLine(" · ".join([f"text {number}", *record.unusual, record_size(record)]), "strong"))
            first = next(iter(text.effects.values()))  # of the causal mask
            most_moved = max(first, key=lambda head: first[head].moved)
            parts += [_maps(text, list(first) if self.chosen else [most_moved]), *_effects(text)]
            parts += _windows(text.windows) if text.windows is not None else []
            parts.append(_laws(text.laws))
        return Report(
            [model_name(some.model.full_name), "what masks do", *one],
            parts,
            self.document,
            lambda document: (
                {"text": number, **head} for number, one in enumerate(document["texts"]) for head in one["heads"]
            ),
            picture=None if len(self.texts) == 1 else [],
            holds=self.lawful,
            verdict=self.verdict,
            next=NextCommand("view", {"masks": "none,causal,padding", "layer": None, "head": None}),
        )


def _maps(found: Masked, heads: Sequence[tuple[int, int]]) -> Maps:
    """Return a row of maps for each head, one under each mask."""
    axis = MapAxis("query", found.tokens.shown, special=found.tokens.special)
    panels = [
        [
            Panel(CAPTIONS[name], drawn_map(record, layer, head), _hidden_keys(record, layer))
            for name, record in found.records.items()
        ]
        for layer, head in heads
    ]
    headings = [f"layer {layer} head {head}" for layer, head in heads]
    return Maps(panels, axis, replace(axis, name="key"), headings=headings)


def _hidden_keys(record: AttentionRecord, layer: int) -> str:
    """Describe the keys that a layer's mask hides: "hidden: later keys, [PAD]"."""
    hidden = ~record.mask_of(layer)
    padding = np.broadcast_to(np.array(record.tokens.padding), hidden.shape)
    later = np.triu(np.ones_like(hidden), 1) & ~padding
    kinds = {"later keys": later, "[PAD]": padding}
    found = [name for name, cells in kinds.items() if cells.any() and hidden[cells].all()]
    explained = np.any([kinds[name] for name in found], axis=0) if found else np.zeros_like(hidden)
    if (hidden & ~explained).any():
        found.append("keys too far away")
    return f"hidden: {', '.join(found) or 'nothing'}"


def _effects(found: Masked) -> list[Part]:
    """Return a row per head: the weight that each mask moved, and the weight left on forbidden positions."""
    columns = [
        column
        for place, name in enumerate(found.effects)
        for column in (Column(f"{name}: moved"), Column(f"{name}: on forbidden", drop=place + 1))
    ]
    rows = []
    for layer, head in next(iter(found.effects.values())):
        effects = [by_head[layer, head] for by_head in found.effects.values()]
        cells = [(f"{one.moved:.3f}", f"{one.forbidden:g}") for one in effects]
        rows.append([f"{layer}.{head}", *(cell for both in cells for cell in both)])
    legend = (
        "moved: the share of a query's weight that the mask sends elsewhere (total variation distance from the "
        "unmasked row), mean over queries. on forbidden: the sum of the weights on keys that the mask hides; it must "
        "be 0."
    )
    return [Table([Column("head"), *columns], rows), TextLine(legend)]


def _laws(laws: Sequence[Law]) -> Table:
    """Return each law with its largest deviation and a verdict."""
    rows: list[list[str | Cell]] = []
    for law in laws:
        unknown = "not tested" if law.deviation is None else "no change seen"
        verdict = {True: Cell("holds"), False: Cell("DOES NOT HOLD", "wrong"), None: Cell(unknown)}[law.holds]
        statement = f"{law.statement}\n  ({law.note})" if law.note else law.statement
        deviation = "-" if law.deviation is None else f"{law.deviation:.2g}"
        rows.append([statement, deviation, "-" if law.tolerance is None else short(law.tolerance), verdict])
    columns = [
        Column("law, on this text", "prose"), Column("largest deviation", drop=1), Column("rounding explains", drop=1),
        Column("verdict"),
    ]  # fmt: skip
    return Table(columns, rows)


def _windows(windows: Windows) -> list[Part]:
    """Return the reach of every layer, the measured reach, and whether the text is long enough to measure it."""
    columns = [
        Column("layer"), Column("sees"), Column("with local layers below"), Column("sees of the text", drop=1),
        Column("change beyond"), Column("change within"),
    ]  # fmt: skip
    rows = [
        [
            str(one.layer),
            *("all" if reach is None else f"±{reach}" for reach in (one.reach, one.together, one.whole)),
            *("-" if change is None else f"{change:.2g}" for change in (one.beyond, one.within)),
        ]
        for one in windows.layers
    ]
    legend = (
        "sees: the number of tokens to either side that a token can attend to in this layer; of the text: those that "
        "can influence it through all layers up to this one. Below each stack of local layers one token's vector was "
        "changed. change beyond: the largest change of a vector beyond the joint reach of these layers, which must be "
        "0 up to rounding; change within: that of the other vectors."
    )
    parts = [Table(columns, rows), TextLine(legend)]
    if windows.tokens < windows.shortest:
        short = (
            f"The windows hide nothing on this text of {windows.tokens} tokens. They hide keys from {windows.shortest} "
            "tokens on."
        )
        parts.append(TextLine(short))
    return parts
