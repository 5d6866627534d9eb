"""The statistics of saved maps are those of the texts that they were made of."""

import dataclasses

import numpy as np
import pytest
from records import record_of
from records import tokens_of as made_up_tokens

from attncli import RequestError, corpus_statistics
from attncli.corpus.statistics import record_statistics

TEXTS = ["The unbelievable cat sat on the mat, and the dog sat too.", "It is big.", "中文, and the cat"]


@pytest.mark.parametrize(
    ("mask", "measure", "words"),
    [("padding", "weight", False), ("causal", "weight", True), ("padding", "norm", False), ("none", "norm", True)],
)
def test_they_are_those_of_the_corpus(mask, measure, words, minilm):
    records = list(minilm.attend_many(TEXTS, mask=mask, measure=measure))
    found = record_statistics(records, words=words, distances=True)
    expected = corpus_statistics(minilm, TEXTS, mask, True, measure, words)
    for field in dataclasses.fields(expected):
        here, there = getattr(found, field.name), getattr(expected, field.name)
        if field.name == "distances":
            np.testing.assert_allclose(here.divergence, there.divergence, atol=1e-6)
        elif isinstance(there, np.ndarray):
            np.testing.assert_allclose(here, there, atol=2e-6)
        else:
            assert here == there, field.name


def test_padding_is_left_out(minilm):
    padded, bare = minilm.attend(TEXTS[0], pad_to=40), minilm.attend(TEXTS[0])
    found, expected = record_statistics([padded]), record_statistics([bare])
    np.testing.assert_allclose(found.figures, expected.figures, atol=1e-5)
    assert found.tokens == expected.tokens
    np.testing.assert_allclose(found.entropy_limit, expected.entropy_limit)


def test_layers_in_any_order_are_their_own(minilm):
    record = minilm.attend("The cat sat.")
    turned = record.select([5, 4, 3, 2, 1, 0])
    np.testing.assert_array_equal(record_statistics([turned]).figures, record_statistics([record]).figures)


EVEN = record_of(np.full((2, 2, 5, 5), 0.2))


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([], "no record"),
        ([EVEN.select([0])], "all 2 layers and 2 heads: .*-l all"),
        ([EVEN, dataclasses.replace(EVEN, mask_name="none")], "one mask"),
        ([EVEN, dataclasses.replace(EVEN, measure="norm")], "one measure"),
        ([EVEN, dataclasses.replace(EVEN, model=dataclasses.replace(EVEN.model, name="b"))], "one model"),
        ([dataclasses.replace(EVEN, key_tokens=EVEN.tokens)], "between two texts"),
        ([dataclasses.replace(EVEN, tokens=made_up_tokens(5, padding=1))], r"gives it weight"),
        ([dataclasses.replace(EVEN, mask_name="mine")], "no mask 'mine'"),
    ],
)
def test_what_has_no_statistics(records, said):
    with pytest.raises(RequestError, match=said):
        record_statistics(records)
