"""Numbers where labels have no room: which tokens they are, that they are at their places, and what is said."""

import numpy as np
import pytest
from pictures import check_nothing_overlaps, maps, picture_texts, random_record, texts_with_places

from attncli.report.figure.layout import Grid
from attncli.report.figure.maps import Panel, panel_grid
from attncli.report.paper import Paper

pytestmark = pytest.mark.filterwarnings("ignore::attncli.Notice")  # there may be no Chinese font here


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
    assert "numbers count from 0" in picture_texts(drawn)
    left, right, bottom, top = maps(drawn)[0].get_extent()
    for side, start, length in (("query", top, bottom - top), ("key", left, right - left)):
        found = places(drawn, side)
        assert len(found) >= 5 and 0 in found and max(found) >= 100
        for number, at in found.items():
            assert at == pytest.approx(start + (number + 0.5) * length / 128, abs=0.12)  # the first and last are inside


@pytest.mark.slow
def test_numbers_are_those_of_the_text_where_not_all_of_it_is_drawn():
    """Leave out [CLS]: the first token drawn has number 1, the number that --query takes."""
    drawn = random_record(1, 1, 128).figure(width="8cm", special=False)
    assert 1 in places(drawn, "query") and 0 not in places(drawn, "query")


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
        drawn = panel_grid([[Panel("caption", np.ones((rows, 40), np.float32))]], grid)
        check_nothing_overlaps(drawn)
        [box] = [box for text, box in texts_with_places(drawn) if text == "a long query"]
        assert drawn.get_size_inches()[1] - box.y1 / drawn.dpi >= maps(drawn)[0].get_extent()[3] - 0.05
