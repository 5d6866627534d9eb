"""What masks do, in the terminal: maps under each mask beside each other, and tables of figures."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from rich.table import Table
from rich.text import Text

from attncli.analysis.masking import MaskEffect
from attncli.record import AttentionRecord
from attncli.render.cells import Canvas
from attncli.render.tables import plain_table
from attncli.render.terminal import (
    PANEL_LINES,
    fit,
    in_rows,
    legend,
    panel_size,
    picture,
    scale,
    shown_name,
    size,
    strong,
    title,
)

CAPTIONS = {"none": "unmasked", "causal": "causal", "padding": "padding"}


class LawLike(Protocol):
    """What is shown of a law (`attncli.checks.laws.Law`)."""

    @property
    def statement(self) -> str: ...
    @property
    def deviation(self) -> float | None: ...
    @property
    def holds(self) -> bool | None: ...
    @property
    def note(self) -> str: ...


def mask_maps(records: Mapping[str, AttentionRecord], heads: Sequence[tuple[int, int]], canvas: Canvas) -> list[Text]:
    """For each (layer, head): its map under every mask, side by side as far as the width allows."""
    some = next(iter(records.values()))
    columns, width = panel_size(some, canvas)
    words = title([shown_name(some.model.name), "what masks do", size(some)], canvas)
    lines = [words, *legend(some.tokens, canvas), scale(canvas), Text()]
    for layer, head in heads:
        panels = [
            [
                Text(fit(f"{layer}.{head} {CAPTIONS[name]}", width, canvas), style=strong(canvas)),
                *picture(record.map(layer, head), canvas, columns, PANEL_LINES),
            ]
            for name, record in records.items()
        ]
        lines += in_rows(panels, width, canvas)
    return lines


def effects_table(effects: Mapping[str, Mapping[tuple[int, int], MaskEffect]]) -> Table:
    """Per head: how much weight each mask moved, and what is left on forbidden positions."""
    table = plain_table("head", *(words for name in effects for words in (f"{name}: moved", "on forbidden")))
    for layer, head in next(iter(effects.values())):
        row = [f"{layer}.{head}"]
        for by_head in effects.values():
            effect = by_head[layer, head]
            row += [f"{effect.moved:.3f}", f"{effect.forbidden:g}"]
        table.add_row(*row)
    return table


def effects_legend() -> Text:
    """What the columns of `effects_table` mean."""
    return Text(
        "moved: weight that had to move, the total variation to the unmasked row, mean over queries. "
        "on forbidden: the sum of the weights where the mask forbids any; it must be 0."
    )


def laws_table(laws: Sequence[LawLike]) -> Table:
    """Each law with the largest deviation and a verdict."""
    table = plain_table("law, on this text", "largest deviation", "verdict")
    for law in laws:
        deviation = "-" if law.deviation is None else f"{law.deviation:.1e}"
        verdict = {True: "holds", False: "DOES NOT HOLD", None: "not tested"}[law.holds]
        statement = f"{law.statement}\n  ({law.note})" if law.note else law.statement
        table.add_row(Text(statement), deviation, verdict)
    return table
