"""Titles of pictures name the model, the heads and anything left out."""

from dataclasses import replace

import numpy as np
import pytest
from pictures import check_nothing_overlaps, maps, picture_texts, random_record


def test_numbers_are_the_models_and_not_places_in_the_record():
    record = replace(random_record(1, 2, 5), layers=[7], heads=[3, 9])
    texts = picture_texts(record.figure())
    assert "made-up · layer 7 · heads 3,9 · mask padding" in texts
    assert {"head 7.3", "head 7.9"} < set(texts)


@pytest.mark.slow
def test_without_special_tokens_the_picture_says_that_rows_do_not_sum_to_1():
    record = random_record(1, 1, 6)
    drawn = record.figure(special=False)
    assert np.array_equal(maps(drawn)[0].get_array(), record.weights[0, 0, 1:-1, 1:-1])
    assert "without [CLS], [SEP]: rows no longer sum to 1" in picture_texts(drawn)
    assert not any("sum to 1" in text for text in picture_texts(record.figure()))


def test_a_long_name_and_a_long_title_are_kept_short():
    record = random_record(1, 1, 4)
    path = "/somewhere/far/away/on/this/machine/checkpoints/of-last-year/bert-tiny"
    record = replace(record, model=replace(record.model, name=path))
    assert "bert-tiny · layer 0 · head 0 · mask padding" in picture_texts(record.figure())
    check_nothing_overlaps(record.figure(title="one word after another " * 12))
