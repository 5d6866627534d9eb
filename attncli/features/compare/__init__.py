"""Compare attncli's numbers with those of transformers or torch.

`agreement` compares layer by layer, `ways` the other numbers that users see (listed in `WAYS`). `beside` runs both
programs, and `eager` does so for networks of transformers. All of them import torch, so they are imported only when
needed.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, cast

from attncli.base import choices
from attncli.base.arrays import titled
from attncli.base.choices import check_optional_text
from attncli.base.files import DOCUMENTS
from attncli.base.printable import short
from attncli.base.progress import counted
from attncli.features import options
from attncli.features.inputs import notify, open_tappable, opening_of, read_inputs
from attncli.features.measure import measure, no_effect
from attncli.features.options import MODEL, option
from attncli.models.opening import Opening
from attncli.record import Request
from attncli.record.parts import ModelDocument
from attncli.report import Cell, Column, NextCommand, Part, Report, Result, Table, TextLine

if TYPE_CHECKING:
    from attncli.base.typed import Unpack
    from attncli.features.compare.agreement import Agreement
    from attncli.features.compare.beside import Peers
    from attncli.features.compare.ways import CompareWay
    from attncli.models.engine import Engine
    from attncli.models.transformers_engine import TransformersModel
    from attncli.models.transformers_peer import Reference

SHARED = 2**23  # multiplications in a projection above which several threads are faster


@measure(options.ComputeOptions, saves=DOCUMENTS, saved_as="a comparison")
def compare(
    model: options.ModelOption = None,
    text: options.Text = None,
    *,
    pair: options.Pair = None,
    file: options.File = None,
    whole: options.Whole = False,
    target: options.Target = None,
    layer: options.Layers = None,
    which: options.Which = None,
    mask: options.MaskOption = None,
    pad_to: options.PadTo = None,
    against: Annotated[
        choices.Against | None,
        option(
            MODEL,
            "--against",
            metavar="NAME",
            help="transformers, or torch: each layer's attention alone.",
            show_default="transformers",
        ),
    ] = None,
    weights: Annotated[
        choices.Weights | None,
        option(
            MODEL,
            "--weights",
            rare=True,
            metavar="NAME",
            help="pretrained, random, or auto (pretrained if they are here).",
            show_default="auto",
        ),
    ] = None,
    engine: options.EngineOption = "auto",
    **how: "Unpack[options.ComputeOptions]",
) -> "ComparedPrograms":
    """Compare attncli's numbers with those of transformers or torch.

    For each layer: the largest difference of weights and of hidden states (divided by the vector's largest element if
    that is above 1), and the share of queries whose strongest key is the same. Then, with transformers, on at most 3
    texts: tokens, every mask with [PAD], norms, logits of the next token, and the NumPy network for short texts. Rows
    of [PAD] are compared only in float64. Exit code 1 if a difference exceeds rounding (32 x eps x layers, or in half
    precision a multiple of transformers' own error). OPT, T5 and others run in transformers, with attncli's attention
    and with their own.

    \b
    Examples:
      attncli compare
      attncli compare --mask causal --pad-to 24 --dtype float64 "The cat sat."
      attncli compare --against torch -l 0-2 "The cat sat on the mat."
      attncli compare -m bert-base --weights random "The cat sat on the mat."
    """
    check_optional_text("text", text)
    check_optional_text("pair", pair)
    inputs = read_inputs(text, pair, file, whole=whole)
    opening = opening_of(model, engine=None if engine == "auto" else engine, **how)
    opened, reference = _open(opening, which, weights)
    # A bad request is refused before transformers is loaded, which takes seconds.
    opened.check(Request(mask=mask, which=which))
    if target is not None:  # the decoder's output is compared together with the encoder's maps
        opened.check(Request(target=target, which="decoder" if len(opened.parts) > 1 else which))
    layers = opened.select_layers("all" if layer is None else layer)
    from attncli.checks.machine import one_thread
    from attncli.features.compare import beside, eager
    from attncli.features.compare import ways as these
    from attncli.models.model import own_network
    from attncli.models.transformers_peer import load_reference

    texts = list(opened.tokenizer.encode_each(inputs, pad_to))
    peers: Peers
    ways: Mapping[str, CompareWay[Any]] = {}
    own = own_network(opened)
    if own is None:
        name = opening.name if isinstance(opening, Opening) else opened.info.name
        no_effect(f"on {name}, which transformers runs", against=against, weights=weights)
        texts = [opened.ready(one, target, answer=True) for one in texts]
        theirs = eager.Eager(cast("TransformersModel", opened))
        peers, ways = eager.EagerPeers(theirs, texts, mask, layers), these.WAYS_OF_EAGER
    else:
        if against == "torch":
            peers = beside.TorchPeers(own, mask, layers)
        else:
            other = reference or load_reference(own.place.path, own.device, own.dtype)
            peers, ways = beside.OwnPeers(own, other, inputs, texts, pad_to, mask, layers), these.WAYS
    products = max(map(len, texts), default=0) * opened.info.hidden_size**2
    with one_thread() if products < SHARED else nullcontext():
        found = beside.compare(peers, counted(texts, len(texts), "texts"))
        every = counted(these.compare_ways(peers, ways), len(ways), "ways")
        found = replace(found, ways=tuple(every))
    if not found.same and found.may_be_rounding:
        notify("this may be rounding: try --dtype float64, in which only mistakes remain")
    about = opened.info.document()
    if reference is not None:
        about = {**about, "path": None, "sha256": None}
    return ComparedPrograms(about, "pretrained" if reference is None else "random", found)


def _open(
    opening: "Opening | Engine", which: str | None, weights: choices.Weights | None
) -> "tuple[Engine, Reference | None]":
    """Open the model with its own weights; or make it with random ones, and transformers' network with the same.

    Raises RequestError as `open_tappable` does, except that with "auto" an alias needs no files; and for weights of a
    model that is open.
    """
    from attncli.models.aliases import find_alias
    from attncli.models.hub import NotOnThisMachine

    if not isinstance(opening, Opening):
        no_effect("on an open model", weights=weights)
        return open_tappable(opening, which), None
    why = "as requested"
    if weights != "random":
        try:
            return open_tappable(opening, which), None
        except NotOnThisMachine:
            if weights == "pretrained" or find_alias(opening.name) is None:
                raise
            why = "because its own weights are not on this machine and can't be downloaded"
    from attncli.models.random import random_model

    both = random_model(opening.name, opening.device, opening.dtype)
    notify(
        f"RANDOM WEIGHTS (seed 0) in {opening.name}'s architecture, {why}: this compares the programs, not the "
        "published model"
    )
    return both


# --- the result -----------------------------------------------------------------------------------------


class _ToleranceEntry(TypedDict):
    """The largest difference that rounding explains, over all layers."""

    weights: Annotated[float, "for a weight"]
    hidden: Annotated[
        float,
        "for an element of a hidden state, as a share of the size of the token's vector: its largest absolute number, "
        "or 1",
    ]


class _RoundingEntry(TypedDict):
    """In half precision, compared with the float32 network with the same weights; otherwise null."""

    weights: Annotated[float | None, "root mean square error of weights, divided by the other program's"]
    hidden: Annotated[float | None, "the same for hidden states"]
    allowed: Annotated[float, "the tolerance of both"]
    scale: Annotated[float | None, "how much larger scores are than in float32", "share"]
    scale_allowed: Annotated[float | None, "its tolerance; null if the text is too short", "share"]


class _LayerEntry(TypedDict):
    layer: int
    weights: Annotated[float | None, "largest difference of a weight; null for NaN"]
    hidden: Annotated[
        float | None,
        "largest difference of a hidden state or an attention output (`vectors`), as a share of the token's vector",
    ]
    agreement: Annotated[float, "with the same strongest key", "share of queries"]
    weights_allowed: Annotated[float, "tolerance for a weight in this layer"]
    hidden_allowed: Annotated[float, "tolerance for an element of a hidden state"]
    rounding: _RoundingEntry | None


class _WayEntry(TypedDict):
    """The other code paths; empty against torch."""

    way: str
    of: Annotated[str, "a description"]
    difference: Annotated[
        float | None,
        "the largest one; for vectors, as a share of their size; null if there was nothing to compare, or for NaN",
    ]
    allowed: float
    same: bool
    note: Annotated[str, "why nothing was compared; otherwise empty"]


class CompareDocument(TypedDict):
    """`.csv`: a row per entry of `layers`."""

    model: ModelDocument
    weights: Annotated[str, "pretrained or random"]
    against: Annotated[str, "transformers or torch"]
    dtype: str
    mask: Annotated[str, choices.one_of(choices.MaskName)]
    texts: Annotated[int, "number of texts compared"]
    tokens: Annotated[int, "number of tokens in them"]
    queries: Annotated[int, "number of rows compared"]
    tolerance: _ToleranceEntry
    vectors: Annotated[
        str,
        "what is compared besides weights: hidden states; attention outputs against torch and in networks that "
        "transformers runs",
    ]
    embeddings: Annotated[
        float | None,
        "largest difference before the first layer, as a share of the token's vector; null if attention outputs are "
        "compared, or if it is NaN",
    ]
    embeddings_allowed: Annotated[float, "its tolerance"]
    layers: list[_LayerEntry]
    ways: list[_WayEntry]
    same: Annotated[bool, "true if everything is within its tolerance: exit code 0"]


@dataclass(frozen=True, repr=False)
class ComparedPrograms(Result):
    """The differences between attncli's numbers and another program's.

    weights: the model's own, or random ones.
    """

    model: ModelDocument
    weights: Literal["pretrained", "random"]
    agreement: "Agreement"

    def __repr__(self) -> str:
        found = self.agreement
        return titled(self, self.model["name"], f"compared with {found.against}", found.verdict)

    def document(self) -> CompareDocument:
        """Return what --json prints. A difference that is not finite is null."""
        document = {"model": self.model, "weights": self.weights, **self.agreement.document()}
        return cast("CompareDocument", document)

    def report(self) -> Report:
        """Show a row per layer, a row per code path, and the verdict, which holds if the programs agree."""
        found, document = self.agreement, self.document()
        against_torch = found.against == "torch"
        name = f"{self.model['name']} {self.model.get('changes', '')}".strip()
        if self.weights == "random":
            name = f"{name}'s architecture with RANDOM WEIGHTS (seed 0)"
        other = "transformers" if document["vectors"] == "hidden states" else "transformers' own eager attention"
        other = "torch.nn.MultiheadAttention" if against_torch else other
        texts = "1 text" if found.texts == 1 else f"{found.texts} texts"
        left_out = found.tokens - found.queries
        rows = f" ({left_out} rows of [PAD] omitted; --dtype float64 compares them)" if left_out else ""
        parts: list[Part] = [
            TextLine(f"{name} compared with {other}: the largest differences", folds=False),
            TextLine(f"{found.dtype}, mask {found.mask}, {texts}, {found.tokens} tokens{rows}", folds=False),
            _layers(document),
            *([_ways(document["ways"])] if document["ways"] else []),
            *(TextLine(words, folds=False) for words in (found.hidden_mistakes, found.verdict) if words),
        ]
        return Report(
            [],
            parts,
            self.document,
            itemgetter("layers"),
            holds=found.same,
            verdict=found.verdict,
            next=None if against_torch or not found.same else NextCommand("compare", {"against": "torch"}),
        )


def _layers(document: CompareDocument) -> Table:
    """Return a row per layer, with errors in half precision. Numbers above their tolerance are marked."""
    of_hidden = document["vectors"] == "hidden states"
    vectors = "hidden states" if of_hidden else "attention output"
    half = any(layer["rounding"] for layer in document["layers"])
    errors = ["weights' errors", f"{vectors}' errors", "scores' scale"] if half else []
    rows: list[list[str | Cell]] = []
    if of_hidden:
        embeddings = _marked(document["embeddings"], document["embeddings_allowed"])
        rows.append(["embeddings", "", embeddings, *[""] * (1 + len(errors))])
    for layer in document["layers"]:
        same = int(layer["agreement"] * 1000) / 10  # rounded down, so that only full agreement is 100%
        cells: list[str | Cell] = [""] * len(errors)
        if rounding := layer["rounding"]:
            cells = [
                _marked(rounding["weights"], rounding["allowed"], "{:.2f}x"),
                _marked(rounding["hidden"], rounding["allowed"], "{:.2f}x"),
                _marked(rounding["scale"], rounding["scale_allowed"], "{:+.1%}"),
            ]
        rows.append(
            [
                str(layer["layer"]),
                _marked(layer["weights"], layer["weights_allowed"]),
                _marked(layer["hidden"], layer["hidden_allowed"]),
                f"{same:.1f}%" if layer["agreement"] < 1 else "100%",
                *cells,
            ]
        )
    columns = [Column("layer"), Column("weights"), Column(vectors), Column("same strongest key", drop=1)]
    return Table([*columns, *map(Column, errors)], rows)


def _ways(ways: Sequence[_WayEntry]) -> Table:
    """Return a row per code path. Numbers above their tolerance are marked."""
    rows: list[list[str | Cell]] = []
    for way in ways:
        skipped = way["same"] and way["difference"] is None
        found = Cell("not compared") if skipped else _marked(way["difference"], way["allowed"])
        about = f"{way['of']}: {way['note']}" if way["note"] else way["of"]
        rows.append([way["way"], about, found, short(way["allowed"]) if way["allowed"] else "none"])
    columns = [Column("code path"), Column("what", "name", drop=1), Column("difference"), Column("allowed", drop=2)]
    return Table(columns, rows)


def _marked(number: float | None, allowed: float | None, form: str = "{:.1e}") -> Cell:
    """Return a number, marked if it is above the tolerance. None means NaN, or no tolerance."""
    if number is None:
        return Cell("NaN", "wrong")
    text = form.format(number) if number or form != "{:.1e}" else "0"
    return Cell(text, "" if allowed is None or abs(number) <= allowed else "wrong")
