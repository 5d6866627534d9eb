"""attncli find: which heads look from one token to another, or do most of something."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.files import DOCUMENTS, check_suffix, save_document
from attncli.cli import hints, options, output
from attncli.cli.given import refuse

if TYPE_CHECKING:
    from attncli.cli.source import Source

FIGURES = choices.names(choices.Figure)
BY = "weight, content (above the usual)"


def find(
    context: typer.Context,
    query: Annotated[str | None, options.argument("QUERY", "From which token or word; * is any.")] = None,
    key: Annotated[str | None, options.argument("KEY", "To which token or word; * is any.")] = None,
    text: options.Text = None,
    pair: options.Pair = None,
    file: options.File = None,
    saved: options.Saved = None,
    by: Annotated[
        choices.By,
        options.option(
            options.SELECTION,
            "--by",
            metavar="NAME",
            help=f"{BY}, or without QUERY and KEY a figure of stats.",
        ),
    ] = "weight",
    layer: options.Layer = None,
    head: options.Head = None,
    top: Annotated[
        int, options.option(options.OUTPUT, "--top", metavar="N", min=1, help="How many heads to show.")
    ] = 10,
    model: options.ModelName = "minilm",
    mask: options.Mask = None,
    pad_to: options.PadTo = None,
    measure: options.Measure = "weight",
    engine: options.Engine = "auto",
    without: options.Without = None,
    which: options.Which = None,
    target: options.Target = None,
    output_path: Annotated[Path | None, options.into("Save as .json or .csv.")] = None,
    json: options.Json = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Find the heads that look from one token to another.

    Of each its largest weight from QUERY to KEY, the mean of several texts (-f). Usual is the head's mean at that
    distance, or what other words give that key. The table says which keys are sinks.

    \b
    Examples:
      attncli find it trophy
      attncli find '*' cat "The cat sat on the mat."
      attncli find --by content "Anna gave me her book, which I liked."
      attncli find --by previous -f sample_inputs/negation.txt
    """
    if output_path is not None:
        check_suffix(output_path, DOCUMENTS, "what is found")
    if json or output_path is not None:
        refuse(context, f"with {'--json' if json else '-o'}, which has all heads", "top")
    query, key = tokens_wanted(context, query, key, by)
    from attncli.cli.source import Source

    source = Source.of(context, layers="all")
    document = figures(context, source, by) if by in FIGURES else edges(source, query, key, by)
    if json:
        output.json_document(document)
    elif output_path is None:
        from attncli.render.terminal.finding import finding_view

        output.show(*finding_view(document, top, output.canvas()))
    if output_path is not None:
        save_document(document, document["heads"], output_path)
        output.file(output_path, json)
    best = document["heads"][0]
    shown = {"layer": best["layer"], "head": best["head"], "text": context.params["text"]}
    hints.offer(context, "the first of these heads", "run", **shown)


def tokens_wanted(context: typer.Context, query: str | None, key: str | None, by: str) -> tuple[str, str]:
    """QUERY and KEY, ANY where they need not be given; a single argument is the text then, and is put there.

    Raises RequestError when they are missing, or have no effect.
    """
    from attncli.analysis.finding import ANY

    if by in FIGURES:
        refuse(context, f"with --by {by}, which is a figure of a head and of no two tokens", "key")
    elif by == "weight" and key is None:
        raise RequestError('find needs two tokens, as in: attncli find it trophy "TEXT"; or --by content or a figure')
    if key is not None:
        return query or ANY, key
    context.params["text"] = query
    return ANY, ANY


def edges(source: "Source", query: str, key: str, by: str) -> dict[str, Any]:
    """The heads by their weights from one token to another."""
    from attncli.analysis.finding import Wanted, find
    from attncli.cli.long_texts import told
    from attncli.cli.progress import one_by_one

    wanted = Wanted(query, key, content=by == "content")
    return find(map(told, one_by_one(source.records(), len(source))), wanted, source.usual).document()


def figures(context: typer.Context, source: "Source", by: str) -> dict[str, Any]:
    """The heads by a figure of statistics over the texts, or over the maps of a saved record."""
    from attncli.analysis.finding import by_figure
    from attncli.cli.source import Saved, Texts

    if isinstance(source, Texts):
        from attncli.cli.long_texts import tell_sinks
        from attncli.corpus.reducer import corpus_statistics

        why = f"with --by {by}, which is counted over texts as stats has it"
        refuse(context, why, "pair", "pad_to", "which", "target")
        asked = source.request
        tell_sinks(source.engine, None, asked.measure)
        texts = (one.text for one in source.inputs)
        counted = corpus_statistics(source.engine, texts, asked.mask, measure=asked.measure)
        return by_figure(counted, by, asked.layers, asked.heads)
    from attncli.corpus.statistics import record_statistics

    assert isinstance(source, Saved)
    counted = record_statistics(source.loaded)
    return by_figure(counted, by, source.layers or "all", source.heads or "all")
