"""The tables of `attncli probe`: what they say, with words from outside in them."""

from rich.console import Console

from attncli.render.terminal.probe import relation_table


def row(relation="det", accuracy=0.5):
    return {
        "relation": relation,
        "layer": 3,
        "head": 11,
        "direction": "head->child",
        "accuracy": accuracy,
        "offset": -2,
        "offset_accuracy": accuracy,
        "count": 8,
    }


def printed(table, width=200):
    console = Console(width=width, markup=False)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def test_relations_are_text_and_no_markup_and_command_nothing():
    said = printed(relation_table({"relations": [row("[bold]"), row("\x1b[31mobj")]}))
    assert "[bold]" in said and "\x1b" not in said


def test_a_row_stays_a_line_in_a_narrow_terminal():
    relations = [row("nmod:poss"), row("compound:prt", 1.0), row("nsubj:pass")]
    for width in (80, 63):
        lines = printed(relation_table({"relations": relations}, width), width).splitlines()
        for one in relations:
            [line] = [line for line in lines if one["relation"] in line]
            assert line.split()[1:3] == ["3.11", "head->child"] and line.split()[-1] == "8"


def test_a_relation_that_the_test_has_not_has_no_accuracy():
    assert printed(relation_table({"relations": [row(accuracy=None)]})).split()[-6:] == [
        *("3.11", "head->child", "-", "-2", "-", "8")
    ]
