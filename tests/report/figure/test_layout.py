"""The layout of pictures: nothing overlaps, widths are those asked for, and numbers where labels have no room."""

import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.text import Text
from pictures import check_nothing_overlaps, maps, picture_texts, random_record, texts_with_places
from records import attention_records

from attncli import RequestError
from attncli.report.figure.layout import Grid
from attncli.report.figure.maps import DrawnMap, panel_grid
from attncli.report.paper import SMALLEST, Paper, inches, paper

pytestmark = pytest.mark.filterwarnings("ignore::attncli.Notice")  # there may be no Chinese font here


@pytest.mark.slow
@settings(max_examples=40)
@given(
    attention_records(),
    st.fixed_dictionaries(
        {
            "style": st.sampled_from(["matrix", "lines"]),
            "mean": st.booleans(),
            "special": st.booleans(),
            "width": st.sampled_from([None, "8cm", "17cm"]),
            "title": st.none() | st.text("Wi中 ", min_size=1, max_size=120),
        }
    ),
    st.lists(st.text("Wil中##", min_size=1, max_size=30), min_size=14, max_size=14),
)
def test_no_word_lies_on_another(record, options, texts):
    tokens = replace(record.tokens, shown=[], text=[*texts[: len(record.tokens)]])
    try:
        drawn = replace(record, tokens=tokens).figure(**options)
    except RequestError as error:  # long words beside a grid: it says what would do
        assert "is too narrow for this picture" in str(error)
        return
    check_nothing_overlaps(drawn)


SMALL = [(1, 1, 5), (1, 1, 14), (1, 1, 120), (1, 3, 14), (6, 8, 14), (2, 3, 60)]
LARGE = [(1, 1, 3), (1, 1, 120), (1, 2, 90), (1, 12, 40), (6, 12, 14), (12, 12, 5), (24, 16, 12)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "style, shape, width",
    [*product(["matrix", "lines"], SMALL, ["8cm", "17cm"]), *product(["matrix"], LARGE, [None])],
)
def test_a_picture_is_as_wide_as_it_should_be_and_its_letters_can_be_read(style, shape, width):
    drawn = random_record(*shape).figure(style=style, width=width)
    check_nothing_overlaps(drawn)
    if width is None:
        return
    assert drawn.get_size_inches()[0] == pytest.approx(float(width[:-2]) / 2.54)
    # Weights in cells are as large as the cells allow.
    assert min(text.get_size() for text in drawn.findobj(Text) if text.get_text()) >= 6 - 1e-6


@pytest.mark.slow
def test_a_width_that_is_too_small_names_one_that_fits():
    record = random_record(6, 12, 8)
    with pytest.raises(RequestError, match=r"too narrow.*: use --width [\d.]+cm") as refused:
        record.figure(width="2cm")
    fits = re.search(r"use --width ([\d.]+cm)", str(refused.value))[1]
    check_nothing_overlaps(record.figure(width=fits))


@pytest.mark.parametrize("style", ["matrix", "lines"])
def test_a_row_of_heads_without_room_in_a_column_is_folded(style):
    drawn = random_record(2, 12, 6).figure(style=style, width="8cm")
    check_nothing_overlaps(drawn)
    heads = [text for text in picture_texts(drawn) if re.fullmatch(r"\d\.\d+", text)]
    assert [one for one in heads if one.endswith(".11")] == ["0.11", "1.11"] and drawn.get_size_inches()[0] < 3.2
    middles = {text: round((box.x0 + box.x1) / 2) for text, box in texts_with_places(drawn)}
    assert middles["1.0"] == middles["1.6"]


@pytest.mark.parametrize("style", ["matrix", "lines"])
def test_font_and_size_are_those_asked_for(style):
    drawn = random_record(1, 1, 6).figure(style=style, font="stixgeneral", font_size=8)
    check_nothing_overlaps(drawn)
    labels = [text for text in drawn.findobj(Text) if text.get_text() == "[CLS]"]
    assert len(labels) == 2
    for label in labels:
        assert label.get_size() == 8 and label.get_fontfamily()[0] == "STIXGeneral"


@pytest.mark.slow
def test_labels_that_have_no_room_are_not_drawn_and_the_picture_says_so():
    assert "every 5th token is named" in picture_texts(random_record(8, 8, 50).figure())
    assert picture_texts(random_record(8, 8, 50).figure()).count("[CLS]") == 16
    assert picture_texts(random_record(12, 12, 5).figure()).count("[CLS]") == 24


# --- widths and sizes ------------------------------------------------------------------------------------


@given(st.floats(0.1, 99))
def test_units_are_those_of_every_ruler(length):
    assert inches(length) == inches(f"{length}in") == pytest.approx(length)
    assert inches(f"{length * 2.54:.9f} cm") == pytest.approx(length)
    assert inches(f"{length * 25.4:.9f}mm") == pytest.approx(length)
    assert inches(f"{length * 72:.9f}PT") == pytest.approx(length)


@pytest.mark.parametrize(
    "wrong", ["", "cm", "8 furlongs", "-8cm", "0cm", "1e9cm", "nan", "inf", "8cm8", "101in", "٨cm"]
)
def test_what_is_no_width_is_refused_with_examples(wrong):
    with pytest.raises(RequestError, match='"8cm"'):
        inches(wrong)


@given(st.floats(0.5, 20))
def test_letters_for_print_are_at_least_six_points(width):
    assert SMALLEST == paper(width).smallest <= paper(width).label <= paper().label


def test_a_size_that_is_asked_for_is_kept():
    assert (paper("8cm", font_size=4).label, paper("8cm", font_size=4).smallest) == (4, 4)
    assert paper(font_size=20).label == 20
    for wrong in (0, -1, 1000, float("nan")):
        with pytest.raises(RequestError, match="--font-size"):
            paper(font_size=wrong)


# --- numbers for labels ----------------------------------------------------------------------------------


def places(drawn, side):
    """The numbers left of the first map ("query") or under it ("key"): number -> its middle in inches."""
    image = maps(drawn)[0]
    left, right, bottom, _ = image.get_extent()
    height = drawn.get_size_inches()[1] * drawn.dpi
    found = {}
    for text, box in texts_with_places(drawn):
        x, y = (box.x0 + box.x1) / 2 / drawn.dpi, (height - (box.y0 + box.y1) / 2) / drawn.dpi
        if text.isdigit() and (x < left and y < bottom if side == "query" else y > bottom and x < right + 0.1):
            found[int(text)] = y if side == "query" else x
    return found


@pytest.mark.slow
def test_128_tokens_in_a_column_have_numbers_at_their_places():
    drawn = random_record(1, 1, 128).figure(width="8cm")
    check_nothing_overlaps(drawn)
    assert "numbers count from 0" in " ".join(picture_texts(drawn))
    left, right, bottom, top = maps(drawn)[0].get_extent()
    for side, start, length in (("query", top, bottom - top), ("key", left, right - left)):
        found = places(drawn, side)
        assert len(found) >= 5 and 0 in found and max(found) >= 100
        for number, at in found.items():
            assert at == pytest.approx(start + (number + 0.5) * length / 128, abs=0.12)  # the first and last are inside
    without = random_record(1, 1, 128).figure(width="8cm", special=False)
    assert min(places(without, "query")) == 1  # numbers are those of the text, which --query takes


@pytest.mark.slow
@pytest.mark.parametrize("style", ["matrix", "lines"])
def test_thumbnails_say_what_they_leave_out(style):
    """72 heads in a narrow picture: maps have short names, and 14 tokens of a matrix have no labels."""
    drawn = random_record(6, 12, 14).figure(style=style, width="11cm")
    check_nothing_overlaps(drawn)
    words = " ".join(picture_texts(drawn))
    assert "above each map: its head" in words and ("no room for 14 x 14 labels" in words) == (style == "matrix")
    assert {f"{layer}.{head}" for layer in range(6) for head in range(12)} <= set(picture_texts(drawn))


@pytest.mark.slow
@pytest.mark.parametrize("width", [None, 3.15, 6.7])
def test_the_word_query_never_meets_a_title(width):
    """Draw maps of one or two rows, which are shorter than the word beside them."""
    for rows in (1, 2):
        grid = Grid(
            [""] * rows,
            [""] * 40,
            title="a title",
            note="a note " * 9,
            axes=("a long query", "key"),
            paper=Paper(width),
        )
        drawn = panel_grid([[DrawnMap("caption", np.ones((rows, 40), np.float32))]], grid)
        check_nothing_overlaps(drawn)
        [box] = [box for text, box in texts_with_places(drawn) if text == "a long query"]
        assert drawn.get_size_inches()[1] - box.y1 / drawn.dpi >= maps(drawn)[0].get_extent()[3] - 0.05
