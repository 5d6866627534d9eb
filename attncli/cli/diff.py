"""attncli diff: two records beside each other, and where their maps differ most."""

import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attncli.cli import options, output
from attncli.errors import Notice, RequestError
from attncli.files import PICTURES, check_suffix

if TYPE_CHECKING:
    from attncli.analysis.difference import Difference
    from attncli.record import AttentionRecord

WAYS = "two saved records, two texts, or one text with --models A,B, --masks A,B or --measures A,B"


def diff(
    first: Annotated[
        str | None, typer.Argument(metavar="A", help="A saved record or a text.", show_default=False)
    ] = None,
    second: Annotated[
        str | None, typer.Argument(metavar="B", help="The other one, of the same kind.", show_default=False)
    ] = None,
    models: Annotated[
        str | None, typer.Option("--models", metavar="A,B", help="Compare two models on the one text.")
    ] = None,
    masks: Annotated[
        str | None, typer.Option("--masks", metavar="A,B", help="Compare two masks on the one text.")
    ] = None,
    measures: Annotated[
        str | None,
        typer.Option("--measures", metavar="A,B", help="Compare two measures on the one text: weight,norm."),
    ] = None,
    pair: options.Pair = None,
    model: options.ModelName = "minilm",
    layer: options.Layer = None,
    head: options.Head = None,
    mask: options.Mask = "padding",
    pad_to: options.PadTo = None,
    measure: options.Measure = "weight",
    engine: options.Engine = "attncli",
    which: options.Which = None,
    target: options.Target = None,
    words: options.Words = False,
    top: Annotated[int, typer.Option("--top", metavar="N", min=1, help="How many of the largest cells.")] = 10,
    output_path: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="PATH", help="Draw it as .png, .svg or .pdf.")
    ] = None,
    json: options.Json = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    debug: options.Debug = False,
) -> None:
    """Show where two sets of maps differ: by head, and in which cells most.

    They are two saved records (.safetensors or .npz), two texts of equal length, or one text under two models,
    two masks or two measures. Tokens are paired by their places. For each head: how much weight must move to make
    one map the other (the total variation distance, mean over tokens), 0 for none and 1 for all. Norms are compared
    as shares of their rows.

    \b
    Examples:
      attncli diff "The cat sat on the mat." "The dog sat on the mat."
      attncli diff --masks padding,causal "The cat sat on the mat."
      attncli diff --masks padding,causal -l 2 -o diff.png "The cat sat on the mat."
      attncli diff --measures weight,norm "The cat sat on the mat."
      attncli run -o a.npz "A cat sat." && attncli run -o b.npz "A dog sat." && attncli diff a.npz b.npz
    """
    if output_path is not None:
        check_suffix(output_path, PICTURES, "a picture")
    files = [is_record(name) for name in (first, second)]
    if any(files):
        asked = (models, masks, measures, pair, mask, pad_to, measure, engine, which, target)
        if not all(files) or asked != (None, None, None, None, "padding", None, "weight", "attncli", None, None):
            raise RequestError(
                "saved records are compared two by two and as they are: give two files, and of the options that "
                "choose what is compared -l, -H and --words only"
            )
        both = one_saved(str(first), layer, head), one_saved(str(second), layer, head)
    else:
        if [second, models, masks, measures].count(None) != 3:
            raise RequestError(f"diff compares two things that differ in one way: it takes {WAYS}")
        inputs = options.read_inputs(first, pair, None)
        options.check_one_text(len(inputs), "give the one to compare as A")
        texts = inputs[0], inputs[0] if second is None else options.Input(second, pair)
        names, mask_names = two(models, "--models", model), two(masks, "--masks", mask)
        measure_names = two(measures, "--measures", measure)
        for name in measure_names:
            options.check_engine(engine, len(inputs), which, target, None, name)
        opened = {name: options.open_any(engine, name, device, dtype) for name in dict.fromkeys(names)}
        chosen = {"layers": "all" if layer is None else layer, "heads": "all" if head is None else head}
        first_side, second_side = (
            options.attend_by(
                opened[name], engine, [text], which, target, None, its_measure, mask=its_mask, pad_to=pad_to, **chosen
            )
            for text, name, its_mask, its_measure in zip(texts, names, mask_names, measure_names, strict=True)
        )
        both = next(first_side), next(second_side)
    if words:
        from attncli.analysis.words import merge_words

        both = merge_words(both[0]), merge_words(both[1])
    from attncli.analysis.difference import difference

    found = difference(*both)
    say_what_is_left_out(found, both)
    if json:
        output.json_document(document(found, top))
    elif output_path is None:
        from attncli.render.difference import difference_view

        output.show(*difference_view(found, top, output.canvas()))
    if output_path is not None:
        from attncli.render.difference_figure import difference_figure
        from attncli.render.figure import save_figure

        save_figure(difference_figure(found, top), output_path)
        output.words(f"attncli: saved {output_path}") if json else output.data(str(output_path))


def is_record(name: str | None) -> bool:
    """Whether A or B is a record's file and no text: it has a record's suffix, and is there or is one word."""
    from attncli.record import LOADED

    return name is not None and Path(name).suffix.lower() in LOADED and (Path(name).is_file() or " " not in name)


def one_saved(path: str, layer: str | None, head: str | None) -> "AttentionRecord":
    """The record of a file. Raises RequestError when it can't be read, or does not hold one text and what is chosen."""
    records = options.open_saved(Path(path), layer, head)
    if len(records) != 1:
        raise RequestError(f"{path} holds {len(records)} texts and diff compares one with one: save it by itself")
    return records[0]


def two(names: str | None, option: str, otherwise: str) -> tuple[str, str]:
    """ "a,b" -> the two names; without any the same one twice. Raises RequestError when they are not two."""
    if names is None:
        return otherwise, otherwise
    parts = [name.strip() for name in names.split(",")]
    if len(parts) != 2 or not all(parts):
        raise RequestError(f"{option} {names}: two names with a comma between them are needed, as in A,B")
    return parts[0], parts[1]


def say_what_is_left_out(found: "Difference", both: "tuple[AttentionRecord, AttentionRecord]") -> None:
    """A Notice where one of them has layers or heads that the other has not."""
    from attncli.record import number_list

    layers, heads = found.first.layers, found.first.heads
    if any(len(one.layers) > len(layers) or len(one.heads) > len(heads) for one in both):
        common = f"layers {number_list(layers)}, heads {number_list(heads)}"
        warnings.warn(f"compared is what both have: {common}", Notice, stacklevel=2)


def document(found: "Difference", top: int) -> dict[str, Any]:
    """What --json prints: the two, every head, and the largest cells."""
    return {
        **{name: side(record) for name, record in (("first", found.first), ("second", found.second))},
        "heads": [{"layer": layer, "head": head, "moved": found.of(layer, head)} for layer, head in found.heads()],
        "cells": [{**asdict(cell), "change": cell.change} for cell in found.largest(top)],
    }


def side(record: "AttentionRecord") -> dict[str, Any]:
    """What one of the two is of."""
    keys = {} if record.key_tokens is None else {"key_tokens": record.key_tokens.text}
    return {
        "model": asdict(record.model),
        "measure": record.measure,
        "mask": record.mask_name,
        "tokens": record.tokens.text,
        **keys,
    }
