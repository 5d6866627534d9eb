"""attncli align: a date as people write it -> its ISO date, and what was looked at for each character of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.files import PAGE, PICTURES, check_suffix, save_document
from attncli.cli import hints, options, output
from attncli.cli.given import refuse
from attncli.cli.texts import check_one, read_inputs

if TYPE_CHECKING:
    from attncli.align.translate import Aligner, Alignment

SAMPLE = "3 March 2021"
DOCUMENT = ".json"  # what --json prints; records in other files


def align(
    context: typer.Context,
    text: Annotated[
        str | None,
        options.argument("TEXT", "The date. Without it: a sample."),
    ] = None,
    file: options.File = None,
    attention: Annotated[
        choices.Attention,
        options.option(
            options.MODEL,
            "--attention",
            metavar="NAME",
            help="Bahdanau's additive; Luong's dot, general, concat; or the transformer's.",
        ),
    ] = "additive",
    weights: Annotated[
        Path | None,
        options.option(
            options.MODEL,
            "--weights",
            metavar="DIR",
            help="Weights made by train-align.",
            show_default="the package's",
        ),
    ] = None,
    which: Annotated[
        choices.Kind, options.choice(options.OUTPUT, choices.Kind, "--which", rare=True, help="What a picture shows: ")
    ] = "cross",
    output_path: Annotated[
        Path | None,
        options.into("Save every map as .safetensors, .npz, .json, .csv or .html; or draw a .png, .svg, .pdf."),
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Translate dates with small networks, and show the alignment.

    A date becomes YYYY-MM-DD, and the attention is an alignment: one row for each character written, one column for
    each character read. English and Chinese dates of 1950 to 2049; numbers alone are day first, or year first when
    it has four digits; a weekday is read over. For a text that is no date "none" is written; a day that there is not
    is written as it stands, 2021-02-31, and said to be none.

    \b
    Examples:
      attncli align "3 March 2021"
      attncli align --attention transformer "Wednesday, the 3rd of March 2021"
      attncli align --attention dot "二〇二一年三月三日"
      attncli align --attention transformer -o date.html "March 3rd, 2021"
      attncli align --json "03.03.2021"
      attncli align "32 March 2020"
    """
    if output_path is None or output_path.suffix.lower() not in PICTURES:
        refuse(context, "where no picture is drawn: files hold every attention", "which")
    check_which(which, attention)
    from attncli.record.files import SUFFIXES

    if output_path is not None:
        check_suffix(output_path, (*SUFFIXES, PAGE, *PICTURES), "an alignment")
    texts = read_dates(text, file)
    if output_path is not None:
        check_holds(output_path, len(texts), attention)
    from attncli.align.checkpoint import WEIGHTS
    from attncli.align.translate import load_aligner
    from attncli.cli.progress import one_by_one

    aligner = load_aligner(attention, WEIGHTS if weights is None else weights)
    alignments = list(one_by_one(aligner.translate_many(texts), len(texts)))
    for alignment in alignments:
        if alignment.doubt is not None:
            output.say(f'attncli: "{alignment.text}": {alignment.doubt}')
    from attncli.align.records import document

    if output_path is not None and output_path.suffix.lower() == DOCUMENT:
        save_document(document(aligner, alignments), (), output_path)
    elif output_path is not None:
        save(aligner, alignments, which, output_path)
    if json:
        output.json_document(document(aligner, alignments))
    elif output_path is not None:
        output.data(str(output_path))
    else:
        from attncli.render.terminal.alignment import alignment_view

        for alignment in alignments:
            output.show(*alignment_view(alignment, output.canvas()))
    if attention != "transformer":
        hints.offer(context, "with the attentions of a Transformer", "align", attention="transformer", weights=None)
    elif output_path is None:
        hints.offer(context, "its maps as a page", "align", output_path="align.html")


def kinds(attention: str) -> tuple[str, ...]:
    """The attentions of a network: of each a text's maps are a record."""
    return choices.names(choices.Kind) if attention == "transformer" else ("cross",)


def check_which(which: str, attention: str) -> None:
    """Raises RequestError for an attention that there is not."""
    there = kinds(attention)
    if which not in there:
        raise RequestError(f"--which {which}: with --attention {attention} it is {' or '.join(there)}")


def check_holds(path: Path, texts: int, attention: str) -> None:
    """Raises RequestError when a file of that suffix can't hold the maps of so many texts."""
    from attncli.record.files import check_record_count

    if path.suffix.lower() in PICTURES:
        check_one(texts, "give the one to draw as TEXT")
    check_record_count(path, texts * len(kinds(attention)))


def save(aligner: "Aligner", alignments: "list[Alignment]", which: str, path: Path) -> None:
    """Every map of every text as one record or one page; or one text's maps of one kind as a picture."""
    from attncli.align.records import records
    from attncli.record import save_records

    by_text = [records(aligner, alignment) for alignment in alignments]
    every = [record for found in by_text for record in found]
    suffix = path.suffix.lower()
    if suffix == PAGE:
        from attncli.page import page, save_page
        from attncli.page.advice import ALIGN

        save_page(page(every, advice=ALIGN), path)
    elif suffix in PICTURES:
        from attncli.report.figure.record import heatmap
        from attncli.report.figure.saving import save_figure

        [chosen] = [record for record in by_text[0] if record.kind == which]
        save_figure(heatmap(chosen), path)
    else:
        save_records(every, path)


def read_dates(text: str | None, file: str | None) -> list[str]:
    """The texts meant, as `read_inputs` has them, with a date for the sample."""
    if text is None and file is None:
        output.say(f'attncli: no text given, so this one: "{SAMPLE}"')
        text = SAMPLE
    return [one.text for one in read_inputs(text, None, file)]
