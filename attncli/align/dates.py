"""Days of 1950 to 2049, each in one part (training, validation or test), and how dates are drawn from them."""

import hashlib
import random
from datetime import date, timedelta
from functools import cache
from typing import Literal

from attncli.align.formats import CASES, FORMATS, write

Part = Literal["train", "validation", "test"]

FIRST, LAST = date(1950, 1, 1), date(2049, 12, 31)


def part_of(thing: object) -> Part:
    """Which part a day belongs to, by a hash of how it is written: 1 in 20 to validation, 1 in 10 to the test.

    However a date is written, its day is in one part only: no date of the test was ever seen in training. Texts that
    are no date are parted by the same rule.
    """
    place = hashlib.sha256(str(thing).encode()).digest()[0] * 20 // 256
    return "validation" if place == 0 else "test" if place in (1, 2) else "train"


@cache
def days(part: Part) -> tuple[date, ...]:
    """All days of a part, in their order."""
    every = (FIRST + timedelta(days=number) for number in range((LAST - FIRST).days + 1))
    return tuple(day for day in every if part_of(day) == part)


def is_day(output: str) -> bool:
    """Whether it is YYYY-MM-DD, of a day that exists, in whatever year."""
    try:
        return date.fromisoformat(output).isoformat() == output
    except ValueError:
        return False


def is_date(output: str) -> bool:
    """Whether it is YYYY-MM-DD, of a day from FIRST to LAST."""
    return is_day(output) and FIRST <= date.fromisoformat(output) <= LAST


def draw(part: Part, count: int, generator: random.Random) -> list[tuple[str, str]]:
    """`count` dates of a part as (text, ISO date): the day, the format and the case by chance.

    Days do not repeat, so long as there are enough of them: "2,000 dates" are 2,000 days.
    """
    pool = days(part)
    chosen = generator.sample(pool, count) if count <= len(pool) else generator.choices(pool, k=count)
    return [(generator.choice(CASES)(write(day, generator.choice(FORMATS))), day.isoformat()) for day in chosen]
