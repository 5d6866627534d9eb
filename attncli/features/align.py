"""Translate dates with small networks, and show their attention as an alignment.

A row for each character written, a column for each character read (Bahdanau et al. 2015, Luong et al. 2015, Vaswani et
al. 2017). The networks and their weights are in `attncli.align`.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from attncli.base import choices
from attncli.base.files import PAGE, PICTURES
from attncli.base.printable import visible
from attncli.base.progress import counted
from attncli.base.untrusted import read_regular
from attncli.features import options
from attncli.features.feature import Feature
from attncli.features.inputs import check_one, notify, read_inputs
from attncli.features.options import MODEL, argument, option
from attncli.record import AttentionRecord, ModelInfo, save_records
from attncli.record.making import record_of
from attncli.record.record import SUFFIXES
from attncli.report import NextCommand, Part, Report, TextLine
from attncli.report.records import HeadMap, RecordPicture

if TYPE_CHECKING:
    from attncli.align.checkpoint import AlignCheckpoint
    from attncli.align.translate import Alignment

SAMPLE = "3 March 2021"
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
        choices.AttentionName,
        option(
            MODEL, "--attention", metavar="NAME", help="Bahdanau's additive; Luong's dot, general, concat; transformer."
        ),
    ] = "additive"

    def report(self) -> Report:
        texts = [one.text for one in read_inputs(self.text, None, self.file, sample=SAMPLE)]
        if self.suffix in PICTURES:
            check_one(len(texts), "give the one to draw as TEXT", lines=False)
        from attncli.align.checkpoint import load
        from attncli.align.translate import translate
        from attncli.page import page, save_page

        checkpoint = load(self.attention)
        alignments = list(counted(translate(checkpoint.network, texts), len(texts), "texts"))
        for one in alignments:
            if one.doubt is not None:
                notify(f'"{one.text}": {one.doubt}')
        model = _describe_model(checkpoint)
        records = [record for one in alignments for record in records_of_alignment(one, model)]
        files = {suffix: partial(save_records, records) for suffix in SUFFIXES if suffix != ".json"}
        return Report(
            [],
            [part for one in alignments for part in _parts(one, model)],
            lambda: _document(checkpoint, model, alignments, records),
            picture=[RecordPicture(records[0])],
            files={**files, PAGE: lambda path: save_page(page(records), path)},
            next=NextCommand("align", {"output_path": "align.html"}),
        )


def _parts(alignment: "Alignment", model: ModelInfo) -> list[Part]:
    """Return the output and its probability, and the mean map of the heads of the last layer."""
    mean = alignment.maps["cross"][-1].mean(axis=0)
    [record] = records_of_alignment(replace(alignment, maps={"cross": mean}), model)
    title = [f"{alignment.text} → {alignment.output}", f"probability {alignment.probability:.4g}", model.name]
    if model.heads > 1:
        title.append(f"mean of the {model.heads} heads of layer {model.layers - 1}")
    return [TextLine(" · ".join(title), "strong"), HeadMap(record, title, 3)]


def _describe_model(checkpoint: "AlignCheckpoint") -> ModelInfo:
    """Describe the network like any model."""
    sizes = checkpoint.sizes
    return ModelInfo(
        name=f"align-{checkpoint.attention}",
        path=str(checkpoint.path),
        sha256=hashlib.sha256(read_regular(checkpoint.path)).hexdigest(),
        layers=sizes.get("layers", 1),
        heads=sizes.get("heads", 1),
        hidden_size=sizes.get("d_hidden") or sizes["d_model"],
    )


def records_of_alignment(alignment: "Alignment", model: ModelInfo) -> list[AttentionRecord]:
    """Return a record per kind of attention, the cross-attention first.

    A token is a character. In the cross-attention query i is the character that came out there. In the decoder's own
    it is the one that went in: the character before, and [START] before the first.
    """
    read, written = list(map(visible, alignment.characters)), alignment.emitted
    tokens = {"cross": (written, read), "encoder": (read, None), "decoder": (["[START]", *written[:-1]], None)}
    return [
        record_of(weights, *tokens[kind], mask="causal" if kind == "decoder" else "padding", kind=kind, model=model)
        for kind, weights in alignment.maps.items()
    ]


def _document(
    checkpoint: "AlignCheckpoint",
    model: ModelInfo,
    alignments: "Sequence[Alignment]",
    records: Sequence[AttentionRecord],
) -> dict[str, Any]:
    """Return the document of --json: the maps are records, as in `run --json`."""
    training = {name: getattr(checkpoint, name) for name in ("attention", "seed", "steps", "sizes")}
    return {
        "model": model.document() | training,
        "alignments": [{name: getattr(one, name) for name in ENTRIES} for one in alignments],
        "records": [record.document() for record in records],
    }


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
