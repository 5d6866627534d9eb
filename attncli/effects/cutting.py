"""Cut edges: what an output does when a query can't see a key (attention knock-out; Geva et al. 2023, "Dissecting
Recall of Factual Associations in Auto-Regressive Language Models").

The score of the edge is -inf, as if a mask hid the key, and the weights of the query's other keys sum to 1 again; or
its weight is 0 and the others stay as they were (`keep_rest`). The two ask different things: what the output is when
attention has to go elsewhere, and without what came along this edge. Of two texts that are compared, edges of the first
are cut and the second stays as it is.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np

from attncli.analysis.cuts import Cut, CutIn, Edge, EdgeEffects
from attncli.analysis.effects import Answer
from attncli.base.arguments import describe
from attncli.base.arrays import Bools, Doubles
from attncli.base.errors import RequestError
from attncli.base.printable import quoted
from attncli.effects.asking import Asking, merge_asking, question
from attncli.effects.changes import Change, Hide, Reweigh, Without
from attncli.effects.progress import Progress, silent
from attncli.effects.questions import Question
from attncli.models.engine import Engine
from attncli.models.rows import of_layers
from attncli.models.tapped import TappedModel, require_tapped
from attncli.record import AttentionRecord, Request
from attncli.record.selection import Selection, select_token
from attncli.text.tokens import Tokens

DRAWS = 20  # of other edges, beside those that are cut
ANY = "*"  # every token that there is


def cut(
    model: Engine,
    text: str,
    edges: Sequence[tuple[str, str]],
    layers: Selection = "all",
    heads: Selection = "all",
    asking: Asking | None = None,
    keep_rest: bool = False,
    *,
    pair: str | None = None,
    similar_to: str | None = None,
    target: str | None = None,
    at: str | None = None,
    kind: str | None = None,
    output: str | None = None,
    mask: str | None = None,
    which: str | None = None,
) -> Cut:
    """Cut edges, all at once, in these heads of these layers, and in each of the layers alone.

    edges: query and key of each, tokens as `select_token` reads them, or "*" for all.
    asking: what to ask, as an `Asking`; or say so by its fields, as in similar_to="Another text." and target="it".

    Raises RequestError for a token, a layer or a head that is not there, an edge that a mask hides in all of these
    layers, and as `question` does.
    """
    asking = merge_asking(
        asking, pair=pair, similar_to=similar_to, target=target, at=at, kind=kind, output=output, mask=mask, which=which
    )
    model = require_tapped(model, asking.which)
    edges = edge_names(edges)
    scissors = Scissors.of(model, text, layers, heads, asking, keep_rest)
    meant = sorted({edge for names in edges for edge in scissors.named(*names)})
    sets = [meant, *scissors.others(meant)]
    layers = scissors.record.layers
    layers_of = [layers, *([layer] for layer in layers)] if len(layers) > 1 else [layers]
    changes = [scissors.without(some, of) for some in sets for of in layers_of]
    found = scissors.effects(changes).reshape(len(sets), len(layers_of))
    if len(layers) == 1:
        found = found.repeat(2, axis=1)  # one layer is all of these, and each alone
    weights = np.array([scissors.weights[edge] for edge in meant])
    return Cut(scissors.where(), meant, weights, found[0], found[1:] if len(found) > 1 else None)


def cut_each(
    model: Engine,
    text: str,
    edges: tuple[str, str] = (ANY, ANY),
    layers: Selection = "all",
    heads: Selection = "all",
    asking: Asking | None = None,
    keep_rest: bool = False,
    progress: Progress = silent,
    *,
    pair: str | None = None,
    similar_to: str | None = None,
    target: str | None = None,
    at: str | None = None,
    kind: str | None = None,
    output: str | None = None,
    mask: str | None = None,
    which: str | None = None,
) -> EdgeEffects:
    """Cut every edge from a query to a key by itself: ("*", "it") is each edge into "it", ("*", "*") each there is.

    An edge that can't have an effect (`Scissors.can_matter`) is not cut: its effect is 0. So is one within rounding.
    asking: what to ask, as an `Asking`; or say so by its fields, as in similar_to="Another text." and target="it".
    progress: is told of every edge that was cut.

    Raises RequestError as `cut` does.
    """
    asking = merge_asking(
        asking, pair=pair, similar_to=similar_to, target=target, at=at, kind=kind, output=output, mask=mask, which=which
    )
    model = require_tapped(model, asking.which)
    [edges] = edge_names([edges])
    scissors = Scissors.of(model, text, layers, heads, asking, keep_rest)
    meant = scissors.named(*edges)
    queries, keys = scissors.queries(edges[0]), scissors.keys(edges[1])
    effects = np.where(scissors.shown, 0.0, np.nan)
    some = [edge for edge in meant if scissors.can_matter[edge]]
    changes = [scissors.without([edge], scissors.record.layers) for edge in some]
    with progress(len(some), "edges") as advance:
        found = scissors.effects(changes, advance)
    found[np.abs(found) <= scissors.asked.rounding] = 0.0
    for edge, effect in zip(some, found, strict=True):
        effects[edge] = effect
    rows = np.ix_(queries, keys)
    can_matter = scissors.can_matter[rows]
    return EdgeEffects(scissors.where(), queries, keys, effects[rows], scissors.weights[rows], can_matter)


def edge_names(edges: Sequence[tuple[str | int, str | int]]) -> list[tuple[str, str]]:
    """Return the names of queries and keys; a number is a token's place. Raises TypeError for what are no pairs."""
    given = list(edges) if isinstance(edges, Sequence) and not isinstance(edges, str) else [edges]
    for edge in given:
        pair = edge if isinstance(edge, Sequence) and not isinstance(edge, str) and len(edge) == 2 else [None]
        if not all(isinstance(name, (str, int)) for name in pair):
            raise TypeError(
                f'an edge is a pair of tokens, not {describe(edge)}: write ("it", "trophy") for query and key'
            )
    return [(str(query), str(key)) for query, key in given]


@dataclass(frozen=True)
class Scissors:
    """A text whose edges are to be cut, and its maps; in the heads and layers of the record."""

    asked: Question
    record: AttentionRecord
    keep_rest: bool

    @classmethod
    def of(
        cls, model: TappedModel, text: str, layers: Selection, heads: Selection, asking: Asking, keep_rest: bool
    ) -> "Scissors":
        asked = question(model, text, asking)
        [record] = model.attend_tokens([asked.texts[0].tokens], Request(layers, heads, asking.mask))
        return cls(asked, record, keep_rest)

    @property
    def shown(self) -> Bools:
        """What any of the layers lets a query see, `[query, key]`."""
        return np.any(self.record.masks, axis=0)

    @cached_property
    def can_matter(self) -> Bools:
        """The edges that can have an effect, `[query, key]`.

        Go back through the layers, from the tokens that the output reads. An edge matters if its query reaches the
        output and a mask shows its key. Such a key reaches the output too, and so does the query, by its own row.
        """
        text = self.asked.texts[0]
        model, length = text.model, len(self.record.tokens)
        [run] = model.rows([text.tokens], text.mask).runs
        shown = of_layers(text.masks, run, model.device)[0].cpu().numpy()
        reaching, found = np.zeros(length, dtype=bool), np.zeros((length, run.keys), dtype=bool)
        reaching[:] = text.tokens.spoken is not text.tokens  # a decoder reads all that its encoder makes
        reaching[list(self.asked.reads) if text.tokens.spoken is text.tokens else []] = True
        there = model.select_layers("all")
        for layer in reversed(range(model.layers)):
            if layer not in there:  # tokens meet in another way, which is not known
                reaching[:] = True
                continue
            heard = {head for head in range(model.heads) if (layer, head) not in model.silenced}
            edges = shown[layer] & reaching[:, None] & bool(heard)
            if layer in self.record.layers and heard.intersection(self.record.heads):
                found |= edges
            if model.part == "cross":  # keys are another text's; queries are read by later ones of their own
                reaching[: int(np.flatnonzero(reaching)[-1]) + 1] = True
            else:
                reaching |= edges.any(axis=0)
        return found

    @property
    def weights(self) -> Doubles:
        """The mean over layers and heads, `[query, key]`."""
        return self.record.weights.mean(axis=(0, 1), dtype=np.float64)

    def where(self) -> CutIn:
        asked, record = self.asked, self.record
        answer = Answer(asked.kind, asked.about, asked.value, asked.texts[0].mask)
        return CutIn(
            record.model, answer, record.tokens, record.layers, record.heads, self.keep_rest, record.key_tokens
        )

    def queries(self, name: str) -> list[int]:
        """The queries that a name means."""
        return places(name, self.record.tokens)

    def keys(self, name: str) -> list[int]:
        """The keys that a name means."""
        return places(name, self.record.keys)

    def named(self, query: str, key: str) -> list[Edge]:
        """The edges that are there. Raises RequestError where there is none, or a token is not there."""
        found = [(one, other) for one in self.queries(query) for other in self.keys(key) if self.shown[one, other]]
        if not found:
            raise RequestError(
                f"from {quoted(query)} to {quoted(key)} there is nothing to cut: the mask, or the window of these "
                "layers, hides it; name another edge, or other layers (-l)"
            )
        return found

    def others(self, edges: Sequence[Edge]) -> Iterator[list[Edge]]:
        """As many other edges from the same queries, DRAWS times; never where a query has not as many."""
        free = {query: np.flatnonzero(row) for query, row in enumerate(self.shown)}
        taken = {query: [key for _, key in some] for query, some in groupby(edges, key=lambda edge: edge[0])}
        pools = {query: np.setdiff1d(free[query], keys) for query, keys in taken.items()}
        if any(len(pools[query]) < len(keys) for query, keys in taken.items()):
            return
        generator = np.random.default_rng(0)
        for _ in range(DRAWS):
            yield [
                (query, int(key))
                for query, keys in taken.items()
                for key in generator.choice(pools[query], len(keys), replace=False)
            ]

    def without(self, edges: Sequence[Edge], layers: Sequence[int]) -> Change:
        """These edges cut in these layers."""
        heads = [(layer, head) for layer in layers for head in self.record.heads]
        return Reweigh(heads, Without(edges)) if self.keep_rest else Hide(heads, edges)

    def effects(self, changes: Sequence[Change], advance: Callable[[], None] = lambda: None) -> Doubles:
        """`[change]`; of the first text alone."""
        return self.asked.effects(changes, self.asked.texts[:1], advance)


def places(name: str, tokens: Tokens) -> list[int]:
    """Return the tokens that a name means."""
    return list(range(len(tokens))) if name == ANY else [select_token(name, tokens)]
