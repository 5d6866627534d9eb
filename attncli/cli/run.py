"""attncli run: what every head does with a text, in the terminal or in a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attncli.base.errors import RequestError
from attncli.base.files import check_suffix
from attncli.cli import options, output
from attncli.cli.given import refuse

if TYPE_CHECKING:
    from rich.text import Text

    from attncli.record import AttentionRecord


def run(
    context: typer.Context,
    text: options.PipedText = None,
    pair: options.Pair = None,
    file: options.File = None,
    saved: options.Saved = None,
    model: options.ModelName = "minilm",
    layer: options.Layer = None,
    head: options.Head = None,
    mask: options.Mask = "padding",
    pad_to: options.PadTo = None,
    vectors: Annotated[
        str | None,
        options.vectors('Save q and k of these heads too: "4.7", "4.0-3", "4.all", "all".'),
    ] = None,
    words: options.Words = False,
    measure: options.Measure = "weight",
    engine: options.Engine = "auto",
    which: options.Which = None,
    target: options.Target = None,
    top_k: Annotated[int, typer.Option("--top-k", min=1, help="How many of the strongest keys to name.")] = 3,
    output_path: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PATH", help="Save as .safetensors, .npz, .json or .csv."),
    ] = None,
    json: options.Json = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    debug: options.Debug = False,
) -> None:
    """Show what the attention heads of a model do with a text.

    Without a selection: the heads of the last layer, each as a small map. With -H: that head large, with its
    numbers. With -l all: one line of glyphs a layer.

    \b
    Examples:
      attncli run "The trophy does not fit in the suitcase because it is too big."
      attncli run -l 0 -H 3 "The cat sat on the mat."
      attncli run -l all "The cat sat on the mat."
      attncli run -o maps.safetensors "The cat sat on the mat."
      echo "A text from a pipe." | attncli run --json -l 0 -H 0
    """
    from attncli.cli.progress import one_by_one
    from attncli.cli.source import Source
    from attncli.record import save_records
    from attncli.record.files import LOADED, SUFFIXES
    from attncli.record.record import document_text

    if output_path is not None:
        check_suffix(output_path, SUFFIXES, "a record")
    if vectors is not None and (output_path is None or output_path.suffix.lower() not in LOADED):
        raise RequestError(f"--vectors is for a saved record: give -o with {' or '.join(LOADED)}")
    if vectors is not None and words:
        raise RequestError("q and k are of pieces, not of words: leave --vectors or --words out")
    if json or output_path is not None:
        refuse(context, f"with {'--json' if json else '-o'}, where no keys are named", "top_k")
    source = Source.of(context, layers="-1", stdin=True)
    records = source.records()
    if words:
        from attncli.analysis.words import merge_words

        records = map(merge_words, records)
    if output_path is not None:
        kept = list(one_by_one(records, len(source)))
        save_records(kept, output_path)
        output.say(f"attncli: saved {output_path}: {contents(kept)}")
        records = iter(kept)
    if json:
        output.text(document_text(records))
    elif output_path is None:
        for record in records:
            if is_table(record, head):
                refuse(context, "on a table of layers, where no keys are named", "top_k")
            output.show(*view(record, is_table(record, head), top_k))


def is_table(record: "AttentionRecord", head: str | None) -> bool:
    """Whether a record is shown as a table of glyphs: whole layers, when there are several."""
    return len(record.layers) > 1 and head is None


def view(record: "AttentionRecord", table: bool, top_k: int) -> "list[Text]":
    """One head large; a table of layers as glyphs; else a small map a head."""
    from rich.text import Text

    from attncli.analysis.shares import row_shares
    from attncli.render.terminal.glyphs import glyph_table
    from attncli.render.terminal.one_head import one_head
    from attncli.render.terminal.overview import overview

    record = row_shares(record)
    canvas = output.canvas()
    if len(record.layers) == 1 and len(record.heads) == 1:
        whole = output.canvas(page=output.ENDLESS)  # in a pipe all numbers come out
        lines = one_head(record, record.layers[0], record.heads[0], whole, top_k)
    elif table:
        lines = glyph_table(record, canvas)
    else:
        lines = overview(record, canvas, top_k)
    return [*lines, Text()]


def contents(records: "list[AttentionRecord]") -> str:
    """What a saved file holds, in words."""
    from attncli.record.selection import number_list

    first = records[0]
    texts = f"{len(records)} texts, " if len(records) > 1 else ""
    more = "" if len(first.layers) == first.model.layers else " (-l all takes every layer)"
    return f"{texts}layers {number_list(first.layers)}, heads {number_list(first.heads)}{more}"
