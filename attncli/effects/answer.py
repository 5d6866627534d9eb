"""A decoder's answer to a prompt: the attention where it was predicted, and its probability without a span.

For models that write no answer, another output is measured: a label, a word at [MASK], a cosine.

A token is predicted at the position before it, and its row is the row of that position. For an answer y after a prompt
x:

    share(part)  = weight of the rows on the part / weight of the rows on all tokens except the sink
    effect(part) = mean over answer tokens of log p(y_t | x, y_<t) - log p(y_t | the part is hidden)

A part is hidden from all other tokens, in all heads and layers; positions stay. Tokens before the part do not change,
so their keys and values are cached. No later token reads the part's own keys and values, so the walk begins after it.

In an encoder-decoder the prompt is the encoder's text, and shares are of cross-attention. A part is hidden like [PAD]:
from the encoder's other tokens, and from the rows of the answer.
"""

from collections.abc import Callable, Iterator, Sequence, Set, Sized
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from attncli.base.arrays import Array, Doubles, as_numpy
from attncli.effects.asking import FROM_NOTHING, RANDOM_SPANS, MeasuredOutput
from attncli.effects.change import Hide
from attncli.effects.question import Question
from attncli.models.block import Block, Tap
from attncli.models.devices import InTorch
from attncli.models.engine import Engine
from attncli.models.generation import KeysAndValues, extend, next_output
from attncli.models.model import Model, own_network
from attncli.models.rows import LayerMask
from attncli.models.taps import BLOCK
from attncli.text.tokens import Tokens, joined


class WeightsOnUnits(Tap):
    """Sums the weights of some rows over units of keys.

    rows: positions of queries. units: `[key, unit]`, 1 if a token is in a unit. sums: `[head, row, unit]` for each
    layer.
    """

    needs_values = False
    most_weights = BLOCK

    def __init__(self, rows: Sequence[int], units: Doubles) -> None:
        self.rows, self.units = np.asarray(rows), units
        self.sums: dict[int, Doubles] = {}

    def places(self, block: Block) -> Sequence[int]:
        return range(len(block.numbers))

    def weights(self, part: Block, weights: Array) -> None:
        sums = self.sums.setdefault(part.layer, np.zeros((len(part.numbers), len(self.rows), self.units.shape[1])))
        wanted = np.flatnonzero((self.rows >= part.queries.start) & (self.rows < part.queries.stop))
        if len(wanted):
            seen = as_numpy(weights)[0][:, self.rows[wanted] - part.queries.start].astype(np.float64)
            sums[:, wanted] += seen @ self.units[part.keys]


class Hidden(Tap):
    """Hides tokens from all others. kept: cached keys and values of the tokens before the block's queries."""

    def __init__(self, places: Sequence[int], kept: KeysAndValues | None = None) -> None:
        self.hidden, self.kept = list(places), kept
        self._masks: dict[LayerMask, LayerMask] = {}

    def begin(self, block: Block) -> Block:
        if self.kept is not None:
            keys, values = self.kept.by_layer[block.layer]
            start = block.run.keys - block.key.shape[2]
            both = torch.cat([keys[:, :, :start], block.key], 2), torch.cat([values[:, :, :start], block.value], 2)
            stop = block.run.keys
            block = block._replace(key=both[0], value=both[1], queries=slice(start, stop), keys=slice(0, stop))
        mask = block.mask or LayerMask(None, None)
        if mask not in self._masks:
            count = block.keys.stop
            shown = torch.eye(count, dtype=torch.bool, device=block.key.device)[None, None]
            shown |= ~torch.isin(torch.arange(count), torch.tensor(self.hidden)).to(shown.device)
            self._masks[mask] = mask.hiding(shown)
        return block._replace(mask=self._masks[mask])


@dataclass(frozen=True)
class AnsweredPrompt:
    """A prompt, and the ids of the answer that follows it."""

    model: InTorch
    prompt: Tokens
    ids: Sequence[int]

    @cached_property
    def tokens(self) -> Tokens:
        """The tokens of the prompt and of the answer."""
        return extend(self.model, self.prompt, self.ids)

    @property
    def rows(self) -> range:
        """The positions that predicted the answer's tokens."""
        start = len(self.tokens) - len(self.ids)
        return range(start - 1, len(self.tokens) - 1)

    sinks = frozenset([0])  # the first token
    output = None  # an output to measure instead of an answer

    @property
    def keys(self) -> int:
        """The number of tokens that rows can see."""
        return len(self.tokens)

    @property
    def visible(self) -> Doubles:
        """The number of tokens that each row sees, without the sink."""
        return np.array(self.rows, dtype=np.float64)

    @cached_property
    def _kept(self) -> tuple[Model, KeysAndValues, Tensor] | None:
        """The keys and values of all tokens, and the rows' last vectors; None if transformers runs the network."""
        own = own_network(self.model)
        if own is None:
            return None
        own.need(own.layers)
        kept = KeysAndValues(len(self.tokens))
        ids = self.tokens.ids
        with torch.inference_mode():
            if self.rows.start:
                for _ in own.walk(own.rows_after(ids[: self.rows.start], 0), [kept]):
                    pass
                kept.kept = self.rows.start
            *_, last = own.walk(own.rows_after(ids[self.rows.start : self.rows.stop], self.rows.start), [kept])
        return own, kept, last[: len(self.ids)]

    def _log_probabilities(self, vectors: Tensor, rows: Sequence[int]) -> Doubles:
        """Return the log-probability of the token that follows each of these rows, given their last vectors."""
        with torch.inference_mode():
            [logits] = next_output(self.model)([vectors], [self.tokens.take(rows)])
            following = torch.tensor([self.tokens.ids[row + 1] for row in rows])
            found = logits.cpu().double().log_softmax(dim=-1)[torch.arange(len(rows)), following]
        return found.numpy()

    @cached_property
    def plain(self) -> Doubles:
        """The log-probability of each token of the answer, in nats."""
        return self._full_pass([]) if self._kept is None else self._log_probabilities(self._kept[2], list(self.rows))

    def _full_pass(self, taps: Sequence[Tap], tokens: Tokens | None = None) -> Doubles:
        with torch.inference_mode():
            [hidden] = self.model.last_hidden([tokens or self.tokens], taps=taps)
            return self._log_probabilities(hidden[list(self.rows)], list(self.rows))

    def without(self, places: Sequence[int]) -> Doubles:
        """Return the log-probability of each token of the answer if these tokens of the prompt are hidden."""
        if self._kept is None:
            return self._full_pass([Hidden(places)])
        own, kept, _ = self._kept
        inside = set(places)
        later = range(min(places) + 1, self.rows.stop)
        begin = next((row for row in later if row not in inside or row in self.rows), None)
        if begin is None:
            return self.plain
        with torch.inference_mode():
            rows = own.rows_after(self.tokens.ids[begin : self.rows.stop], begin)
            *_, last = own.walk(rows, [Hidden(places, kept)])
        found = self.plain.copy()
        changed = [row for row in self.rows if row >= begin]
        found[len(self.rows) - len(changed) :] = self._log_probabilities(last[len(last) - len(changed) :], changed)
        return found

    def weights_on(self, units: Doubles) -> Doubles:
        """Return the weight of each row of the answer on units of tokens, `[layer, head, row, unit]`.

        units: `[token, unit]`, 1 if a token is in a unit. Layers without attention are omitted.
        """
        tap = WeightsOnUnits(list(self.rows), units)
        with torch.inference_mode():
            if self._kept is None:
                self.model.last_hidden([self.tokens], taps=[tap])
            else:
                own, kept, _ = self._kept
                ids = self.tokens.ids[self.rows.start : self.rows.stop]
                for _ in own.walk(own.rows_after(ids, self.rows.start), [Hidden([], kept), tap]):
                    pass
        return np.stack([tap.sums[layer] for layer in sorted(tap.sums)])


class EncodedPrompt(AnsweredPrompt):
    """A prompt that the encoder of an encoder-decoder reads, and the ids of the answer that its decoder writes."""

    @property
    def sinks(self) -> frozenset[int]:  # type: ignore[override]
        """The special tokens."""
        return special_places(self.prompt)

    @property
    def keys(self) -> int:
        return len(self.prompt)

    @property
    def visible(self) -> Doubles:
        return np.full(len(self.ids), float(self.keys - len(self.sinks)))

    def without(self, places: Sequence[int]) -> Doubles:
        inside = set(places)
        hidden = replace(self.prompt, padding=[place in inside for place in range(self.keys)])
        return self._full_pass([], extend(self.model, hidden, self.ids))


@dataclass(frozen=True)
class MeasuredText:
    """A text and an output of it, such as a label, instead of an answer.

    Its one row is the mean over the tokens that the output reads.
    """

    question: Question

    @property
    def model(self) -> Engine:
        """The model."""
        return self.question.texts[0].model

    @property
    def output(self) -> MeasuredOutput:
        """The output, with its value."""
        return self.question.answer

    @property
    def prompt(self) -> Tokens:
        """The tokens of the text."""
        return self.question.texts[0].tokens

    @property
    def keys(self) -> int:
        """The number of tokens."""
        return len(self.prompt)

    @property
    def sinks(self) -> frozenset[int]:
        """The special tokens."""
        return special_places(self.prompt)

    @property
    def visible(self) -> Doubles:
        """The number of tokens besides the special ones, `[1]`."""
        return np.array([self.keys - len(self.sinks)], dtype=np.float64)

    @property
    def plain(self) -> Doubles:
        """The output, `[1]`."""
        return np.array([self.question.answer.value])

    def without(self, places: Sequence[int]) -> Doubles:
        """Return the output if these tokens are hidden from all others, `[1]`.

        The effect of a divergence or a distance is subtracted, so that it counts as a loss.
        """
        inside, [text, *_] = set(places), self.question.texts
        edges = [(query, key) for query in range(len(self.prompt)) if query not in inside for key in places]
        heads = [(layer, head) for layer in text.model.select_layers("all") for head in range(text.model.heads)]
        [effect] = self.question.effects([Hide(heads, edges)], [text])
        return self.plain + (-effect if self.question.answer.kind in FROM_NOTHING else effect)

    def weights_on(self, units: Doubles) -> Doubles:
        """Return the mean weight of the tokens that the output reads on units of tokens, `[layer, head, 1, unit]`."""
        record = self.question.texts[0].record
        assert record is not None
        return record.weights[:, :, list(self.question.reads)].mean(axis=2, keepdims=True) @ units


def special_places(tokens: Tokens) -> frozenset[int]:
    """Return the positions of the special tokens."""
    return frozenset(place for place, special in enumerate(tokens.special) if special)


# --- shares, and controls --------------------------------------------------------------------------------


def attention_shares(
    measured: AnsweredPrompt | MeasuredText, spans: Sequence[Sequence[int]], groups: Sequence[Sequence[int]]
) -> tuple[Doubles, Doubles, Doubles]:
    """Return each span's share of attention, its share of the length, and its mean weights.

    groups: rows of the answer. Shares of attention and length are `[group, span]` and leave out sinks. Mean weights are
    `[layer, head, span]`, over all rows.
    """
    units = np.zeros((measured.keys, len(spans) + 1))
    for number, span in enumerate(spans):
        units[span, number] = 1
    units[:, -1] = [place not in measured.sinks for place in range(measured.keys)]
    weights = measured.weights_on(units)
    uniform = 1 / (measured.visible + len(measured.sinks))  # the weight of uniform attention on each token, by row
    shares, lengths = np.empty((2, len(groups), len(spans)))
    for number, group in enumerate(groups):
        by_head = weights[:, :, group].mean(axis=2)
        shares[number] = by_head[..., :-1].sum(axis=(0, 1)) / by_head[..., -1].sum()
        every = (uniform * measured.visible)[group].sum()
        lengths[number] = [len(span) * uniform[group].sum() / every for span in spans]
    return shares, lengths, weights.mean(axis=2)[..., :-1]


def effects_of(
    measured: AnsweredPrompt | MeasuredText,
    places: Sequence[int],
    groups: Sequence[Sequence[int] | slice] = (slice(None),),
) -> list[float]:
    """Return the effect of hiding tokens of the prompt on each group of tokens of the answer; by default on all."""
    lost = measured.plain - measured.without(places)
    return [float(lost[group].mean()) for group in groups]


def random_spans(
    prompt: Sized, places: Sequence[int], draws: int, sinks: Set[int] = frozenset([0])
) -> Iterator[list[int]]:
    """Draw spans of len(places) neighbouring tokens from the rest of the prompt; none if there is no room for one."""
    taken, size = {*sinks, *places}, len(places)
    starts = [start for start in range(len(prompt) - size + 1) if taken.isdisjoint(range(start, start + size))]
    for start in np.random.default_rng(0).permutation(starts)[: draws if size else 0].tolist():
        yield list(range(start, start + size))


def control_effects(
    measured: AnsweredPrompt | MeasuredText, places: Sequence[int], draws: int, effect: float
) -> Iterator[float]:
    """Yield the effects of random spans, up to the first that is as large as `effect`: it decides the verdict."""
    for span in random_spans(measured.prompt, places, draws, measured.sinks):
        [drawn] = effects_of(measured, span)
        yield drawn
        if drawn >= effect:
            return


class TokenSources(NamedTuple):
    """The sources of a token at a position of a text: shares, lengths and effects of units before it, `[unit]`.

    control: the effects of random spans as long as the unit with the largest effect. kind: the name of a unit, such as
    "sentence". more: the number of earlier units, whose effects were not measured.
    """

    text: Tokens
    place: int
    units: Sequence[Sequence[int]]
    shares: Doubles
    lengths: Doubles
    effects: Doubles
    control: Sequence[float]
    kind: str = "unit"
    more: int = 0

    @property
    def notes(self) -> list[str]:
        """Notes on the effects: the comparison with random spans, and the units that were not measured."""
        measured, notes = len(self.units), list[str]()
        if self.more:
            notes.append(
                f"Only the last {measured} of {measured + self.more} {self.kind}s before the token were measured."
            )
        if self.control:
            mean, most = f"{np.mean(self.control):.2f}", f"{max(self.control):.2f}"
            spans = f"{len(self.control)} random span{'s' if len(self.control) > 1 else ''}"
            notes.append(f"{spans} as long as the first {self.kind} in the table: mean effect {mean}, largest {most}.")
        return notes

    @property
    def names(self) -> list[str]:
        """The text of each unit."""
        return [joined([self.text.shown[place] for place in unit]).strip() for unit in self.units]


def token_sources(
    model: InTorch, text: Tokens, place: int, units: Sequence[Sequence[int]], tell: Callable[[float], None]
) -> TokenSources:
    """Measure what a token of a text rests on, as if a decoder had just written it.

    units: of tokens before it. tell: called with the completed share.
    """
    measured = AnsweredPrompt(model, text.take(range(place)), [text.ids[place]])
    spans = [one for unit in units if (one := [at for at in unit if 0 < at < place])]
    shares, lengths, _ = attention_shares(measured, spans, [[0]])
    effects = np.empty(len(spans))
    for number, span in enumerate(spans):
        tell(number / len(spans))
        [effects[number]] = effects_of(measured, span)
    best = int(effects.argmax()) if spans else 0
    control = list(control_effects(measured, spans[best], RANDOM_SPANS, float(effects[best]))) if spans else []
    return TokenSources(text, place, spans, shares[0], lengths[0], effects, control)
