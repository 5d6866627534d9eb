"""A model without some of its heads: everything that is asked of it is of the changed network, and says so."""

import numpy as np
import pytest

from attncli import load_model, load_record
from attncli.base.errors import RequestError
from attncli.corpus.reducer import corpus_statistics, count_files
from attncli.corpus.running import Workplace
from attncli.models.taps import Gates

TEXT, HEADS = "the cat sat on it, un believ able", [(0, 1), (0, 2), (2, 3)]


def test_it_shares_weights_and_leaves_the_model_as_it_was(tiny):
    model = load_model(str(tiny("bert")), device="cpu")
    before = model.attend(TEXT).weights.copy()
    changed = model.without([(0, 1), (0, 2)]).without("2.3")
    gated = next(model.take([model.tokenizer.encode(TEXT)], taps=[Gates(dict.fromkeys(HEADS, 0.0))]))
    np.testing.assert_allclose(changed.attend(TEXT).weights, gated.weights, atol=1e-6)
    np.testing.assert_array_equal(model.attend(TEXT).weights, before)
    assert changed.network.layer(0).attention.query.weight is model.network.layer(0).attention.query.weight


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".json"])
def test_a_record_says_what_was_changed(tiny, tmp_path, suffix):
    record = load_model(str(tiny("bert")), device="cpu").without("0.1-2,2.3").attend(TEXT)
    assert record.model.changes == "without 0.1-2,2.3" and "without 0.1-2,2.3" in repr(record)
    record.save(tmp_path / f"a{suffix}")
    assert load_record(tmp_path / f"a{suffix}").model == record.model


def test_statistics_are_of_the_changed_network(tiny):
    model = load_model(str(tiny("bert")), device="cpu")
    found = corpus_statistics(model.without("1.0"), [TEXT])
    plain = corpus_statistics(model, [TEXT])
    assert found.model.changes == "without 1.0"
    np.testing.assert_allclose(found.figures[:2], plain.figures[:2], atol=1e-6)
    assert np.abs(found.figures[2:, :, 0] - plain.figures[2:, :, 0]).min() > 1e-4  # entropy


def test_the_sums_of_another_network_in_the_same_folder_are_not_taken(tiny, tmp_path):
    model = load_model(str(tiny("bert")), device="cpu")
    (tmp_path / "a.txt").write_text(f"{TEXT}\nit sat\n")
    file, where = [str(tmp_path / "a.txt")], Workplace(state=str(tmp_path / "state"))
    whole = count_files(model, file, where=where)
    without = [count_files(model.without("1.0"), file, where=one) for one in (where, Workplace())]
    assert np.array_equal(without[0].figures, without[1].figures)
    assert not np.array_equal(without[0].figures, whole.figures)


def test_what_can_not_be_silenced(tiny):
    model = load_model(str(tiny("bert")), device="cpu")
    with pytest.raises(RequestError, match="layer 7 is out of range"):
        model.without("7.0")
    with pytest.raises(RequestError, match="--without selects no head"):
        model.without("none")
    with pytest.raises(RequestError, match="nothing changes in layers up to 1"):
        model.without("1.0,3.2").attend(TEXT, layers="0,1")
