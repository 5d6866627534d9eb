"""Pages in a real browser: what is drawn there, said, asked for and saved."""

from urllib.parse import urlsplit

import matplotlib
import numpy as np
import pytest
from browsers import Opened

from attncli.page import Start, page, save_page
from attncli.report.figure.maps import COLOURS


@pytest.fixture(scope="session")
def tabs(running):
    """Return a function that gives a tab, with or without touch: the tests of a worker share tabs.

    A browser that has died takes its tabs with it: the next test gets a new one.
    """
    browsers, contexts = [], {}

    def take(touch):
        if browsers != [running()]:
            browsers[:] = [running()]
            contexts.clear()
        if touch not in contexts:
            contexts[touch] = running().new_context(offline=True, has_touch=touch), []
            contexts[touch][0].set_default_timeout(60_000)
        context, free = contexts[touch]
        return free, free.pop() if free else context.new_page()

    return take


@pytest.fixture
def opened(tabs, tmp_path):
    """`opened(records, "#layer=1", width=390, words=True)` -> the page of these records, `Opened`.

    In the end nothing may have gone wrong in any of them, and nothing been asked for but the file itself.
    """
    pages, frees = [], []

    def open_it(
        records, at="", *, width=1280, height=800, scheme="light", touch=False, document=None, title=None, **start
    ):
        file = tmp_path / f"page{len(pages)}.html"
        save_page(document or page(records, Start(**start), title), file)
        free, tab = tabs(touch)
        tab.set_viewport_size({"width": width, "height": height})
        tab.emulate_media(color_scheme=scheme)
        frees.append(free)
        pages.append(Opened(tab, file.as_uri()))
        pages[-1].open(at)
        return pages[-1]

    yield open_it
    for free, one in zip(frees, pages, strict=True):
        one.close()
        free.append(one.tab)
        assert one.errors == []
        assert {urlsplit(request.url)._replace(fragment="").geturl() for request in one.requests} == {one.address}


@pytest.fixture
def random_maps():
    """`random_maps(layers, heads, tokens)` -> weights whose rows sum to 1, some large and most small."""
    return lambda layers, heads, tokens: np.random.default_rng(layers + heads + tokens).dirichlet(
        np.full(tokens, 0.3), (layers, heads, tokens)
    )


@pytest.fixture
def as_shown():
    """`as_shown(weight)` -> how a page writes a weight of which it knows three decimals."""

    def write(weight):
        return "<.001" if weight < 0.0005 else f"{weight:.3f}"

    return write


@pytest.fixture
def violets():
    """`violets(shares)` -> the colours `[..., 3]` of weights in pictures: nothing is white on paper, dark on dark."""

    def colours(shares, dark=False):
        shares = np.asarray(shares, dtype=float)
        return 255 * np.array(matplotlib.colormaps[f"{COLOURS}_r" if dark else COLOURS](shares))[..., :3]

    return colours
