"""Every command on narrow terminals, through a pseudo-terminal: no line too long, no word and no number broken."""

import re
import warnings
from pathlib import Path

import pytest
from rich.cells import cell_len
from slow import slow_except
from terminals import pseudo_terminal

from attncli.cli.app import main

HERE = Path(__file__).parents[2]
TEXT = "The trophy does not fit in the suitcase because it is too big."
LONG = "Antidisestablishmentarianism, 注意力 and 🙂 honorificabilitudinitatibus."
COMMANDS = {
    "run": ["run", "-q", TEXT],
    "run of all layers": ["run", "-q", "-l", "all", TEXT],
    "run of one head": ["run", "-l", "3", "-H", "1", TEXT],
    "run of one head on words": ["run", "-l", "3", "-H", "1", "--words", LONG],
    "explain": ["explain", "-l", "3", "-H", "1", "--query", "it", TEXT],
    "stats": ["stats", "sample_inputs/coreference.txt"],
    "probe": ["probe", "--limit", "8", "sample_inputs/treebank.conllu"],
    "diff": ["diff", "--masks", "padding,causal", "--words", LONG],
    "flow": ["flow", "--words", LONG],
    "mask": ["mask", TEXT],
    "mechanisms": ["mechanisms", TEXT],
    "mechanisms of a design": ["mechanisms", "--design", "relative", TEXT],
    "models": ["models"],
    "samples": ["samples"],
    "find": ["find", "it", "*", TEXT],
    "find in texts": ["find", "not", "good", "-f", "sample_inputs/negation.txt"],
    "align": ["align", "3 March 2021"],
    "cut": ["cut", "--into", "it", TEXT],
    "cut of edges": ["cut", "--cut", "it", "*", "--cut", "big", "too", TEXT],
    "patch": ["patch", TEXT, TEXT.replace("big", "small")],
    "similar": ["similar", TEXT, LONG],
    "similar of words": ["similar", "--words", LONG, "The cat sat."],
    "similar texts": ["similar", "-f", "sample_inputs/coreference.txt"],
    "ablate": ["ablate", "-f", "sample_inputs/negation.txt", "-l", "4,5", "--similar-to", LONG],
    "trust": ["trust", "--permutations", "2", "--rankings", "120", "The cat sat on it."],
}
DRAWN = set("▀░▒▓█▁▂▃▄▅▆▇─")
# What only a narrow terminal says.
SAID = """no room for: widen the terminal, or use --json; try less -S, taller than the terminal: or
all strongest keys the numbers in cells --words for fewer rows
each cell shows the largest of the weights shares that it covers of them: The weight. red above 0
blue below full colour"""


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch):
    """Work where the paths of the samples are short."""
    monkeypatch.chdir(HERE)


def on_terminal(columns: int, *arguments) -> list[str]:
    with pseudo_terminal(columns) as lines, warnings.catch_warnings():
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            assert not end.code
    return lines


def words(lines) -> set[str]:
    """Return the words of the lines, without drawings, cut words and paths, which may be longer than a line."""
    there, path = set(), False
    for line in lines:
        found = re.findall(r"[^\s,]+", line)
        there |= {word.rstrip(",:;") for word in (found[1:] if path else found)}  # a path goes on at the head of a line
        path = bool(found) and "/" in found[-1]
    numbers = re.compile(r"\d{3,}")  # of the columns of a map, a digit each
    return {
        word for word in there if not DRAWN & set(word) and not {"…", "/"} & set(word) and not numbers.fullmatch(word)
    }


QUICK = ("run", "find", "stats", "models")


@pytest.mark.parametrize("name", slow_except(COMMANDS, QUICK))
def test_nothing_breaks(attncli, name):
    """The words and numbers of a narrow terminal are among those of a pipe, where all is whole."""
    whole = words([*attncli(*COMMANDS[name]).out.splitlines(), SAID])
    for columns in (44, 80):
        lines = on_terminal(columns, *COMMANDS[name])
        assert lines and all(cell_len(line) <= columns for line in lines)
        assert words(lines) <= whole, columns


def test_one_head_fits_80_x_24():
    lines = on_terminal(80, "run", "-l", "3", "-H", "1", TEXT)
    assert len(lines) <= 22  # what to type next and the prompt come after
    assert any(line.startswith(" 10 it") and "trophy 0.614" in line for line in lines)
