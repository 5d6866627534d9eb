"""The picture of `attncli explain`: bars are the numbers, numbers are the terminal's, and nothing overlaps."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from heads import heads, made_up
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from pictures import check_nothing_overlaps, said

from attncli.analysis import steps
from attncli.render.figures.steps import BAND, BAR, HIDDEN_BAR, MOST_ROWS, steps_figure, strongest_keys
from attncli.render.terminal.steps import steps_table
from attncli.report.figure.saving import save_figure

pytestmark = pytest.mark.filterwarnings("ignore::attncli.Notice")  # there may be no Chinese font here

STEPS = ("score", "scaled", "raised", "weight", "value_norm", "contribution")


def document(head, query):
    """What `explain --json` prints."""
    return steps.document(head.record, head.x, head.value, query)


def bars(drawn, keys):
    """The lengths of the bars, signed: step -> by key."""
    found = [one for one in drawn.axes[0].patches if isinstance(one, Rectangle) and np.isclose(one.get_height(), BAR)]
    lengths = np.array([one.get_width() for one in found]).reshape(len(STEPS), keys)
    return dict(zip(STEPS, lengths, strict=True))


@pytest.mark.slow
@settings(max_examples=15)
@given(heads(), st.integers(0, 3))
def test_bars_are_as_long_as_their_numbers(head, query):
    explained = document(head, query)
    lengths = bars(steps_figure(explained), len(head.x))
    for step, found in lengths.items():
        numbers = np.array([key[step] for key in explained["keys"]])
        np.testing.assert_allclose(found * np.abs(numbers).max(), numbers * np.abs(found).max(), atol=1e-6)


@pytest.mark.slow
@settings(max_examples=15)
@given(heads(), st.integers(0, 3))
def test_it_says_what_the_terminal_says(head, query):
    explained = document(head, query)
    shown = said(steps_figure(explained))
    for column in list(steps_table(explained).columns)[1:]:
        assert str(column.header) in shown
        for cell in filter(None, map(str, column.cells)):
            assert cell in shown
    for key in explained["keys"]:
        assert f"{key['index']} {key['token']}" in shown


@pytest.mark.slow
@settings(max_examples=15)
@given(heads(), st.integers(0, 3), st.text("Wi中 ", max_size=120), st.text("Wil中##", min_size=1, max_size=30))
def test_no_word_lies_on_another_or_leaves_the_picture(head, query, name, token):
    explained = document(head, query)
    explained["model"]["name"] = name
    explained["keys"][0]["shown"] = token
    drawn = steps_figure(explained)
    check_nothing_overlaps(drawn)


def test_masked_keys_are_faint_and_say_so():
    explained = document(made_up(tokens=6, mask=np.tri(6, dtype=bool)), 3)
    drawn = steps_figure(explained)
    assert said(drawn).count("masked") == 2
    grey = [one for one in drawn.axes[0].patches if one.get_facecolor()[:3] == pytest.approx(rgb(HIDDEN_BAR))]
    assert len(grey) == 2 * len(STEPS)


def test_a_query_that_may_attend_to_nothing_can_be_drawn():
    explained = document(made_up(tokens=5, mask=np.tri(5, k=-1, dtype=bool)), 0)
    shown = said(steps_figure(explained))
    assert shown.count("masked") == 5 and any("may attend to nothing" in line for line in shown)


def test_the_querys_own_row_stands_out():
    drawn = steps_figure(document(made_up(), 4))
    [band] = [one for one in drawn.axes[0].patches if one.get_facecolor()[:3] == pytest.approx(rgb(BAND))]
    [label] = [text for text in drawn.findobj(Text) if text.get_text().startswith("4 ")]
    assert band.get_y() < label.get_position()[1] < band.get_y() + band.get_height()


@pytest.mark.slow
def test_of_many_keys_the_strongest_are_drawn_in_the_order_of_the_text():
    explained = document(made_up(tokens=90), 0)
    strongest = strongest_keys(explained["keys"])
    places, rest = [key["index"] for key in strongest], [key for key in explained["keys"] if key not in strongest]
    assert places == sorted(places) and len(places) == MOST_ROWS
    assert min(key["weight"] for key in strongest) >= max(key["weight"] for key in rest)
    shown = said(steps_figure(explained))
    share = sum(key["weight"] for key in strongest)
    assert f"the 60 of 90 keys that have the largest weights, together {share:.3f}; sums are of all" in shown
    assert not any(line.startswith("the 60 of") for line in said(steps_figure(document(made_up(tokens=60), 0))))


def test_text_is_text_and_bytes_are_the_same(tmp_path):
    explained = document(made_up(), 1)
    explained["keys"][2]["shown"] = "</text><script>&"
    for name in ("one.svg", "two.svg"):
        save_figure(steps_figure(explained), tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    root = ElementTree.parse(tmp_path / "one.svg").getroot()
    shown = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert f"2 {'</text><script>&'}" in shown
    assert f"{explained['keys'][1]['weight']:.3f}" in shown


def rgb(colour):
    from matplotlib.colors import to_rgb

    return to_rgb(colour)
