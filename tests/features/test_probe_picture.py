"""The picture of `attncli probe`: bars and marks are the shares, words are the terminal's, and nothing overlaps."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgb
from matplotlib.text import Text
from pictures import check_nothing_overlaps, picture_texts

from attncli.features.probe import percent, relation_cells, title_of
from attncli.features.probe.picture import COMPARED, FAINT, FOUND, INK, MOST_ROWS, UNSURE, WHOLE, draw_bars
from attncli.report.paper import Paper

pytestmark = pytest.mark.filterwarnings("ignore::attncli.Notice")  # there may be no Chinese font here

SHARES = st.floats(0, 1)


@st.composite
def relations(draw):
    count = draw(st.sampled_from([0, 1, 17, 12345]))
    low, high = sorted([draw(SHARES), draw(SHARES)]) if count else (None, None)
    return {
        "relation": draw(st.text("abc中:", min_size=1, max_size=24)),
        "layer": draw(st.integers(0, 23)),
        "head": draw(st.integers(0, 15)),
        "direction": draw(st.sampled_from(["child->head", "head->child"])),
        "accuracy": draw(SHARES) if count else None,
        "offset": draw(st.integers(-30, 30)),
        "offset_accuracy": draw(SHARES) if count else None,
        "count": count,
        "interval": {"low": low, "high": high},
        "verdict": draw(st.sampled_from(["head", "offset", "unclear", "too few"])),
    }


@st.composite
def documents(draw):
    layers = [
        {"layer": layer, "uuas": draw(SHARES), "best_head": draw(st.integers(0, 15)), "best_head_uuas": draw(SHARES)}
        for layer in range(draw(st.integers(1, 4)))
    ]
    treebank = {"path": draw(st.text("ab /中", min_size=1, max_size=120)), "sentences": 40, "words": 380, "skipped": 0}
    return {
        "model": {"name": "made-up"},
        "partial": False,
        "candidates": draw(st.sampled_from([1, 144])),
        "treebank": treebank,
        "test": draw(st.sampled_from([None, treebank])),
        "relations": draw(st.lists(relations(), min_size=1, max_size=6)),
        "trees": {"edges": 291, "neighbours": 0.5, "layers": layers},
    }


def bars_of(canvas):
    """Those that say something, and those that say nothing, from the first row to the last."""
    colours = [to_rgb(FOUND), to_rgb(UNSURE)]
    return [bar for bar in canvas.patches if any(bar.get_facecolor()[:3] == pytest.approx(one) for one in colours)]


@pytest.mark.slow
@settings(max_examples=15)
@given(documents())
def test_bars_and_marks_stand_for_the_shares(document):
    canvas = draw_bars(document, title_of(document, folders=False), Paper()).axes[0]
    bars = bars_of(canvas)
    marks = [line.get_xdata()[0] for line in canvas.lines if line.get_color() == COMPARED]
    left = bars[0].get_x()
    rows, layers = document["relations"], document["trees"]["layers"]
    found = [row["accuracy"] or 0 for row in rows] + [layer["best_head_uuas"] for layer in layers]
    compared = [row["offset_accuracy"] for row in rows if row["count"]] + [layer["uuas"] for layer in layers]
    np.testing.assert_allclose([bar.get_width() for bar in bars], WHOLE * np.array(found), atol=1e-9)
    np.testing.assert_allclose(np.array(marks) - left, WHOLE * np.array(compared), atol=1e-9)


@pytest.mark.slow
@settings(max_examples=10)
@given(documents())
def test_bars_are_grey_where_there_are_too_few_words_and_have_their_intervals(document):
    canvas = draw_bars(document, title_of(document, folders=False), Paper()).axes[0]
    bars = bars_of(canvas)
    rows = document["relations"]
    silent = [bar.get_facecolor()[:3] == pytest.approx(to_rgb(UNSURE)) for bar in bars[: len(rows)]]
    assert silent == [row["verdict"] == "too few" for row in rows]
    drawn = [line.get_xdata() - bars[0].get_x() for line in canvas.lines if line.get_color() in (INK, FAINT)]
    expected = [WHOLE * np.array([*row["interval"].values()]) for row in rows if row["count"]]
    np.testing.assert_allclose(drawn, expected, atol=1e-9) if expected else drawn == []


@pytest.mark.slow
@settings(max_examples=15)
@given(documents())
def test_it_says_what_the_terminal_says(document):
    shown = picture_texts(draw_bars(document, title_of(document, folders=False), Paper()))
    for row in document["relations"]:
        head, direction, *rest = relation_cells(row)
        assert {f"{head} {direction.replace('->', ' → ')}", *rest} <= {*shown}
    for layer in document["trees"]["layers"]:
        assert f"{layer['layer']}.{layer['best_head']}" in shown and percent(layer["uuas"]) in shown


@pytest.mark.slow
@settings(max_examples=15)
@given(documents())
def test_no_word_lies_on_another_or_leaves_the_picture(document):
    drawn = draw_bars(document, title_of(document, folders=False), Paper())
    check_nothing_overlaps(drawn)


@pytest.mark.slow
@settings(max_examples=3)
@given(documents())
def test_relations_are_no_formulas_and_command_nothing(document):
    document["relations"][0]["relation"] = "\x1b[1m$x^2$"
    document["treebank"]["path"] = "\x1b]0;t\x07$y_1$"
    drawn = draw_bars(document, title_of(document, folders=False), Paper())
    assert not any("/" in word for word in picture_texts(drawn) if "sentence" in word)  # a file's name, not its folders
    assert not any("\x1b" in word or "\x07" in word for word in picture_texts(drawn))
    assert not any(text.get_parse_math() for text in drawn.findobj(Text) if "$" in text.get_text())


@pytest.mark.slow
@settings(max_examples=5)
@given(documents(), relations())
def test_of_many_relations_the_first_are_drawn_and_it_says_so(document, row):
    document["relations"] = [{**row, "relation": f"r{place}"} for place in range(MOST_ROWS + 1)]
    shown = picture_texts(draw_bars(document, title_of(document, folders=False), Paper()))
    assert f"r{MOST_ROWS - 1}" in shown and f"r{MOST_ROWS}" not in shown
    assert f"the {MOST_ROWS} most frequent of {MOST_ROWS + 1} rows" in shown
    document["relations"].pop()
    assert not any(
        "most frequent" in word
        for word in picture_texts(draw_bars(document, title_of(document, folders=False), Paper()))
    )
