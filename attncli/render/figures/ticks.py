"""Numbers beside panels whose tokens have no room for their labels."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from attncli.render.figures.drawing import FAINT, write
from attncli.render.figures.layout import LABEL_GAP, LINE, Layout
from attncli.render.figures.wording import Wording

STEPS = [digit * 10**power for power in range(8) for digit in (1, 2, 5)]
APART = 1.5  # of a number's room, from one to the next: the first and last may be moved into their panel by half of it
TICK = 0.03  # inches


def tick_room(wording: Wording, numbers: Sequence[str], size: float, cell: float) -> float:
    """Inches from a panel to the far side of the widest number left or right of it; 0 where there is none."""
    return wording.widest(numbers, size) + LABEL_GAP + TICK if tick_places(len(numbers), cell, LINE * size) else 0.0


def tick_height(wording: Wording, numbers: Sequence[str], size: float, cell: float) -> float:
    """Inches from a panel to the lower side of the numbers under it; 0 where there is none."""
    return LINE * size + TICK if tick_places(len(numbers), cell, wording.widest(numbers, size)) else 0.0


def tick_places(count: int, cell: float, room: float) -> list[int]:
    """The tokens that have a number, which takes `room` inches: every 1, 2, 5, 10 ...; none where one alone had."""
    step = next(step for step in STEPS if step * cell >= APART * room + LABEL_GAP / 2)
    return list(range(0, count, step)) if count > step else []


def ticks_note(layout: Layout, queries: Sequence[str], keys: Sequence[str], across: float = 0.0) -> str:
    """What a picture without labels says of them; nothing where they are there.

    queries, keys: their numbers; across: inches that a key's takes, where keys go from left to right.
    """
    if layout.label_size:
        return ""
    high = LINE * layout.tick_size
    there = tick_places(len(queries), layout.cell, high) or tick_places(len(keys), layout.cell, across or high)
    return "numbers count from 0" if there else f"no room for {len(queries)} x {len(keys)} labels"


def draw_upright(
    canvas: Axes, layout: Layout, numbers: Sequence[str], x: float, y: float, *, right: bool = False
) -> None:
    """Numbers from (x, y) down, left of a panel or right of it."""
    half, way = LINE * layout.tick_size / 2, 1 if right else -1
    marks = []
    for place in tick_places(len(numbers), layout.cell, 2 * half):
        at = (place + 0.5) * layout.cell
        marks.append([(x, y + at), (x + way * TICK, y + at)])
        middle = inside(at, half, layout.cell * len(numbers))
        gap = way * (TICK + LABEL_GAP / 2)
        write(canvas, x + gap, y + middle, numbers[place], layout.tick_size, ha="left" if right else "right")
    canvas.add_collection(LineCollection(marks, colors=FAINT, linewidths=0.6), autolim=False)


def draw_across(canvas: Axes, layout: Layout, wording: Wording, numbers: Sequence[str], x: float, y: float) -> None:
    """Numbers from (x, y) to the right, under a panel."""
    room = wording.widest(numbers, layout.tick_size)
    marks = []
    for place in tick_places(len(numbers), layout.cell, room):
        at = (place + 0.5) * layout.cell
        marks.append([(x + at, y), (x + at, y + TICK)])
        middle = inside(at, wording.widest([numbers[place]], layout.tick_size) / 2, layout.cell * len(numbers))
        write(canvas, x + middle, y + TICK + LABEL_GAP / 2, numbers[place], layout.tick_size, va="top")
    canvas.add_collection(LineCollection(marks, colors=FAINT, linewidths=0.6), autolim=False)


def inside(at: float, half: float, length: float) -> float:
    """The middle of a number that stays beside its panel."""
    return min(max(at, half), max(length - half, half))
