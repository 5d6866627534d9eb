"""Usual weights of a model's heads, over the short texts that come with the program."""

import numpy as np
import pytest
from foreign_checkpoints import make_foreign

from attncli import Request, load_model
from attncli.analysis.edges import Usual
from attncli.analysis.patterns import row_shares
from attncli.corpus.usual import lines, usual_of
from attncli.record.grouping import merge_words


@pytest.mark.slow
def test_it_is_that_of_their_records(minilm):
    texts = lines()
    assert len(texts) == len(set(texts)) >= 10 and all(len(text) < 200 for text in texts)
    for request in (Request(), Request(layers="2", heads="0-3", mask="causal"), Request(measure="norm")):
        asked = {"layers": request.layers, "heads": request.heads, "mask": request.mask, "measure": request.measure}
        records = [row_shares(minilm.attend(text, **asked)) for text in texts]
        found = usual_of(minilm, request)
        assert np.allclose(found.sums, Usual.of(records).sums, atol=1e-4)
        assert np.array_equal(found.counts, Usual.of(records).counts) and found.texts == len(texts)
    between = usual_of(minilm, Request(), words=True)
    assert np.allclose(between.sums, Usual.of(map(merge_words, minilm.attend_many(texts))).sums, atol=1e-4)


@pytest.mark.parametrize(
    ("family", "which", "there"), [("gpt2", None, True), ("t5", "encoder", True), ("t5", None, False)]
)
def test_a_decoder_that_would_have_to_write_is_not_asked(tmp_path, family, which, there):
    make_foreign(tmp_path, family)
    model = load_model(str(tmp_path), "cpu", engine="transformers")
    assert (usual_of(model, Request(which=which)) is not None) is there
