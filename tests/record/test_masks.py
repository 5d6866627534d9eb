"""Masks in documents, and the precision that rows of a record are held to."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from records import record_of
from saved_records import same

from attncli import RequestError, load_record
from attncli import record_of as record_of_maps
from attncli.record.masks import mask_of, runs_of


@given(arrays(bool, st.tuples(st.integers(1, 9), st.integers(1, 9))))
def test_runs_are_the_mask(mask):
    runs = runs_of(mask)
    assert np.array_equal(mask_of(runs, *mask.shape), mask)
    assert all(start < end for of_query in runs for start, end in of_query)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda masks: masks.append(masks[0]), "masks are for layers"),
        (lambda masks: masks[0].update(allowed=[[]] * 3), "hides key"),
        (lambda masks: masks[0].update(allowed="all"), "allowed"),
    ],
)
def test_masks_that_do_not_fit_are_refused(tmp_path, change, why):
    record = record_of(np.eye(3), np.eye(3, dtype=bool))
    document = json.loads(json.dumps({"model": record.model.document(), "records": [record.document()]}))
    change(document["records"][0]["masks"])
    path = tmp_path / "masks.json"
    path.write_text(json.dumps(document))
    with pytest.raises(RequestError, match=why):
        load_record(path)


# --- precision ---------------------------------------------------------------------------------------


SUFFIXES = ("npz", "safetensors", "json")


def softmax(shape=(2, 3, 40, 40), seed=0):
    return torch.softmax(4 * torch.randn(shape, generator=torch.Generator().manual_seed(seed)), dim=-1)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_maps_of_half_precision_are_read_as_they_were_saved(dtype, suffix, tmp_path):
    weights = softmax((1, 2, 200, 200)).to(getattr(torch, dtype))
    record = record_of_maps(weights, ["a"] * 200)
    path = tmp_path / f"a.{suffix}"
    record.save(path)
    found = load_record(path)
    np.testing.assert_array_equal(found.weights, weights.float().numpy())
    if suffix != "json":  # which does not hold all of a record
        same(found, record)
        assert found.dtype == dtype


def test_a_row_of_half_precision_is_held_to_what_that_explains(tmp_path):
    weights = softmax((1, 1, 9, 9)).to(torch.float16)
    weights[0, 0, 3] *= 0.9
    with pytest.raises(RequestError, match=r"row 3 of map 0, 0 sums to 0\.(8|9)"):
        record_of_maps(weights, ["a"] * 9)
    record_of(weights.float().numpy()).save(tmp_path / "a.npz")
    with pytest.raises(RequestError, match=r"row 3 of map 0, 0 sums to 0\.(8|9)"):
        load_record(tmp_path / "a.npz")
