"""Translate dates with small networks, and show their attention as an alignment.

A row for each character written, a column for each character read (Bahdanau et al. 2015, Luong et al. 2015, Vaswani et
al. 2017). The networks and their weights are in `attncli.align`.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

from attncli.base import choices
from attncli.base.arrays import titled
from attncli.base.files import PAGE, PICTURES
from attncli.base.printable import visible
from attncli.base.progress import counted
from attncli.base.untrusted import read_regular
from attncli.features import options
from attncli.features.inputs import check_one, notify, read_inputs
from attncli.features.measure import measure
from attncli.features.options import MODEL, argument, option
from attncli.record import AttentionRecord, ModelInfo, save_records
from attncli.record.making import record_of
from attncli.record.parts import ModelDocument, RecordDocument
from attncli.record.record import SUFFIXES
from attncli.report import NextCommand, Part, Report, Result, TextLine
from attncli.report.records import HeadMap, RecordPicture

if TYPE_CHECKING:
    from attncli.align.translate import Alignment

SAMPLE = "3 March 2021"


@measure(saves=(*SUFFIXES, PAGE, *PICTURES), saved_as="an alignment")
def align(
    text: Annotated[str | None, argument("TEXT", "The date. Without it: a sample.")] = None,
    *,
    file: options.File = None,
    attention: Annotated[
        choices.AttentionName,
        option(
            MODEL, "--attention", metavar="NAME", help="Bahdanau's additive; Luong's dot, general, concat; transformer."
        ),
    ] = "additive",
) -> "AlignedDates":
    """Translate dates with small networks, and show the alignment.

    A date becomes YYYY-MM-DD, and the attention is an alignment: one row for each character written, one column for
    each character read. English and Chinese dates of 1950 to 2049; numbers alone are day first, or year first when
    it has four digits; weekdays are ignored. A text that is not a date gives "none". A day that does not exist is
    copied (2021-02-31), with a notice.

    \b
    Examples:
      attncli align "3 March 2021"
      attncli align --attention transformer "Wednesday, the 3rd of March 2021"
      attncli align --attention dot "二〇二一年三月三日"
      attncli align --attention transformer -o date.html "March 3rd, 2021"
      attncli align --json "03.03.2021"
      attncli align "32 March 2020"
    """
    texts = [one.text for one in read_inputs(text, None, file, sample=SAMPLE)]
    from attncli.align.checkpoint import load
    from attncli.align.translate import translate

    checkpoint = load(attention)
    alignments = list(counted(translate(checkpoint.network, texts), len(texts), "texts"))
    for one in alignments:
        if one.doubt is not None:
            notify(f'"{one.text}": {one.doubt}')
    sizes = checkpoint.sizes
    model = ModelInfo(
        name=f"align-{checkpoint.attention}",
        path=str(checkpoint.path),
        sha256=hashlib.sha256(read_regular(checkpoint.path)).hexdigest(),
        layers=sizes.get("layers", 1),
        heads=sizes.get("heads", 1),
        hidden_size=sizes.get("d_hidden") or sizes["d_model"],
    )
    return AlignedDates(model, checkpoint.attention, checkpoint.seed, checkpoint.steps, sizes, alignments)


class _AlignModel(ModelDocument):
    attention: Annotated[str, "as in `--attention`"]
    seed: Annotated[int, "of the training"]
    steps: Annotated[int, "of the training"]
    sizes: Annotated[dict[str, int], "sizes of its parts"]


class _AlignmentEntry(TypedDict):
    """One per text, in order."""

    text: Annotated[str, "the input"]
    output: Annotated[str, "the output: an ISO date, or `none` for a text that is not a date"]
    date: Annotated[str | None, "the output, if it is a day from 1950 to 2049"]
    probability: Annotated[float, "of the whole output"]
    doubt: Annotated[str | None, "why the output may be wrong, in words"]
    characters: Annotated[list[str], "the input, with [END]", "`[character]`"]
    emitted: Annotated[list[str], "the output, with [END] unless it never ended", "`[emitted]`"]
    probabilities: Annotated[list[float], "of each character, given those before", "`[emitted]`"]


class AlignDocument(TypedDict):
    """`.csv`: a row per cell, as for `run`."""

    model: _AlignModel
    alignments: list[_AlignmentEntry]
    records: Annotated[
        list[RecordDocument],
        "the maps: for each text the cross-attention, then for a Transformer the self-attention of encoder and decoder",
    ]


@dataclass(frozen=True, repr=False)
class AlignedDates(Result):
    """Dates that a network translated, and its attention.

    attention: the kind of attention of the network; seed, steps: of its training; sizes: of its parts. alignments: one
    per text.
    """

    model: ModelInfo
    attention: str
    seed: int
    steps: int
    sizes: dict[str, int]
    alignments: "Sequence[Alignment]"

    def __repr__(self) -> str:
        return titled(self, self.model.name, *(f"{one.text} → {one.output}" for one in self.alignments))

    @property
    def records(self) -> list[AttentionRecord]:
        """The maps: for each text a record per kind of attention, the cross-attention first."""
        return [record for one in self.alignments for record in records_of_alignment(one, self.model)]

    def document(self) -> AlignDocument:
        """Return what --json prints: the maps are records, as in `run --json`."""
        return {
            "model": {
                **self.model.document(),
                "attention": self.attention,
                "seed": self.seed,
                "steps": self.steps,
                "sizes": self.sizes,
            },
            "alignments": [
                {
                    "text": one.text,
                    "output": one.output,
                    "date": one.date,
                    "probability": one.probability,
                    "doubt": one.doubt,
                    "characters": one.characters,
                    "emitted": one.emitted,
                    "probabilities": one.probabilities,
                }
                for one in self.alignments
            ],
            "records": [record.document() for record in self.records],
        }

    def report(self) -> Report:
        """Show each output with its probability, and the mean map of the heads of the last layer."""
        model, parts = self.model, list[Part]()
        for one in self.alignments:
            mean = one.maps["cross"][-1].mean(axis=0)
            [record] = records_of_alignment(replace(one, maps={"cross": mean}), model)
            title = [f"{one.text} → {one.output}", f"probability {one.probability:.4g}", model.name]
            if model.heads > 1:
                title.append(f"mean of the {model.heads} heads of layer {model.layers - 1}")
            parts += [TextLine(" · ".join(title), "strong"), HeadMap(record, title, 3)]
        files = {suffix: partial(save_records, self.records) for suffix in SUFFIXES if suffix != ".json"}
        return Report(
            [],
            parts,
            self.document,
            picture=self._picture,
            files={**files, PAGE: self._save_page},
            records=lambda: self.records,
            next=NextCommand("align", {"output_path": "align.html"}),
        )

    def _picture(self) -> list[Part]:
        """Return the cross-attention of the one text. Raises RequestError for several."""
        check_one(len(self.alignments), "give one as TEXT", lines=False)
        return [RecordPicture(self.records[0])]

    def _save_page(self, path: Path) -> None:
        from attncli.page import page, save_page

        save_page(page(self.records), path)


def records_of_alignment(alignment: "Alignment", model: ModelInfo) -> list[AttentionRecord]:
    """Return a record per kind of attention, the cross-attention first.

    A token is a character. In the cross-attention, query i is the character written at step i. In the decoder's
    self-attention it is the input of that step: the previous character, or [START] for the first.
    """
    read, written = list(map(visible, alignment.characters)), alignment.emitted
    tokens = {"cross": (written, read), "encoder": (read, None), "decoder": (["[START]", *written[:-1]], None)}
    return [
        record_of(weights, *tokens[kind], mask="causal" if kind == "decoder" else "padding", kind=kind, model=model)
        for kind, weights in alignment.maps.items()
    ]
