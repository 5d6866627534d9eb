"""Follow attention down to the input tokens.

Above layer 0 a token is a mixture already, so its weights say little about the text. Both methods (Abnar and Zuidema
2020, "Quantifying Attention Flow in Transformers") follow every path from a token down to the input, through attention
and through the residual connection beside it. W is the mean over heads:

    Ã = 0.5 W + 0.5 I                 one step (`attncli.analysis.rollout`)
    rollout_l = Ã_l rollout_(l-1)     all paths added up
    flow                              the most that can flow to an input token, with Ã as capacities
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import TYPE_CHECKING, Annotated, Any, cast

import numpy as np

from attncli.analysis.patterns import strongest
from attncli.analysis.rollout import mean_maps, residual_steps, rollout
from attncli.base import choices
from attncli.base.arrays import Bools, Doubles, Floats
from attncli.base.errors import RequestError, install_hint
from attncli.base.files import PICTURES
from attncli.base.printable import printable, visible
from attncli.base.progress import progress
from attncli.features import options
from attncli.features.feature import as_function
from attncli.features.inputs import RecordFeature, SavedRecords, Texts, read_inputs
from attncli.features.options import MODEL, some_of
from attncli.models.opening import Opening
from attncli.record import AttentionRecord, Request
from attncli.record.display import DIVIDED, hide_masked, model_name, record_size
from attncli.record.record import SUFFIXES
from attncli.record.selection import Selection, number_list, numbered_names, select_token
from attncli.report import Cell, Column, MapAxis, Maps, NextCommand, Panel, Part, Report, Table, TextLine
from attncli.text.tokens import Tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

    from attncli.report.canvas import Canvas
    from attncli.report.paper import Paper
    from attncli.report.terminal import FittedTable

METHODS = choices.names(choices.Method)
RECORDS = tuple(suffix for suffix in SUFFIXES if suffix != ".json")  # a .json has the document, and the record in it

# Capacities are whole numbers of 32 bits in scipy, and a flow on an edge may be taken back: twice UNIT must fit.
UNIT = 2**29


@dataclass(eq=False)
class Flow(RecordFeature):
    """Follow attention down to the input tokens: rollout and flow.

    Above layer 0 a token is a mixture of tokens. Both methods (Abnar and Zuidema 2020) take the mean over heads, and
    half of every step for the residual connection. Rollout adds up all paths; flow is the maximum flow with weights as
    capacities. Beside them stand the raw weights to the layer below. Without -l it starts at the last layer.

    \b
    Examples:
      attncli flow --query it -l all
      attncli flow -l 0,2,5 -o flow.png "The cat sat on the mat."
      attncli run -o maps.npz "A cat sat." && attncli flow --from maps.npz
    """

    group = "Understand"
    saves = (*PICTURES, *SUFFIXES)
    saved_as = "the flow"

    query: options.Query = None
    method: Annotated[str, some_of(MODEL, choices.Method, "--method")] = "raw,rollout,flow"
    words: options.Words = False
    mask: options.MaskOption = None

    def report(self) -> Report:
        methods = choices.several("method", self.method, choices.Method)
        if self.suffix in RECORDS and not self.for_program:
            self.refuse("on a saved record, which has every row", "query")
        record = self._record()
        if self.words:
            from attncli.record.grouping import merge_words

            record = merge_words(record)
        query = None if self.query is None else select_token(self.query, record.tokens)

        def followed(queries: Sequence[int]) -> Followed:
            steps = len(_chosen_layers(record, self.layer)) * len(queries) if "flow" in methods else 0
            with progress(steps, "tokens") as advance:
                return follow(record, self.layer, queries, methods, advance)

        every = range(len(record.tokens))
        if query is None:
            return _every_report(followed(every), self.words)
        return _token_report(followed([query]), self.words, lambda: followed(every))

    def _record(self) -> AttentionRecord:
        """Return the one record, with all layers: -l names those to start from."""
        if self.saved is not None:
            self.refuse_use("record", "with --from, which takes what was saved")
            return SavedRecords(self.saved, None, self.head).single_record(
                "save the one to follow by itself (attncli run -o one.npz TEXT)"
            )
        heads = "all" if self.head is None else self.head
        request = Request("all", heads, self.mask, self.pad_to, self.measure, which=self.which, target=self.target)
        opening = Opening(self.model, self.device, self.dtype, self.engine, self.without)
        source = Texts(read_inputs(self.text, self.pair, self.file, whole=self.whole), opening, request)
        from attncli.models.engine import check_every_layer

        check_every_layer(source.engine, self.which, "flow")
        return source.single_record("give the one to follow as TEXT")


# --- what is computed -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Followed:
    """The shares of input tokens in the tokens of some layers.

    layers: numbers of layers; queries: positions of tokens.
    shares: by method, `[layer, query, input token]`; of raw, the token of the layer below. Rows sum to 1.
    flows: the maximum flows themselves, where flow is among the methods.
    """

    record: AttentionRecord
    layers: list[int]
    queries: list[int]
    shares: dict[str, Doubles]
    flows: Doubles | None = None

    def as_record(self) -> AttentionRecord:
        """Return the shares as one record, so that they are saved and drawn as maps are.

        It is of a network like the model with a head a method, in their order, and the model's name says so:
        "minilm (raw, rollout, flow)" has heads 0, 1 and 2. A layer's mask shows the input tokens that a token has a
        path to through this layer and those below.
        """
        record, every = self.record, list(range(len(self.record.tokens)))
        numbers = sorted(record.layers)
        paths = reachable([record.mask_of(layer) for layer in numbers])
        return replace(
            record,
            weights=np.stack(list(self.shares.values()), axis=1).astype(np.float32),
            layers=list(self.layers),
            heads=list(range(len(self.shares))),
            pairs=None,
            tokens=record.tokens.take(self.queries),
            key_tokens=None if self.queries == every else record.tokens,
            masks=paths[[numbers.index(layer) for layer in self.layers]][:, self.queries],
            measure="weight" if record.measure == "weight" else "share of norm",
            model=replace(record.model, name=f"{record.model.name} ({', '.join(self.shares)})", heads=len(self.shares)),
            vectors=None,
            usual=None,
            sinks=False,
        )

    def maps(self) -> dict[str, Floats]:
        """Return the shares by method with NaN where no path leads; for raw, where no step leads."""
        paths = self.as_record().masks
        own = np.stack([self.record.mask_of(layer) for layer in self.layers])[:, self.queries]
        return {
            name: hide_masked(rows.astype(np.float32), own if name == "raw" else paths)
            for name, rows in self.shares.items()
        }

    def document(self) -> dict[str, Any]:
        """Return the document of --json: the share of each input token per layer and query, also as a record."""
        entry = self.as_record().document()
        for shown, method in zip(entry["attention"], cycle(self.shares)):
            shown["method"] = cast(choices.Method, method)
        rows = dict(self.shares) if self.flows is None else {**self.shares, "maximum_flow": self.flows}
        return {
            "model": self.record.model.document(),
            "measure": self.record.measure,
            "mask": self.record.mask_name,
            "heads": self.record.heads,
            **({"sinks": True} if _divided(self.record) else {}),
            "tokens": self.record.tokens.text,
            "layers": [
                {
                    "layer": layer,
                    "queries": [
                        {
                            "query": query,
                            "index": query,
                            "token": self.record.tokens.text[query],
                            **{name: values[number, place].tolist() for name, values in rows.items()},
                        }
                        for place, query in enumerate(self.queries)
                    ],
                }
                for number, layer in enumerate(self.layers)
            ],
            "records": [entry],
        }


def follow(
    record: AttentionRecord,
    layers: Selection | None = None,
    queries: Sequence[int] | None = None,
    methods: Iterable[str] = METHODS,
    advance: Callable[[], None] = lambda: None,
) -> Followed:
    """Follow a record's attention down to the input tokens.

    layers: the layers to start from; by default the last that the record holds. queries: the tokens to start from; by
    default all. With flow, which takes longest, `advance` is called after every query of every layer.

    Raises RequestError for an unknown method or a layer that the record does not hold, and as `residual_steps` and
    `maximum_flows` do.
    """
    methods = list(dict.fromkeys(methods))
    for method in methods:
        choices.check("method", method, choices.Method)
    chosen = _chosen_layers(record, layers)
    wanted = list(range(len(record.tokens))) if queries is None else list(queries)
    steps = residual_steps(record)
    shares, flows = {}, None
    for method in methods:
        if method == "raw":
            shares[method] = mean_maps(record.select(layers=chosen))[:, wanted]
        elif method == "rollout":
            shares[method] = rollout(steps)[chosen][:, wanted]
        else:
            flows = np.stack([maximum_flows(steps, layer, wanted, advance) for layer in chosen])
            # So that rows sum to 1, as the authors' program does; the residual connection keeps the sum above 0.
            shares[method] = flows / flows.sum(axis=-1, keepdims=True)
    return Followed(record, chosen, wanted, shares, flows)


def _chosen_layers(record: AttentionRecord, layers: Selection | None) -> list[int]:
    """Return the layers to start from. Raises RequestError as `AttentionRecord.chosen` does."""
    if layers is None:
        return [max(record.layers)]
    return record.select_layers(layers)


def maximum_flows(
    steps: Doubles, layer: int, queries: Sequence[int], advance: Callable[[], None] = lambda: None
) -> Doubles:
    """Return the maximum flow from tokens of one layer to each input token, `[len(queries), input token]`.

    Abnar and Zuidema 2020, section 3: the nodes are the tokens after every layer, and below them the input. An edge
    leads from a token to each token one layer below, with the capacity Ã (`steps`). Each query and input token is a
    problem of its own, solved by Dinic's algorithm in scipy. A flow is at most 1, which leaves the query.

    Capacities are rounded to whole 2^-29, so a flow is off by at most 2^-30 for each edge of the smallest cut: with
    30 tokens and 12 layers, which have 10,800 edges, by less than 1.1e-5, and mostly by less than 1e-7.

    `advance` is called after every query. Raises RequestError when scipy is not installed.
    """
    try:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import maximum_flow
    except ImportError as error:
        raise RequestError(
            f"attention flow needs scipy: {install_hint('flow')}, or take --method raw,rollout"
        ) from error
    length = steps.shape[-1]
    capacities = np.rint(steps[: layer + 1] * UNIT).astype(np.int32)
    # In 32 bits because scipy's flow takes no wider numbers of nodes before 1.15.
    number, above, below = (places.astype(np.int32) for places in np.nonzero(capacities))
    nodes = (number + 1) * length + above, number * length + below
    graph = csr_array((capacities[number, above, below], nodes), shape=((layer + 2) * length,) * 2)
    flows = np.empty((len(queries), length))
    for place, query in enumerate(queries):
        source = (layer + 1) * length + query
        flows[place] = [maximum_flow(graph, source, key, method="dinic").flow_value / UNIT for key in range(length)]
        advance()
    return flows


def reachable(masks: Sequence[Bools]) -> Bools:
    """Return the input tokens that the tokens of each layer have a path to, `[layer, query, key]`.

    A token always reaches itself, through the residual connection. masks: bool `[query, key]` of every layer, from
    layer 0 on.
    """
    paths: Bools = np.stack(masks) | np.eye(len(masks[0]), dtype=bool)
    for layer in range(1, len(paths)):
        paths[layer] = paths[layer].astype(np.float32) @ paths[layer - 1].astype(np.float32) > 0
    return paths


# --- the report -----------------------------------------------------------------------------------------

MEANING = {
    "raw": "raw: attention to the layer below, mean over heads",
    "rollout": "rollout: shares of the input tokens, all paths down added up",
    "flow": "flow: the maximum flow to each input token, as shares of the sum",
}
NAMED = 2  # the strongest tokens of a row, at most
LEAVING = ("raw", "flow", "rollout")  # the methods that a narrow terminal does without first


def _every_report(found: Followed, words: bool) -> Report:
    """Report the maps of every layer, and the strongest tokens of every query."""
    meanings, maps = _meanings(found), _maps(found)
    one_layer = len(found.layers) == 1
    tables = [_Strongest(found)] if one_layer else [_by_layer(found, method) for method in found.shares]
    return Report(
        _title(found, words),
        [*meanings, maps, *tables],
        found.document,
        picture=[*_divided(found.record), maps],
        files=dict.fromkeys(RECORDS, found.as_record().save),
        next=NextCommand("flow", {"query": _last_word(found.record.tokens)}),
    )


def _token_report(found: Followed, words: bool, every: Callable[[], Followed]) -> Report:
    """Report one token's shares of every input token. Pictures and records have all tokens; its row stands out."""
    [query] = found.queries
    title, meanings = _title(found, words), _meanings(found)
    whose = f'token {query} "{printable(found.record.tokens.shown[query])}"'
    if len(found.layers) == 1:  # a column a method
        columns = [Column(name, leaves=LEAVING.index(name) + 1) for name in found.shares]
        tables = [_shares_table(found, columns, [shares[0, 0] for shares in found.shares.values()])]
    else:  # a table a method
        columns = [Column(f"layer {layer}") for layer in found.layers]
        tables = [_shares_table(found, columns, list(shares[:, 0]), name) for name, shares in found.shares.items()]
    return Report(
        [*title, whose],
        [*meanings, *tables],
        found.document,
        picture=[_QueryPicture(query, every)],
        files=dict.fromkeys(RECORDS, lambda path: every().as_record().save(path)),
        next=NextCommand("flow", {"output_path": "flow.svg"}),
    )


def _title(found: Followed, words: bool) -> list[str]:
    record = found.record
    layers = f"layer{'s' if len(found.layers) > 1 else ''} {number_list(found.layers)}"
    heads = f"mean of heads {number_list(record.heads)}" if record.pairs is None else f"mean of {record.choice}"
    unit = ["words"] if words else []
    name = model_name(record.model.full_name)
    return [name, *record.unusual, layers, heads, f"mask {record.mask_name}", *unit, record_size(record)]


def _meanings(found: Followed) -> list[Part]:
    return [*(TextLine(MEANING[name], caption=True) for name in found.shares), *_divided(found.record)]


def _divided(record: AttentionRecord) -> list[Part]:
    """Say that rows are divided by their sums, where heads have sinks."""
    return [TextLine(DIVIDED, caption=True)] if record.sinks and record.measure == "weight" else []


def _maps(found: Followed, query: int | None = None) -> Maps:
    """Return a map a method, a row of them a layer, each with its own scale: flow is spread much more than rollout."""
    axis, maps = MapAxis("query", found.record.tokens.shown), found.maps()
    return Maps(
        [[Panel(name, rows[number]) for name, rows in maps.items()] for number in range(len(found.layers))],
        axis,
        replace(axis, name="key"),
        scale="share",
        apart=True,
        headings=[f"layer {layer}" for layer in found.layers] if len(found.layers) > 1 else [],
        highlighted=query,
    )


def _last_word(tokens: Tokens) -> str:
    """Return the last word of a text as --query takes it."""
    words = [place for place, special in enumerate(tokens.special) if not special and tokens.text[place].isalnum()]
    place = words[-1] if words else 0
    token = tokens.text[place]
    return token if token.isalpha() and tokens.text.index(token) == place else str(place)


@dataclass(frozen=True)
class _QueryPicture(Part):
    """The picture of all tokens' maps, in which the row of one stands out."""

    query: int
    every: Callable[[], Followed]

    def figure(self, title: Sequence[str], paper: "Paper") -> "Figure":
        from attncli.report.figure import maps_figure

        found = self.every()
        return maps_figure(title, _maps(found, self.query), _divided(found.record), paper)


def _by_layer(found: Followed, method: str) -> Table:
    """Return the strongest token of every query by one method: a row a query, a column a layer."""
    names, shown = numbered_names(found.record.tokens), found.record.tokens.shown
    rows = []
    for place, query in enumerate(found.queries):
        row = [f"{query:>3} {shown[query]}"]
        for number in range(len(found.layers)):
            strong = strongest(found.shares[method][number, place].astype(np.float32), 1)
            row.append(f"{strong[0][1]:.2f} {names[strong[0][0]]}" if strong else "none")
        rows.append(row)
    columns = [Column("token"), *(Column(f"layer {layer}", "name") for layer in found.layers)]
    return Table(columns, rows, f"{method}: the largest share, and its token")


def _shares_table(found: Followed, columns: list[Column], shares: Sequence[Doubles], title: str = "") -> Table:
    """Return a row per input token, with its share in each column on the colour of a weight."""
    rows: list[list[str | Cell]] = [
        [f"{key:>3} {visible(token)}", *(Cell(f"{one[key]:.3f}", share=float(one[key])) for one in shares)]
        for key, token in enumerate(found.record.tokens.shown)
    ]
    return Table([Column("input token"), *columns], rows, title)


@dataclass(frozen=True)
class _Strongest(Part):
    """A row a query, with its strongest tokens by each method, as many as all methods have room for."""

    found: Followed

    def terminal(self, canvas: "Canvas") -> "list[RenderableType]":
        for count in range(NAMED, 0, -1):
            table = self.table(count, canvas)
            if canvas.height is None or table.fits(canvas.width):
                break
        return [table]

    def table(self, count: int, canvas: "Canvas") -> "FittedTable":
        from rich.text import Text

        from attncli.report.terminal import LEAST_NAME, plain_table

        methods, tokens = self.found.shares, self.found.record.tokens
        names = numbered_names(tokens)
        table = plain_table("token", *methods, goes=[name for name in LEAVING if name in methods])
        for column in table.columns:
            column.justify = "left"
        for place, query in enumerate(self.found.queries):
            cells = []
            for shares in methods.values():  # long tokens are cut, except in a pipe
                strong = strongest(shares[0, place].astype(np.float32), count)
                named = [f"{canvas.within(names[key], LEAST_NAME)} {share:.3f}" for key, share in strong]
                cells.append(Text("  ".join(named) or "(attends to nothing)"))
            table.add_row(Text(f"{query:>3} {visible(tokens.shown[query])}"), *cells)
        return table


flow = as_function(Flow)


# The fields of its document (`attncli.features.document`).
FIELDS = """
### flow

model | model
measure | str | | the measure that was followed: weight, norm or share of norm
mask | MaskName
heads | [int] | `[head]` | the heads whose mean was followed
sinks | bool? | | true if heads have sinks: each row of the mean over heads is divided by its sum
tokens | [str] | `[token]`
layers | [object] | | the starting layers
layers.layer | int
layers.queries | [place] | | all tokens, or that of `--query`
layers.queries.query | int | | equal to `index`
layers.queries.raw | [float]? | `[token of the layer below]` | mean weights, with this method
layers.queries.rollout | [float]? | `[input token]` | shares that sum to 1, with this method
layers.queries.flow | [float]? | `[input token]` | shares that sum to 1, with this method
layers.queries.maximum_flow | [float]? | `[input token]` | the maximum flows themselves, with `flow`
records | [record] | | one record of the same shares, with the methods as its heads, in order
records.attention.method | Method

`.csv`: a row per cell, as for `run`, with every query.
"""
