"""attncli explain: one row of one head from beginning to end, with the numbers."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attncli.cli import options, output
from attncli.files import PICTURES, check_suffix

if TYPE_CHECKING:
    from attncli.models.head import OneHead


def explain(
    text: options.Text = None,
    pair: options.Pair = None,
    file: options.File = None,
    model: options.ModelName = "minilm",
    layer: Annotated[str, typer.Option("--layer", "-l", metavar="N", help="The layer, from 0; -1 is the last.")] = "-1",
    head: Annotated[str, typer.Option("--head", "-H", metavar="N", help="The head, from 0; -1 is the last.")] = "0",
    query: Annotated[
        str, typer.Option("--query", metavar="TOKEN", help='Whose row: "it", "it#2" (the second one), or its number.')
    ] = "1",
    mask: options.Mask = "padding",
    pad_to: options.PadTo = None,
    output_path: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="PATH", help="Draw it as .png, .svg or .pdf.")
    ] = None,
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
    inputs = options.read_inputs(text, pair, file)
    options.check_one_text(len(inputs), "give the one to explain as TEXT")
    from attncli.models.model import check_mask_name

    check_mask_name(mask)
    loaded = options.open_model(model, device, dtype)
    from attncli.models.head import one_head
    from attncli.selection import select_one, select_token

    tokens = loaded.tokenizer.encode(*inputs[0], pad_to)
    place = select_token(query, tokens.text)
    numbers = (select_one(layer, loaded.config.layers, "layer"), select_one(head, loaded.config.heads, "head"))
    explained = document(one_head(loaded, tokens, *numbers, mask), place)
    if json:
        output.json_document(explained)
    elif output_path is None:
        from attncli.render import steps

        output.show(steps.steps_title(explained), steps.steps_table(explained), steps.steps_end(explained))
    if output_path is not None:
        from attncli.render.figure import save_figure
        from attncli.render.steps_figure import steps_figure

        save_figure(steps_figure(explained), output_path)
        output.words(f"attncli: saved {output_path}") if json else output.data(str(output_path))


def document(head: "OneHead", query: int) -> dict[str, Any]:
    """What --json prints: the query's row of the head, key by key."""
    from attncli.analysis.steps import row_steps

    record = head.record
    [layer], [number] = record.layers, record.heads
    steps = row_steps(head.query[query], head.key, head.value, record.mask[query], record.map(layer, number)[query])
    by_key = ("allowed", "score", "scaled", "raised", "weight", "computed", "value_norm", "contribution")
    columns = {name: getattr(steps, name).tolist() for name in by_key}
    return {
        "model": asdict(record.model),
        "layer": layer,
        "head": number,
        "mask": record.mask_name,
        "query": {
            "index": query,
            "token": record.tokens.text[query],
            "x": head.x[query].tolist(),
            "q": head.query[query].tolist(),
        },
        "keys": [
            {
                "index": key,
                "token": token,
                **{name: column[key] for name, column in columns.items()},
                "k": head.key[key].tolist(),
                "v": head.value[key].tolist(),
            }
            for key, token in enumerate(record.keys.text)
        ],
        "largest": steps.largest,
        "total": steps.total,
        "output": steps.output.tolist(),
        "output_norm": float((steps.output**2).sum() ** 0.5),
    }
