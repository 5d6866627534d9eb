"""Draw dates as people write them, in English and Chinese, and texts that are no date.

Every way of writing has one reading:
- a year of two digits is 1950 to 2049: 19yy from 50 on and 20yy below;
- in numbers with dots, slashes, hyphens or spaces the day comes first, unless a year of four digits does: then the
  order is year, month, day. American month/day/year with numbers alone is not among them; with a name it is;
- eight digits without anything between them are year, month, day;
- a weekday is ignored, even a wrong one.

A text in the form of a date is written as it stands, 2021-02-31. A calendar, not the network, decides whether the day
exists. The output for every other text is NONE.

A hash puts each day, text and word into one part: training, validation or test. So nothing of the test is trained on.
"""

import hashlib
import random
import re
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from functools import cache
from itertools import product
from typing import Any, Literal, NamedTuple

from attncli.align.characters import NONE, SOURCE

Part = Literal["train", "validation", "test"]
Generator = random.Random

FIRST, LAST = date(1950, 1, 1), date(2049, 12, 31)

# --- days -----------------------------------------------------------------------------------------------


class Stated(NamedTuple):
    """A year, a month and a day as a text states them. The day need not exist."""

    year: int
    month: int
    day: int

    def __str__(self) -> str:
        return f"{self.year:04}-{self.month:02}-{self.day:02}"


def is_day(output: str) -> bool:
    """Return whether a text is YYYY-MM-DD, a day that exists, in any year."""
    try:
        return date.fromisoformat(output).isoformat() == output
    except ValueError:
        return False


def is_date(output: str) -> bool:
    """Return whether a text is YYYY-MM-DD, a day from FIRST to LAST."""
    return is_day(output) and FIRST <= date.fromisoformat(output) <= LAST


def part_of(thing: object) -> Part:
    """Return the part of a day, a text or a word, by its hash: 1 in 20 to validation, 1 in 10 to the test."""
    place = hashlib.sha256(str(thing).encode()).digest()[0] * 20 // 256
    return "validation" if place == 0 else "test" if place in (1, 2) else "train"


@cache
def days(part: Part) -> tuple[date, ...]:
    """Return all days of a part, in order."""
    every = (FIRST + timedelta(days=number) for number in range((LAST - FIRST).days + 1))
    return tuple(day for day in every if part_of(day) == part)


# --- formats --------------------------------------------------------------------------------------------

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
NEWSPAPER = ("Jan.", "Feb.", "March", "April", "May", "June", "July", "Aug.", "Sept.", "Oct.", "Nov.", "Dec.")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
CHINESE_DIGITS = "〇一二三四五六七八九"


def _ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, ..., 11th, 12th, 13th, ..., 21st; for 0 to 99."""
    ending = "th" if number // 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _chinese_number(number: int) -> str:
    """三, 十, 十二, 二十, 三十一; for 1 to 99."""
    tens, ones = divmod(number, 10)
    ten = "" if tens == 0 else "十" if tens == 1 else CHINESE_DIGITS[tens] + "十"
    return ten + (CHINESE_DIGITS[ones] if ones else "")


def _chinese_year(year: int) -> str:
    """二〇二一"""
    return "".join(CHINESE_DIGITS[int(digit)] for digit in f"{year:04}")


# The parts of a format, which stand in braces.
PARTS: dict[str, Callable[[Any], str]] = {
    "d": lambda day: str(day.day),
    "dd": lambda day: f"{day.day:02}",
    "nth": lambda day: _ordinal(day.day),
    "m": lambda day: str(day.month),
    "mm": lambda day: f"{day.month:02}",
    "month": lambda day: MONTHS[day.month - 1],
    "mon": lambda day: MONTHS[day.month - 1][:3],
    "abbr": lambda day: NEWSPAPER[day.month - 1],
    "year": lambda day: str(day.year),
    "yy": lambda day: f"{day.year % 100:02}",
    "weekday": lambda day: WEEKDAYS[day.weekday()],
    "wkd": lambda day: WEEKDAYS[day.weekday()][:3],
    "zh_d": lambda day: _chinese_number(day.day),
    "zh_short": lambda day: _chinese_number(day.day).replace("二十", "廿").replace("三十", "卅"),
    "zh_m": lambda day: _chinese_number(day.month),
    "zh_year": lambda day: _chinese_year(day.year),
    "zh_year0": lambda day: _chinese_year(day.year).replace("〇", "零"),
    "zh_yy": lambda day: _chinese_year(day.year)[2:],
    "zh_w": lambda day: "一二三四五六日"[day.weekday()],
}
BRACES = re.compile(r"\{(\w+)\}")


def _alternatives(*templates: str) -> tuple[str, ...]:
    """Return every choice that square brackets offer: "[the |]{nth}" -> "the {nth}" and "{nth}"."""
    found = []
    for template in templates:
        pieces = [piece.split("|") for piece in re.split(r"[\[\]]", template)]
        found += ["".join(chosen) for chosen in product(*pieces)]
    return tuple(dict.fromkeys(found))


ENGLISH = _alternatives(
    "[{d}|{dd}|{nth}] [{month}|{mon}] {year}", "[{d}|{nth}] [{month}|{mon}] [|']{yy}", "[{d}|{nth}] {month}, {year}",
    "{d} {mon}, {year}", "{d} {abbr} {year}", "{d}. {month} {year}", "{d} {mon}. {year}", "{d} of {month} {year}",
    "[the |]{nth} of {month}[,|] {year}", "{nth} of {mon} {year}", "{nth} of {month} '{yy}",
    "{month} [{d}|{nth}][,|] [{year}|'{yy}]", "{mon}[.|] [{d}|{nth}], {year}", "{mon} [{d}|{dd}|{nth}] {year}",
    "[{month}|{mon}] {d}, {yy}", "{mon} [{d}|{nth}] '{yy}", "{abbr} {d}, {year}", "{month} the {nth}, {year}",
    "{weekday}, the {nth} of {month} {year}",
    "{weekday}[,|] {d} {month} {year}", "{weekday}[,|] {month} {d}, {year}", "{weekday} {nth} {month} {year}",
    "{wkd}[,|] {d} {mon} {year}", "{wkd} {d} {mon} {yy}", "{wkd}[,|] {mon} {d}, {year}", "{wkd} {mon} {dd} {year}",
    "{d} {month} {year}, {weekday}", "{d} {mon} {year} ({wkd})",
    "[{d}|{dd}]-{mon}-[{year}|{yy}]", "[{d}|{dd}]/{mon}/{year}", "{d}.{mon}.{year}", "[{d}|{dd}]{mon}{year}",
    "{mon}-[{d}|{dd}]-{year}", "{mon}/[{d}|{dd}]/{year}",
    "{year}[,|] {month} {d}", "{year} {mon} [{d}|{dd}]", "{year}-{mon}-{dd}", "{year}/{mon}/{dd}",
)  # fmt: skip
NUMBERS = _alternatives(
    "{d}.{m}.[{year}|{yy}]", "{dd}.{mm}.[{year}|{yy}]", "{d}/{m}/[{year}|{yy}]", "{dd}/{mm}/[{year}|{yy}]",
    "{d}-{m}-[{year}|{yy}]", "{dd}-{mm}-[{year}|{yy}]", "{d}. {m}. {year}", "{d} {m} {year}", "{dd} {mm} {year}",
    "{weekday} {d}/{m}/{year}", "{weekday}, {dd}.{mm}.{year}", "{wkd} {dd}.{mm}.{yy}",
    "{year}[-{mm}-{dd}|-{m}-{d}|/{mm}/{dd}|/{m}/{d}|.{mm}.{dd}|.{m}.{d}| {mm} {dd}| {m} {d}|. {m}. {d}|{mm}{dd}]",
    "{wkd} {year}-{mm}-{dd}",
)  # fmt: skip
CHINESE = _alternatives(
    "[公元|]{year}年{m}月{d}日", "[{year}|{yy}]年{m}月{d}[日|号]", "[{year}|{yy}]年{mm}月{dd}日",
    "{year} 年 {m} 月 {d} 日", "{year}年{m}月{d}日[ |，|]星期{zh_w}", "{yy}年{m}月{d}日 星期{zh_w}",
    "{year}年{m}月{d}日（周{zh_w}）", "{year}年{m}月{d}号 礼拜{zh_w}", "[星期{zh_w}，|周{zh_w} ]{year}年{m}月{d}日",
    "{year}-{mm}-{dd} 星期{zh_w}", "{year}/{m}/{d} 周{zh_w}",
    "[{zh_year}|{zh_year0}]年{zh_m}月[{zh_d}|{zh_short}]日", "公元{zh_year}年{zh_m}月{zh_d}日",
    "{zh_year}年{zh_m}月{zh_d}[号|日 星期{zh_w}]", "{zh_yy}年{zh_m}月{zh_d}[日|号]",
)  # fmt: skip
FORMATS = ENGLISH + NUMBERS + CHINESE
CASES = (str, str, str.upper, str.lower)  # half of them as a careful person writes


def write(day: date | Stated, template: str) -> str:
    """Write a day in a format that can write it."""
    return BRACES.sub(lambda key: PARTS[key[1]](day), template)


def draw(part: Part, count: int, generator: Generator) -> list[tuple[str, str]]:
    """Draw dates of a part as (text, ISO date): the day, the format and the case at random.

    Days do not repeat as long as there are enough: "2,000 dates" are 2,000 days.
    """
    pool = days(part)
    chosen = generator.sample(pool, count) if count <= len(pool) else generator.choices(pool, k=count)
    return [(generator.choice(CASES)(write(day, generator.choice(FORMATS))), str(day)) for day in chosen]


# --- texts that are no date -----------------------------------------------------------------------------

INCOMPLETE = (
    "{d} {month}", "{month} {nth}", "{month} {year}", "{mon} '{yy}", "{weekday}", "{wkd} {d}", "{year}", "{dd}.{mm}.",
    "{d}/{m}", "{mm}/{year}", "{weekday}, {d} {month}", "the {nth} of {month}", "{mon}-{yy}", "{dd}{mm}{yy}",
    "{year}年", "{year}年{m}月", "{m}月{d}日", "{zh_m}月{zh_d}日", "星期{zh_w}", "{zh_year}年{zh_m}月",
)  # fmt: skip
WORDS = """
hello world good morning thanks for all the fish please call me back when you can this is not a date at all attention
meeting night party tomorrow yesterday today next last month year two days ago soon later never now always Easter New
birthday spring summer autumn winter noon midnight quarter semester price number phone room page chapter version street
London Paris Berlin Alice Bob Clara apple banana coffee bread house tree river cloud rain snow film book paper letter
question answer yes no maybe left right before after during until since from born due on by signed invoice order total
expires valid issued begin end mayor junior jump sector deck minute hour decade century model layer head token error
明天 昨天 今天 上午 下午 晚上 你好 世界 谢谢 再见 生日 快乐 会议 时间 去年 明年 上个月 下周 春天 中国 元旦 周末
bonjour monde merci demain heute morgen danke hallo hola mundo gracias mañana привет мир завтра сегодня ciao domani
grazie olá obrigado こんにちは 明日 안녕 오늘 مرحبا שלום γεια नमस्ते
"""
MONTHS_ELSEWHERE = """
Januar Februar Mai Juni Juli Oktober Dezember Jänner janvier février mars avril juin juillet août septembre décembre
enero febrero marzo abril mayo junio julio agosto diciembre gennaio maggio giugno luglio settembre ottobre dicembre
janeiro março maio junho julho setembro outubro dezembro mei augustus maj stycznia lutego marca maja czerwca lipca
января февраля марта апреля мая июня июля августа сентября октября ноября декабря ocak şubat nisan mayıs haziran eylül
leden únor březen duben květen září říjen Vendémiaire Brumaire Thermidor Ramadan Tishri Muharram Chaitra
"""
FOREIGN_LETTERS = "абвгдежзиклмнопрстуяéèüöäßñçαβγδλμπσ月火水木日ابتجدहिनदी가나다월"
LONGEST = 40  # characters: about as many as the longest dates have


@cache
def pool(words: str, part: Part) -> tuple[str, ...]:
    """Return the words that belong to a part."""
    return tuple(word for word in words.split() if part_of(word.lower()) == part)


def _other_month(part: Part, generator: Generator) -> str:
    """Draw a month that is foreign, made of two, in unknown letters, or some word."""
    two = generator.choice(MONTHS[:8])[:3] + generator.choice(["tember", "ober", "ember"])
    unknown = "".join(generator.choices(FOREIGN_LETTERS, k=generator.randint(3, 9)))
    return generator.choice(
        [two, generator.choice(pool(MONTHS_ELSEWHERE, part)), unknown, BLANKS["text"](part, generator)]
    )


def _wrong_year(part: Part, generator: Generator) -> str:
    """Draw a year of four digits that has lost a digit or has one more."""
    year, place = str(generator.choice(days(part)).year), generator.randrange(4)
    return year[:place] + generator.choice(["", 2 * year[place]]) + year[place + 1 :]


# The parts of texts that are no date, besides the PARTS of a day.
BLANKS: dict[str, Callable[[Part, Generator], str]] = {
    "other_month": _other_month,
    "wrong_year": _wrong_year,
    "date": lambda part, generator: write(generator.choice(days(part)), generator.choice(FORMATS)),
    "text": lambda part, generator: generator.choice(pool(WORDS, part)),
    "digits": lambda part, generator: "".join(generator.choices("0123456789", k=generator.randint(1, 4))),
    "hh": lambda part, generator: f"{generator.randint(0, 23):02}",
    "known": lambda part, generator: "".join(generator.choices(SOURCE.characters, k=generator.randint(1, 24))),
    "unknown": lambda part, generator: "".join(generator.choices(FOREIGN_LETTERS, k=generator.randint(1, 24))),
}
UNREAL = "days that do not exist, and days of other years"
# Templates by kind, and how often training draws the kind: more often if it is harder to learn.
KINDS: dict[str, tuple[int, Sequence[str]]] = {
    UNREAL: (3, FORMATS),
    "dates that lack something": (1, INCOMPLETE),
    "months that are none": (5, [re.sub("{mon(th)?}", "{other_month}", one) for one in ENGLISH if "{mon" in one]),
    "years of three or five digits": (
        3, [one.replace("{year}", "{wrong_year}") for one in ENGLISH + NUMBERS if "{year}" in one],
    ),
    "words": (1, [between.join(["{text}"] * count) for between in (" ", ", ") for count in range(1, 7)]),
    "numbers": (1, _alternatives(
        "[|+|-|no. |$]{digits}", "[|$]{digits}[ |-|.|/|:]{digits}", "[|+]{digits}[ |-]{digits} {digits}[ |-]{digits}",
    )),
    "two dates": (2, _alternatives("{date}[ - |-| to | and |/|, | or | bis |至| ]{date}")),
    "a date and more": (2, _alternatives("[{text}|{hh}:{hh}|{hh}.{hh}] {date}", "{date} [{text}|{hh}:{hh}|{hh}.{hh}]")),
    "letters": (1, ("{known}", "{unknown}")),
}  # fmt: skip


def draw_no_date(part: Part, generator: Generator) -> tuple[str, str]:
    """Draw a text of a part that is no day of 1950 to 2049, and the output for it."""
    weights = [weight if part == "train" else 1 for weight, _ in KINDS.values()]
    [(kind, (_, templates))] = generator.choices(list(KINDS.items()), weights)
    while True:
        day: date | Stated = generator.choice(days(part))
        if kind == UNREAL:
            day = unreal_day(generator)
            templates = [template for template in FORMATS if _can_write(day, template)]
        template = generator.choice(templates)
        filled = BRACES.sub(lambda key: BLANKS[key[1]](part, generator) if key[1] in BLANKS else key[0], template)
        text = generator.choice(CASES)(write(day, filled)).strip()
        if text and len(text) <= LONGEST and part_of(text.lower()) == part:
            return text, str(day) if kind == UNREAL else NONE


def unreal_day(generator: Generator) -> Stated:
    """Draw a day that its month does not have, a month that no year has, or a day of another year than 1950 to 2049."""
    year, month, day = generator.randint(FIRST.year, LAST.year), generator.randint(1, 12), generator.randint(1, 28)
    return Stated(*generator.choice([
        (year, month, generator.choice([0, *range(32, 40)])),
        (year, *generator.choice([(2, 30), (2, 31), (4, 31), (6, 31), (9, 31), (11, 31)])),
        (year // 4 * 4 + 1, 2, 29),
        (year, generator.choice([0, *range(13, 32)]), day),  # such as 12/25/2021
        (generator.randint(1850, 1949), month, day),
        (generator.randint(2050, 2110), month, day),
    ]))  # fmt: skip


def _can_write(stated: Stated, template: str) -> bool:
    """Return whether a format can write a day that need not exist: no name has a month 13, and two digits are no year
    1850.
    """
    if re.search("week|wkd|_w}", template) or ("yy" in template and not FIRST.year <= stated.year <= LAST.year):
        return False
    return template in NUMBERS or (stated.month in range(1, 13) and stated.day > 0)
