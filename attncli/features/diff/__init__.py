"""Compare two records: which heads differ, and in which cells most.

They are of one text under two models, masks or measures, or of two texts whose tokens are paired by their positions.
How much the maps of a head differ is in `attncli.analysis.difference`; the picture is in `picture`.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from operator import itemgetter
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from attncli.analysis.difference import Difference, counted_in_either, difference
from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.files import PAGE
from attncli.base.printable import printable, quoted, visible
from attncli.features import completion, options
from attncli.features.feature import as_function
from attncli.features.inputs import ModelFeature, SavedRecords, chosen_layers, notify, read_inputs
from attncli.features.options import MODEL, OUTPUT, argument, option
from attncli.models.opening import Opening
from attncli.record import AttentionRecord, Input, Request
from attncli.record.display import model_name, record_size
from attncli.record.record import READ
from attncli.report import Column, HeadGrid, NextCommand, Panel, Part, Report, Table, TextLine
from attncli.report.parts import signed, three_digits

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

    from attncli.report.canvas import Canvas
    from attncli.report.paper import Paper

ALL_CELLS = {".csv": "a row a head", PAGE: "all cells"}  # files without a list of the largest cells
WAYS = "two saved records, two texts, or one text with --models A,B, --masks A,B, --measures A,B or --without L.H"


@dataclass(eq=False)
class _Sides:
    """The options that name the two things to compare."""

    first: Annotated[str | None, argument("A", "A saved record or a text.")] = None
    second: Annotated[str | None, argument("B", "The other one, of the same kind.")] = None
    models: Annotated[
        str | None,
        option(
            MODEL,
            "--models",
            metavar="A,B",
            help="Compare two models on the one text.",
            complete=completion.models,
            use="record",
        ),
    ] = None
    masks: Annotated[
        str | None,
        option(
            MODEL,
            "--masks",
            metavar="A,B",
            help="Compare two masks on the one text.",
            complete=completion.several(choices.MaskName),
            use="record",
        ),
    ] = None
    measures: Annotated[
        str | None,
        option(
            MODEL,
            "--measures",
            metavar="A,B",
            help="Compare two measures on the one text: weight,norm.",
            complete=completion.several(choices.MeasureName),
            use="record",
        ),
    ] = None
    pair: options.Pair = None


@dataclass(eq=False)
class Diff(ModelFeature, _Sides):
    """Show where two sets of maps differ: which heads, which cells.

    They are two saved records, two texts of equal length, or one text under two models, two masks or two measures, or
    with heads silenced in B. Tokens are paired by their positions. For each head: how much weight must move to turn one
    map into the other (the total variation distance, mean over tokens). Norms are compared as shares of their rows.

    \b
    Examples:
      attncli diff "The cat sat on the mat." "The dog sat on the mat."
      attncli diff --masks padding,causal "The cat sat on the mat."
      attncli diff --masks none,causal -o diff.html "The cat sat on the mat."
      attncli diff --measures weight,norm "The cat sat on the mat."
    """

    group = "Corpora and comparisons"
    saved_as = "a difference"

    mask: options.MaskOption = None
    words: options.Words = False
    top: Annotated[int, option(OUTPUT, "--top", rare=True, metavar="N", min=1, help="Show the N largest cells.")] = 10

    def report(self) -> Report:
        if self.suffix in ALL_CELLS and not self.for_program:
            self.refuse(f"on {self.suffix}, which has {ALL_CELLS[self.suffix]}", "top")
        both = self._read() if any(map(_is_record, (self.first, self.second))) else self._computed()
        if self.words:
            from attncli.record.grouping import merge_words

            both = merge_words(both[0]), merge_words(both[1])
        found = difference(*both)
        if any(len(one.each_head) > len(found.first.each_head) for one in both):
            notify(f"compared is what both have: {found.first.choice}")
        return difference_report(found, self.top)

    def _read(self) -> tuple[AttentionRecord, AttentionRecord]:
        """Read two saved records. Raises RequestError where one is none, or does not hold the selection of one text."""
        first, second = self.first, self.second
        if first is None or second is None or not (_is_record(first) and _is_record(second)):
            raise RequestError("saved records are compared two by two: give two files")
        self.refuse_use("record", "on saved records, which are compared as they are")
        one, other = (
            SavedRecords(Path(path), self.layer, self.head).single_record(f"{path}: save the one to compare by itself")
            for path in (first, second)
        )
        return one, other

    def _computed(self) -> tuple[AttentionRecord, AttentionRecord]:
        """Compute the maps of two texts, or of one text in two ways. Raises RequestError for none or several ways."""
        ways = self.second, self.models, self.masks, self.measures, self.without
        if sum(way is not None for way in ways) != 1:
            raise RequestError(f"diff compares two things that differ in one way: it takes {WAYS}")
        for both, single in (("models", "model"), ("masks", "mask"), ("measures", "measure")):
            if getattr(self, both) is not None:
                self.refuse(f"with --{both}, which names both", single)
        [first] = read_inputs(self.first, self.pair, None)
        texts = first, first if self.second is None else Input(self.second, self.pair)
        models = _two_names("models", self.models) or (self.model, self.model)
        masks = _two_names("masks", self.masks) or (self.mask, self.mask)
        measures = _two_names("measures", self.measures) or (self.measure, self.measure)
        layers, heads = chosen_layers(self, "all"), self.head or "all"
        requests = [
            Request(layers, heads, mask, self.pad_to, measure, which=self.which, target=self.target)
            for mask, measure in zip(masks, measures, strict=True)
        ]
        openings = [
            Opening(model, self.device, self.dtype, self.engine, without)
            for model, without in zip(models, (None, self.without), strict=True)
        ]
        opened = {opening: opening.open_for_answers() for opening in dict.fromkeys(openings)}
        engines = [opened[opening] for opening in openings]
        for engine, request in zip(engines, requests, strict=True):
            engine.check(request)
        sides = zip(engines, texts, requests, strict=True)
        one, other = (next(engine.answer([text], request)) for engine, text, request in sides)
        return one, other


def _is_record(name: str | None) -> bool:
    """Return whether A or B is a record's file and no text: it has a record's suffix, and exists or is one word."""
    return name is not None and Path(name).suffix.lower() in READ and (Path(name).is_file() or " " not in name)


def _two_names(option: str, names: str | None) -> tuple[str, str] | None:
    """ "a,b" -> the two names; None without any. Raises RequestError where they are not two."""
    if names is None:
        return None
    parts = [name.strip() for name in names.split(",")]
    if len(parts) != 2 or not all(parts):
        raise RequestError(f"--{option} {quoted(names)}: two names with a comma between them are needed, as in A,B")
    return parts[0], parts[1]


# --- what is computed -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChangedCell:
    """One weight in both records; layer and head are numbers, query and key positions of tokens."""

    layer: int
    head: int
    query: int
    key: int
    first: float
    second: float

    @property
    def change(self) -> float:
        """The weight in the second less that in the first."""
        return self.second - self.first


def largest_cells(found: Difference, count: int) -> list[ChangedCell]:
    """Return the cells that differ most, largest first, of the queries that count; equal cells are left out."""
    first, second = found.first.weights, found.second.weights
    change = np.abs(second - first)
    for of_layer, layer in zip(change, found.first.layers, strict=True):
        of_layer[:, ~counted_in_either(found.first, found.second, layer)] = 0
    order = np.argsort(-change, axis=None, kind="stable")[:count]
    return [
        ChangedCell(
            found.first.layers[layer],
            found.first.heads[head],
            int(query),
            int(key),
            float(first[layer, head, query, key]),
            float(second[layer, head, query, key]),
        )
        for layer, head, query, key in zip(*np.unravel_index(order, change.shape), strict=True)
        if change[layer, head, query, key] > 0
    ]


def _document(found: Difference, cells: Sequence[ChangedCell]) -> dict[str, Any]:
    """Return the document of --json: both sides, every head, and the cells that differ most."""
    return {
        "first": _side(found.first),
        "second": _side(found.second),
        "heads": [{"layer": layer, "head": head, "moved": found.of(layer, head)} for layer, head in found.heads()],
        "cells": [
            {
                **asdict(cell),
                "query_token": found.first.tokens.text[cell.query],
                "key_token": found.first.keys.text[cell.key],
                "change": cell.change,
            }
            for cell in cells
        ],
    }


def _side(record: AttentionRecord) -> dict[str, Any]:
    """Return one of the two as it stands in the document."""
    keys = {} if record.key_tokens is None else {"key_tokens": record.key_tokens.text}
    return {
        "model": record.model.document(),
        "measure": record.measure,
        "mask": record.mask_name,
        "tokens": record.tokens.text,
        **keys,
    }


# --- the report -----------------------------------------------------------------------------------------

MEANING = "moved: how much weight must move to turn one map into the other (total variation), mean over tokens; 0 to 1"
BEGINNING = 70  # characters of a text
NAMED = 5  # the heads that differ most


def difference_report(found: Difference, top: int = 10) -> Report:
    """Report how much weight moved in every head, and the `top` cells that differ most."""
    cells, ranked = largest_cells(found, top), found.heads()
    queries, keys = _token_pairs(found)
    columns = [Column("head"), Column("query", "name"), Column("key", "name")]
    columns += [Column("A", leaves=1), Column("B", leaves=2), Column("B - A")]
    rows = []
    for cell in cells:
        ends = f"{cell.query} {queries[cell.query]}", f"{cell.key} {keys[cell.key]}"
        weights = three_digits(cell.first), three_digits(cell.second), signed(cell.change)
        rows.append([f"{cell.layer}.{cell.head}", *ends, *weights])
    table = Table(columns, rows)
    most = "  ".join(f"{layer}.{head} {found.of(layer, head):.3f}" for layer, head in ranked[:NAMED])
    moved = HeadGrid([Panel("", found.moved)], found.first.layers, found.first.heads, "moved", most=1.0)
    parts: list[Part] = [_Both(found, cells), TextLine(MEANING, caption=True), moved, TextLine("")]
    if cells:
        parts += [TextLine(f"heads that differ most: {most}"), table]
    else:
        parts.append(TextLine("the maps are the same"))
    layer, head = ranked[0]
    return Report(
        [f"{name}: {side}" for name, side in zip("AB", _name_difference(found), strict=True)],
        parts,
        lambda: _document(found, cells),
        itemgetter("heads"),
        next=NextCommand("diff", {"layer": layer, "head": head, "output_path": "diff.svg"}),
    )


def _about(record: AttentionRecord) -> list[str]:
    """Return anything unusual of a record, its mask, its size, and the beginning of its text."""
    text = [token for token, special in zip(record.tokens.shown, record.tokens.special, strict=True) if not special]
    beginning = printable(shorten(" ".join(text), BEGINNING, placeholder=" ..."))
    return [*record.unusual, f"mask {record.mask_name}", record_size(record), beginning]


def _name_difference(found: Difference) -> tuple[str, str]:
    """Name the two by what differs: the model, the mask, the measure, or the beginning of the text."""
    first, second = found.first, found.second
    for one, other in (
        (model_name(first.model.full_name), model_name(second.model.full_name)),
        (f"mask {first.mask_name}", f"mask {second.mask_name}"),
        (first.measure, second.measure),
    ):
        if one != other:
            return printable(one), printable(other)
    return _about(first)[-1], _about(second)[-1]


def _token_pairs(found: Difference) -> tuple[list[str], list[str]]:
    """Return the queries and the keys: "cat", or "cat / dog" where the two have different tokens in one position."""
    sides = (found.first.tokens, found.second.tokens), (found.first.keys, found.second.keys)
    both = [zip(map(visible, one.shown), map(visible, other.shown), strict=True) for one, other in sides]
    queries, keys = ([one if one == other else f"{one} / {other}" for one, other in pairs] for pairs in both)
    return queries, keys


# --- the two beside each other --------------------------------------------------------------------------

DIGITS = 6  # of the numbers of heads in a page


@dataclass(frozen=True)
class _Both(Part):
    """The two: a line each in the terminal; maps A, B and B - A side by side in a picture and on a page."""

    found: Difference
    cells: Sequence[ChangedCell]

    def terminal(self, canvas: "Canvas") -> "list[RenderableType]":
        from attncli.report.terminal import title

        both = (("A", self.found.first), ("B", self.found.second))
        return [title([f"{name}  {model_name(one.model.full_name)}", *_about(one)], canvas) for name, one in both]

    def figure(self, title: Sequence[str], paper: "Paper") -> "Figure":
        from attncli.features.diff.picture import Picture

        return Picture(self.found, self.cells, title, *_token_pairs(self.found), paper).draw()

    def page(self) -> str:
        """Return a page with all heads that both have, opened at the one that differs most.

        The same two give the same page.
        """
        from attncli.page.packing import TEXTS, Chunks, error_of, pick_levels
        from attncli.page.payload import describe, text_entry
        from attncli.report.page import BETWEEN, compared_page

        found = self.found
        both = [replace(record, vectors=None) for record in (found.first, found.second)]
        levels, chunks = pick_levels([record.weights for record in both]), Chunks(TEXTS)
        texts = [text_entry([record], levels, chunks) for record in both]
        layer, head = found.heads()[0]
        start = {"view": "matrix", "layer": layer, "head": head}
        sides = list(zip("AB", _name_difference(found), strict=True))
        description = describe(both[0], texts, start) | {
            "panels": [*({"name": name, "about": side} for name, side in sides), {"name": "B − A", "signed": True}],
            "moved": np.where(np.isnan(found.moved), 0, found.moved).round(DIGITS).tolist(),
            "between": BETWEEN["tokens"],
        }
        about = [
            *(
                " · ".join([f"{name}: {model_name(one.model.full_name)}", *_about(one)])
                for name, one in zip("AB", both, strict=True)
            ),
            MEANING,
            f"weights of A and B are stored to within {error_of(levels):.1g}",
        ]
        return compared_page(" · ".join(f"{name}: {side}" for name, side in sides), description, about, chunks)


diff = as_function(Diff)


# The fields of its document (`attncli.features.document`).
FIELDS = """
### diff

first | side
second | side
heads | [head] | | those that differ most first
heads.moved | float | share of the weight | weight that must move to turn one map into the other, mean over queries
cells | [head] | | the `--top` cells that differ most
cells.query | int | | index in `tokens` of both sides
cells.key | int | | index in the keys of both sides
cells.query_token | str | | the first side's
cells.key_token | str | | the first side's
cells.first | float | | weight
cells.second | float | | weight
cells.change | float | | second - first

`.csv`: a row per entry of `heads`.

### side

One side of a comparison.

model | model
measure | str | | weight, or share of norm
mask | MaskName
tokens | [str] | `[query]` | as in a record
key_tokens | [str]? | `[key]` | as in a record
"""
