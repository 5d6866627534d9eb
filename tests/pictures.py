"""Pictures taken apart: what is written in them, where, and which maps; and records to draw."""

import warnings
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.image import AxesImage
from matplotlib.text import Text
from records import record_of

from attncli.report.figure.drawing import save_figure
from attncli.text.tokens import Tokens


def random_record(layers, heads, length, seed=0):
    weights = np.random.default_rng(seed).random((layers, heads, length, length)) ** 6
    return record_of(weights / weights.sum(axis=-1, keepdims=True))


def with_tokens(record, texts):
    length = len(texts)
    weights = record.weights[..., :length, :length]
    tokens = Tokens(
        list(texts), [0] * length, [0] * length, [None] * length, [(0, 0)] * length, [False] * length, [False] * length
    )
    return replace(record, tokens=tokens, weights=weights, masks=record.masks[:, :length, :length])


def texts_with_places(drawn):
    """Everything written in a picture, with the place it takes, in pixels."""
    renderer = FigureCanvasAgg(drawn).get_renderer()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        drawn.draw(renderer)
    beyond = []  # ticks that are not drawn
    for axis in (axis for axes in drawn.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        beyond += [tick for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high]
    hidden = {text for tick in beyond for text in tick.findobj(Text)}
    texts = [text for text in drawn.findobj(Text) if text.get_visible() and text.get_text().strip()]
    texts = [text for text in texts if text not in hidden]
    return [(text.get_text(), text.get_window_extent(renderer)) for text in texts]


def picture_texts(drawn):
    """Everything written in a picture."""
    return [text for text, _ in texts_with_places(drawn)]


def maps(drawn):
    """The maps of a picture; the colour bar is none."""
    return [image for image in drawn.axes[0].get_children() if isinstance(image, AxesImage)]


def frames(drawn):
    """Those around the rows of queries that are held."""
    return [patch for patch in drawn.axes[0].patches if not patch.get_fill()]


def saved_svg(drawn, tmp_path):
    save_figure(drawn, tmp_path / "map.svg")
    return ElementTree.parse(tmp_path / "map.svg").getroot()


def check_nothing_overlaps(drawn):
    """No word lies on another, and none leaves the picture."""
    places = texts_with_places(drawn)
    width, height = drawn.get_size_inches() * drawn.dpi
    boxes = np.array([box.extents for _, box in places])
    assert (boxes[:, :2] >= -1).all() and (boxes[:, 2:] <= (width + 1, height + 1)).all(), "words leave the picture"
    # One pixel less on each side: lines of text may touch.
    low, high = boxes[:, :2] + 1, boxes[:, 2:] - 1
    apart = ((low[:, None] >= high[None]) | (low[None] >= high[:, None])).any(axis=-1)
    clash = np.argwhere(~apart & ~np.eye(len(boxes), dtype=bool))
    assert not len(clash), [(places[a][0], places[b][0]) for a, b in clash[:5]]
