"""The page of maps side by side: it holds what was compared or measured, in the pictures' colours around 0."""

import re

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from packed import page_data, unpack_layer, unpacked
from records import ablation_page, an_ablation, cut_edges, edges_page, page_of_two, record_of

from attncli.analysis.difference import difference
from attncli.page.packing import error_of
from attncli.record.display import CHANGES_LIGHT
from attncli.record.display import SIGNED as CHANGES


@pytest.fixture
def found(random_maps):
    first, second = record_of(random_maps(2, 3, 7)), record_of(random_maps(2, 3, 7)[..., ::-1])
    return difference(first, second)


def test_the_page_holds_both_and_how_much_each_head_differs(found):
    document = page_of_two(found)
    held = page_data(document)
    assert held["moved"] == pytest.approx(found.moved, abs=5e-7)
    assert (held["start"]["layer"], held["start"]["head"]) == found.heads()[0]
    for text, record in zip(held["texts"], (found.first, found.second), strict=True):
        mask = text["masks"][0]
        assert text["tokens"] == record.tokens.shown and "vectors" not in mask
        for name, weights in zip(mask["maps"], record.weights, strict=True):
            packed, levels = re.search(f'id="{name}">(.*?)</script>', document)[1], mask["levels"]
            np.testing.assert_allclose(unpack_layer(packed, weights.shape, levels), weights, atol=error_of(levels))
            assert f"Weights of A and B are stored to within {error_of(levels):.8f}." in held["about"]
    assert page_of_two(found) == document


def floats(document, chunk):
    """A map in a page."""
    packed = re.search(f'id="{chunk}">(.*?)</script>', document)[1]
    return np.frombuffer(unpacked(packed), "<f4")


def test_the_page_of_an_ablation_holds_every_effect():
    ablation = an_ablation()
    document = ablation_page(ablation)
    held = page_data(document)
    assert [panel["name"] for panel in held["panels"]] == ["zero", "mean"]
    for panel, effects in zip(held["panels"], ablation.mean, strict=True):
        np.testing.assert_array_equal(floats(document, panel["chunk"]), effects.ravel().astype("<f4"))
    [text] = held["texts"]
    assert (text["tokens"], text["keys"]["tokens"]) == (["layer 1", "layer 4"], ["head 0", "head 2", "head 5"])
    assert (
        held["heading"] == "made-up · cosine with <b> 0.5 · mask padding" and "below 0, the head made" in held["says"]
    )


def test_the_page_of_cut_edges_holds_effects_and_weights():
    edges = cut_edges()
    document = edges_page(edges)
    held = page_data(document)
    effects, weights = (floats(document, panel["chunk"]) for panel in held["panels"])
    np.testing.assert_array_equal(effects, edges.effects.ravel().astype("<f4"))
    np.testing.assert_array_equal(weights, [0.25, 0.25, 0.25, np.nan, *[0.25] * 4])
    [text] = held["texts"]
    assert text["tokens"] == ["1 cat", "2 ##s"] and text["keys"]["tokens"] == ["0 [CLS]", "1 cat", "2 ##s", "3 [SEP]"]
    assert text["keys"]["special"] == [True, False, False, True]


def test_colours_around_0_are_those_of_the_pictures():
    assert [to_rgb(colour) for colour in CHANGES_LIGHT] == [
        pytest.approx(matplotlib.colormaps[CHANGES](share)[:3], abs=0.02) for share in np.linspace(0, 1, 11)
    ]
