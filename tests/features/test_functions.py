"""The features as functions of Python, and their results as tables."""

import inspect
import pydoc

import pandas
import pytest

import attncli
from attncli.features.feature import Feature, as_function

CODE = as_function(Feature).__code__
FUNCTIONS = {
    name: made for name in attncli.__all__ if getattr(made := getattr(attncli, name), "__code__", None) is CODE
}


def test_all_features_are_there():
    assert {"find", "flow", "mask", "explain", "generate", "kinds", "probe", "diff"} <= FUNCTIONS.keys()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_help_is_for_people(name):
    function = FUNCTIONS[name]
    text = pydoc.plain(pydoc.render_doc(function))
    assert "Annotated" not in text and "Option(" not in text and "Examples" not in text
    for parameter in inspect.signature(function).parameters.values():
        assert f"\n    {parameter.name}: " in text


@pytest.mark.parametrize(
    "call",
    [
        lambda: attncli.find("cat", "mat", "The cat sat on the mat."),
        lambda: attncli.explain("The cat sat on the mat.", query="cat"),
        lambda: attncli.mask("The cat sat on the mat.", layer="3"),
    ],
    ids=["find", "explain", "mask"],
)
def test_a_report_is_a_table_with_the_cells_of_its_csv(call, tmp_path):
    report = call()
    report.save(tmp_path / "table.csv")
    pandas.testing.assert_frame_equal(
        report.to_dataframe(),
        pandas.read_csv(tmp_path / "table.csv", keep_default_na=False, na_values=[""]),
        check_dtype=False,
    )


def test_statistics_are_a_table_with_the_cells_of_its_csv(minilm, tmp_path):
    statistics = attncli.corpus_statistics(minilm, ["The cat sat on the mat.", "The dog slept."])
    statistics.save(tmp_path / "table.csv")
    frame = statistics.to_dataframe()
    pandas.testing.assert_frame_equal(frame, pandas.read_csv(tmp_path / "table.csv"))
    assert len(frame) == 72 and frame.entropy.between(0, statistics.entropy_limit.max()).all()
