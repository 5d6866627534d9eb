"""The cells sum to the cosine that sentence-transformers has, whatever makes the embedding."""

import numpy as np
import pytest
import torch
from checkpoints import make_checkpoint
from foreign_checkpoints import TEXT, make_foreign
from sentences import NORMALIZE, dense, pooling, write_modules
from transformers import AutoModel

from attncli import RequestError, load_model
from attncli.effects.ablation import ablate
from attncli.effects.asking import Asking
from attncli.effects.similarity import cosines, similar
from attncli.models.loading import load_own

A, B = "The cat sat on the mat.", "A cat is sitting on a rug."
SMALL = "the cat sat on the unbelievable cat", "it is too big and it sat"
LINEAR = "linear.Identity"
MADE = {
    "mean": [pooling("mean_tokens"), NORMALIZE],
    "cls": [pooling("cls_token")],
    "max": [pooling("max_tokens"), NORMALIZE],
    "square root": [pooling("mean_sqrt_len_tokens"), dense(32, 20, LINEAR)],
    "weighted": [pooling("weightedmean_tokens"), NORMALIZE, dense(32, 20, LINEAR), NORMALIZE],
    "last": [pooling("lasttoken"), dense(32, 20, LINEAR)],
    "two": [pooling("cls_token", "mean_tokens"), NORMALIZE],
    "dense": [pooling("mean_tokens"), dense(32, 20, LINEAR), dense(20, 8, LINEAR, bias=False), NORMALIZE],
}


@pytest.fixture
def folder(tmp_path):
    """`folder(*modules)` -> a small checkpoint with these modules after it."""
    return lambda *modules: write_modules(make_checkpoint(tmp_path / "made"), *modules)


def theirs(directory, *texts: str) -> float:
    """The cosine of what sentence-transformers makes of two texts."""
    package = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    one, other = package.SentenceTransformer(str(directory), device="cpu").encode(list(texts)).astype(np.float64)
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


@pytest.mark.slow
def test_minilm_sums_to_the_cosine_of_sentence_transformers(minilm):
    found = similar(minilm, A, B)
    assert found.contributions.sum() == pytest.approx(theirs(minilm.place.path, A, B), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("modules", MADE.values(), ids=MADE)
def test_it_sums_to_the_cosine_of_sentence_transformers(modules, folder):
    directory = folder(*modules)
    found = similar(load_own(str(directory), "cpu"), *SMALL)
    expected = theirs(directory, *SMALL)
    assert found.contributions.sum() == pytest.approx(expected, abs=1e-6)
    assert found.cosine == pytest.approx(expected, abs=1e-6)


def test_it_sums_to_the_cosine_of_the_embeddings(minilm):
    """And what a cell is: of the mean of n and m vectors, x · y / (n m), over the lengths of the means."""
    found = similar(minilm, A, B)
    one, other = minilm.embed([A, B]).astype(np.float64)
    assert found.sum == found.contributions.sum()
    assert (found.sum, found.cosine) == pytest.approx((one @ other, one @ other), abs=1e-6)
    assert abs(found.difference) < 1e-12
    x, y = (minilm.last_hidden([minilm.tokenizer.encode(text)])[0].double().numpy() for text in (A, B))
    lengths = np.linalg.norm(x.mean(axis=0)) * np.linalg.norm(y.mean(axis=0))
    np.testing.assert_allclose(found.contributions, x @ y.T / x.shape[0] / y.shape[0] / lengths, atol=1e-7)
    assert (found.tokens.text[2], found.key_tokens.text[4]) == ("cat", "sitting")
    other_way = similar(minilm, B, A)
    np.testing.assert_allclose(other_way.contributions, found.contributions.T, atol=1e-6)


def test_it_does_so_without_normalize_and_with_a_bias(folder):
    found = similar(load_own(str(folder(pooling("mean_tokens"), dense(32, 20, LINEAR))), "cpu"), *SMALL)
    assert abs(found.difference) < 1e-12 and found.biased
    assert found.sum == found.contributions.sum() != 0


@pytest.mark.slow
def test_beside_it_stands_what_ablate_says(minilm):
    found = similar(minilm, A, B, mask="causal")
    expected = ablate(minilm, A, asking=Asking(similar_to=B, mask="causal"))
    np.testing.assert_array_equal(found.effects.effects, expected.effects)
    assert found.cosine == pytest.approx(expected.answer.value, abs=1e-6)


@pytest.mark.slow
def test_input_tokens_and_references_sum_to_the_cosine(minilm):
    """The terms of the references are cosines of their embeddings; what is left over is as small as is said."""
    found = similar(minilm, A, B, inputs=True)
    references = found.references
    assert abs(found.difference) < 1e-5 < abs(references.half_difference) < 1e-2
    assert found.sum == pytest.approx(
        found.contributions.sum() + references.first + references.second - references.both
    )
    assert not found.contributions[[0, -1]].any() and not found.contributions[:, [0, -1]].any()
    assert found.strongest(1)[0][:2] == (2, 2)  # cat and cat


@pytest.mark.slow
def test_in_float64_they_do_so_to_the_last_digits(folder):
    model = load_own(str(folder(pooling("mean_tokens"), dense(32, 20), NORMALIZE)), "cpu", "float64")
    found = similar(model, "the cat sat", "it is big", inputs=True, steps=128)
    assert abs(found.difference) < 1e-6


def test_a_sum_that_there_is_not_is_refused(folder, tiny):
    with pytest.raises(RequestError, match=r"a Dense with tanh .* --inputs"):
        similar(load_own(str(folder(pooling("mean_tokens"), dense(32, 20))), "cpu"), *SMALL)
    with pytest.raises(RequestError, match="do not say how the vectors of a text become one: add --pool mean, or"):
        similar(load_own(str(tiny("bert")), "cpu"), *SMALL)
    with pytest.raises(RequestError, match="a multiple of 4"):
        similar(load_own(str(tiny("bert")), "cpu"), *SMALL, inputs=True, steps=6)


def test_cosines_of_several_texts(minilm):
    texts = [A, B, "It rains."]
    found = cosines(minilm, texts)
    assert found.texts == texts and found.values.dtype == np.float64
    np.testing.assert_allclose(np.diag(found.values), 1, atol=1e-12)
    np.testing.assert_allclose(found.values, found.values.T, atol=1e-12)
    assert found.values[0, 1] == pytest.approx(similar(minilm, A, B).cosine, abs=1e-6)
    assert cosines(minilm, texts, "causal").values[0, 1] != found.values[0, 1]


@pytest.mark.parametrize("pool", ["mean", "last"])
@pytest.mark.parametrize("family", ["gpt2", "t5", "bert"])
def test_a_pooling_is_named_where_the_files_name_none(tmp_path, tiny, family, pool):
    """By transformers: the encoder's last vectors of T5, the decoder's of GPT-2."""
    made = tiny("bert") if family == "bert" else make_foreign(tmp_path, family)
    model, network = load_model(str(made), "cpu"), AutoModel.from_pretrained(made).eval()
    network = network.get_encoder() if family == "t5" else network
    texts = (TEXT, "a cat on a mat")
    units = []
    for text in texts:
        with torch.inference_mode():
            last = network(torch.tensor([model.tokenizer.encode(text).ids])).last_hidden_state[0].double()
        vector = last.mean(dim=0) if pool == "mean" else last[-1]
        units.append(vector / vector.norm())
    expected = float(units[0] @ units[1])
    found = similar(model, *texts, pool=pool)
    assert found.cosine == pytest.approx(expected, abs=1e-5)
    assert found.contributions.sum() == pytest.approx(expected, abs=1e-5)
    assert cosines(model, texts, pool=pool).values[0, 1] == pytest.approx(expected, abs=1e-5)
    assert abs(expected) < 0.99
    with pytest.raises(RequestError, match="add --pool mean, or --pool last"):
        cosines(model, texts)


def test_a_pooling_that_files_name_is_the_one(minilm):
    with pytest.raises(RequestError, match="say how its vectors are pooled: leave --pool out"):
        similar(minilm, A, B, pool="mean")
    with pytest.raises(RequestError, match="no pooling 'max': it is one of mean, last"):
        similar(minilm, A, B, pool="max")
