"""Check the progress: a bar on a terminal, lines elsewhere."""

import io
import sys

from attncli.base import progress
from attncli.cli import output


def test_a_command_that_takes_long_says_how_far_it_is(attncli, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS", 0)
    code, _, said = attncli("ablate", "The cat sat.", "-l", "5", "-H", "0-1")
    assert code == 0 and said.splitlines() == [f"attncli: changes: {done} of 4" for done in range(1, 5)]
    code, printed, said = attncli("ablate", "The cat sat.", "-l", "5", "-H", "0-1", "--json", "-q")
    assert code == 0 and printed.startswith("{") and said == ""


def test_after_a_bar_stdout_goes_on_in_the_first_column(monkeypatch):
    terminal = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(terminal, encoding="utf-8"))
    monkeypatch.setattr(output, "PATIENCE", 0)
    with output.show_bar(None, "checks") as advance:
        advance(text="checks")
    assert b"checks: 0it" in terminal.getvalue() and terminal.getvalue().endswith(b" \r")
