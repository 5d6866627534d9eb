"""Translate dates with small networks, and show their attention as an alignment.

A row for each character written, a column for each character read (Bahdanau et al. 2015, Luong et al. 2015, Vaswani et
al. 2017). The networks and their weights are in `attncli.align`.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.files import PAGE, PICTURES
from attncli.base.printable import printable
from attncli.base.progress import Progress, counted, silent
from attncli.base.untrusted import read_regular
from attncli.features import options
from attncli.features.feature import Feature
from attncli.features.heatmap import RecordPicture
from attncli.features.inputs import check_one, notify, read_inputs
from attncli.features.options import MODEL, OUTPUT, argument, choice, option
from attncli.record import AttentionRecord, ModelInfo, save_records
from attncli.record.record import SUFFIXES, check_record_count
from attncli.report import NextCommand, Part, Report
from attncli.text.tokens import Tokens

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from attncli.align.characters import Alphabet
    from attncli.align.translate import Aligner, Alignment
    from attncli.report.canvas import Canvas

SAMPLE = "3 March 2021"
SPACE = "␣"  # a space that is a token of its own
# The fields of an alignment in the document.
ENTRIES = ("text", "output", "date", "probability", "doubt", "characters", "emitted", "probabilities")


@dataclass(eq=False)
class Align(Feature):
    """Translate dates with small networks, and show the alignment.

    A date becomes YYYY-MM-DD, and the attention is an alignment: one row for each character written, one column for
    each character read. English and Chinese dates of 1950 to 2049; numbers alone are day first, or year first when
    it has four digits; a weekday is read over. For a text that is no date "none" is written. A day that does not exist
    is written as it stands, 2021-02-31, and a notice says so.

    \b
    Examples:
      attncli align "3 March 2021"
      attncli align --attention transformer "Wednesday, the 3rd of March 2021"
      attncli align --attention dot "二〇二一年三月三日"
      attncli align --attention transformer -o date.html "March 3rd, 2021"
      attncli align --json "03.03.2021"
      attncli align "32 March 2020"
    """

    group = "Understand"
    saves = (*SUFFIXES, PAGE, *PICTURES)
    saved_as = "an alignment"

    text: Annotated[str | None, argument("TEXT", "The date. Without it: a sample.")] = None
    file: options.File = None
    attention: Annotated[
        choices.Attention,
        option(
            MODEL, "--attention", metavar="NAME", help="Bahdanau's additive; Luong's dot, general, concat; transformer."
        ),
    ] = "additive"
    weights: Annotated[
        Path | None,
        option(MODEL, "--weights", metavar="DIR", help="Weights made by train-align.", show_default="the package's"),
    ] = None
    which: Annotated[
        choices.Kind, choice(OUTPUT, choices.Kind, "--which", rare=True, help="What a picture shows: ")
    ] = "cross"

    def reports(self, progress: Progress = silent) -> Iterator[Report]:
        """Report each text's alignment to a person, or all of them as one document or file."""
        kinds = choices.names(choices.Kind) if self.attention == "transformer" else ("cross",)
        suffix = None if self.path is None else self.path.suffix.lower()
        if suffix not in PICTURES:
            self.refuse("where no picture is drawn: files hold every attention", "which")
        if self.which not in kinds:
            raise RequestError(f"--which {self.which}: with --attention {self.attention} it is {' or '.join(kinds)}")
        if self.text is None and self.file is None:
            notify(f'no text given, so this one: "{SAMPLE}"')
        text = SAMPLE if self.text is None and self.file is None else self.text
        texts = [one.text for one in read_inputs(text, None, self.file)]
        if suffix in PICTURES:
            check_one(len(texts), "give the one to draw as TEXT")
        if self.path is not None:
            check_record_count(self.path, len(texts) * len(kinds))
        from attncli.align.checkpoint import WEIGHTS
        from attncli.align.translate import load_aligner

        aligner = load_aligner(self.attention, WEIGHTS if self.weights is None else self.weights)
        alignments = list(counted(aligner.translate(texts), len(texts), "texts", progress))
        for one in alignments:
            if one.doubt is not None:
                notify(f'"{one.text}": {one.doubt}')
        next = NextCommand("its maps as a page", "align", {"output_path": "align.html"})
        if self.attention != "transformer":
            other = {"attention": "transformer", "weights": None}
            next = NextCommand("with the attentions of a Transformer", "align", other)
        records = [records_of_alignment(aligner, one) for one in alignments]
        every = [record for of_text in records for record in of_text]
        files = {
            **{suffix: partial(save_records, every) for suffix in SUFFIXES if suffix != ".json"},
            PAGE: partial(_save_page, every),
        }
        for shown in [[one] for one in alignments] if self.shown else [alignments]:
            drawn = [record for record in every if record.kind == self.which]
            yield Report(
                [],
                [_Alignment(one) for one in shown],
                lambda: _document(aligner, alignments, records),
                picture=[RecordPicture(record) for record in drawn],
                files=files,
                next=next if shown[-1] is alignments[-1] else None,
            )


# --- records, documents and files -----------------------------------------------------------------------


def _document(
    aligner: "Aligner", alignments: "Sequence[Alignment]", records: Sequence[Sequence[AttentionRecord]]
) -> dict[str, Any]:
    """Return the document of --json: the maps of every text, and again as records, as in `run --json`."""
    about = asdict(aligner.about)
    return {
        "model": {
            **_model_of(aligner).document(),
            **{name: about[name] for name in ("attention", "seed", "steps", "sizes")},
        },
        "alignments": [
            {
                **{name: getattr(one, name) for name in ENTRIES},
                "attention": [
                    {"kind": record.kind, "layer": layer, "head": head, "weights": record.map(layer, head).tolist()}
                    for record in of_text
                    for layer in record.layers
                    for head in record.heads
                ],
            }
            for one, of_text in zip(alignments, records, strict=True)
        ],
        "records": [record.document() for of_text in records for record in of_text],
    }


def _save_page(records: Sequence[AttentionRecord], path: Path) -> None:
    from attncli.page import page, save_page
    from attncli.page.advice import ALIGN

    save_page(page(records, advice=ALIGN), path)


def records_of_alignment(aligner: "Aligner", alignment: "Alignment") -> list[AttentionRecord]:
    """Return a record per kind of attention.

    A token is a character. In the cross-attention query i is the character that came out there. In the decoder's own
    it is the one that went in: the character before, and [START] before the first.
    """
    from attncli.align.characters import SOURCE, SPECIAL, START, TARGET

    model = _model_of(aligner)
    read, written = _tokens(alignment.characters, SOURCE), _tokens(alignment.emitted, TARGET)
    fed = _tokens([SPECIAL[START], *alignment.emitted[:-1]], TARGET)
    return [
        AttentionRecord(
            weights=weights,
            layers=list(range(weights.shape[0])),
            heads=list(range(weights.shape[1])),
            tokens={"cross": written, "encoder": read, "decoder": fed}[kind],
            masks=np.tri(*weights.shape[2:]) > 0 if kind == "decoder" else np.ones(weights.shape[2:]) > 0,
            mask_name="causal" if kind == "decoder" else "padding",
            model=model,
            key_tokens=read if kind == "cross" else None,
            kind=kind,
        )
        for kind, weights in alignment.maps.items()
    ]


def _model_of(aligner: "Aligner") -> ModelInfo:
    """Describe the network like any model."""
    sizes = aligner.about.sizes
    return ModelInfo(
        name=f"align-{aligner.about.attention}",
        path=str(aligner.path),
        sha256=hashlib.sha256(read_regular(aligner.path)).hexdigest(),
        layers=sizes.get("layers", 1),
        heads=sizes.get("heads", 1),
        hidden_size=int(sizes.get("d_hidden") or sizes["d_model"]),
    )


def _tokens(names: list[str], alphabet: "Alphabet") -> Tokens:
    """Return characters, and the names of special ones, as tokens. Every character is a word of its own."""
    from attncli.align.characters import SPECIAL

    special = [name in SPECIAL for name in names]
    return Tokens(
        text=[SPACE if name == " " else name for name in names],
        ids=[SPECIAL.index(name) if name in SPECIAL else alphabet.encode(name)[0] for name in names],
        segments=[0] * len(names),
        words=[None if flag else place for place, flag in enumerate(special)],
        offsets=[(0, 0) if flag else (place, place + 1) for place, flag in enumerate(special)],
        special=special,
        padding=[False] * len(names),
    )


# --- the terminal ---------------------------------------------------------------------------------------

CELL = 2  # columns of a character and of its weights: as wide as a Chinese character
LABELS = 12  # columns left of a map: the character written, its probability


@dataclass(frozen=True)
class _Alignment(Part):
    """The output with its probability, then the mean map of the heads of the last layer."""

    alignment: "Alignment"

    def terminal(self, canvas: "Canvas") -> "list[RenderableType]":
        from rich.text import Text

        from attncli.report.terminal import scale, title

        one = self.alignment
        arrow = "→" if canvas.unicode else "->"
        output = f"{printable(one.text)} {arrow} {printable(one.output)}"
        layers, heads = one.maps["cross"].shape[:2]
        which = f"layer {layers - 1}, the mean of {heads} heads" if heads > 1 else "rows: written, columns: read"
        return [
            title([output, f"probability {one.probability:.4g}"], canvas),
            title([f"{one.attention} attention", which], canvas),
            scale(canvas),
            Text(),
            *self.map_lines(canvas),
            Text(),
        ]

    def map_lines(self, canvas: "Canvas") -> "list[Text]":
        """Return a line per character written, with a column per character read, in parts if they don't fit."""
        from rich.text import Text

        from attncli.report.canvas import to_width
        from attncli.report.terminal import cell_text

        one, weights = self.alignment, self.alignment.maps["cross"][-1].mean(axis=0)
        end = one.characters[-1]  # the last column's name reaches beyond it
        across = max(1, (canvas.width - LABELS + CELL - len(end)) // CELL)
        lines = []
        for start in range(0, len(one.characters), across):
            part = slice(start, start + across)
            names = [end if name == end else to_width(printable(name), CELL, canvas) for name in one.characters[part]]
            lines.append(Text(" " * LABELS + "".join(names), style=canvas.faint))
            for name, probability, row in zip(one.emitted, one.probabilities, weights[:, part].tolist(), strict=True):
                line = Text(f"{name:>{len(end)}} ").append(f"{probability:.3f} ", style=canvas.faint)
                for weight in row:
                    line.append(*cell_text(weight, CELL, canvas))
                lines.append(line)
        return lines


# The fields of its document (`attncli.features.document`).
FIELDS = """
### align

model | model
model.attention | str | | as in `--attention`
model.seed | int | | of the training
model.steps | int | | of the training
model.sizes | {int} | | sizes of its parts
alignments | [object] | | one per text, in order
alignments.text | str | | the input
alignments.output | str | | the output: an ISO date, or `none` for a text that is no date
alignments.date | str or null | | the output, if it is a day from 1950 to 2049
alignments.probability | float | | of the whole output
alignments.doubt | str or null | | why the output may be wrong, in words
alignments.characters | [str] | `[character]` | the input, with [END]
alignments.emitted | [str] | `[emitted]` | the output, with [END] unless it never ended
alignments.probabilities | [float] | `[emitted]` | of each character, given those before
alignments.attention | [head]
alignments.attention.kind | str | | cross, encoder or decoder
alignments.attention.weights | [[float]] | `[query][key]`
records | [record] | | the same maps: for each text the cross-attention, then for a Transformer the self-attention
    of encoder and decoder

`.csv`: a row per cell, as for `run`.
"""
