"""Masks in documents: a .json read back has the masks of its record, whatever they are."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from records import attention_records, cross_records, layered_records, record_of

from attncli import RequestError, load_record
from attncli.record.grouping import merge_words
from attncli.record.masks import mask_of, runs_of


@given(arrays(bool, st.tuples(st.integers(1, 9), st.integers(1, 9))))
def test_runs_are_the_mask(mask):
    runs = runs_of(mask)
    assert np.array_equal(mask_of(runs, *mask.shape), mask)
    assert all(start < end for of_query in runs for start, end in of_query)


@pytest.mark.parametrize("runs", [[[[0, 2]]], [[[0, 4]], []], [[[2, 2]], []], [[[2, 1]], []]])
def test_what_is_no_mask_of_so_many_is_refused(runs):
    with pytest.raises(ValueError, match="a mask"):
        mask_of(runs, 2, 3)


@given(st.one_of(layered_records(padding=1), attention_records(), cross_records()), st.booleans())
def test_a_json_read_back_has_its_masks(tmp_path_factory, record, words):
    record = merge_words(record) if words else record
    path = tmp_path_factory.getbasetemp() / "masks.json"
    record.save(path)
    again = load_record(path)
    assert np.array_equal(again.masks, record.masks) and again.mask_name == record.mask_name


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda masks: masks[0].update(layers=[5]), "masks are for layers"),
        (lambda masks: masks.append(masks[0]), "masks are for layers"),
        (lambda masks: masks[0].update(allowed=[[]] * 3), "hides key"),
        (lambda masks: masks[0].update(allowed="all"), "allowed"),
    ],
)
def test_masks_that_do_not_fit_are_refused(tmp_path, change, why):
    record = record_of(np.eye(3), np.eye(3, dtype=bool))
    document = json.loads(json.dumps({"model": vars(record.model), "records": [record.document()]}))
    change(document["records"][0]["masks"])
    path = tmp_path / "masks.json"
    path.write_text(json.dumps(document))
    with pytest.raises(RequestError, match=why):
        load_record(path)
