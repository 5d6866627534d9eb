"""attncli samples: what a user does who has the program and not its repository."""

import json
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "sample_inputs"
NAMES = sorted(path.name for path in SOURCE.iterdir() if path.name != "README.md")


def test_the_list_has_a_line_a_text(attncli):
    out = attncli("samples").out
    assert sorted(line.split()[0] for line in out.splitlines()) == NAMES
    assert all(len(line) <= 79 for line in out.splitlines())


def test_a_text_is_printed_as_it_is(attncli):
    for name in NAMES:
        assert attncli("samples", name).out == (SOURCE / name).read_text(encoding="utf-8")


def test_json_says_all_there_is(attncli):
    listed = json.loads(attncli("samples", "--json").out)["samples"]
    assert sorted(entry["name"] for entry in listed) == NAMES
    for entry in listed:
        assert entry.keys() == {"name", "what", "command", "look_for", "path"}
        assert Path(entry["path"]).samefile(SOURCE / entry["name"])
    [one] = json.loads(attncli("samples", "pair.txt", "--json").out)["samples"]
    assert one.pop("text") == (SOURCE / "pair.txt").read_text(encoding="utf-8")
    assert one in listed


def test_copies_are_named_and_what_missed_them_runs_then(attncli, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = (
        ("run", "-l", "0", "-H", "0", "-f", "sample_inputs/negation.txt"),
        ("stats", "--limit", "1", "sample_inputs/agreement.txt"),
        ("probe", "--limit", "2", "sample_inputs/treebank.conllu"),
    )
    for command in commands:
        assert refused(*command).endswith(": attncli samples --copy sample_inputs")
    copied = attncli("samples", "--copy", "sample_inputs").out.splitlines()
    assert sorted(copied) == sorted(f"sample_inputs/{name}" for name in (*NAMES, "README.md"))
    for command in commands:
        assert attncli(*command).code == 0
