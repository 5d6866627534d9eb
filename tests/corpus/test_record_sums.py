"""Sums from records: beside numpy means over transformers' own attentions, and beside attncli's own network."""

import numpy as np
import pytest
from windows import corpus, sums_of

import attncli
from attncli import RequestError
from attncli.corpus.reducer import Reducer
from attncli.corpus.sums import FIGURES

TEXTS = ["the cat sat on the mat", "a mat", "in the cat, the mat. a cat sat", "on a mat the cat sat on a mat"]


@pytest.mark.parametrize("asked", [{}, {"mask": "none"}, {"words": True}, {"stride": 9}])
def test_a_bert_is_counted_alike_by_both_engines(tiny, asked):
    path = str(tiny("bert"))
    texts = [*TEXTS, "the unbelievable cat, " * 20]
    ours, other = (
        attncli.corpus_statistics(attncli.load_model(path, "cpu", engine=engine), texts, **asked)
        for engine in ("attncli", "transformers")
    )
    assert np.allclose(ours.figures, other.figures, atol=1e-5) and np.allclose(ours.spread, other.spread, atol=1e-5)
    assert ours.entropy_limit == pytest.approx(other.entropy_limit)
    assert (ours.model, ours.texts, ours.tokens, ours.parts) == (other.model, other.texts, other.tokens, other.parts)


def test_a_long_text_goes_through_in_windows_and_is_one_text(foreign):
    model = foreign("gpt2")
    cut = corpus(model, ["the cat, and the cat. " * 12], stride=17)
    assert len(cut) > 2
    rows = [
        record.weights[:, :, slice(*window.counted)]
        for window in cut
        for record in model.attend_tokens([window.tokens], attncli.Request())
    ]
    found = sums_of(Reducer(model), cut)
    strongest = np.concatenate([weights.max(axis=-1) for weights in rows], axis=-1).mean(axis=-1)
    assert np.allclose(found.figures[..., FIGURES.index("strongest")], strongest, atol=1e-6)
    assert (found.texts, found.queries) == (1, sum(window.queries for window in cut))


@pytest.mark.parametrize(
    ("family", "asked", "why"),
    [
        ("t5", {"which": "cross"}, "cross-attention is between two texts"),
        ("gpt2", {"which": "encoder"}, "has no encoder attention, since it is only a decoder"),
        ("gpt2", {"which": "middle"}, "no part 'middle'"),
    ],
)
def test_what_can_not_be_counted(foreign, family, asked, why):
    with pytest.raises(RequestError, match=why):
        attncli.corpus_statistics(foreign(family), TEXTS, **asked)


def test_an_encoder_of_attnclis_own_has_no_parts(minilm):
    with pytest.raises(RequestError, match="--which is for encoder-decoders"):
        attncli.corpus_statistics(minilm, TEXTS, which="encoder")
