"""Dates as people write them: every format by hand, one reading each, and no day in two parts."""

import random
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.align.characters import SOURCE, UNKNOWN
from attncli.align.dates import CASES, CHINESE, ENGLISH, FIRST, FORMATS, LAST, NUMBERS, days, draw, part_of, write

WRITTEN = """
3 March 2021|3 Mar 2021|3 Mar 21|3 Mar '21|3 March, 2021|3rd March 2021|3rd Mar 2021|3rd of March 2021
3rd of March, 2021|the 3rd of March 2021|the 3rd of March, 2021|March 3, 2021|March 3 2021|March 3rd, 2021
March 3rd 2021|March the 3rd, 2021|Mar 3, 2021|Mar. 3, 2021|Mar 3rd, 2021|Mar 3 '21|Wednesday, 3 March 2021
Wednesday 3 March 2021|Wednesday, March 3, 2021|Wednesday, March 3rd, 2021|Wednesday, the 3rd of March 2021
Wednesday the 3rd of March, 2021|Wed 3 Mar 21|Wed 3 Mar 2021|Wed, 03 Mar 2021|Wed, Mar 3, 2021|Wed Mar 03 2021
3-Mar-2021|03-Mar-21|3/Mar/2021|03Mar2021|2021 March 3|2021, March 3|2021-Mar-03
03.03.2021|3.3.2021|3. 3. 2021|03.03.21|03/03/2021|3/3/2021|03/03/21|03-03-2021|03 03 2021|Wednesday 03/03/2021
Wed 03.03.21|2021-03-03|2021-3-3|2021/03/03|2021/3/3|2021.03.03|2021.3.3|20210303
2021年3月3日|2021年03月03日|2021 年 3 月 3 日|2021年3月3号|公元2021年3月3日|21年3月3日|21年3月3日 星期三|21年3月3号 周三
2021年3月3日 星期三|2021年3月3日星期三|2021年3月3日，星期三|2021年3月3日（周三）|2021年3月3号 礼拜三
星期三，2021年3月3日|周三 2021年3月3日|2021-03-03 星期三|2021/3/3 周三|二〇二一年三月三日|二零二一年三月三日
二〇二一年三月三号|二〇二一年三月三日 星期三|二零二一年三月三日（周三）|公元二〇二一年三月三日
"""

any_day = st.dates(FIRST, LAST)


def test_third_of_march_2021_in_every_format_as_written_by_hand():
    by_hand = [text for line in WRITTEN.split("\n") if line for text in line.split("|")]
    assert [write(date(2021, 3, 3), template) for template in FORMATS] == by_hand
    assert len(set(by_hand)) == len(FORMATS) >= 40
    assert ENGLISH and NUMBERS and CHINESE


@pytest.mark.parametrize(
    ("template", "day", "text"),
    [
        ("{nth}", date(2001, 1, 1), "1st"),
        ("{nth}", date(2001, 1, 2), "2nd"),
        ("{nth}", date(2001, 1, 11), "11th"),
        ("{nth}", date(2001, 1, 12), "12th"),
        ("{nth}", date(2001, 1, 13), "13th"),
        ("{nth}", date(2001, 1, 20), "20th"),
        ("{nth}", date(2001, 1, 23), "23rd"),
        ("{zh_d}", date(2001, 1, 10), "十"),
        ("{zh_d}", date(2001, 1, 11), "十一"),
        ("{zh_d}", date(2001, 1, 20), "二十"),
        ("{zh_d}", date(2001, 1, 31), "三十一"),
        ("{zh_m}", date(2001, 12, 1), "十二"),
        ("{zh_year}", date(2009, 1, 1), "二〇〇九"),
        ("{zh_year0}", date(2009, 1, 1), "二零零九"),
        ("星期{zh_w}", date(2021, 3, 7), "星期日"),
        ("{wkd} {weekday}", date(2021, 3, 7), "Sun Sunday"),
        ("{yy}", date(1950, 1, 1), "50"),
        ("{yy}", date(2049, 1, 1), "49"),
        ("{mon} {mm} {dd}", date(2021, 9, 4), "Sep 09 04"),
    ],
)
def test_parts_of_a_date_as_written_by_hand(template, day, text):
    assert write(day, template) == text


def test_every_text_has_one_reading():
    read: dict[str, date] = {}
    for day in (day for part in ("train", "validation", "test") for day in days(part)):
        if day.year in (
            2001,
            2003,
            2012,
            1950,
        ):  # their last two digits could be a day or a month, or one alone, or none
            for template in FORMATS:
                assert read.setdefault(write(day, template), day) == day


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


def test_every_format_and_case_is_drawn():
    formats, cases = set(), set()
    for text, iso in draw("train", 1000, random.Random(0)):
        careful = {write(date.fromisoformat(iso), template): template for template in FORMATS}
        found = [(case, careful[plain]) for plain in careful for case in set(CASES) if case(plain) == text]
        formats |= {template for _, template in found}
        cases |= {case for case, _ in found}
    assert formats == set(FORMATS)
    assert cases == set(CASES)
