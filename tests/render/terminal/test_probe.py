"""The tables of `attncli probe`: what they say, with words from outside in them."""

from rich.console import Console

from attncli.render.captions.probe import verdicts
from attncli.render.terminal.probe import relation_table


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


def printed(table, width=200, terminal=True, colours=None):
    console = Console(width=width, markup=False, force_terminal=terminal, color_system=colours)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def test_relations_are_text_and_no_markup_and_command_nothing():
    said = printed(relation_table({"relations": [row("[bold]"), row("\x1b[31mobj")]}))
    assert "[bold]" in said and "\x1b" not in said


def test_a_row_stays_a_line_in_a_narrow_terminal_and_says_which_is_better():
    relations = [row("nmod:poss"), row("compound:prt", 1.0, "too few"), row("nsubj:pass", verdict="head")]
    for width in (80, 63, 44):
        lines = printed(relation_table({"relations": relations}), width).splitlines()
        for one in relations:
            [line] = [line for line in lines if one["relation"] in line]
            assert line.split()[1] == "3.11" and line.rstrip().endswith(one["verdict"])
            assert ("head->child" in line) == (width > 44)


def test_a_relation_that_the_test_has_not_has_no_accuracy():
    assert printed(relation_table({"relations": [row(accuracy=None, verdict="too few")]})).split()[-9:] == [
        *("3.11", "head->child", "-", "-", "-2", "-", "8", "too", "few")
    ]


def test_what_can_not_be_told_is_faint():
    shown = printed(relation_table({"relations": [row("few", verdict="too few"), row("many")]}), colours="standard")
    [few] = [line for line in shown.splitlines() if "few" in line]
    [many] = [line for line in shown.splitlines() if "many" in line]
    assert few.startswith("\x1b[2m") or "\x1b[2m" in few.split("few")[0]
    assert "\x1b[2m" not in many


def test_the_legend_says_of_how_many_the_best_is():
    assert "the best of 144 (heads x directions) by luck" in verdicts({"candidates": 144})
    assert "best of" not in verdicts({"candidates": 1})
