"""Check in a real browser that cells hidden by a layer's mask are hatched in every view, and never a weight of 0."""

import numpy as np
import pytest
from records import record_of

from attncli.record.grouping import merge_words
from attncli.text.tokens import word_groups

pytestmark = pytest.mark.slow

REACH = 1


@pytest.fixture
def record(random_maps):
    """Layer 0 looks at everything, layer 1 no further than REACH; the last token is [PAD]."""
    weights, places = random_maps(2, 2, 9), np.arange(9)
    masks = np.ones((2, 9, 9), dtype=bool)
    masks[1] = abs(places[:, None] - places) <= REACH
    masks[..., 8:] = False
    masks[1, 8] = True  # what [PAD] looks at is of no account
    masks[1, 8, 8] = False
    weights = weights * masks[:, None]
    return record_of(weights / weights.sum(axis=-1, keepdims=True), masks, padding=1)


def hidden_cells(page):
    return {(int(one["query"]), int(one["key"])) for one in page.marks("rect") if "hidden" in one}


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("words", ["no", "yes"])
def test_matrix_hatches_what_the_layer_hides(opened, record, layer, words):
    page = opened(record, f"#view=matrix&layer={layer}&head=1&words={words}")
    shown = merge_words(record) if words == "yes" else record
    first = [group[0] for group in word_groups(record.tokens)] if words == "yes" else list(range(9))
    expected = {(first[query], first[key]) for query, key in np.argwhere(~shown.mask_of(layer))}
    assert hidden_cells(page) == expected
    assert page.texts().count("hidden") == 1


def test_the_screen_tells_hidden_from_0_and_words_and_heads_say_it(opened, record):
    page = opened(record, "#view=matrix&layer=1&head=0&cell=20")
    pixels = page.pixels()
    for one in page.marks("rect"):
        x, y = int(one["x"]), int(one["y"])
        colours = {tuple(pixel) for pixel in pixels[y + 3 : y + 17, x + 3 : x + 17].reshape(-1, 3)}
        assert (len(colours) > 1) == ("hidden" in one)  # hatched, or of one colour

    page.go("#view=matrix&layer=1&head=0&token=3")
    assert "Hidden: 6 of 9." in page.tab.inner_text("#said")
    [cell] = [one for one in page.marks("rect") if (one["query"], one["key"]) == (3, 6)]
    page.point(cell["x"] + 4, cell["y"] + 4)
    assert page.tab.inner_text("#tip").endswith(": hidden")
    assert "hatched: hidden" in page.text("about")

    page.go("#view=heads&layer=1&token=3")
    assert any("hatched: hidden" in text for text in page.texts())
    assert not [
        one for one in page.marks("line") if abs(int(one["query"]) - int(one["key"])) > REACH and one["query"] < 8
    ]
    assert "hidden" in opened(record, "#view=model").texts()  # beside a sample


def test_where_nothing_is_hidden_nothing_says_so(opened, random_maps):
    page = opened(record_of(random_maps(1, 2, 7)), "#view=matrix")
    assert not hidden_cells(page) and "hidden" not in page.texts()
    assert "hatched" not in page.text("about")
