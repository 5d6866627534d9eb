"""attncli cut: what an output does when a query can't see a key."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attncli.base.documents import DOCUMENTS, save_document
from attncli.base.files import PAGE, PICTURES, check_suffix
from attncli.cli import hints, options, output
from attncli.cli.given import refuse
from attncli.cli.texts import check_one, read_inputs

if TYPE_CHECKING:
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
    mask: options.Mask = "padding",
    output_path: options.PictureOrPage = None,
    json: options.Json = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Cut edges of attention, and say what the output does.

    Cut, an edge from a query to a key leaves the key unseen (attention knock-out, Geva et al. 2023). With --cut some
    at once, beside as many others; without, each by itself: effects beside weights, and how well these tell of those.
    The output is that of ablate; with --similar-to, edges of TEXT alone are cut.

    \b
    Examples:
      attncli cut --cut it trophy
      attncli cut --into cat --similar-to "A cat sits." "The cat sat on the mat."
      attncli cut -l 0-2 -o edges.png "The cat sat on the mat."
    """
    if output_path is not None:
        suffix = check_suffix(output_path, (*PICTURES, *([] if edges else [PAGE]), *DOCUMENTS), "effects")
    if json or output_path is not None:
        refuse(context, f"with {'--json' if json else '-o'}, which has all edges", "top")
    if edges:
        refuse(context, "with --cut, which says which edges", "into", "out_of", "top")
    inputs = read_inputs(text, pair, file)
    check_one(len(inputs), "give the one whose edges are cut as TEXT")
    text = inputs[0].text
    from attncli.cli.source import open_own

    opened = open_own(model, device, dtype, "cut")
    from attncli.analysis.cuts import EdgeEffects
    from attncli.effects import cutting
    from attncli.effects.asking import Asking
    from attncli.record.selection import name_of

    asking = Asking(pair, similar_to, target, at, ask, task, mask)
    where = (layer or "all", head or "all", asking, keep_rest)
    found: Cut | EdgeEffects
    if edges:
        found = cutting.cut(opened, text, edges, *where)
    else:
        from attncli.cli.progress import progress

        tokens = len(opened.tokenizer.encode(text, pair))
        with progress(tokens ** [into, out_of].count(None), "edges") as advance:
            found = cutting.cut_each(opened, text, (out_of or cutting.ANY, into or cutting.ANY), *where, advance)
    if json:
        output.json_document(found.document())
    elif output_path is None:
        from attncli.render.terminal.cuts import cut_view, edges_view

        canvas = output.canvas()
        output.show(*(edges_view(found, top, canvas) if isinstance(found, EdgeEffects) else cut_view(found, canvas)))
    if output_path is not None:
        save(found, suffix, output_path)
        output.file(output_path, json)
    query, key = (name_of(place, found.where.tokens) for place in found.first)
    hints.offer(context, "the heads that look along it", "find", query=query, key=key)


def save(found: "Cut | EdgeEffects", suffix: str, path: Path) -> None:
    """A page of single edges, a picture, or what --json prints."""
    from attncli.analysis.cuts import EdgeEffects

    if suffix in DOCUMENTS:
        document = found.document()
        save_document(document, document["edges" if isinstance(found, EdgeEffects) else "effects"], path)
    elif suffix == PAGE and isinstance(found, EdgeEffects):
        from attncli.render.page import save_page
        from attncli.render.page.compare import edges_page

        save_page(edges_page(found), path)
    else:
        from attncli.render.figures.cuts import cut_figure, edges_figure
        from attncli.render.figures.saving import save_figure

        save_figure(edges_figure(found) if isinstance(found, EdgeEffects) else cut_figure(found), path)
