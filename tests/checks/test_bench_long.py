"""What `attncli bench long` measures: whole walks of long texts, and the layers with a window beside those without."""

import pytest

from attncli.base.errors import RequestError
from attncli.checks import bench_long as measuring
from attncli.checks.bench_long import PROGRAMS, bench_long


@pytest.mark.slow
def test_a_window_is_told_from_none(tiny):
    done: list[int] = []
    model = str(tiny("modernbert"))
    document = bench_long(model, [8, 40], "cpu", lambda: done.append(1))
    assert len(done) == 2 * len(PROGRAMS)
    short, long = document["rows"]
    assert (short["tokens"], long["tokens"]) == (8, 40)
    assert set(long["seconds"]) == set(PROGRAMS) and all(taken > 0 for taken in long["seconds"].values())
    layers = long["layer_seconds"]
    assert long["saved"] == pytest.approx(layers["global"] / layers["local"])
    assert document["windows"] and document["threads"] == 1


@pytest.mark.slow
def test_layers_that_all_see_everything_save_nothing(tiny):
    [row] = bench_long(str(tiny("bert")), [16], "cpu")["rows"]
    assert (row["layer_seconds"]["local"], row["saved"]) == (None, None) and row["layer_seconds"]["global"] > 0


@pytest.mark.slow
def test_eager_scores_that_do_not_fit_are_left_out(tiny, monkeypatch):
    monkeypatch.setattr(measuring, "available", lambda: 1000)
    [row] = bench_long(str(tiny("bert")), [16], "cpu")["rows"]
    assert (row["seconds"]["eager"], row["peak_bytes"]["eager"]) == (None, None)
    assert row["seconds"]["sdpa"] > 0 and row["eager_score_bytes"] == 4 * 16**2 * 4


@pytest.mark.parametrize("length", [0, 41])
def test_a_length_without_room_is_refused(tiny, length):
    with pytest.raises(RequestError, match=f"--tokens {length}: .* takes 1 to 40 tokens"):
        bench_long(str(tiny("bert")), [length], "cpu")
