"""Rollout and flow in the terminal: maps beside each other, and the numbers of every row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import attention_records, record_of
from rich.cells import cell_len
from rich.text import Text
from terminals import PLAIN, canvases, rows

from attncli.analysis.following import Followed
from attncli.analysis.rollout import mean_maps, residual_steps, rollout
from attncli.render.terminal import flow
from attncli.report.terminal import NUMBERS_WIDTH as NUMBERS
from attncli.report.terminal import picture


def shares_of(record):
    return {"raw": mean_maps(record), "rollout": rollout(residual_steps(record))}


def views(record, canvas=PLAIN):
    return flow.layer_views(Followed(record, record.layers, list(range(len(record.tokens))), shares_of(record)), canvas)


@given(attention_records(), canvases(40, 160))
def test_there_is_a_heading_and_a_table_for_every_layer_and_maps_fit_the_width(record, canvas):
    shown = views(record, canvas)
    lines = [one for one in shown if isinstance(one, Text)]
    headings = [line.plain for line in lines if "mean of heads" in line.plain and "layer " in line.plain]
    assert [f"layer {layer}, mean" in heading for layer, heading in zip(record.layers, headings, strict=True)]
    assert len(shown) - len(lines) == len(record.layers)
    pictures = lines[lines.index(next(line for line in lines if line.plain in headings)) + 2 :]
    assert all(cell_len(line.plain) <= canvas.width for line in pictures if line.plain not in headings)


def test_maps_stand_beside_each_other_in_the_order_of_the_methods():
    record = record_of(np.random.default_rng(2).dirichlet(np.ones(9), (2, 3, 9)))
    shown = [one.plain for one in views(record) if isinstance(one, Text)]
    names = next(place for place, line in enumerate(shown) if line.split() == ["raw", "rollout"])
    right = shown[names].index("rollout")
    drawn = [picture(rows[0].astype(np.float32), PLAIN, 9, 9) for rows in shares_of(record).values()]
    for place in range(9):
        raw, rolled = (f"{place:>{NUMBERS - 1}} {lines[place].plain}" for lines in drawn)
        assert shown[names + 2 + place] == f"{raw:<{right}}{rolled}".rstrip()


def test_a_row_names_the_two_tokens_that_it_takes_most_from():
    record = record_of([[[[0, 1, 0], [0.25, 0.75, 0], [0, 0, 1]]]])
    [table] = [one for one in views(record) if not isinstance(one, Text)]
    assert rows(table)[1] == ("  1 cat", "cat 0.750  [CLS] 0.250", "cat 0.875  [CLS] 0.125")
    assert rows(table)[0] == ("  0 [CLS]", "cat 1.000", "[CLS] 0.500  cat 0.500")


def test_a_row_that_attends_to_nothing_says_so():
    record = record_of([[[[0, 0], [0, 1]]]], mask=np.array([[False, False], [False, True]]))
    [table] = [one for one in views(record) if not isinstance(one, Text)]
    assert rows(table)[0][1] == "(attends to nothing)"


@given(attention_records(), canvases(40, 160), st.data())
def test_a_token_alone_has_a_row_for_every_input_token_with_its_shares(record, canvas, data):
    query = data.draw(st.integers(0, len(record.tokens) - 1))
    shares = {name: found[:, [query]] for name, found in shares_of(record).items()}
    shown = flow.token_tables(Followed(record, record.layers, [query], shares), canvas)
    tables = [one for one in shown if not isinstance(one, Text)]
    for number, table in enumerate(tables):
        for place, row in enumerate(rows(table)):
            assert row[1:] == tuple(f"{found[number, 0, place]:.3f}" for found in shares.values())
    assert len(tables) == len(record.layers)


@pytest.mark.parametrize("names", [["raw"], ["flow", "rollout"]])
def test_only_the_methods_shown_are_explained(names):
    assert [line.plain.partition(":")[0] for line in flow.meanings(dict.fromkeys(names))] == names
