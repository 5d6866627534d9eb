"""What a page saves in a real browser: SVG that is XML with text as text, and PNG of twice the pixels."""

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
VIEWS = ["heads", "model", "matrix", "neuron"]


@pytest.fixture
def record(random_maps):
    made = record_of(random_maps(3, 2, 8))
    return replace(made, vectors=Vectors([(0, 0), (2, 1)], *np.random.default_rng(0).normal(size=(2, 2, 8, 4))))


@pytest.mark.parametrize("view", VIEWS)
def test_svg_is_what_is_seen_as_vectors(opened, record, view):
    page = opened(record, f"#view={view}&layer=2&head=1")
    name, data = page.saved("svg")
    assert name == f"attention-{view}-layer2-head1.svg"
    root = ElementTree.fromstring(data)
    high, wide = page.pixels().shape[:2]
    assert root.tag == f"{SVG}svg" and root.get("viewBox") == f"0 0 {wide} {high}"
    assert (root.get("width"), root.get("height")) == (str(wide), str(high))
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
    tab = page.tab.context.new_page()
    tab.set_content(f"<body style='margin:0'>{data.decode()}</body>")
    high, wide = screen.shape[:2]
    tab.set_viewport_size({"width": wide, "height": high})
    drawn = np.asarray(Image.open(io.BytesIO(tab.screenshot())).convert("RGB"), dtype=int)
    different = np.abs(drawn - screen).max(axis=-1) > 60
    assert different.mean() < 0.015  # edges of letters


@pytest.mark.parametrize("view", VIEWS)
def test_png_has_twice_the_pixels_of_the_screen(opened, record, view):
    page = opened(record, f"#view={view}")
    screen = page.pixels()
    name, data = page.saved("png")
    assert name == f"attention-{view}-layer0-head0.png"
    saved = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), dtype=int)
    high, wide = screen.shape[:2]
    assert saved.shape == (2 * high, 2 * wide, 3)
    small = saved.reshape(high, 2, wide, 2, 3).mean(axis=(1, 3))
    assert (np.abs(small - screen).max(axis=-1) > 90).mean() < 0.01
    assert np.ptp(saved) > 200


def test_what_is_held_is_in_the_picture_and_what_is_pointed_at_is_not(opened, record):
    page = opened(record, "#token=3")
    page.point(*page.place("é", 0))
    assert {line["query"] for line in page.marks("line")} == {3}


def test_only_what_is_seen_of_a_long_text_is_saved(opened, random_maps):
    page = opened(record_of(random_maps(1, 1, 100)), "#view=heads")
    page.tab.evaluate("document.getElementById('chart').scrollTop = 700")
    page.settle()
    root = page.svg()
    assert root.get("viewBox").split()[1] == "700"
    assert all(690 < float(text.get("y")) < 1500 for text in root.iter(f"{SVG}text"))


def test_the_words_of_a_page_are_in_its_picture_with_what_was_left_out(opened, record):
    page = opened(record, "#special=no&words=yes&threshold=0.05&view=matrix")
    assert any(
        text.endswith("mask padding · without special tokens · words · weights from 0.05") for text in page.texts()
    )
