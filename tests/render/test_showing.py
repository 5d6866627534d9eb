"""A record shows itself: as a page, as a picture, and in a notebook's frame."""

import html
import re
import subprocess
import sys

import numpy as np
import pytest
from pictures import maps, random_record, said

from attncli import RequestError
from attncli.render.page import Start, page


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
    assert image.norm.vmax == 0.5 and "A" in said(drawn)
    assert (tmp_path / "a.png").stat().st_size
    with pytest.raises(RequestError, match="head 9 is "):
        record.figure(heads=9)


def test_an_option_that_there_is_not_is_a_mistake_of_the_program(record):
    for show in (record.page, record.figure):
        with pytest.raises(TypeError, match="colour"):
            show(colour=3)


def test_a_notebook_shows_the_page_in_a_frame(record):
    frame = re.search(r'srcdoc="([^"]*)"', record._repr_html_())[1]
    assert html.unescape(frame) == page(record)


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
