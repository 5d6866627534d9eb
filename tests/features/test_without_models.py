"""Features that read saved results need no model: they run without torch, transformers and `attncli.models`."""

import json
import subprocess
import sys

import pytest
from shell import environment, in_process

from attncli import features, load_model

TEXT, OTHER = "the cat sat on the big cat", "the big cat sat on the cat"
HEAVY = ("torch", "rich", "typer", "matplotlib")

# Runs lines in one process, in which these modules can't be imported, and prints the exit code and error of each.
BLOCKED = """
import importlib.abc, json, sys, warnings

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        # where a model is, and what its parts are called
        light = ("attncli.models.opening", "attncli.models.parts")
        ours = name.startswith("attncli.models.") and name not in light
        if ours or name.partition(".")[0] in ("torch", "transformers"):
            raise ModuleNotFoundError(name + " is blocked")

sys.meta_path.insert(0, Missing())
import pathlib
from shell import in_process
lines = json.load(sys.stdin)
print(json.dumps([[line, *in_process(line, pathlib.Path.cwd())] for line in lines]))
"""

# Arguments and files of the commands that need some.
LINES = {
    "find": [["find", "the", "cat", "--from", "maps.npz"], ["find", "--by", "content", "--from", "maps.npz"],
             ["find", "--by", "previous", "--from", "maps.npz"]],
    "explain": [["explain", "--from", "vectors.safetensors"]],
    "run": [["run", "--from", "maps.npz"], ["run", "--from", "maps.npz", "-l", "1"],
            ["run", "--from", "maps.npz", "-l", "1", "-H", "2", "--words"], ["run", "--from", "vectors.safetensors"],
            ["run", "--from", "terms.safetensors", "--terms", "-l", "0", "-H", "1"]],
    "stats": [["stats", "--from", "stats.json"], ["stats", "--from", "maps.npz"]],
    "heatmap": [["heatmap", "--from", "maps.npz", "--style", style, "-l", "1"] for style in ("matrix", "lines")],
    "diff": [["diff", "maps.npz", "others.npz"]],
}  # fmt: skip


def reading() -> list[str]:
    """The commands with --from, and diff, which takes records as its arguments."""
    saved = [name for name in features.NAMES if "saved" in features.find_measure(name).parameters]
    return [*saved, "diff"]


@pytest.fixture(scope="module")
def place(tiny, tmp_path_factory):
    """A folder with saved records of every kind, and statistics."""
    folder = tmp_path_factory.mktemp("saved")
    (folder / "tiny").symlink_to(tiny("bert"))
    (folder / "lines.txt").write_text(f"{TEXT}\n{OTHER}\n", encoding="utf-8")
    for line in (
        ["run", "-m", "tiny", "-l", "all", "-o", "maps.npz", TEXT],
        ["run", "-m", "tiny", "-l", "all", "-o", "others.npz", OTHER],
        ["run", "-m", "tiny", "-l", "all", "--vectors", "all", "-o", "vectors.safetensors", TEXT],
        ["stats", "-m", "tiny", "-o", "stats.json", "lines.txt"],
    ):
        assert in_process(line, folder).code == 0, line
    load_model(str(tiny("mpnet")), "cpu").attend(TEXT, vectors="all").save(folder / "terms.safetensors")
    return folder


@pytest.mark.slow
def test_every_use_of_a_saved_result_needs_no_model(place):
    lines = []
    for name in reading():
        feature = features.find_measure(name)
        for line in LINES.get(name, [[name, "--from", "maps.npz"]]):
            shown = [] if feature.output else [line]
            suffixes = () if "--terms" in line else feature.saves
            lines += [*shown, [*line, "--json"]] if feature.json and "--terms" not in line else shown
            lines += [[*line, "-o", f"out{suffix}"] for suffix in suffixes]
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED], input=json.dumps([*lines, ["run", "-m", "tiny", TEXT]]), cwd=place, text=True,
        capture_output=True, check=True, env=environment(PYTHONPATH=":".join(sys.path)),
    )  # fmt: skip
    *read, ran = json.loads(done.stdout.splitlines()[-1])
    assert [one for one in read if one[1] != 0] == []
    assert ran[1] == 2 and "is blocked" in ran[2]  # what needs a model is not there


def test_importing_every_feature_loads_nothing_heavy():
    program = (
        "import sys\nfrom attncli import features\n"
        "[features.find_measure(name) for name in features.NAMES]\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
