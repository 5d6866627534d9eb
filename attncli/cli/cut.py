"""attncli cut: what an output does when a query can't see a key."""

from operator import itemgetter
from typing import TYPE_CHECKING, Annotated

import typer

from attncli.cli import hints, options, output, saving
from attncli.cli.given import refuse
from attncli.cli.texts import check_one, read_inputs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attncli.analysis.cuts import Cut, EdgeEffects


def cut(
    context: typer.Context,
    text: options.Text = None,
    pair: options.Pair = None,
    similar_to: options.SimilarTo = None,
    file: options.File = None,
    ask: options.Ask = None,
    target: options.Label = None,
    at: options.At = None,
    task: options.Task = None,
    edges: options.Edges = None,
    into: Annotated[
        str | None,
        options.option(options.SELECTION, "--into", metavar="TOKEN", help="Each edge to this key by itself."),
    ] = None,
    out_of: Annotated[
        str | None,
        options.option(options.SELECTION, "--out-of", metavar="TOKEN", help="Each edge from this query by itself."),
    ] = None,
    layer: options.Layer = None,
    head: options.Head = None,
    keep_rest: Annotated[
        bool,
        options.option(
            options.MODEL, "--keep-rest", rare=True, help="Leave the row's other weights as they are, not to sum to 1."
        ),
    ] = False,
    top: Annotated[
        int, options.option(options.OUTPUT, "--top", rare=True, metavar="N", min=1, help="How many edges to list.")
    ] = 10,
    model: options.ModelName = "minilm",
    mask: options.Mask = None,
    which: options.Which = None,
    output_path: options.PictureOrPage = None,
    json: options.Json = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Cut edges of attention, and say what the output does.

    Cut, an edge from a query to a key leaves the key unseen (attention knock-out, Geva et al. 2023). With --cut some
    at once, beside as many others; without, each by itself, and the rank correlation of weights and effects over edges
    that can matter, compared with free permutations. The output is as in ablate; with --similar-to, TEXT alone is cut.

    \b
    Examples:
      attncli cut --cut it trophy
      attncli cut --into cat --similar-to "A cat sits." "The cat sat on the mat."
      attncli cut -l 0-2 -o edges.png "The cat sat on the mat."
    """
    if output_path is not None:
        saving.check(output_path, "effects", page=not edges)
    if json or output_path is not None:
        refuse(context, f"with {'--json' if json else '-o'}, which has all edges", "top")
    if edges:
        refuse(context, "with --cut, which says which edges", "into", "out_of", "top")
    inputs = read_inputs(text, pair, file)
    check_one(len(inputs), "give the one whose edges are cut as TEXT")
    text = inputs[0].text
    from attncli.cli.source import open_tapped

    opened = open_tapped(context.params)
    from attncli.analysis.cuts import EdgeEffects
    from attncli.effects import cutting
    from attncli.effects.asking import Asking
    from attncli.record.selection import name_of

    asking = Asking(pair, similar_to, target, at, ask, task, mask, which)
    where = (layer or "all", head or "all", asking, keep_rest)
    found: Cut | EdgeEffects
    if edges:
        found = cutting.cut(opened, text, edges, *where)
    else:
        from attncli.cli.progress import progress

        found = cutting.cut_each(opened, text, (out_of or cutting.ANY, into or cutting.ANY), *where, progress)
    if json:
        output.json_document(found.document())
    elif output_path is None:
        from attncli.render.terminal.cuts import cut_view, edges_view

        canvas = output.canvas()
        output.show(*(edges_view(found, top, canvas) if isinstance(found, EdgeEffects) else cut_view(found, canvas)))
    if output_path is not None:
        rows = itemgetter("edges" if isinstance(found, EdgeEffects) else "effects")
        saving.save(output_path, found.document, rows, lambda: figure(found), lambda: page(found))
        output.file(output_path, json)
    query, key = found.first
    named = {"query": name_of(query, found.where.tokens), "key": name_of(key, found.where.keys)}
    hints.offer(context, "the heads that look along it", "find", **named)


def figure(found: "Cut | EdgeEffects") -> "Figure":
    """A picture for -o."""
    from attncli.analysis.cuts import EdgeEffects
    from attncli.render.figures.cuts import cut_figure, edges_figure

    return edges_figure(found) if isinstance(found, EdgeEffects) else cut_figure(found)


def page(found: "Cut | EdgeEffects") -> str:
    """A page for -o, of single edges."""
    from attncli.analysis.cuts import EdgeEffects
    from attncli.render.page.compare import edges_page

    assert isinstance(found, EdgeEffects)  # else `saving.check` has refused it
    return edges_page(found)
