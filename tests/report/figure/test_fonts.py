"""Fonts: what one lacks is found in another, and what none has is said."""

import unicodedata
import warnings
from pathlib import Path

import matplotlib
import pytest
from matplotlib.font_manager import fontManager
from matplotlib.ft2font import FT2Font

from attncli import Notice, RequestError
from attncli.report.figure import fonts

BUNDLED = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
FILES = {name: path for name, path in fonts.installed().items() if Path(path).parent == BUNDLED}
# Private characters are whatever a font makes of them.
COVERS = {
    name: {chr(code) for code in FT2Font(path).get_charmap() if unicodedata.category(chr(code)) != "Co"}
    for name, path in {**FILES, fonts.DEFAULT: fonts.default_file()}.items()
}


@pytest.fixture
def bundled_only(monkeypatch):
    """Only the fonts that come with matplotlib, which are the same on every machine."""
    monkeypatch.setattr(fonts, "installed", lambda: FILES)


@pytest.fixture(autouse=True)
def no_notice():
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        yield


def test_latin_needs_no_other_font():
    assert fonts.families(["the cat ##s [CLS]", "é", ""]) == [fonts.DEFAULT]


def test_what_the_default_lacks_comes_from_a_font_that_has_it(bundled_only):
    lacking = set().union(*COVERS.values()) - COVERS[fonts.DEFAULT]
    lacking = sorted(character for character in lacking if fonts.has_shape(character))
    assert lacking  # matplotlib's mathematical fonts have some
    for character in lacking[:: len(lacking) // 20 + 1]:
        default, other = fonts.families(["abc", character])
        assert default == fonts.DEFAULT and character in COVERS[other]


def test_a_font_that_is_asked_for_comes_first_and_others_help_it(bundled_only):
    assert fonts.families(["abc"], "STIXGeneral") == ["STIXGeneral", fonts.DEFAULT]
    assert fonts.families(["abc"], fonts.DEFAULT) == [fonts.DEFAULT]
    only_there = sorted(filter(fonts.has_shape, COVERS["STIXSizeOneSym"] - COVERS[fonts.DEFAULT]))[0]
    assert fonts.families(["abc", only_there], "STIXSizeOneSym") == ["STIXSizeOneSym", fonts.DEFAULT]


def test_a_font_is_named_in_any_case_and_one_that_is_not_there_names_its_neighbours(bundled_only):
    assert fonts.installed_family("stixgeneral") == "STIXGeneral"
    with pytest.raises(RequestError, match="STIXGeneral"):
        fonts.installed_family("STIXGenerals")


def test_what_no_font_has_is_named_once(bundled_only):
    nowhere = [chr(code) for code in range(0x10F000, 0x10F009)]
    with pytest.warns(Notice) as noticed:
        assert fonts.families(["a", *nowhere]) == [fonts.DEFAULT]
    [notice] = noticed
    assert all(character in str(notice.message) for character in nowhere[: fonts.NAMED])
    assert f"and {len(nowhere) - fonts.NAMED} more" in str(notice.message)


def test_a_font_installed_after_matplotlib_made_its_list_is_found(monkeypatch):
    new = BUNDLED / "STIXGeneral.ttf"
    known = [font for font in fontManager.ttflist if font.name == fonts.DEFAULT]
    monkeypatch.setattr(fontManager, "ttflist", known)
    monkeypatch.setattr("matplotlib.font_manager.findSystemFonts", lambda: [str(new)])
    assert Path(fonts.installed()["STIXGeneral"]) == new


def test_a_damaged_font_is_passed_over(monkeypatch, tmp_path):
    damaged = tmp_path / "damaged.ttf"
    damaged.write_bytes(b"no font")
    monkeypatch.setattr("matplotlib.font_manager.findSystemFonts", lambda: [str(damaged)])
    assert str(damaged) not in fonts.installed().values()
    assert fonts.glyphs(str(damaged), "abc") == set()
    assert fonts.glyphs(str(tmp_path / "gone.ttf"), "abc") == set()
