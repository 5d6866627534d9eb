"""The table of `attncli explain`: that its numbers are the document's."""

import numpy as np
import pytest
from heads import heads, made_up
from hypothesis import given
from hypothesis import strategies as st
from terminals import rows

from attncli.analysis import steps
from attncli.render.captions.steps import HIDDEN, end, title
from attncli.render.terminal.steps import steps_table, steps_view


def document(head, query):
    """What `explain --json` prints."""
    return steps.document(head.record, head.x, head.value, query)


@given(heads(), st.integers(0, 3))
def test_a_row_a_key_with_its_numbers_at_three_digits(head, query):
    explained = document(head, query)
    *by_key, _ = rows(steps_table(explained))
    for row, key in zip(by_key, explained["keys"], strict=True):
        name, score, scaled, raised, weight, norm, contribution = row
        assert name.split() == [str(key["index"]), key["token"]]
        assert [score, scaled, weight] == [f"{key[one]:.3f}" for one in ("score", "scaled", "weight")]
        assert [norm, contribution] == [f"{key[one]:.3f}" for one in ("value_norm", "contribution")]
        assert raised == (f"{key['raised']:.4f}" if key["allowed"] else HIDDEN)


@given(heads(), st.integers(0, 3))
def test_the_last_row_has_the_sums(head, query):
    explained = document(head, query)
    total, weights, output = (rows(steps_table(explained))[-1][place] for place in (3, 4, 6))
    assert float(total) == pytest.approx(sum(key["raised"] for key in explained["keys"]), abs=1e-4)
    assert weights == "1.000"
    assert output == f"|Σ| = {np.linalg.norm(explained['output']):.3f}"


def test_a_query_that_may_attend_to_nothing_has_masked_keys_only():
    mask = np.tri(5, k=-1, dtype=bool)
    *by_key, last = rows(steps_table(document(made_up(tokens=5, mask=mask), 0)))
    assert all(row[3] == HIDDEN and row[4] == row[6] == "0.000" for row in by_key)
    assert last[3:] == ("0.0000", "0.000", "", "|Σ| = 0.000")


def test_a_token_is_not_for_the_terminal_to_obey():
    explained = document(made_up(), 1)
    explained["keys"][1]["shown"] = "\x1b[31m[bold]"
    names = [row[0] for row in rows(steps_table(explained))]
    assert "  1 \\x1b[31m[bold]" in names and not any("\x1b" in name for name in names)


def test_the_table_stands_between_what_is_said_of_it():
    explained = document(made_up(), 1)
    above, table, below = steps_view(explained)
    assert (above.plain, below.plain) == (title(explained), end(explained))
    assert table.row_count == 10


def test_without_values_the_table_ends_with_the_weights():
    head = made_up()
    explained = steps.document(head.record, None, None, 1)
    *by_key, last = rows(steps_table(explained))
    assert [row[:5] for row in by_key] == [row[:5] for row in rows(steps_table(document(head, 1)))[:-1]]
    assert {len(row) for row in by_key} == {5} and last[4] == "1.000"
    assert "x = " not in title(explained) and "q = (" in title(explained)
    assert end(explained).startswith("most weight: ") and "brings" not in end(explained)
