"""attncli mask: what masks do to a text's maps, and whether their laws hold."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer

from attncli.base.files import PICTURES
from attncli.cli import hints, options, output, saving
from attncli.cli.texts import check_one, read_inputs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attncli.checks.masking import Look


def mask(
    context: typer.Context,
    text: options.Text = None,
    pair: options.Pair = None,
    file: options.File = None,
    model: options.ModelName = "minilm",
    layer: options.Layer = None,
    head: options.Head = None,
    pad_to: options.PadTo = None,
    output_path: options.Picture = None,
    json: options.Json = False,
    engine: options.Engine = "auto",
    which: options.OwnWhich = None,
    target: options.Target = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Show what masks do to the maps of a text, and check their laws.

    Maps without a mask, under the causal and under the padding mask stand beside each other; without -H those of
    the head whose weight the causal mask moves most. Without --pad-to four [PAD] are appended. Of a decoder (GPT-2),
    into which the causal mask is built, there is that map alone. Of layers with a window also how far they reach, and
    whether what lies beyond changes anything. Ends with exit code 1 when a law does not hold.

    \b
    Examples:
      attncli mask "The trophy does not fit in the suitcase because it is too big."
      attncli mask -l 2 -H 0-3 --pad-to 24 "The cat sat on the mat."
      attncli mask -l 0 -H 2 -o masks.png "The cat sat on the mat."
    """
    if output_path is not None:
        saving.check(output_path, "what masks do")
    drawn = output_path is not None and output_path.suffix.lower() in PICTURES
    from attncli.cli.progress import one_by_one
    from attncli.cli.source import open_part
    from attncli.models.opening import Opening
    from attncli.record import Request

    inputs = read_inputs(text, pair, file)
    if drawn:
        check_one(len(inputs), "give the one to draw as TEXT, or its line (sed -n 1p FILE | attncli mask -f -)")
    if target is not None:
        check_one(len(inputs), "--target is what becomes of one text")
    layers, heads = "-1" if layer is None else layer, "all" if head is None else head
    request = Request(layers, heads, pad_to=pad_to, which=which, target=target)
    loaded = open_part(Opening(model, device, dtype, engine), which)
    from attncli.checks.masking import look

    looks = [look(loaded, one, request) for one in one_by_one(inputs, len(inputs))]
    for why, names in looks[0].missing_by_reason.items():
        output.say(f"attncli: not shown, {names}: {why}")
    model_info = loaded.info_of(loaded.to_itself(which)).document()
    document = {"model": model_info, "texts": [one.document() for one in looks]}
    if json:
        output.json_document(document)
    elif output_path is None:
        for one in looks:
            output.show(*view(one, head is not None))
    if output_path is not None:
        saving.save(output_path, lambda: document, by_head, lambda: figure(looks[0], head is not None))
        output.file(output_path, json)
    if not all(one.lawful for one in looks):
        raise typer.Exit(1)
    every = {"masks": "none,causal,padding", "layer": None, "head": None}
    hints.offer(context, "all heads, with a switch for masks", "view", **every)


def by_head(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The heads of all texts, each with the number of its text."""
    return ({"text": number, **head} for number, one in enumerate(document["texts"]) for head in one["heads"])


def figure(look: "Look", heads_chosen: bool) -> "Figure":
    """What -o draws of one text."""
    from attncli.render.figures.masks import masks_figure

    return masks_figure(look.records, heads_to_draw(look, heads_chosen))


def heads_to_draw(look: "Look", chosen: bool) -> list[tuple[int, int]]:
    """Those that were chosen; else the one whose weight the causal mask moves most."""
    return look.heads if chosen else [look.most_moved]


def view(look: "Look", heads_chosen: bool) -> Iterator[Any]:
    """Maps, then what the masks moved, then how far windows reach, then the laws."""
    from attncli.render.terminal import masks

    yield from masks.mask_maps(look.records, heads_to_draw(look, heads_chosen), output.canvas())
    yield masks.effects_table(look.effects)
    yield masks.effects_legend()
    if look.windows is not None:
        yield from masks.windows_view(look.windows.layers, look.windows.tokens, look.windows.shortest)
    yield masks.laws_table(look.laws)
