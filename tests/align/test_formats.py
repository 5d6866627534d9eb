"""Dates as people write them: every format by hand, one reading each, and what is read in any text."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.align.characters import SOURCE, UNKNOWN
from attncli.align.dates import FIRST, LAST, days
from attncli.align.formats import BRACES, CASES, FORMATS, PARTS, Stated, can_write, loosened, read, write

WRITTEN = """
3 March 2021|3 Mar 2021|3 Mar 21|3 Mar '21|3 March, 2021|3rd March 2021|3rd Mar 2021|3rd of March 2021
3rd of March, 2021|the 3rd of March 2021|the 3rd of March, 2021|3 March 21|3 March '21|3 March, 21|3 Mar, 2021
3 Mar, 21|3 of March 2021|03 March 2021|03 Mar 2021|3 March 2021|3rd March, 2021|3. March 2021|3 Mar. 2021
3 March,2021|3rd March '21|3rd Mar 21|3rd Mar '21|3rd of Mar 2021|3rd of March '21|March 3, 2021|March 3 2021
March 3rd, 2021|March 3rd 2021|March the 3rd, 2021|Mar 3, 2021|Mar. 3, 2021|Mar 3rd, 2021|Mar 3 '21|March 3, 21
March 3, '21|March 3 '21|March 3rd, '21|March 3rd '21|Mar 3 2021|Mar 3, 21|Mar 3, '21|Mar 03, 2021|Mar 3rd 2021
Mar 3rd '21|Mar. 3rd, 2021|March 3, 2021|March 3,2021|Mar 3,2021|Mar. 3 2021|the third of March, 2021
the third of March 2021|third of March, 2021|third of March 2021|third March 2021|March third, 2021
March third 2021|March the third, 2021|Wednesday, the third of March 2021|the third of March 2021
March third, 2021|Wednesday, 3 March 2021|Wednesday 3 March 2021|Wednesday, March 3, 2021
Wednesday, March 3rd, 2021|Wednesday, the 3rd of March 2021|Wednesday the 3rd of March, 2021|Wed 3 Mar 21
Wed 3 Mar 2021|Wed, 03 Mar 2021|Wed, Mar 3, 2021|Wed Mar 03 2021|Wednesday March 3, 2021|Wednesday 3 Mar 2021
Wednesday 3rd March 2021|Wed, 3 Mar 2021|Wed Mar 3, 2021|Wed 3rd Mar 2021|3 March 2021, Wednesday
3 Mar 2021 (Wed)|3-Mar-2021|03-Mar-21|3/Mar/2021|03Mar2021|3-Mar-21|03-Mar-2021|3-March-2021|03/Mar/2021
03/Mar/21|3.Mar.2021|3Mar2021|03Mar21|Mar-3-2021|Mar-03-2021|Mar-03-21|March-3-2021|Mar/3/2021|Mar/03/2021
2021 March 3|2021, March 3|2021-Mar-03|2021 Mar 3|2021 Mar 03|2021/Mar/03|2021-March-3|2021, 3 March
03.03.2021|3.3.2021|3. 3. 2021|03.03.21|03/03/2021|3/3/2021|03/03/21|03-03-2021|03 03 2021|3.3.21|3. 3. 21
3/3/21|3-3-21|03-03-21|3-3-2021|3 3 2021|3 3 21|03 03 21|3.03.2021|3.03.21|3/03/2021|3/03/21|03.3.2021|03/3/2021
03. 03. 2021|03 / 03 / 2021|Wednesday 03/03/2021|Wed 03.03.21|Wednesday 3/3/2021|Wednesday, 03.03.2021
Wed 3.3.21|Wed 3/3/21|2021-03-03|2021-3-3|2021/03/03|2021/3/3|2021.03.03|2021.3.3|2021 03 03|2021 3 3|2021. 3. 3
2021. 03. 03|Wed 2021-03-03|2021-03-03 (Wed)|20210303
2021年3月3日|2021年03月03日|2021 年 3 月 3 日|2021年3月3号|公元2021年3月3日|21年3月3日|21年3月3日 星期三
21年3月3号 周三|21年3月3号|21年03月03日|2021年03月03号|2021 年 03 月 03 日|2021年3月3號|2021年3月3日 星期三
2021年3月3日星期三|2021年3月3日，星期三|2021年3月3日（周三）|2021年3月3号 礼拜三|星期三，2021年3月3日
周三 2021年3月3日|2021-03-03 星期三|2021/3/3 周三|2021年3月3日（星期三）|2021年3月3日 周三|2021年3月3日 星期三
2021年3月3号 礼拜三|2021年3月3日 週三|2021.03.03 周三|二〇二一年三月三日|二零二一年三月三日|二〇二一年三月三号
二〇二一年三月三日 星期三|二零二一年三月三日（周三）|公元二〇二一年三月三日|二〇二一年三月三日
二零二一年三月三日|二零二一年三月三号|二〇二一年3月3日|二一年三月三日|二一年三月三日|二一年三月三号
二一年三月三日 星期三|二一年三月三日
"""

any_day = st.dates(FIRST, LAST)
any_format = st.sampled_from(FORMATS)


def test_third_of_march_2021_in_every_format_as_written_by_hand():
    by_hand = [text for line in WRITTEN.split("\n") if line for text in line.split("|")]
    assert [write(date(2021, 3, 3), template) for template in FORMATS] == by_hand
    assert len(set(FORMATS)) == len(FORMATS)


def test_every_part_is_in_some_format():
    assert {key for template in FORMATS for key in BRACES.findall(template)} == set(PARTS)


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
        ("{word}", date(2001, 1, 1), "first"),
        ("{word}", date(2001, 1, 12), "twelfth"),
        ("{word}", date(2001, 1, 20), "twentieth"),
        ("{word}", date(2001, 1, 21), "twenty-first"),
        ("{word}", date(2001, 1, 30), "thirtieth"),
        ("{words}", date(2001, 1, 31), "thirty first"),
        ("{abbr} {mon}", date(2001, 9, 1), "Sept. Sep"),
        ("{abbr}", date(2001, 5, 1), "May"),
        ("{zh_d}", date(2001, 1, 10), "十"),
        ("{zh_d}", date(2001, 1, 11), "十一"),
        ("{zh_d}", date(2001, 1, 20), "二十"),
        ("{zh_d}", date(2001, 1, 31), "三十一"),
        ("{zh_short}", date(2001, 1, 5), "五"),
        ("{zh_short}", date(2001, 1, 20), "廿"),
        ("{zh_short}", date(2001, 1, 21), "廿一"),
        ("{zh_short}", date(2001, 1, 31), "卅一"),
        ("{zh_m}", date(2001, 12, 1), "十二"),
        ("{zh_year}", date(2009, 1, 1), "二〇〇九"),
        ("{zh_year0}", date(2009, 1, 1), "二零零九"),
        ("{zh_yy} {zh_yy0}", date(2009, 1, 1), "〇九 零九"),
        ("星期{zh_w} 星期{zh_t}", date(2021, 3, 7), "星期日 星期天"),
        ("{wkd} {weekday}", date(2021, 3, 7), "Sun Sunday"),
        ("{yy}", date(1950, 1, 1), "50"),
        ("{yy}", date(2049, 1, 1), "49"),
        ("{mon} {mm} {dd}", date(2021, 9, 4), "Sep 09 04"),
    ],
)
def test_parts_of_a_date_as_written_by_hand(template, day, text):
    assert write(day, template) == text


@pytest.mark.slow
def test_every_text_has_one_reading():
    found: dict[str, date] = {}
    for day in (day for part in ("train", "validation", "test") for day in days(part)):
        if day.year in (2003, 2012):  # their last two digits may be a day or a month
            for template in FORMATS:
                assert found.setdefault(write(day, template), day) == day


@given(any_day, any_format, st.sampled_from(CASES), st.sampled_from(["", ".", ","]))
def test_what_is_written_is_read_in_any_case(day, template, case, end):
    text = case(write(day, template)) + end
    assert str(read(text)) == day.isoformat()
    assert UNKNOWN not in SOURCE.encode(text)


@given(any_day, st.sampled_from([loose for template in FORMATS for loose in loosened(template)]))
def test_zeros_and_short_years_are_read_where_one_reading_is_left(day, template):
    assert str(read(write(day, template))) == day.isoformat()


@given(st.builds(Stated, st.integers(1000, 2999), st.integers(0, 99), st.integers(0, 99)), any_format)
def test_what_is_stated_is_read_as_it_stands_where_a_format_has_words_for_it(stated, template):
    if can_write(stated, template):
        assert read(write(stated, template)) == stated


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("32 March 2020", "2020-03-32"),
        ("12/25/2021", "2021-25-12"),
        ("31.04.21", "2021-04-31"),
        ("0/5/2021", "2021-05-00"),
        ("一九八〇年十三月一日", "1980-13-01"),
        ("1 January 2050", "2050-01-01"),
        ("Monday, 3 March 2021", "2021-03-03"),  # it was a Wednesday
        ("３  Ｍarch 2021", "2021-03-03"),
        ("2021-3-03", "2021-03-03"),
        ("July 19 69", "1969-07-19"),
        ("49 7 19", "2019-07-49"),  # the day is first, also where there is none
    ],
)
def test_what_is_stated_by_hand(text, stated):
    assert str(read(text)) == stated


@pytest.mark.parametrize(
    "text",
    [
        "",
        "3 March",
        "030321",
        "2021111",
        "二一年三月",
        "3rd of Octember 2021",
        "3 марта 2021",
        "2th March 2021",
        "032 March 2021",
        "3 March 20212",
        "twentyfirst of May 2021",
        "on 3 March 2021",
        "3 March 2021 10.30",
        "3 March 2021 4 April 2021",
    ],
)
def test_what_is_in_no_format_is_not_read(text):
    assert read(text) is None


def test_no_name_has_a_month_13_and_two_digits_are_no_year_1850():
    assert not can_write(Stated(2021, 13, 1), "{d} {month} {year}") and can_write(Stated(2021, 13, 1), "{d}.{m}.{year}")
    assert not can_write(Stated(1850, 1, 1), "{d}.{m}.{yy}") and can_write(Stated(1850, 1, 1), "{d}.{m}.{year}")
    assert not can_write(Stated(2021, 1, 0), "{zh_d}")
