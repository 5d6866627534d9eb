"""The picture of `attncli mechanisms`: a row a score, a column a normaliser, each map where it belongs."""

import numpy as np
from heads import made_up
from matplotlib.image import AxesImage
from matplotlib.text import Text

from attncli.attention.mistakes import MISTAKES
from attncli.checks.planted import Made, Mistakes, Moved
from attncli.checks.variants import variants
from attncli.render.figures.mechanisms import mechanisms_figure, mistakes_figure


def said(drawn):
    return [text.get_text() for text in drawn.findobj(Text) if text.get_text()]


def test_every_map_stands_in_the_row_of_its_score_and_the_column_of_its_normaliser():
    head = made_up()
    found = variants(head)
    drawn = mechanisms_figure(head.record, found, 1.0, 0)
    images = [one for one in drawn.axes[0].get_children() if isinstance(one, AxesImage)]
    assert len(images) == len(found)
    lefts = sorted({one.get_extent()[0] for one in images})
    tops = sorted({one.get_extent()[3] for one in images})
    for image, one in zip(images, found, strict=True):
        expected = np.where(head.record.mask, one.weights, np.nan)
        np.testing.assert_array_equal(np.array(image.get_array()), expected)
        row, column = tops.index(image.get_extent()[3]), lefts.index(image.get_extent()[0])
        assert found[3 * row + column] is one
    assert {image.norm.vmax for image in images} == {1.0}


def test_it_names_scores_normalisers_and_what_is_untrained():
    head = made_up()
    words = said(mechanisms_figure(head.record, variants(head, 0.5, 9), 0.5, 9))
    assert {"dot", "scaled_dot", "additive (untrained)", "softmax, T = 0.5", "hard_max", "hard_sample"} < set(words)
    assert "its softmax at T = 1 is the head's own map" in " ".join(words)
    assert "untrained (seed 9)" in " ".join(words)
    assert "softmax" in said(mechanisms_figure(head.record, variants(head), 1.0, 0))


def test_mistakes_stand_after_the_own_map():
    head = made_up()
    own = head.record.map(0, 0)
    changed = [np.roll(own, place, axis=1) for place in range(5)]
    made = [Made(one, weights, Moved(0.5, [], 1.0)) for one, weights in zip(MISTAKES, changed, strict=False)]
    drawn = mistakes_figure(head.record, Mistakes([*made, Made(MISTAKES[5])], None))
    images = [one for one in drawn.axes[0].get_children() if isinstance(one, AxesImage)]
    for image, weights in zip(images, [own, *changed], strict=True):
        np.testing.assert_array_equal(np.array(image.get_array()), weights)
    assert {"as it is", *(one.name for one in MISTAKES[:5])} < set(said(drawn))
    assert MISTAKES[5].name not in said(drawn)
