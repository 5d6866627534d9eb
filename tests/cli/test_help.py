"""--help: at once, and with examples that work when pasted."""

import re
import shlex
import subprocess
import sys
from typing import Literal, get_args, get_origin

import pytest
import torch
from cli.commands import LIVE
from cli.commands import commands as every_command
from own_attention import MINE
from readme import BLOCK, DOCUMENTS, commands
from shell import run_line
from slow import slow_except

from attncli.base import choices
from attncli.cli.help import long_name
from attncli.features import options

# These are run by tests/test_readme.py.
IN_DOCUMENTS = {
    line
    for path in DOCUMENTS
    for block in BLOCK.finditer(path.read_text(encoding="utf-8"))
    for line in commands(block[1])
}
COMMANDS = [(name,) for name in every_command()]
HEAVY = ("torch", "transformers", "matplotlib", "rich")


def examples(text: str) -> list[str]:
    """The lines between "Examples:" and the next empty line."""
    block = re.search(r"Examples?:\n(.*?)\n\s*\n", text, flags=re.DOTALL)
    assert block, text
    return [line.strip() for line in block[1].splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("command", [(), *COMMANDS], ids=" ".join)
def test_examples_work_when_pasted(command, tmp_path, attncli):
    assert attncli("samples", "--copy", tmp_path / "sample_inputs").code == 0  # as whoever has the wheel does
    (tmp_path / "my_attention.py").write_text(MINE, encoding="utf-8")
    torch.save({"input_ids": torch.tensor([[101, 1996, 4937, 102]])}, tmp_path / "batch.pt")
    lines = examples(attncli(*command, "--help").out)
    assert lines
    for line in lines:
        assert "attncli" in shlex.split(line.replace("|", " ").replace("&&", " "))
        if not (command and command[0] in LIVE) and line not in IN_DOCUMENTS:
            done = run_line(line, tmp_path)
            assert done.code == 0, (line, done.text)


# --- what a page says -----------------------------------------------------------------------------------

LINES, COLUMNS = 40, 80
LINES_OF_ALL = 54  # of the page that lists the commands
ROW = re.compile(r" {2}(?:-\w, | {4})?(?P<name>--[\w-]+|[A-Z]+|show)(?: (?P<value>\S+(?: \S+)?))? {2,}\S")


def parameters(command):
    """Return the parameters of a command by their names in a page."""
    return {long_name(one): one for one in every_command()[command[0]].params}


def groups(page):
    """The names in each group of a page."""
    found = {}
    for line in page.splitlines():
        if re.fullmatch(r"\w+:", line):
            found[line[:-1]] = []
        elif row := ROW.match(line):
            found[list(found)[-1]].append(row["name"])
    return found


@pytest.mark.parametrize("command", [(), *COMMANDS], ids=" ".join)
def test_a_page_fits_on_a_screen(command, attncli, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    lines = attncli(*command, "--help").out.splitlines()
    count, most = sum(max(1, -(-len(line) // COLUMNS)) for line in lines), LINES if command else LINES_OF_ALL
    assert count <= most, f"{count} lines, and {most} fit: shorten the docstring, or mark an option rare"
    # Only an example, which is pasted, may be longer than a line.
    assert all(len(line) <= COLUMNS for line in lines if "attncli" not in line)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_option_stands_in_its_group_and_rare_ones_are_left_to_help_all(command, attncli):
    taken = parameters(command)
    assert {"--quiet", "--debug"} <= set(taken)
    usual, every = (attncli(*command, option).out for option in ("--help", "--help-all"))
    for page in (groups(usual), groups(every)):
        page.pop("Commands", None)
        assert list(page) == [title for title in options.GROUPS if title in page]
        for title, names in page.items():
            own = [name for name in names if not name.startswith("--help")]
            assert [taken[name].rich_help_panel for name in own] == [title] * len(own)
    listed = [name for names in groups(every).values() for name in names]
    assert sorted(listed) == sorted([*taken, "--help", "--help-all"])
    rare = set(taken) - {name for names in groups(usual).values() for name in names}
    assert usual.splitlines()[-1] == (
        f"More: attncli {' '.join(command)} --help-all shows every option ({len(rare)} more)."
    )


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_values_have_names_that_are_ours(command, attncli):
    for name, one in parameters(command).items():
        if getattr(one, "is_flag", False):
            assert one.metavar is None, name
        else:
            assert re.fullmatch(r"[A-Z]+([., =][A-Z]+)?|show", one.metavar), name
    page = attncli(*command, "--help-all").out
    assert not re.search(r"<\w+|list\[|\brange\b|INTEGER|FLOAT|\bNone\b|x>=", page)


def elsewhere(help: str) -> tuple[str, ...]:
    """Names that another command's page tells."""
    return choices.names(choices.Figure) if 'a statistic of "stats"' in help else ()


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_names_of_choices_and_defaults_are_told(command, attncli):
    page = " ".join(attncli(*command, "--help-all").out.split())
    for name, one in parameters(command).items():
        kind = one.type_descriptor.annotation
        for value in get_args(kind) if get_origin(kind) is Literal else ():
            assert re.search(rf"\b{value}\b", one.help) or value in elsewhere(one.help), (name, value)
        if not getattr(one, "is_flag", False) and one.default is not None and one.show_default is True:
            assert f"[default: {one.default}]" in page


def test_the_first_page_has_whole_sentences(attncli):
    page = attncli("--help").out
    assert "..." not in page.replace("[ARGS]...", "")
    for name, command in every_command().items():
        sentence = " ".join(command.help.partition("\n\n")[0].split())
        assert sentence.endswith(".") and sentence in " ".join(page.split()), name


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_both_names_of_help(attncli, option):
    assert attncli("run", option).out.startswith("Usage: attncli run")
    assert attncli(option).out.startswith("Usage: attncli ")


def test_nothing_at_all_is_help(attncli):
    assert attncli().out == attncli("--help").out


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_version(attncli, option):
    import attncli as package

    assert attncli(option).out == f"attncli {package.__version__}\n"


AT_ONCE = [(), ("run",), ("stats",)]  # the others are left to the slow tests


@pytest.mark.parametrize(
    "command",
    slow_except([(), *COMMANDS], AT_ONCE),
    ids=" ".join,
)
def test_help_imports_nothing_heavy(command):
    program = (
        f"import sys\nfrom attncli.cli.app import main\ntry: main([*{list(command)!r}, '--help'])\nexcept SystemExit: "
        f"pass\nprint([name for name in {HEAVY if command else (*HEAVY, 'numpy')} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
