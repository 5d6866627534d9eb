"""attncli stats, killed and begun again, and twice at once."""

import json
import random
import signal
import subprocess
import sys
import time

import pytest
from shell import environment

# As often as can be, so that a kill meets every moment of a save.
PROGRAM = "from attncli.corpus import resuming; resuming.SAVED_EVERY = 0\nfrom attncli.__main__ import main; main()"
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


def start(*arguments: object) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "stats", "--json", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        text=True,
    )


@pytest.mark.slow
def test_figures_after_any_number_of_kills_are_those_of_an_uninterrupted_run(tiny, corpus, tmp_path):
    """To the last bit, and with nothing left but the file to go on from."""
    model, folder = tiny(num_hidden_layers=1), tmp_path / "states"
    folder.mkdir()
    expected, _ = start("-m", model, corpus).communicate()
    draw, kills = random.Random(1), 0
    while kills < KILLS:
        child = start("-m", model, corpus, "--resume", folder / "state")
        while child.poll() is None and not grown(folder, child):
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 0.4))
        if child.poll() is None:
            child.send_signal(signal.SIGKILL)
            kills += 1
        elif child.returncode == 0:  # it came to the end, again and again
            (folder / "state").unlink()
        out, err = child.communicate()
        assert child.returncode in (0, -signal.SIGKILL), err
        assert not out or out == expected
    out, err = start("-m", model, corpus, "--resume", folder / "state").communicate()
    assert out == expected and json.loads(out)["texts"] == 6000, err


def grown(folder, child) -> bool:
    """Whether it saved something since this was last asked of it."""
    path = folder / "state"
    inode = path.stat().st_ino if path.exists() and path.stat().st_size else None
    child.before = getattr(child, "before", inode)
    return inode != child.before


@pytest.mark.slow
def test_the_second_of_two_is_told(tiny, corpus, tmp_path):
    state = tmp_path / "state"
    first = start("-m", tiny(), corpus, "--resume", state)
    while not state.exists():
        time.sleep(0.05)
    out, err = start("-m", tiny(), corpus, "--resume", state).communicate()
    assert out == "" and "state is in use by another attncli: wait until it ends, or name another file\n" in err
    out, err = first.communicate()
    assert (first.returncode, json.loads(out)["texts"], err) == (0, 6000, "")
