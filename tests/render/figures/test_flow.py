"""The picture of `attncli flow`: a row a layer, a column a method."""

import numpy as np
import pytest
from matplotlib.image import AxesImage
from matplotlib.text import Text
from records import record_of

from attncli.analysis.following import Followed
from attncli.analysis.rollout import mean_maps, residual_steps, rollout
from attncli.render.figures.flow import flow_figure

RECORD = record_of(np.random.default_rng(3).dirichlet(np.ones(6), (3, 2, 6)))
WORDS = RECORD.tokens.text


def followed(layers, shares) -> Followed:
    return Followed(RECORD, layers, list(range(len(RECORD.tokens))), shares)


def drawn_of(layers, **options):
    shares = {"raw": mean_maps(RECORD)[layers], "rollout": rollout(residual_steps(RECORD))[layers]}
    drawn = flow_figure(followed(layers, shares), **options)
    said = [text.get_text() for text in drawn.findobj(Text)]
    return shares, [one for one in drawn.axes[0].get_children() if isinstance(one, AxesImage)], said


def test_maps_are_the_shares_row_by_row_each_with_its_own_scale():
    shares, images, said = drawn_of([0, 2])
    wanted = [shares[name][row] for row in range(2) for name in ("raw", "rollout")]
    captions = []
    for image, one, name in zip(images, wanted, ("raw", "rollout") * 2, strict=True):
        np.testing.assert_allclose(image.get_array(), one, rtol=1e-6)
        assert image.norm.vmax == pytest.approx(one.max())
        captions.append(f"{name}, up to {one.max():.2f}")
    assert {*captions, "layer 0", "layer 2", "share / the map's largest"} <= set(said)


def test_the_words_above_say_what_it_is():
    _, _, said = drawn_of([1], words=True)
    assert "made-up · layer 1 · mean of heads 0-1 · mask padding · words" in {
        text.replace("\xa0", " ") for text in said
    }
    assert any(text.startswith("raw: what attention takes") for text in said)
    assert "layer 1" not in said  # one row needs no name of its own


def test_the_row_that_is_held_stands_out():
    drawn = flow_figure(followed([1], {"raw": mean_maps(RECORD)[[1]]}), held=2)
    queries = [text for text in drawn.findobj(Text) if text.get_ha() == "right" and text.get_text() in WORDS]
    colours = [text.get_color() for text in queries]
    assert len(set(colours)) == 2
    assert [place for place, colour in enumerate(colours) if colour != colours[0]] == [2]
