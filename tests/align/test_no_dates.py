"""Texts that are no date: every class, what is to be written for each, and no text or word in two parts."""

import random

import pytest

from attncli.align.characters import NONE, SOURCE, UNKNOWN
from attncli.align.dates import is_date, is_day, part_of
from attncli.align.formats import read
from attncli.align.no_dates import (
    KINDS,
    LONGEST,
    MONTHS_ELSEWHERE,
    WORDS,
    almost_months,
    american,
    broken,
    draw_no_date,
    impossible,
    other_month,
    other_year,
    pool,
    words,
)

PARTS = ("train", "validation", "test")


@pytest.mark.parametrize("part", PARTS)
def test_what_is_drawn_is_no_date_and_of_its_part(part):
    generator = random.Random(0)
    drawn = [draw_no_date(part, generator) for _ in range(150)]
    again = random.Random(0)
    assert drawn == [draw_no_date(part, again) for _ in range(150)]
    for text, output in drawn:
        assert output == str(read(text) or NONE) and not is_date(output)
        assert 0 < len(text) <= LONGEST and text == text.strip()
        assert part_of(text.lower()) == part
    assert 0.4 < sum(output == NONE for _, output in drawn) / len(drawn) < 0.9
    assert any(UNKNOWN in SOURCE.encode(text) for text, _ in drawn)


@pytest.mark.parametrize("kind", dict.fromkeys(KINDS), ids=lambda kind: kind.__name__)
def test_every_class_gives_texts_that_are_no_date(kind):
    generator = random.Random(0)
    texts = [kind("train", generator) for _ in range(50)]
    assert len(set(texts)) > 40
    assert sum(not is_date(str(read(text))) for text in texts) > 25  # what can be read is drawn once more


def test_what_is_stated_is_no_day_or_of_another_year():
    generator = random.Random(0)
    outputs = {
        kind: [str(read(kind("train", generator))) for _ in range(100)] for kind in (impossible, american, other_year)
    }
    assert not any(is_day(output) for kind in (impossible, american) for output in outputs[kind])
    assert all(output[5:7] > "12" and "00" < output[8:] <= "12" for output in outputs[american])
    assert all(is_day(output) and not is_date(output) for output in outputs[other_year])
    days_of_february = {output[5:] for output in outputs[impossible] if output[5:7] == "02"}
    assert {"02-29", "02-30", "02-31"} <= days_of_february


def test_words_and_foreign_months_of_the_test_are_never_trained_on():
    for names in (WORDS, MONTHS_ELSEWHERE):
        parts = [{name.lower() for name in pool(names, part)} for part in PARTS]
        assert all(len(part) >= 5 for part in parts)
        assert sum(map(len, parts)) == len(set.union(*parts))
    generator, known = random.Random(0), set(pool(WORDS, "test"))
    for _ in range(50):
        assert all(word in known or word.isdigit() for word in words("test", generator).replace(",", "").split())


def test_impossible_days_are_of_their_part():
    generator = random.Random(0)
    assert all(part_of(read(impossible("test", generator))) == "test" for _ in range(50))


@pytest.mark.parametrize("name", ["january", "jan", "sept", "janury", "decemberr", "feburary", "novembex", "januar"])
def test_a_month_that_a_person_would_still_read_is_no_other(name):
    assert name in almost_months()


@pytest.mark.parametrize("name", ["octember", "mars", "mai", "juin", "juni", "märz", "febtober", "dez", "spring", "s"])
def test_other_months_are_told_from_months_with_a_typing_error(name):
    assert name not in almost_months()


def test_other_months_are_drawn_and_none_that_is_almost_one():
    generator = random.Random(0)
    texts = [other_month("train", generator).lower() for _ in range(300)]
    assert all(read(text) is None for text in texts)
    assert any("ember" in text for text in texts) and any(UNKNOWN in SOURCE.encode(text) for text in texts)
    assert not any(f" {name} " in text for name in almost_months() for text in texts)


def test_what_is_broken_are_its_digits():
    generator = random.Random(0)
    texts = [broken("train", generator).lower() for _ in range(300)]
    assert sum(read(text) is None for text in texts) > 100
    letters = {"".join(letter for letter in text if letter.isascii() and letter.isalpha()) for text in texts}
    assert {"january", "may", "wednesdaymarchth"} & letters
