"""What is offered to be typed next can be typed: it is on the same text and model."""

import shlex

import pytest
import typer
from typer.main import get_command

from attncli.cli.again import again
from attncli.cli.app import app


def context(*arguments: str) -> typer.Context:
    """Of `attncli run` with these arguments."""
    command = get_command(app).commands["run"]
    return command.make_context("run", list(arguments))


@pytest.mark.parametrize(
    ("typed", "options", "wanted"),
    [
        (["The cat sat."], {"-l": 3}, ["attncli", "run", "-l", "3", "The cat sat."]),
        (["-m", "a dir/x", "it's"], {}, ["attncli", "run", "-m", "a dir/x", "it's"]),
        (["--mask", "causal", "-l", "2", "x"], {"-l": 1}, ["attncli", "run", "-l", "1", "--mask", "causal", "x"]),
        (["--words", "--pair", "B", "A"], {}, ["attncli", "run", "--pair", "B", "--words", "A"]),
        (["-f", "texts.txt"], {}, ["attncli", "run", "-f", "texts.txt"]),
        (["-o", "maps.npz", "--top-k", "2", "x"], {}, ["attncli", "run", "x"]),
        (["-x"], {}, None),
    ],
)
def test_the_same_text_and_model_with_other_options(typed, options, wanted):
    if wanted is None:  # a text that begins like an option
        assert again(context("--", *typed), "run") == "attncli run -- -x"
    else:
        assert shlex.split(again(context(*typed), "run", options)) == wanted


def test_nothing_in_it_commands_the_terminal():
    assert "\x1b" not in again(context("\x1b[31mred"), "run")
