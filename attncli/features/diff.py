"""Compare two records: which heads differ, and in which cells most.

The records are of one text under two models, masks or measures, or of two texts whose tokens are paired by position.
`attncli.analysis.difference` measures how much the maps of a head differ.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from attncli.analysis.difference import ChangedCell, Difference, difference, largest_cells
from attncli.base import choices
from attncli.base.arrays import titled
from attncli.base.choices import check_optional_text
from attncli.base.errors import RequestError
from attncli.base.files import PAGE
from attncli.base.printable import quoted
from attncli.base.typed import NotRequired
from attncli.features import completion, options
from attncli.features.inputs import (
    SavedRecords,
    Texts,
    notify,
    read_inputs,
    record_source,
    saved_grouping,
)
from attncli.features.measure import measure, no_effect
from attncli.features.options import MODEL, OUTPUT, ModelOrName, argument, option
from attncli.record import AttentionRecord
from attncli.record.parts import ModelDocument
from attncli.record.record import READ
from attncli.record.selection import Grouping
from attncli.report import Column, HeadGrid, NextCommand, Panel, Part, Report, Result, Table, TextLine
from attncli.report.difference import MEANING, TwoRecords, name_sides, token_pairs

if TYPE_CHECKING:
    from attncli.base.typed import Unpack

WAYS = "two saved records, two texts, or one text with --models A,B, --masks A,B, --measures A,B or --without L.H"
LISTED = 10  # cells


@measure(options.MapOptions, saved_as="a difference")
def diff(
    model: options.ModelOrSaved = None,
    first: Annotated[
        str | Path | AttentionRecord | None, argument("A", "A saved record or a text.", kind=str | None)
    ] = None,
    second: Annotated[
        str | Path | AttentionRecord | None, argument("B", "The other one, of the same kind.", kind=str | None)
    ] = None,
    *,
    models: Annotated[
        str | Sequence[ModelOrName] | None,
        option(
            MODEL,
            "--models",
            metavar="A,B",
            help="Compare two models on the one text.",
            complete=completion.models,
            kind=str | None,
        ),
    ] = None,
    masks: Annotated[
        str | Sequence[choices.MaskName] | None,
        option(
            MODEL,
            "--masks",
            metavar="A,B",
            help="Compare two masks on the one text.",
            complete=completion.several(choices.MaskName),
            kind=str | None,
        ),
    ] = None,
    measures: Annotated[
        str | Sequence[choices.MeasureName] | None,
        option(
            MODEL,
            "--measures",
            metavar="A,B",
            help="Compare two measures on the one text: weight,norm.",
            complete=completion.several(choices.MeasureName),
            kind=str | None,
        ),
    ] = None,
    pair: options.Pair = None,
    mask: options.MaskOption = None,
    words: options.Words = False,
    top: Annotated[
        int,
        option(
            OUTPUT,
            "--top",
            rare=True,
            metavar="N",
            min=1,
            help="Show the N largest cells.",
            not_saved=(".csv", PAGE),
        ),
    ] = LISTED,
    **given: "Unpack[options.MapOptions]",
) -> "ComparedRecords":
    """Show where two sets of maps differ: which heads, which cells.

    Compares two saved records, two texts of equal length, or one text under two models, two masks or two measures, or
    with heads silenced in B. Tokens are paired by position. For each head: how much weight must move to turn one map
    into the other (the total variation distance, mean over tokens). Norms are compared as shares of their rows.

    \b
    Examples:
      attncli diff "The cat sat on the mat." "The dog sat on the mat."
      attncli diff --masks padding,causal "The cat sat on the mat."
      attncli diff --masks none,causal -o diff.html "The cat sat on the mat."
      attncli diff --measures weight,norm "The cat sat on the mat."
    """
    if given.get("unit") is not None:
        no_effect("with --unit, which already merges tokens", words=words)
    if isinstance(model, AttentionRecord):  # the records alone
        no_effect("after two records", second=second)
        model, first, second = None, model, first
    if _is_record(first) or _is_record(second):
        if not (_is_record(first) and _is_record(second)):
            raise RequestError("a saved record can only be compared with another one: give two files")
        named: dict[str, Any] = {**given}
        layer, head, unit = (named.pop(name, None) for name in ("layer", "head", "unit"))
        grouping = saved_grouping(Grouping(), unit)
        ways = {"models": models, "masks": masks, "measures": measures, "pair": pair, "model": model}
        no_effect("on saved records, which are compared as they are", **ways, **named, mask=mask)
        one, other = (
            SavedRecords(
                [side] if isinstance(side, AttentionRecord) else Path(side), layer, head, grouping
            ).single_record(f"{side} has several, so save the one to compare in a separate file")
            for side in (first, second)
            if side is not None
        )
    else:
        check_optional_text("first", first)
        check_optional_text("second", second)
        assert isinstance(first, str | None) and isinstance(second, str | None)
        measured, without = given.get("measure"), given.get("without")
        if sum(way is not None for way in (second, models, masks, measures, without)) != 1:
            raise RequestError(f"diff compares two sides that differ in one respect: give {WAYS}")
        if models is not None:
            no_effect("with --models, which names both", model=model)
        if masks is not None:
            no_effect("with --masks, which names both", mask=mask)
        if measures is not None:
            no_effect("with --measures, which names both", measure=measured)
        [beginning] = read_inputs(first, pair, None)
        sides = []
        for text, of_model, masked, given["measure"], given["without"] in zip(
            (beginning.text, beginning.text if second is None else second),
            _split_pair("models", models) or (model, model),
            _split_pair("masks", masks) or (mask, mask),
            _split_pair("measures", measures) or (measured or "weight", measured or "weight"),
            (None, without),
            strict=True,
        ):
            source = record_source(of_model, text, masked, pair=pair, **given)
            assert isinstance(source, Texts)
            sides.append(source)
        if sides[0].opening == sides[1].opening:  # opened once
            sides[1] = replace(sides[1], opening=sides[0].engine)
        for source in sides:
            source.engine.check(source.request)
        one, other = (next(source.records()) for source in sides)
    if words:
        from attncli.record.grouping import merge_words

        one, other = merge_words(one), merge_words(other)
    found = difference(one, other)
    if any(len(side.each_head) > len(found.first.each_head) for side in (one, other)):
        notify(f"only heads that both sides have are compared: {found.first.choice}")
    return ComparedRecords(found, top)


def _is_record(side: object) -> bool:
    """Return whether A or B is a record or its file, not a text: the file exists, or its name has no spaces."""
    if not isinstance(side, str):
        return isinstance(side, AttentionRecord | Path)
    return Path(side).suffix.lower() in READ and (Path(side).is_file() or " " not in side)


def _split_pair(name: str, names: str | Sequence[Any] | None) -> tuple[Any, Any] | None:
    """Split "a,b" or a sequence into two; None stays None. Raises RequestError unless there are two."""
    if names is None:
        return None
    parts = [part.strip() for part in names.split(",")] if isinstance(names, str) else names
    if len(parts) != 2 or not all(parts):
        raise RequestError(f"--{name} takes two names separated by a comma, as in A,B; got {quoted(str(names))}")
    return parts[0], parts[1]


# --- the result -----------------------------------------------------------------------------------------

NAMED = 5  # the heads that differ most


class _SideEntry(TypedDict):
    """One side of a comparison."""

    model: ModelDocument
    measure: Annotated[str, "weight, or share of norm"]
    mask: Annotated[str, choices.one_of(choices.MaskName)]
    tokens: Annotated[list[str], "as in a record", "`[query]`"]
    key_tokens: NotRequired[Annotated[list[str], "as in a record", "`[key]`"]]


class _HeadEntry(TypedDict):
    """The heads, the most different first."""

    layer: Annotated[int, "layer number in the model"]
    head: Annotated[int, "head number in its layer"]
    moved: Annotated[
        float, "weight that must move to turn one map into the other, mean over queries", "share of the weight"
    ]


class _CellEntry(TypedDict):
    """The `--top` cells that differ most."""

    layer: Annotated[int, "layer number in the model"]
    head: Annotated[int, "head number in its layer"]
    query: Annotated[int, "index in `tokens` of both sides"]
    key: Annotated[int, "index in the keys of both sides"]
    query_token: Annotated[str, "the first side's"]
    key_token: Annotated[str, "the first side's"]
    first: Annotated[float, "weight"]
    second: Annotated[float, "weight"]
    change: Annotated[float, "second - first"]


class DiffDocument(TypedDict):
    """`.csv`: a row per entry of `heads`."""

    first: Annotated[_SideEntry, "A"]
    second: Annotated[_SideEntry, "B"]
    heads: list[_HeadEntry]
    cells: list[_CellEntry]


@dataclass(frozen=True, repr=False)
class ComparedRecords(Result):
    """Two records, how much weight moved in each of their heads, and the cells that differ most.

    listed: the number of these cells.
    """

    found: Difference
    listed: int = LISTED

    def __repr__(self) -> str:
        """<ComparedRecords of minilm: A mask padding, B mask causal, most moved 4.2 0.611>"""
        found = self.found
        [(layer, head), *_], (first, second) = found.heads(), name_sides(found)
        moved = f"most moved {layer}.{head} {found.of(layer, head):.3f}"
        return titled(self, found.first.model.full_name, f"A {first}", f"B {second}", moved)

    @cached_property
    def cells(self) -> list[ChangedCell]:
        """The cells that differ most, the largest change first."""
        return largest_cells(self.found, self.listed)

    def document(self) -> DiffDocument:
        """Return what --json prints: both sides, every head, and the cells that differ most."""
        found = self.found
        queries, keys = found.first.tokens.text, found.first.keys.text
        return {
            "first": _side(found.first),
            "second": _side(found.second),
            "heads": [{"layer": layer, "head": head, "moved": found.of(layer, head)} for layer, head in found.heads()],
            "cells": [
                {
                    "layer": cell.layer,
                    "head": cell.head,
                    "query": cell.query,
                    "key": cell.key,
                    "first": cell.first,
                    "second": cell.second,
                    "query_token": queries[cell.query],
                    "key_token": keys[cell.key],
                    "change": cell.change,
                }
                for cell in self.cells
            ],
        }

    def report(self) -> Report:
        """Show how much weight moved in every head, and the cells that differ most."""
        found, ranked = self.found, self.found.heads()
        queries, keys = token_pairs(found)
        columns = [Column("head"), Column("query", "name"), Column("key", "name")]
        columns += [Column("A", drop=1), Column("B", drop=2), Column("B - A")]
        rows = []
        for cell in self.cells:
            ends = f"{cell.query} {queries[cell.query]}", f"{cell.key} {keys[cell.key]}"
            weights = f"{cell.first:.3f}", f"{cell.second:.3f}", f"{cell.change:+.3f}"
            rows.append([f"{cell.layer}.{cell.head}", *ends, *weights])
        most = "  ".join(f"{layer}.{head} {found.of(layer, head):.3f}" for layer, head in ranked[:NAMED])
        moved = HeadGrid([Panel("", found.moved)], found.first.layers, found.first.heads, "moved", most=1.0)
        parts: list[Part] = [TwoRecords(found, self.cells), TextLine(MEANING, caption=True), moved, TextLine("")]
        if rows:
            parts += [TextLine(f"heads that differ most: {most}"), Table(columns, rows)]
        else:
            parts.append(TextLine("the maps are the same"))
        layer, head = ranked[0]
        return Report(
            [f"{name}: {side}" for name, side in zip("AB", name_sides(found), strict=True)],
            parts,
            self.document,
            itemgetter("heads"),
            next=NextCommand("diff", {"layer": layer, "head": head, "output_path": "diff.svg"}),
        )


def _side(record: AttentionRecord) -> _SideEntry:
    """Return one side as the document has it."""
    side: _SideEntry = {
        "model": record.model.document(),
        "measure": record.measure,
        "mask": record.mask_name,
        "tokens": record.tokens.text,
    }
    if record.key_tokens is not None:
        side["key_tokens"] = record.key_tokens.text
    return side
