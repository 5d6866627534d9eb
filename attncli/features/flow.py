"""Follow attention down to the input tokens.

Above layer 0 a token is a mixture already, so its weights say little about the text. Both methods (Abnar and Zuidema
2020, "Quantifying Attention Flow in Transformers") follow every path from a token down to the input, through attention
and through the residual connection beside it. W is the mean over heads:

    Ã = 0.5 W + 0.5 I                 one step (`attncli.analysis.rollout`)
    rollout_l = Ã_l rollout_(l-1)     all paths added up
    flow                              the most that can flow to an input token, with Ã as capacities
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import cycle
from typing import TYPE_CHECKING, Annotated, TypedDict, cast

import numpy as np

from attncli.analysis.patterns import strongest
from attncli.analysis.rollout import mean_maps, residual_steps, rollout
from attncli.base import choices
from attncli.base.arrays import Bools, Doubles, Floats, titled
from attncli.base.errors import RequestError, install_hint
from attncli.base.files import PICTURES
from attncli.base.printable import printable, visible
from attncli.base.progress import progress
from attncli.base.typed import NotRequired
from attncli.features import options
from attncli.features.inputs import Texts, record_source
from attncli.features.measure import measure, no_effect
from attncli.features.options import MODEL, some_of
from attncli.record import AttentionRecord
from attncli.record.display import DIVIDED, hide_masked, model_name, record_size
from attncli.record.parts import ModelDocument, RecordDocument
from attncli.record.record import SUFFIXES
from attncli.record.selection import Selection, number_list, numbered_names, select_token
from attncli.report import (
    Cell,
    Column,
    MapAxis,
    Maps,
    NextCommand,
    Panel,
    Part,
    Ranking,
    Report,
    Result,
    Table,
    TextLine,
)
from attncli.text.tokens import Tokens

if TYPE_CHECKING:
    from attncli.base.typed import Unpack

METHODS = choices.names(choices.Method)
RECORDS = tuple(suffix for suffix in SUFFIXES if suffix != ".json")  # a .json has the document, and the record in it

# scipy takes 32-bit integer capacities, and flow can be pushed back along an edge, so twice UNIT must fit.
UNIT = 2**29


@measure(options.RecordOptions, saves=(*PICTURES, *SUFFIXES), saved_as="the flow")
def flow(
    model: options.ModelOrSaved = None,
    text: options.Text = None,
    *,
    query: Annotated[str | int | None, options.query(not_saved=RECORDS)] = None,
    method: Annotated[str | Sequence[str], some_of(MODEL, choices.Method, "--method", kind=str)] = "raw,rollout,flow",
    words: options.Words = False,
    mask: options.MaskOption = None,
    **given: "Unpack[options.RecordOptions]",
) -> "Followed":
    """Follow attention down to the input tokens: rollout and flow.

    Above layer 0 a token is a mixture of tokens. Both methods (Abnar and Zuidema 2020) take the mean over heads, and
    give half of every step to the residual connection. Rollout adds up all paths; flow is the maximum flow with weights
    as capacities. It also shows the raw weights to the layer below. By default, it starts at the last layer.

    \b
    Examples:
      attncli flow --query it -l all
      attncli flow -l 0,2,5 -o flow.png "The cat sat on the mat."
      attncli run -o maps.npz "A cat sat." && attncli flow --from maps.npz
    """
    methods = choices.several("method", method, choices.Method)
    layer = given.pop("layer", None)  # to start from: every layer below is needed
    if given.get("unit") is not None:
        no_effect("with --unit, which already merges tokens", words=words)
    source = record_source(model, text, mask, **given)
    if isinstance(source, Texts):
        from attncli.models.engine import check_every_layer

        check_every_layer(source.engine, given.get("which"), "flow")
        otherwise = "give one as TEXT"
    else:
        otherwise = "save the one to follow in a separate file (attncli run -o one.npz TEXT)"
    record = source.single_record(otherwise)
    words = words or given.get("unit") == "word"
    if words:
        from attncli.record.grouping import merge_words

        record = merge_words(record)
    queries = None if query is None else [select_token(str(query), record.tokens)]
    return follow(record, layer, queries, methods, words)


# --- what is computed -----------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Followed(Result):
    """The shares of input tokens in the tokens of some layers.

    layers: numbers of layers; queries: positions of tokens. shares: by method, `[layer, query, input token]`; for raw,
    `[layer, query, token of the layer below]`. Rows sum to 1. flows: the maximum flows themselves, if flow is among the
    methods. words: whether the tokens are words. uniform: the baseline, the same shares if every token paid equal
    attention to the tokens that its mask shows.
    """

    record: AttentionRecord
    layers: list[int]
    queries: list[int]
    shares: dict[str, Doubles]
    flows: Doubles | None = None
    words: bool = False
    uniform: Mapping[str, Doubles] = field(default_factory=dict)

    def __repr__(self) -> str:
        layers = f"layer{'s' if len(self.layers) > 1 else ''} {number_list(self.layers)}"
        return titled(self, self.record.model.full_name, layers, ", ".join(self.shares), record_size(self.record))

    @cached_property
    def every(self) -> "Followed":
        """The shares for all queries, because a picture and a saved record have every row."""
        if len(self.queries) == len(self.record.tokens):
            return self
        return follow(self.record, self.layers, None, list(self.shares), self.words, baseline=False)

    def as_record(self) -> AttentionRecord:
        """Return the shares as one record, which is saved and drawn like maps.

        Each method is a head, in order, and the model's name lists them: "minilm (raw, rollout, flow)" has heads 0, 1
        and 2. A layer's mask shows the input tokens that a token has a path to, through this layer and those below.
        """
        record, every = self.record, list(range(len(self.record.tokens)))
        numbers = sorted(record.layers)
        # A token always reaches itself, through the residual connection.
        paths: Bools = np.stack([record.mask_of(layer) for layer in numbers]) | np.eye(len(every), dtype=bool)
        for layer in range(1, len(paths)):
            paths[layer] = paths[layer].astype(np.float32) @ paths[layer - 1].astype(np.float32) > 0
        return replace(
            record,
            weights=np.stack(list(self.shares.values()), axis=1).astype(np.float32),
            layers=list(self.layers),
            heads=list(range(len(self.shares))),
            pairs=None,
            tokens=record.tokens.take(self.queries),
            key_tokens=None if self.queries == every else record.tokens,
            rows=None if self.queries == every else self.queries,
            masks=paths[[numbers.index(layer) for layer in self.layers]][:, self.queries],
            measure="weight" if record.measure == "weight" else "share of norm",
            model=replace(record.model, name=f"{record.model.name} ({', '.join(self.shares)})", heads=len(self.shares)),
            vectors=None,
            usual=None,
            sinks=False,
        )

    def maps(self) -> dict[str, Floats]:
        """Return the shares by method, with NaN where there is no path (for raw, no step)."""
        paths = self.as_record().masks
        own = np.stack([self.record.mask_of(layer) for layer in self.layers])[:, self.queries]
        return {
            name: hide_masked(rows.astype(np.float32), own if name == "raw" else paths)
            for name, rows in self.shares.items()
        }

    def document(self) -> "FlowDocument":
        """Return what --json prints: the share of each input token per layer and query, also as a record."""
        record, text = self.record, self.record.tokens.text
        entry = self.as_record().document()
        for shown, method in zip(entry["attention"], cycle(self.shares)):
            shown["method"] = cast(choices.Method, method)
        rows = dict(self.shares) if self.flows is None else {**self.shares, "maximum_flow": self.flows}
        rows |= {f"{name}_uniform": values for name, values in self.uniform.items()}
        layers: list[_LayerEntry] = []
        for number, layer in enumerate(self.layers):
            queries: list[_QueryEntry] = []
            for place, query in enumerate(self.queries):
                one: _QueryEntry = {"query": query, "index": query, "token": text[query]}
                for name, values in rows.items():
                    one[name] = values[number, place].tolist()  # type: ignore[literal-required]
                queries.append(one)
            layers.append({"layer": layer, "queries": queries})
        document: FlowDocument = {
            "model": record.model.document(),
            "measure": record.measure,
            "mask": record.mask_name,
            "heads": record.heads,
            "tokens": text,
            "layers": layers,
            "records": [entry],
        }
        return {**document, "sinks": True} if _divided(record) else document

    def report(self) -> Report:
        """Show the share of every input token in one token, or maps of all tokens and the largest shares of
        each row.
        """
        record, shown = self.record, self.record.tokens.shown
        one_layer = len(self.layers) == 1
        layers = f"layer{'' if one_layer else 's'} {number_list(self.layers)}"
        heads = f"mean of heads {number_list(record.heads)}" if record.pairs is None else f"mean of {record.choice}"
        part = record.part
        unit = ["words"] if self.words else [part.unit] if part is not None and part.stretched else []
        name, mask = model_name(record.model.full_name), f"mask {record.mask_name}"
        title = [name, *record.unusual, layers, heads, mask, *unit, record_size(record)]
        meanings = [*(TextLine(MEANING[method], caption=True) for method in self.shares), *_divided(record)]
        meanings += [TextLine(f"in brackets: {UNIFORM}")] if one_layer else []
        if len(self.queries) == len(record.tokens):
            tables = [self._strongest()] if one_layer else [self._by_layer(method) for method in self.shares]
            maps = self._maps()
            parts: list[Part] = [*meanings, maps, *tables]
            picture: Callable[[], Sequence[Part]] = lambda: [*_divided(record), maps]  # noqa: E731
            following = NextCommand("flow", {"query": _last_word(record.tokens)})
        else:
            [query] = self.queries
            title = [*title, f'token {query} "{printable(shown[query])}"']
            if one_layer:  # a column per method
                columns = [Column(_beside(method), drop=DROP_ORDER.index(method) + 1) for method in self.shares]
                own, uniform = ([one[name][0, 0] for name in self.shares] for one in (self.shares, self.uniform))
                parts = [*meanings, self._shares(columns, own, uniform)]
            else:  # a table per method
                columns = [Column(f"layer {layer}") for layer in self.layers]
                tables = [self._shares(columns, list(rows[:, 0]), title=name) for name, rows in self.shares.items()]
                parts = [*meanings, *tables]
            picture = lambda: [*_divided(record), self.every._maps(query)]  # noqa: E731
            following = NextCommand("flow", {"output_path": "flow.svg"})
        return Report(
            title,
            parts,
            self.document,
            picture=picture,
            files=dict.fromkeys(RECORDS, lambda path: self.every.as_record().save(path)),
            records=lambda: [self.every.as_record()],
            next=following,
        )

    def _maps(self, query: int | None = None) -> Maps:
        """Return a map per method and layer, each with its own scale, because flow is spread much more than rollout.

        query: the row that stands out.
        """
        axis, maps = MapAxis("query", self.record.tokens.shown), self.maps()
        return Maps(
            [[Panel(name, rows[number]) for name, rows in maps.items()] for number in range(len(self.layers))],
            axis,
            replace(axis, name="key"),
            scale="share",
            apart=True,
            headings=[f"layer {layer}" for layer in self.layers] if len(self.layers) > 1 else [],
            highlighted=query,
        )

    def _strongest(self) -> Ranking:
        """Return a row per query, with its strongest tokens by each method."""
        tokens = self.record.tokens
        names = numbered_names(tokens)
        rows = []
        for place, query in enumerate(self.queries):
            named = []
            for name, shares in self.shares.items():
                found = strongest(shares[0, place].astype(np.float32), NAMED)
                usual = self.uniform[name][0, place]
                named.append([(names[key], f"{share:.3f} ({usual[key]:.3f})") for key, share in found])
            rows.append((f"{query:>3} {visible(tokens.shown[query])}", named))
        columns, dropped = (list(map(_beside, some)) for some in (self.shares, DROP_ORDER))
        return Ranking("token", columns, rows, "(attends to nothing)", dropped)

    def _by_layer(self, method: str) -> Table:
        """Return the strongest token of every query by one method: a row per query, a column per layer."""
        names, shown = numbered_names(self.record.tokens), self.record.tokens.shown
        rows = []
        for place, query in enumerate(self.queries):
            row = [f"{query:>3} {shown[query]}"]
            for number in range(len(self.layers)):
                strong = strongest(self.shares[method][number, place].astype(np.float32), 1)
                row.append(f"{strong[0][1]:.2f} {names[strong[0][0]]}" if strong else "none")
            rows.append(row)
        columns = [Column("token"), *(Column(f"layer {layer}", "name") for layer in self.layers)]
        return Table(columns, rows, f"{method}: the largest share, and its token")

    def _shares(
        self, columns: list[Column], shares: Sequence[Doubles], uniform: Sequence[Doubles] = (), title: str = ""
    ) -> Table:
        """Return a row per input token, with its share in each column on the colour of a weight, and its baseline."""
        rows: list[list[str | Cell]] = []
        for key, token in enumerate(self.record.tokens.shown):
            ends = [f" ({one[key]:.3f})" for one in uniform] or [""] * len(shares)
            cells = [Cell(f"{one[key]:.3f}{end}", share=float(one[key])) for one, end in zip(shares, ends, strict=True)]
            rows.append([f"{key:>3} {visible(token)}", *cells])
        return Table([Column("input token"), *columns], rows, title)


def follow(
    record: AttentionRecord,
    layers: Selection | None = None,
    queries: Sequence[int] | None = None,
    methods: Iterable[str] = METHODS,
    words: bool = False,
    baseline: bool = True,
) -> Followed:
    """Follow a record's attention down to the input tokens.

    layers: the layers to start from; by default the last that the record holds. queries: the tokens to start from; by
    default all. words: whether its tokens are words. baseline: False omits `uniform`.

    Raises RequestError for an unknown method or a layer that the record does not hold, and as `residual_steps` and
    `maximum_flows` do.
    """
    methods = list(dict.fromkeys(methods))
    for method in methods:
        choices.check("method", method, choices.Method)
    chosen = [max(record.layers)] if layers is None else record.select_layers(layers)
    wanted = list(range(len(record.tokens))) if queries is None else list(queries)
    steps = residual_steps(record)
    shares, flows = {}, None
    for method in methods:
        if method == "raw":
            shares[method] = mean_maps(record.select(layers=chosen))[:, wanted]
        elif method == "rollout":
            shares[method] = rollout(steps)[chosen][:, wanted]
        else:
            with progress(len(chosen) * len(wanted), "tokens") as advance:
                flows = np.stack([maximum_flows(steps, layer, wanted, advance) for layer in chosen])
            # Rows sum to 1, as in the authors' program. The residual connection keeps the sum above 0.
            shares[method] = flows / flows.sum(axis=-1, keepdims=True)
    if not baseline:
        return Followed(record, chosen, wanted, shares, flows, words)
    masks, one = record.masks[:, None].astype(np.float32), record.heads[:1]
    even = replace(record, weights=masks, heads=one, pairs=None, vectors=None, usual=None, sinks=False)
    uniform = follow(even, layers, queries, methods, words, baseline=False).shares
    return Followed(record, chosen, wanted, shares, flows, words, uniform)


def maximum_flows(
    steps: Doubles, layer: int, queries: Sequence[int], advance: Callable[[], None] = lambda: None
) -> Doubles:
    """Return the maximum flow from tokens of one layer to each input token, `[len(queries), input token]`.

    Abnar and Zuidema 2020, section 3: the nodes are the tokens after every layer, and below them the input. An edge
    leads from a token to each token one layer below, with the capacity Ã (`steps`). Each query and input token is a
    separate problem, solved by Dinic's algorithm in scipy. A flow is at most 1, because 1 leaves the query in total.

    Capacities are rounded to whole 2^-29, so a flow is off by at most 2^-30 for each edge of the minimum cut: with 30
    tokens and 12 layers, which have 10,800 edges, by less than 1.1e-5, and mostly by less than 1e-7.

    `advance` is called after every query. Raises RequestError when scipy is not installed.
    """
    try:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import maximum_flow
    except ImportError as error:
        raise RequestError(
            f"attention flow needs scipy: {install_hint('flow')}, or use --method raw,rollout"
        ) from error
    length = steps.shape[-1]
    capacities = np.rint(steps[: layer + 1] * UNIT).astype(np.int32)
    # 32-bit, because scipy before 1.15 takes no wider node numbers.
    number, above, below = (places.astype(np.int32) for places in np.nonzero(capacities))
    nodes = (number + 1) * length + above, number * length + below
    graph = csr_array((capacities[number, above, below], nodes), shape=((layer + 2) * length,) * 2)
    flows = np.empty((len(queries), length))
    for place, query in enumerate(queries):
        source = (layer + 1) * length + query
        flows[place] = [maximum_flow(graph, source, key, method="dinic").flow_value / UNIT for key in range(length)]
        advance()
    return flows


# --- the report -----------------------------------------------------------------------------------------

MEANING = {
    "raw": "raw: attention in this layer, mean over heads",
    "rollout": "rollout: each input token's share, summed over all paths through the layers",
    "flow": "flow: the maximum flow to each input token, divided by the sum over tokens",
}
UNIFORM = "the same if every token paid equal attention to the tokens that its mask shows"
NAMED = 2  # the strongest tokens of a row, at most
DROP_ORDER = ("raw", "flow", "rollout")  # the columns that a narrow terminal drops, in this order


def _beside(method: str) -> str:
    """Return the heading of a method's shares and their baseline."""
    return f"{method} (uniform)"


def _divided(record: AttentionRecord) -> list[TextLine]:
    """Return the note that rows are divided by their sums, if heads have sinks."""
    return [TextLine(DIVIDED, caption=True)] if record.sinks and record.measure == "weight" else []


def _last_word(tokens: Tokens) -> str:
    """Return the last word of a text as --query takes it."""
    words = [place for place, special in enumerate(tokens.special) if not special and tokens.text[place].isalnum()]
    place = words[-1] if words else 0
    token = tokens.text[place]
    return token if token.isalpha() and tokens.text.index(token) == place else str(place)


class _QueryEntry(TypedDict):
    """All tokens, or that of `--query`."""

    query: Annotated[int, "equal to `index`"]
    index: Annotated[int, "its position in `tokens`"]
    token: Annotated[str, "as in the vocabulary"]
    raw: NotRequired[Annotated[list[float], "mean weights, with this method", "`[token of the layer below]`"]]
    rollout: NotRequired[Annotated[list[float], "shares that sum to 1, with this method", "`[input token]`"]]
    flow: NotRequired[Annotated[list[float], "shares that sum to 1, with this method", "`[input token]`"]]
    maximum_flow: NotRequired[Annotated[list[float], "the maximum flows themselves, with `flow`", "`[input token]`"]]
    raw_uniform: NotRequired[Annotated[list[float], UNIFORM, "`[token of the layer below]`"]]
    rollout_uniform: NotRequired[Annotated[list[float], UNIFORM, "`[input token]`"]]
    flow_uniform: NotRequired[Annotated[list[float], UNIFORM, "`[input token]`"]]


class _LayerEntry(TypedDict):
    """The starting layers."""

    layer: int
    queries: list[_QueryEntry]


class FlowDocument(TypedDict):
    """`.csv`: a row per cell, as for `run`, with every query."""

    model: ModelDocument
    measure: Annotated[str, "the measure that was followed: weight, norm or share of norm"]
    mask: Annotated[str, choices.one_of(choices.MaskName)]
    heads: Annotated[list[int], "the heads whose mean was followed", "`[head]`"]
    sinks: NotRequired[
        Annotated[bool, "true if heads have sinks: each row of the mean over heads is divided by its sum"]
    ]
    tokens: Annotated[list[str], "", "`[token]`"]
    layers: list[_LayerEntry]
    records: Annotated[list[RecordDocument], "one record of the same shares, with the methods as its heads, in order"]
