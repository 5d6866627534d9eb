"""attncli run: what every head does with a text, in the terminal or in a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attncli.cli import options, output
from attncli.errors import RequestError
from attncli.files import check_suffix

if TYPE_CHECKING:
    from rich.text import Text

    from attncli.record import AttentionRecord


def run(
    text: options.Text = None,
    pair: options.Pair = None,
    file: options.File = None,
    model: options.ModelName = "minilm",
    layer: options.Layer = None,
    head: options.Head = None,
    mask: options.Mask = "padding",
    pad_to: options.PadTo = None,
    neurons: options.Neurons = None,
    words: options.Words = False,
    measure: options.Measure = "weight",
    engine: options.Engine = "attncli",
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
    from attncli.record import LOADED, SUFFIXES, document_text, save_records

    if output_path is not None:
        check_suffix(output_path, SUFFIXES, "a record")
    if neurons is not None and (output_path is None or output_path.suffix.lower() not in LOADED):
        raise RequestError(f"--neurons is for a saved record: give -o with {' or '.join(LOADED)}")
    if neurons is not None and words:
        raise RequestError("q and k are of pieces, not of words: leave --neurons or --words out")
    inputs = options.read_inputs(text, pair, file)
    records = options.attend(
        inputs,
        engine,
        model,
        device,
        dtype,
        which,
        target,
        neurons,
        measure,
        layers="-1" if layer is None else layer,
        heads="all" if head is None else head,
        mask=mask,
        pad_to=pad_to,
    )
    if words:
        from attncli.analysis.words import merge_words

        records = map(merge_words, records)
    if output_path is not None:
        kept = list(options.counted(records, len(inputs)))
        save_records(kept, output_path)
        output.words(f"attncli: saved {output_path}: {contents(kept)}")
        records = iter(kept)
    if json:
        output.text(document_text(records))
    elif output_path is None:
        for record in records:
            output.show(*view(record, head is not None, top_k))


def view(record: "AttentionRecord", heads_chosen: bool, top_k: int) -> "list[Text]":
    """One head large; whole layers, when there are several, as glyphs; else a small map a head."""
    from rich.text import Text

    from attncli.analysis.shares import row_shares
    from attncli.render import terminal

    record = row_shares(record)
    canvas = output.canvas()
    if len(record.layers) == 1 and len(record.heads) == 1:
        whole = output.canvas(page=output.ENDLESS)  # in a pipe all numbers come out
        lines = terminal.one_head(record, record.layers[0], record.heads[0], whole, top_k)
    elif len(record.layers) > 1 and not heads_chosen:
        lines = terminal.glyph_table(record, canvas)
    else:
        lines = terminal.overview(record, canvas, top_k)
    return [*lines, Text()]


def contents(records: "list[AttentionRecord]") -> str:
    """What a saved file holds, in words."""
    from attncli.record import number_list

    first = records[0]
    texts = f"{len(records)} texts, " if len(records) > 1 else ""
    more = "" if len(first.layers) == first.model.layers else " (-l all takes every layer)"
    return f"{texts}layers {number_list(first.layers)}, heads {number_list(first.heads)}{more}"
