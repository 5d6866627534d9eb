"""A cosine that was taken apart, as a picture: A's tokens down, B's across, around 0."""

import numpy as np
from pictures import check_nothing_overlaps, maps, said
from records import similarity_of, tokens

from attncli.analysis.similarity import Cosines
from attncli.render.figures.similarity import cosines_figure, similarity_figure

CELLS = np.array([[0.1, 0.02, 0.0], [0.2, -0.3, 0.05]])
FOUND = similarity_of(CELLS, tokens(["un", "##able"], [0, 0]), tokens(["the", "cat", "##s"], [0, 1, 1]))


def test_cells_are_hundredths_around_zero():
    drawn = similarity_figure(FOUND)
    [image] = maps(drawn)
    np.testing.assert_allclose(image.get_array(), CELLS * 100, rtol=1e-6)
    assert (image.norm.vmin, image.norm.vmax) == (-30, 30)
    texts = said(drawn)
    assert {"un", "##able", "the", "cat", "##s", "A", "B", "10.00", "-30.00"} <= set(texts)
    assert any("sum of all cells 0.070000" in text for text in texts)
    check_nothing_overlaps(drawn)


def test_cosines_of_texts():
    drawn = cosines_figure(Cosines(FOUND.model, ["a cat", "a dog"], np.array([[1, -0.25], [-0.25, 1]])))
    [image] = maps(drawn)
    np.testing.assert_allclose(image.get_array(), [[1, -0.25], [-0.25, 1]])
    assert {"0 a cat", "1 a dog", "-0.25"} <= set(said(drawn))
    check_nothing_overlaps(drawn)
