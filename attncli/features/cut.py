"""Cut edges of attention, and measure how an output changes when a query can't see a key.

Attention knock-out (Geva et al. 2023, "Dissecting Recall of Factual Associations in Auto-Regressive Language Models").
An edge leads from a query to a key: (query, key), both positions in the text. The score of a cut edge is -inf, as if a
mask hid the key, and the remaining weights of the query are rescaled to sum to 1. With `keep_rest` its weight is 0 and
the others stay. The first shows the output when attention has to go elsewhere, the second the output without this
edge's contribution. If two texts are compared, edges of the first are cut. An edge between units (words, sentences,
parts of the text) means all edges from the tokens of one to the tokens of the other.

    effect = the output with edges cut - the output of the unchanged network
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import groupby, product
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, TypedDict

import numpy as np

from attncli.analysis.significance import LEVEL
from attncli.base.arrays import Bools, Doubles, titled
from attncli.base.errors import RequestError, no_notices
from attncli.base.printable import quoted, visible
from attncli.base.progress import progress
from attncli.base.typed import NotRequired
from attncli.effects.asking import (
    FROM_NOTHING,
    SCALES,
    MeasuredOutput,
    OutputDocument,
    describe_direction,
)
from attncli.features import options
from attncli.features.inputs import AskedRun, edge_names, notify_about
from attncli.features.measure import NoEffectError, measure, no_effect
from attncli.features.options import MODEL, SELECTION, option
from attncli.record import AttentionRecord, Request
from attncli.record.display import model_name
from attncli.record.grouping import Axes, axes_of, to_units
from attncli.record.parts import ModelDocument, PlaceDocument
from attncli.record.selection import Grouping, Heads, Selection, name_of, number_list, select_units
from attncli.report import Column, MapAxis, Maps, NextCommand, Panel, Part, Report, Result, Table, TextLine
from attncli.report.parts import signed
from attncli.text.tokens import Tokens

if TYPE_CHECKING:
    from attncli.base.typed import Unpack
    from attncli.effects.change import Change
    from attncli.effects.question import Question

_Edge = tuple[int, int]

DRAWS = 20  # sets of other edges, as a control
ANY = "*"  # every token
MOST_EDGES = 10  # edges that the terminal lists
NAMED = 3  # edges in a title


@measure(options.AskedOptions, saved_as="effects")
def cut(
    model: options.ModelOption = None,
    text: options.Text = None,
    *,
    file: options.File = None,
    whole: options.Whole = False,
    part: options.PartFiles = None,
    chat: options.Chat = False,
    edges: options.Edges = None,
    into: Annotated[
        str | None, option(SELECTION, "--into", metavar="TOKEN", help="Cut each edge to this key separately.")
    ] = None,
    out_of: Annotated[
        str | None, option(SELECTION, "--out-of", metavar="TOKEN", help="Cut each edge from this query separately.")
    ] = None,
    layer: options.Layers = None,
    head: options.HeadsOption = None,
    unit: options.Unit = None,
    each_layer: Annotated[
        bool, option(SELECTION, "--each-layer", rare=True, help="With --cut: also cut in each layer alone.")
    ] = False,
    keep_rest: Annotated[
        bool,
        option(MODEL, "--keep-rest", rare=True, help="Don't rescale the row's other weights to sum to 1."),
    ] = False,
    top: Annotated[
        int | None, options.top("List the N edges with the largest effects.", rare=True, show_default="10")
    ] = None,
    **asked: "Unpack[options.AskedOptions]",
) -> "JointCut | EdgeEffects":
    """Cut edges of attention, and measure how an output changes.

    A cut edge hides the key from the query (attention knock-out, Geva et al. 2023). --cut cuts edges together, with
    random ones as a control. Otherwise each edge is cut alone, and weights are correlated with effects. The output is
    chosen as in ablate. With --unit, edges join two units.

    \b
    Examples:
      attncli cut --cut it trophy
      attncli cut --into cat --similar-to "A cat sits." "The cat sat on the mat."
      attncli cut --unit sentence -o edges.png "The cat sat. It was big."
    """
    if edges is None:
        no_effect("without --cut, which names the edges", each_layer=each_layer)
    else:
        no_effect("with --cut, which names the edges", into=into, out_of=out_of, top=top)
    run = AskedRun.of(model, text, file, whole, unit, part, chat, **asked)
    cutter = EdgeCutter.of(run, layer, head, keep_rest)
    record, answer = cutter.record, cutter.question.answer
    if edges is not None:
        chosen = sorted({edge for names in edge_names(edges) for edge in cutter.select_edges(*names)})
        together = [edge for one in chosen for edge in cutter.between_tokens(one)]
        sets = [together, *cutter.draw_controls(together)]
        layers = record.layers
        if each_layer and len(layers) == 1:
            raise NoEffectError("each_layer", f"on one layer ({layers[0]}); name several with -l")
        layers_of = [layers, *([layer] for layer in layers if each_layer)]
        changes = [cutter.cut_change(some, of) for some in sets for of in layers_of]
        with progress(len(changes), "cuts") as advance:
            found = cutter.effects(changes, advance).reshape(len(sets), len(layers_of))
        controls = found[1:] if len(found) > 1 else None
        return JointCut(record, answer, keep_rest, chosen, found[0], controls)
    query, key = out_of or ANY, into or ANY
    some = [edge for edge in cutter.select_edges(query, key) if cutter.can_matter[edge]]
    with progress(len(some), "edges") as advance:
        changes = [cutter.cut_change(cutter.between_tokens(edge), record.layers) for edge in some]
        found = cutter.effects(changes, advance)
    effects = np.where(cutter.visible_keys, 0.0, np.nan)
    for edge, effect in zip(some, found, strict=True):
        effects[edge] = effect if abs(effect) > cutter.question.rounding else 0.0
    with no_notices():  # `select_edges` has given them
        queries, keys = cutter.select_places(query, record.tokens), cutter.select_places(key, record.keys)
    rows = np.ix_(queries, keys)
    return EdgeEffects(
        record,
        answer,
        keep_rest,
        queries,
        keys,
        effects[rows],
        cutter.can_matter[rows],
        MOST_EDGES if top is None else top,
    )


@dataclass(frozen=True)
class EdgeCutter:
    """A text whose edges are to be cut, and its maps in the heads and layers of the record.

    axes: the units of the maps. The cut edges themselves are between tokens.
    """

    question: "Question"
    record: AttentionRecord
    grouping: Grouping
    axes: Axes
    keep_rest: bool

    @classmethod
    def of(cls, run: AskedRun, layers: Selection | None, heads: Heads | None, keep_rest: bool) -> "EdgeCutter":
        """Open the model, and compute the maps of the text in these heads; None is all of them."""
        from attncli.effects.question import make_question
        from attncli.models.taken import read_by

        chosen, some = "all" if layers is None else layers, "all" if heads is None else heads
        request = Request(chosen, some, run.asking.mask, grouping=run.grouping)
        text = run.one_text()
        question = make_question(run.engine, text, run.asking, request=request)
        asked = question.texts[0]
        assert asked.record is not None
        axes = axes_of(run.grouping, asked.tokens.plain, read_by(asked.tokens, asked.model.part))
        return cls(question, notify_about(asked.record), run.grouping, axes, keep_rest)

    @cached_property
    def visible_keys(self) -> Bools:
        """The keys that any of the layers lets a query see, `[query, key]`, between units."""
        return np.any(self.record.masks, axis=0)

    @cached_property
    def _shown_by_layer(self) -> Bools:
        """The keys that each layer of the model lets a query see, `[layer, query, key]`, between tokens."""
        from attncli.models.rows import of_layers

        text = self.question.texts[0]
        [run] = text.model.rows([text.tokens], text.mask).runs
        shown: Bools = of_layers(text.masks, run, text.model.device)[0]
        return shown

    @cached_property
    def _shown(self) -> Bools:
        """The keys that any of the layers lets a query see, `[query, key]`, between tokens."""
        return np.any(self._shown_by_layer[self.record.layers], axis=0)

    def between_tokens(self, edge: _Edge) -> list[_Edge]:
        """Return the edges between the tokens of two units that a mask shows."""
        query, key = edge
        pairs = product(self.axes.queries.groups[query], self.axes.keys.groups[key])
        return [pair for pair in pairs if self._shown[pair]]

    @cached_property
    def can_matter(self) -> Bools:
        """The edges that can have an effect, `[query, key]`, between units.

        Go back through the layers, from the tokens that the output reads. An edge matters if its query reaches the
        output and a mask shows its key. Its key then reaches the output too, and its query still does, by its own row.
        """
        text, shown = self.question.texts[0], self._shown_by_layer
        model = text.model
        reaching, found = np.zeros(shown.shape[1], dtype=bool), np.zeros(shown.shape[1:], dtype=bool)
        reaching[:] = text.tokens.output_tokens is not text.tokens  # a decoder reads all outputs of its encoder
        reaching[list(self.question.reads) if text.tokens.output_tokens is text.tokens else []] = True
        with_attention = model.select_layers("all")
        for layer in reversed(range(model.layers)):
            if layer not in with_attention:  # this layer mixes tokens in a way that is not known here
                reaching[:] = True
                continue
            active = {head for head in range(model.heads) if (layer, head) not in model.silenced_heads}
            edges = shown[layer] & reaching[:, None] & bool(active)
            if layer in self.record.layers and active.intersection(self.record.heads_of(layer)):
                found |= edges
            if model.part == "cross":  # keys are in another text; later queries read earlier ones
                reaching[: int(np.flatnonzero(reaching)[-1]) + 1] = True
            else:
                reaching |= edges.any(axis=0)
        queries, keys = self.axes.queries, self.axes.keys
        of_keys = to_units(keys, slice(0, keys.text_length), found, -1)[1]
        of_units: Bools = to_units(queries, slice(0, queries.text_length), of_keys, -2)[1]
        return of_units

    def select_edges(self, query: str, key: str) -> list[_Edge]:
        """Return the named edges that the mask shows. Raises RequestError for none, or for an unknown token."""
        queries, keys = self.select_places(query, self.record.tokens), self.select_places(key, self.record.keys)
        found = [(one, other) for one in queries for other in keys if self.visible_keys[one, other]]
        if not found:
            raise RequestError(
                f"no edge from {quoted(query)} to {quoted(key)} can be cut: the mask, or the window of these layers, "
                "hides it. Name another edge, or other layers with -l."
            )
        return found

    def select_places(self, name: str, units: Tokens) -> list[int]:
        """Return the units of a name. Raises RequestError for an unknown one."""
        return list(range(len(units))) if name == ANY else select_units(name, units, self.grouping)

    def draw_controls(self, edges: Sequence[_Edge]) -> Iterator[list[_Edge]]:
        """Draw as many other edges from the same queries, DRAWS times; yield nothing if a query has too few."""
        free = {query: np.flatnonzero(row) for query, row in enumerate(self._shown)}
        taken = {query: [key for _, key in some] for query, some in groupby(edges, key=itemgetter(0))}
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

    def cut_change(self, edges: Sequence[_Edge], layers: Sequence[int]) -> "Change":
        """Return the change that cuts these edges in these layers."""
        from attncli.effects.change import Hide, Reweigh, ZeroEdges

        heads = [(layer, head) for layer in layers for head in self.record.heads_of(layer)]
        return Reweigh(heads, ZeroEdges(edges)) if self.keep_rest else Hide(heads, edges)

    def effects(self, changes: Sequence["Change"], advance: Callable[[], None] = lambda: None) -> Doubles:
        """Measure the effects of changes to the first text, `[change]`."""
        return self.question.effects(changes, self.question.texts[:1], advance)


# --- results --------------------------------------------------------------------------------------------


class _EdgeEntry(TypedDict):
    """With `--cut` the edges that are cut together; otherwise every edge, each cut alone: those that can matter first,
    the largest effect first.
    """

    query: Annotated[PlaceDocument, "the query of the edge"]
    key: Annotated[PlaceDocument, "the key of the edge"]
    weight: Annotated[float, "mean over these heads and layers", "share of the weight"]
    effect: NotRequired[
        Annotated[
            float,
            "the output with this edge cut minus the output without a cut, 0 if rounding explains it; without `--cut`",
            "in that unit",
        ]
    ]
    can_matter: NotRequired[
        Annotated[bool, "true if a path leads from the edge to the output; otherwise its effect is 0. Without `--cut`"]
    ]


class _ControlEntry(TypedDict):
    """The effects of as many random other edges of the same queries, in 20 draws; null if there are too few edges."""

    mean: Annotated[float, "", "in that unit"]
    low: Annotated[float, "the smallest", "in that unit"]
    high: Annotated[float, "the largest", "in that unit"]


class _EffectEntry(TypedDict):
    """With `--cut`: all these edges together."""

    layer: Annotated[
        int | None, "null if cut in all of `layers`; with `--each-layer` also entries for a cut in one layer"
    ]
    effect: Annotated[float, "the output with the cut minus the output without it", "in that unit"]
    control: _ControlEntry | None


class _CorrelationEntry(TypedDict):
    """Without `--cut`: Spearman's rank correlation of weights and sizes of effects, over the edges that can matter;
    null for fewer than 3 edges, or if all are equal.
    """

    rho: Annotated[float, "", "-1 to 1"]
    low: Annotated[float, "lower end of the range of 95% of correlations with permuted effects", "-1 to 1"]
    high: Annotated[float, "its upper end", "-1 to 1"]
    count: Annotated[int, "number of edges that can matter"]


class CutDocument(TypedDict):
    """`.csv`: a row per entry of `edges`; with `--cut`, of `effects`."""

    model: ModelDocument
    output: OutputDocument
    tokens: Annotated[list[str], "of the text whose edges are cut", "`[token]`"]
    key_tokens: NotRequired[Annotated[list[str], "of the text that has the keys, if it is another", "`[key]`"]]
    layers: Annotated[list[int], "the layers in which edges are cut", "`[layer]`"]
    heads: Annotated[list[int], "the heads, in each of these layers", "`[head]`"]
    keep_rest: Annotated[bool, "true if the row's other weights stay unchanged, false if they are rescaled to sum to 1"]
    edges: list[_EdgeEntry]
    effects: NotRequired[list[_EffectEntry]]
    correlation: NotRequired[_CorrelationEntry | None]


@dataclass(frozen=True, repr=False)
class Cuts(Result):
    """Edges cut in every head of every layer of a record.

    record: the text, with its maps before the cuts. keep_rest: True if a row's other weights stay unchanged.
    """

    record: AttentionRecord
    answer: MeasuredOutput
    keep_rest: bool

    @property
    def mean_weights(self) -> Doubles:
        """The mean over layers and heads, `[query, key]`."""
        return self.record.weights.sum(axis=(0, 1), dtype=np.float64) / len(self.record.each_head)

    def names(self, edge: _Edge) -> tuple[str, str]:
        """Return the names of an edge's query and key."""
        query, key = edge
        return name_of(query, self.record.tokens), name_of(key, self.record.keys)

    def _line(self, *facts: str) -> str:
        record = self.record
        where = str(record.choice)
        return titled(self, record.model.full_name, facts[0], where, str(self.answer), *facts[1:])

    def _entry(self, edge: _Edge, weight: float) -> _EdgeEntry:
        query, key = edge
        text, keys = self.record.tokens.text, self.record.keys.text
        return {
            "query": {"index": query, "token": text[query]},
            "key": {"index": key, "token": keys[key]},
            "weight": weight,
        }

    def _document(self, edges: list[_EdgeEntry]) -> CutDocument:
        record = self.record
        document: CutDocument = {
            "model": record.model.document(),
            "output": self.answer.document(),
            "tokens": record.tokens.text,
            "layers": record.layers,
            "heads": record.heads,
            "keep_rest": self.keep_rest,
            "edges": edges,
        }
        if record.key_tokens is not None:
            document["key_tokens"] = record.key_tokens.text
        return document

    def _title(self, *more: str) -> list[str]:
        record = self.record
        layers = f"layer{'s' if len(record.layers) > 1 else ''} {number_list(record.layers)}"
        part = [layers] if len(record.layers) < record.model.layers else []
        name, mask = model_name(record.model.full_name), f"mask {self.answer.mask}"
        return [name, *part, str(self.answer), mask, *more]

    def _captions(self, what: str) -> list[Part]:
        """Say in which layers and heads edges are cut, what happens to other weights, and the unit of an effect."""
        record = self.record
        every = record.model.layers, record.model.heads
        names = []
        for kind, numbers, count in zip(("layer", "head"), (record.layers, record.heads), every, strict=True):
            several = f"{kind}s" if len(numbers) > 1 else kind
            names.append(f"all {several}" if len(numbers) == count else f"{several} {number_list(numbers)}")
        if record.pairs is not None:
            names = [str(record.choice)]
        rest = "stay unchanged" if self.keep_rest else "are rescaled to sum to 1"
        return [
            TextLine(f"cut in {' and '.join(names)}: the row's other weights {rest}", caption=True),
            TextLine(describe_direction(self.answer.kind, what), caption=True),
        ]


@dataclass(frozen=True, repr=False)
class JointCut(Cuts):
    """Some edges cut together.

    effects: `[1]`, of a cut in all layers together; `[1 + layer]` if each layer is also cut alone. controls: `[draw,
    1]` or `[draw, 1 + layer]`, the effects of as many other edges from the same queries; None if a query has too few.
    """

    edges: list[_Edge]
    effects: Doubles
    controls: Doubles | None

    def __repr__(self) -> str:
        edges = f"{len(self.edges)} edge{'s' if len(self.edges) != 1 else ''} cut"
        return self._line(edges, f"effect {signed(float(self.effects[0]))}")

    @property
    def weights(self) -> Doubles:
        """The mean weight over the heads, `[edge]`."""
        weights = self.mean_weights
        return np.array([weights[edge] for edge in self.edges])

    def document(self) -> CutDocument:
        """Return what --json prints. In "effects", layer None means all layers together."""
        effects: list[_EffectEntry] = []
        for place, (layer, effect) in enumerate(zip([None, *self.record.layers], self.effects.tolist(), strict=False)):
            control: _ControlEntry | None = None
            if self.controls is not None:
                drawn = self.controls[:, place]
                control = {"mean": float(drawn.mean()), "low": float(drawn.min()), "high": float(drawn.max())}
            effects.append({"layer": layer, "effect": effect, "control": control})
        edges = [self._entry(edge, weight) for edge, weight in zip(self.edges, self.weights.tolist(), strict=True)]
        return {**self._document(edges), "effects": effects}

    def report(self) -> Report:
        """Show the edges with their weights, and the effect of cutting them in all of these layers, and in each."""
        names = [self.names(edge) for edge in self.edges]
        left = len(names) - MOST_EDGES
        edges = Table(
            [Column("from"), Column("to", "name"), Column("mean weight")],
            [
                (*map(visible, pair), f"{weight:.3f}")
                for pair, weight in zip(names[:MOST_EDGES], self.weights.tolist(), strict=False)
            ],
        )
        columns = [("effect", self.effects)]
        control = "no control: these queries have too few other edges"
        if self.controls is not None:
            drawn = self.controls
            columns += [("others: mean", drawn.mean(axis=0))]
            columns += [("others: least", drawn.min(axis=0)), ("others: most", drawn.max(axis=0))]
            control = f"others: as many other edges from the same queries, drawn at random {DRAWS} times"
        layers = self.record.layers
        together = "all of these" if len(layers) > 1 else f"layer {layers[0]}"
        cut_in = [together, *(f"layer {layer}" for layer in layers)][: len(self.effects)]
        effects = Table(
            [Column("cut in"), *(Column(name) for name, _ in columns)],
            [(name, *(signed(float(values[row])) for _, values in columns)) for row, name in enumerate(cut_in)],
        )
        picture = Maps(
            [[Panel("", np.stack([values for _, values in columns[:2]], axis=1))]],
            MapAxis("cut in", cut_in),
            MapAxis("", [name for name, _ in columns[:2]]),
            scale=SCALES[self.answer.kind],
            signed=self.answer.kind not in FROM_NOTHING,
            numbered=True,
        )
        more = [TextLine(f"and {left} more: --json has all", "faint")] if left > 0 else []
        listed = [" to ".join(pair) for pair in names[:NAMED]]
        others = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        return Report(
            self._title(f"cut: {', '.join(listed)}{others}"),
            [
                *self._captions("the edge" if len(names) == 1 else "the edges"),
                edges,
                *more,
                effects,
                TextLine(control, caption=True),
            ],
            self.document,
            itemgetter("effects"),
            picture=[picture],
            next=NextCommand("find", dict(zip(("query", "key"), names[0], strict=True))),
        )


@dataclass(frozen=True, repr=False)
class EdgeEffects(Cuts):
    """The effects of cutting edges one at a time, in all selected layers.

    queries, keys: the tokens along the rows and the columns. effects: `[query, key]`, NaN if the mask hides the key.
    can_matter: `[query, key]`, True if a path leads from the edge to the output; other edges have effect 0. listed: the
    number of edges that the terminal lists.
    """

    queries: list[int]
    keys: list[int]
    effects: Doubles
    can_matter: Bools
    listed: int = MOST_EDGES

    def __repr__(self) -> str:
        return self._line(f"{int(np.isfinite(self.effects).sum())} edges cut one by one")

    @property
    def weights(self) -> Doubles:
        """The mean weight over the heads, `[query, key]`."""
        return self.mean_weights[np.ix_(self.queries, self.keys)]

    def correlation(self) -> "RankCorrelation | None":
        """Correlate the weights with the sizes of the effects, over the edges that can matter."""
        return rank_correlation(self.weights[self.can_matter], np.abs(self.effects[self.can_matter]))

    def ranked(self) -> list[tuple[_Edge, float, float]]:
        """Return every edge with its effect and its weight: edges that can matter first, the largest effect first."""
        cut, weights = np.argwhere(~np.isnan(self.effects)), self.weights
        places = tuple(cut.T)
        order = np.lexsort((-np.abs(self.effects[places]), ~self.can_matter[places]))
        return [
            ((self.queries[row], self.keys[column]), float(self.effects[row, column]), float(weights[row, column]))
            for row, column in cut[order]
        ]

    def document(self) -> CutDocument:
        """Return what --json prints."""
        found, can = self.correlation(), int(self.can_matter.sum())
        edges: list[_EdgeEntry] = [
            {**self._entry(edge, weight), "effect": effect, "can_matter": place < can}
            for place, (edge, effect, weight) in enumerate(self.ranked())
        ]
        correlation: _CorrelationEntry | None = None if found is None else asdict(found)  # type: ignore[assignment]
        return {**self._document(edges), "correlation": correlation}

    def report(self) -> Report:
        """Show effects and weights as maps, the edges with the largest effects, and whether weights predict effects."""
        ranked = self.ranked()
        can = ranked[: int(self.can_matter.sum())]
        heavy = sorted((weight for _, _, weight in can), reverse=True)
        table = Table(
            [Column("from"), Column("to", "name"), Column("effect"), Column("mean weight"), Column("its rank")],
            [
                (*map(visible, self.names(edge)), signed(effect), f"{weight:.3f}", str(heavy.index(weight) + 1))
                for edge, effect, weight in can[: self.listed]
            ],
        )
        ends = ("queries", self.record.tokens, self.queries), ("keys", self.record.keys, self.keys)
        queries, keys = (
            MapAxis(name, [of.shown[place] for place in places], places, [of.special[place] for place in places])
            for name, of, places in ends
        )
        seen_weights = np.where(np.isnan(self.effects), np.nan, self.weights)
        maps = Maps(
            [[Panel("effect", self.effects), Panel("mean weight", seen_weights, weights=True)]],
            queries,
            keys,
            scale=SCALES[self.answer.kind],
            signed=self.answer.kind not in FROM_NOTHING,
            numbered=True,
            apart=True,
        )
        query, key = self.names(ranked[0][0])
        correlated = TextLine(self.describe_correlation(), caption=True)
        return Report(
            self._title(),
            [*self._captions("the edge"), maps, *([table] if can else []), correlated],
            self.document,
            itemgetter("edges"),
            picture=[maps],
            next=NextCommand("find", {"query": query, "key": key}),
        )

    def describe_correlation(self) -> str:
        """Say whether edges with larger weights have larger effects, compared with chance."""
        count, can = self.effects.size - int(np.isnan(self.effects).sum()), int(self.can_matter.sum())
        if not can:
            return f"none of these {count} edges can have an effect: no path leads from their queries to the output"
        edges = f"{count} edges" if can == count else f"the {can} of {count} edges that can have an effect"
        ranked = self.correlation()
        if ranked is None:
            return f"weights and sizes of effects have no rank correlation over {edges}: they are too few, or all equal"
        says = "this is within chance, so these edges don't show whether larger weights matter more"
        if not ranked.low <= ranked.rho <= ranked.high:
            says = f"edges with larger weights matter {'more' if ranked.rho > ranked.high else 'less'}"
        return (
            f"weights and sizes of effects: Spearman's rank correlation {ranked.rho:+.2f} over {edges}; 95% of random "
            f"permutations of the effects give {ranked.low:+.2f} to {ranked.high:+.2f}: {says}"
        )


PERMUTATIONS = 1000
LEAST = 3  # numbers that a rank correlation needs


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's ρ of two lists, and the range of 95% of its values when one list is permuted."""

    rho: float
    low: float
    high: float
    count: int


def rank_correlation(one: Doubles, other: Doubles) -> RankCorrelation | None:
    """Return Spearman's ρ, and its range over random permutations of the second list.

    ρ is the correlation of ranks (Spearman 1904, "The Proof and Measurement of Association between Two Things"). None
    for fewer than 3 numbers, and for a list of equal numbers, which has no order.
    """
    first, second = (_ranks(numbers) - (len(numbers) + 1) / 2 for numbers in (one, other))
    size = float(np.sqrt(first @ first * (second @ second)))
    if len(one) < LEAST or size == 0:
        return None
    generator = np.random.default_rng(0)
    luck = [first @ generator.permutation(second) / size for _ in range(PERMUTATIONS)]
    low, high = np.quantile(luck, [LEVEL / 2, 1 - LEVEL / 2])
    return RankCorrelation(float(first @ second / size), float(low), float(high), len(one))


def _ranks(numbers: Doubles) -> Doubles:
    """Rank numbers from 1 for the smallest; equal numbers share the mean of their ranks."""
    _, places, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    shared: Doubles = np.cumsum(counts) - (counts - 1) / 2
    return shared[places]
