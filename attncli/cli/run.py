"""attncli run: what every head does with a text, in the terminal or in a file."""

import shlex
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attncli.base.errors import RequestError
from attncli.base.files import check_suffix
from attncli.cli import options, output
from attncli.cli.given import refuse
from attncli.cli.hints import offer, typed

if TYPE_CHECKING:
    from rich.text import Text

    from attncli.analysis.telling import Edge, Usual
    from attncli.record import AttentionRecord


def run(
    context: typer.Context,
    text: options.PipedText = None,
    pair: options.Pair = None,
    file: options.File = None,
    saved: options.Saved = None,
    model: options.ModelName = "minilm",
    layer: options.Layer = None,
    head: options.Head = None,
    mask: options.Mask = None,
    pad_to: options.PadTo = None,
    vectors: Annotated[
        str | None,
        options.vectors("Save q and k of these heads too: 4.7, or 4.0-3, or 4.all, or all."),
    ] = None,
    tokens: options.SomeTokens = None,
    words: options.Words = False,
    terms: options.Terms = False,
    measure: options.Measure = "weight",
    engine: options.Engine = "auto",
    without: options.Without = None,
    which: options.Which = None,
    target: options.Target = None,
    top_k: Annotated[
        int, options.option(options.OUTPUT, "--top-k", rare=True, metavar="N", min=1, help="Name the N strongest keys.")
    ] = 3,
    output_path: Annotated[
        Path | None,
        options.into("Save as .safetensors, .npz, .json or .csv, in float32."),
    ] = None,
    json: options.Json = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Show what the attention heads of a model do with a text.

    Without a selection: which kind of head is where, and which heads are worth a closer look on this text. With -l:
    the heads of that layer, each as a small map. With -H: that head large, with its numbers. With --terms its scores,
    where positions add something to them: what of them is content and what is position.

    \b
    Examples:
      attncli run "The trophy does not fit in the suitcase because it is too big."
      attncli run -l 3 "The cat sat on the mat."
      attncli run -l 3 -H 1 "The cat sat on the mat."
      attncli run -o maps.safetensors "The cat sat on the mat."
      echo "A text from a pipe." | attncli run --json -l 0 -H 0
    """
    from attncli.cli.long_texts import in_stretches, told
    from attncli.cli.progress import one_by_one
    from attncli.cli.source import Source
    from attncli.record import save_records
    from attncli.record.files import LOADED, SUFFIXES, check_record_count
    from attncli.record.record import document_text
    from attncli.record.request import Grouping

    if output_path is not None:
        check_suffix(output_path, SUFFIXES, "a record")
    if vectors is not None and (output_path is None or output_path.suffix.lower() not in LOADED):
        raise RequestError(f"--vectors is for a saved record: give -o with {' or '.join(LOADED)}")
    if vectors is not None and words:
        raise RequestError("q and k are of pieces, not of words: leave --vectors or --words out")
    if terms:
        refuse(context, "with --terms, which are of pieces and of their weights", "words", "measure", "tokens")
        refuse(context, "with --terms: run --vectors L.H -o maps.safetensors saves them", "output_path")
    if json or output_path is not None:
        refuse(context, f"with {'--json' if json else '-o'}, where no keys are named", "top_k")
    if output_path is not None:
        refuse(context, "on a saved record, which has whole rows", "tokens")
    shown = not json and output_path is None
    first = layer is None and head is None and shown
    grouping = Grouping(tokens, words, stretches=shown and not terms)
    source = Source.of(context, layers="all" if first else "-1", stdin=True, grouping=grouping, predict=True)
    if output_path is not None:
        check_record_count(output_path, len(source))
    records: Iterator[AttentionRecord] = map(told, source.records(together=output_path is not None))
    if terms:
        from attncli.analysis.terms import with_terms

        records = map(with_terms, records)
    if output_path is not None:
        kept = list(one_by_one(records, len(source)))
        save_records(kept, output_path)
        output.say(f"attncli: saved {output_path}: {contents(kept)}")
        records = iter(kept)
    if json:
        output.text(document_text(records, terms))
    elif output_path is None:
        usual = cache(source.usual)
        for record in records:
            if terms:
                output.show(*predicted(record, terms_of(record)))
            elif first or (len(record.layers) > 1 and head is None):
                refuse(context, "where no keys are named: give one layer (-l)", "top_k")
                over = None if in_stretches(record) else usual(words)
                output.show(*predicted(record, look(record, over, context, len(said_of(record)))))
            else:
                output.show(*predicted(record, maps(record, top_k)))
                if len(source) == 1:
                    closer(context, record)
    else:
        saved_hint(output_path)


def predicted(record: "AttentionRecord", lines: "list[Text]") -> "list[Text]":
    """The same lines with what the model says of the text under their heading."""
    return [*lines[:1], *said_of(record), *lines[1:]]


def said_of(record: "AttentionRecord") -> "list[Text]":
    """What the model says of the text."""
    from attncli.render.captions.prediction import prediction_lines
    from attncli.render.terminal.telling import folded

    canvas = output.canvas()
    return [line for said in prediction_lines(record) for line in folded(said, canvas, canvas.strong)]


def look(record: "AttentionRecord", usual: "Usual | None", context: typer.Context, more: int) -> "list[Text]":
    """All heads as glyphs, those worth a closer look, and on a terminal what to type for it; `more` lines are taken."""
    from attncli.analysis.shares import row_shares
    from attncli.analysis.telling import Usual, edges
    from attncli.render.terminal.telling import first_look

    record = row_shares(record)
    over = Usual.with_text(record, usual)
    found = edges(record, over)
    canvas = output.canvas()
    if canvas.height is not None:
        canvas = replace(canvas, height=canvas.height - more)
    return first_look(record, found, over, canvas, next_commands(context, record, found))


def closer(context: typer.Context, record: "AttentionRecord") -> None:
    """After maps: the head of a layer that stands out most; after one head its lines."""
    if not output.hints():
        return
    from attncli.analysis.finding import by_content

    layer = record.layers[0]
    if len(record.heads) > 1:
        [head, *_] = (head for of, head in by_content(record) if of == layer)
        offer(context, "one of them, with numbers", "run", layer=layer, head=head)
    else:
        offer(context, "as lines between tokens", "heatmap", style="lines", layer=layer, head=record.heads[0])


def saved_hint(path: Path) -> None:
    """After a record was saved that can be read again."""
    from attncli.record.files import READ

    if path.suffix.lower() in READ:
        output.hint(f"look at it: attncli run --from {shlex.quote(str(path))}")


def next_commands(context: typer.Context, record: "AttentionRecord", found: "list[list[Edge]]") -> list[str]:
    """To look closer: at the head that stands out most, at all heads of its layer, at everything. None with --quiet."""
    if output.QUIET:
        return []
    from attncli.analysis.telling import telling_head

    layer, head = telling_head(record, found)
    every = [
        typed(context, "run", {"layer": layer, "head": head}),
        typed(context, "run", {"layer": layer, "head": None}),
        typed(context, "view", {"layer": None, "head": None}),
    ]
    return [lines[0] for lines in every if lines]


def maps(record: "AttentionRecord", top_k: int) -> "list[Text]":
    """One head large; else a small map a head."""
    from rich.text import Text

    from attncli.analysis.shares import row_shares
    from attncli.render.terminal.one_head import one_head
    from attncli.render.terminal.overview import overview

    record = row_shares(record)
    if len(record.layers) == 1 and len(record.heads) == 1:
        whole = output.canvas(page=output.ENDLESS)  # in a pipe all numbers come out
        lines = one_head(record, record.layers[0], record.heads[0], whole, top_k)
    else:
        lines = overview(record, output.canvas(), top_k)
    return [*lines, Text()]


def terms_of(record: "AttentionRecord") -> "list[Text]":
    """What one head's scores are the sum of."""
    from attncli.render.terminal.terms import terms_view
    from attncli.report.terminal import heading

    canvas = output.canvas(page=output.ENDLESS)
    shown = terms_view(record, canvas)
    return [heading(record, f"layer {record.layers[0]} head {record.heads[0]}", canvas), *shown]


def contents(records: "list[AttentionRecord]") -> str:
    """What a saved file holds, in words."""
    from attncli.record.selection import number_list

    first = records[0]
    texts = f"{len(records)} texts, " if len(records) > 1 else ""
    more = "" if len(first.layers) == first.model.layers else " (-l all takes every layer)"
    return f"{texts}layers {number_list(first.layers)}, heads {number_list(first.heads)}{more}"
