"""Translate dates with small networks, and show their attention as an alignment.

A row for each character written, a column for each character read (Bahdanau et al. 2015, Luong et al. 2015, Vaswani et
al. 2017). The networks and their weights are in `attncli.align`.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from attncli.base import choices
from attncli.base.files import PAGE, PICTURES
from attncli.base.printable import printable
from attncli.base.progress import Progress, counted, silent
from attncli.base.untrusted import read_regular
from attncli.features import options
from attncli.features.feature import Feature
from attncli.features.heatmap import RecordPicture
from attncli.features.inputs import check_one, notify, read_inputs
from attncli.features.options import MODEL, argument, option
from attncli.record import AttentionRecord, ModelInfo, save_records
from attncli.record.making import record_of
from attncli.record.record import SUFFIXES, check_record_count
from attncli.report import NextCommand, Part, Report

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from attncli.align.translate import Aligner, Alignment
    from attncli.report.canvas import Canvas

SAMPLE = "3 March 2021"
SPACE = "␣"  # a space that is a token of its own
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

    def reports(self, progress: Progress = silent) -> Iterator[Report]:
        """Report each text's alignment to a person, or all of them as one document or file."""
        texts = [one.text for one in read_inputs(self.text, None, self.file, sample=SAMPLE)]
        if self.path is not None:
            if self.path.suffix.lower() in PICTURES:
                check_one(len(texts), "give the one to draw as TEXT")
            check_record_count(self.path, len(texts) * (3 if self.attention == "transformer" else 1))
        from attncli.align.translate import load_aligner

        aligner = load_aligner(self.attention, self.weights)
        alignments = list(counted(aligner.translate(texts), len(texts), "texts", progress))
        for one in alignments:
            if one.doubt is not None:
                notify(f'"{one.text}": {one.doubt}')
        next = NextCommand("align", {"output_path": "align.html"})
        if self.attention != "transformer":
            other = {"attention": "transformer", "weights": None}
            next = NextCommand("align", other)
        records = [records_of_alignment(aligner, one) for one in alignments]
        every = [record for of_text in records for record in of_text]
        files = {suffix: partial(save_records, every) for suffix in SUFFIXES if suffix != ".json"}
        files[PAGE] = partial(_save_page, every)
        for shown in [[one] for one in alignments] if self.for_person else [alignments]:
            yield Report(
                [],
                [_Alignment(one) for one in shown],
                lambda: _document(aligner, alignments, records),
                picture=[RecordPicture(every[0])],
                files=files,
                next=next if shown[-1] is alignments[-1] else None,
            )


# --- records, documents and files -----------------------------------------------------------------------


def _document(
    aligner: "Aligner", alignments: "Sequence[Alignment]", records: Sequence[Sequence[AttentionRecord]]
) -> dict[str, Any]:
    """Return the document of --json: the maps are records, as in `run --json`."""
    about = aligner.about
    return {
        "model": _model_of(aligner).document()
        | {"attention": about.attention, "seed": about.seed, "steps": about.steps, "sizes": about.sizes},
        "alignments": [{name: getattr(one, name) for name in ENTRIES} for one in alignments],
        "records": [record.document() for of_text in records for record in of_text],
    }


def _save_page(records: Sequence[AttentionRecord], path: Path) -> None:
    from attncli.page import page, save_page
    from attncli.page.advice import ALIGN

    save_page(page(records, advice=ALIGN), path)


def records_of_alignment(aligner: "Aligner", alignment: "Alignment") -> list[AttentionRecord]:
    """Return a record per kind of attention, the cross-attention first.

    A token is a character. In the cross-attention query i is the character that came out there. In the decoder's own
    it is the one that went in: the character before, and [START] before the first.
    """
    read, written = [SPACE if name == " " else name for name in alignment.characters], alignment.emitted
    tokens = {"cross": (written, read), "encoder": (read, None), "decoder": (["[START]", *written[:-1]], None)}
    model = _model_of(aligner)
    return [
        record_of(weights, *tokens[kind], mask="causal" if kind == "decoder" else "padding", kind=kind, model=model)
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
        names = [*(to_width(printable(name), CELL, canvas) for name in one.characters[:-1]), end]
        across = max(1, (canvas.width - LABELS + CELL - len(end)) // CELL)
        lines = []
        for start in range(0, len(names), across):
            part = slice(start, start + across)
            lines.append(Text(" " * LABELS + "".join(names[part]), style=canvas.faint))
            for name, probability, row in zip(one.emitted, one.probabilities, weights[:, part].tolist(), strict=True):
                line = Text(f"{name:>{len(end)}} ").append(f"{probability:.3f} ", style=canvas.faint)
                lines.append(line.append_tokens(cell_text(weight, CELL, canvas) for weight in row))
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
records | [record] | | the maps: for each text the cross-attention, then for a Transformer the self-attention
    of encoder and decoder

`.csv`: a row per cell, as for `run`.
"""
