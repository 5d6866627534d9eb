"""Check which texts a command takes, and which commands read stdin for them."""

import os
import sys

import pytest
from cli.commands import commands
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
    assert "no text given; using this sample" in capsys.readouterr().err


def test_a_text_that_names_a_file_is_a_text_and_a_notice_names_the_option(attncli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cat.txt").write_text("A cat sat.\n", encoding="utf-8")
    done = attncli("run", "cat.txt")
    assert done.code == 0 and "'cat.txt' is taken as the text: -f reads the file of that name" in done.err
    assert "is taken as the text" not in attncli("run", "dog.txt").err + attncli("run", "-f", "cat.txt").err


@pytest.mark.slow
def test_run_takes_what_is_piped_and_the_others_where_a_dash_says_so(process):
    piped = b"A text from a pipe."
    for command in (("run", "-l", "0", "-H", "0"), ("flow", "--method", "raw", "-f", "-")):
        result = process(*command, stdin=piped)
        assert result.code == 0 and SAMPLE not in result.err
        assert "pipe" in result.out


PROMPT = "You are a helper.\r\n\n  The cat sat on it.\nA dog.\n\n"
# These take a line as a text by what they are for: dates, and a table of cosines.
BY_LINES = {"align", "similar", "sources"}  # or whole without saying so
ABOUT_ONE = [("cut",), ("mechanisms",), ("explain",), ("trust",), ("heatmap",), ("flow",), ("generate", "-m", "minilm")]


@pytest.fixture
def prompt(tmp_path):
    path = tmp_path / "prompt.txt"
    path.write_bytes(PROMPT.encode())
    return path


def test_every_command_that_reads_texts_takes_a_whole_file():
    options = {name: {option.name for option in command.params} for name, command in commands().items()}
    assert {name for name, names in options.items() if "file" in names} - BY_LINES == {
        name for name, names in options.items() if "whole" in names
    }


@pytest.mark.parametrize("command", [("run", "--json"), ("find", "cat", "dog", "--json"), ("mask", "--json")])
def test_a_whole_file_is_one_text(attncli, prompt, command):
    whole = attncli(*command, "-f", prompt, "--whole")
    text = PROMPT.replace("\r\n", "\n").rstrip("\n")
    assert whole.code == 0 and whole.out == attncli(*command, text).out


@pytest.mark.parametrize("command", ABOUT_ONE, ids=lambda command: command[0])
def test_many_lines_where_one_text_is_needed_name_the_whole_file(attncli, prompt, command):
    result = attncli(*command, "-f", prompt)
    assert result.code == 2 and result.out == ""
    assert "one text is needed, but 3 are given" in result.err and "--whole to read the file as one text" in result.err


def test_run_says_that_it_reads_lines(attncli, prompt):
    said = f"attncli: {prompt} has 3 lines, which are separate texts; --whole makes them one text"
    assert said in attncli("run", "-f", prompt).err.splitlines()
    assert "--whole" not in attncli("run", "-f", prompt, "--whole").err
