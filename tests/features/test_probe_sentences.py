"""Sentences through a model: in which order, and on how many cores."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import corpora
import numpy as np
import pytest

from attncli.corpus.treebank import Sentence
from attncli.features.probe import counting
from attncli.features.probe.counting import NOT_WRITTEN, _read

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


def test_what_a_decoder_does_not_write_whole_comes_last_in_its_order(foreign, each, monkeypatch):
    written = counting._maps_of_writing
    monkeypatch.setattr(
        counting, "_maps_of_writing", lambda model, sentence: None if sentence.line % 2 else written(model, sentence)
    )
    given = [("a", Sentence(["cat", "sat"], [1, None], ["nsubj", "root"], line)) for line in range(12)]
    found = list(_read(foreign("t5"), given, "decoder", each))
    assert [(one[0], one[2].line) for one in found[6:]] == [(NOT_WRITTEN, line) for line in range(1, 12, 2)]
    assert {one[2].line for one in found[:6]} == set(range(0, 12, 2)) and found[0][2].line != 0
