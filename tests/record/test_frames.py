"""A record as a DataFrame: the rows of its .csv."""

import csv
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from saved_records import any_records

from attncli import RequestError
from attncli.record.record import CSV_HEADER


def csv_can_hold(record):
    """A carriage return or a NUL in a token is what csv's own reader stumbles over."""
    return not set("\r\0") & set("".join(record.tokens.text + record.keys.text))


def csv_rows(record, path):
    record.save(path)
    with path.open(encoding="utf-8", newline="") as file:
        header, *found = csv.reader(file)
    assert tuple(header) == CSV_HEADER
    return found


@given(record=any_records().filter(csv_can_hold))
def test_a_row_a_cell_as_in_csv(record, folder):
    """pandas stands aside here: what it is given are columns by their names."""
    before = sys.modules.get("pandas")
    sys.modules["pandas"] = SimpleNamespace(DataFrame=dict)
    try:
        frame = record.to_dataframe()
    finally:
        sys.modules.pop("pandas") if before is None else sys.modules.update(pandas=before)
    assert tuple(frame) == CSV_HEADER
    *labels, weights = (list(column) for column in frame.values())
    *expected, numbers = zip(*csv_rows(record, folder / "frame.csv"), strict=True)
    assert [list(map(str, column)) for column in labels] == [list(column) for column in expected]
    assert weights == pytest.approx(list(map(float, numbers)))


def test_with_pandas_itself(minilm):
    pandas = pytest.importorskip("pandas")
    record = minilm.attend("The cat sat.", layers="0-1", heads="3")
    frame = record.to_dataframe()
    assert isinstance(frame, pandas.DataFrame) and tuple(frame.columns) == CSV_HEADER
    sums = frame.groupby(["layer", "head", "query"]).weight.sum()
    assert len(sums) == 2 * len(record.tokens) and sums.to_numpy() == pytest.approx(1, abs=1e-5)


def test_without_pandas_it_says_what_to_install(minilm, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(RequestError, match="pip install pandas"):
        minilm.attend("The cat sat.", layers=0).to_dataframe()
