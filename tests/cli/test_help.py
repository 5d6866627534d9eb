"""--help: at once, and with examples that work when pasted."""

import re
import shlex
import subprocess
import sys

import pytest
from readme import BLOCK, DOCUMENTS, commands
from shell import run_line

from attncli.cli.app import app

# These are run by tests/test_readme.py.
IN_DOCUMENTS = {
    line
    for path in DOCUMENTS
    for block in BLOCK.finditer(path.read_text(encoding="utf-8"))
    for line in commands(block[1])
}
GROUPS = {group.typer_instance.info.name: group.typer_instance for group in app.registered_groups}
COMMANDS = [(command.name or command.callback.__name__,) for command in app.registered_commands]
MINUTES = ("bench", "train-align")  # what takes them; tests of their own run it small
COMMANDS += [(name,) for name in GROUPS]
COMMANDS += [
    (name, command.name or command.callback.__name__)
    for name, group in GROUPS.items()
    for command in group.registered_commands
]


def examples(text: str) -> list[str]:
    """The lines between "Examples:" and the next empty line."""
    block = re.search(r"Examples?:\n(.*?)\n\s*\n", text, flags=re.DOTALL)
    assert block, text
    return [line.strip() for line in block[1].splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("command", [(), *COMMANDS], ids=" ".join)
def test_examples_work_when_pasted(command, tmp_path, attncli):
    assert attncli("samples", "--copy", tmp_path / "sample_inputs").code == 0  # as whoever has the wheel does
    lines = examples(attncli(*command, "--help").out)
    assert lines
    for line in lines:
        assert "attncli" in shlex.split(line.replace("|", " ").replace("&&", " "))
        if not (command and command[0] in MINUTES) and line not in IN_DOCUMENTS:
            done = run_line(line, tmp_path)
            assert done.code == 0, (line, done.text)


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_both_names_of_help(attncli, option):
    assert attncli("run", option).out.startswith("Usage: attncli run")
    assert attncli(option).out.startswith("Usage: attncli ")


def test_nothing_at_all_is_help(attncli):
    assert attncli().out == attncli("--help").out


def test_version(attncli):
    import attncli as package

    assert attncli("--version").out == f"attncli {package.__version__}\n"


@pytest.mark.parametrize("command", [(), *COMMANDS], ids=" ".join)
def test_help_imports_nothing_heavy(command):
    program = (
        "import sys\nfrom attncli.cli.app import main\n"
        f"try: main([*{list(command)!r}, '--help'])\nexcept SystemExit: pass\n"
        "print([name for name in ('torch', 'numpy', 'transformers', 'matplotlib', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
