"""attncli explain: one row of one head from beginning to end, with the numbers."""

from typing import Annotated

import typer

from attncli.base.files import PICTURES, check_suffix
from attncli.cli import options, output
from attncli.cli.texts import check_one, read_inputs


def explain(
    text: options.Text = None,
    pair: options.Pair = None,
    file: options.File = None,
    model: options.ModelName = "minilm",
    layer: options.OneLayer = "-1",
    head: options.OneHead = "0",
    query: Annotated[
        str, typer.Option("--query", metavar="TOKEN", help='Whose row: "it", "it#2" (the second one), or its number.')
    ] = "1",
    mask: options.Mask = "padding",
    pad_to: options.PadTo = None,
    output_path: options.Picture = None,
    json: options.Json = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    debug: options.Debug = False,
) -> None:
    """Explain where one row of a map comes from: every number from the token's vector to the output.

    For each key: q·k, divided by the root of the head's size, the mask, exp, the weight, and how much the token
    brings to the output: the length of weight times value, which can be small where the weight is large.

    \b
    Examples:
      attncli explain "The trophy does not fit in the suitcase because it is too big." -l 3 -H 1 --query it
      attncli explain "The cat sat on the mat." -l 0 -H 2 --query the#2 --mask causal
      attncli explain "The cat sat on the mat." -l 1 -H 8 --query 3 -o row.png
    """
    if output_path is not None:
        check_suffix(output_path, PICTURES, "a picture")
    from attncli.cli.source import open_own

    inputs = read_inputs(text, pair, file)
    check_one(len(inputs), "give the one to explain as TEXT")
    loaded = open_own(model, device, dtype, "explain")
    from attncli.analysis.steps import document
    from attncli.models.head import one_head
    from attncli.record.selection import select_one, select_token

    tokens = loaded.tokenizer.encode(*inputs[0], pad_to)
    place = select_token(query, tokens.text)
    numbers = (select_one(layer, loaded.config.layers, "layer"), select_one(head, loaded.config.heads, "head"))
    taken = one_head(loaded, tokens, *numbers, mask)
    explained = document(taken.record, taken.x, taken.value, place)
    if json:
        output.json_document(explained)
    elif output_path is None:
        from attncli.render.terminal.steps import steps_view

        output.show(*steps_view(explained))
    if output_path is not None:
        from attncli.render.figures.saving import save_figure
        from attncli.render.figures.steps import steps_figure

        save_figure(steps_figure(explained), output_path)
        output.file(output_path, json)
