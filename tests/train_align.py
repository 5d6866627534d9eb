"""Train the networks that `align` translates dates with, and measure them.

    python tests/train_align.py --attention additive -o attncli/align/weights

Needs an hour on one core for the five of them. The same attention, seed and number of steps give the same weights, on
one kind of processor. The weights in the package are older: they were trained on some formats more.

Every way of writing a date has one reading:
- a year of two digits is 1950 to 2049: 19yy from 50 on and 20yy below;
- in numbers with dots, slashes, hyphens or spaces the day comes first, unless a year of four digits does: then the
  order is year, month, day. American month/day/year with numbers alone is not among them; with a name it is;
- eight digits without anything between them are year, month, day;
- a weekday is ignored, even a wrong one.

A text in the form of a date is written as it stands, 2021-02-31. A calendar, not the network, decides whether the day
exists. The output for every other text is NONE.

A hash puts each day, and each text that is no date, into one part: training, validation or test.
"""

import argparse
import hashlib
import json
import random
import re
from collections.abc import Collection, Iterator, Sequence
from datetime import date, timedelta
from functools import cache
from itertools import product
from pathlib import Path
from typing import Literal

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim.lr_scheduler import OneCycleLR

from attncli.align.characters import NONE, PAD, SOURCE, sources, targets
from attncli.align.checkpoint import build
from attncli.align.networks import AlignNetwork
from attncli.align.translate import FIRST, LAST, is_date, is_day
from attncli.base import choices

Part = Literal["train", "validation", "test"]


def part_of(thing: object) -> Part:
    """Return the part of a day or a text, by its hash: 1 in 20 to validation, 1 in 10 to the test."""
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
WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
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


def fields_of(year: int, month: int, day: int) -> dict[str, str]:
    """Return the fields of a format for a day, which need not exist. Fields that it does not have are left out: no name
    has a month 13, and two digits are no year 1850.
    """
    fields = {"d": f"{day}", "dd": f"{day:02}", "m": f"{month}", "mm": f"{month:02}", "year": f"{year}"}
    fields["iso"] = f"{year:04}-{month:02}-{day:02}"
    if FIRST.year <= year <= LAST.year:
        fields["yy"] = f"{year % 100:02}"
    if month in range(1, 13) and day > 0:
        digits = "".join(CHINESE_DIGITS[int(digit)] for digit in fields["year"])
        fields |= {"nth": _ordinal(day), "month": MONTHS[month - 1], "mon": MONTHS[month - 1][:3]}
        fields |= {"zh_d": _chinese_number(day), "zh_m": _chinese_number(month), "zh_year": digits}
        fields["zh_short"] = fields["zh_d"].replace("二十", "廿").replace("三十", "卅")
        fields["zh_year0"] = digits.replace("〇", "零")
        if "yy" in fields:
            fields["zh_yy"] = digits[2:]
    if is_day(fields["iso"]):
        weekday = date(year, month, day).weekday()
        fields |= {"weekday": WEEKDAYS[weekday], "wkd": WEEKDAYS[weekday][:3], "zh_w": "一二三四五六日"[weekday]}
    return fields


def draw_fields(part: Part, generator: random.Random) -> dict[str, str]:
    """Draw a day of a part."""
    day = generator.choice(days(part))
    return fields_of(day.year, day.month, day.day)


def _alternatives(*templates: str) -> tuple[str, ...]:
    """Return every choice that square brackets offer: "[the |]{nth}" -> "the {nth}" and "{nth}"."""
    found = []
    for template in templates:
        pieces = [piece.split("|") for piece in re.split(r"[\[\]]", template)]
        found += ["".join(chosen) for chosen in product(*pieces)]
    return tuple(dict.fromkeys(found))


TEMPLATES = _alternatives(
    "[{d}|{dd}|{nth}] [{month}|{mon}] {year}", "[{d}|{nth}] [{month}|{mon}] [|']{yy}", "[{d}|{nth}] {month}, {year}",
    "[the |]{nth} of {month}[,|] {year}", "{nth} of [{mon} {year}|{month} '{yy}]",
    "{d}[ {mon},|. {month}| {mon}.] {year}",
    "{month} [{d}|{nth}][,|] [{year}|'{yy}]", "{mon}[.|] [{d}|{nth}], {year}", "{mon} [{d}|{dd}|{nth}] {year}",
    "[{month}|{mon}] {d}, {yy}", "{month} the {nth}, {year}", "{weekday}[,|] [{d} {month}|{month} {d},] {year}",
    "{weekday}[ {nth}|, the {nth} of] {month} {year}", "{wkd}[,|] [{d} {mon}|{mon} {d},] {year}",
    "{wkd} {d} {mon} {yy}", "{wkd} {mon} {dd} {year}", "{d} [{month} {year}, {weekday}|{mon} {year} ({wkd})]",
    "[{d}|{dd}]-{mon}-[{year}|{yy}]", "[{d}|{dd}][/{mon}/|{mon}]{year}", "{mon}[-{d}-|-{dd}-|/{d}/|/{dd}/]{year}",
    "{d}.{mon}.{year}", "{year}[ {month} {d}|, {month} {d}| {mon} {d}| {mon} {dd}|-{mon}-{dd}|/{mon}/{dd}]",
    "[{d}.{m}.|{dd}.{mm}.|{d}/{m}/|{dd}/{mm}/|{d}-{m}-|{dd}-{mm}-][{year}|{yy}]",
    "[{d} {m} |{dd} {mm} |{d}. {m}. ]{year}", "{weekday}[ {d}/{m}/|, {dd}.{mm}.]{year}", "{wkd} {dd}.{mm}.{yy}",
    "{year}[-{mm}-{dd}|-{m}-{d}|/{mm}/{dd}|/{m}/{d}|.{mm}.{dd}|.{m}.{d}| {mm} {dd}| {m} {d}|. {m}. {d}|{mm}{dd}]",
    "[公元|]{year}年{m}月{d}日", "[{year}|{yy}]年[{m}月{d}日|{m}月{d}号|{mm}月{dd}日]", "{year} 年 {m} 月 {d} 日",
    "{year}年{m}月{d}[日 星期|日，星期|号 礼拜]{zh_w}", "[星期{zh_w}，|周{zh_w} ]{year}年{m}月{d}日",
    "{year}[年{m}月{d}日（周{zh_w}）|-{mm}-{dd} 星期{zh_w}|/{m}/{d} 周{zh_w}]",
    "[{zh_year}|{zh_year0}]年{zh_m}月[{zh_d}|{zh_short}]日", "[公元{zh_year}|{zh_yy}]年{zh_m}月{zh_d}日",
    "{zh_year}年{zh_m}月{zh_d}[号|日 星期{zh_w}]", "{zh_yy}年{zh_m}月{zh_d}号",
)  # fmt: skip
FORMATS = {template: frozenset(re.findall(r"\{(\w+)\}", template)) for template in TEMPLATES}  # with their fields
CASES = (str, str, str.upper, str.lower)  # half of them as a careful person writes


def write(fields: dict[str, str], generator: random.Random, names: Collection[str] = ()) -> str:
    """Write a date in a random case and format; in one with a field of `names`, if names are given."""
    possible = [one for one, used in FORMATS.items() if used <= fields.keys() and (not names or used & set(names))]
    return generator.choice(CASES)(generator.choice(possible).format_map(fields))


def draw_date(part: Part, generator: random.Random) -> tuple[str, str]:
    """Draw a text of a day of a part, and its ISO date."""
    fields = draw_fields(part, generator)
    return write(fields, generator), fields["iso"]


# --- texts that are no date -----------------------------------------------------------------------------

WORDS = """
hello world good morning thanks for all the fish please call me when you can this is not a date attention meeting night
tomorrow yesterday today next last month year two days ago later never now Easter New spring autumn noon quarter price
number phone page chapter version Paris Alice apple bread river question answer yes no right before after until since
born due on by signed invoice total 明天 昨天 今天 上午 晚上 你好 世界 谢谢 生日 会议 去年 下周 中国
Januar Februar Mai Juni Juli Oktober Dezember janvier février mars avril juin juillet août septembre décembre enero
febrero marzo abril mayo junio julio agosto diciembre gennaio maggio giugno luglio settembre ottobre janeiro março maio
junho setembro outubro stycznia maja lipca января февраля марта мая июня августа октября ocak mayıs eylül leden říjen
"""
FOREIGN_LETTERS = "абвгдежзиклмнопрстуяéèüöäßñçαβγδλμπσ月火水木日ابتجدहिनदी가나다월"
LONGEST = 40  # characters: about as many as the longest dates have
KINDS = {"unreal day": 3, "spoiled date": 9, "date and more": 4, "no date": 3}  # how often training draws each
DAYS = ("d", "dd", "nth", "zh_d", "zh_short")
YEARS = ("year", "yy", "zh_year", "zh_year0", "zh_yy")
NAMES = ("month", "mon")


def draw_no_date(part: Part, generator: random.Random) -> tuple[str, str]:
    """Draw a text of a part that is no day of 1950 to 2049, and the output for it."""
    [kind] = generator.choices(list(KINDS), list(KINDS.values()) if part == "train" else None)
    while True:
        fields, pieces, output = draw_fields(part, generator), draw_pieces(generator), NONE
        match kind:
            case "unreal day":
                fields = unreal_day(generator)
                text, output = write(fields, generator), fields["iso"]
            case "spoiled date":
                text = spoiled_date(fields, generator)
            case "date and more":
                more = generator.choice([*pieces, write(draw_fields(part, generator), generator)])
                between = generator.choice([" ", " ", "-", " - ", " to ", ", "])
                text = between.join(generator.sample([write(fields, generator), more], 2))
            case _:
                text = generator.choice(["", "+", "$"]) + generator.choice([" ", ", ", "-", "."]).join(pieces)
        text = text.strip()
        if text and len(text) <= LONGEST and part_of(text.lower()) == part:
            return text, output


def draw_pieces(generator: random.Random) -> list[str]:
    """Draw 1 to 6 words, or numbers or times or letters."""
    draw_one = generator.choice([
        lambda: generator.choice(WORDS.split()),
        lambda: f"{generator.randrange(10 ** generator.randint(1, 4))}",
        lambda: f"{generator.randrange(24):02}:{generator.randrange(60):02}",
        lambda: "".join(generator.choices(SOURCE.characters, k=generator.randint(1, 24))),
        lambda: "".join(generator.choices(FOREIGN_LETTERS, k=generator.randint(1, 24))),
    ])  # fmt: skip
    return [draw_one() for _ in range(generator.choice([1, 2, 4, 5, 6]))]  # three numbers may be a date


def spoiled_date(fields: dict[str, str], generator: random.Random) -> str:
    """Write a date without its day or its year, or with a month that is none or a year of 3 or 5 digits."""
    made_up = generator.choice(MONTHS[:8])[:3] + generator.choice(["tember", "ober", "ember"])
    unknown = "".join(generator.choices(FOREIGN_LETTERS, k=generator.randint(3, 9)))
    wrong_month = generator.choice([made_up, unknown, generator.choice(WORDS.split())])
    year, place = fields["year"], generator.randrange(4)
    wrong_year = year[:place] + generator.choice(["", 2 * year[place]]) + year[place + 1 :]
    changes = [(DAYS, ""), (YEARS, ""), (NAMES, wrong_month), (NAMES, wrong_month), (("year",), wrong_year)]
    names, replacement = generator.choice(changes)
    return write(fields | dict.fromkeys(names, replacement), generator, names)


def unreal_day(generator: random.Random) -> dict[str, str]:
    """Draw a day that does not exist, or one of another year than 1950 to 2049."""
    while True:
        month = generator.choice([generator.randint(1, 12), generator.randint(0, 31)])  # such as 12/25/2021
        fields = fields_of(generator.randint(1850, 2110), month, generator.randint(0, 39))
        if not is_date(fields["iso"]):
            return fields


# --- training -------------------------------------------------------------------------------------------

STEPS = {"additive": 4000, "dot": 4000, "general": 4000, "concat": 3000, "transformer": 5000}
BATCH = 64  # dates per step
RATE = 2e-3  # Adam's highest learning rate
WARM_UP = 0.06  # the share of the steps in which it rises to that; it falls along a cosine
CLIP = 1.0  # the largest norm of a gradient
NO_DATES = 0.4  # the share of texts that are no date
OUTSIDERS = 0.06  # the share with a meaningless character before or after the date
TOGETHER = 250  # texts measured at a time
OUTSIDER = "\N{CALENDAR}"


def train(network: AlignNetwork, seed: int, steps: int) -> Iterator[float]:
    """Train a network in place. Yields the loss of each batch, in nats per character."""
    optimizer = torch.optim.Adam(network.parameters())
    rates = OneCycleLR(optimizer, RATE, steps, pct_start=WARM_UP, cycle_momentum=False)
    for step in range(steps):
        loss = loss_of(network, *training_batch(seed, step))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), CLIP)
        optimizer.step()
        rates.step()
        yield loss.item()


def training_batch(seed: int, step: int) -> tuple[list[str], list[str]]:
    """Draw the texts of one step and their outputs, always the same ones for a seed and a step."""
    generator = random.Random(f"{seed} {step}")
    texts, outputs = [], []
    for _ in range(BATCH):
        chance = generator.random()
        text, output = draw_no_date("train", generator) if chance < NO_DATES else draw_date("train", generator)
        if NO_DATES <= chance < NO_DATES + OUTSIDERS:
            text = generator.choice([f"{OUTSIDER}{text}", f"{text}{OUTSIDER}", f"{text}.", f"{text},"])
        texts.append(text)
        outputs.append(output)
    return texts, outputs


def predict(network: AlignNetwork, texts: Sequence[str], outputs: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Return the logits of each next character, given the true ones before (teacher forcing), and that character."""
    numbers = targets(outputs)
    return network(sources(texts), numbers[:, :-1]).logits, numbers[:, 1:]


def loss_of(network: AlignNetwork, texts: Sequence[str], outputs: Sequence[str]) -> Tensor:
    """Return the mean cross-entropy, in nats, of each next character."""
    logits, true = predict(network, texts, outputs)
    return F.cross_entropy(logits.flatten(0, 1), true.flatten(), ignore_index=PAD)


@torch.no_grad()
def share_exact(network: AlignNetwork, pairs: Sequence[tuple[str, str]]) -> float:
    """Return the share of (text, output) whose greedy translation is the output with its end.

    Greedy decoding writes exactly the output if and only if each of its characters, and the end, is the likeliest
    after the true ones before it. So one teacher-forced pass is enough.
    """
    right = 0
    for start in range(0, len(pairs), TOGETHER):
        texts, outputs = zip(*pairs[start : start + TOGETHER], strict=True)
        logits, true = predict(network, texts, outputs)
        right += int(((logits.argmax(dim=-1) == true) | (true == PAD)).all(dim=-1).sum())
    return right / len(pairs)


# --- the script -----------------------------------------------------------------------------------------

EVERY = 100  # steps between measurements on the validation part
VALIDATION = 200  # dates to measure on then
TEST = 2000  # dates to measure on at the end
TEST_NO_DATES = 500  # texts that are no date


def save(network: AlignNetwork, folder: Path, attention: str, seed: int, steps: int) -> None:
    """Write a network in half precision."""
    training = {"attention": attention, "seed": seed, "steps": steps}
    metadata = {"format": "attncli-align 2", **{name: json.dumps(value) for name, value in training.items()}}
    tensors = {name: tensor.half() for name, tensor in network.state_dict().items()}
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / f"{attention}.safetensors", metadata=metadata)


def main(arguments: Sequence[str] | None = None) -> None:
    asked = argparse.ArgumentParser(description="Train a network that `align` translates dates with.")
    asked.add_argument("--attention", choices=choices.names(choices.AttentionName), default="additive")
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--steps", type=int, help="batches to train on; without it: what the kind needs")
    asked.add_argument("-o", "--output", type=Path, default=Path(), metavar="DIR")
    options = asked.parse_args(arguments)
    # More threads gain nothing with networks this small, and with one the weights don't depend on their number.
    torch.set_num_threads(1)
    steps = options.steps or STEPS[options.attention]
    network, generator = build(options.attention, options.seed), random.Random(0)
    validation = [draw_date("validation", generator) for _ in range(VALIDATION)]
    for step, loss in enumerate(train(network, options.seed, steps), 1):
        if step % EVERY == 0 or step == steps:
            print(f"step {step}/{steps}  loss {loss:.5f}  exact {share_exact(network, validation):.1%}", flush=True)
    save(network, options.output, options.attention, options.seed, steps)
    network.load_state_dict({name: tensor.half().float() for name, tensor in network.state_dict().items()})
    dates = share_exact(network, [draw_date("test", generator) for _ in range(TEST)])
    no_dates = share_exact(network, [draw_no_date("test", generator) for _ in range(TEST_NO_DATES)])
    print(
        f"{dates:.2%} of {TEST:,} dates never seen are exact, and {no_dates:.2%} of {TEST_NO_DATES} texts that are none"
    )


if __name__ == "__main__":
    main()
