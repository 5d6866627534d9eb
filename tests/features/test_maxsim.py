"""similar --maxsim beside NumPy."""

import csv

import numpy as np
import pytest
import torch
from checkpoints import edit_config, make_checkpoint
from records import tokens
from safetensors.torch import load_file, save_file

from attncli import RequestError, load_model, similar
from attncli.features.similar.maxsim import MaxSim

A, B = "who chased the cat", "A dog ran after the small cat."


def by_hand(x, y):
    """Cosines, row by row."""
    found = np.empty((len(x), len(y)))
    for i, one in enumerate(x):
        for j, other in enumerate(y):
            found[i, j] = one @ other / np.sqrt((one @ one) * (other @ other))
    return found


def last_vectors(model, *texts):
    return [model.last_hidden([model.tokenizer.encode(one)])[0].double().numpy() for one in texts]


def test_it_is_the_sum_of_the_row_maxima_of_the_cosines(minilm):
    found = similar(minilm, A, B, maxsim=True)
    expected = by_hand(*last_vectors(minilm, A, B))
    np.testing.assert_allclose(found.cosines, expected, atol=1e-6)
    assert found.score == pytest.approx(sum(max(row) for row in expected), abs=1e-5)
    document = found.document()
    assert document["maxsim"]["score"] == found.score and document["maxsim"]["projected"] is None
    assert [one["key_index"] for one in document["maxsim"]["matches"]] == [int(np.argmax(row)) for row in expected]
    cat = document["maxsim"]["matches"][4]
    assert (cat["token"], cat["key_token"], cat["key_index"]) == ("cat", "cat", 7)


def test_it_is_not_the_same_the_other_way_round(minilm):
    """A sum over the tokens of A: a longer document raises no sum by itself."""
    found, other = similar(minilm, A, B, maxsim=True), similar(minilm, B, A, maxsim=True)
    np.testing.assert_allclose(other.cosines, found.cosines.T, atol=1e-6)
    assert other.score == pytest.approx(found.cosines.max(axis=0).sum(), abs=1e-5) and other.score > found.score
    assert similar(minilm, A, A, maxsim=True).score == pytest.approx(6, abs=1e-5)


def test_matches_of_a_matrix_made_by_hand(minilm):
    cosines = np.array([[0.5, 0.9, 0.1], [-0.5, -0.2, -0.2]])
    found = MaxSim(minilm.info, tokens("ab", [0, 1]), tokens("xyz", [0, 1, 2]), cosines, "padding", None)
    assert found.score == pytest.approx(0.7)
    assert [(one["index"], one["key_index"], one["cosine"]) for one in found.matches()] == [(0, 1, 0.9), (1, 1, -0.2)]


def test_a_checkpoint_of_colbert_projects_its_vectors(tmp_path):
    folder = make_checkpoint(tmp_path / "colbert")
    tensors = load_file(folder / "model.safetensors")
    weight = torch.randn(5, 32, generator=torch.Generator().manual_seed(0))
    save_file({**tensors, "linear.weight": weight}, folder / "model.safetensors")
    plain = similar(load_model(str(folder), "cpu"), "the cat", "a big cat", maxsim=True)
    edit_config(folder, architectures=["HF_ColBERT"])
    model = load_model(str(folder), "cpu")
    found = similar(model, "the cat", "a big cat", maxsim=True)
    x, y = last_vectors(model, "the cat", "a big cat")
    assert (plain.projected, found.projected) == (None, 5)
    np.testing.assert_allclose(plain.cosines, by_hand(x, y), atol=1e-6)
    projection = weight.double().numpy().T
    np.testing.assert_allclose(found.cosines, by_hand(x @ projection, y @ projection), atol=1e-6)
    assert "vectors projected to 5 numbers" in str(found)


def test_what_it_shows_and_saves(minilm, tmp_path):
    found = similar(minilm, A, B, maxsim=True)
    shown = str(found)
    assert f"score {found.score:.4f}, the sum of 6 row maxima" in shown
    assert "4 cat      7 cat" in shown and "cosine, A down and B across" in shown
    found.save(tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["cosine"]) for row in rows] == pytest.approx(found.cosines.max(axis=1))


@pytest.mark.parametrize(
    "given, said",
    [
        ({"words": True}, "words has no effect with --maxsim"),
        ({"top": 3}, "top has no effect with --maxsim"),
        ({"pool": "mean"}, "pool has no effect with --maxsim"),
    ],
)
def test_what_has_no_effect_is_refused(minilm, given, said):
    with pytest.raises(RequestError, match=said):
        similar(minilm, A, B, maxsim=True, **given)


def test_a_matrix_of_many_texts_has_no_late_interaction(minilm, tmp_path):
    (tmp_path / "a.txt").write_text(f"{A}\n{B}\nit rains\n", encoding="utf-8")
    with pytest.raises(RequestError, match="maxsim has no effect on a matrix of cosines"):
        similar(minilm, file=str(tmp_path / "a.txt"), maxsim=True)
    found = similar(minilm, file=str(tmp_path / "a.txt"), apart="0,1", maxsim=True)
    np.testing.assert_allclose(found.cosines, similar(minilm, A, B, maxsim=True).cosines, atol=1e-6)
