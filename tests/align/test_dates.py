"""Days in parts that share none, and dates drawn from them."""

import random
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.align.characters import SOURCE, UNKNOWN
from attncli.align.dates import FIRST, LAST, days, draw, is_date, is_day, part_of
from attncli.align.formats import CASES, FORMATS, write

any_day = st.dates(FIRST, LAST)


def test_parts_are_all_days_and_share_none():
    parts = [set(days(part)) for part in ("train", "validation", "test")]
    assert sum(map(len, parts)) == len(set.union(*parts)) == (LAST - FIRST).days + 1
    assert len(parts[2]) >= 2000


@given(any_day)
def test_a_day_is_in_the_part_that_its_hash_says(day):
    assert day in days(part_of(day))


@given(st.integers(0, 999), st.sampled_from(["train", "validation", "test"]))
def test_drawn_dates_are_of_their_part_known_characters_and_different_days(seed, part):
    drawn = draw(part, 100, random.Random(seed))
    assert drawn == draw(part, 100, random.Random(seed))
    assert len({iso for _, iso in drawn}) == 100
    for text, iso in drawn:
        assert part_of(date.fromisoformat(iso)) == part
        assert UNKNOWN not in SOURCE.encode(text)


class Witness(random.Random):
    """Remembers what was chosen."""

    def __init__(self, seed):
        super().__init__(seed)
        self.chosen = []

    def choice(self, options):
        self.chosen.append(super().choice(options))
        return self.chosen[-1]


def test_every_format_and_case_is_drawn():
    witness = Witness(0)
    drawn = draw("train", 3000, witness)
    formats, cases = witness.chosen[1::2], witness.chosen[::2]  # the case is chosen before the format
    assert set(formats) == set(FORMATS) and set(cases) == set(CASES)
    for (text, iso), case, template in zip(drawn, cases, formats, strict=True):
        assert text == case(write(date.fromisoformat(iso), template))


@pytest.mark.parametrize(
    ("output", "day", "in_range"),
    [
        ("2021-03-03", True, True),
        ("1950-01-01", True, True),
        ("2049-12-31", True, True),
        ("1949-12-31", True, False),
        ("2050-01-01", True, False),
        ("2021-02-29", False, False),
        ("2021-13-01", False, False),
        ("20210303", False, False),
        ("2021-3-3", False, False),
        ("none", False, False),
    ],
)
def test_outputs_that_are_days_and_those_of_the_years_that_are_read(output, day, in_range):
    assert (is_day(output), is_date(output)) == (day, in_range)
