"""attncli explain: one row of one head from beginning to end, with the numbers."""

import warnings
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attncli.base.errors import Notice, RequestError
from attncli.cli import hints, options, output, saving
from attncli.cli.given import given, refuse
from attncli.cli.texts import check_one, read_inputs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 0.02  # by more than this, weights are not made of q and k alone, in whatever dtype


def explain(
    context: typer.Context,
    text: options.Text = None,
    pair: options.Pair = None,
    file: options.File = None,
    saved: options.Saved = None,
    model: options.ModelName = "minilm",
    layer: options.OneLayer = "-1",
    head: options.OneHead = "0",
    query: Annotated[
        str,
        options.option(
            options.SELECTION,
            "--query",
            metavar="TOKEN",
            help="Whose row: it, it#2 (the second one), a number.",
        ),
    ] = "1",
    which: options.Which = None,
    target: options.Target = None,
    mask: options.Mask = None,
    pad_to: options.PadTo = None,
    output_path: options.Picture = None,
    json: options.Json = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Explain one row of a map, every number from end to end.

    For each key: q·k, divided by the root of the head's size, what positions add, the mask, exp, the weight, and how
    much the token brings to the output: the length of weight times value, which can be small where the weight is
    large. Of a saved record with q and k (run --vectors) all but that. In a network that transformers runs it starts
    from q, k and v.

    \b
    Examples:
      attncli explain -l 3 -H 1 --query it
      attncli explain "The cat sat on the mat." -l 0 -H 2 --query the#2
      attncli explain "The cat sat on the mat." -l 1 -H 8 --query 3 -o row.png
    """
    if output_path is not None:
        saving.check(output_path, "what is explained")
    explained = computed(context.params) if saved is None else read(context, saved)
    if json:
        output.json_document(explained)
    elif output_path is None:
        from attncli.render.terminal.steps import steps_view

        output.show(*steps_view(explained))
    if output_path is not None:
        saving.save(output_path, lambda: explained, itemgetter("keys"), lambda: figure(explained))
        output.file(output_path, json)
    hints.offer(context, "all rows of this head", "run", layer=explained["layer"], head=explained["head"])


def figure(explained: dict[str, Any]) -> "Figure":
    """What -o draws."""
    from attncli.render.figures.steps import steps_figure

    return steps_figure(explained)


def computed(asked: dict[str, Any]) -> dict[str, Any]:
    """The row of a text, with all that the model makes of it."""
    from attncli.cli.source import open_tapped

    inputs = read_inputs(asked["text"], asked["pair"], asked["file"])
    check_one(len(inputs), "give the one to explain as TEXT")
    loaded = open_tapped(asked)
    from dataclasses import asdict

    from attncli.analysis.steps import Beside, document
    from attncli.models.head import one_head, read_text
    from attncli.record.selection import select_one, select_token

    tokens = read_text(loaded, inputs[0], asked)
    place = select_token(asked["query"], tokens)
    layer = select_one(asked["layer"], loaded.layers, "layer")
    head = select_one(asked["head"], loaded.heads, "head")
    taken = one_head(loaded, tokens, layer, head, asked["mask"])
    rotary, before = None, None
    if taken.rotary is not None:
        rotary, before = asdict(taken.rotary), (taken.unturned("query"), taken.unturned("key"))
    group = taken.group if len(taken.group) > 1 else ()
    return document(taken.record, taken.x, taken.value, place, Beside(rotary, before, taken.rows, group))


def read(context: typer.Context, path: Path) -> dict[str, Any]:
    """The row of a saved record, as far as its q and k lead: without -l and -H of the last head that has them.

    Raises RequestError where the record has no q and k of the head.
    """
    from attncli.analysis.steps import document
    from attncli.cli.source import MAKING, Saved
    from attncli.record.selection import select_one, select_token

    asked = context.params
    refuse(context, "with --from, which takes what was saved", *(name for name in MAKING if name in asked))
    record = Saved(path, None, None).one(f"{path}: save the one to explain by itself")
    layer, head = (
        select_one(asked[name], count, name) if given(context, name) else None
        for name, count in (("layer", record.model.layers), ("head", record.model.heads))
    )
    there = [] if record.vectors is None or record.measure != "weight" else sorted(record.vectors.heads)
    there = [one for one in there if layer in (None, one[0]) and head in (None, one[1])]
    if not there:
        which = f"{record.layers[-1] if layer is None else layer}.{record.heads[0] if head is None else head}"
        raise RequestError(
            f"{path} has no q and k of head {which}, which make its weights: save them with "
            f"attncli run -l all --vectors {which} -o maps.safetensors TEXT"
        )
    place = select_token(asked["query"], record.tokens)
    explained = document(record.select(*([one] for one in there[-1])), None, None, place)
    apart = max(abs(key["weight"] - key["computed"]) for key in explained["keys"])
    if apart > ROUNDING:
        warnings.warn(
            f"the weights differ by up to {apart:.3f} from what q and k lead to: something is added to the scores "
            "(a bias), or they are scaled in another way",
            Notice,
            stacklevel=2,
        )
    return explained
