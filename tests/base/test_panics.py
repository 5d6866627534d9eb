"""Panics of libraries written in Rust, made with a pattern that `tokenizers` gives up on."""

import os
import subprocess
import sys
import threading
import time

import pytest
import tokenizers

from attncli.base.errors import Panic, quiet_panics


@pytest.fixture
def panic():
    """`panic()`: the library gives up, with words on stderr."""
    backtracking = tokenizers.pre_tokenizers.Split(tokenizers.Regex("(x+x+)+y"), "isolated")
    return lambda: backtracking.pre_tokenize_str("x" * 60)


@pytest.mark.parametrize("backtrace", ["0", "1", "full"])
def test_a_panic_is_an_exception_of_one_line_and_nothing_is_written(backtrace, panic, capfd, monkeypatch):
    monkeypatch.setenv("RUST_BACKTRACE", backtrace)
    for _ in range(2):
        with pytest.raises(Panic, match=r"^Onig: Regex search error: retry-limit-in-match over$"), quiet_panics():
            panic()
    os.write(2, b"heard again")
    assert capfd.readouterr().err == "heard again"


@pytest.mark.parametrize("other", [KeyboardInterrupt, SystemExit, ValueError("no"), MemoryError])
def test_whatever_else_happens_comes_through(other, capfd):
    with pytest.raises(other if isinstance(other, type) else type(other)), quiet_panics():
        raise other
    os.write(2, b"heard again")
    assert capfd.readouterr().err == "heard again"


def test_threads_that_do_so_at_once_all_find_back(capfd):
    def often():
        for _ in range(100):
            with quiet_panics():
                time.sleep(0.0001)  # another one's turn

    threads = [threading.Thread(target=often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.write(2, b"heard again")
    assert capfd.readouterr().err == "heard again"


def test_where_stderr_is_closed_there_is_nothing_to_turn_away():
    code = (
        "import os\nfrom attncli.base.errors import quiet_panics\nbefore = sorted(os.listdir('/dev/fd'))\n"
        "with quiet_panics():\n    print('done')\nassert sorted(os.listdir('/dev/fd')) == before"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, stdout=subprocess.PIPE, preexec_fn=lambda: os.close(2), check=True, text=True)
    assert done.stdout == "done\n"
