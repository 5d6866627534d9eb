"""attncli align: a date as people write it -> its ISO date, and what was looked at for each character of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attncli.align import ATTENTIONS, check_attention
from attncli.cli import options, output
from attncli.errors import RequestError
from attncli.files import PICTURES, check_suffix

if TYPE_CHECKING:
    from rich.text import Text

    from attncli.align.translate import Aligner, Alignment
    from attncli.record import Floats
    from attncli.render.cells import Canvas

SAMPLE = "3 March 2021"
KINDS = ("cross", "encoder", "decoder")
SUFFIXES = (".safetensors", ".npz", ".json", ".csv")  # of records
PAGE = ".html"
CELL = 2  # columns of a character and of its weights: as wide as a Chinese character
LABELS = 12  # columns left of a map: what was written, its probability


def align(
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="The date. Without it: stdin if piped, else a sample.", show_default=False),
    ] = None,
    file: options.File = None,
    attention: Annotated[
        str,
        typer.Option(
            "--attention",
            metavar="|".join(ATTENTIONS),
            help="additive: Bahdanau's; dot, general, concat: Luong's; or the Transformer's.",
        ),
    ] = "additive",
    weights: Annotated[
        Path | None,
        typer.Option("--weights", metavar="DIR", help="Weights made by train-align.  [default: those of the package]"),
    ] = None,
    which: Annotated[
        str, typer.Option("--which", metavar="cross|encoder|decoder", help="Which attention a picture shows.")
    ] = "cross",
    output_path: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="Save every map as .safetensors, .npz, .json, .csv or .html; or draw a .png, .svg, .pdf.",
        ),
    ] = None,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Translate a date into YYYY-MM-DD with a small trained network, and show its attention as an alignment.

    One row for each character written, one column for each character read. English and Chinese dates of 1950 to
    2049; numbers alone are day first, or year first when it has four digits.

    \b
    Examples:
      attncli align "3 March 2021"
      attncli align --attention transformer "Wednesday, the 3rd of March 2021"
      attncli align --attention dot "二〇二一年三月三日"
      attncli align --attention transformer -o date.html "March 3rd, 2021"
      attncli align --json "03.03.2021"
    """
    check_attention(attention)
    check_which(which, attention)
    if output_path is not None:
        check_suffix(output_path, (*SUFFIXES, PAGE, *PICTURES), "an alignment")
    texts = read_dates(text, file)
    from attncli.align.checkpoint import WEIGHTS
    from attncli.align.translate import load_aligner

    aligner = load_aligner(attention, WEIGHTS if weights is None else weights)
    alignments = list(options.counted(aligner.translate_many(texts), len(texts)))
    for alignment in alignments:
        if alignment.doubt is not None:
            output.words(f'attncli: "{alignment.text}": {alignment.doubt}')
    if output_path is not None:
        save(aligner, alignments, which, output_path)
    if json:
        output.json_document(document(aligner, alignments))
    elif output_path is not None:
        output.data(str(output_path))
    else:
        for alignment in alignments:
            output.show(*view(alignment, output.canvas()))


def check_which(which: str, attention: str) -> None:
    """Raises RequestError for an attention that there is not."""
    there = KINDS if attention == "transformer" else ("cross",)
    if which not in there:
        raise RequestError(f"--which {which}: with --attention {attention} it is {' or '.join(there)}")


def save(aligner: "Aligner", alignments: "list[Alignment]", which: str, path: Path) -> None:
    """Every map of every text as one record or one page; or one text's maps of one kind as a picture."""
    from attncli.align.records import records
    from attncli.record import save_records

    by_text = [records(aligner, alignment) for alignment in alignments]
    every = [record for found in by_text for record in found]
    suffix = path.suffix.lower()
    if suffix == PAGE:
        from attncli.render.page import page, save_page

        save_page(page(every), path)
    elif suffix in PICTURES:
        from attncli.render.figure import heatmap, save_figure

        options.check_one_text(len(alignments), "give the one to draw as TEXT")
        [chosen] = [record for record in by_text[0] if record.kind == which]
        save_figure(heatmap(chosen), path)
    else:
        save_records(every, path)


def read_dates(text: str | None, file: str | None) -> list[str]:
    """The texts meant, as `options.read_inputs` has them, with a date for the sample."""
    if text is None and file is None and not options.stdin_is_piped():
        output.words(f'attncli: no text given, so this one: "{SAMPLE}"')
        text = SAMPLE
    return [one.text for one in options.read_inputs(text, None, file)]


def document(aligner: "Aligner", alignments: "list[Alignment]") -> dict[str, Any]:
    """What --json prints."""
    about = aligner.about
    return {
        "model": {"attention": about.attention, "seed": about.seed, "steps": about.steps, "sizes": about.sizes},
        "alignments": [
            {
                "text": alignment.text,
                "output": alignment.output,
                "probability": alignment.probability,
                "doubt": alignment.doubt,
                "characters": alignment.characters,
                "emitted": alignment.emitted,
                "probabilities": alignment.probabilities,
                "attention": list(maps(alignment)),
            }
            for alignment in alignments
        ],
    }


def maps(alignment: "Alignment") -> "Iterator[dict[str, Any]]":
    """Every map of an alignment by kind, layer and head."""
    for kind, weights in (("cross", alignment.cross), ("encoder", alignment.encoder), ("decoder", alignment.decoder)):
        for layer, heads in enumerate([] if weights is None else weights):
            for head, weight in enumerate(heads):
                yield {"kind": kind, "layer": layer, "head": head, "weights": weight.tolist()}


def view(alignment: "Alignment", canvas: "Canvas") -> "list[Text]":
    """The output with its probability, then the map: the last layer's, the mean over its heads."""
    from rich.text import Text

    from attncli.printable import printable
    from attncli.render.terminal import scale, title

    arrow = "→" if canvas.unicode else "->"
    found = f"{printable(alignment.text)} {arrow} {printable(alignment.output)}"
    layers, heads = alignment.cross.shape[:2]
    which = f"layer {layers - 1}, the mean of {heads} heads" if heads > 1 else "rows: written, columns: read"
    return [
        title([found, f"probability {alignment.probability:.4g}"], canvas),
        title([f"{alignment.attention} attention", which], canvas),
        scale(canvas),
        Text(),
        *alignment_map(alignment, alignment.cross[-1].mean(axis=0), canvas),
        Text(),
    ]


def alignment_map(alignment: "Alignment", weights: "Floats", canvas: "Canvas") -> "list[Text]":
    """Rows are what was written, with its probability; columns are what was read, in parts where they don't fit."""
    from rich.text import Text

    from attncli.printable import printable
    from attncli.render.terminal import cell_text, faint, fit

    end = alignment.characters[-1]  # the last column's name reaches beyond it
    across = max(1, (canvas.width - LABELS + CELL - len(end)) // CELL)
    lines = []
    for start in range(0, len(alignment.characters), across):
        part = slice(start, start + across)
        names = [end if name == end else fit(printable(name), CELL, canvas) for name in alignment.characters[part]]
        lines.append(Text(" " * LABELS + "".join(names), style=faint(canvas)))
        for character, probability, row in zip(
            alignment.emitted, alignment.probabilities, weights[:, part].tolist(), strict=True
        ):
            line = Text(f"{character:>{len(end)}} ").append(f"{probability:.3f} ", style=faint(canvas))
            for weight in row:
                line.append(*cell_text(weight, CELL, canvas))
            lines.append(line)
    return lines
