"""What a decoder writes after a prompt: the attention of the rows that wrote it, and what it is worth without a span.
Likewise an output of another model: a label, a word at [MASK], a cosine.

The row of a token is that of the token before it, from which it was chosen. For an answer y after a prompt x:

    share(part)  = weight of the rows on the part / weight of the rows on all tokens but the sink
    effect(part) = mean over answer tokens of log p(y_t | x, y_<t) - log p(y_t | the part is hidden)

A part is hidden from all other tokens, in all heads and layers; positions stay. What comes before it is as it was: its
keys and values are kept. What its own tokens become matters to nobody, so the walk begins after it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from attncli.base.arrays import Array, Doubles, as_numpy
from attncli.effects.asking import FROM_NOTHING, MeasuredOutput
from attncli.effects.change import Hide
from attncli.effects.question import Question
from attncli.models.block import Block, Tap
from attncli.models.devices import InTorch
from attncli.models.engine import Engine
from attncli.models.generation import KeysAndValues, extend, next_output
from attncli.models.model import Model, own_network
from attncli.models.rows import LayerMask
from attncli.models.taps import BLOCK
from attncli.text.tokens import Tokens


class WeightsOnUnits(Tap):
    """Sums the weights of some rows over units of keys.

    rows: places of queries. units: `[key, unit]`, 1 where a token is in a unit. sums: by layer `[head, row, unit]`.
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
    """Hides tokens from all others. kept: keys and values of the tokens before the rows."""

    def __init__(self, places: Sequence[int], kept: KeysAndValues | None = None) -> None:
        self.hidden, self.kept = np.asarray(places, dtype=np.int64), kept

    def begin(self, block: Block) -> Block:
        if self.kept is not None:
            keys, values = self.kept.rooms[block.layer]
            start = block.run.keys - block.key.shape[2]
            both = torch.cat([keys[:, :, :start], block.key], 2), torch.cat([values[:, :, :start], block.value], 2)
            stop = block.run.keys
            block = block._replace(key=both[0], value=both[1], queries=slice(start, stop), keys=slice(0, stop))
        count = block.keys.stop
        inside = np.zeros(count, dtype=bool)
        inside[self.hidden] = True
        hides = inside[None] & ~np.eye(count, dtype=bool)
        shown = torch.from_numpy(~hides).to(block.key.device)[None, None]
        mask = block.mask or LayerMask(None, None)
        return block._replace(mask=LayerMask(shown if mask.shown is None else shown & mask.shown, mask.window))


@dataclass(frozen=True)
class Answer:
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
        """The places of the rows that the answer's tokens were chosen from."""
        start = len(self.prompt)
        return range(start - 1, start + len(self.ids) - 1)

    sinks = frozenset([0])  # the first token
    output = None  # that is measured in place of an answer

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

    def _full_pass(self, taps: Sequence[Tap]) -> Doubles:
        with torch.inference_mode():
            [hidden] = self.model.last_hidden([self.tokens], taps=taps)
            return self._log_probabilities(hidden[list(self.rows)], list(self.rows))

    def without(self, places: Sequence[int]) -> Doubles:
        """Return the log-probability of each token of the answer where these tokens of the prompt are hidden."""
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

        units: `[token, unit]`, 1 where a token is in a unit. Layers without attention have none.
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


@dataclass(frozen=True)
class MeasuredText:
    """A text and an output of it, such as a label, in place of an answer: it is as one row, of the tokens it reads."""

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

    tokens = prompt

    @property
    def sinks(self) -> frozenset[int]:
        """The special tokens."""
        return frozenset(place for place, special in enumerate(self.prompt.special) if special)

    @property
    def visible(self) -> Doubles:
        """The number of tokens besides the special ones, `[1]`."""
        return np.array([len(self.prompt) - len(self.sinks)], dtype=np.float64)

    @property
    def plain(self) -> Doubles:
        """The output, `[1]`."""
        return np.array([self.question.answer.value])

    def without(self, places: Sequence[int]) -> Doubles:
        """Return the output where these tokens are hidden from all others, `[1]`. A distance is taken from it."""
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
