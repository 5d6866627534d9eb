"""Explain one row of one head: every number on the way from q and k to the output.

    score_j  = q · k_j                    scaled_j = score_j · scale, which is 1 / √d_k in most networks
    added_j  = scaled_j + terms_j         where positions add something
    raised_j = exp(added_j - m), m the largest added score that the mask allows; 0 where it hides the key
    weight_j = raised_j / Σ_l raised_l    output   = Σ_j weight_j v_j

A head's sink, if any, is one more score: m is then at least the sink, and the sum includes exp(sink - m).

(Vaswani et al. 2017, equation 1; Raffel et al. 2020, section 2.1; He et al. 2021, equation 4. Subtracting m changes no
weight, and keeps exp from overflowing.) With rotary positions (Su et al. 2021), q and k are the rotated ones.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from attncli.base import choices
from attncli.base.arrays import Doubles, titled
from attncli.base.errors import RequestError
from attncli.base.files import DOCUMENTS, PICTURES
from attncli.base.printable import visible
from attncli.base.typed import NotRequired
from attncli.effects.asking import Asking
from attncli.features import options
from attncli.features.inputs import (
    SavedRecords,
    layers_or,
    notify,
    open_tappable,
    opening_of,
    read_input,
    record_source,
)
from attncli.features.measure import measure, no_effect
from attncli.features.options import OUTPUT, SELECTION, option
from attncli.record import AttentionRecord, Request
from attncli.record.display import model_shown
from attncli.record.formula import softmax
from attncli.record.parts import ModelDocument
from attncli.record.selection import Input, all_name_layers, choose_head, select_token
from attncli.report import Cell, Column, NextCommand, Part, Report, Result, Table, TextLine
from attncli.report.parts import BarStep, RowKey
from attncli.report.row import RowBars

if TYPE_CHECKING:
    from attncli.base.typed import Unpack
    from attncli.effects.asking import MeasuredOutput
    from attncli.effects.logits import DirectPath
    from attncli.models.engine import Engine
    from attncli.models.head import OneHead
    from attncli.models.model import Model

FIRST_WORD = "1"  # the query that is explained by default
APART = 0.02  # rounding is below this in any dtype; above it, weights do not follow from q and k alone


@measure(options.RowOptions, saves=(*PICTURES, *DOCUMENTS), saved_as="the row")
def explain(
    model: options.ModelOrSaved = None,
    text: options.Text = None,
    *,
    layer: options.ALayer = None,
    head: options.AHead = None,
    query: Annotated[
        str | int | None,
        option(
            SELECTION,
            "--query",
            metavar="TOKEN",
            help="The query: it, it#2, 3.",
            show_default="1; --logit: last",
            kind=str | None,
        ),
    ] = None,
    logit: Annotated[
        bool,
        option(
            OUTPUT,
            "--logit",
            help="Show what each key adds to a next token's logit.",
        ),
    ] = False,
    block: Annotated[
        bool,
        option(OUTPUT, "--block", help="Show the whole layer: residual, norm, feed-forward too.", not_saved=PICTURES),
    ] = False,
    **given: "Unpack[options.RowOptions]",
) -> "ExplainedRow":
    """Explain one row of a map: every number in it.

    Shows for each key: q·k, q·k over the root of the head size, position terms, the mask, exp, the weight, and the
    length of weight times value, the token's contribution to the output, which can be small for a large weight. A saved
    record with q and k (run --vectors) has all but the contribution. --logit adds a column for the logit of the next
    token, or of --target.

    \b
    Examples:
      attncli explain -l 3 -H 1 --query it
      attncli explain "The cat sat on the mat." -l 1 -H 8 --query 3 -o row.png
      attncli explain "The cat sat on the mat." -l 1 -H 8 --query cat --block
      attncli explain -m smollm2 -l 23 -H 4 --logit "The capital of France is"
    """
    number = None if head is None else str(head)
    if isinstance(model, AttentionRecord) or given.get("saved") is not None:
        no_effect("with --from or a record, which hold no network", block=block, logit=logit)
        source = record_source(model, text, **given)
        assert isinstance(source, SavedRecords)
        record = source.single_record("save the one to explain in a separate file")
        one = _head_with_vectors(record, layer, number)
        place = select_token(FIRST_WORD if query is None else str(query), record.tokens)
        explained = explain_row(record.select([one[0]], [one[1]]), place)
        apart = max(abs(key["weight"] - key["computed"]) for key in explained["keys"])
        if apart > APART:
            notify(
                f"the weights differ by up to {apart:.3f} from those computed from q and k: the model adds something "
                "to the scores (a bias), or scales them differently"
            )
        return ExplainedRow(explained)
    from attncli.models.head import head_of_text

    which, target = given.get("which"), given.get("target")
    one_text = read_input(text, given.get("pair"), given.get("file"), given.get("whole", False), "give one as TEXT")
    opening = opening_of(model, device=given.get("device"), dtype=given.get("dtype"))
    engine = open_tappable(opening, which, answers=True)
    layers = layers_or("-1", layer, number)
    mask, pad_to = given.get("mask"), given.get("pad_to")
    named = None if query is None else str(query)
    written = None
    if logit:
        no_effect("with --logit", pad_to=pad_to)
        written = _target_logit(engine.in_torch(), one_text, Asking(one_text.pair, None, target, named, mask=mask))
        named, target = str(written.place), target if engine.of_part(which).writes else None
    request = Request(layers, number or "0", mask, pad_to=pad_to, which=which, target=target)
    taken = head_of_text(engine, one_text, request)
    place = select_token(FIRST_WORD if named is None else named, taken.record.tokens)
    explained = explain_row(taken.record, place, taken, written)
    if block:
        explained["block"] = explain_block(engine, taken.record, place)
    return ExplainedRow(explained, target)


def _head_with_vectors(record: AttentionRecord, layer: int | str | None, head: str | None) -> tuple[int, int]:
    """Return the chosen head, or the last one whose q and k the record has.

    Raises RequestError if the record has no q and k of the head.
    """
    model = record.model
    chosen = choose_head(layers_or("-1", layer, head), head or "0", model.layers, model.heads)
    one = chosen[0] if layer is not None or all_name_layers(head) else None
    other = None if head is None else chosen[1]
    known = [] if record.vectors is None or record.measure != "weight" else sorted(record.vectors.heads)
    known = [pair for pair in known if one in (None, pair[0]) and other in (None, pair[1])]
    if not known:
        name = f"{record.layers[-1] if one is None else one}.{record.heads[0] if other is None else other}"
        raise RequestError(
            f"the record has no q and k of head {name}: save them with attncli run --vectors {name} -o "
            "maps.safetensors TEXT"
        )
    return known[-1]


# --- what is computed -----------------------------------------------------------------------------------


class _TargetLogit(NamedTuple):
    """A logit at a position, and the direct paths of all heads to it, by layer."""

    output: "MeasuredOutput"
    token: str
    place: int
    ways: "dict[int, DirectPath]"


def _target_logit(model: "Engine", text: Input, asking: Asking) -> _TargetLogit:
    """Return the logit of a token. Raises RequestError as `logit_question` and `direct_paths` do."""
    from attncli.effects.logits import direct_paths, logit_question

    if len(model.parts) > 1 and asking.at is None:
        asking = replace(asking, at="0")
    question = logit_question(model, text.text, asking, "--query")
    assert question.places is not None
    return _TargetLogit(question.answer, question.label_name, question.places[0], direct_paths(question))


def explain_row(
    record: AttentionRecord, query: int, head: "OneHead | None" = None, written: _TargetLogit | None = None
) -> "ExplainDocument":
    """Return the document of --json: one row of a record of one head, key by key, computed in float64.

    The record also holds the head's queries and keys (`vectors`). query: the position of the row's token. head: the
    parts of the head; None for a saved record, whose document has no fields made from values. written: the logit that
    the head adds to.

    Per key: "weight" is the weight that the model computed, and "computed" is raised / total, which differs from it by
    rounding. "contribution" is |weight_j v_j| (Kobayashi et al. 2020, equation 3, without the output projection). If
    the mask hides every key, all weights and the output are 0.
    """
    [layer], [number] = record.layers, record.heads
    vectors = record.vectors
    assert vectors is not None
    place = vectors.place(layer, number)
    queries, keys = vectors.of(layer, number)
    scale, sink = float(vectors.scale[place]), vectors.sink(layer, number)
    terms = {name: term[place, query].astype(np.float64) for name, term in vectors.terms.items()}
    weights, allowed = record.map(layer, number)[query], record.mask_of(layer)[query]

    score = keys.astype(np.float64) @ queries[query].astype(np.float64)
    scaled = score * scale
    added = scaled + sum(terms.values())
    steps = softmax(added, allowed, None if sink is None else np.array([sink]))
    columns: dict[str, NDArray[Any]] = {
        "allowed": allowed,
        "score": score,
        "scaled": scaled,
        "raised": steps.raised,
        "weight": weights,
        "computed": steps.weights,
    }
    own: dict[str, Any] = {}
    more: dict[str, Any] = {}
    if head is not None:
        values = head.value.astype(np.float64)
        brought = weights.astype(np.float64)[:, None] * values  # [key, head_dim]
        columns |= {"value_norm": np.linalg.norm(values, axis=-1), "contribution": np.linalg.norm(brought, axis=-1)}
        output = brought.sum(axis=0)
        more = {"output": output.tolist(), "output_norm": float((output**2).sum() ** 0.5)}
        if written is not None:
            columns["adds"] = brought @ written.ways[layer].slopes[number, query].double().cpu().numpy()
            total = float(columns["adds"].sum())
            more["logit"] = {**written.output.document(), "token": written.token, "adds": total}
        if head.x is not None:
            unbiased = not np.any(head.projections["query"][1])
            own = {"x": head.x[query].tolist()} | ({"normed": True} if head.normed else {})
            own |= {"unbiased": True} if unbiased else {}
    if terms:
        rows = np.transpose([*terms.values()]).tolist()
        columns |= {"terms": np.array([dict(zip(terms, row, strict=True)) for row in rows]), "added": added}
    if head is not None and head.rows is not None:
        columns["row"] = head.rows[query]
    if head is not None and head.rotary is not None:
        before, keys_before = (head.before[name].astype(np.float64) for name in ("query", "key"))
        own["before"] = before[query].tolist()
        columns |= {"before": keys_before, "unturned": keys_before @ before[query]}
    columns["k"] = keys
    if head is not None:
        columns["v"] = head.value
    listed = {name: column.tolist() for name, column in columns.items()}
    text, shown = record.tokens.text, record.tokens.shown
    first = {"first": record.tokens.first} if record.tokens.first else {}
    document = {
        "model": record.model.document(),
        "layer": layer,
        "head": number,
        **({} if record.kind == "encoder" else {"kind": record.kind}),
        "mask": record.mask_name,
        "tokens": text,
        "scale": scale,
        **({} if head is None or len(head.group) == 1 else {"group": list(head.group)}),
        **({} if head is None or head.rotary is None else {"rotary": asdict(head.rotary) | first}),
        "query": {"index": query, "token": text[query], "shown": shown[query], **own, "q": queries[query].tolist()},
        "keys": [
            {
                "index": key,
                "token": token,
                "shown": record.keys.shown[key],
                **{name: column[key] for name, column in listed.items()},
            }
            for key, token in enumerate(record.keys.text)
        ],
        "largest": float(steps.largest[0]),
        **({} if sink is None else {"sink": {"score": sink, "raised": float(steps.sink[0])}}),
        "total": float(steps.total[0]),
        **more,
    }
    return cast("ExplainDocument", document)


# --- one block -----------------------------------------------------------------------------------------


def explain_block(model: "Engine", record: AttentionRecord, query: int) -> "list[_StationEntry]":
    """Return the stations of a query's vector in the layer of a record of one head, from its input to its output.

    A station is the vector after a step: attention, residual, norm, feed-forward. Post-norm (Vaswani et al. 2017,
    section 5.4) and pre-norm differ in the places of the norms (`Layer.stations` of `attncli.models.network`).

    Per station: "vector"; "length"; "cosine" with x, the block's input; "share" of what was added, its length divided
    by that of the vector it is added to; "others", the means of these numbers over the other real tokens.

    Raises RequestError for a network that transformers runs, whose steps are not known.
    """
    from attncli.models.model import own_network

    own = own_network(model.in_torch())
    if own is None:
        raise RequestError(
            "--block needs the steps inside a layer, which are unknown in a network that transformers runs"
        )
    [layer], [head] = record.layers, record.heads
    stations = stations_of(own, record, layer, head)
    others = [place for place in record.tokens.real if place != query]
    found, x, stream = [], stations[0][1], stations[0][1]
    tiny = np.finfo(float).tiny
    for name, vectors, into in stations:
        cosines = (vectors * x).sum(axis=-1) / np.maximum(_lengths(vectors) * _lengths(x), tiny)
        figures = {"length": _lengths(vectors), "cosine": cosines}
        if into == "added":
            figures["share"] = _lengths(vectors) / np.maximum(_lengths(stream), tiny)
        elif into == "stream":
            stream = vectors
        found.append(
            {
                "name": name,
                "kind": into,
                "vector": vectors[query].tolist(),
                **{name: float(values[query]) for name, values in figures.items()},
                "others": {name: float(values[others].mean()) for name, values in figures.items()} if others else None,
            }
        )
    return cast("list[_StationEntry]", found)


def stations_of(model: "Model", record: AttentionRecord, layer: int, head: int) -> list[tuple[str, Doubles, str]]:
    """Return every station of a layer, with the vectors of all tokens `[token, hidden_size]`, and its kind.

    Kinds: "stream", the residual stream; "added", a vector added to it; "read", its normalised copy that attention or
    feed-forward reads; "part", the head's contribution to the attention's output.
    """
    import torch

    from attncli.models.taps import Outputs

    outputs = Outputs()
    model.need(model.layers)
    with torch.inference_mode():
        rows = model.rows([record.tokens], record.mask_name)
        states = list(model.walk(rows, [outputs]))
        x, after, of_layer = states[layer], states[layer + 1], model.network.layer(layer)
        heads = outputs.kept[layer][0]  # [head, token, head_dim]
        joined = heads.transpose(0, 1).flatten(1)
        part = heads[head] @ of_layer.output_by_head()[:, head].T
        found = [("x", x, "stream")]
        if of_layer.norm_first:
            found.append(("norm", of_layer.before(x), "read"))
        attention, *more = of_layer.stations(x, joined)
        found.append(attention)
        if isinstance(of_layer.attention_output_norm, torch.nn.Identity):  # otherwise a norm mixes the heads' parts
            found.append((f"head {head}", part, "part"))
        found += more
        if not torch.equal(after, found[-1][1]):  # a convolution beside the first layer, or the network's last norm
            found.append(("end of the layer", after, "stream"))
        return [(name, vectors.double().cpu().numpy(), kind) for name, vectors, kind in found]


def _lengths(vectors: Doubles) -> Doubles:
    """Return the length of each vector, `[token]`."""
    return np.linalg.norm(vectors, axis=-1)


# --- the result -----------------------------------------------------------------------------------------


class _RotaryEntry(TypedDict):
    """The rotation of q and k by positions, if any; missing for a saved record."""

    rotated: Annotated[int, "number of rotated elements, from the first"]
    base: Annotated[float, "pair i at position p is rotated by p / stretch · base^(-2i / rotated)"]
    interleaved: Annotated[bool, "true: pairs are elements 2i and 2i + 1; false: i and i + rotated / 2"]
    values: Annotated[bool, "true if values are rotated too"]
    exact: Annotated[bool, "true if angles are computed in float64 for any dtype"]
    first: NotRequired[Annotated[int, "the index of the token at position 0, if [PAD] precedes the text"]]
    stretch: Annotated[
        float | list[float], "divisor of the positions; 1 for none; one per pair i if they differ", "`[pair]`"
    ]


class _QueryEntry(TypedDict):
    """The query of the row."""

    index: Annotated[int, "its position in `tokens`"]
    token: Annotated[str, "as in the vocabulary"]
    shown: Annotated[str, "as displayed"]
    x: NotRequired[
        Annotated[
            list[float],
            "input of its projections; missing for a saved record (as are values) and for networks that transformers "
            "runs",
            "`[hidden_size]`",
        ]
    ]
    normed: NotRequired[Annotated[bool, "true if queries and keys are normalised after projection; else missing"]]
    unbiased: NotRequired[Annotated[bool, "true if the projection of queries has no bias; else missing"]]
    before: NotRequired[Annotated[list[float], "the query before rotation, with `rotary`", "`[head_dim]`"]]
    q: Annotated[list[float], "the query", "`[head_dim]`"]


class _KeyEntry(TypedDict):
    """All keys."""

    index: Annotated[int, "its position in `tokens`, or in the text that is read"]
    token: Annotated[str, "as in the vocabulary"]
    shown: Annotated[str, "as displayed"]
    allowed: Annotated[bool, "true if the mask shows it"]
    score: Annotated[float, "q · k"]
    unturned: NotRequired[Annotated[float, "q · k before rotation, with `rotary`"]]
    scaled: Annotated[float, "score · scale"]
    row: NotRequired[
        Annotated[
            int, "row of the position table for this distance, from which the terms come; missing for a saved record"
        ]
    ]
    terms: NotRequired[Annotated[dict[str, float], "what positions, a bias or a softcap add to the score, by name"]]
    added: NotRequired[Annotated[float, "scaled plus terms, if there are terms"]]
    raised: Annotated[float, "exp(added - largest), or exp(scaled - largest) without terms; 0 if hidden"]
    weight: Annotated[float, "as the model computed it"]
    computed: Annotated[float, "raised / total: equal to weight except for rounding"]
    value_norm: NotRequired[Annotated[float, "length of v"]]
    contribution: NotRequired[Annotated[float, "length of weight · v: what it adds to the output"]]
    adds: NotRequired[Annotated[float, "with `--logit`: what weight · v adds to the logit directly", "logit"]]
    before: NotRequired[Annotated[list[float], "k before rotation, with `rotary`", "`[head_dim]`"]]
    k: Annotated[list[float], "", "`[head_dim]`"]
    v: NotRequired[Annotated[list[float], "", "`[head_dim]`"]]


class _SinkEntry(TypedDict):
    """The head's sink, if any: a further score without a key."""

    score: float
    raised: Annotated[float, "exp(score - largest), part of `total`"]


class _StationEntry(TypedDict):
    """With `--block`: the query's vector after each step of the layer."""

    name: str
    kind: Annotated[
        str,
        "stream: the residual stream; added: added to it; read: the input of attention or feed-forward; part: the "
        "head's contribution",
    ]
    vector: Annotated[list[float], "", "`[hidden_size]`"]
    length: float
    cosine: Annotated[float, "with the layer's input"]
    share: NotRequired[Annotated[float, "for what is added: its length, divided by that of the vector it is added to"]]
    others: Annotated[dict[str, float] | None, "length, cosine and share as means of the text's other tokens, if any"]


class _LogitEntry(TypedDict):
    """With `--logit`: the logit that the head adds to."""

    kind: Annotated[str, "logit"]
    value: Annotated[float, "of the whole model", "logit"]
    about: Annotated[str, "in words"]
    token: Annotated[str, "as displayed"]
    adds: Annotated[float, "what the head adds to it directly: the sum over `keys`", "logit"]


class ExplainDocument(TypedDict):
    """`.csv`: a row per entry of `keys`, with `--block` of `block`."""

    model: ModelDocument
    layer: Annotated[int, "layer of the head"]
    head: int
    kind: NotRequired[Annotated[str, "decoder or cross; missing for encoder attention"]]
    mask: Annotated[str, choices.one_of(choices.MaskName)]
    tokens: Annotated[list[str], "of the whole text", "`[token]`"]
    query: _QueryEntry
    scale: Annotated[float, "the factor of q · k"]
    group: NotRequired[
        Annotated[
            list[int],
            "heads of the layer that share these keys and values, if any; missing for a saved record",
            "`[head]`",
        ]
    ]
    rotary: NotRequired[_RotaryEntry]
    keys: list[_KeyEntry]
    largest: Annotated[float, "the largest score among visible keys and the sink, subtracted before exp"]
    sink: NotRequired[_SinkEntry]
    total: Annotated[float, "the sum of raised"]
    output: NotRequired[Annotated[list[float], "Σ weight · v", "`[head_dim]`"]]
    output_norm: NotRequired[Annotated[float, "length of output"]]
    logit: NotRequired[_LogitEntry]
    block: NotRequired[list[_StationEntry]]


@dataclass(frozen=True, repr=False)
class ExplainedRow(Result):
    """One row of one head, with every number in it. target: the output text of an encoder-decoder."""

    row: ExplainDocument
    target: str | None = None

    def __repr__(self) -> str:
        """<ExplainedRow of minilm: layer 3 head 1, query 10 "it">"""
        row = self.row
        which = f"layer {row['layer']} head {row['head']}"
        return titled(self, row["model"]["name"], which, f"query {_name(row['query'])}")

    def document(self) -> ExplainDocument:
        """Return what --json prints."""
        return self.row

    def report(self) -> Report:
        """Show where the query comes from, a row per key, and the output."""
        row = self.row
        kind = [f"{row['kind']} attention"] if "kind" in row else []
        which = f"layer {row['layer']} head {row['head']}"
        title = [model_shown(row["model"]), *kind, which, f"mask {row['mask']}", f"query {_name(row['query'])}"]
        steps = _steps(row)
        rows: list[Sequence[str | Cell] | None] = [
            [f"{key['index']:>3} {visible(key['shown'])}", *(step.cell(place) for step in steps)]
            for place, key in enumerate(row["keys"])
        ]
        sink = [["    sink", *(step.sink for step in steps)]] if "sink" in row else []
        rows += [None, *sink, ["    sum", *(step.total for step in steps)]]
        table = Table([Column("key"), *(Column(step.heading, drop=step.drop) for step in steps)], rows)
        return Report(
            title,
            [*map(TextLine, _beginning(row)), table, *map(TextLine, _end(row)), *_block(row)],
            self.document,
            itemgetter("block" if "block" in row else "keys"),
            picture=[
                RowBars(
                    [RowKey(one["index"], one["shown"], one["weight"], one["allowed"]) for one in row["keys"]],
                    [
                        BarStep(step.heading, step.values, step.texts, step.kind, step.total, step.drop)
                        for step in steps
                    ],
                    None if row.get("kind") == "cross" else row["query"]["index"],
                )
            ],
            next=NextCommand("run", {"layer": row["layer"], "head": row["head"], "target": self.target}),
        )


FIRST = 6  # elements of a vector that are shown
HIDDEN = "masked"
UNKNOWN = (
    "transformers runs this network: the inputs of its projections are unknown, so this starts from its q, k and v"
)
LOGIT = (
    "the {about} is {value:.3f}; the head adds {adds:+.3f} of it directly: through the residual connection to the "
    "output head, with the scales of norms frozen"
)
ROUNDING = 1e-6  # of a scale
BLOCK = (
    "added / stream: the length of the added vector, divided by that of the vector it is added to. In brackets: the "
    "mean over the text's other tokens."
)
TERMS = 3  # products of vectors that DeBERTa adds: q·k, and one or two with positions
SCORES, WEIGHTS, VALUES = 0, 1, 2  # kinds of steps, by the numbers of their colours


def _name(place: _QueryEntry | _KeyEntry) -> str:
    """Name a query or a key by its number and token."""
    return f'{place["index"]} "{place["shown"]}"'


def _vector(numbers: Sequence[float]) -> str:
    """Write the first elements of a vector, and its size."""
    more = ", ..." if len(numbers) > FIRST else ""
    return f"({', '.join(f'{number:.3f}' for number in numbers[:FIRST])}{more}) [{len(numbers)}]"


def _beginning(document: ExplainDocument) -> list[str]:
    """Describe where the query comes from."""
    query, lines = document["query"], []
    if "x" in query:
        lines.append(f"x = {_vector(query['x'])}, the attention's input")
    elif "output" in document:
        lines.append(UNKNOWN)
    if "group" in document:
        lines.append(f"heads {document['group'][0]}-{document['group'][-1]} share their keys and values")
    projected = "W_Q x" if "unbiased" in query else "W_Q x + b_Q"
    projected = f"norm({projected})" if "normed" in query else projected
    made = f"q = {projected}" if "x" in query else "q"
    if "rotary" not in document:
        return [*lines, f"{made} = {_vector(query['q'])}"]
    rotary = document["rotary"]
    pair = "2i and 2i+1" if rotary["interleaved"] else f"i and i+{rotary['rotated'] // 2}"
    stretch = rotary["stretch"]
    stretched = "" if stretch == 1 else " / s_i" if isinstance(stretch, tuple) else f" / {stretch:.4g}"
    first = rotary.get("first", 0)
    position, others_position = max(query["index"] - first, 0), f"j - {first}" if first else "j"
    angle = f"{position}{stretched} · {rotary['base']:g}^(-2i/{rotary['rotated']})"
    if isinstance(stretch, tuple):
        angle += f" (s_i from {min(stretch):.4g} to {max(stretch):.4g})"
    others = "key and value j" if rotary["values"] else "key j"
    turned = f"elements {pair} rotated by {angle}; for {others}, {others_position} instead of {position}"
    return [*lines, f"{made} = {_vector(query['before'])}", f"q = {_vector(query['q'])}, {turned}"]


def _end(document: ExplainDocument) -> list[str]:
    """Describe the output, the keys that contribute most to it, and the share of the sink."""
    keys = [key for key in document["keys"] if key["weight"] > 0]
    lines = []
    if not keys:
        lines.append("the mask hides every key of this query: its weights and its output are 0")
    else:
        by_weight = max(keys, key=lambda key: key["weight"])
        most = f"most weight: {_name(by_weight)} {by_weight['weight']:.3f}"
        if "output" in document:
            by_norm = max(keys, key=lambda key: key["contribution"])
            lines.append(f"output = Σ weight v = {_vector(document['output'])}")
            most += f"; largest contribution: {_name(by_norm)}, |weight v| {by_norm['contribution']:.3f}"
        lines.append(most)
    if "sink" in document:
        share = document["sink"]["raised"] / document["total"]
        lines.append(f"the head's sink takes {share:.3f} of the row, which goes to no token")
    if "logit" in document:
        lines.append(LOGIT.format(**document["logit"]))
    return lines


class _Step(NamedTuple):
    """A step as a column: a number for each key; as text, these numbers, the sink's number and the sum."""

    heading: str
    values: Sequence[float]
    texts: list[str]
    kind: int = SCORES
    total: str = ""
    sink: str = ""
    drop: int = 0

    def cell(self, place: int) -> Cell:
        """Return the number of a key, coloured by its share of the column's largest."""
        most = max(map(abs, self.values), default=0) or 1
        share = None if self.texts[place] == HIDDEN else self.values[place] / most
        return Cell(self.texts[place], share=share, signed=self.kind == SCORES)


def _steps(document: ExplainDocument) -> list[_Step]:
    """Return the columns: from q·k to the scores, then exp, the weights, and contributions, if values are known."""
    keys = document["keys"]

    def step(heading: str, values: list[float], kind: int = SCORES, total: str = "", drop: int = 0) -> _Step:
        return _Step(heading, values, [f"{value:.3f}" for value in values], kind, total, drop=drop)

    scores = [step("q·k not rotated", [key["unturned"] for key in keys], drop=4)] if "unturned" in keys[0] else []
    scores.append(step("q·k", [key["score"] for key in keys]))
    scores.append(step(_scaling(document), [key["scaled"] for key in keys], drop=3))
    if "terms" in keys[0]:
        if "row" in keys[0]:
            rows = [key["row"] for key in keys]
            scores.append(_Step("row of table", rows, list(map(str, rows))))
        scores += [step(f"+ {name}", [key["terms"][name] for key in keys]) for name in keys[0]["terms"]]
        scores.append(step("= score", [key["added"] for key in keys]))
    largest, total = document["largest"], document["total"]
    heading = f"exp(· {'+' if largest < 0 else '-'} {abs(largest):.2f})"
    texts = [f"{key['raised']:.4f}" if key["allowed"] else HIDDEN for key in keys]
    raised = _Step(heading, [key["raised"] for key in keys], texts, WEIGHTS, f"{total:.4f}", drop=2)
    weights = [key["weight"] for key in keys]
    weight = step("/ sum = weight", weights, WEIGHTS, f"{sum(weights):.3f}")
    if "sink" in document:
        score, sink = document["sink"]["score"], document["sink"]["raised"]
        scores[-1] = scores[-1]._replace(sink=f"{score:.3f}")
        raised, weight = raised._replace(sink=f"{sink:.4f}"), weight._replace(sink=f"{sink / total:.3f}")
    if "output" not in document:
        return [*scores, raised, weight]
    values = step("|v|", [key["value_norm"] for key in keys], VALUES, drop=1)
    norm = f"|Σ| = {document['output_norm']:.3f}"
    last = 5 if "logit" in document else 0  # the logit's column stays
    brought = step("|weight v|", [key["contribution"] for key in keys], VALUES, norm, last)
    steps = [*scores, raised, weight, values, brought]
    if "logit" in document:
        heading = f"adds to the logit of {document['logit']['token']}"
        adds = [key["adds"] for key in keys]
        steps.append(_Step(heading, adds, [f"{one:+.3f}" for one in adds], total=f"{document['logit']['adds']:+.3f}"))
    return steps


def _scaling(document: ExplainDocument) -> str:
    """Describe the scaling of q·k: by the root of the head size, of a small multiple of it, or of another number."""
    size = len(document["query"]["q"])
    divided = document["scale"] ** -2
    if abs(divided - size) < ROUNDING * size:
        return f"/ √{size}"
    times = round(divided / size)
    if 1 < times <= TERMS and abs(divided - times * size) < ROUNDING * divided:
        return f"/ √({size}·{times})"
    if abs(divided - round(divided)) < ROUNDING * divided:
        return f"/ √{round(divided)}"
    return f"· {document['scale']:.4g}"


def _block(document: ExplainDocument) -> list[Part]:
    """Return a row per station of the block, and an explanation of the numbers."""
    if "block" not in document:
        return []
    signs = {"read": "  read: ", "part": "  of it: ", "added": "+ ", "stream": "= "}
    rows: list[Sequence[str | Cell] | None] = []
    for station in cast("list[dict[str, Any]]", document["block"]):
        figures = []
        for name, digits in (("length", 2), ("cosine", 3), ("share", 2)):
            others = "" if station["others"] is None else f" ({station['others'].get(name, 0):.{digits}f})"
            figures.append(f"{station[name]:.{digits}f}{others}" if name in station else "")
        rows.append([(signs[station["kind"]] if rows else "") + station["name"], *figures])
    columns = [Column("vector"), Column("length (others)"), Column("cosine with x (others)"),
               Column("added / stream (others)", drop=1)]  # fmt: skip
    return [
        TextLine(f"layer {document['layer']}, {_name(document['query'])}: from x, the layer's input, to its output"),
        Table(columns, rows),
        TextLine(BLOCK),
    ]
