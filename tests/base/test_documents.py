"""Documents in files: as they are printed, and as a table."""

import csv
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.base.files import as_text, flat, save_document

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")) | st.sampled_from('\r\n,";')
CELLS = TEXTS | st.integers() | st.booleans() | st.none()


def test_json_is_the_document_in_ascii(tmp_path):
    document = {"tokens": ["ß", "\x1b[31m", "東"], "weight": 0.1, "none": None}
    save_document(document, (), tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_bytes().decode("ascii")) == document
    assert (tmp_path / "a.json").read_text() == as_text(document)


def test_what_json_has_not_is_an_error_and_no_file(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        save_document({"weight": float("nan")}, (), tmp_path / "a.json")
    assert list(tmp_path.iterdir()) == []


def test_a_row_has_fields_of_fields_and_no_lists(tmp_path):
    entries = [
        {"layer": 0, "weights": [[1.0]], "causal": {"moved": 0.5, "all": [1]}, "note": None},
        {"layer": 1, "more": "=1+1"},
    ]
    save_document({}, entries, tmp_path / "a.csv")
    lines = ["layer,causal_moved,note,more", "0,0.5,,", "1,,,=1+1"]
    assert (tmp_path / "a.csv").read_text().splitlines() == lines


@given(st.lists(st.fixed_dictionaries({"token": CELLS, "of": st.fixed_dictionaries({"key": CELLS})}), min_size=1))
def test_a_table_is_read_as_it_was_written(tmp_path_factory, entries):
    """Whatever stands in a text: commas, quotes, ends of lines."""
    path = tmp_path_factory.mktemp("tables") / "a.csv"
    save_document({}, entries, path)
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    expected = [{key: "" if cell is None else str(cell) for key, cell in flat(entry).items()} for entry in entries]
    assert rows == expected
