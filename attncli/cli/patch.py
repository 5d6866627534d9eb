"""attncli patch: what a text's output becomes when heads give what they give on another text."""

from operator import itemgetter
from typing import TYPE_CHECKING, Annotated

import typer

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.cli import hints, options, output, saving
from attncli.cli.given import refuse

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attncli.analysis.patches import Patch


def patch(
    context: typer.Context,
    first: Annotated[str | None, options.argument("A", "The text whose run is patched.")] = None,
    second: Annotated[str | None, options.argument("B", "The one whose outputs are put there; as many tokens.")] = None,
    pair: options.Pair = None,
    similar_to: options.SimilarTo = None,
    ask: options.Ask = None,
    target: options.Label = None,
    at: options.At = None,
    task: options.Task = None,
    by: Annotated[
        choices.Patched,
        options.choice(options.SELECTION, choices.Patched, "--by", help="What is patched by itself: "),
    ] = "head",
    layer: options.Layer = None,
    head: options.Head = None,
    top: Annotated[
        int, options.option(options.OUTPUT, "--top", rare=True, metavar="N", min=1, help="How many to list.")
    ] = 10,
    model: options.ModelName = "minilm",
    mask: options.Mask = None,
    which: options.Which = None,
    output_path: options.Picture = None,
    json: options.Json = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Put what heads give on text B into the run of text A.

    For each head, layer or token: how much of the way from A's output to B's it leads, beside what heads give on other
    texts. The output is that of ablate; without any question, how far the last vectors are from B's. The texts have
    equally many tokens: they differ in a word, say.

    \b
    Examples:
      attncli patch "The cat sat on the mat." "The dog sat on the mat."
      attncli patch --by token -o tokens.png "The cat sat on the mat." "The dog sat on the mat."
      attncli patch -l 3-5 --similar-to "A dog is resting." "The cat sat on the mat." "The dog sat on the mat."
    """
    if first is None or second is None:
        raise RequestError("patch needs two texts: the one that is patched, and the one whose outputs are put there")
    if output_path is not None:
        saving.check(output_path, "patches")
    if json or output_path is not None:
        refuse(context, f"with {'--json' if json else '-o'}, which has all of them", "top")
    if by == "layer":
        refuse(context, "with --by layer, which lists them all", "top")
    from attncli.cli.source import open_tapped

    opened = open_tapped(context.params)
    from attncli.effects.asking import Asking
    from attncli.effects.patching import patch as find

    asking = Asking(pair, similar_to, target, at, ask, task, mask, which)
    from attncli.cli.progress import progress

    found = find(opened, first, second, by, layer or "all", head or "all", asking, progress)
    if json:
        output.json_document(found.document())
    elif output_path is None:
        from attncli.render.terminal.patches import patch_view

        output.show(*patch_view(found, top, output.canvas()))
    if output_path is not None:
        saving.save(output_path, found.document, itemgetter("patches"), lambda: figure(found))
        output.file(output_path, json)
    hints.offer(context, "where their maps differ", "diff", first=first, second=second)


def figure(found: "Patch") -> "Figure":
    """What -o draws."""
    from attncli.render.figures.patches import patch_figure

    return patch_figure(found)
