"""attncli heatmap: from a text or a saved record to a picture in a file."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from matplotlib.image import imread

from attncli.features.heatmap import heatmap
from attncli.report.figure.maps import COLOURS

TEXT = "The cat sat on the mat."


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


FORMATS = (
    ("out.png", b"\x89PNG"),
    ("out.svg", b"<?xml"),
    ("out.pdf", b"%PDF"),
)


def svg_texts(path):
    """Every text of an SVG."""
    return [element.text for element in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.slow
def test_the_path_is_the_output_and_the_file_is_there(attncli, folder):
    for name, magic in FORMATS:
        result = attncli("heatmap", "--head", "3", "-o", name, TEXT)
        assert (result.code, result.out, result.err) == (0, f"{name}\n", "")
        assert (folder / name).read_bytes().startswith(magic)
    assert attncli("heatmap", TEXT).out == "attention.png\n"
    assert {path.name for path in folder.iterdir()} == {*dict(FORMATS), "attention.png"}


def test_one_head_says_what_it_is_and_shows_its_weights(attncli, minilm):
    attncli("heatmap", "-l", "2", "--head", "3", "--mask", "causal", "-o", "out.svg", TEXT)
    texts = svg_texts("out.svg")
    assert "minilm · layer 2 · head 3 · mask causal" in texts
    weights = minilm.attend(TEXT, layers=2, heads=3, mask="causal").weights
    numbers = [text for text in texts if text[:2] in ("0.", "1.") and len(text) == 4]
    assert {f"{weight:.2f}" for weight in weights.flat if weight >= 0.005} <= set(numbers)
    for token in ("[CLS]", "cat", "mat", "[SEP]"):
        assert texts.count(token) == 2


def test_without_a_selection_all_heads_of_the_last_layer(attncli):
    attncli("heatmap", "-o", "out.svg", TEXT)
    texts = svg_texts("out.svg")
    assert "minilm · layer 5 · heads 0-11 · mask padding" in texts
    assert {f"head 5.{head}" for head in range(12)} < set(texts)


def test_mean_without_special_tokens_of_a_pair(attncli):
    result = attncli(
        "heatmap", "--mean", "--no-special", "--pair", "It purred.", "--pad-to", "16", "-o", "out.svg", TEXT
    )
    texts = svg_texts("out.svg")
    note = "without [CLS], [SEP], [PAD]: rows no longer sum to 1"
    assert note in texts and note in result.err
    assert "minilm · layer 5 · mean of heads 0-11 · mask padding" in texts
    assert "purred" in " ".join(texts).replace(" ##", "") and "[SEP]" not in texts


def test_the_head_view_of_some_heads_with_a_query(attncli, minilm):
    result = attncli("heatmap", "--style", "lines", "-l", "2", "-H", "3,5", "--query", "cat", "-o", "out.svg", TEXT)
    assert (result.code, result.out, result.err) == (0, "out.svg\n", "")
    texts = svg_texts("out.svg")
    assert {"2.3", "2.5", "query", "key"} < set(texts)
    weights = minilm.attend(TEXT, layers=2, heads=[3, 5]).weights[0, :, 2]
    assert {f"{weight:.2f}" for weight in weights.flat if weight >= 0.005} <= set(texts)


@pytest.mark.parametrize("style", ["matrix", "lines"])
def test_words_segments_and_width(attncli, folder, style):
    options = ["--style", style, "-H", "3", "--words", "--segments", "ab", "--no-special", "--width", "8cm"]
    result = attncli("heatmap", *options, "-o", "out.svg", "--pair", "It purred.", TEXT)
    assert "from the first text to the second text: rows no longer sum to 1" in result.err
    texts = svg_texts("out.svg")
    assert texts.count("purred") == texts.count("cat") == 1
    assert 'width="226.77' in (folder / "out.svg").read_text(encoding="utf-8")


@pytest.mark.slow
def test_scale_colours_and_dots(attncli, folder):
    sizes = []
    for dpi in ("40", "80"):
        attncli("heatmap", "-H", "3", "--vmax", "1", "--cmap", "gray", "--dpi", dpi, "-o", "out.png", TEXT)
        picture = imread(folder / "out.png")[..., :3]
        assert np.ptp(picture, axis=-1).max() < 0.01  # grey, the words too
        sizes.append(picture.shape[0])
    assert sizes[1] == pytest.approx(2 * sizes[0], abs=2)


def test_the_default_that_help_shows_is_that_of_the_library():
    """It is written down again in the command's signature, which must not import matplotlib."""
    assert heatmap.measure.parameters["cmap"].option.show_default == COLOURS
