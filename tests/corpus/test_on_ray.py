"""Shards on a Ray of this machine: the same sums, from workers that die, raise or refuse."""

import os
import random
import signal
import subprocess
import sys
import threading

import pytest
from counted_words import list_words, words_of

from attncli import Notice, RequestError

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """One for all tests of this file."""
    there = {"PYTHONPATH": os.pathsep.join(sys.path)}  # with what is counted in these tests
    ray.init(num_cpus=2, runtime_env={"env_vars": there}, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def go(tmp_path, lines, **more):
    return list_words(tmp_path, lines, on="ray", workers=2, **more)


@pytest.mark.parametrize("state", [None, "state"])
def test_a_shard_whose_worker_dies_or_raises_is_counted_again_by_ray(tmp_path, state):
    lines = ["one", f"die once {tmp_path / 'died'}", "two", f"raise once {tmp_path / 'raised'}", "three"]
    found = go(tmp_path, lines, state=state and str(tmp_path / state))
    assert (found.total, found.retried) == (words_of(lines), 2)


@pytest.mark.parametrize(("line", "why"), [("die", "actor"), ("raise", "it was too much")])
def test_a_shard_that_fails_three_times_is_reported_with_its_input(tmp_path, line, why):
    lines = ["one", line, "two"]
    with pytest.raises(RequestError, match=rf"corpus.txt from 4: failed 3 times \(.*{why}.*\): --skip-bad goes on"):
        go(tmp_path, lines)
    with pytest.warns(Notice, match=rf"skipped .*corpus.txt from 4: failed 3 times \(.*{why}"):
        assert go(tmp_path, lines, skip_bad=True).total == words_of(["one", "two"])


def test_what_is_wrong_with_the_request_ends_it_at_once(tmp_path):
    with pytest.raises(RequestError, match="this text is refused"):
        go(tmp_path, ["one", "refuse", "two"], skip_bad=True)


def test_a_worker_wants_no_more_gpus_than_there_are(tmp_path):
    with pytest.raises(RequestError, match=r"Ray has 0 GPUs, and a worker wants 0\.5: --worker-gpus"):
        go(tmp_path, ["one"], gpus=0.5)


def test_kills_at_random_moments_change_nothing(tmp_path):
    lines = ["wait" for _ in range(25)]
    draw, kills, over = random.Random(2), [], threading.Event()

    def kill() -> None:
        while not over.wait(3 + draw.uniform(0, 2)):  # for a slow machine: three kills of one shard are its end
            rows = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
            if there := [int(row.split()[0]) for row in rows.splitlines() if "ray::Worker" in row]:
                kills.append(draw.choice(there))
                os.kill(kills[-1], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        assert go(tmp_path, lines, state=str(tmp_path / "state")).total == words_of(lines)
    finally:
        over.set()
        killer.join()
    assert kills
