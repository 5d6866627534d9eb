"""How far a corpus has been counted, and files to go on from."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli import RequestError
from attncli.analysis.statistics import FIGURES, Sums
from attncli.corpus import resuming
from attncli.corpus.resuming import Keeper, SoFar, load_so_far, save_so_far

ASKED = {"model": "0" * 64, "--mask": "padding", "--stride": None}


@given(st.sets(st.integers(0, 20)), st.integers(0, 20))
def test_what_is_counted_is_wanted_no_more(texts, border):
    so_far = SoFar(Sums.nothing(2, 3))
    for text in texts:
        so_far = so_far.plus(text, Sums.of_text(1, 0.0, np.zeros((2, 3, len(FIGURES)))))
    assert {text for text in range(25) if not so_far.wants(text)} == texts
    so_far = so_far.up_to(border)
    assert {text for text in range(25) if not so_far.wants(text)} == texts | set(range(border))


def so_far(divergence: bool = False) -> SoFar:
    numbers = np.random.default_rng(1)
    sums = Sums.of_text(5, 8.0, numbers.random((2, 3, len(FIGURES))), numbers.random((6, 6)) if divergence else None)
    return SoFar(sums, done=7, ahead=frozenset({9, 12}))


@pytest.mark.parametrize("divergence", [False, True])
def test_what_to_go_on_from_is_what_was_saved(tmp_path, divergence):
    path = tmp_path / "state"  # of whatever suffix
    nothing = SoFar(Sums.nothing(2, 3, divergence))
    assert load_so_far(path, ASKED, nothing) is nothing
    save_so_far(so_far(divergence), ASKED, path)
    assert [found.name for found in tmp_path.iterdir()] == ["state"]
    found, expected = load_so_far(path, ASKED, nothing), so_far(divergence)
    assert (found.done, found.ahead) == (7, {9, 12})
    for name, value in vars(expected.sums).items():
        assert np.array_equal(getattr(found.sums, name), value)


def test_the_limit_of_every_layer_is_kept_and_one_number_is_of_all(tmp_path):
    """As all files had it before layers had masks of their own."""
    path, nothing = tmp_path / "state", SoFar(Sums.nothing(2, 3))
    for limit, written in (([8.0, 8.0], 8.0), ([8.0, 5.0], [8.0, 5.0])):
        save_so_far(SoFar(replace(so_far().sums, limit=np.array(limit))), ASKED, path)
        with np.load(path) as file:
            assert json.loads(str(file["about"]))["limit"] == written
        assert load_so_far(path, ASKED, nothing).sums.limit.tolist() == limit
    with pytest.raises(RequestError, match="another model"):
        load_so_far(path, ASKED, SoFar(Sums.nothing(3, 3)))


@pytest.mark.parametrize("other", [{"model": "1" * 64}, {"--mask": "causal"}, {"--stride": 3}])
def test_who_asks_for_something_else_cannot_go_on(tmp_path, other):
    save_so_far(so_far(), ASKED, tmp_path / "state")
    with pytest.raises(RequestError, match=f"another {next(iter(other))}"):
        load_so_far(tmp_path / "state", {**ASKED, **other}, SoFar(Sums.nothing(2, 3)))


def test_what_is_nothing_to_go_on_from_is_refused(tmp_path):
    path = tmp_path / "state"
    save_so_far(so_far(), ASKED, path)
    with pytest.raises(RequestError, match="another model"):
        load_so_far(path, ASKED, SoFar(Sums.nothing(2, 4)))
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"not at all"):
        path.write_bytes(content)
        with pytest.raises(RequestError, match="nothing to go on from"):
            load_so_far(path, ASKED, SoFar(Sums.nothing(2, 3)))
    with pytest.raises(RequestError, match="directory"):
        load_so_far(tmp_path, ASKED, SoFar(Sums.nothing(2, 3)))


def test_a_keeper_saves_what_is_offered_if_the_last_time_was_long_ago(tmp_path, monkeypatch):
    keeper, nothing = Keeper(tmp_path / "state", ASKED), SoFar(Sums.nothing(2, 3))
    assert keeper.load(nothing) is nothing
    keeper.offer(so_far())
    assert keeper.load(nothing) is nothing
    monkeypatch.setattr(resuming, "SAVED_EVERY", -1.0)
    keeper.offer(so_far())
    assert keeper.load(nothing).done == 7


def test_a_keeper_saves_when_it_is_told_to(tmp_path):
    keeper, nothing = Keeper(tmp_path / "state", ASKED), SoFar(Sums.nothing(2, 3))
    keeper.save(so_far())
    assert keeper.load(nothing).done == 7
    with pytest.raises(RequestError, match="another --mask"):
        Keeper(tmp_path / "state", {**ASKED, "--mask": "causal"}).load(nothing)


def test_a_keeper_without_a_file_keeps_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keeper, nothing = Keeper(None, ASKED), SoFar(Sums.nothing(2, 3))
    keeper.save(so_far())
    assert keeper.load(nothing) is nothing and list(tmp_path.iterdir()) == []
