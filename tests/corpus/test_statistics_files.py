"""Statistics in files."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from mutations import mutated
from windows import text_sums

from attncli import RequestError
from attncli.analysis.patterns import PATTERNS
from attncli.corpus.statistics import Statistics, load_statistics
from attncli.corpus.sums import FIGURES, LINEAR
from attncli.record import ModelInfo

MODEL = ModelInfo("made-up", "/made/up", "0" * 64, 2, 3, 24)


def made() -> Statistics:
    """Make statistics of two texts that nobody has read, with figures that a head can have."""
    numbers = np.random.default_rng(0)
    one, other = (
        text_sums(5, 8.0, numbers.random((2, 3, len(FIGURES))) * 5, alike=numbers.random((2, len(LINEAR))))
        for _ in range(2)
    )
    return Statistics.of(one + other, MODEL, partial=True)


@pytest.mark.parametrize(("limits", "stated"), [([1.5, 1.5], 1.5), ([1.5, 0.5], [1.5, 0.5])])
def test_loaded_statistics_are_the_saved_ones(tmp_path, limits, stated):
    statistics = replace(made(), entropy_limit=np.array(limits))
    statistics.save(tmp_path / "stats.json")
    document = load_statistics(tmp_path / "stats.json").document()
    assert document == statistics.document()  # JSON keeps all digits
    assert (document["partial"], document["entropy_limit"]) == (True, stated)


def test_the_document_says_who_does_what_and_null_where_nobody_does():
    statistics = made()
    statistics.figures[..., FIGURES.index("self")] = 0.0
    statistics.figures[1, 2, FIGURES.index("next")] = 0.99
    statistics.alike[:] = 0.1
    found = statistics.document()["patterns"]
    assert list(found) == list(PATTERNS)
    assert found["self"] == {"clearest": None, "labelled": 0}
    assert found["next"]["clearest"] == {"layer": 1, "head": 2} and found["next"]["labelled"] >= 1
    assert statistics.document()["alike"][1] == dict.fromkeys(LINEAR, 0.1)


def test_a_csv_has_a_row_a_head(tmp_path):
    made().save(tmp_path / "stats.csv")
    with (tmp_path / "stats.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    spreads = [f"{name}_spread" for name in FIGURES]
    assert list(rows[0]) == ["layer", "head", "label", "strength", *FIGURES, *spreads]
    for row, one in zip(rows, made().heads, strict=True):
        assert (int(row["layer"]), int(row["head"]), row["label"]) == (one.layer, one.head, one.label)
        assert float(row["strength"]) == one.strength
        assert [float(row[name]) for name in (*FIGURES, *spreads)] == [*one.figures.values(), *one.spread.values()]


def test_garbled_files_and_other_suffixes_are_refused_in_one_line(tmp_path):
    path = tmp_path / "stats.json"
    with pytest.raises(RequestError, match="No such file"):
        load_statistics(path)
    for content in (b'{"model": ', b"{}", b"\xff\xfe"):
        path.write_bytes(content)
        with pytest.raises(RequestError, match="no complete attncli statistics") as refusal:
            load_statistics(path)
        assert "\n" not in str(refusal.value)
    with pytest.raises(RequestError, match=r"\.json, \.csv"):
        made().save(tmp_path / "stats.npz")


# --- what no corpus gives ------------------------------------------------------------------------------------

DOCUMENT = json.loads(json.dumps(made().document()))


def edited(*way: str | int, value: object) -> dict:
    """The document with another value in one place."""
    changed = json.loads(json.dumps(DOCUMENT))
    inside = changed
    for name in way[:-1]:
        inside = inside[name]
    inside[way[-1]] = value
    return changed


@pytest.mark.parametrize(
    ("wrong", "said"),
    [  # more of them are in tests/hostile/cases
        (edited("heads", 3, "figures", "self", value=1.1), "the weights of a head sum to more than 1"),
        (edited("heads", 3, "figures", "self", value=None), "figures: self is None, not a number"),
        (edited("heads", 3, "head", value=1), "does not list all 3 heads of 2 layers in order"),
        (edited("model", "layers", value=10**12), "model: layers is 1000000000000"),
        (edited("measure", value="norm"), "not one of weight, share of norm"),
        (edited("alike", 0, "next", value=-1), "alike has a number that is impossible for a head"),
        (edited("alike", value=[]), "cannot reshape"),
        (edited("entropy_limit", value={}), "holds no complete attncli statistics"),
        (edited("changes", value=[]), "which this version does not know"),
    ],
)
def test_what_no_corpus_gives_is_refused_in_words(wrong, said, tmp_path):
    (tmp_path / "changed.json").write_text(json.dumps(wrong))
    with pytest.raises(RequestError) as caught:
        load_statistics(tmp_path / "changed.json")
    assert said in str(caught.value)


def test_labels_are_made_anew(tmp_path):
    changed = edited("heads", 2, "label", value="separator")
    (tmp_path / "changed.json").write_text(json.dumps(changed))
    assert load_statistics(tmp_path / "changed.json").document() == DOCUMENT


def loaded(path: Path) -> None:
    """Refused in one line, or figures that can be."""
    try:
        found = load_statistics(path)
    except RequestError as error:
        assert "\n" not in str(error) and len(str(error)) < 300
    else:
        assert json.dumps(found.document(), allow_nan=False)
        assert " ".join(found.parts).isprintable()


@given(changed=mutated(DOCUMENT))
@settings(max_examples=30)
def test_changed_documents(changed, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "changed.json"
    path.write_text(json.dumps(changed))
    loaded(path)
