"""Compare what attncli computes with transformers, or with torch.

`agreement` compares layer by layer, `ways` what users see besides (`WAYS`, as data), with the two programs of `beside`,
or of `eager` for a network that transformers runs. They compute with torch and are imported when a report is made.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any

from attncli.base import choices
from attncli.base.files import DOCUMENTS
from attncli.base.printable import printable, short
from attncli.base.progress import counted
from attncli.features import options
from attncli.features.feature import Feature
from attncli.features.inputs import notify, open_tapped, read_inputs
from attncli.features.options import MODEL, option
from attncli.models.opening import Opening
from attncli.record import Input, Request
from attncli.report import Cell, Column, NextCommand, Part, Report, Table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from attncli.features.compare.agreement import Agreement
    from attncli.features.compare.beside import Peers
    from attncli.features.compare.ways import CompareWay
    from attncli.models.engine import Engine
    from attncli.models.transformers_peer import Reference
    from attncli.report.canvas import Canvas
    from attncli.text.tokens import Tokens

SHARED = 2**23  # products of numbers in a projection, from which on threads share it


@dataclass(eq=False)
class Compare(Feature):
    """Compare what attncli computes with transformers, or with torch.

    For each layer: the largest difference of weights and of hidden states (as a share of the token's largest number, or
    of 1), and the share of queries whose strongest key is the same. Then, with transformers, on at most 3 texts:
    tokens, every mask with [PAD], norms, logits of the next token, and the network for short texts. [PAD]'s own rows
    count in float64. The exit code is 1 beyond rounding, 32 x eps x layers; in half precision, errors larger than
    transformers' own. A network of transformers (GPT-2, Llama, T5) is run with attncli's attention in it and with its
    own eager attention.

    \b
    Examples:
      attncli compare
      attncli compare --mask causal --pad-to 24 --dtype float64 "The cat sat."
      attncli compare --against torch -l 0-2 "The cat sat on the mat."
      attncli compare -m bert-base --weights random "The cat sat on the mat."
    """

    group = "The program itself"
    saves = DOCUMENTS
    saved_as = "a comparison"

    text: options.Text = None
    pair: options.Pair = None
    file: options.File = None
    whole: options.Whole = False
    target: options.Target = None
    layer: options.LayerOption = None
    which: options.Which = None
    model: options.ModelName = "minilm"
    mask: options.MaskOption = None
    pad_to: options.PadTo = None
    against: Annotated[
        choices.Against,
        option(MODEL, "--against", metavar="NAME", help="transformers, or torch: each layer's attention alone."),
    ] = "transformers"
    weights: Annotated[
        choices.Weights,
        option(
            MODEL, "--weights", rare=True, metavar="NAME", help="pretrained, random, auto (its own if they are here)."
        ),
    ] = "auto"
    engine: options.EngineOption = "auto"
    device: options.DeviceOption = "auto"
    dtype: options.DtypeOption = "float32"

    def report(self) -> Report:
        inputs = read_inputs(self.text, self.pair, self.file, whole=self.whole)
        model, reference = self._open()
        # A bad request is refused before transformers is loaded, which takes seconds.
        model.check(Request(mask=self.mask, which=self.which))
        if self.target is not None:  # the decoder's output is compared together with the encoder's maps
            model.check(Request(target=self.target, which="decoder" if len(model.parts) > 1 else self.which))
        layers = model.select_layers("all" if self.layer is None else self.layer)
        from attncli.checks.machine import one_thread
        from attncli.features.compare.beside import compare
        from attncli.features.compare.ways import go_every_way

        peers, texts, ways = self._peers(model, reference, inputs, layers)
        products = max(map(len, texts), default=0) * model.info.hidden_size**2
        with one_thread() if products < SHARED else nullcontext():
            found = compare(peers, counted(texts, len(texts), "texts"))
            every = counted(go_every_way(peers, ways), len(ways), "ways")
            found = replace(found, ways=tuple(every))
        about = model.info.document() | ({} if reference is None else {"path": None, "sha256": None})
        weights = "pretrained" if reference is None else "random"
        if self.path is not None:
            notify(found.verdict)
        if not found.same and found.may_be_rounding:
            notify("--dtype float64 tells a mistake, which stays, from rounding, which goes")
        return _report(found, {"model": about, "weights": weights, **found.document()})

    def _open(self) -> "tuple[Engine, Reference | None]":
        """Open the model with its own weights; or make it with random ones, and transformers' network with the same.

        Raises RequestError as `open_tapped` does, except that with "auto" an alias needs no files.
        """
        from attncli.models.aliases import find_alias
        from attncli.models.hub import NotOnThisMachine

        why = "as asked"
        if self.weights != "random":
            try:
                return open_tapped(Opening(self.model, self.device, self.dtype, self.engine), self.which), None
            except NotOnThisMachine:
                if self.weights == "pretrained" or find_alias(self.model) is None:
                    raise
                why = "because its own are not on this machine and can't be fetched"
        from attncli.models.random import random_model

        both = random_model(self.model, self.device, self.dtype)
        notify(
            f"{self.model}'s architecture gets RANDOM WEIGHTS (seed 0), {why}: this compares the programs, and says "
            "nothing of the published model"
        )
        return both

    def _peers(
        self, model: "Engine", reference: "Reference | None", inputs: Sequence[Input], layers: Sequence[int]
    ) -> "tuple[Peers, list[Tokens], Mapping[str, CompareWay[Any]]]":
        """Return the model and the other program, the texts, and the ways to go besides the layers."""
        from attncli.features.compare import beside, eager, ways
        from attncli.models.model import Model
        from attncli.models.transformers_engine import TransformersModel
        from attncli.models.transformers_peer import load_reference

        texts = list(model.tokenize(inputs, self.pad_to))
        if isinstance(model, TransformersModel):
            self.refuse(f"on {self.model}, which transformers runs", "against", "weights")
            texts = [model.with_answer(one, self.target) for one in texts]
            return eager.EagerPeers(eager.Eager(model), texts, self.mask, layers), texts, ways.WAYS_OF_EAGER
        assert isinstance(model, Model)
        if self.against == "torch":
            return beside.TorchPeers(model, self.mask, layers), texts, {}
        if reference is None:
            reference = load_reference(model.place.path, model.device, model.dtype)
        peers = beside.OwnPeers(model, reference, inputs, texts, self.pad_to, self.mask, layers)
        return peers, texts, ways.WAYS


# --- the report -----------------------------------------------------------------------------------------


def _report(found: "Agreement", document: dict[str, Any]) -> Report:
    """Report a row a layer, a row a way, and the verdict."""
    model, against_torch = document["model"], document["against"] == "torch"
    name = f"{model['name']} {model.get('changes', '')}".strip()
    if document["weights"] == "random":
        name = f"{name}'s architecture with RANDOM WEIGHTS (seed 0)"
    other = "transformers" if document["vectors"] == "hidden states" else "transformers' own eager attention"
    other = "torch.nn.MultiheadAttention" if against_torch else other
    texts = "1 text" if document["texts"] == 1 else f"{document['texts']} texts"
    left_out = document["tokens"] - document["queries"]
    rows = f" (the rows of {left_out} [PAD] do not count: --dtype float64 has room for them)" if left_out else ""
    parts: list[Part] = [
        _Line(f"{name} beside {other}: the largest differences"),
        _Line(f"{document['dtype']}, mask {document['mask']}, {texts}, {document['tokens']} tokens{rows}"),
        _layers(document),
        *([_ways(document["ways"])] if document["ways"] else []),
        *(_Line(words) for words in (found.unseen, found.verdict) if words),
    ]
    following = None if against_torch or not found.same else NextCommand("compare", {"against": "torch"})
    return Report([], parts, lambda: document, itemgetter("layers"), holds=found.same, next=following)


@dataclass(frozen=True)
class _Line(Part):
    """A line that no pipe folds, so that scripts find it."""

    text: str

    def terminal(self, canvas: "Canvas") -> "list[RenderableType]":
        from rich.text import Text

        return [Text(printable(self.text))]


def _layers(document: dict[str, Any]) -> Table:
    """Return a row a layer, with errors in half precision. What is past its tolerance is marked."""
    of_hidden = document["vectors"] == "hidden states"
    vectors = "hidden states" if of_hidden else "attention output"
    half = any(layer["rounding"] for layer in document["layers"])
    errors = ["weights' errors", f"{vectors}' errors", "scores' scale"] if half else []
    rows: list[list[str | Cell]] = []
    if of_hidden:
        embeddings = _marked(document["embeddings"], document["embeddings_allowed"])
        rows.append(["embeddings", "", embeddings, *[""] * (1 + len(errors))])
    for layer in document["layers"]:
        same = int(layer["agreement"] * 1000) / 10  # rounded down: only all of it is 100%
        cells: list[str | Cell] = [""] * len(errors)
        if rounding := layer["rounding"]:
            cells[:2] = [_marked(rounding[name], rounding["allowed"], "{:.2f}x") for name in ("weights", "hidden")]
            cells[2] = _marked(rounding["scale"], rounding["scale_allowed"], "{:+.1%}")
        rows.append(
            [
                str(layer["layer"]),
                _marked(layer["weights"], layer["weights_allowed"]),
                _marked(layer["hidden"], layer["hidden_allowed"]),
                f"{same:.1f}%" if layer["agreement"] < 1 else "100%",
                *cells,
            ]
        )
    columns = [Column("layer"), Column("weights"), Column(vectors), Column("same strongest key", leaves=1)]
    return Table([*columns, *map(Column, errors)], rows)


def _ways(ways: Sequence[dict[str, Any]]) -> Table:
    """Return a row for each way in which numbers are made. What is past its tolerance is marked."""
    rows: list[list[str | Cell]] = []
    for way in ways:
        skipped = way["same"] and way["difference"] is None
        found = Cell("not compared") if skipped else _marked(way["difference"], way["allowed"])
        about = f"{way['of']}: {way['note']}" if way["note"] else way["of"]
        rows.append([way["way"], about, found, short(way["allowed"]) if way["allowed"] else "none"])
    columns = [Column("way"), Column("what", "name", leaves=1), Column("difference"), Column("allowed", leaves=2)]
    return Table(columns, rows)


def _marked(number: float | None, allowed: float | None, form: str = "{:.1e}") -> Cell:
    """Return a number, marked where it is past what is allowed; null stands for NaN, and for no limit."""
    if number is None:
        return Cell("NaN", "wrong")
    text = form.format(number) if number or form != "{:.1e}" else "0"
    return Cell(text, "" if allowed is None or abs(number) <= allowed else "wrong")


# The fields of its document (`attncli.features.document`).
FIELDS = """
### compare

model | model
weights | str | | pretrained or random
against | str | | transformers or torch
dtype | str
mask | MaskName
texts | int | | number of texts compared
tokens | int | | number of tokens in them
queries | int | | number of rows compared
tolerance | object | | what rounding explains: the largest of any layer
tolerance.weights | float | | for a weight
tolerance.hidden | float | | for an element of a hidden state, as a share of the size of the token's vector: its largest
    absolute number, or 1
vectors | str | | what is compared besides weights: hidden states; attention outputs against torch and in networks
    that transformers runs
embeddings | float or null | | largest difference before the first layer, as such a share; null if attention outputs are
    compared, or if it is NaN
embeddings_allowed | float | | what rounding explains of it
layers | [object]
layers.layer | int
layers.weights | float or null | | largest difference of a weight; null for NaN
layers.hidden | float or null | | largest difference of a hidden state or an attention output (`vectors`), as such a
    share
layers.agreement | float | share of queries | with the same strongest key
layers.weights_allowed | float | | what rounding explains of a weight in this layer
layers.hidden_allowed | float | | what it explains of an element of a hidden state
layers.rounding | object or null | | in half precision, compared with the float32 network with the same weights;
    otherwise null
layers.rounding.weights | float or null | | root mean square error of weights, divided by the other program's
layers.rounding.hidden | float or null | | the same for hidden states, as such shares
layers.rounding.allowed | float | | what chance explains of both
layers.rounding.scale | float or null | share | how much larger scores are than in float32
layers.rounding.scale_allowed | float or null | share | what rounding explains of it; null if the text is too short
ways | [object] | | the other ways to compute numbers; empty against torch
ways.way | str
ways.of | str | | a description
ways.difference | float or null | | the largest one, of vectors as a share of their size; null if there was nothing to
    compare, or for NaN
ways.allowed | float
ways.same | bool
ways.note | str | | why nothing was compared; otherwise empty
same | bool | | true if everything is within its tolerance: exit code 0

`.csv`: a row per entry of `layers`.
"""
