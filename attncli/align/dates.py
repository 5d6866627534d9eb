"""Dates as people write them, in English and Chinese, and how they are drawn for training and for tests.

Every way of writing has one reading:
- years are 1950 to 2049, so a year of two digits is 19yy from 50 on and 20yy below;
- in numbers with dots, slashes, hyphens or spaces the day comes first, unless a year of four digits does: then the
  order is year, month, day. American month/day/year with numbers alone is not among them; with a name it is;
- eight digits without anything between them are year, month, day.
"""

import hashlib
import random
from datetime import date, timedelta
from functools import cache
from typing import Literal

Part = Literal["train", "validation", "test"]

FIRST, LAST = date(1950, 1, 1), date(2049, 12, 31)

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
CHINESE_DIGITS = "〇一二三四五六七八九"
CHINESE_WEEKDAYS = "一二三四五六日"

# What stands in braces: d 3, dd 03, nth 3rd, m 3, mm 03, mon Mar, month March, yy 21, year 2021, wkd Wed,
# weekday Wednesday; Chinese: zh_d, zh_m, zh_year (二〇二一), zh_year0 (二零二一), zh_w (三).
ENGLISH = (
    "{d} {month} {year}", "{d} {mon} {year}", "{d} {mon} {yy}", "{d} {mon} '{yy}", "{d} {month}, {year}",
    "{nth} {month} {year}", "{nth} {mon} {year}", "{nth} of {month} {year}", "{nth} of {month}, {year}",
    "the {nth} of {month} {year}", "the {nth} of {month}, {year}",
    "{month} {d}, {year}", "{month} {d} {year}", "{month} {nth}, {year}", "{month} {nth} {year}",
    "{month} the {nth}, {year}", "{mon} {d}, {year}", "{mon}. {d}, {year}", "{mon} {nth}, {year}", "{mon} {d} '{yy}",
    "{weekday}, {d} {month} {year}", "{weekday} {d} {month} {year}", "{weekday}, {month} {d}, {year}",
    "{weekday}, {month} {nth}, {year}", "{weekday}, the {nth} of {month} {year}",
    "{weekday} the {nth} of {month}, {year}", "{wkd} {d} {mon} {yy}", "{wkd} {d} {mon} {year}",
    "{wkd}, {dd} {mon} {year}", "{wkd}, {mon} {d}, {year}", "{wkd} {mon} {dd} {year}",
    "{d}-{mon}-{year}", "{dd}-{mon}-{yy}", "{d}/{mon}/{year}", "{dd}{mon}{year}",
    "{year} {month} {d}", "{year}, {month} {d}", "{year}-{mon}-{dd}",
)  # fmt: skip
NUMBERS = (
    "{dd}.{mm}.{year}", "{d}.{m}.{year}", "{d}. {m}. {year}", "{dd}.{mm}.{yy}",
    "{dd}/{mm}/{year}", "{d}/{m}/{year}", "{dd}/{mm}/{yy}", "{dd}-{mm}-{year}", "{dd} {mm} {year}",
    "{weekday} {dd}/{mm}/{year}", "{wkd} {dd}.{mm}.{yy}",
    "{year}-{mm}-{dd}", "{year}-{m}-{d}", "{year}/{mm}/{dd}", "{year}/{m}/{d}", "{year}.{mm}.{dd}", "{year}.{m}.{d}",
    "{year}{mm}{dd}",
)  # fmt: skip
CHINESE = (
    "{year}年{m}月{d}日", "{year}年{mm}月{dd}日", "{year} 年 {m} 月 {d} 日", "{year}年{m}月{d}号",
    "公元{year}年{m}月{d}日", "{yy}年{m}月{d}日", "{yy}年{m}月{d}日 星期{zh_w}", "{yy}年{m}月{d}号 周{zh_w}",
    "{year}年{m}月{d}日 星期{zh_w}", "{year}年{m}月{d}日星期{zh_w}", "{year}年{m}月{d}日，星期{zh_w}",
    "{year}年{m}月{d}日（周{zh_w}）", "{year}年{m}月{d}号 礼拜{zh_w}", "星期{zh_w}，{year}年{m}月{d}日",
    "周{zh_w} {year}年{m}月{d}日", "{year}-{mm}-{dd} 星期{zh_w}", "{year}/{m}/{d} 周{zh_w}",
    "{zh_year}年{zh_m}月{zh_d}日", "{zh_year0}年{zh_m}月{zh_d}日", "{zh_year}年{zh_m}月{zh_d}号",
    "{zh_year}年{zh_m}月{zh_d}日 星期{zh_w}", "{zh_year0}年{zh_m}月{zh_d}日（周{zh_w}）",
    "公元{zh_year}年{zh_m}月{zh_d}日",
)  # fmt: skip
FORMATS = ENGLISH + NUMBERS + CHINESE
# No dates: something is missing.
INCOMPLETE = (
    "{d} {month}", "{month} {nth}", "{month} {year}", "{mon} '{yy}", "{weekday}", "{wkd} {d}", "{year}", "{dd}.{mm}.",
    "{year}年", "{year}年{m}月", "{m}月{d}日", "{zh_m}月{zh_d}日", "星期{zh_w}",
)  # fmt: skip
CASES = (str, str, str.upper, str.lower)  # half of them as a careful person writes


def write(day: date, template: str) -> str:
    """`day` in one of FORMATS."""
    month, weekday = MONTHS[day.month - 1], WEEKDAYS[day.weekday()]
    chinese_year = "".join(CHINESE_DIGITS[int(digit)] for digit in str(day.year))
    return template.format(
        d=day.day,
        dd=f"{day.day:02}",
        nth=ordinal(day.day),
        m=day.month,
        mm=f"{day.month:02}",
        mon=month[:3],
        month=month,
        yy=f"{day.year % 100:02}",
        year=day.year,
        wkd=weekday[:3],
        weekday=weekday,
        zh_d=chinese_number(day.day),
        zh_m=chinese_number(day.month),
        zh_year=chinese_year,
        zh_year0=chinese_year.replace("〇", "零"),
        zh_w=CHINESE_WEEKDAYS[day.weekday()],
    )


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, ..., 11th, 12th, 13th, ..., 21st; of 1 to 99."""
    ending = "th" if number // 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def chinese_number(number: int) -> str:
    """1 to 99 as it is said: 三, 十, 十二, 二十, 三十一."""
    tens, ones = divmod(number, 10)
    ten = "" if tens == 0 else "十" if tens == 1 else CHINESE_DIGITS[tens] + "十"
    return ten + (CHINESE_DIGITS[ones] if ones else "")


def part_of(day: date) -> Part:
    """Which part a calendar day belongs to, by a hash: 1 in 20 to validation, 1 in 10 to the test, all others to train.

    However it is written, a day is in one part only: no date of the test was ever seen in training.
    """
    place = hashlib.sha256(day.isoformat().encode()).digest()[0] * 20 // 256
    return "validation" if place == 0 else "test" if place in (1, 2) else "train"


@cache
def days(part: Part) -> tuple[date, ...]:
    """All days of a part, in their order."""
    every = (FIRST + timedelta(days=number) for number in range((LAST - FIRST).days + 1))
    return tuple(day for day in every if part_of(day) == part)


def draw(part: Part, count: int, generator: random.Random) -> list[tuple[str, str]]:
    """`count` dates of a part as (text, ISO date): the day, the format and the case by chance.

    Days do not repeat, so long as there are enough of them: "2,000 dates" are 2,000 days.
    """
    pool = days(part)
    chosen = generator.sample(pool, count) if count <= len(pool) else generator.choices(pool, k=count)
    return [(generator.choice(CASES)(write(day, generator.choice(FORMATS))), day.isoformat()) for day in chosen]


def draw_no_date(generator: random.Random, alphabet: str) -> str:
    """A text that is no day of 1950 to 2049: incomplete, of another year, or characters of `alphabet` by chance."""
    kind = generator.randrange(3)
    if kind == 0:
        return generator.choice(CASES)(write(generator.choice(days("train")), generator.choice(INCOMPLETE)))
    if kind == 1:
        year = generator.choice([*range(1000, FIRST.year), *range(LAST.year + 1, 3000)])
        day = date(year, 1, 1) + timedelta(days=generator.randrange(365))
        whole = [template for template in FORMATS if "{yy}" not in template]
        return generator.choice(CASES)(write(day, generator.choice(whole)))
    return "".join(generator.choices(alphabet, k=generator.randint(1, 20)))
