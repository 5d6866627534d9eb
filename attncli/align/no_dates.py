"""Texts that are no date, by class, and what is to be written for them.

What stands in the form of a date is written as it stands, 2021-02-31: that there is no such day, or that it is none of
1950 to 2049, is then looked up and not left to a network. For everything else it is NONE.

What a person would still read, such as "3 Janaury 2021", is neither: it is not drawn.

Each text, each word and each foreign name of a month is in one part (training, validation or test), like the days.
"""

import random
from collections.abc import Callable
from functools import cache
from string import ascii_lowercase

from attncli.align.characters import NONE, SOURCE
from attncli.align.dates import FIRST, LAST, Part, days, is_date, part_of
from attncli.align.formats import CASES, FORMATS, MONTHS, NUMBERS, Stated, can_write, read, write

# Something is missing.
INCOMPLETE = (
    "{d} {month}", "{month} {nth}", "{month} {year}", "{mon} '{yy}", "{weekday}", "{wkd} {d}", "{year}", "{dd}.{mm}.",
    "{d}/{m}", "{mm}/{year}", "{weekday}, {d} {month}", "the {word} of {month}", "{mon}-{yy}", "{dd}{mm}{yy}",
    "{year}年", "{year}年{m}月", "{m}月{d}日", "{zh_m}月{zh_d}日", "星期{zh_w}", "{zh_year}年{zh_m}月",
)  # fmt: skip
WORDS = """
hello world good morning thanks for all the fish please call me back when you can this is not a date at all attention
looks where it likes to look monday meeting friday night party tomorrow yesterday today next week last month year two
days ago soon later never now always Christmas Eve Easter New birthday anniversary spring summer autumn winter noon
midnight quarter half term semester price number phone room page chapter version street London Paris Berlin Beijing
Tokyo Alice Bob Clara David Emma Frank Maria Peter apple banana orange coffee tea water bread butter cheese house tree
river mountain cloud rain snow wind music film book paper letter word sentence question answer yes no maybe left right
up down in out over under about between before after during until since from born due on by signed invoice order total
delivered expires valid issued begin end marches mayor junior jump sector deck second third minute hour decade century
model network layer head token weight error train test data file name list table figure sum mean run stop go come see
明天 昨天 今天 后天 上午 下午 晚上 你好 世界 谢谢 再见 生日 快乐 会议 时间 去年 今年 明年 上个月 下周 春天
中国 北京 元旦 国庆节 一月 三号 周末
bonjour monde merci demain hier heute morgen gestern danke bitte hallo Welt hola mundo gracias mañana ayer привет мир
завтра сегодня спасибо ciao domani grazie olá obrigado こんにちは 明日 안녕 오늘 مرحبا שלום γεια नमस्ते
"""
MONTHS_ELSEWHERE = """
Januar Februar März Mai Juni Juli Oktober Dezember Jänner Feber
janvier février mars avril mai juin juillet août septembre octobre novembre décembre
enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre
gennaio febbraio marzo aprile maggio giugno luglio settembre ottobre dicembre
janeiro fevereiro março maio junho julho setembro outubro novembro dezembro
januari februari maart mei augustus oktober mars maj augusti
stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia
января февраля марта апреля мая июня июля августа сентября октября ноября декабря
ocak şubat nisan mayıs haziran temmuz ağustos eylül ekim kasım aralık
leden únor březen duben květen červen srpen září říjen listopad prosinec
Vendémiaire Brumaire Thermidor Ramadan Nisan Tishri Muharram Chaitra
"""
FOREIGN_LETTERS = "абвгдежзиклмнопрстуяéèüöäßñçαβγδλμπσ月火水木日ابتجدहिनदी가나다월"
NAMED = tuple(template for template in FORMATS if "{month}" in template or "{mon}" in template)
SEPARATORS = (" ", "-", ".", "/", ",", ", ", "")
DIGITS = "0123456789〇零一二三四五六七八九十廿卅"
LONGEST = 40  # characters: about as many as the longest dates have
BETWEEN = (" - ", "-", " to ", " and ", "/", ", ", " or ", " until ", " bis ", "至", " ")


def draw_no_date(part: Part, generator: random.Random) -> tuple[str, str]:
    """A text of a part that is no day of 1950 to 2049, of any class, and what is to be written for it.

    In training the classes that are harder to learn are more frequent, as KINDS has it; else all are alike.
    """
    [kind] = generator.choices(list(KINDS), list(KINDS.values()) if part == "train" else None)
    while True:
        text = generator.choice(CASES)(kind(part, generator)).strip()
        output = str(read(text) or NONE)
        if text and len(text) <= LONGEST and part_of(text.lower()) == part and not is_date(output):
            return text, output


@cache
def pool(words: str, part: Part) -> tuple[str, ...]:
    """Those of some words that belong to a part."""
    return tuple(word for word in words.split() if part_of(word.lower()) == part)


def good(part: Part, generator: random.Random) -> str:
    """A date of a part in any format."""
    return write(generator.choice(days(part)), generator.choice(FORMATS))


def impossible(part: Part, generator: random.Random) -> str:
    """A day that no month or this month has not, a month that no year has, or none at all, in the form of a date."""
    while True:
        year, month, day = generator.randint(FIRST.year, LAST.year), generator.randint(1, 12), generator.randint(1, 31)
        kind = generator.randrange(6)
        if kind == 0:
            day = generator.randint(32, generator.choice([39, 99]))
        elif kind in (1, 2):
            month, day = generator.choice([(2, 29), (2, 30), (2, 31), (4, 31), (6, 31), (9, 31), (11, 31)])
        elif kind in (3, 4):
            month = generator.randint(13, generator.choice([31, 31, 99]))
        else:
            month, day = generator.choice([(0, day), (month, 0)])
        stated = Stated(year, month, day)
        if part_of(stated) == part and not is_date(str(stated)):
            return in_some_format(stated, generator)


def american(part: Part, generator: random.Random) -> str:
    """Numbers alone with the month first, where they can't be read with the day first."""
    day = generator.choice([day for day in days(part) if day.day > 12])
    return write(Stated(day.year, day.day, day.month), generator.choice(NUMBERS))


def other_year(part: Part, generator: random.Random) -> str:
    """A day of another year than 1950 to 2049, mostly of a near one."""
    year = generator.choice([
        generator.randint(LAST.year + 1, 2110),
        generator.randint(1850, FIRST.year - 1),
        generator.randint(1000, FIRST.year - 1),
        generator.randint(LAST.year + 1, 2999),
    ])  # fmt: skip
    return in_some_format(Stated(year, generator.randint(1, 12), generator.randint(1, 28)), generator)


def in_some_format(stated: Stated, generator: random.Random) -> str:
    """What is stated, in one of those formats that have words for it."""
    while True:
        template = generator.choice(FORMATS)
        if can_write(stated, template):
            return write(stated, template)


def incomplete(part: Part, generator: random.Random) -> str:
    """A date of which something is missing."""
    return write(generator.choice(days(part)), generator.choice(INCOMPLETE))


def other_month(part: Part, generator: random.Random) -> str:
    """A date whose month is foreign, made of two, in letters that are not known, or some word."""
    while True:
        one, other = generator.choice(MONTHS), generator.choice(MONTHS)
        name = generator.choice([
            one[: generator.randint(1, 5)] + other[generator.randint(2, 4) :],
            one[: generator.randint(1, 5)] + other[generator.randint(2, 4) :],
            one[: generator.randint(1, 5)] + other[generator.randint(2, 4) :],
            generator.choice(pool(MONTHS_ELSEWHERE, part)),
            generator.choice(pool(MONTHS_ELSEWHERE, part))[:3],
            "".join(generator.choices(FOREIGN_LETTERS, k=generator.randint(3, 9))),
            generator.choice(pool(WORDS, part)),
        ])  # fmt: skip
        if name.lower() not in almost_months():
            template = generator.choice(NAMED).replace("{month}", name).replace("{mon}", name)
            return write(generator.choice(days(part)), template)


@cache
def almost_months() -> frozenset[str]:
    """The names of months, and the longer ones with a letter lost, added, another, or changed for its neighbour."""
    names = {month.lower() for month in MONTHS}
    found = names | {name[:3] for name in names} | {"sept"}
    for name in (name for name in names if len(name) > 4):
        for place in range(len(name) + 1):
            before, after = name[:place], name[place:]
            found |= {before + after[1:], before + after[1:2] + after[:1] + after[2:]}
            found |= {before + letter + rest for letter in ascii_lowercase for rest in (after, after[1:])}
    return frozenset(found)


def broken(part: Part, generator: random.Random) -> str:
    """A date with one or two of its digits lost, doubled, another character or one more; or cut off before one."""
    text = good(part, generator)
    for _ in range(generator.randint(1, 2)):
        place = generator.choice([place for place, character in enumerate(text) if character in DIGITS] or [0])
        before, one, after = text[:place], text[place : place + 1], text[place + 1 :]
        text = generator.choice([
            before,
            before + after,
            before + one + one + after,
            before + one + generator.choice(DIGITS[:10]) + after,
            before + generator.choice(SOURCE.characters) + after,
        ])  # fmt: skip
    return text


def words(part: Part, generator: random.Random) -> str:
    """Words in a row, now and then with a number."""
    found = generator.choices(pool(WORDS, part), k=generator.randint(1, 7))
    if generator.random() < 0.3:
        found[generator.randrange(len(found))] = str(generator.randint(0, 2100))
    return generator.choice([" ", " ", ", "]).join(found)


def numbers(part: Part, generator: random.Random) -> str:
    """Digits in groups: amounts, times, telephone numbers."""
    separator = generator.choice((*SEPARATORS, ":", None))
    text = generator.choice(["", "", "", "+", "-", "no. ", "$"])
    for group in range(generator.randint(1, 5)):
        between = generator.choice(SEPARATORS) if separator is None else separator
        text += (between if group else "") + "".join(generator.choices("0123456789", k=generator.randint(1, 4)))
    return text


def two_dates(part: Part, generator: random.Random) -> str:
    """Two dates, or a day and a date."""
    first = generator.choice([good, good, incomplete])(part, generator)
    return first + generator.choice(BETWEEN) + good(part, generator)


def and_more(part: Part, generator: random.Random) -> str:
    """A date among words, or with a time."""
    text, word = good(part, generator), generator.choice(pool(WORDS, part))
    time = f"{generator.randint(0, 23):02}{generator.choice(':.')}{generator.randint(0, 59):02}"
    return generator.choice([f"{word} {text}", f"{text} {word}", f"{text} {time}", f"{time} {text}", f"{text}T{time}"])


def anything(part: Part, generator: random.Random) -> str:
    """Characters by chance, known ones, and now and then none that is."""
    letters = generator.choice([SOURCE.characters, SOURCE.characters, SOURCE.characters[:36], FOREIGN_LETTERS])
    return "".join(generator.choices(letters, k=generator.randint(1, 24)))


KINDS: dict[Callable[[Part, random.Random], str], int] = {
    impossible: 1, american: 1, other_year: 1, incomplete: 1, other_month: 5, broken: 3, words: 1, numbers: 1,
    two_dates: 2, and_more: 2, anything: 1,
}  # fmt: skip
