"""attncli run: what every head does with a text, in the terminal or in a file."""

from pathlib import Path
from typing import Annotated

import typer

from attncli.cli import options, output


def run(
    text: options.Text = None,
    pair: options.Pair = None,
    file: options.File = None,
    model: options.ModelName = "minilm",
    layer: options.Layer = None,
    head: options.Head = None,
    mask: options.Mask = "padding",
    pad_to: options.PadTo = None,
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
    inputs = options.read_inputs(text, pair, file)
    loaded = options.open_model(model, device, dtype)
    records = list(
        loaded.attend_many(
            [one.text for one in inputs],
            [one.pair for one in inputs],
            layers="-1" if layer is None else layer,
            heads="all" if head is None else head,
            mask=mask,
            pad_to=pad_to,
        )
    )
    from attncli.record import document

    output.json_document(document(records))
