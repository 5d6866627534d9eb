"""The table of `attncli explain`: that its numbers are the document's."""

import numpy as np
import pytest
from heads import heads, made_up
from hypothesis import given
from hypothesis import strategies as st

from attncli.cli.explain import document
from attncli.render.steps import HIDDEN, steps_end, steps_table, steps_title, vector


def cells(table):
    """The table's rows, as text."""
    columns = [[str(cell) for cell in column.cells] for column in table.columns]
    return list(zip(*columns, strict=True))


@given(heads(), st.integers(0, 3))
def test_a_row_a_key_with_its_numbers_at_three_digits(head, query):
    explained = document(head, query)
    *rows, _ = cells(steps_table(explained))
    for row, key in zip(rows, explained["keys"], strict=True):
        name, score, scaled, raised, weight, norm, contribution = row
        assert name.split() == [str(key["index"]), key["token"]]
        assert [score, scaled, weight] == [f"{key[one]:.3f}" for one in ("score", "scaled", "weight")]
        assert [norm, contribution] == [f"{key[one]:.3f}" for one in ("value_norm", "contribution")]
        assert raised == (f"{key['raised']:.4f}" if key["allowed"] else HIDDEN)


@given(heads(), st.integers(0, 3))
def test_the_last_row_has_the_sums_and_the_end_the_strongest(head, query):
    explained = document(head, query)
    keys = explained["keys"]
    total, weights, output = (cells(steps_table(explained))[-1][place] for place in (3, 4, 6))
    assert float(total) == pytest.approx(sum(key["raised"] for key in keys), abs=1e-4)
    assert weights == "1.000"
    assert output == f"|Σ| = {np.linalg.norm(explained['output']):.3f}"
    heaviest = max(range(len(keys)), key=lambda place: keys[place]["weight"])
    longest = max(range(len(keys)), key=lambda place: keys[place]["contribution"])
    last = steps_end(explained).plain.splitlines()[-1]
    assert f'most weight: {heaviest} "' in last and f'brings most: {longest} "' in last


def test_a_query_that_may_attend_to_nothing_says_so():
    mask = np.tri(5, k=-1, dtype=bool)
    explained = document(made_up(tokens=5, mask=mask), 0)
    assert "may attend to nothing" in steps_end(explained).plain
    *rows, last = cells(steps_table(explained))
    assert all(row[3] == HIDDEN and row[4] == row[6] == "0.000" for row in rows)
    assert last[3:] == ("0.0000", "0.000", "", "|Σ| = 0.000")


def test_the_title_says_which_head_which_query_and_where_it_comes_from():
    head = made_up()
    which, x, q = steps_title(document(head, 2)).plain.splitlines()
    assert which == 'made-up · layer 0 head 0 · mask padding · query 2 "##s"'
    assert x == f"x = {vector(head.x[2])}, the layer's input"
    assert q == f"q = W_Q x + b_Q = {vector(head.query[2])}"


def test_a_vector_is_shown_by_its_first_elements_and_its_size():
    assert vector([1, 2.25]) == "(1.000, 2.250) [2]"
    assert vector(range(9)) == "(0.000, 1.000, 2.000, 3.000, 4.000, 5.000, ...) [9]"


def test_tokens_and_names_are_not_for_the_terminal_to_obey():
    explained = document(made_up(), 1)
    explained["keys"][1]["token"] = explained["query"]["token"] = "\x1b[31m[bold]"
    explained["model"]["name"] = "\x1b[2J"
    shown = [
        steps_title(explained).plain,
        steps_end(explained).plain,
        *(row[0] for row in cells(steps_table(explained))),
    ]
    assert not any("\x1b" in text for text in shown)
    assert any("[bold]" in text for text in shown)
