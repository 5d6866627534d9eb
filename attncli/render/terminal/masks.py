"""What masks do, in the terminal: maps under each mask beside each other, and tables of figures."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from rich.table import Table
from rich.text import Text

from attncli.analysis.masking import MaskEffect
from attncli.record import AttentionRecord
from attncli.render.captions.masks import CAPTIONS
from attncli.render.hidden import drawn_map
from attncli.report.canvas import Canvas
from attncli.report.captions import model_name, record_size
from attncli.report.terminal import PanelSize, Prose, in_rows, legend, panel_lines, plain_table, scale, title


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


class ReachLike(Protocol):
    """What is shown of a layer's window (`attncli.checks.windows.Reach`)."""

    @property
    def layer(self) -> int: ...
    @property
    def reach(self) -> int | None: ...
    @property
    def together(self) -> int | None: ...
    @property
    def whole(self) -> int | None: ...
    @property
    def beyond(self) -> float | None: ...
    @property
    def within(self) -> float | None: ...


def mask_maps(records: Mapping[str, AttentionRecord], heads: Sequence[tuple[int, int]], canvas: Canvas) -> list[Text]:
    """For each (layer, head): its map under every mask, side by side as far as the width allows."""
    some = next(iter(records.values()))
    size = PanelSize.of(some, canvas.width)
    about = title([model_name(some.model.shown), "what masks do", *some.unusual, record_size(some)], canvas)
    maps = {head: {name: drawn_map(record, *head) for name, record in records.items()} for head in heads}
    below = [one for by_mask in maps.values() for one in by_mask.values()]
    lines = [about, *legend(some.tokens, canvas), scale(canvas, *below), Text()]
    for (layer, head), by_mask in maps.items():
        panels = [
            panel_lines(f"{layer}.{head} {CAPTIONS[name]}", one, size, canvas, canvas.strong)
            for name, one in by_mask.items()
        ]
        lines += in_rows(panels, size.width, canvas)
    return lines


def effects_table(effects: Mapping[str, Mapping[tuple[int, int], MaskEffect]]) -> Table:
    """Per head: how much weight each mask moved, and what is left on forbidden positions."""
    moved, forbidden = [f"{name}: moved" for name in effects], [f"{name}: on forbidden" for name in effects]
    columns = [column for both in zip(moved, forbidden, strict=True) for column in both]
    table = plain_table("head", *columns, goes=forbidden)
    for layer, head in next(iter(effects.values())):
        row = [f"{layer}.{head}"]
        for by_head in effects.values():
            effect = by_head[layer, head]
            row += ["-" if effect.moved is None else f"{effect.moved:.3f}", f"{effect.forbidden:g}"]
        table.add_row(*row)
    return table


def effects_legend() -> Prose:
    """What the columns of `effects_table` mean."""
    return Prose(
        "moved: weight that had to move, the total variation to the unmasked row, mean over queries. "
        "on forbidden: the sum of the weights where the mask forbids any; it must be 0."
    )


def laws_table(laws: Sequence[LawLike]) -> Table:
    """Each law with the largest deviation and a verdict."""
    first, deviation = "law, on this text", "largest deviation"
    table = plain_table(first, deviation, "verdict", prose=[first], goes=[deviation])
    for law in laws:
        largest = "-" if law.deviation is None else f"{law.deviation:.1e}"
        unknown = "not tested" if law.deviation is None else "no change seen"
        verdict = {True: "holds", False: "DOES NOT HOLD", None: unknown}[law.holds]
        statement = f"{law.statement}\n  ({law.note})" if law.note else law.statement
        table.add_row(Text(statement), largest, verdict)
    return table


def windows_view(layers: Sequence[ReachLike], tokens: int, shortest: int) -> list[Table | Prose]:
    """How far every layer lets a token see, and what was measured; and whether the text is long enough to tell."""
    table = plain_table(
        "layer", "sees", "with local layers below", "of the text", "beyond: change", "within", goes=["of the text"]
    )
    for one in layers:
        table.add_row(
            f"{one.layer}",
            *map(distance, (one.reach, one.together, one.whole)),
            *("-" if change is None else f"{change:.1e}" for change in (one.beyond, one.within)),
        )
    about = (
        "sees: how many tokens to either side a token of this layer can attend to; of the text: from how far away what "
        "it is made of can come. Below a row of local layers one token's vector was changed. beyond: the largest "
        "change of a vector further away than they reach together, which must be 0 up to rounding; within: of the "
        "others."
    )
    if tokens >= shortest:
        return [table, Prose(about)]
    short = (
        f"On this text the windows hide nothing: it has {tokens} tokens, and from {shortest} on something is hidden."
    )
    return [table, Prose(about), Prose(short)]


def distance(reach: int | None) -> str:
    return "all" if reach is None else f"±{reach}"
