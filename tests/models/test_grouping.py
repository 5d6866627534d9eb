"""Grouped maps of a long text equal those of its full record, and take no more memory than they need."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from measuring import peak_added

from attncli import load_model
from attncli.base.choices import MaskName, UnitName, names
from attncli.models import taps as blocks
from attncli.record import Request, grouping
from attncli.record.grouping import group_record
from attncli.record.selection import Grouping

WORDS = ("the", "cat", "sat", "on", "big", "it", "unbelievable", "cats", ",")


@pytest.fixture(scope="module")
def model(tiny):
    return load_model(str(tiny("modernbert")), device="cpu")


LONG = "the cat sat on the big cat, and it sat on the unbelievable cats"
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=25).map(" ".join)
UNITS, STRETCHES = st.sampled_from(names(UnitName)), st.booleans()
GROUPINGS = st.one_of(
    st.builds(Grouping, st.none(), UNITS, STRETCHES),
    st.builds(Grouping, st.sampled_from(["0-1", "1,-1", "-1"]), st.sampled_from(["token", "word"]), STRETCHES),
    st.builds(Grouping, st.none(), UNITS, STRETCHES, queries=st.sampled_from(["LAST", "0-1", "0,-1,LAST"])),
)


@settings(max_examples=16)
@given(
    texts=st.lists(TEXTS, min_size=1, max_size=3),
    grouping_=GROUPINGS,
    request_=st.builds(
        Request,
        st.sampled_from(["all", "2,0"]),
        st.sampled_from(["all", "1", "3,0"]),
        st.sampled_from(names(MaskName)),
        measure=st.sampled_from(["weight", "norm"]),
    ),
    pad_to=st.sampled_from([None, 40]),
    most=st.integers(2, 7),
    block=st.sampled_from([1, 70, 500, 2**22]),
)
@example(texts=[LONG], grouping_=Grouping(stretches=True), request_=Request(), pad_to=None, most=3, block=70)
@example(texts=[LONG, "the cat"], grouping_=Grouping(queries="LAST,1"), request_=Request(), pad_to=40, most=3, block=70)
def test_what_is_kept_is_what_the_full_record_gives(model, texts, grouping_, request_, pad_to, most, block):
    """Compare several texts in one batch, in blocks of any size, with windows and without."""
    tokens = [model.tokenizer.encode(text, None, pad_to) for text in texts]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(grouping, "LONG", 8)
        patched.setattr(grouping, "MOST", most)
        patched.setattr(blocks, "BLOCK", block)
        patched.setattr(blocks.GroupedMaps, "most_weights", block)
        made = list(model.attend_tokens(tokens, replace(request_, grouping=grouping_)))
        full = [group_record(one, grouping_) for one in model.attend_tokens(tokens, request_)]
    for one, other in zip(made, full, strict=True):
        assert one.tokens == other.tokens and one.part == other.part and one.key_tokens == other.key_tokens
        assert one.rows == other.rows
        np.testing.assert_allclose(one.weights, other.weights, atol=1e-6, rtol=5e-5)  # added up in another order
        assert np.array_equal(one.masks, other.masks)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="measured on Linux only")
@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_a_long_map_is_never_there(tiny, family):
    """4,000 tokens: a layer's maps have 256 MB and its mask 16; all 16 maps in 500 stretches have 16 MB."""
    model = load_model(str(tiny(family, max_position_embeddings=4096)), device="cpu")
    tokens = model.tokenizer.encode("cat " * 3998).take(range(4000))
    request = Request(grouping=Grouping(stretches=True))
    keep = lambda: next(model.attend_tokens([tokens], request))  # noqa: E731
    record = keep()
    assert record.weights.nbytes == 16 * 500**2 * 4
    added = min(peak_added(keep, torch.device("cpu")) for _ in range(8))  # what else happens just then adds to it
    assert added < 200 * 2**20, f"{added / 2**20:.0f} MiB"
