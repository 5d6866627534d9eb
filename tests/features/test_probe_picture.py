"""The report of `attncli probe` and its picture: titles, tables, bars and marks that are the shares, and no overlap."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgb
from pictures import check_nothing_overlaps, picture_texts
from rich.console import Console

from attncli.features.probe import MOST_ROWS, _relation_table, bars_of, percent, relation_cells, title_of
from attncli.report.canvas import Canvas
from attncli.report.figure.shares import COMPARED, FAINT, FOUND, INK, UNSURE, WHOLE
from attncli.report.paper import Paper
from attncli.report.terminal import table_of

# --- the picture -----------------------------------------------------------------------------------------


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


def drawn_bars(canvas):
    """Those that say something, and those that say nothing, from the first row to the last."""
    colours = [to_rgb(FOUND), to_rgb(UNSURE)]
    return [bar for bar in canvas.patches if any(bar.get_facecolor()[:3] == pytest.approx(one) for one in colours)]


@pytest.mark.slow
@settings(max_examples=15)
@given(documents())
def test_bars_marks_intervals_and_words_are_those_of_the_document_and_none_overlap(document):
    drawn = bars_of(document).figure([], Paper())
    canvas = drawn.axes[0]
    bars = drawn_bars(canvas)
    marks = [line.get_xdata()[0] for line in canvas.lines if line.get_color() == COMPARED]
    left = bars[0].get_x()
    rows, layers = document["relations"], document["trees"]["layers"]
    found = [row["accuracy"] or 0 for row in rows] + [layer["best_head_uuas"] for layer in layers]
    compared = [row["offset_accuracy"] for row in rows if row["count"]] + [layer["uuas"] for layer in layers]
    np.testing.assert_allclose([bar.get_width() for bar in bars], WHOLE * np.array(found), atol=1e-9)
    np.testing.assert_allclose(np.array(marks) - left, WHOLE * np.array(compared), atol=1e-9)

    silent = [bar.get_facecolor()[:3] == pytest.approx(to_rgb(UNSURE)) for bar in bars[: len(rows)]]
    assert silent == [row["verdict"] == "too few" for row in rows]
    intervals = [line.get_xdata() - left for line in canvas.lines if line.get_color() in (INK, FAINT)]
    expected = [WHOLE * np.array([*row["interval"].values()]) for row in rows if row["count"]]
    for interval, of_row in zip(intervals, expected, strict=True):
        np.testing.assert_allclose(interval, of_row, atol=1e-9)

    shown = picture_texts(drawn)
    for row in rows:
        head, direction, *rest = relation_cells(row)
        assert {f"{head} {direction.replace('->', ' → ')}", *rest} <= {*shown}
    for layer in layers:
        assert f"{layer['layer']}.{layer['best_head']}" in shown and percent(layer["uuas"]) in shown
    check_nothing_overlaps(drawn)


@pytest.mark.slow
@settings(max_examples=5)
@given(documents(), relations())
def test_of_many_relations_the_first_are_drawn_and_it_says_so(document, row):
    document["relations"] = [{**row, "relation": f"r{place}"} for place in range(MOST_ROWS + 1)]
    shown = picture_texts(bars_of(document).figure([], Paper()))
    assert f"r{MOST_ROWS - 1}" in shown and f"r{MOST_ROWS}" not in shown
    assert f"the {MOST_ROWS} most frequent of {MOST_ROWS + 1} rows" in shown
    document["relations"].pop()
    assert not any("most frequent" in word for word in picture_texts(bars_of(document).figure([], Paper())))


# --- the report ------------------------------------------------------------------------------------------


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
        "few": False,
        "interval": {"low": None, "high": None} if accuracy is None else {"low": 0.125, "high": 1.0},
        "verdict": verdict,
    }


def printed(rows, width=200, colours=None):
    console = Console(width=width, markup=False, force_terminal=True, color_system=colours)
    with console.capture() as captured:
        canvas = Canvas(width, colours is not None, unicode=True)
        console.print(table_of(_relation_table(rows), canvas))
    return captured.get()


def test_relations_are_text_and_no_markup_and_command_nothing():
    said = printed([row("[bold]"), row("\x1b[31mobj")])
    assert "[bold]" in said and "\x1b" not in said


def test_a_relation_that_the_test_has_not_has_no_accuracy():
    assert printed([row(accuracy=None, verdict="too few")]).split()[-9:] == [
        *("3.11", "head->child", "-", "-", "-2", "-", "8", "too", "few")
    ]
    assert percent(None) == "-" and percent(2 / 3) == "66.7%" and percent(1) == "100.0%"


def test_the_title_names_both_treebanks_with_their_folders_or_not():
    assert title_of(document()) == ["minilm", "heads chosen on 40 sentences of /of/me/a.conllu"]
    both = document(test={"path": "b.conllu", "sentences": 1})
    assert title_of(both)[-1] == "measured on 1 sentence of b.conllu"
    assert title_of(both, folders=False)[1] == "heads chosen on 40 sentences of a.conllu"
    assert title_of({**both, "partial": True})[-1] == "PARTIAL"
    assert title_of({**both, "kind": "decoder"})[1] == "decoder attention"
