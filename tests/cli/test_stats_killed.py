"""attncli stats, killed and begun again."""

import json
import random
import shutil
import signal
import time

import pytest
from forked import Process

WORDS = ["the", "cat", "sat", "on", "and", "it", "too", "big"]
KILLS = 12


@pytest.fixture
def corpus(tmp_path):
    """Several groups of texts, of many lengths."""
    draw = random.Random(0)
    lines = (" ".join(draw.choices(WORDS, k=draw.randint(1, 60))) for _ in range(6000))
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def start(tmp_path):
    """A process of its own that counts."""
    return lambda *arguments: Process(["stats", "--json", *arguments], tmp_path)


@pytest.mark.slow
def test_figures_after_any_number_of_kills_are_those_of_an_uninterrupted_run(tiny, corpus, start, tmp_path):
    """Compare to the last bit. The folder holds only one file per shard."""
    model, state = tiny(num_hidden_layers=1), tmp_path / "state"
    asked = ("-m", model, corpus, "--shard-mb", "0.02")
    _, expected, _ = start(*asked).ended()
    draw, kills = random.Random(1), 0
    while kills < KILLS:
        child = start(*asked, "--state", state)
        before = len(list(state.glob("*")))
        while child.poll() is None and len(list(state.glob("*"))) == before:
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 0.4))
        if child.poll() is None:
            child.kill()
            kills += 1
        elif child.poll() == 0:  # it came to the end, again and again
            shutil.rmtree(state)
        code, out, err = child.ended()
        assert code in (0, -signal.SIGKILL), err
        assert not out or out == expected
    _, out, err = start(*asked, "--state", state).ended()
    assert out == expected and json.loads(out)["texts"] == 6000, err
    assert {one.suffix for one in state.iterdir()} == {".npz"}


@pytest.mark.slow
def test_workers_end_with_a_request_that_can_not_be_met(tiny, corpus, start):
    """Those that have nothing to do too: the process that waits for them came to no end."""
    asked = ("-m", tiny(num_hidden_layers=1), corpus, "--shard-mb", "0.02", "--workers", "3", "--jsonl", "text")
    code, out, err = start(*asked).ended()
    assert (code, out) == (2, "") and "not JSON" in err, err
