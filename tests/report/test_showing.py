"""A record shows itself: as a page, as a picture, and in a notebook's frame."""

import html
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pictures import maps, picture_texts, random_record
from records import record_of

from attncli import RequestError
from attncli.analysis.edges import by_content
from attncli.page import Start, page


@pytest.fixture
def record():
    return random_record(2, 2, 7)


def test_a_record_makes_and_saves_its_page(record, tmp_path):
    document = record.page(tmp_path / "a.html", layers=[1], heads=[0], view="matrix", title="A")
    assert document == page(record.select([1], [0]), Start(view="matrix"), "A")
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == document
    assert record.page() == page(record)
    with pytest.raises(RequestError, match="layer 7 is "):
        record.page(layers=[7])


def test_a_record_makes_and_saves_its_picture(record, tmp_path):
    drawn = record.figure(tmp_path / "a.png", layers=1, heads=1, special=False, vmax=0.5, title="A", dpi=40)
    [image] = maps(drawn)
    np.testing.assert_array_equal(image.get_array(), record.map(1, 1)[1:-1, 1:-1])
    assert image.norm.vmax == 0.5 and "A" in picture_texts(drawn)
    assert (tmp_path / "a.png").stat().st_size
    with pytest.raises(RequestError, match="head 9 is "):
        record.figure(heads=9)


def in_a_notebook(record):
    """Return the size, in bytes, of a record that ends a cell of an .ipynb."""
    shown = {"text/html": record._repr_html_().splitlines(keepends=True), "text/plain": [repr(record)]}
    return len(json.dumps(shown, ensure_ascii=False, indent=1).encode())


def test_a_short_text_takes_little_of_a_notebook(minilm):
    record = minilm.attend("The trophy does not fit in the suitcase because it is too big.")
    assert len(record.tokens) == 16 and record.weights.shape[:2] == (6, 12)
    assert in_a_notebook(record) <= 320_000
    assert html.unescape(re.search(r'srcdoc="([^"]*)"', record._repr_html_())[1]) == record.page()


@pytest.mark.slow
def test_a_long_text_takes_little_of_a_notebook_and_says_what_is_left_out(minilm):
    text = (Path(__file__).parents[2] / "sample_inputs" / "paragraph.txt").read_text(encoding="utf-8")
    record = minilm.attend(text.replace("\n", " ") * 9)
    assert len(record.tokens) == 512
    assert in_a_notebook(record) <= 1_500_000
    sentence = html.unescape(re.match("<p>(.*?)</p>", record._repr_html_())[1])
    count, named = re.match(r"(\d+) of 72 heads are here in full: ([\d., ]+)\. Their", sentence).groups()
    assert len(named.split(", ")) == int(count) > 0
    assert named.split(", ") == [f"{layer}.{head}" for layer, head in by_content(record)[: int(count)]]
    assert 'record.page("all.html")' in sentence


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(24, 16, 512, 512), (2, 1, 2048, 2048)])
def test_large_models_and_long_texts_take_no_more(shape):
    """Use random weights, which are the hardest to pack."""
    weights = np.random.default_rng(0).random(shape, dtype=np.float32) ** 8
    weights /= weights.sum(axis=-1, keepdims=True)
    assert in_a_notebook(record_of(weights)) <= 1_500_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("show", "without"),
    [
        ('figure("map.png")', ("matplotlib.pyplot", "torch", "rich")),
        ('page("map.html")', ("matplotlib", "torch", "rich")),
    ],
)
def test_only_what_draws_is_imported(tmp_path, show, without):
    random_record(1, 2, 5).save(tmp_path / "maps.npz")
    program = f"""
import sys
import attncli
attncli.load_record("maps.npz").{show}
assert not {set(without)} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    assert len(list(tmp_path.iterdir())) == 2
