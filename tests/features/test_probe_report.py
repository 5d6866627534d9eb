"""The report of `attncli probe`: its title, its tables, and what they mean."""

from rich.console import Console

from attncli.features.probe import _relation_table, explain_verdicts, percent, title_of
from attncli.report.canvas import Canvas
from attncli.report.terminal import table_of

TREEBANK = {"path": "/of/me/a.conllu", "sentences": 40}


def document(test=None, **more):
    return {"model": {"name": "minilm"}, "partial": False, "treebank": TREEBANK, "test": test, **more}


def row(relation="det", accuracy=0.5, verdict="unclear"):
    return {
        "relation": relation,
        "layer": 3,
        "head": 11,
        "direction": "head->child",
        "accuracy": accuracy,
        "offset": -2,
        "offset_accuracy": accuracy,
        "count": 8,
        "interval": {"low": None, "high": None} if accuracy is None else {"low": 0.125, "high": 1.0},
        "verdict": verdict,
    }


def printed(rows, width=200, colours=None):
    console = Console(width=width, markup=False, force_terminal=True, color_system=colours)
    with console.capture() as captured:
        canvas = Canvas(width, colours is not None, unicode=True)
        console.print(table_of(_relation_table({"relations": rows}), canvas))
    return captured.get()


def test_relations_are_text_and_no_markup_and_command_nothing():
    said = printed([row("[bold]"), row("\x1b[31mobj")])
    assert "[bold]" in said and "\x1b" not in said


def test_a_relation_that_the_test_has_not_has_no_accuracy():
    assert printed([row(accuracy=None, verdict="too few")]).split()[-9:] == [
        *("3.11", "head->child", "-", "-", "-2", "-", "8", "too", "few")
    ]
    assert percent(None) == "-" and percent(2 / 3) == "66.7%" and percent(1) == "100.0%"


def test_the_legend_says_of_how_many_the_best_is():
    assert "luck, among 144 candidates" in " ".join(explain_verdicts({"candidates": 144}))
    assert "candidates" not in " ".join(explain_verdicts({"candidates": 1}))


def test_the_title_names_both_treebanks_with_their_folders_or_not():
    assert title_of(document()) == ["minilm", "heads chosen on 40 sentences of /of/me/a.conllu"]
    both = document(test={"path": "b.conllu", "sentences": 1})
    assert title_of(both)[-1] == "measured on 1 sentence of b.conllu"
    assert title_of(both, folders=False)[1] == "heads chosen on 40 sentences of a.conllu"
    assert title_of({**both, "partial": True})[-1] == "PARTIAL"
    assert title_of({**both, "kind": "decoder"})[1] == "decoder attention"
