"""Translating: greedy decoding, what an alignment says, and texts that are refused or doubted."""

import random
import warnings
from functools import cache

import numpy as np
import pytest
import torch
from dates_by_hand import DATES, NO_DATES
from slow import slow_except
from train_align import STEPS, draw_date, draw_no_date, share_exact

from attncli.align.characters import END, NONE, TARGET
from attncli.align.checkpoint import WEIGHTS, load
from attncli.align.networks import Decoded
from attncli.align.translate import LIMIT, LONGEST, is_date, translate
from attncli.base import choices
from attncli.base.errors import Notice, RequestError

ATTENTIONS = choices.names(choices.AttentionName)
READ_OCTOBER = ("general", "concat")
every_kind = pytest.mark.parametrize("attention", slow_except(ATTENTIONS, ["additive", "transformer"]))


@cache
def network(attention):
    """Load a network that comes with the package."""
    return load(attention).network


EXAMPLES = {
    "3 March 2021": "2021-03-03",
    "March 3rd, 2021": "2021-03-03",
    "Wed 3 Mar 21": "2021-03-03",
    "Wednesday, the 3rd of March 2021": "2021-03-03",
    "2021年3月3日": "2021-03-03",
    "二〇二一年三月三日": "2021-03-03",
    "21年3月3日 星期三": "2021-03-03",
    "03.03.2021": "2021-03-03",
    "2021/3/3": "2021-03-03",
    "3-Mar-2021": "2021-03-03",
    "31 DECEMBER 1999": "1999-12-31",
    "29 february 2024": "2024-02-29",
    "04/05/2006": "2006-05-04",
    "20210405": "2021-04-05",
}


def draw_dates(count, generator):
    return [draw_date("test", generator) for _ in range(count)]


class Parrot:
    """A network that writes these texts, one after the other, whatever it reads, each with its END."""

    sure = np.log(len(TARGET) - 1)  # a probability of one half

    def __init__(self, *texts):
        self.rows = [[*TARGET.encode(text), END] for text in texts]

    def __call__(self, source, previous):
        queries, keys = previous.shape[1], source.shape[1]
        if queries == 1:
            self.row = self.rows.pop(0)
        logits = torch.zeros(1, queries, len(TARGET))
        logits[0, range(queries), self.row[:queries]] = self.sure
        return Decoded(logits, {"cross": torch.full((1, 1, 1, queries, keys), 1 / keys)})


def certain(*texts):
    """A network that writes these texts with all its probability."""
    parrot = Parrot(*texts)
    parrot.sure = 100.0
    return parrot


def test_the_package_has_the_weights_of_a_whole_training_of_each_kind():
    assert sorted(file.stem for file in WEIGHTS.iterdir()) == sorted(ATTENTIONS)
    assert sum(file.stat().st_size for file in WEIGHTS.iterdir()) <= 4e6
    for attention in ATTENTIONS:
        found = load(attention)
        assert (found.attention, found.seed, found.steps) == (attention, 0, STEPS[attention])
        assert all(tensor.isfinite().all() for tensor in found.network.state_dict().values())


@every_kind
def test_dates_as_people_write_them_in_every_kind(attention):
    alignments = list(translate(network(attention), list(EXAMPLES)))
    assert {one.text: one.output for one in alignments} == EXAMPLES
    assert sum(one.doubt is not None for one in alignments) <= 1  # of dates that are right 1 in 50 is doubted


@every_kind
def test_an_alignment_is_whole(attention):
    one = next(translate(network(attention), ["Wednesday, the 3rd of March 2021"]))
    assert one.characters == [*"Wednesday, the 3rd of March 2021", "[END]"]
    assert one.emitted == [*"2021-03-03", "[END]"]
    assert one.probability == pytest.approx(np.prod(one.probabilities)) and len(one.probabilities) == 11
    layers, heads = (2, 4) if attention == "transformer" else (1, 1)
    sizes = {"cross": (layers, heads, 11, 33)}
    if attention == "transformer":
        sizes |= {"encoder": (2, 4, 33, 33), "decoder": (2, 4, 11, 11)}
        assert not np.triu(one.maps["decoder"], 1).any()
    assert {kind: weights.shape for kind, weights in one.maps.items()} == sizes
    for weights in one.maps.values():
        assert weights.dtype == np.float32 and np.allclose(weights.sum(-1), 1, atol=1e-5)


@every_kind
def test_attention_is_an_alignment(attention):
    """The day's two digits are read where they stand, and nothing else is looked at as much."""
    one = next(translate(network(attention), ["14 September 1987"]))
    weights = one.maps["cross"][-1].mean(axis=0)[8:10]
    around = [weights[0, :3].sum(), weights[1, :3].sum()]  # a state between two characters has read both
    assert min(around) > 0.5


def test_writing_stops_at_the_end_token_of_each_text():
    alignments = list(translate(Parrot("2021-03-03", "1", ""), ["a", "bc", "def"]))
    assert [one.output for one in alignments] == ["2021-03-03", "1", ""]
    assert [len(one.probabilities) for one in alignments] == [11, 2, 1]
    assert [one.maps["cross"].shape for one in alignments] == [(1, 1, 11, 2), (1, 1, 2, 3), (1, 1, 1, 4)]
    assert [one.probability for one in alignments] == pytest.approx([0.5**11, 0.5**2, 0.5], rel=1e-4)


def test_writing_stops_at_the_limit_when_no_end_comes():
    endless, other = translate(Parrot("1" * (LIMIT + 5), "2021-03-03"), ["a", "b"])
    assert endless.output == "1" * LIMIT and endless.emitted == ["1"] * LIMIT
    assert "does not end" in endless.doubt
    assert other.emitted == [*"2021-03-03", "[END]"]


@pytest.mark.parametrize(
    ("written", "doubt"),
    [
        *[(text, "not an existing date") for text in ("2021-02-31", "2021-3-3", "20210303", "")],
        ("none", "the model finds no date from 1950 to 2049 in it"),
        ("1949-12-31", "1949-12-31 is not from 1950 to 2049"),
        ("2050-01-01", "2050-01-01 is not from 1950 to 2049"),
    ],
)
def test_an_output_that_is_no_date_is_doubted(written, doubt):
    one = next(translate(Parrot(written), ["a"]))
    assert (one.output, one.date) == (written, None) and doubt in one.doubt


def test_an_output_of_low_probability_is_doubted():
    assert next(translate(certain("2021-03-03"), ["a"])).doubt is None
    assert "unsure" in next(translate(Parrot("2021-03-03"), ["a"])).doubt


def outcomes(attention, pairs):
    """Return the share of texts whose date (or None) is right, and the share that is wrong without a doubt."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        translated = list(translate(network(attention), [text for text, _ in pairs]))
    expected = [output if is_date(output) else None for _, output in pairs]
    wrong = [one for one, date in zip(translated, expected, strict=True) if one.date != date]
    return 1 - len(wrong) / len(pairs), sum(one.doubt is None for one in wrong) / len(pairs)


@pytest.mark.slow
@every_kind
def test_dates_and_texts_that_are_none_as_people_wrote_them(attention):
    assert outcomes(attention, DATES) == (1, 0)
    right, silent = outcomes(attention, [(text, NONE) for text in NO_DATES])
    assert right >= 0.94 and silent <= 0.06


@pytest.mark.slow
@every_kind
def test_weights_of_the_package_know_dates_never_seen_and_texts_that_are_none(attention):
    generator = random.Random(0)
    assert share_exact(network(attention), draw_dates(2000, generator)) >= 0.975
    right, silent = outcomes(attention, draw_dates(500, generator))
    assert right >= 0.975 and silent <= 0.004
    right, silent = outcomes(attention, [draw_no_date("test", generator) for _ in range(500)])
    assert right >= 0.88 and silent <= 0.06


@every_kind
def test_texts_that_are_no_date_are_doubted(attention):
    texts = ["31 February 2021", "32 March 2020", "12/25/2021", "1 January 2050", "hello world", "3 March", "明天"]
    assert all(one.doubt is not None and one.date is None for one in translate(network(attention), texts))


@pytest.mark.parametrize(
    "attention",
    [
        pytest.param(name, marks=[pytest.mark.xfail(strict=True, reason="it reads October")] * (name in READ_OCTOBER))
        for name in ATTENTIONS
    ],
)
def test_a_month_made_of_two_is_doubted(attention):
    assert next(translate(network(attention), ["3rd of Octember 2021"])).doubt is not None


@pytest.mark.parametrize("text", ["", " \t", "1" * (LONGEST + 1)])
def test_empty_and_too_long_texts_are_refused_before_any_is_translated(text):
    with pytest.raises(RequestError):
        next(translate(Parrot("1", "1"), ["3 March 2021", text]))


def test_unknown_characters_are_named_once_each():
    with pytest.warns(Notice, match="'📅', 'é'$") as notices:
        next(translate(Parrot("1"), ["📅 é📅 3 March 2021"]))
    assert len(notices) == 1
