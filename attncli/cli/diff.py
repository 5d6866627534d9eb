"""attncli diff: two records beside each other, and where their maps differ most."""

import warnings
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attncli.base import choices
from attncli.base.errors import Notice, RequestError
from attncli.base.files import PAGE
from attncli.base.printable import quoted
from attncli.cli import hints, options, output, saving
from attncli.cli.given import refuse
from attncli.cli.texts import check_one, read_inputs
from attncli.features import completion

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attncli.analysis.difference import Difference
    from attncli.record import AttentionRecord

ALL_CELLS = {".csv": "a row a head", PAGE: "all cells"}  # where there is none to list
WAYS = "two saved records, two texts, or one text with --models A,B, --masks A,B, --measures A,B or --without L.H"


def diff(
    context: typer.Context,
    first: Annotated[str | None, options.argument("A", "A saved record or a text.")] = None,
    second: Annotated[str | None, options.argument("B", "The other one, of the same kind.")] = None,
    models: Annotated[
        str | None,
        options.option(
            options.MODEL,
            "--models",
            metavar="A,B",
            help="Compare two models on the one text.",
            complete=completion.models,
        ),
    ] = None,
    masks: Annotated[
        str | None,
        options.option(
            options.MODEL,
            "--masks",
            metavar="A,B",
            help="Compare two masks on the one text.",
            complete=completion.several(choices.Mask),
        ),
    ] = None,
    measures: Annotated[
        str | None,
        options.option(
            options.MODEL,
            "--measures",
            metavar="A,B",
            help="Compare two measures on the one text: weight,norm.",
            complete=completion.several(choices.Measure),
        ),
    ] = None,
    pair: options.Pair = None,
    model: options.ModelName = "minilm",
    layer: options.Layer = None,
    head: options.Head = None,
    mask: options.Mask = None,
    pad_to: options.PadTo = None,
    measure: options.Measure = "weight",
    engine: options.Engine = "auto",
    without: options.Without = None,
    which: options.Which = None,
    target: options.Target = None,
    words: options.Words = False,
    top: Annotated[
        int,
        options.option(options.OUTPUT, "--top", rare=True, metavar="N", min=1, help="Show the N largest cells."),
    ] = 10,
    output_path: options.PictureOrPage = None,
    json: options.Json = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Show where two sets of maps differ: which heads, which cells.

    They are two saved records (.safetensors, .npz or .json), two texts of equal length, or one text under two models,
    two masks or two measures, or with heads silenced in B. Tokens are paired by their places. For each head: how much
    weight must move to make one map the other (the total variation distance, mean over tokens). Norms are compared as
    shares of their rows.

    \b
    Examples:
      attncli diff "The cat sat on the mat." "The dog sat on the mat."
      attncli diff --masks padding,causal "The cat sat on the mat."
      attncli diff --masks none,causal -o diff.html "The cat sat on the mat."
      attncli diff --measures weight,norm "The cat sat on the mat."
    """
    if output_path is not None:
        suffix = saving.check(output_path, "a difference", page=True)
        if suffix in ALL_CELLS and not json:
            refuse(context, f"on {suffix}, which has {ALL_CELLS[suffix]}", "top")
    both = saved_sides(context) if any(map(is_record, (first, second))) else computed_sides(context)
    if words:
        from attncli.analysis.words import merge_words

        both = merge_words(both[0]), merge_words(both[1])
    from attncli.analysis.difference import difference, document

    found = difference(*both)
    say_what_is_left_out(found, both)
    if json:
        output.json_document(document(found, top))
    elif output_path is None:
        from attncli.render.terminal.difference import difference_view

        output.show(*difference_view(found, top, output.canvas()))
    if output_path is not None:
        made = partial(document, found, top)
        saving.save(output_path, made, itemgetter("heads"), lambda: figure(found, top), lambda: page(found))
        output.file(output_path, json)
    else:
        worst = found.heads()[0]
        what = "where they differ most, as a picture"
        hints.offer(context, what, "diff", layer=worst[0], head=worst[1], output_path="diff.svg")


def figure(found: "Difference", top: int) -> "Figure":
    """A picture for -o."""
    from attncli.render.figures.difference import difference_figure

    return difference_figure(found, top)


def page(found: "Difference") -> str:
    """A page for -o."""
    from attncli.render.page.compare import difference_page

    return difference_page(found)


def is_record(name: str | None) -> bool:
    """Whether A or B is a record's file and no text: it has a record's suffix, and is there or is one word."""
    from attncli.record.files import READ

    return name is not None and Path(name).suffix.lower() in READ and (Path(name).is_file() or " " not in name)


def saved_sides(context: typer.Context) -> "tuple[AttentionRecord, AttentionRecord]":
    """Two records' files. Raises RequestError when one is none, or does not hold one text and what is chosen."""
    from attncli.cli.source import MAKING, Saved

    asked = context.params
    first, second = asked["first"], asked["second"]
    if not (is_record(first) and is_record(second)):
        raise RequestError("saved records are compared two by two: give two files")
    made = [name for name in ("models", "masks", "measures", *MAKING) if name in asked]
    refuse(context, "on saved records, which are compared as they are", *made)
    one, other = (
        Saved(Path(path), asked["layer"], asked["head"]).one(f"{path}: save the one to compare by itself")
        for path in (first, second)
    )
    return one, other


def computed_sides(context: typer.Context) -> "tuple[AttentionRecord, AttentionRecord]":
    """Two texts, or one text under two models, masks or measures. Raises RequestError for none or several of these."""
    from attncli.cli.source import Texts, opening_of, request_of
    from attncli.record import Input

    asked = context.params
    names = ("second", "models", "masks", "measures", "without")
    ways = {name: asked[name] for name in names if asked[name] is not None}
    if len(ways) != 1:
        raise RequestError(f"diff compares two things that differ in one way: it takes {WAYS}")
    for name, single in (("models", "model"), ("masks", "mask"), ("measures", "measure")):
        if name in ways:
            refuse(context, f"with --{name}, which names both", single)
    inputs = read_inputs(asked["first"], asked["pair"], None)
    check_one(len(inputs), "give the one to compare as A")
    second = Input(asked["second"], asked["pair"]) if "second" in ways else inputs[0]
    masks, measures = two(asked, "masks", "mask"), two(asked, "measures", "measure")
    opening, request = opening_of(asked), request_of(asked, "all")
    models, silenced = two(asked, "models", "model"), (None, asked["without"])
    sides = [
        Texts([text], replace(opening, name=name, without=heads), request).asking(mask=mask, measure=measure)
        for text, name, heads, mask, measure in zip((inputs[0], second), models, silenced, masks, measures, strict=True)
    ]
    engines = {name: name.open() for name in dict.fromkeys(side.opening for side in sides)}
    for side in sides:
        engines[side.opening].check(side.request)
    one, other = (next(engines[side.opening].answer(side.inputs, side.request)) for side in sides)
    return one, other


def two(asked: dict[str, Any], both: str, single: str) -> tuple[str, str]:
    """ "a,b" -> the two names; without any the single one twice. Raises RequestError when they are not two."""
    names = asked[both]
    if names is None:
        return asked[single], asked[single]
    parts = [name.strip() for name in names.split(",")]
    if len(parts) != 2 or not all(parts):
        raise RequestError(f"--{both} {quoted(names)}: two names with a comma between them are needed, as in A,B")
    return parts[0], parts[1]


def say_what_is_left_out(found: "Difference", both: "tuple[AttentionRecord, AttentionRecord]") -> None:
    """A Notice where one of them has layers or heads that the other has not."""
    from attncli.record.selection import number_list

    layers, heads = found.first.layers, found.first.heads
    if any(len(one.layers) > len(layers) or len(one.heads) > len(heads) for one in both):
        common = f"layers {number_list(layers)}, heads {number_list(heads)}"
        warnings.warn(f"compared is what both have: {common}", Notice, stacklevel=2)
