"""Statistics in files."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import mutated, mutated_array
from windows import text_sums

from attncli import RequestError
from attncli.analysis.patterns import PATTERNS
from attncli.corpus.statistics import (
    CSV_HEADER,
    Statistics,
    document,
    load_statistics,
    save_statistics,
)
from attncli.corpus.sums import FIGURES, LINEAR, Distances
from attncli.record import ModelInfo

MODEL = ModelInfo("made-up", "/made/up", "0" * 64, 2, 3, 24)


def made(distances: bool = False) -> Statistics:
    """Make statistics of two texts that nobody has read, with figures that a head can have."""
    numbers = np.random.default_rng(0)
    one, other = (
        text_sums(5, 8.0, numbers.random((2, 3, len(FIGURES))) * 5, alike=numbers.random((2, len(LINEAR))))
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


def test_unknown_suffixes_are_refused(tmp_path):
    with pytest.raises(RequestError, match=r"\.csv, \.json, \.npz"):
        save_statistics(made(), tmp_path / "stats.txt")
    with pytest.raises(RequestError, match=r"\.json, \.npz"):
        load_statistics(tmp_path / "stats.csv")


# --- what no corpus gives ------------------------------------------------------------------------------------

DOCUMENT = json.loads(json.dumps(document(made(distances=True))))


def edited(*way: str | int, value: object) -> dict:
    """The document with another value in one place."""
    changed = json.loads(json.dumps(DOCUMENT))
    inside = changed
    for name in way[:-1]:
        inside = inside[name]
    inside[way[-1]] = value
    return changed


def write(folder: Path, text: str) -> Path:
    (folder / "changed.json").write_text(text)
    return folder / "changed.json"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (edited("heads", 3, "figures", "entropy", value=-5), "figures has a number that no head has"),
        (edited("heads", 3, "figures", "self", value=None), "figures: self is None, and not a number"),
        (edited("heads", 3, "head", value=1), "not of all 3 heads of 2 layers, each once"),
        (edited("heads", 3, "head", value=True), "head is True, and not a whole number"),
        (edited("texts", value=-3), "texts is -3"),
        (edited("texts", value="7"), "texts is '7'"),
        (edited("texts", value=True), "texts is True"),
        (edited("tokens", value=7.5), "tokens is 7.5"),
        (edited("partial", value="no"), "partial is 'no'"),
        (edited("model", "name", value=5), "model: name is 5, and not text"),
        (edited("model", "layers", value=10**12), "model: layers is 1000000000000"),
        (edited("mask", value="\x1b[2J"), r"mask is '\x1b[2J', and not one of padding, causal, none"),
        (edited("measure", value="norm"), "not one of weight, share of norm"),
        (edited("distances", "divergence", 0, 0, value=-1), "divergence has a number that no head has"),
        (edited("distances", "clusters", value=[3] * 6), "clusters are not numbered from 0 on"),
        (edited("distances", "embedding", 0, value=[1]), "inhomogeneous"),
        (edited("changes", value=[]), "which this version does not know"),
    ],
)
def test_what_no_corpus_gives_is_refused_in_words(wrong, said, tmp_path):
    with pytest.raises(RequestError) as caught:
        load_statistics(write(tmp_path, json.dumps(wrong)))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000, "nested too deeply"),
        (json.dumps(edited("entropy_limit", value=float("nan"))), "NaN is not a number"),
        (json.dumps(edited("texts", value="@")).replace('"@"', "1e400"), "texts is inf"),
        (
            json.dumps(edited("entropy_limit", value="@")).replace('"@"', "1e400"),
            "entropy_limit has a number that no head has",
        ),
    ],
)
def test_json_that_is_beyond_reason(text, said, tmp_path):
    with pytest.raises(RequestError, match=said):
        load_statistics(write(tmp_path, text))


def test_heads_are_put_in_order_by_their_numbers_and_labels_made_anew(tmp_path):
    turned = edited("heads", value=edited("texts", value=2)["heads"][::-1])
    turned["heads"][2].update(label="separator", strength=0.1)
    assert document(load_statistics(write(tmp_path, json.dumps(turned)))) == DOCUMENT


def loaded(path: Path) -> None:
    """Refused in one line, or figures that can be."""
    try:
        found = load_statistics(path)
    except RequestError as error:
        assert "\n" not in str(error) and len(str(error)) < 300
    else:
        assert json.dumps(document(found), allow_nan=False)
        assert " ".join(found.parts).isprintable()


@given(changed=mutated(DOCUMENT))
@settings(max_examples=30)
def test_changed_documents(changed, tmp_path_factory):
    loaded(write(tmp_path_factory.getbasetemp(), json.dumps(changed)))


@given(
    data=st.data(), name=st.sampled_from(["figures", "spread", "alike", "divergence", "embedding", "clusters", "names"])
)
@settings(max_examples=30)
def test_changed_arrays(data, name, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "changed.npz"
    save_statistics(made(distances=True), path)
    with np.load(path) as file:
        arrays = dict(file)
    np.savez(path, **{**arrays, name: data.draw(mutated_array(arrays[name]))})
    loaded(path)
