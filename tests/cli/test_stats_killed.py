"""attncli stats, killed and begun again, and twice at once."""

import json
import random
import signal
import time

import pytest
from forked import Process

SAVING = ("attncli.corpus.resuming", "SAVED_EVERY", 0)  # seconds, so that a kill meets every moment of a save
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
    """A process of its own that counts and saves."""
    return lambda *arguments: Process(["stats", "--json", *arguments], tmp_path, places=[SAVING])


@pytest.mark.slow
def test_figures_after_any_number_of_kills_are_those_of_an_uninterrupted_run(tiny, corpus, start, tmp_path):
    """To the last bit, and with nothing left but the file to go on from."""
    model, folder = tiny(num_hidden_layers=1), tmp_path / "states"
    folder.mkdir()
    _, expected, _ = start("-m", model, corpus).ended()
    draw, kills = random.Random(1), 0
    while kills < KILLS:
        child = start("-m", model, corpus, "--resume", folder / "state")
        while child.poll() is None and not grown(folder, child):
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 0.4))
        if child.poll() is None:
            child.kill()
            kills += 1
        elif child.poll() == 0:  # it came to the end, again and again
            (folder / "state").unlink()
        code, out, err = child.ended()
        assert code in (0, -signal.SIGKILL), err
        assert not out or out == expected
    _, out, err = start("-m", model, corpus, "--resume", folder / "state").ended()
    assert out == expected and json.loads(out)["texts"] == 6000, err


def grown(folder, child) -> bool:
    """Whether it saved something since this was last asked of it."""
    path = folder / "state"
    inode = path.stat().st_ino if path.exists() and path.stat().st_size else None
    child.before = getattr(child, "before", inode)
    return inode != child.before


@pytest.mark.slow
def test_the_second_of_two_is_told(tiny, corpus, start, tmp_path):
    state = tmp_path / "state"
    first = start("-m", tiny(), corpus, "--resume", state)
    while not state.exists():
        time.sleep(0.05)
    _, out, err = start("-m", tiny(), corpus, "--resume", state).ended()
    assert out == "" and "state is in use by another attncli: wait until it ends, or name another file\n" in err
    code, out, err = first.ended()
    assert (code, json.loads(out)["texts"], err) == (0, 6000, "")
