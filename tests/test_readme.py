"""The README says what the program does."""

import re
from pathlib import Path

import pytest
from readme import BLOCK, PICTURE, README, commands, picture, session, without_rounding

TEXT = README.read_text(encoding="utf-8")
BLOCKS = [match[1] for match in BLOCK.finditer(TEXT)]


@pytest.mark.parametrize("block", BLOCKS, ids=[commands(block)[0][:60] for block in BLOCKS])
def test_commands_print_what_stands_under_them(block):
    assert without_rounding(session(commands(block))) == without_rounding(block)


def test_every_command_has_its_help_in_the_readme():
    from attncli.cli.app import app

    names = {command.name or command.callback.__name__ for command in app.registered_commands}
    names |= {group.typer_instance.info.name or group.name for group in app.registered_groups}
    helped = set(re.findall(r"^\$ attncli ([\w-]+) --help$", TEXT, flags=re.MULTILINE))
    assert names <= helped


def test_the_picture_is_what_run_shows():
    assert PICTURE.read_text(encoding="utf-8") == picture()


def test_links_lead_somewhere():
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", TEXT):
        assert (README.parent / target).exists(), target


def test_python_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [example] = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    scope: dict[str, object] = {}
    exec(example, scope)
    assert scope["record"].weights.ndim == 4
    assert Path("maps.safetensors").exists()
