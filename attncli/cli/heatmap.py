"""attncli heatmap: attention maps as a picture in a file."""

from pathlib import Path
from typing import Annotated

import typer

from attncli.cli import options, output
from attncli.errors import RequestError


def heatmap(
    text: options.Text = None,
    pair: options.Pair = None,
    file: options.File = None,
    saved: options.Saved = None,
    model: options.ModelName = "minilm",
    layer: options.Layer = None,
    head: options.Head = None,
    mask: options.Mask = "padding",
    pad_to: options.PadTo = None,
    mean: Annotated[bool, typer.Option("--mean", help="Draw the mean over the heads chosen.")] = False,
    no_special: Annotated[
        bool,
        typer.Option("--no-special", help="Leave out [CLS], [SEP], [PAD]; rows no longer sum to 1 then."),
    ] = False,
    vmax: Annotated[
        float | None,
        typer.Option("--vmax", metavar="X", help="The weight of the last colour.  [default: the largest drawn]"),
    ] = None,
    cmap: Annotated[str, typer.Option("--cmap", metavar="NAME", help="A colour map of matplotlib.")] = "magma_r",
    dpi: Annotated[int, typer.Option("--dpi", min=20, help="Dots an inch.")] = 150,
    title: Annotated[
        str | None,
        typer.Option("--title", metavar="TEXT", help="Words above it.  [default: model, layer, head, mask]"),
    ] = None,
    output_path: Annotated[Path, typer.Option("--output", "-o", metavar="PATH", help="A .png, .svg or .pdf.")] = Path(
        "attention.png"
    ),
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    debug: options.Debug = False,
) -> None:
    """Draw attention maps into a file, and print the file's name.

    Without a selection: the heads of the last layer, as a grid. One head is drawn large. Several layers and
    heads share one colour scale.

    \b
    Examples:
      attncli heatmap --head 3 -o out.png "The cat sat on the mat."
      attncli heatmap -l all -o all.pdf "The cat sat on the mat."
      attncli heatmap -l 0 --mean --no-special -o mean.svg "The cat sat on the mat."
      attncli run -l all -o maps.npz "The cat sat." && attncli heatmap --from maps.npz -l 2 -H 5
    """
    from attncli.files import PICTURES, check_suffix
    from attncli.render import figure

    check_suffix(output_path, PICTURES, "a picture")
    figure.colour_map(cmap)
    figure.check_vmax(vmax)
    if saved is None:
        inputs = options.read_inputs(text, pair, file)
        options.check_one_text(
            len(inputs), "give the one to draw as TEXT, or its line (sed -n 1p FILE | attncli heatmap)"
        )
        record = options.open_model(model, device, dtype).attend(
            *inputs[0],
            layers="-1" if layer is None else layer,
            heads="all" if head is None else head,
            mask=mask,
            pad_to=pad_to,
        )
    else:
        check_as_saved(text=text, pair=pair, file=file, pad_to=pad_to)
        records = options.open_saved(saved, layer, head)
        options.check_one_text(len(records), "save the one to draw by itself (attncli run -o one.safetensors TEXT)")
        record = records[0] if layer is not None else records[0].select(layers=[max(records[0].layers)])
        if mask not in ("padding", record.mask_name):
            raise RequestError(f"{saved} was made with --mask {record.mask_name}: --mask can't change that")
    drawn = figure.heatmap(record, mean=mean, special=not no_special, vmax=vmax, cmap=cmap, title=title)
    figure.save_figure(drawn, output_path, dpi)
    if no_special and figure.left_out(record):
        output.words(f"attncli: {figure.left_out(record)}")
    output.data(str(output_path))


def check_as_saved(**given: str | int | None) -> None:
    """Raises RequestError when an option asks for another text than the saved one."""
    for name, value in given.items():
        if value is not None:
            option = "TEXT" if name == "text" else "--" + name.replace("_", "-")
            raise RequestError(f"--from draws what was saved: {option} can't be given with it")
