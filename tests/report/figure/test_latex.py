"""Pictures for LaTeX (deprecated): cells, words, and what TeX reads."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from pictures import maps, picture_texts, random_record, with_tokens

from attncli import RequestError
from attncli.report.figure import latex
from attncli.report.figure.drawing import save_figure
from attncli.report.figure.latex import tex

STRANGE = [
    "[CLS]", "50%", "$x$", "a_b", "#1", "{", "}", "\\", "&", "~", "^^5c", "\\input{none}", "--",
    "\u05e9\u05dc", "##\u05dd", "\u4e2d", "na\u00efve", "<", '"a', "[SEP]",
]  # fmt: skip
pytestmark = pytest.mark.filterwarnings("ignore::attncli.Notice")  # there may be no Chinese font here


@pytest.mark.parametrize("suffix", [".pgf", ".tex"])
def test_no_latex_is_asked_for_and_the_same_picture_is_the_same_bytes(tmp_path, monkeypatch, suffix):
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    drawn = random_record(1, 2, 5).figure()
    for name in ("first", "second"):
        save_figure(drawn, tmp_path / f"{name}{suffix}")
    assert (tmp_path / f"first{suffix}").read_bytes() == (tmp_path / f"second{suffix}").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("program", ["pdflatex", "xelatex", "lualatex"])
@pytest.mark.parametrize("style", ["matrix", "lines"])
def test_latex_reads_it_whatever_the_tokens_say(tmp_path, program, style):
    """A page of the picture's size, no error, and no file read that a token names."""
    if shutil.which(program) is None:
        pytest.skip(f"no {program}")
    record = with_tokens(random_record(1, 2, len(STRANGE)), STRANGE)
    drawn = record.figure(style=style, width="17cm", title=r"\undefined 100% {")
    save_figure(drawn, tmp_path / "drawn.tex")
    command = [program, "-interaction=nonstopmode", "-halt-on-error", "drawn.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=300, check=False)
    log = (tmp_path / "drawn.log").read_text(encoding="utf-8", errors="replace")
    assert done.returncode == 0, log[-2000:]
    assert "(1 page" in log.replace("\n", "") and "none.tex" not in log
    assert not re.search(r"^!|Missing character", log, re.MULTILINE)


def saved(drawn, path):
    save_figure(drawn, path)
    return path.read_text(encoding="utf-8").splitlines()


def numbers(line):
    return [float(part) for part in re.findall(r"-?[\d.]*\d", line)]


def boxes(lines):
    """(colour, x, y, width, height) of the rectangles that are filled."""
    colour, found = None, []
    for line in lines:
        if line.startswith(r"\acfill") and "opacity" not in line:
            colour = tuple(numbers(line))
        elif line.startswith(r"\acbox") and "use as" not in line:
            found.append((colour, *numbers(line)))
    return found


def test_every_cell_has_its_colour(tmp_path):
    """Read back from the file at the middle of each cell, in every map of a grid."""
    drawn = random_record(2, 2, 5, seed=3).figure()
    found = boxes(saved(drawn, tmp_path / "map.pgf"))
    height = drawn.get_size_inches()[1]
    for image in maps(drawn):
        left, right, bottom, top = image.get_extent()
        colours = image.cmap(image.norm(image.get_array()))
        for (query, key), _ in np.ndenumerate(image.get_array()):
            x = 72 * (left + (key + 0.5) * (right - left) / 5)
            y = 72 * (height - top - (query + 0.5) * (bottom - top) / 5)
            inside = [one for one in found if one[1] < x < one[1] + one[3] and one[2] < y < one[2] + one[4]]
            assert len(inside) == 1
            np.testing.assert_allclose(inside[0][0], colours[query, key][:3], atol=0.005)


def test_all_words_are_there_in_the_size_that_was_planned(tmp_path):
    drawn = random_record(1, 2, 6).figure(title="100% of _x_", width="8cm")
    lines = [line for line in saved(drawn, tmp_path / "map.pgf") if line.startswith(r"\actext")]
    parts = [re.fullmatch(r"\\actext(\S+) (\S+) (\S+) (\S+) \{[a-z,]*\}\{(.*)\}%", line) for line in lines]
    assert sorted(part[5] for part in parts) == sorted(
        tex(line) for text in picture_texts(drawn) for line in text.split("\n")
    )
    assert min(float(part[4]) for part in parts) >= 6
    assert {part[3] for part in parts} == {"0", "90"}


def test_what_is_more_than_tex_can_keep_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(latex, "MOST", 100)
    with pytest.raises(RequestError, match=r"lines of PGF.*\.pdf"):
        save_figure(random_record(1, 1, 12).figure(), tmp_path / "map.pgf")
    assert not list(tmp_path.iterdir())


# All that may be there: what stands for a character, and the two commands that turn.
@pytest.mark.parametrize(
    "text, expected",
    [
        ("50% of $x_1", r"50\% of \$x\_1"),
        (r"\par", r"\textbackslash{}par"),
        ("--", r"\string-{}\string-{}"),  # no dash
        ('"a', r'\string"{}a'),  # no letter of babel's German
        ("−0.5", r"\ensuremath{-}0\string.{}5"),
        ("##ל", r"\attnclirtl{\#\#\attncliglyph{05DC}{ל}}"),
        ("ab ל", r"ab \attnclirtl{\attncliglyph{05DC}{ל}}"),
        ("ל 12", r"\attnclirtl{\attncliglyph{05DC}{ל} \attncliltr{12}}"),
    ],
)
def test_what_stands_for_what(text, expected):
    assert tex(text) == expected
