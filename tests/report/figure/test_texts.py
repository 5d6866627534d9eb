"""Texts from outside in pictures: they are text, and nothing else."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import check_nothing_overlaps, random_record, saved_svg, with_tokens

from attncli import Notice

pytestmark = pytest.mark.filterwarnings("ignore::attncli.Notice")  # there may be no Chinese font here


@pytest.mark.slow
@settings(max_examples=25)
@given(st.lists(st.text(st.characters(codec=None), max_size=8), min_size=1, max_size=6), st.text(max_size=20))
def test_any_token_and_title_make_a_well_formed_svg(tmp_path_factory, texts, title):
    record = with_tokens(random_record(1, 1, 6), texts)
    root = saved_svg(record.figure(title=title), tmp_path_factory.mktemp("svg"))
    assert root.tag.endswith("svg")


def test_no_token_is_mathematics(tmp_path):
    texts = ["$x$", r"$\frac{", "$", "a_b^c", "<b>&amp;", r"\$"]
    root = saved_svg(with_tokens(random_record(1, 1, 6), texts).figure(), tmp_path)
    written = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert all(written.count(text) == 2 for text in texts)


def test_control_characters_are_written_as_escapes(tmp_path):
    texts = ["\x1b[31m", "a\nb", "\u202eabc", "\t", "\x00"]
    root = saved_svg(with_tokens(random_record(1, 1, 6), texts).figure(), tmp_path)
    written = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {r"\x1b[31m", r"a\nb", r"\u202eabc", r"\t", r"\x00"} < written


@pytest.mark.slow
def test_a_character_without_a_font_is_noticed_once(monkeypatch):
    monkeypatch.setattr("attncli.report.figure.fonts.installed", dict)
    record = with_tokens(random_record(1, 3, 6), ["奖", "杯", "不", "a", "奖", "b"])
    with pytest.warns(Notice) as noticed:
        check_nothing_overlaps(record.figure())
    [notice] = [warning for warning in noticed if warning.category is Notice]
    assert all(character in str(notice.message) for character in "奖杯不")
