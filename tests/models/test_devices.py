"""Devices and dtypes of a model, sizes that are too large for one, and memory for maps that is used again."""

import gc

import numpy as np
import pytest
import torch
from checkpoints import make_checkpoint, make_config, make_network
from hypothesis import given, settings
from hypothesis import strategies as st
from vectors import OTHER, TEXT, vectors_make_the_maps

from attncli import RequestError, load_model
from attncli.models.devices import LARGE, Storage, pick_device


@pytest.mark.parametrize(("dtype", "near"), [("float64", 1e-5), ("float16", 0.02), ("bfloat16", 0.15)])
def test_dtypes(dtype, near, minilm):
    record = load_model("minilm", "cpu", dtype).attend(TEXT)
    expected = minilm.attend(TEXT).weights
    assert record.weights.dtype == np.float32
    np.testing.assert_allclose(record.weights, expected, atol=near)
    assert not (record.weights == expected).all()


def test_an_unknown_device_or_dtype_is_said_before_anything_is_fetched():
    with pytest.raises(RequestError, match=r"no dtype 'float8'.*float32"):
        load_model("bert-large", "cpu", "float8")
    with pytest.raises(RequestError, match=r"no device 'tpu'.*auto, cpu"):
        load_model("bert-large", "tpu")


def test_devices():
    assert pick_device("cpu") == torch.device("cpu")
    there = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    assert pick_device("auto").type == there
    for missing in ("cuda:99", "mps:7"):
        with pytest.raises(RequestError, match="not on this machine"):
            pick_device(missing)
    for wrong in ("", "gpu", "cpu:x", "cuda:"):
        with pytest.raises(RequestError, match="no device"):
            pick_device(wrong)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("mask", ["padding", "causal", "none"])
def test_a_gpu_gives_the_same(mask, minilm):
    model = load_model("minilm", "cuda")
    assert model.device.type == "cuda"
    for heads in ("all", "3", "5,1"):
        record = model.attend(TEXT, OTHER, heads=heads, mask=mask, pad_to=40)
        expected = minilm.attend(TEXT, OTHER, heads=heads, mask=mask, pad_to=40)
        np.testing.assert_allclose(record.weights, expected.weights, atol=1e-4)
    record = model.attend(TEXT, OTHER, mask=mask, pad_to=40, vectors="all")
    vectors_make_the_maps(record)


def test_scores_too_large_for_the_dtype_are_said(tmp_path):
    """Finite weights can still overflow on the way: what comes out must not pass for attention."""
    network = make_network(make_config("bert"))
    with torch.no_grad():
        network.encoder.layer[1].attention.self.query.weight.fill_(3e38)
    directory = make_checkpoint(tmp_path)
    network.save_pretrained(directory)
    model = load_model(str(directory), "cpu")
    assert np.isfinite(model.attend("the cat", layers=0).weights).all()
    with pytest.raises(RequestError, match=r"layer 1, head 2 .*too large for float32.*--dtype"):
        model.attend("the cat", layers="0-1", heads=2)


def test_a_key_too_large_for_the_dtype_is_said_where_the_mask_hides_it(tmp_path):
    """Queries of 0 make every score 0, whatever the keys are: only [PAD]'s is too large, and nobody looks there."""
    network = make_network(make_config("bert"))
    with torch.no_grad():
        embeddings, attention = network.embeddings, network.encoder.layer[0].attention.self
        embeddings.LayerNorm.weight.fill_(1)
        embeddings.LayerNorm.bias.zero_()
        embeddings.word_embeddings.weight[:, 0] = 0
        embeddings.word_embeddings.weight[0, 0] = 1000  # [PAD]: sqrt(32) after the norm, where others are small
        attention.query.weight.zero_()
        attention.query.bias.zero_()
        attention.key.weight[17].zero_()
        attention.key.weight[17, 0] = 8e37
    directory = make_checkpoint(tmp_path)
    network.save_pretrained(directory)
    model = load_model(str(directory), "cpu")
    assert np.isfinite(model.attend("the cat", layers=0, vectors="all").vectors.key).all()
    assert np.isfinite(model.attend("the cat", layers=0, pad_to=9).weights).all()
    with pytest.raises(RequestError, match=r"layer 0, head 2 .*queries or keys too large for float32.*--dtype"):
        model.attend("the cat", layers=0, pad_to=9, vectors="all")
    assert model.attend("the cat", layers=0, pad_to=9, vectors="0.1,0.3").vectors.heads == [(0, 1), (0, 3)]


# --- memory for maps -------------------------------------------------------------------------------------


LIKE = torch.empty(0)
ENOUGH = LARGE // 4  # float32 numbers


def test_it_is_used_again_when_the_last_view_is_gone():
    pool = Storage()
    first = pool.empty((2, ENOUGH), LIKE)
    where = first.data_ptr()
    part = first[1, 7:9].numpy()[:1]
    del first
    gc.collect()
    assert not pool.waiting
    assert pool.empty((2, ENOUGH), LIKE).data_ptr() != where
    del part
    gc.collect()
    assert pool.empty((ENOUGH, 2), LIKE).data_ptr() == where


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 5)), max_size=25))
def test_no_two_have_the_same(turns):
    """Some come, some go: each holds what was written there."""
    pool = Storage()
    held: list[tuple[int, np.ndarray]] = []
    for number, (parts, gone) in enumerate(turns):
        if gone < len(held):
            held.pop(gone)
        held.append((number, pool.empty((parts, ENOUGH), LIKE).fill_(number).numpy()[-1:, ::512]))
        assert all((array == value).all() for value, array in held)
