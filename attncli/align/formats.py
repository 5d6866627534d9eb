"""Dates as people write them, in English and Chinese: written in a format, and read back by all of them.

Every way of writing has one reading:
- a year of two digits is 1950 to 2049: 19yy from 50 on and 20yy below;
- in numbers with dots, slashes, hyphens or spaces the day comes first, unless a year of four digits does: then the
  order is year, month, day. American month/day/year with numbers alone is not among them; with a name it is;
- eight digits without anything between them are year, month, day;
- a weekday says nothing: it is read over, also where it is not that of the day.
"""

import re
from collections.abc import Callable
from datetime import date
from functools import cache
from itertools import chain
from typing import NamedTuple

from attncli.align.characters import plain

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
# As newspapers have them.
ABBREVIATIONS = ("Jan.", "Feb.", "March", "April", "May", "June", "July", "Aug.", "Sept.", "Oct.", "Nov.", "Dec.")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
CHINESE_DIGITS = "〇一二三四五六七八九"
ORDINALS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth",
    "twentieth",
)  # fmt: skip

# What stands in braces is one of PARTS.
ENGLISH = (
    "{d} {month} {year}", "{d} {mon} {year}", "{d} {mon} {yy}", "{d} {mon} '{yy}", "{d} {month}, {year}",
    "{nth} {month} {year}", "{nth} {mon} {year}", "{nth} of {month} {year}", "{nth} of {month}, {year}",
    "the {nth} of {month} {year}", "the {nth} of {month}, {year}",
    "{d} {month} {yy}", "{d} {month} '{yy}", "{d} {month}, {yy}", "{d} {mon}, {year}", "{d} {mon}, {yy}",
    "{d} of {month} {year}", "{dd} {month} {year}", "{dd} {mon} {year}", "{d} {abbr} {year}", "{nth} {month}, {year}",
    "{d}. {month} {year}", "{d} {mon}. {year}", "{d} {month},{year}",
    "{nth} {month} '{yy}", "{nth} {mon} {yy}", "{nth} {mon} '{yy}", "{nth} of {mon} {year}", "{nth} of {month} '{yy}",
    "{month} {d}, {year}", "{month} {d} {year}", "{month} {nth}, {year}", "{month} {nth} {year}",
    "{month} the {nth}, {year}", "{mon} {d}, {year}", "{mon}. {d}, {year}", "{mon} {nth}, {year}", "{mon} {d} '{yy}",
    "{month} {d}, {yy}", "{month} {d}, '{yy}", "{month} {d} '{yy}", "{month} {nth}, '{yy}", "{month} {nth} '{yy}",
    "{mon} {d} {year}", "{mon} {d}, {yy}", "{mon} {d}, '{yy}", "{mon} {dd}, {year}", "{mon} {nth} {year}",
    "{mon} {nth} '{yy}", "{mon}. {nth}, {year}", "{abbr} {d}, {year}",
    "{month} {d},{year}", "{mon} {d},{year}", "{mon}. {d} {year}",
    "the {word} of {month}, {year}", "the {word} of {month} {year}", "{word} of {month}, {year}",
    "{word} of {month} {year}", "{word} {month} {year}", "{month} {word}, {year}", "{month} {word} {year}",
    "{month} the {word}, {year}", "{weekday}, the {word} of {month} {year}", "the {words} of {month} {year}",
    "{month} {words}, {year}",
    "{weekday}, {d} {month} {year}", "{weekday} {d} {month} {year}", "{weekday}, {month} {d}, {year}",
    "{weekday}, {month} {nth}, {year}", "{weekday}, the {nth} of {month} {year}",
    "{weekday} the {nth} of {month}, {year}", "{wkd} {d} {mon} {yy}", "{wkd} {d} {mon} {year}",
    "{wkd}, {dd} {mon} {year}", "{wkd}, {mon} {d}, {year}", "{wkd} {mon} {dd} {year}",
    "{weekday} {month} {d}, {year}", "{weekday} {d} {mon} {year}", "{weekday} {nth} {month} {year}",
    "{wkd}, {d} {mon} {year}", "{wkd} {mon} {d}, {year}", "{wkd} {nth} {mon} {year}", "{d} {month} {year}, {weekday}",
    "{d} {mon} {year} ({wkd})",
    "{d}-{mon}-{year}", "{dd}-{mon}-{yy}", "{d}/{mon}/{year}", "{dd}{mon}{year}",
    "{d}-{mon}-{yy}", "{dd}-{mon}-{year}", "{d}-{month}-{year}", "{dd}/{mon}/{year}", "{dd}/{mon}/{yy}",
    "{d}.{mon}.{year}", "{d}{mon}{year}", "{dd}{mon}{yy}",
    "{mon}-{d}-{year}", "{mon}-{dd}-{year}", "{mon}-{dd}-{yy}", "{month}-{d}-{year}", "{mon}/{d}/{year}",
    "{mon}/{dd}/{year}",
    "{year} {month} {d}", "{year}, {month} {d}", "{year}-{mon}-{dd}",
    "{year} {mon} {d}", "{year} {mon} {dd}", "{year}/{mon}/{dd}", "{year}-{month}-{d}", "{year}, {d} {month}",
)  # fmt: skip
NUMBERS = (
    "{dd}.{mm}.{year}", "{d}.{m}.{year}", "{d}. {m}. {year}", "{dd}.{mm}.{yy}",
    "{dd}/{mm}/{year}", "{d}/{m}/{year}", "{dd}/{mm}/{yy}", "{dd}-{mm}-{year}", "{dd} {mm} {year}",
    "{d}.{m}.{yy}", "{d}. {m}. {yy}", "{d}/{m}/{yy}", "{d}-{m}-{yy}", "{dd}-{mm}-{yy}", "{d}-{m}-{year}",
    "{d} {m} {year}", "{d} {m} {yy}", "{dd} {mm} {yy}", "{d}.{mm}.{year}", "{d}.{mm}.{yy}", "{d}/{mm}/{year}",
    "{d}/{mm}/{yy}", "{dd}.{m}.{year}", "{dd}/{m}/{year}", "{dd}. {mm}. {year}", "{dd} / {mm} / {year}",
    "{weekday} {dd}/{mm}/{year}", "{wkd} {dd}.{mm}.{yy}",
    "{weekday} {d}/{m}/{year}", "{weekday}, {dd}.{mm}.{year}", "{wkd} {d}.{m}.{yy}", "{wkd} {d}/{m}/{yy}",
    "{year}-{mm}-{dd}", "{year}-{m}-{d}", "{year}/{mm}/{dd}", "{year}/{m}/{d}", "{year}.{mm}.{dd}", "{year}.{m}.{d}",
    "{year} {mm} {dd}", "{year} {m} {d}", "{year}. {m}. {d}", "{year}. {mm}. {dd}", "{wkd} {year}-{mm}-{dd}",
    "{year}-{mm}-{dd} ({wkd})",
    "{year}{mm}{dd}",
)  # fmt: skip
CHINESE = (
    "{year}年{m}月{d}日", "{year}年{mm}月{dd}日", "{year} 年 {m} 月 {d} 日", "{year}年{m}月{d}号",
    "公元{year}年{m}月{d}日", "{yy}年{m}月{d}日", "{yy}年{m}月{d}日 星期{zh_w}", "{yy}年{m}月{d}号 周{zh_w}",
    "{yy}年{m}月{d}号", "{yy}年{mm}月{dd}日", "{year}年{mm}月{dd}号", "{year} 年 {mm} 月 {dd} 日", "{year}年{m}月{d}號",
    "{year}年{m}月{d}日 星期{zh_w}", "{year}年{m}月{d}日星期{zh_w}", "{year}年{m}月{d}日，星期{zh_w}",
    "{year}年{m}月{d}日（周{zh_w}）", "{year}年{m}月{d}号 礼拜{zh_w}", "星期{zh_w}，{year}年{m}月{d}日",
    "周{zh_w} {year}年{m}月{d}日", "{year}-{mm}-{dd} 星期{zh_w}", "{year}/{m}/{d} 周{zh_w}",
    "{year}年{m}月{d}日（星期{zh_w}）", "{year}年{m}月{d}日 周{zh_w}", "{year}年{m}月{d}日 星期{zh_t}",
    "{year}年{m}月{d}号 礼拜{zh_t}", "{year}年{m}月{d}日 週{zh_w}", "{year}.{mm}.{dd} 周{zh_w}",
    "{zh_year}年{zh_m}月{zh_d}日", "{zh_year0}年{zh_m}月{zh_d}日", "{zh_year}年{zh_m}月{zh_d}号",
    "{zh_year}年{zh_m}月{zh_d}日 星期{zh_w}", "{zh_year0}年{zh_m}月{zh_d}日（周{zh_w}）",
    "公元{zh_year}年{zh_m}月{zh_d}日",
    "{zh_year}年{zh_m}月{zh_short}日", "{zh_year0}年{zh_m}月{zh_short}日", "{zh_year0}年{zh_m}月{zh_d}号",
    "{zh_year}年{m}月{d}日", "{zh_yy}年{zh_m}月{zh_d}日", "{zh_yy0}年{zh_m}月{zh_d}日", "{zh_yy}年{zh_m}月{zh_d}号",
    "{zh_yy}年{zh_m}月{zh_d}日 星期{zh_w}", "{zh_yy}年{zh_m}月{zh_short}日",
)  # fmt: skip
FORMATS = ENGLISH + NUMBERS + CHINESE
CASES = (str, str, str.upper, str.lower)  # half of them as a careful person writes


class Stated(NamedTuple):
    """A year, a month and a day as a text states them, whether or not there is such a day."""

    year: int
    month: int
    day: int

    def weekday(self) -> int:
        """Any: a day that there is not has none."""
        return sum(self) % len(WEEKDAYS)

    def __str__(self) -> str:
        return f"{self.year:04}-{self.month:02}-{self.day:02}"


class Part(NamedTuple):
    """A part of a date: which it is (year, month, day, weekday), the numbers it can have, and how they are written."""

    field: str
    numbers: range
    write: Callable[[int], str]


def two_digits(number: int) -> str:
    """3 -> 03, 2021 -> 21."""
    return f"{number % 100:02}"


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, ..., 11th, 12th, 13th, ..., 21st; of 0 to 99."""
    ending = "th" if number // 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def ordinal_word(number: int) -> str:
    """first, ..., twentieth, twenty-first, ..., thirtieth, thirty-first; of 1 to 39."""
    if number <= len(ORDINALS):
        return ORDINALS[number - 1]
    ten = {2: "twent", 3: "thirt"}[number // 10]
    return f"{ten}y-{ORDINALS[number % 10 - 1]}" if number % 10 else f"{ten}ieth"


def chinese_number(number: int) -> str:
    """1 to 99 as it is said: 三, 十, 十二, 二十, 三十一."""
    tens, ones = divmod(number, 10)
    ten = "" if tens == 0 else "十" if tens == 1 else CHINESE_DIGITS[tens] + "十"
    return ten + (CHINESE_DIGITS[ones] if ones else "")


def chinese_digits(number: int) -> str:
    """A year digit by digit: 二〇二一."""
    return "".join(CHINESE_DIGITS[int(digit)] for digit in f"{number:04}")


YEARS, MONTH_NUMBERS, NAMED_MONTHS, DAYS = range(1000, 3000), range(100), range(1, 13), range(100)
SHORT_YEARS = range(1950, 2050)
PARTS = {
    "d": Part("day", DAYS, str),
    "dd": Part("day", DAYS, two_digits),
    "nth": Part("day", DAYS, ordinal),
    "word": Part("day", range(1, 40), ordinal_word),  # twenty-first
    "words": Part("day", range(1, 40), lambda day: ordinal_word(day).replace("-", " ")),
    "m": Part("month", MONTH_NUMBERS, str),
    "mm": Part("month", MONTH_NUMBERS, two_digits),
    "month": Part("month", NAMED_MONTHS, lambda month: MONTHS[month - 1]),
    "mon": Part("month", NAMED_MONTHS, lambda month: MONTHS[month - 1][:3]),
    "abbr": Part("month", NAMED_MONTHS, lambda month: ABBREVIATIONS[month - 1]),
    "year": Part("year", YEARS, str),
    "yy": Part("year", SHORT_YEARS, two_digits),
    "weekday": Part("weekday", range(7), lambda weekday: WEEKDAYS[weekday]),
    "wkd": Part("weekday", range(7), lambda weekday: WEEKDAYS[weekday][:3]),
    "zh_d": Part("day", range(1, 100), chinese_number),
    "zh_short": Part("day", range(1, 40), lambda day: chinese_number(day).replace("二十", "廿").replace("三十", "卅")),
    "zh_m": Part("month", range(1, 100), chinese_number),
    "zh_year": Part("year", YEARS, chinese_digits),
    "zh_year0": Part("year", YEARS, lambda year: chinese_digits(year).replace("〇", "零")),
    "zh_yy": Part("year", SHORT_YEARS, lambda year: chinese_digits(year)[2:]),
    "zh_yy0": Part("year", SHORT_YEARS, lambda year: chinese_digits(year)[2:].replace("〇", "零")),
    "zh_w": Part("weekday", range(7), lambda weekday: "一二三四五六日"[weekday]),
    "zh_t": Part("weekday", range(7), lambda weekday: "一二三四五六天"[weekday]),
}
BRACES = re.compile(r"\{(\w+)\}")


def value(day: date | Stated, field: str) -> int:
    """The number of a part of a day; Monday is 0."""
    return day.weekday() if field == "weekday" else int(getattr(day, field))


def can_write(day: date | Stated, template: str) -> bool:
    """Whether a format has words for the day: no name has a month 13, and two digits are no year 1850."""
    return all(value(day, PARTS[key].field) in PARTS[key].numbers for key in BRACES.findall(template))


def write(day: date | Stated, template: str) -> str:
    """A day in one of FORMATS, which can write it."""
    return BRACES.sub(lambda key: PARTS[key[1]].write(value(day, PARTS[key[1]].field)), template)


def read(text: str) -> Stated | None:
    """What a text states, be there such a day or not; None when it is in none of FORMATS.

    Case makes no difference, nor how wide a space is, nor a full stop or a comma after it. Nor does a zero before a
    number, or a year of two digits in the place of four, where there is still one reading: FORMATS need not have all
    of these.
    """
    text = " ".join("".join(map(plain, text)).rstrip(" .,").split())
    for pattern, keys in patterns():
        found = pattern.fullmatch(text)
        if found:
            parts = list(zip(keys, found.groups(), strict=True))
            if all(part in numbers_of(key) for key, part in parts):
                numbers = {PARTS[key].field: numbers_of(key)[part] for key, part in parts}
                return Stated(numbers["year"], numbers["month"], numbers["day"])
    return None


@cache
def numbers_of(key: str) -> dict[str, int]:
    """What is written of a part -> its number."""
    part = PARTS[key]
    found = {"".join(map(plain, part.write(number))): number for number in part.numbers}
    return found | {two_digits(number): number for number in part.numbers} if key in ("d", "m") else found


def loosened(template: str) -> list[str]:
    """A format with numbers of one digit or two, and the same with a year of two digits where that can't be a day."""
    if "}{" not in template:  # where numbers touch, zeros tell them apart
        template = template.replace("{dd}", "{d}").replace("{mm}", "{m}")
    short = template.replace("year}", "yy}").replace("year0}", "yy0}")
    year_is_last = template.find("year") > template.find("{m") > -1
    return [template, short] if year_is_last or "年" in template else [template]


@cache
def patterns() -> list[tuple[re.Pattern[str], list[str]]]:
    """What can be read as patterns, a group for each part, and these parts: right letters, not yet right names."""
    classes = {}
    for key in PARTS:
        texts = numbers_of(key)
        lengths = sorted(map(len, texts))
        letters = "".join(re.escape(letter) for letter in sorted(set("".join(texts))))
        classes[key] = f"([{letters}]{{{lengths[0]},{lengths[-1]}}})"
    found = []
    for loose in dict.fromkeys(chain.from_iterable(map(loosened, FORMATS))):
        pieces = BRACES.split(loose)  # literal, part, literal, part, ..., literal
        pieces[::2] = [re.escape("".join(map(plain, literal))) for literal in pieces[::2]]
        keys = pieces[1::2]
        pieces[1::2] = [classes[key] for key in keys]
        found.append((re.compile("".join(pieces)), keys))
    return found
