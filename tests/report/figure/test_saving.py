"""Pictures as files: what their suffix says, the same bytes for the same picture, and text that stays text."""

import matplotlib
import numpy as np
import pytest
from matplotlib.image import imread
from pictures import picture_texts, random_record, saved_svg

from attncli import RequestError
from attncli.report.figure.drawing import save_figure


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".PNG"])
def test_the_same_picture_is_the_same_bytes_and_has_no_date(tmp_path, suffix):
    first, second = tmp_path / f"first{suffix}", tmp_path / f"second{suffix}"
    for path in (first, second):
        save_figure(random_record(2, 2, 6).figure(), path)
    assert first.read_bytes() == second.read_bytes()
    assert b"CreationDate" not in first.read_bytes() and b"dc:date" not in first.read_bytes()


def test_dots_an_inch(tmp_path):
    drawn = random_record(1, 1, 6).figure()
    save_figure(drawn, tmp_path / "map.png", dpi=50)
    height, width, _ = imread(tmp_path / "map.png").shape
    np.testing.assert_allclose((width, height), drawn.get_size_inches() * 50, atol=1)


@pytest.mark.slow
def test_text_stays_text(tmp_path):
    drawn = random_record(1, 1, 6).figure()
    root = saved_svg(drawn, tmp_path)
    elements = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert sorted(elements) == sorted(picture_texts(drawn))
    save_figure(drawn, tmp_path / "map.pdf")
    content = (tmp_path / "map.pdf").read_bytes()
    assert b"/TrueType" in content or b"/CIDFontType2" in content
    assert b"/Type3" not in content


def test_too_many_dots_are_refused_with_a_number_that_fits(tmp_path):
    drawn = random_record(1, 1, 6).figure()
    with pytest.raises(RequestError, match=r"--dpi \d+ fits"):
        save_figure(drawn, tmp_path / "map.png", dpi=100_000)
    with pytest.raises(RequestError, match=r"\.png, \.svg, \.pdf"):
        save_figure(drawn, tmp_path / "map.jpg")
    assert not list(tmp_path.iterdir())


def test_the_users_settings_neither_matter_nor_change(tmp_path):
    def picture(name):
        save_figure(random_record(1, 2, 6).figure(), tmp_path / name)
        return (tmp_path / name).read_bytes()

    plain = picture("plain.svg")
    others = {"font.size": 33, "axes.facecolor": "black", "font.family": "serif", "svg.fonttype": "path"}
    with matplotlib.rc_context(others):
        assert picture("other.svg") == plain
        assert {name: matplotlib.rcParams[name] for name in others} == {**others, "font.family": ["serif"]}
