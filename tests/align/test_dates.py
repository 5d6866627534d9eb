"""Dates as people write them, texts that are no date, and the parts that share none of them."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.align.characters import NONE, SOURCE, UNKNOWN
from attncli.align.dates import (
    BRACES,
    FIRST,
    FORMATS,
    KINDS,
    LAST,
    LONGEST,
    MONTHS_ELSEWHERE,
    PARTS,
    WORDS,
    Stated,
    alternatives,
    can_write,
    days,
    draw,
    draw_no_date,
    is_date,
    is_day,
    other_month,
    part_of,
    pool,
    words,
    write,
)

EVERY_PART = ("train", "validation", "test")

# --- days and formats -----------------------------------------------------------------------------------

WRITTEN = """
3 March 2021|3 Mar 21|3 Mar '21|3rd of March, 2021|the 3rd of March 2021|03 Mar 2021|3. March 2021|March 3rd, 2021
Mar. 3, 2021|March the 3rd, 2021|the third of March, 2021|March third, 2021|Wednesday, the third of March 2021
Wednesday, March 3, 2021|Wed, 3 Mar 2021|Wed Mar 03 2021|3 Mar 2021 (Wed)|3-Mar-2021|03Mar2021|Mar/03/2021
2021 March 3|2021-Mar-03|3.3.2021|03/03/21|3. 3. 2021|Wednesday, 03.03.2021|2021-03-03|2021. 3. 3|20210303
2021年3月3日|公元2021年3月3日|21年3月3号|2021年3月3日，星期三|2021年3月3日（周三）|周三 2021年3月3日|2021/3/3 周三
二〇二一年三月三日|二零二一年三月三日|二〇二一年三月三日 星期三|二一年三月三号
"""


def test_third_of_march_2021_as_written_by_hand():
    by_hand = {text for line in WRITTEN.split("\n") if line for text in line.split("|")}
    assert by_hand <= {write(Stated(2021, 3, 3), template) for template in FORMATS}
    assert len(set(FORMATS)) == len(FORMATS)
    assert {key for template in FORMATS for key in BRACES.findall(template)} == set(PARTS)


def test_square_brackets_offer_alternatives():
    assert alternatives("[the |]{nth}[,|] x") == ("the {nth}, x", "the {nth} x", "{nth}, x", "{nth} x")


@pytest.mark.parametrize(
    ("template", "day", "text"),
    [
        ("{nth}", Stated(2001, 1, 1), "1st"),
        ("{nth}", Stated(2001, 1, 2), "2nd"),
        ("{nth}", Stated(2001, 1, 11), "11th"),
        ("{nth}", Stated(2001, 1, 12), "12th"),
        ("{nth}", Stated(2001, 1, 13), "13th"),
        ("{nth}", Stated(2001, 1, 20), "20th"),
        ("{nth}", Stated(2001, 1, 23), "23rd"),
        ("{word}", Stated(2001, 1, 1), "first"),
        ("{word}", Stated(2001, 1, 12), "twelfth"),
        ("{word}", Stated(2001, 1, 20), "twentieth"),
        ("{word}", Stated(2001, 1, 21), "twenty-first"),
        ("{word}", Stated(2001, 1, 30), "thirtieth"),
        ("{words}", Stated(2001, 1, 31), "thirty first"),
        ("{abbr} {mon}", Stated(2001, 9, 1), "Sept. Sep"),
        ("{abbr}", Stated(2001, 5, 1), "May"),
        ("{zh_d}", Stated(2001, 1, 10), "十"),
        ("{zh_d}", Stated(2001, 1, 11), "十一"),
        ("{zh_d}", Stated(2001, 1, 20), "二十"),
        ("{zh_d}", Stated(2001, 1, 31), "三十一"),
        ("{zh_short}", Stated(2001, 1, 5), "五"),
        ("{zh_short}", Stated(2001, 1, 20), "廿"),
        ("{zh_short}", Stated(2001, 1, 21), "廿一"),
        ("{zh_short}", Stated(2001, 1, 31), "卅一"),
        ("{zh_m}", Stated(2001, 12, 1), "十二"),
        ("{zh_year}", Stated(2009, 1, 1), "二〇〇九"),
        ("{zh_year0}", Stated(2009, 1, 1), "二零零九"),
        ("{zh_yy}", Stated(2009, 1, 1), "〇九"),
        ("星期{zh_w}", Stated(2021, 3, 7), "星期日"),
        ("{wkd} {weekday}", Stated(2021, 3, 7), "Sun Sunday"),
        ("{yy}", Stated(1950, 1, 1), "50"),
        ("{yy}", Stated(2049, 1, 1), "49"),
        ("{mon} {mm} {dd}", Stated(2021, 9, 4), "Sep 09 04"),
    ],
)
def test_parts_of_a_date_as_written_by_hand(template, day, text):
    assert write(day, template) == text


@pytest.mark.slow
def test_every_text_has_one_reading():
    found: dict[str, Stated] = {}
    for day in (day for part in EVERY_PART for day in days(part)):
        if day.year in (2003, 2012):  # their last two digits may be a day or a month
            for template in FORMATS:
                assert found.setdefault(write(day, template), day) == day


def test_no_name_has_a_month_13_and_two_digits_are_no_year_1850():
    assert not can_write(Stated(2021, 13, 1), "{d} {month} {year}") and can_write(Stated(2021, 13, 1), "{d}.{m}.{year}")
    assert not can_write(Stated(1850, 1, 1), "{d}.{m}.{yy}") and can_write(Stated(1850, 1, 1), "{d}.{m}.{year}")


def test_parts_are_all_days_and_share_none():
    parts = [set(days(part)) for part in EVERY_PART]
    assert sum(map(len, parts)) == len(set.union(*parts)) == (LAST - FIRST).days + 1
    assert len(parts[2]) >= 2000
    assert all(part_of(day) == part for part in EVERY_PART for day in days(part)[::97])


@given(st.integers(0, 999), st.sampled_from(EVERY_PART))
def test_drawn_dates_are_of_their_part_known_characters_and_different_days(seed, part):
    drawn = draw(part, 100, random.Random(seed))
    assert drawn == draw(part, 100, random.Random(seed))
    assert len({iso for _, iso in drawn}) == 100
    for text, iso in drawn:
        assert part_of(iso) == part and is_date(iso)
        assert UNKNOWN not in SOURCE.encode(text)


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


# --- texts that are no date -----------------------------------------------------------------------------


@pytest.mark.parametrize("part", EVERY_PART)
def test_texts_that_are_no_date_are_of_their_part(part):
    generator = random.Random(0)
    drawn = [draw_no_date(part, generator) for _ in range(150)]
    again = random.Random(0)
    assert drawn == [draw_no_date(part, again) for _ in range(150)]
    for text, output in drawn:
        assert not is_date(output) and (output == NONE or output[4] == "-")
        assert 0 < len(text) <= LONGEST and text == text.strip()
        assert part_of(text.lower()) == part
    assert 0.4 < sum(output == NONE for _, output in drawn) / len(drawn) < 0.9
    assert any(UNKNOWN in SOURCE.encode(text) for text, _ in drawn)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_kind_gives_a_text_that_is_written_for_a_date(kind):
    generator = random.Random(0)
    texts = {kind("train", generator)[0] for _ in range(50)}
    assert len(texts) > 40
    assert not texts & {write(day, template) for day in days("train")[::50] for template in FORMATS}


def test_days_that_there_are_not_and_days_of_other_years_are_written_as_they_stand():
    generator = random.Random(0)
    outputs = {kind.__name__: [kind("train", generator)[1] for _ in range(200)] for kind in list(KINDS)[:3]}
    assert not any(is_day(output) for output in outputs["impossible"] + outputs["american"])
    assert all(output[5:7] > "12" and "00" < output[8:] <= "12" for output in outputs["american"])
    assert all(is_day(output) and not is_date(output) for output in outputs["other_year"])
    assert {"02-29", "02-30", "02-31"} <= {output[5:] for output in outputs["impossible"]}


def test_words_and_foreign_months_of_the_test_are_never_trained_on():
    for names in (WORDS, MONTHS_ELSEWHERE):
        parts = [{name.lower() for name in pool(names, part)} for part in EVERY_PART]
        assert all(len(part) >= 3 for part in parts)
        assert sum(map(len, parts)) == len(set.union(*parts))
    generator, known = random.Random(0), set(pool(WORDS, "test"))
    for _ in range(50):
        assert all(word in known or word.isdigit() for word in words("test", generator)[0].replace(",", "").split())


def test_no_made_up_month_is_a_month():
    texts = {other_month("train", random.Random(seed))[0] for seed in range(300)}
    assert any("ember" in text for text in texts)
    assert not texts & {write(day, template) for day in days("train")[::20] for template in FORMATS}
