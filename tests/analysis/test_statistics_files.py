"""Statistics in files."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from attncli import RequestError
from attncli.analysis.distances import Distances
from attncli.analysis.statistics import FIGURES, LINEAR, PATTERNS, Statistics, Sums
from attncli.analysis.statistics_files import (
    CSV_HEADER,
    document,
    load_statistics,
    save_statistics,
)
from attncli.record import ModelInfo

MODEL = ModelInfo("made-up", "/made/up", "0" * 64, 2, 3, 24)


def made(distances: bool = False) -> Statistics:
    """Of two texts that nobody has read, and of figures that a head can have."""
    numbers = np.random.default_rng(0)
    one, other = (
        Sums.of_text(5, 8.0, numbers.random((2, 3, len(FIGURES))) * 5, alike=numbers.random((2, len(LINEAR))))
        for _ in range(2)
    )
    divergence = numbers.random((6, 6)) / 2
    divergence = np.triu(divergence, 1) + np.triu(divergence, 1).T
    between = Distances(divergence, numbers.random((6, 2)), [0, 0, 1, 1, 2, 0]) if distances else None
    return replace(Statistics.of(one + other, MODEL, partial=True), distances=between)


def assert_same(found: Statistics, expected: Statistics) -> None:
    assert document(found) == document(expected)  # to the last bit: JSON keeps all digits


@pytest.mark.parametrize("suffix", [".json", ".npz"])
@pytest.mark.parametrize("distances", [False, True])
def test_loaded_statistics_are_the_saved_ones(tmp_path, suffix, distances):
    path = tmp_path / f"stats{suffix}"
    save_statistics(made(distances), path)
    assert_same(load_statistics(path), made(distances))


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_statistics_without_what_looking_at_everything_alike_gives_stay_so(tmp_path, suffix):
    statistics = replace(made(), alike=None)
    save_statistics(statistics, tmp_path / f"stats{suffix}")
    assert load_statistics(tmp_path / f"stats{suffix}").alike is None
    assert document(statistics)["alike"] is None


def test_the_document_says_who_does_what_and_null_where_nobody_does():
    statistics = made()
    statistics.figures[..., FIGURES.index("self")] = 0.0
    statistics.figures[1, 2, FIGURES.index("next")] = 0.99
    statistics.alike[:] = 0.1
    found = document(statistics)["patterns"]
    assert list(found) == list(PATTERNS)
    assert found["self"] == {"clearest": None, "labelled": 0}
    assert found["next"]["clearest"] == {"layer": 1, "head": 2} and found["next"]["labelled"] >= 1
    assert document(statistics)["alike"][1] == dict.fromkeys(LINEAR, 0.1)


@pytest.mark.parametrize("suffix", [".json", ".npz"])
@pytest.mark.parametrize("limit, written", [([1.5, 1.5], 1.5), ([1.5, 0.5], [1.5, 0.5])])
def test_the_limit_of_entropy_is_one_number_where_it_is_the_same_for_all_layers(tmp_path, suffix, limit, written):
    statistics = replace(made(), entropy_limit=np.array(limit))
    assert document(statistics)["entropy_limit"] == written
    save_statistics(statistics, tmp_path / f"stats{suffix}")
    assert load_statistics(tmp_path / f"stats{suffix}").entropy_limit.tolist() == limit


@pytest.mark.parametrize("limit", [[1.5, 1.5, 1.5], [], None, [None, 1.5], [[1.5], [1.5]], {}])
def test_limits_of_other_layers_are_refused(tmp_path, limit):
    (tmp_path / "stats.json").write_text(json.dumps({**document(made()), "entropy_limit": limit}))
    with pytest.raises(RequestError, match="no whole"):
        load_statistics(tmp_path / "stats.json")


def test_a_csv_has_a_row_a_head(tmp_path):
    save_statistics(made(), tmp_path / "stats.csv")
    with (tmp_path / "stats.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == CSV_HEADER
    for row, one in zip(rows, made().heads, strict=True):
        assert (int(row["layer"]), int(row["head"]), row["label"]) == (one.layer, one.head, one.label)
        assert float(row["strength"]) == one.strength
        for name in FIGURES:
            assert (float(row[name]), float(row[f"{name}_spread"])) == (one.figures[name], one.spread[name])


def test_an_npz_is_read_with_numpy_alone(tmp_path):
    save_statistics(made(), tmp_path / "stats.npz")
    with np.load(tmp_path / "stats.npz") as file:
        assert np.array_equal(file["figures"], made().figures)
        assert file["names"].tolist() == list(FIGURES)
        assert file["labels"].shape == file["strength"].shape == (2, 3)


@pytest.mark.parametrize("name", ["stats.json", "stats.npz"])
def test_garbled_files_are_refused_in_one_line(tmp_path, name):
    path = tmp_path / name
    with pytest.raises(RequestError, match="No such file"):
        load_statistics(path)
    save_statistics(made(), path)
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"{}", b"[]", b"null", b"\xff\xfe"):
        path.write_bytes(content)
        with pytest.raises(RequestError, match="no whole attncli statistics") as refusal:
            load_statistics(path)
        assert "\n" not in str(refusal.value)


def test_statistics_of_another_shape_than_their_model_are_refused(tmp_path):
    found = json.loads(json.dumps(document(made())))
    found["heads"].pop()
    (tmp_path / "stats.json").write_text(json.dumps(found))
    with pytest.raises(RequestError, match="no whole"):
        load_statistics(tmp_path / "stats.json")


def test_unknown_suffixes_are_refused(tmp_path):
    with pytest.raises(RequestError, match=r"\.csv, \.json, \.npz"):
        save_statistics(made(), tmp_path / "stats.txt")
    with pytest.raises(RequestError, match=r"\.json, \.npz"):
        load_statistics(tmp_path / "stats.csv")
