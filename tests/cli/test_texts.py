"""Check which texts a command takes, and which commands read stdin for them."""

import os
import sys

import pytest
from slow import slow_except

from attncli.cli.app import main
from attncli.features.inputs import SAMPLE


class Silent:
    """A pipe that nobody has written to yet, nor closed: whoever reads it would wait for ever."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()

    def fileno(self) -> int:
        return self.reading

    @property
    def buffer(self):
        raise AssertionError("stdin was read")


UNASKED = [
    ("explain",),
    ("flow", "--method", "raw"),
    ("align",),
    ("heatmap", "--head", "3", "-o", "out.svg"),
    ("view", "-l", "0", "-o", "out.html"),
    ("mask",),
    ("diff", "--masks", "padding,causal"),
    ("compare", "--against", "torch", "-l", "0"),
]


@pytest.mark.parametrize("arguments", slow_except(UNASKED, UNASKED[:3]), ids=lambda arguments: arguments[0])
def test_only_run_and_corpora_look_at_stdin_unasked(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    silent = Silent()
    monkeypatch.setattr(sys, "stdin", silent)
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    os.close(silent.reading)
    os.close(silent.writing)
    assert not end.value.code
    assert "no text given, so this one" in capsys.readouterr().err


@pytest.mark.slow
def test_run_takes_what_is_piped_and_the_others_where_a_dash_says_so(process):
    piped = b"A text from a pipe."
    for command in (("run", "-l", "0", "-H", "0"), ("flow", "--method", "raw", "-f", "-")):
        result = process(*command, stdin=piped)
        assert result.code == 0 and SAMPLE not in result.err
        assert "pipe" in result.out
