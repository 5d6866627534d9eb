"""Pictures as files: suffixes, the same bytes for the same picture, and text from outside that stays text."""

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread
from pictures import picture_texts, random_record, saved_svg, with_tokens

from attncli import RequestError
from attncli.report.figure.drawing import save_figure

pytestmark = pytest.mark.filterwarnings("ignore::attncli.Notice")  # there may be no Chinese font here


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


# --- texts from outside ----------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=25)
@given(st.lists(st.text(st.characters(codec=None), max_size=8), min_size=1, max_size=6), st.text(max_size=20))
def test_any_token_and_title_make_a_well_formed_svg(tmp_path_factory, texts, title):
    record = with_tokens(random_record(1, 1, 6), texts)
    root = saved_svg(record.figure(title=title), tmp_path_factory.mktemp("svg"))
    assert root.tag.endswith("svg")


PLAIN = ["$x$", r"$\frac{", "$", "a_b^c", "<b>&amp;", r"\$"]
ESCAPED = {"\x1b[31m": r"\x1b[31m", "a\nb": r"a\nb", "\u202eabc": r"\u202eabc", "\t": r"\t", "\x00": r"\x00"}


def test_no_token_is_mathematics_and_control_characters_are_escaped(tmp_path):
    root = saved_svg(with_tokens(random_record(1, 1, 11), [*PLAIN, *ESCAPED]).figure(), tmp_path)
    written = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert all(written.count(text) == 2 for text in [*PLAIN, *ESCAPED.values()])
