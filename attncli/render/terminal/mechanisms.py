"""One head under every scoring function and normaliser, in the terminal: maps, figures, and claims with verdicts."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from rich.table import Table
from rich.text import Text

from attncli.record import AttentionRecord
from attncli.record.cells import drawn, drawn_map
from attncli.render.captions.mechanisms import VariantLike, by_score, has_own_score, normaliser_name, untrained
from attncli.report.canvas import Canvas
from attncli.report.terminal import (
    APART,
    POOLED,
    PanelSize,
    Prose,
    beside,
    heading,
    legends,
    panel_lines,
    plain_table,
    scale,
)

UNTRAINED = "parameters"  # the heading of the column that says so
ACROSS = 3  # normalisers, beside each other
LINES = 24  # a map is at most so many lines high
FAILED = "bold red"


class ClaimLike(Protocol):
    """What is shown of a claim (`attncli.checks.claims.Claim`)."""

    @property
    def statement(self) -> str: ...
    @property
    def figures(self) -> dict[str, float]: ...
    @property
    def holds(self) -> bool: ...
    @property
    def finding(self) -> str: ...


def about(record: AttentionRecord, canvas: Canvas) -> Text:
    """Which head of which model, on how many tokens."""
    [layer], [head] = record.layers, record.heads
    return heading(record, f"layer {layer} head {head}", canvas)


# --- maps -----------------------------------------------------------------------------------------------


def variant_maps(
    record: AttentionRecord, variants: Sequence[VariantLike], temperature: float, seed: int, canvas: Canvas
) -> list[Text]:
    """The head's own map, then a row of maps for each score, its normalisers beside each other."""
    [layer], [head] = record.layers, record.heads
    size = PanelSize.of(record, max((canvas.width - APART * (ACROSS - 1)) // ACROSS, 1), LINES)
    own = drawn_map(record, layer, head)
    lines = [*legends(record, canvas), scale(canvas, own)]
    if size.pools(record, canvas):
        lines.append(Text(POOLED))
    drawing = panel_lines("", own, size, canvas)[1:]  # without its caption, which is a line of its own
    lines += [Text(), Text("the head's own map", style=canvas.strong), *drawing, Text()]
    for name, row in by_score(variants, seed, has_own_score(record)):
        lines.append(Text(name, style=canvas.strong))
        maps = [drawn(one.weights, record.mask_of(layer)) for one in row]
        names = [normaliser_name(one.normaliser, temperature) for one in row]
        panels = [panel_lines(name, one, size, canvas) for name, one in zip(names, maps, strict=True)]
        lines += [*beside(panels, size.width), Text()]
    return lines


# --- figures --------------------------------------------------------------------------------------------


def variants_table(variants: Sequence[VariantLike], temperature: float, seed: int) -> Table:
    """A row a variant: how broad it is, and how far from the head's own map."""
    figures = ("entropy", "moved", "same strongest key", UNTRAINED)
    table = plain_table("score", "normaliser", *figures, names=["normaliser"], goes=[UNTRAINED, "same strongest key"])
    for _, row in by_score(variants, seed):
        for one in row:
            table.add_row(
                one.score,
                normaliser_name(one.normaliser, temperature),
                f"{one.entropy:.2f}",
                f"{one.moved:.3f}",
                f"{one.same_key:.0%}",
                "" if one.trained else untrained(seed),
            )
        table.add_section()
    return table


def variants_legend() -> Prose:
    """What the columns of `variants_table` mean."""
    return Prose(
        "entropy: in nats, 0 looks at one token. moved: weight that would have to move to make it the head's own map, "
        "the total variation. Both are means over queries. same strongest key: the share of queries that have it."
    )


def left_out() -> Prose:
    """What is said where the projections are not known."""
    return Prose(
        "Left out: claims and designs that need a layer's input and projections, which are not known in a network that "
        "transformers runs."
    )


# --- claims ---------------------------------------------------------------------------------------------


def claims_table(claims: Sequence[ClaimLike]) -> Table:
    """How each claim came out, and what was measured."""
    table = plain_table("verdict", "claim", prose=["claim"])
    for claim in claims:
        verdict = Text("holds") if claim.holds else Text("DOES NOT HOLD here", style=FAILED)
        lines = [claim.statement, *measured(claim.figures), *([claim.finding] if claim.finding else [])]
        table.add_row(verdict, Text("\n  ".join(lines)))
    return table


def claims_count(claims: Sequence[ClaimLike]) -> Text:
    """How many claims hold."""
    holding = sum(claim.holds for claim in claims)
    return Text(f"{holding} of {len(claims)} claims hold here")


def measured(figures: Mapping[str, float]) -> list[str]:
    """What was measured, on a line for each group.

    Names such as "d_k 4, q·k" and "d_k 4, / √d_k" stand together: "q·k -> / √d_k   d_k 4: 3.94 -> 0.985   16: ...";
    before a colon stands the name of a group, as in "8 keys: d_k 4, least".
    """
    groups: dict[str, dict[str, list[str]]] = {}
    steps: list[str] = []
    for name, value in figures.items():
        group, _, rest = name.rpartition(": ")
        size, _, step = rest.partition(", ")
        groups.setdefault(group, {}).setdefault(size, []).append(three_digits(value))
        steps += [step] if step and step not in steps else []
    lines: list[str] = []
    for group, by_size in groups.items():
        found = [f"{size}: {' -> '.join(values)}" for size, values in by_size.items()]
        found[1:] = [one.removeprefix("d_k ") for one in found[1:]]
        heading = " -> ".join(steps) if steps and not lines else ""
        lines.append("   ".join(part for part in (heading, group, *found) if part))
    return lines


def three_digits(value: float) -> str:
    """Three digits, and what is next to nothing as a power of ten: 3.94, 1007, 2.6e-07."""
    if value == 0:
        return "0.0e+00"
    if abs(value) < 1e-3:
        return f"{value:.1e}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}"
