"""attncli ablate over files: which are read, what is refused without them, and what a pipe gives."""

import json
import subprocess
import sys

import pytest
from shell import environment, run_line

from attncli.effects.ablation import Silenced

LINES = ["the cat sat on it", "it is too big", "the big cat", "un believ able"]


@pytest.fixture
def folder(tiny, tmp_path):
    (tmp_path / "tiny").symlink_to(tiny("bert"))
    (tmp_path / "all.txt").write_text("\n".join(LINES))
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "a.txt").write_text("\n".join(LINES[:1]))
    (tmp_path / "parts" / "b.jsonl").write_text("".join(json.dumps({"said": text}) + "\n" for text in LINES[1:]))
    return tmp_path


def ablated(folder, line: str) -> str:
    done = run_line(f"attncli ablate -m tiny -l 0,1 {line}", folder)
    assert done.code == 0, done.text
    return done.text


@pytest.mark.slow
def test_several_files_and_a_folder_are_one_corpus(folder):
    of_one = ablated(folder, "--json -f all.txt")
    assert json.loads(of_one)["texts"] == len(LINES)
    assert ablated(folder, "--json -f parts/a.txt -f parts/b.jsonl --field said") == of_one
    assert ablated(folder, "--json -f parts --field said --shard-mb 0.00001") == of_one
    assert json.loads(ablated(folder, "--json -f parts --field said --limit 3"))["texts"] == 3


@pytest.mark.parametrize(
    "option",
    ["--workers 2", "--on ray", "--worker-gpus 1", "--state st", "--shard-mb 1", "--sample 0.5", "--seed 3",
     "--limit 2", "--skip-bad", "--field said"],
)  # fmt: skip
def test_what_is_said_of_files_is_refused_without_them(folder, option):
    done = run_line(f"attncli ablate -m tiny {option} 'the cat'", folder)
    assert (done.code, done.text.count("\n")) == (2, 1)
    assert f"{option.split()[0]} has no effect without -f, which names files" in done.text


def test_a_seed_draws_nothing_without_a_sample(folder):
    done = run_line("attncli ablate -m tiny -f all.txt --seed 3", folder)
    assert done.code == 2 and "--seed has no effect without --sample" in done.text


def test_an_interruption_shows_what_there_is_as_partial_and_saves_nothing(folder, monkeypatch):
    row, done = Silenced.row, []

    def interrupted(*some):
        done.append(some)
        if len(done) % 3 == 0:
            raise KeyboardInterrupt
        return row(*some)

    monkeypatch.setattr(Silenced, "row", interrupted)
    shown = run_line("attncli ablate -m tiny -f all.txt -o a.csv", folder)
    assert shown.code == 130 and "interrupted: these effects are PARTIAL, of 2 texts" in shown.text
    assert "PARTIAL · 2 texts" in shown.text.splitlines()[1] and not (folder / "a.csv").exists()
    printed = run_line("attncli ablate -m tiny -f all.txt -q --json", folder)
    document = json.loads(printed.text)
    assert (printed.code, document["partial"], document["texts"], "curves" in document) == (130, True, 2, False)


@pytest.mark.slow
@pytest.mark.parametrize("more", ["", "--workers 2", "--state st"])
def test_a_pipe_is_read_once(folder, more):
    command = [sys.executable, "-m", "attncli", "ablate", "-m", "tiny", "-l", "0,1", "--json", "-f", "-", *more.split()]
    with (folder / "all.txt").open() as texts:
        done = subprocess.run(
            command, cwd=folder, stdin=texts, env=environment(), capture_output=True, text=True, check=False
        )
    if more:
        assert done.returncode == 2 and f"{more.split()[0]} is for files" in done.stderr
    else:
        assert done.stdout == ablated(folder, "--json -f all.txt")


@pytest.mark.slow
def test_workers_print_the_same(folder):
    of_one = ablated(folder, "--json -f all.txt")
    assert ablated(folder, "--json -f all.txt --workers 2 --shard-mb 0.00001 --state st") == of_one
    assert ablated(folder, "--json -f all.txt --state st") == of_one
