"""attncli heatmap: attention maps as a picture in a file."""

from pathlib import Path
from typing import Annotated

import typer

from attncli.base import choices
from attncli.cli import hints, options, output
from attncli.cli.given import given, refuse
from attncli.render.palette import WEIGHTS_NAME

COPIES = 3  # of the maps, that drawing them makes (4 layers x 12 heads x 1,024 tokens as a matrix)


def heatmap(
    context: typer.Context,
    text: options.Text = None,
    pair: options.Pair = None,
    file: options.File = None,
    saved: options.Saved = None,
    model: options.ModelName = "minilm",
    layer: options.Layer = None,
    head: options.Head = None,
    mask: options.Mask = None,
    pad_to: options.PadTo = None,
    measure: options.Measure = "weight",
    engine: options.Engine = "auto",
    without: options.Without = None,
    which: options.Which = None,
    target: options.Target = None,
    style: Annotated[
        choices.Style,
        options.choice(options.OUTPUT, choices.Style, "--style", help="Drawn as "),
    ] = "matrix",
    mean: Annotated[
        bool, options.option(options.SELECTION, "--mean", help="Draw the mean over the heads chosen.")
    ] = False,
    query: options.Query = None,
    segments: options.Segments = "all",
    no_special: options.NoSpecial = False,
    tokens: options.SomeTokens = None,
    words: options.Words = False,
    terms: options.Terms = False,
    vmax: Annotated[
        float | None,
        options.option(
            options.OUTPUT,
            "--vmax",
            rare=True,
            metavar="X",
            help="The weight of the full colour.",
            show_default="the largest drawn",
        ),
    ] = None,
    scale: Annotated[
        choices.Scale | None,
        options.choice(
            options.OUTPUT,
            choices.Scale,
            "--scale",
            rare=True,
            help="A page's scales: to each map's largest, to 1, its square root: ",
        ),
    ] = None,
    cmap: Annotated[
        str,
        options.option(
            options.OUTPUT, "--cmap", rare=True, metavar="NAME", help="A colour map of matplotlib, or violets."
        ),
    ] = WEIGHTS_NAME,
    width: Annotated[
        str | None,
        options.option(options.OUTPUT, "--width", metavar="LENGTH", help="As wide as 8cm, 80mm, 3.15in or 227pt."),
    ] = None,
    font: Annotated[
        str | None, options.option(options.OUTPUT, "--font", rare=True, metavar="NAME", help="A font of this machine.")
    ] = None,
    font_size: Annotated[
        float | None,
        options.option(
            options.OUTPUT, "--font-size", rare=True, metavar="PT", help="Points of the tokens, where they have room."
        ),
    ] = None,
    dpi: Annotated[
        int, options.option(options.OUTPUT, "--dpi", rare=True, metavar="N", min=20, help="Dots an inch.")
    ] = 150,
    title: Annotated[
        str | None,
        options.option(
            options.OUTPUT,
            "--title",
            rare=True,
            metavar="TEXT",
            help="Words above it.",
            show_default="model, layer, head, mask",
        ),
    ] = None,
    output_path: Annotated[Path, options.into(".png, .svg, .pdf, .pgf, .tex.")] = Path("attention.png"),
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Draw attention maps into a file, and print the file's name.

    Without a selection: the heads of the last layer. As a matrix, several heads are a grid with one colour
    scale; as lines, the heads of a layer share a panel. With --width it is for print: no letter is too small.

    \b
    Examples:
      attncli heatmap --head 3 -o out.png "The cat sat on the mat."
      attncli heatmap -l 0 --mean --no-special -o mean.svg "The cat sat."
      attncli heatmap --style lines -l 2 -H 3,5 --width 8cm -o it.pdf "A cat sat."
      attncli run -l all -o all.npz "A cat sat." && attncli heatmap --from all.npz
    """
    from attncli.base.files import LATEX, PICTURES, check_suffix
    from attncli.cli.long_texts import told
    from attncli.cli.source import Source
    from attncli.record.request import Grouping
    from attncli.render.figures.heatmap import heatmap as draw
    from attncli.render.figures.matrix import SIGNED
    from attncli.render.figures.options import Look, What
    from attncli.render.figures.saving import save_figure
    from attncli.render.figures.titles import left_out

    check_suffix(output_path, PICTURES, "a picture")
    if terms:
        why = "with --terms, which are of pieces and of one head's weights, drawn as matrices"
        refuse(context, why, "words", "measure", "mean", "style", "scale")
        cmap = cmap if given(context, "cmap") else SIGNED
    look = Look(style, vmax, scale, cmap, title, width, font, font_size)
    what = What(mean, not no_special, words, segments, query, terms)
    if style == "lines":
        refuse(context, "with --style lines, which are drawn in the colours of their heads", "cmap", "scale")
        if output_path.suffix.lower() != ".png":
            refuse(context, "on lines that are no dots: they are as sharp in any size", "dpi")
    if output_path.suffix.lower() in LATEX:
        refuse(context, "on a picture for LaTeX, which has no dots, and the paper's fonts", "dpi", "font")
    if saved is None:
        otherwise = "give the one to draw as TEXT, or its line (sed -n 1p FILE | attncli heatmap -f -)"
    else:
        otherwise = "save the one to draw by itself (attncli run -o one.safetensors TEXT)"
    if scale is not None:
        refuse(context, "with --scale, which says what has the full colour", "vmax")
    source = Source.of(context, layers="-1", grouping=Grouping(tokens, words, stretches=not terms))
    record = told(source.one(otherwise, COPIES))
    if saved is not None and layer is None:
        record = record.select(layers=[max(record.layers)])
    if len(record.heads) == 1:
        refuse(context, "on one head, which is its own mean", "mean")
    save_figure(draw(record, what, look), output_path, dpi)
    note = left_out(record, what)
    if note:
        output.say(f"attncli: {note}")
    output.data(str(output_path))
    if terms:
        record_head = {"layer": record.layers[0], "head": record.heads[0]}
        hints.offer(context, "one row of it, every number", "explain", terms=None, output_path=None, **record_head)
    elif style == "matrix":
        lines = {"style": "lines", "output_path": "lines.svg", "cmap": None, "dpi": None}
        hints.offer(context, "the same as lines", "heatmap", **lines)
    else:
        every = {"layer": None, "head": None, "mask": None, "masks": mask}
        hints.offer(context, "all heads, to move through", "view", **every)
