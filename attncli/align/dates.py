"""Draw dates as people write them, in English and Chinese, and texts that are no date.

Every way of writing has one reading:
- a year of two digits is 1950 to 2049: 19yy from 50 on and 20yy below;
- in numbers with dots, slashes, hyphens or spaces the day comes first, unless a year of four digits does: then the
  order is year, month, day. American month/day/year with numbers alone is not among them; with a name it is;
- eight digits without anything between them are year, month, day;
- a weekday says nothing: it is read over, also where it is not that of the day.

A text in the form of a date is written as it stands, 2021-02-31: whether there is such a day is then looked up and not
left to a network. For every other text it is NONE.

Days, texts and words are each in one part (training, validation or test) by a hash, so none of the test is trained on.
"""

import hashlib
import random
import re
from collections.abc import Callable
from datetime import date, timedelta
from functools import cache
from itertools import product
from typing import Literal, NamedTuple

from attncli.align.characters import NONE, SOURCE

Part = Literal["train", "validation", "test"]
Generator = random.Random

FIRST, LAST = date(1950, 1, 1), date(2049, 12, 31)

# --- days -----------------------------------------------------------------------------------------------


class Stated(NamedTuple):
    """A year, a month and a day as a text states them, whether or not there is such a day."""

    year: int
    month: int
    day: int

    @property
    def weekday(self) -> int:
        """The weekday from Monday, 0; any where there is no such day."""
        return date(*self).weekday() if is_day(str(self)) else sum(self) % 7

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
    """Return the part of a day, a text or a word, by a hash of it: 1 in 20 to validation, 1 in 10 to the test."""
    place = hashlib.sha256(str(thing).encode()).digest()[0] * 20 // 256
    return "validation" if place == 0 else "test" if place in (1, 2) else "train"


@cache
def days(part: Part) -> tuple[Stated, ...]:
    """Return all days of a part, in their order."""
    every = (FIRST + timedelta(days=number) for number in range((LAST - FIRST).days + 1))
    return tuple(Stated(day.year, day.month, day.day) for day in every if part_of(day) == part)


# --- formats --------------------------------------------------------------------------------------------

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
    """三, 十, 十二, 二十, 三十一; of 1 to 99."""
    tens, ones = divmod(number, 10)
    ten = "" if tens == 0 else "十" if tens == 1 else CHINESE_DIGITS[tens] + "十"
    return ten + (CHINESE_DIGITS[ones] if ones else "")


def chinese_year(year: int) -> str:
    """二〇二一"""
    return "".join(CHINESE_DIGITS[int(digit)] for digit in f"{year:04}")


# The parts of a format, which stand in braces.
PARTS: dict[str, Callable[[Stated], str]] = {
    "d": lambda stated: str(stated.day),
    "dd": lambda stated: f"{stated.day:02}",
    "nth": lambda stated: ordinal(stated.day),
    "word": lambda stated: ordinal_word(stated.day),  # twenty-first
    "words": lambda stated: ordinal_word(stated.day).replace("-", " "),
    "m": lambda stated: str(stated.month),
    "mm": lambda stated: f"{stated.month:02}",
    "month": lambda stated: MONTHS[stated.month - 1],
    "mon": lambda stated: MONTHS[stated.month - 1][:3],
    "abbr": lambda stated: ABBREVIATIONS[stated.month - 1],
    "year": lambda stated: str(stated.year),
    "yy": lambda stated: f"{stated.year % 100:02}",
    "weekday": lambda stated: WEEKDAYS[stated.weekday],
    "wkd": lambda stated: WEEKDAYS[stated.weekday][:3],
    "zh_d": lambda stated: chinese_number(stated.day),
    "zh_short": lambda stated: chinese_number(stated.day).replace("二十", "廿").replace("三十", "卅"),
    "zh_m": lambda stated: chinese_number(stated.month),
    "zh_year": lambda stated: chinese_year(stated.year),
    "zh_year0": lambda stated: chinese_year(stated.year).replace("〇", "零"),
    "zh_yy": lambda stated: chinese_year(stated.year)[2:],
    "zh_w": lambda stated: "一二三四五六日"[stated.weekday],
}
BRACES = re.compile(r"\{(\w+)\}")


def alternatives(*templates: str) -> tuple[str, ...]:
    """ "[the |]{nth}" -> "the {nth}" and "{nth}": every choice of what square brackets offer."""
    found = []
    for template in templates:
        pieces = [piece.split("|") for piece in re.split(r"[\[\]]", template)]
        found += ["".join(chosen) for chosen in product(*pieces)]
    return tuple(dict.fromkeys(found))


ENGLISH = alternatives(
    "[{d}|{dd}|{nth}] [{month}|{mon}] {year}", "[{d}|{nth}] [{month}|{mon}] [|']{yy}", "[{d}|{nth}] {month}, {year}",
    "{d} {mon}, {year}", "{d} {abbr} {year}", "{d}. {month} {year}", "{d} {mon}. {year}", "{d} of {month} {year}",
    "[the |]{nth} of {month}[,|] {year}", "{nth} of {mon} {year}", "{nth} of {month} '{yy}",
    "{month} [{d}|{nth}][,|] [{year}|'{yy}]", "{mon}[.|] [{d}|{nth}], {year}", "{mon} [{d}|{dd}|{nth}] {year}",
    "[{month}|{mon}] {d}, {yy}", "{mon} [{d}|{nth}] '{yy}", "{abbr} {d}, {year}", "{month} the {nth}, {year}",
    "[the |]{word} of {month}[,|] {year}", "{word} {month} {year}", "{month} [the |]{word}, {year}",
    "the {words} of {month} {year}", "{month} {words}, {year}", "{weekday}, the [{word}|{nth}] of {month} {year}",
    "{weekday}[,|] {d} {month} {year}", "{weekday}[,|] {month} {d}, {year}", "{weekday} {nth} {month} {year}",
    "{wkd}[,|] {d} {mon} {year}", "{wkd} {d} {mon} {yy}", "{wkd}[,|] {mon} {d}, {year}", "{wkd} {mon} {dd} {year}",
    "{d} {month} {year}, {weekday}", "{d} {mon} {year} ({wkd})",
    "[{d}|{dd}]-{mon}-[{year}|{yy}]", "[{d}|{dd}]/{mon}/{year}", "{d}.{mon}.{year}", "[{d}|{dd}]{mon}{year}",
    "{mon}-[{d}|{dd}]-{year}", "{mon}/[{d}|{dd}]/{year}",
    "{year}[,|] {month} {d}", "{year} {mon} [{d}|{dd}]", "{year}-{mon}-{dd}", "{year}/{mon}/{dd}",
)  # fmt: skip
NUMBERS = alternatives(
    "{d}.{m}.[{year}|{yy}]", "{dd}.{mm}.[{year}|{yy}]", "{d}/{m}/[{year}|{yy}]", "{dd}/{mm}/[{year}|{yy}]",
    "{d}-{m}-[{year}|{yy}]", "{dd}-{mm}-[{year}|{yy}]", "{d}. {m}. {year}", "{d} {m} {year}", "{dd} {mm} {year}",
    "{weekday} {d}/{m}/{year}", "{weekday}, {dd}.{mm}.{year}", "{wkd} {dd}.{mm}.{yy}",
    "{year}[-{mm}-{dd}|-{m}-{d}|/{mm}/{dd}|/{m}/{d}|.{mm}.{dd}|.{m}.{d}| {mm} {dd}| {m} {d}|. {m}. {d}|{mm}{dd}]",
    "{wkd} {year}-{mm}-{dd}",
)  # fmt: skip
CHINESE = alternatives(
    "[公元|]{year}年{m}月{d}日", "[{year}|{yy}]年{m}月{d}[日|号]", "[{year}|{yy}]年{mm}月{dd}日",
    "{year} 年 {m} 月 {d} 日", "{year}年{m}月{d}日[ |，|]星期{zh_w}", "{yy}年{m}月{d}日 星期{zh_w}",
    "{year}年{m}月{d}日（周{zh_w}）", "{year}年{m}月{d}号 礼拜{zh_w}", "[星期{zh_w}，|周{zh_w} ]{year}年{m}月{d}日",
    "{year}-{mm}-{dd} 星期{zh_w}", "{year}/{m}/{d} 周{zh_w}",
    "[{zh_year}|{zh_year0}]年{zh_m}月[{zh_d}|{zh_short}]日", "公元{zh_year}年{zh_m}月{zh_d}日",
    "{zh_year}年{zh_m}月{zh_d}[号|日 星期{zh_w}]", "{zh_yy}年{zh_m}月{zh_d}[日|号]",
)  # fmt: skip
FORMATS = ENGLISH + NUMBERS + CHINESE
CASES = (str, str, str.upper, str.lower)  # half of them as a careful person writes


def write(stated: Stated, template: str) -> str:
    """Write a day in a format that can write it."""
    return BRACES.sub(lambda key: PARTS[key[1]](stated), template)


def can_write(stated: Stated, template: str) -> bool:
    """Return whether a format can write a day: no name has a month 13, and two digits are no year 1850."""
    if "yy" in template and not FIRST.year <= stated.year <= LAST.year:
        return False
    return template in NUMBERS or (stated.month in range(1, 13) and stated.day in range(1, 40))


def draw(part: Part, count: int, generator: Generator) -> list[tuple[str, str]]:
    """Draw dates of a part as (text, ISO date): the day, the format and the case by chance.

    Days do not repeat, so long as there are enough of them: "2,000 dates" are 2,000 days.
    """
    pool = days(part)
    chosen = generator.sample(pool, count) if count <= len(pool) else generator.choices(pool, k=count)
    return [(generator.choice(CASES)(write(day, generator.choice(FORMATS))), str(day)) for day in chosen]


# --- texts that are no date -----------------------------------------------------------------------------

INCOMPLETE = (
    "{d} {month}", "{month} {nth}", "{month} {year}", "{mon} '{yy}", "{weekday}", "{wkd} {d}", "{year}", "{dd}.{mm}.",
    "{d}/{m}", "{mm}/{year}", "{weekday}, {d} {month}", "the {word} of {month}", "{mon}-{yy}", "{dd}{mm}{yy}",
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


def draw_no_date(part: Part, generator: Generator) -> tuple[str, str]:
    """Draw a text of a part that is no day of 1950 to 2049, of any kind, and the output for it.

    In training the kinds that are harder to learn are more frequent (KINDS).
    """
    [kind] = generator.choices(list(KINDS), list(KINDS.values()) if part == "train" else None)
    while True:
        text, output = kind(part, generator)
        text = generator.choice(CASES)(text).strip()
        if text and len(text) <= LONGEST and part_of(text.lower()) == part:
            return text, output


@cache
def pool(words: str, part: Part) -> tuple[str, ...]:
    """Return the words that belong to a part."""
    return tuple(word for word in words.split() if part_of(word.lower()) == part)


def date_in(templates: tuple[str, ...], part: Part, generator: Generator) -> str:
    """Draw a day of a part in one of some formats."""
    return write(generator.choice(days(part)), generator.choice(templates))


def stated_as(stated: Stated, generator: Generator) -> tuple[str, str]:
    """Write a day that there is not, or one of another year, in a format that can write it."""
    template = generator.choice([template for template in FORMATS if can_write(stated, template)])
    return write(stated, template), str(stated)


def impossible(part: Part, generator: Generator) -> tuple[str, str]:
    """Draw a day that this month does not have, a month that no year has, or 0, in the form of a date."""
    year, month, day = generator.randint(FIRST.year, LAST.year), generator.randint(1, 12), generator.randint(1, 28)
    return stated_as(
        generator.choice([
            Stated(year, month, generator.randint(32, 39)),
            Stated(year, *generator.choice([(2, 30), (2, 31), (4, 31), (6, 31), (9, 31), (11, 31)])),
            Stated(year // 4 * 4 + 1, 2, 29),
            Stated(year, generator.randint(13, 31), day),
            Stated(year, *generator.choice([(0, day), (month, 0)])),
        ]),
        generator,
    )  # fmt: skip


def american(part: Part, generator: Generator) -> tuple[str, str]:
    """Draw numbers with the month first that can't be read with the day first."""
    year, month, day = generator.choice([day for day in days(part) if day.day > 12])
    stated = Stated(year, day, month)
    return write(stated, generator.choice(NUMBERS)), str(stated)


def other_year(part: Part, generator: Generator) -> tuple[str, str]:
    """Draw a day of another year than 1950 to 2049, mostly of a near one."""
    years = generator.choice([(LAST.year + 1, 2110), (1850, FIRST.year - 1), (1000, 1949), (2050, 2999)])
    return stated_as(Stated(generator.randint(*years), generator.randint(1, 12), generator.randint(1, 28)), generator)


def incomplete(part: Part, generator: Generator) -> tuple[str, str]:
    """Draw a date that lacks something."""
    return date_in(INCOMPLETE, part, generator), NONE


def other_month(part: Part, generator: Generator) -> tuple[str, str]:
    """Draw a date whose month is foreign, made of two, in unknown letters, or some word."""
    name = generator.choice([
        generator.choice(MONTHS[:8])[:3] + generator.choice(["tember", "ober", "ember"]),
        generator.choice(pool(MONTHS_ELSEWHERE, part)),
        "".join(generator.choices(FOREIGN_LETTERS, k=generator.randint(3, 9))),
        generator.choice(pool(WORDS, part)),
    ])  # fmt: skip
    named = [template for template in ENGLISH if "{mon" in template]
    template = generator.choice(named).replace("{month}", name).replace("{mon}", name)
    return write(generator.choice(days(part)), template), NONE


def broken(part: Part, generator: Generator) -> tuple[str, str]:
    """Draw a date whose year of four digits has lost a digit or has one more."""
    template = generator.choice([template for template in ENGLISH + NUMBERS if "{year}" in template])
    stated = generator.choice(days(part))
    place, year = generator.randrange(4), str(stated.year)
    wrong = year[:place] + generator.choice(["", 2 * year[place]]) + year[place + 1 :]
    return write(stated, template.replace("{year}", wrong)), NONE


def words(part: Part, generator: Generator) -> tuple[str, str]:
    """Draw words in a row, now and then with a number."""
    found = generator.choices([*pool(WORDS, part), str(generator.randint(0, 2100))], k=generator.randint(1, 7))
    return generator.choice([" ", " ", ", "]).join(found), NONE


def numbers(part: Part, generator: Generator) -> tuple[str, str]:
    """Draw one, two, four or five groups of digits: amounts, times, telephone numbers."""
    count = generator.choice([1, 2, 4, 5])
    groups = ["".join(generator.choices("0123456789", k=generator.randint(1, 4))) for _ in range(count)]
    between = generator.choice([" ", "-", ".", "/", ":"])
    return generator.choice(["", "+", "-", "no. ", "$"]) + between.join(groups), NONE


def two_dates(part: Part, generator: Generator) -> tuple[str, str]:
    """Draw two dates."""
    between = generator.choice([" - ", "-", " to ", " and ", "/", ", ", " or ", " bis ", "至", " "])
    return date_in(FORMATS, part, generator) + between + date_in(FORMATS, part, generator), NONE


def and_more(part: Part, generator: Generator) -> tuple[str, str]:
    """Draw a date with a word or a time."""
    text, word = date_in(FORMATS, part, generator), generator.choice(pool(WORDS, part))
    time = f"{generator.randint(0, 23):02}{generator.choice(':.')}{generator.randint(0, 59):02}"
    return generator.choice([f"{word} {text}", f"{text} {word}", f"{text} {time}", f"{time} {text}"]), NONE


def letters(part: Part, generator: Generator) -> tuple[str, str]:
    """Draw characters by chance, known ones, and now and then unknown ones."""
    known = generator.choice([SOURCE.characters, SOURCE.characters[:36], FOREIGN_LETTERS])
    return "".join(generator.choices(known, k=generator.randint(1, 24))), NONE


KINDS: dict[Callable[[Part, Generator], tuple[str, str]], int] = {
    impossible: 1, american: 1, other_year: 1, incomplete: 1, other_month: 5, broken: 3, words: 1, numbers: 1,
    two_dates: 2, and_more: 2, letters: 1,
}  # fmt: skip
