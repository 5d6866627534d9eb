"""Check what a page saves in a real browser: the whole drawing, as SVG with text, or PNG at twice the size."""

import io
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from records import record_of

from attncli.record import Vectors

pytestmark = pytest.mark.slow

SVG = "{http://www.w3.org/2000/svg}"
MARGIN = 8
VIEWS = ["heads", "model", "matrix", "neuron"]


@pytest.fixture
def record(random_maps):
    made = record_of(random_maps(3, 2, 8))
    return replace(made, vectors=Vectors([(0, 0), (2, 1)], *np.random.default_rng(0).normal(size=(2, 2, 8, 4))))


def box(root):
    """The part of the drawing that a saved SVG shows: left, top, right, bottom."""
    x, y, width, height = map(int, root.get("viewBox").split())
    return x, y, x + width, y + height


@pytest.mark.parametrize("view", VIEWS)
def test_svg_is_what_is_drawn_as_vectors(opened, record, view):
    page = opened(record, f"#view={view}&layer=2&head=1")
    name, data = page.saved("svg")
    assert name == f"attention-{view}-layer2-head1.svg"
    root = ElementTree.fromstring(data)
    left, top, right, bottom = box(root)
    assert root.tag == f"{SVG}svg"
    assert (root.get("width"), root.get("height")) == (str(right - left), str(bottom - top))
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        "svg", "rect", "line", "text", "clipPath", "g", *(["image"] if view == "model" else [])
    }  # fmt: skip
    texts = [element.text for element in root.iter(f"{SVG}text")]
    if view in ("heads", "matrix"):
        assert [text for text in texts if text in record.tokens.text] == record.tokens.text * 2
    assert any(text.startswith("made-up · ") for text in texts)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_saved_svg_looks_like_the_page(opened, record, scheme):
    page = opened(record, "#view=matrix", scheme=scheme)
    screen = page.pixels()
    _, data = page.saved("svg")
    left, top, right, bottom = box(ElementTree.fromstring(data))
    tab = page.tab.context.new_page()
    tab.set_content(f"<body style='margin:0'>{data.decode()}</body>")
    tab.set_viewport_size({"width": right - left, "height": bottom - top})
    drawn = np.asarray(Image.open(io.BytesIO(tab.screenshot())).convert("RGB"), dtype=int)
    both = max(left, 0), max(top, 0), min(right, screen.shape[1]), min(bottom, screen.shape[0])
    seen, saved = cropped(screen, *both), cropped(drawn, *(side - (left, top)[n % 2] for n, side in enumerate(both)))
    assert (np.abs(saved - seen).max(axis=-1) > 60).mean() < 0.03  # edges of letters


def cropped(pixels, left, top, right, bottom):
    return pixels[top:bottom, left:right]


@pytest.mark.parametrize("view", VIEWS)
def test_png_has_twice_the_pixels_of_the_screen_and_nothing_around_the_drawing(opened, record, view):
    page = opened(record, f"#view={view}")
    screen = page.pixels()
    left, top, right, bottom = box(page.svg(whole=True))
    name, data = page.saved("png")
    assert name == f"attention-{view}-layer0-head0.png"
    saved = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), dtype=int)
    assert saved.shape == (2 * (bottom - top), 2 * (right - left), 3)
    small = saved.reshape(bottom - top, 2, right - left, 2, 3).mean(axis=(1, 3))
    both = max(left, 0), max(top, 0), min(right, screen.shape[1]), min(bottom, screen.shape[0])
    seen, same = cropped(screen, *both), cropped(small, *(side - (left, top)[n % 2] for n, side in enumerate(both)))
    assert (np.abs(same - seen).max(axis=-1) > 90).mean() < 0.02
    inked = np.argwhere((saved != saved[0, 0]).any(axis=-1))
    around = [*inked.min(axis=0), *(np.array(saved.shape[:2]) - 1 - inked.max(axis=0))]
    assert all(8 <= pixels <= 2 * MARGIN + 8 for pixels in around), (
        around
    )  # of 16; letters are smaller than their boxes


def test_all_of_a_long_text_is_saved(opened, random_maps):
    page = opened(record_of(random_maps(1, 1, 100)), "#view=heads")
    page.scroll(top=700)
    page.point(*page.place("é", 0))  # which is not in the picture
    seen = page.pixels().shape[0]
    assert {line["query"] for line in page.marks("line", whole=True)} == set(range(100))
    _, top, _, bottom = box(page.svg(whole=True))
    assert bottom - top > 2 * seen
    high = Image.open(io.BytesIO(page.saved("png")[1])).height
    assert high == 2 * (bottom - top)


def test_all_of_a_map_that_is_zoomed_is_saved_and_with_shift_what_is_seen(opened, random_maps):
    page = opened(record_of(random_maps(1, 1, 40)), "#view=matrix&cell=60&corner=5,5")
    assert len(page.marks("rect", whole=True)) == 40 * 40
    seen = {(int(cell["query"]), int(cell["key"])) for cell in page.marks("rect")}
    with page.tab.expect_download() as download:
        page.click("#save-svg", modifiers=["Shift"])
    root = ElementTree.fromstring(download.value.path().read_bytes())
    left, top, right, bottom = box(root)
    high, wide = page.pixels().shape[:2]
    assert left >= 300 - 8 and top >= 300 - 8 and right - left <= wide + 16 and bottom - top <= high + 16
    assert {(5, 5), (10, 10)} <= seen


def test_a_picture_is_no_larger_than_a_browser_can_draw(opened, random_maps, monkeypatch):
    page = opened(record_of(random_maps(1, 1, 300)), "#view=matrix&cell=70")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    picture = Image.open(io.BytesIO(page.saved("png")[1]))
    assert max(picture.size) <= 16_384 and picture.width * picture.height <= 100_000_000
    assert np.ptp(np.asarray(picture.convert("L"))) > 100
