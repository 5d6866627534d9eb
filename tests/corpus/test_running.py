"""A corpus has the sums of all shards in their order: with every engine, and after an interruption."""

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from counted_words import ListedWords, list_words, words_of

from attncli import RequestError
from attncli.corpus.reducer import count_files
from attncli.corpus.running import Workplace, process_corpus
from attncli.corpus.texts import TextFormat

LINES = [f"text {number}" for number in range(20)]
NEVER = ListedWords(begins=lambda: pytest.fail("nothing is left to count"))


def test_the_sums_are_those_of_all_shards_in_order(tmp_path):
    seen = []
    (tmp_path / "a.txt").write_text("\n".join(LINES))
    texts = TextFormat().texts([str(tmp_path / "a.txt")])
    assert process_corpus(ListedWords(), texts, Workplace(), seen.append) == (words_of(LINES), False)
    assert [one.seen.texts for one in seen] == [*range(1, 21), 20, 20]
    assert list_words(tmp_path, []) == (words_of([]), False)


@pytest.mark.parametrize("state", [None, "state"])
def test_an_interruption_leaves_what_is_done_by_then_and_the_same_command_goes_on(tmp_path, state):
    where = {"state": state and str(tmp_path / state)}
    for size in (2**20, 1):  # in the middle of a shard, and between two
        found = list_words(tmp_path, [*LINES, "interrupt", "more"], shard_bytes=size, **where)
        assert found == (words_of(LINES), True)
    if state:
        work = ListedWords(begins=lambda: None)
        assert list_words(tmp_path, LINES, NEVER, **where)[0] == words_of(LINES)
        assert list_words(tmp_path, [*LINES, "more"], work, **where)[0] == words_of([*LINES, "more"])


@pytest.mark.parametrize("state", ["state", "memory://sums/one"])
def test_a_folder_has_the_sums_of_each_request_and_text(tmp_path, state):
    state = state if "://" in state else str(tmp_path / state)
    for work in (ListedWords(), ListedWords(options={"--mask": "causal"})):
        assert list_words(tmp_path, LINES, work, state=state)[0] == words_of(LINES)
    assert list_words(tmp_path, LINES, NEVER, state=state)[0] == words_of(LINES)
    changed = [*LINES[:3], "other", *LINES[4:]]
    assert list_words(tmp_path, changed, state=state)[0] == words_of(changed)


def test_a_file_of_sums_that_is_damaged_or_anothers_is_made_again_and_a_file_is_no_folder(tmp_path):
    state = tmp_path / "state"
    list_words(tmp_path, ["one"], state=str(state))
    [path] = state.iterdir()
    whole = path.read_bytes()
    list_words(tmp_path, ["two"], state=str(state))
    [other] = {*state.iterdir()} - {path}
    for content in (whole[:-9], b"", other.read_bytes()):
        path.write_bytes(content)
        assert list_words(tmp_path, ["one"], state=str(state))[0] == words_of(["one"])
        assert path.read_bytes() == whole
    with pytest.raises(RequestError, match=r"can't keep sums in .*\.npz: File exists"):
        list_words(tmp_path, ["one"], state=str(path))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        *(({"on": on}, "is unknown: use one of here, ray") for on in ("nowhere", "ray:/", "")),
        ({"gpus": 1}, "--worker-gpus needs --on ray"),
        ({"on": "ray", "gpus": 1.5}, "a whole number"),
    ],
)
def test_options_that_no_engine_has_are_refused(options, says):
    with pytest.raises(RequestError, match=says):
        Workplace(**options)


def test_without_ray_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RequestError, match=r'--on ray needs Ray: pip install "\.\[ray\]" in '):
        list_words(tmp_path, ["one"], on="ray")


# --- several processes ------------------------------------------------------------------------------------


def test_two_workers_give_the_sums_of_one_process_and_their_notices_once(tmp_path):
    lines = [*LINES, "notice", "wait", "notice"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert list_words(tmp_path, lines, workers=2)[0] == words_of(lines)
    assert [str(one.message) for one in caught] == ["texts are cut"]


def test_a_worker_that_dies_ends_the_run_with_its_shard_and_the_same_command_goes_on(tmp_path):
    lines, state = ["one", "two", f"die once {tmp_path / 'died'}"], str(tmp_path / "state")
    with pytest.raises(RequestError, match=r"a worker failed while it counted .*corpus\.txt, line 3 to 3"):
        list_words(tmp_path, lines, workers=1, state=state)
    assert len(list(Path(state).iterdir())) == 2
    assert list_words(tmp_path, lines, workers=1, state=state)[0] == words_of(lines)


@pytest.mark.parametrize(
    ("line", "says"), [("raise", "line 2 to 2: it was too much"), ("refuse", "^this text is refused$")]
)
def test_an_error_of_a_worker_ends_the_run(tmp_path, line, says):
    with pytest.raises(RequestError, match=says):
        list_words(tmp_path, ["one", line, "two"], workers=1)


PROGRAM = """
import sys
from pathlib import Path
from counted_words import list_words
if __name__ == "__main__":
    folder, workers = Path(sys.argv[1]), int(sys.argv[2]) or None
    list_words(folder, (folder / "lines").read_text().splitlines(), workers=workers, state=str(folder / "state"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("signals", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_stopped_in_the_middle_leaves_no_process_and_goes_on(tmp_path, workers, signals):
    lines = ["wait"] * 30
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "lines").write_text("\n".join(lines))
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path), str(workers)]
    process = subprocess.Popen(command, env=surroundings)
    state = tmp_path / "state"
    while not state.is_dir() or len(list(state.glob("*.npz"))) < 3:
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signals)
    process.wait()
    kept = len(list(state.glob("*.npz")))
    assert 3 <= kept < 30
    time.sleep(1)
    rows = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in rows
    assert list_words(tmp_path, lines, state=str(state))[0] == words_of(lines)
    assert len(list(state.glob("*.npz"))) == 30


# --- Ray --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster():
    """One for all tests of this file."""
    ray = pytest.importorskip("ray")
    there = {"PYTHONPATH": os.pathsep.join(sys.path)}  # with what is counted in these tests
    ray.init(num_cpus=2, runtime_env={"env_vars": there}, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.slow
def test_ray_counts_a_shard_again_whose_worker_dies(tmp_path, cluster):
    lines = ["one", f"die once {tmp_path / 'died'}", "two", "three"]
    found = list_words(tmp_path, lines, on="ray", workers=2, state=str(tmp_path / "state"))
    assert found[0] == words_of(lines)
    assert list_words(tmp_path, lines, NEVER, state=str(tmp_path / "state"))[0] == words_of(lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "options", "says"),
    [
        ("die", {}, r"a worker failed while it counted .*corpus.txt, line 2 to 2: "),
        ("raise", {}, r"corpus.txt, line 2 to 2: it was too much$"),
        ("refuse", {}, "^this text is refused$"),
        ("one", {"gpus": 0.5}, r"Ray has 0 GPUs, but each worker needs 0\.5: lower --worker-gpus"),
    ],
)
def test_what_fails_on_ray_is_named(tmp_path, cluster, line, options, says):
    with pytest.raises(RequestError, match=says):
        list_words(tmp_path, ["one", line, "two"], on="ray", workers=2, **options)


@pytest.mark.slow
@pytest.mark.parametrize("on", ["here", "ray"])
def test_stats_of_several_workers_are_those_of_one_process(minilm, cluster, on):
    files = [str(Path(__file__).parents[2] / "sample_inputs" / "*.txt")]
    one, several, again = (
        count_files(minilm, files, where=Workplace(shard_bytes=300, **how))
        for how in ({}, {"on": on, "workers": 2}, {"on": on, "workers": 2})
    )
    assert one.texts > 10 and several.document() == again.document()
    np.testing.assert_allclose(several.figures, one.figures, rtol=0, atol=1e-10)
    np.testing.assert_allclose(several.spread, one.spread, rtol=0, atol=1e-10)
