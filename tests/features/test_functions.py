"""The features as functions of Python, and their results as tables."""

import ast
import inspect
import json
import pydoc
import re
from pathlib import Path

import pandas
import pytest

import attncli as package
from attncli import features

FUNCTIONS = {name: getattr(package, name) for name in features.NAMES if name in package.__all__}
MEASURES = {name: made for name, made in FUNCTIONS.items() if hasattr(made, "measure")}


def test_every_measure_is_a_function_of_the_package():
    """Other things have these names: `check` and `capture` in Python, and three packages."""
    assert set(features.NAMES) - MEASURES.keys() == {
        "align",
        "capture",
        "check",
        "explore",
        "models",
        "samples",
        "serve",
    }


@pytest.mark.parametrize("name", MEASURES)
def test_the_first_argument_is_a_model_and_options_are_keywords(name):
    """Shared options are in the signature too, with the types of the TypedDict that mypy checks."""
    parameters = list(inspect.signature(MEASURES[name]).parameters.values())
    assert parameters[0].name == "model"
    options = MEASURES[name].measure.parameters
    keywords = {one.name for one in parameters if one.kind is one.KEYWORD_ONLY}
    assert keywords == {name for name, one in options.items() if one.option.names} - {"model"}


README = (Path(package.__file__).parent / "features" / "README.md").read_text(encoding="utf-8")
FIRST, *CELLS = [ast.unparse(one) for one in ast.parse(README.partition("```python\n")[2].partition("```")[0]).body[1:]]
QUICK = re.compile(r"attncli\.(run|find|explain|flow|mask|diff|heatmap|view|ablate|cut|patch)\b")


def test_every_measure_has_a_cell():
    assert {re.match(r"attncli\.(\w+)", cell)[1] for cell in CELLS} == MEASURES.keys()


@pytest.mark.parametrize(
    "cell", [pytest.param(one, marks=[] if QUICK.match(one) else pytest.mark.slow) for one in CELLS]
)
def test_a_cell_of_a_notebook_shows_a_result(cell, tmp_path, monkeypatch, request):
    if "smollm2" in cell:
        request.getfixturevalue("smollm2_file")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sample_inputs").symlink_to(Path(__file__).parents[2] / "sample_inputs")
    names = {"attncli": package}
    exec(FIRST, names)
    call, _, saved = cell.partition(".save(")
    shown = eval(call, names)
    assert str(shown).strip() and repr(shown)[0] in "< "
    if saved:
        shown.save(saved.strip("')"))
        assert (tmp_path / saved.strip("')")).stat().st_size > 1000


@pytest.mark.parametrize("name", MEASURES)
def test_help_is_for_people(name):
    function = MEASURES[name]
    text = pydoc.plain(pydoc.render_doc(function))
    assert "Annotated" not in text and "Option(" not in text and "Examples" not in text
    for parameter in inspect.signature(function).parameters.values():
        assert f"\n    {parameter.name}: " in text
    options = {name for one in function.measure.parameters.values() for name in one.option.names}
    assert options.isdisjoint(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", function.__doc__))


def test_an_unknown_parameter_is_named_with_the_one_that_was_meant():
    with pytest.raises(TypeError, match=r"cut has no parameter layers: did you mean layer\?"):
        package.cut("minilm", "The cat sat.", layers=3)


@pytest.mark.parametrize(
    ("name", "words", "options"),
    [
        ("find", ["cat", "mat", "The cat sat on the mat."], {"layer": "3"}),
        ("explain", ["The cat sat on the mat."], {"layer": "3", "head": "1", "query": "cat"}),
        ("flow", ["The cat sat."], {"words": True}),
        ("diff", ["The cat sat.", "The dog sat."], {"layer": "3"}),
        pytest.param("generate", ["The cat sat on"], {"max_tokens": 2}, marks=pytest.mark.slow),
    ],
)
def test_a_function_gives_the_document_of_the_command(attncli, name, words, options, request):
    if name == "generate":
        request.getfixturevalue("smollm2_file")
    given = [f"--{option.replace('_', '-')}{'' if value is True else f'={value}'}" for option, value in options.items()]
    expected = json.loads(attncli(name, *words, *given, "--json").out)
    assert json.loads(json.dumps(MEASURES[name](None, *words, **options).document())) == expected


@pytest.mark.parametrize(
    "call",
    [
        lambda: package.find("minilm", "cat", "mat", "The cat sat on the mat."),
        lambda: package.explain("minilm", "The cat sat on the mat.", query="cat"),
        lambda: package.mask("minilm", "The cat sat on the mat.", layer="3"),
        lambda: package.run("minilm", "The cat sat.", layer=3, head=[0, 1]),
        lambda: package.heatmap("minilm", "The cat sat.", layer=3),
        lambda: package.view("minilm", "The cat sat.", layer=3),
        lambda: package.flow("minilm", "The cat sat."),
        lambda: package.features.find_measure("align").function("3 March 2021"),
        pytest.param(lambda: package.generate("smollm2", "The cat", max_tokens=1), marks=pytest.mark.slow),
    ],
    ids=["find", "explain", "mask", "run", "heatmap", "view", "flow", "align", "generate"],
)
def test_a_report_is_a_table_with_the_cells_of_its_csv(call, tmp_path):
    report = call()
    report.save(tmp_path / "table.csv")
    pandas.testing.assert_frame_equal(
        report.to_dataframe(),
        pandas.read_csv(tmp_path / "table.csv", keep_default_na=False, na_values=[""]),
        check_dtype=False,
    )


def test_stats_and_probe_take_an_open_model_and_stats_a_record(attncli, minilm, tmp_path):
    record = minilm.attend("The cat sat on the mat.", layers="all")
    record.save(tmp_path / "maps.npz")
    (tmp_path / "lines.txt").write_text("The cat sat on the mat.\n")
    trees = str(Path(__file__).parents[2] / "sample_inputs" / "treebank.conllu")
    for result, line in (
        (
            package.stats(minilm, str(tmp_path / "lines.txt"), mask="causal"),
            ("stats", tmp_path / "lines.txt", "--mask=causal"),
        ),
        (package.stats(record, words=True), ("stats", "--words", "--from", tmp_path / "maps.npz")),
        (package.probe(minilm, [trees], limit=3), ("probe", "--limit=3", trees)),
    ):
        assert json.loads(json.dumps(result.document())) == json.loads(attncli(*line, "--json").out)
    with pytest.raises(package.RequestError, match="files has no effect on a record: omit it"):
        package.stats(record, "lines.txt")
    with pytest.raises(package.RequestError, match="no treebank given: name files in CoNLL-U"):
        package.probe(minilm)


def test_statistics_are_a_table_with_the_cells_of_its_csv(minilm, tmp_path):
    statistics = package.corpus_statistics(minilm, ["The cat sat on the mat.", "The dog slept."])
    statistics.save(tmp_path / "table.csv")
    frame = statistics.to_dataframe()
    pandas.testing.assert_frame_equal(frame, pandas.read_csv(tmp_path / "table.csv"))
    assert len(frame) == 72 and frame.entropy.between(0, statistics.entropy_limit.max()).all()
