"""Workers that die, raise or refuse, and the sums that come out all the same."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from counted_words import list_words, words_of

from attncli import Notice, RequestError


@pytest.mark.slow
def test_any_number_of_workers_gives_the_same(tmp_path):
    lines = [f"text {number}" for number in range(20)]
    for workers in (1, 3, 7):
        assert list_words(tmp_path, lines, workers=workers).total == words_of(lines)


@pytest.mark.slow
def test_a_shard_whose_worker_dies_is_counted_again(tmp_path):
    lines = ["one", f"die once {tmp_path / 'died'}", "two", f"raise once {tmp_path / 'raised'}", "three"]
    found = list_words(tmp_path, lines, workers=2, state=str(tmp_path / "state"))
    assert (found.total, found.retried) == (words_of(lines), 2)


@pytest.mark.parametrize(
    ("line", "why"), [pytest.param("die", "terminated abruptly", marks=pytest.mark.slow), ("raise", "it was too much")]
)
def test_a_shard_that_fails_three_times_is_reported_with_its_input(tmp_path, line, why):
    lines = ["one", line, "two"]
    with pytest.raises(RequestError, match=rf"corpus.txt from 4: failed 3 times \(.*{why}.*\): --skip-bad goes on"):
        list_words(tmp_path, lines, workers=2)
    with pytest.warns(Notice, match=rf"skipped .*corpus.txt from 4: failed 3 times \(.*{why}"):
        found = list_words(tmp_path, lines, skip_bad=True, workers=2)
    assert found.total == words_of(["one", "two"]) and found.retried == 2


@pytest.mark.slow
def test_what_is_wrong_with_the_request_ends_it_at_once(tmp_path):
    with pytest.raises(RequestError, match="this text is refused"):
        list_words(tmp_path, ["one", "refuse", "two"], skip_bad=True, workers=2)


@pytest.mark.slow
def test_thirty_kills_at_random_moments_change_nothing(tmp_path):
    """A shard is given up when it has had three of them, so that others are counted after each."""
    lines = ["wait" for _ in range(250)]
    draw, kills, over = random.Random(2), [], threading.Event()

    def kill() -> None:
        counted = 0
        while len(kills) < 30 and not over.wait(draw.uniform(0, 0.4)):
            now = sum(1 for path in (tmp_path / "state").rglob("*") if path.is_file())
            if now >= counted + 20 and (children := workers_of(os.getpid())):
                counted = now
                kills.append(draw.choice(children))
                os.kill(kills[-1], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        found = list_words(tmp_path, lines, workers=3, state=str(tmp_path / "state"))
    finally:
        over.set()
        killer.join()
    assert found.total == words_of(lines)
    assert len(kills) == 30 and found.retried >= 15  # one that has nothing to do, or has just begun, has no shard


def workers_of(pid: int) -> list[int]:
    """Those that are counting: they are children of the process that starts them, which is one of this."""
    rows = subprocess.run(["ps", "-eo", "pid,ppid"], capture_output=True, text=True, check=True).stdout.split()[2:]
    parents = dict(zip(map(int, rows[::2]), map(int, rows[1::2]), strict=True))
    return [child for child, parent in parents.items() if parents.get(parent) == pid]


@pytest.mark.slow
def test_workers_end_when_their_driver_is_killed(tmp_path):
    (tmp_path / "corpus.txt").write_text("wait\n" * 200)
    program = f"""
from counted_words import ListedWords
from attncli.corpus.texts import TextFormat
from attncli.corpus.running import Corpus, go_through
from attncli.corpus.running import Where
if __name__ == "__main__":
    go_through(ListedWords(), Corpus([{str(tmp_path / "corpus.txt")!r}], TextFormat()), Where(workers=2, shard_bytes=1))
"""
    (tmp_path / "program.py").write_text(program)
    path = os.pathsep.join(sys.path)
    child = subprocess.Popen([sys.executable, tmp_path / "program.py"], env={**os.environ, "PYTHONPATH": path})
    workers: list[int] = []
    while len(workers) < 2:
        time.sleep(0.1)
        assert child.poll() is None
        workers = workers_of(child.pid)
    child.kill()
    child.wait()
    deadline = time.monotonic() + 120
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(alive, workers))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


PROGRAM = """
import sys
from counted_words import ListedWords
from attncli.corpus.texts import TextFormat
from attncli.corpus.running import Corpus, go_through
from attncli.corpus.running import Where
if __name__ == "__main__":
    found = go_through(ListedWords(), Corpus([sys.argv[1]], TextFormat()), Where(workers=2, shard_bytes=1))
    print(len(found.total.words))
"""


@pytest.fixture
def temporary():
    """A folder with a short path: a socket in it has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="a", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def counting(tmp_path):
    """`counting(lines, folder)` -> a process that counts them with two workers, and has this temporary folder."""
    (tmp_path / "program.py").write_text(PROGRAM)
    path = os.pathsep.join([*sys.path, os.environ.get("PYTHONPATH", "")])
    started: list[subprocess.Popen[str]] = []

    def start(lines, folder) -> subprocess.Popen[str]:
        corpus = tmp_path / f"corpus-{len(started)}.txt"
        corpus.write_text("".join(f"{line}\n" for line in lines))
        command = [sys.executable, str(tmp_path / "program.py"), str(corpus)]
        surroundings = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(folder)}
        started.append(subprocess.Popen(command, env=surroundings, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def wait_for_sockets(folder, process):
    while not any(path.is_socket() for path in folder.rglob("*")):
        assert process.poll() is None
        time.sleep(0.05)


def counted(process) -> int:
    """Return the number of words that a process has counted, once it ends."""
    said = process.stdout.read()
    assert process.wait() == 0
    return int(said)


@pytest.mark.slow
def test_what_a_killed_run_leaves_in_the_temporary_folder_the_next_one_removes(counting, temporary):
    first = counting(["wait"] * 200, temporary)
    wait_for_sockets(temporary, first)
    first.kill()
    first.wait()
    [left] = temporary.iterdir()
    os.utime(left, (0, 0))  # long ago
    assert counted(counting(["one", "two"], temporary)) == 2
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
def test_sockets_of_a_run_that_goes_on_are_left_to_it(counting, temporary):
    first = counting(["wait"] * 400, temporary)
    wait_for_sockets(temporary, first)
    [folder] = temporary.iterdir()
    os.utime(folder, (0, 0))
    assert counted(counting(["one", "two"], temporary)) == 2
    assert first.poll() is None
    assert list(temporary.iterdir()) == [folder] and any(path.is_socket() for path in folder.iterdir())


@pytest.mark.slow
def test_a_temporary_folder_may_have_a_long_path(counting, tmp_path):
    folder = tmp_path / ("a" * 200)
    folder.mkdir()
    assert counted(counting(["one"], folder)) == 1
    assert list(folder.iterdir()) == []
