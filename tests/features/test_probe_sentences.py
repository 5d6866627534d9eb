"""Sentences through a model: in which order, and on how many cores."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import corpora
import numpy as np
import pytest

from attncli.features.probe.counting import _read

TREEBANK = str(Path(__file__).parents[2] / "sample_inputs" / "treebank.conllu")


@pytest.fixture(scope="module")
def placed():
    return [(TREEBANK, sentence) for sentence in corpora.sentences(TREEBANK)]


@pytest.fixture(scope="module")
def each():
    with ThreadPoolExecutor(2) as threads:
        yield threads


def test_sentences_come_in_an_order_of_chance_that_is_always_the_same(minilm, placed, each):
    texts, again = ([sentence.text for _, _, sentence in _read(minilm, placed, None, each)] for _ in range(2))
    given = [sentence.text for _, sentence in placed]
    assert texts == again != given and sorted(texts) == sorted(given)
    lengths = [len(record.tokens) for record, _, _ in _read(minilm, placed, None, each)]
    assert min(lengths[:10]) < np.median(lengths) < max(lengths[:10])
