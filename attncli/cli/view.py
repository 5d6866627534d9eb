"""attncli view: every head of a text in one HTML file that opens anywhere."""

import shlex
import shutil
import sys
import webbrowser
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.files import check_suffix
from attncli.cli import options, output
from attncli.cli.given import refuse

if TYPE_CHECKING:
    from attncli.cli.source import Source
    from attncli.record import AttentionRecord

LARGE = 20_000_000  # of a page: more is told before it is built, which takes long, and few mails take it
COPIES = 4  # of the maps, that making a page of them makes (4 layers x 12 heads x 1,024 tokens, incompressible)
SHARE = 0.1  # of a page, from which on it is told that q and k take it


def view(
    context: typer.Context,
    text: options.Text = None,
    pair: options.Pair = None,
    file: options.File = None,
    saved: options.Saved = None,
    model: options.ModelName = "minilm",
    layer: options.Layer = None,
    head: options.Head = None,
    masks: options.Masks = None,
    pad_to: options.PadTo = None,
    measure: options.Measure = "weight",
    vectors: Annotated[
        str | None,
        options.vectors(
            "Heads with q and k: 4.7, or 4.0-3, or 4.all; all; none. Without it all up to 128 tokens, then a few."
        ),
    ] = None,
    engine: options.Engine = "auto",
    without: options.Without = None,
    which: options.Which = None,
    target: options.Target = None,
    start: Annotated[choices.PageView, options.choice(options.OUTPUT, choices.PageView, "--view")] = "heads",
    query: options.Query = None,
    segments: options.Segments = "all",
    no_special: options.NoSpecial = False,
    tokens: options.SomeTokens = None,
    words: options.Words = False,
    threshold: Annotated[
        float, options.option(options.OUTPUT, "--threshold", rare=True, metavar="X", help="Draw no weight below X.")
    ] = 0.0,
    title: Annotated[
        str | None,
        options.option(
            options.OUTPUT,
            "--title",
            rare=True,
            metavar="TEXT",
            help="The page's title.",
            show_default="model and text",
        ),
    ] = None,
    open_it: Annotated[bool, options.option(options.OUTPUT, "--open", help="Open the page in the browser.")] = False,
    output_path: Annotated[Path, options.into("A .html.")] = Path("attention.html"),
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Make a page of every head, in one file that needs no network.

    All layers and heads are in it unless -l and -H keep a part. Four views: lines between tokens (heads), all
    heads as thumbnails (model), one head as a heat map (matrix), q and k element by element (neuron). It
    opens on the head that `run` names first. Several masks make a switch.

    \b
    Examples:
      attncli view -o view.html "The cat sat on the mat."
      attncli view --mask none,causal,padding --pad-to 12 "The cat sat."
      attncli view "Where did the bear hide?" --pair "In a cave." --segments AB
      attncli run -l all -o maps.npz "A cat sat." && attncli view --from maps.npz
    """
    from attncli.cli.long_texts import in_stretches, told
    from attncli.cli.progress import one_by_one
    from attncli.cli.source import Source, Texts
    from attncli.record.request import Grouping
    from attncli.render.page import Start, document

    check_suffix(output_path, document.SUFFIXES, "a page")
    opening = Start(start, query, segments, not no_special, words, threshold)
    source = Source.of(context, layers="all", grouping=Grouping(tokens, stretches=True))
    if isinstance(source, Texts):
        from attncli.models.tapped import NEURONS, under_masks

        names = [None] if masks is None else choices.several("mask", masks, choices.Mask)
        texts = under_masks(source.engine, source.inputs, source.request, names, NEURONS, COPIES)
        found: Iterable[AttentionRecord] = (record for by_mask in one_by_one(texts, len(source)) for record in by_mask)
    else:
        found = with_masks(list(source.records()), masks, context)
    records = list(map(told, found))
    if any(map(in_stretches, records)):
        refuse(context, "on stretches of a long text, which have no q and k: give --tokens", "vectors")
    say_if_large(context, records)
    opening = replace(opening, head=telling(source, records[0]))
    made = document.page(records, opening, title, advice=advice(source, records[0]))
    document.save_page(made, output_path)
    output.say(f"attncli: {output_path} takes {len(made) / 1e6:.1f} MB{cost(records, made)}")
    output.data(str(output_path))
    if open_it and not webbrowser.open(output_path.resolve().as_uri()):
        output.say(f"attncli: no browser could be opened: open {output_path} yourself")
    opener = "open" if sys.platform == "darwin" else "xdg-open"
    if not open_it and shutil.which(opener):
        output.hint(f"look at it: {opener} {shlex.quote(str(output_path))}")


def advice(source: "Source", record: "AttentionRecord") -> str:
    """What the page says of a head whose q and k it has not: how to make one that has them."""
    from attncli.cli.source import Texts
    from attncli.render.page import advice

    if not isinstance(source, Texts):
        return advice.of_saved(record)
    from attncli.models.tapped import tapped

    if record.measure != "weight":
        return advice.NORMS
    return advice.VIEW if tapped(source.engine) is not None else advice.OTHER_ENGINE


def with_masks(records: "list[AttentionRecord]", names: str | None, context: typer.Context) -> "list[AttentionRecord]":
    """Those made with one of the masks; all where none is named. Raises RequestError when that is no choice."""
    there = list(dict.fromkeys(record.mask_name for record in records))
    wanted = there if names is None else choices.several("mask", names, choices.Mask)
    if not set(wanted) <= set(there):
        raise RequestError(
            f"{context.params['saved']} was made with --mask {', '.join(there)}: --mask can't change that"
        )
    if set(wanted) == set(there):
        refuse(context, f"with --from, which takes what was saved: mask {', '.join(there)}", "masks")
    return [record for record in records if record.mask_name in wanted]


def telling(source: "Source", record: "AttentionRecord") -> tuple[int, int]:
    """The head that `run` puts first on this text: what the page opens on."""
    from attncli.analysis.shares import row_shares
    from attncli.analysis.telling import Usual, edges, telling_head
    from attncli.cli.long_texts import in_stretches

    record = row_shares(record)
    over = Usual.with_text(record, None if in_stretches(record) else source.usual())
    return telling_head(record, edges(record, over))


def say_if_large(context: typer.Context, records: "Sequence[AttentionRecord]") -> None:
    """How large the page of these records will be, and what makes it smaller, before it takes its time."""
    from attncli.render.page.size import expected_size, vectors_size

    size = expected_size(records)
    if size <= LARGE:
        return
    first, masks = records[0], len({record.mask_name for record in records})
    counts = {
        "texts": len(records) // masks,
        "layers (-l)": len(first.layers),
        "heads (-H)": len(first.heads),
        "masks (--mask)": masks,
    }
    fewer = ", ".join(name for name, count in counts.items() if count > 1)
    ways = [f"fewer {fewer}"] if fewer else []
    if context.params["saved"] is None and vectors_size(records, size) > SHARE * size:
        ways.append("without q and k (--vectors none)")
    smaller = f"; smaller with {' or '.join(ways)}" if ways else ""
    output.say(f"attncli: the page will take about {size / 1e6:.0f} MB{smaller}")


def cost(records: "Sequence[AttentionRecord]", made: str) -> str:
    """What q and k take of the page that was made of these records, in words."""
    from attncli.render.page import document

    kept = [record.vectors for record in records if record.vectors is not None]
    if not kept:
        return ", without q and k"
    heads, size = len(kept[0].heads), document.vectors_size(made)
    return f", of which q and k of {heads} head{'s' if heads > 1 else ''} {size / 1e6:.1f} MB (--vectors)"
