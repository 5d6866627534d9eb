"""Files for LaTeX: made without one, and where one is installed, read by it."""

import re
import shutil
import subprocess

import pytest
from pictures import random_record, with_tokens

from attncli.report.figure.drawing import save_figure

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
def test_the_document_has_the_picture_and_its_size(tmp_path):
    drawn = random_record(1, 1, 5).figure(width="8cm")
    for suffix in (".pgf", ".tex"):
        save_figure(drawn, tmp_path / f"map{suffix}")
    document = (tmp_path / "map.tex").read_text(encoding="utf-8")
    picture = (tmp_path / "map.pgf").read_text(encoding="utf-8")
    assert picture[picture.index("\\begingroup") :].strip() in document
    [width] = re.findall(r"paperwidth=([\d.]+)bp", document)
    assert float(width) == pytest.approx(8 / 2.54 * 72, abs=0.01)


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
