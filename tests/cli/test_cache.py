"""Commands print the same bytes with an empty cache and with a full one."""

import shutil
from pathlib import Path

import pytest
from checkpoints import make_checkpoint
from slow import slow_except

from attncli.models.own_model import OwnModel

TEXT = "The cat sat on the big cat because it was too big."
SAMPLE = "The trophy does not fit in the suitcase because it is too big."  # one of the texts of the usual weights
CALLS = [
    ("run", TEXT),
    ("run", SAMPLE),
    ("run", SAMPLE, "-m", "minilm", "--json"),
    ("run", SAMPLE, "--words"),
    ("run", TEXT, "--json"),
    ("run", TEXT, "--without", "0.1", "--measure", "norm"),
    ("run", TEXT, "--mask", "causal", "-o", "out.npz"),
    ("find", "cat", "big", TEXT),
    ("find", "*", "it", SAMPLE, "-l", "2", "--json"),
    ("view", TEXT, "--mask", "padding,causal", "-o", "out.html"),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_checkpoint(tmp_path_factory.mktemp("small") / "model", "bert")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and a working directory for what is saved."""
    monkeypatch.setenv("ATTNCLI_CACHE", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "cache"


@pytest.fixture
def walks(monkeypatch):
    """The texts that a network was walked for, one entry a walk."""
    walked = []
    original = OwnModel.walk

    def walk(self, rows, *arguments, **more):
        walked.append(sum(len(run.texts) for run in rows.runs))
        return original(self, rows, *arguments, **more)

    monkeypatch.setattr(OwnModel, "walk", walk)
    return walked


@pytest.mark.parametrize("call", slow_except(CALLS, CALLS[::3]), ids=" ".join)
def test_a_full_cache_changes_nothing_that_is_printed_or_saved(call, attncli, model, cache, walks):
    results = []
    for _ in range(3):
        walks.clear()
        done = attncli(*call) if "-m" in call else attncli(*call, "-m", model)
        results.append((done, {path.name: path.read_bytes() for path in Path().iterdir()}, sum(walks)))
    (cold, cold_files, cold_walks), (warm, warm_files, warm_walks), _ = results
    assert cold.code == 0, cold.err
    assert warm == cold and warm_files == cold_files and results[2][1:] == results[1][1:]
    assert cold_walks > warm_walks == (2 if "padding,causal" in call else 1)  # the text, under each mask


@pytest.mark.parametrize("place", ["a file", "/dev/null", "full of rubbish"])
def test_a_cache_that_can_not_be_used_changes_nothing_and_says_nothing(
    place, attncli, model, cache, tmp_path, monkeypatch
):
    calls = [(*call, "-m", model) for call in CALLS[:2]]
    expected = [attncli(*call) for call in calls]
    (tmp_path / "a file").write_text("mine")
    (tmp_path / "full of rubbish" / "usual").mkdir(parents=True)
    shutil.copytree(cache, tmp_path / "full of rubbish", dirs_exist_ok=True)
    for path in (tmp_path / "full of rubbish").rglob("*.*"):
        path.write_bytes(path.read_bytes()[:100])
    monkeypatch.setenv("ATTNCLI_CACHE", str(tmp_path / place))
    assert [attncli(*call) for call in calls] == expected
    assert (tmp_path / "a file").read_text() == "mine"
