"""Dates as people write them, texts that are no date, and the parts that share none of them."""

import random
from datetime import date

import pytest

from attncli.align.characters import NONE, SOURCE, UNKNOWN
from attncli.align.dates import (
    FIRST,
    FORMATS,
    LAST,
    LONGEST,
    days,
    draw_date,
    draw_no_date,
    fields_of,
    is_date,
    is_day,
    part_of,
    unreal_day,
)

EVERY_PART = ("train", "validation", "test")
WRITTEN = """
3 March 2021|3 Mar 21|3 Mar '21|3rd of March, 2021|the 3rd of March 2021|03 Mar 2021|3. March 2021|March 3rd, 2021
Mar. 3, 2021|March the 3rd, 2021|Wednesday, March 3, 2021|Wed, 3 Mar 2021|Wed Mar 03 2021|3 Mar 2021 (Wed)|3-Mar-2021
03Mar2021|Mar/03/2021|2021 March 3|2021-Mar-03|3.3.2021|03/03/21|3. 3. 2021|Wednesday, 03.03.2021|2021-03-03|2021. 3. 3
20210303|2021年3月3日|公元2021年3月3日|21年3月3号|2021年3月3日，星期三|2021年3月3日（周三）|周三 2021年3月3日
2021/3/3 周三|二〇二一年三月三日|二零二一年三月三日|二〇二一年三月三日 星期三|二一年三月三号
"""


def write(day, template):
    return template.format_map(fields_of(day.year, day.month, day.day))


def test_third_of_march_2021_as_written_by_hand():
    by_hand = {text for line in WRITTEN.split("\n") if line for text in line.split("|")}
    assert by_hand <= {write(date(2021, 3, 3), template) for template in FORMATS}
    assert set().union(*FORMATS.values()) | {"iso"} == set(fields_of(2021, 3, 3))


@pytest.mark.parametrize(
    ("template", "by_day"),
    [
        ("{nth}", {1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th", 20: "20th", 23: "23rd"}),
        ("{zh_d}", {5: "五", 10: "十", 11: "十一", 20: "二十", 30: "三十"}),
        ("{zh_short}", {5: "五", 20: "廿", 21: "廿一", 30: "卅"}),
        ("{dd}{mm} {mon}", {4: "0409 Sep"}),
        ("{zh_m} {zh_year} {zh_year0} {zh_yy} {yy}", {1: "九 二〇〇九 二零零九 〇九 09"}),
    ],
)
def test_parts_of_a_date_as_written_by_hand(template, by_day):
    assert {day: write(date(2009, 9, day), template) for day in by_day} == by_day


@pytest.mark.slow
def test_every_text_has_one_reading():
    found = {}
    for day in (day for part in EVERY_PART for day in days(part)):
        if day.year in (2003, 2012):  # their last two digits may be a day or a month
            for template in FORMATS:
                assert found.setdefault(write(day, template), day) == day


def test_parts_are_all_days_and_share_none():
    parts = [set(days(part)) for part in EVERY_PART]
    assert sum(map(len, parts)) == len(set.union(*parts)) == (LAST - FIRST).days + 1
    assert len(parts[2]) >= 2000


@pytest.mark.parametrize("part", EVERY_PART)
def test_drawn_dates_are_of_their_part_known_characters(part):
    drawn = [draw_date(part, generator) for generator in [random.Random(0)] for _ in range(300)]
    assert drawn == [draw_date(part, generator) for generator in [random.Random(0)] for _ in range(300)]
    for text, iso in drawn:
        assert part_of(iso) == part and is_date(iso)
        assert UNKNOWN not in SOURCE.encode(text)


@pytest.mark.parametrize(
    ("outputs", "day", "in_range"),
    [
        (["2021-03-03", "1950-01-01", "2049-12-31"], True, True),
        (["1949-12-31", "2050-01-01"], True, False),
        (["2021-02-29", "2021-13-01", "20210303", "2021-3-3", "none"], False, False),
    ],
)
def test_outputs_that_are_days_and_those_of_the_years_that_are_read(outputs, day, in_range):
    assert {(is_day(output), is_date(output)) for output in outputs} == {(day, in_range)}


@pytest.mark.slow
@pytest.mark.parametrize("part", EVERY_PART)
def test_texts_that_are_no_date_are_of_their_part_and_no_date(part):
    drawn = [draw_no_date(part, generator) for generator in [random.Random(0)] for _ in range(300)]
    assert drawn == [draw_no_date(part, generator) for generator in [random.Random(0)] for _ in range(300)]
    dates = {write(day, template).lower() for day in days(part)[::20] for template in FORMATS}
    for text, output in drawn:
        assert not is_date(output) and (output == NONE or output[4] == "-")
        assert 0 < len(text) <= LONGEST and text == text.strip() and text.lower() not in dates
        assert part_of(text.lower()) == part
    assert 0.6 < sum(output == NONE for _, output in drawn) / len(drawn) < 0.95
    assert any(UNKNOWN in SOURCE.encode(text) for text, _ in drawn)


def test_days_that_do_not_exist_and_days_of_other_years():
    generator = random.Random(0)
    outputs = [unreal_day(generator)["iso"] for _ in range(300)]
    assert not any(map(is_date, outputs)) and any(map(is_day, outputs))
    assert any(output[5:7] <= "12" and "28" < output[8:] <= "31" for output in outputs)
    assert any(output[5:7] > "12" >= output[8:] for output in outputs)  # as 12/25/2021 is read


def test_texts_that_are_no_date_differ():
    generator = random.Random(0)
    assert len({draw_no_date("train", generator)[0] for _ in range(500)}) > 450
