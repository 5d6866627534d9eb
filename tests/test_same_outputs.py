"""Differences that tests/same_outputs.py finds, and those that it accepts as rounding. No model is run."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from output_differences import CLOSE, OTHER, PRINTED, differences, read
from same_outputs import ABOUT, CASES, chosen, compare, read_cases

import attncli

SAVED = Path(__file__).parent / "saved_by_0_1" / "record.npz"
ROUNDING, PLANTED = 2e-8, 3e-5  # of a weight


def weights_of(change: float) -> np.ndarray:
    """A map; `change` is added to one weight of it."""
    weights = np.linspace(0, 1, 20).reshape(4, 5)
    weights[2, 3] += change
    return weights


def write(folder: Path, name: str, change: float) -> Path:
    """The map as a file of the kind that the name says."""
    weights, path = weights_of(change), folder / name
    if path.suffix == ".npz":
        labels = np.array(json.dumps({"model": {"name": "m"}, "strength": weights.tolist()}))
        np.savez_compressed(path, weights=weights, tokens=np.array(["a", "b"]), labels=labels)
    elif path.suffix == ".safetensors":
        from safetensors.numpy import save_file

        save_file({"weights": weights}, path, metadata={"format": "f", "records": json.dumps([weights.tolist()])})
    elif path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([["query", "key", "weight"], *([1, 2, weight] for weight in weights.flat)])
    else:
        path.write_text(json.dumps({"tokens": ["a"], "rows": [{"weights": row} for row in weights.tolist()]}))
    return path


def kinds(one: object, other: object, tolerance: float = 1e-6) -> set[str]:
    return {found.kind for found in differences(one, other, tolerance)}


@pytest.mark.parametrize("name", ["m.npz", "m.safetensors", "m.csv", "stdout"])
def test_a_planted_weight_is_found_and_rounding_is_not(tmp_path, name):
    before, rounded, planted = (read(write(tmp_path, name, change)) for change in (0, ROUNDING, PLANTED))
    assert kinds(before, before) == set()
    assert kinds(before, rounded) == {CLOSE} and kinds(before, rounded, tolerance=0) == {OTHER}
    assert kinds(before, planted) == {OTHER}
    assert max(found.size for found in differences(before, planted, 1e-6)) == pytest.approx(PLANTED)


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ("cat 0.614", "cat 0.614", set()),
        ("cat 0.614", "cat 0.615", {PRINTED}),
        ("cat 0.614", "cat 0.616", {OTHER}),
        ("cat  .09", "cat  .10", {PRINTED}),
        ("  9.999 a", " 10.000 a", {PRINTED}),
        ("largest 5.7e-07", "largest 6.3e-07", {CLOSE}),
        ("head 3.10", "head 3.11", {OTHER}),
        ("16 tokens", "17 tokens", {OTHER}),
        ("cat 0.614", "dog 0.614", {OTHER}),
        ("cat\ndog", "cat", {OTHER}),
        ({"a": 1}, {"a": 1, "b": None}, {OTHER}),
        ([1, 2], [1, 2, 3], {OTHER}),
        ({"holds": True}, {"holds": 1}, {OTHER}),
        ({"head": 3}, {"head": 3.0000001}, {CLOSE}),
        ({"bytes": 90868376}, {"bytes": 90868377}, {OTHER}),
        ({"score": 1000.0}, {"score": 1000.0005}, {CLOSE}),
        ([0.1, float("nan")], [0.1, 0.2], {OTHER}),
        (np.float32([1]), np.float64([1]), {OTHER}),
        (np.array([True]), np.array([False]), {OTHER}),
    ],
)
def test_what_is_a_difference(one, other, found):
    assert kinds(one, other) == kinds(other, one) == found


def test_a_page_is_compared_by_what_it_knows(tmp_path):
    [record] = attncli.load_records(SAVED)
    changed = record.weights.copy()
    changed[1, 0, 2, 3] += 0.01
    pages = {"same": record, "changed": replace(record, weights=changed)}
    texts = {name: one.page(title="A") for name, one in pages.items()}
    texts["drawn"] = re.sub(r"<style>.*?</style>", "", texts["same"], flags=re.DOTALL)
    found = {}
    for name, text in texts.items():
        path = tmp_path / f"{name}.html"
        path.write_text(text, encoding="utf-8")
        found[name] = read(path)
    assert kinds(found["same"], found["drawn"]) == set()
    [difference, *_] = [one for one in differences(found["same"], found["changed"], 1e-6) if "maps" in one.where]
    assert difference.kind == OTHER and difference.size == pytest.approx(0.01, abs=1e-3)
    assert ".maps[1]" in difference.where


def make_run(folder: Path, change: float = 0, code: int = 0, said: str = "") -> Path:
    """A run of one case, as `run` leaves it."""
    case = folder / "case"
    case.mkdir(parents=True)
    write(case, "m.npz", change)
    (case / "stdout").write_text(f"{case}/m.npz\n")
    (case / "stderr").write_text(said)
    (case / "code").write_text(str(code))
    (folder / ABOUT).write_text(json.dumps({"places": [str(folder)]}))
    return folder


def test_two_runs_in_their_own_folders(tmp_path, capsys):
    before = make_run(tmp_path / "before")
    assert compare(before, make_run(tmp_path / "again"))
    assert compare(before, make_run(tmp_path / "rounded", ROUNDING, said="words"))
    assert "2.00e-08 in case.m.npz" in capsys.readouterr().out
    assert not compare(before, make_run(tmp_path / "planted", PLANTED))
    assert re.search(r"m\.npz\.weights\[2,3\]: .* \(3\.00e-05\)", capsys.readouterr().out)
    assert not compare(before, make_run(tmp_path / "refused", code=2))
    assert not compare(before, make_run(tmp_path / "said", said="words"), stderr=True)
    (tmp_path / "again" / "case" / "code").unlink()
    assert not compare(before, tmp_path / "again")


def test_cases_are_read():
    cases = read_cases('a-{x,y}  N=1 run -o m.{} CAT < ../in/t.txt\nb  diff ../a-x/m.npz ../a-y/m.npz\nc run "-l 0"\n')
    assert list(cases) == ["a-x", "a-y", "b", "c"]
    assert cases["a-y"] == (["run", "-o", "m.y", "The cat sat on the mat."], {"N": "1"}, "../in/t.txt", [])
    assert cases["b"].after == ["a-x", "a-y"]
    assert list(chosen(cases, "^b")) == ["a-x", "a-y", "b"]
    for wrong in ("a run\na run", "b run --from ../a/m.npz\na run -o m.npz"):
        with pytest.raises(ValueError, match="twice, or"):
            read_cases(wrong)
    assert len(read_cases(CASES.read_text(encoding="utf-8"))) > 100
