"""Whatever somebody's code does in its process, there is a right document or one clear line, and nothing goes on."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.base.errors import RequestError
from attncli.base.printable import shorten_start
from attncli.checks.code import process
from attncli.checks.code.process import Checking, file_of, line_in, read_message
from attncli.checks.code.result import Check, Diagnosis, Result

SEES_PROCESSES = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are seen in /proc")
RIGHT = "return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v"
START = "import os, sys, time, threading\nimport numpy as np\nimport torch\n\n"
WANTED = {"layout": "batch head token d"}


def attention_that(*acts: str) -> str:
    """Write a file: its line 5 is the function, line 6 the first act."""
    return f"{START}def attention(q, k, v):\n" + "".join(f"    {act}\n" for act in (*acts, RIGHT))


def outcome(folder: Path, text: str, seconds: float = 120.0, gigabytes: float = 1.0) -> str:
    """Return the verdict, or the line that says why there is none."""
    file = folder / "mine.py"
    file.write_text(text)
    try:
        with Checking(f"{file}:attention", WANTED, None, seconds, gigabytes) as checking:
            return checking.result()["verdict"]
    except RequestError as error:
        said = str(error)
        assert len(said) <= 320 and said.isprintable()
        return said.replace(shorten_start(f"{file}:attention"), "it").replace(f"{folder}/", "")


def is_gone(number: int) -> bool:
    """Say whether a process has ended, or ends within a minute."""
    for _ in range(1200):
        try:
            state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state in "ZX":
            return True
        time.sleep(0.05)
    return False


# --- what it may do ---------------------------------------------------------------------------------------

HARMLESS = {
    "prints megabytes": ["print('x' * 10**6); sys.stderr.write('y' * 10**6); os.write(1, b'z' * 10**5)"],
    "closes what it prints to": ["sys.stdout.close(); sys.stderr.close()"],
    "forks": ["os.fork()"],
    "forks and waits": ["if os.fork() == 0: time.sleep(1000)"],
    "has threads without end": ["[threading.Thread(target=time.sleep, args=(1000,)).start() for _ in range(2)]"],
    "ignores signals": ["import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"],
    "changes the folder": ["os.chdir('/')"],
    "changes the default": ["torch.set_default_dtype(torch.float16)"],
    "is no program": ["pass\n    if __name__ == '__main__': os._exit(3)"],
    "sees no accelerator": ["assert not os.environ['CUDA_VISIBLE_DEVICES'] and torch.get_num_threads() == 1"],
    "reads nothing": ["assert sys.stdin.read() == ''"],
}


@pytest.mark.slow
@pytest.mark.parametrize("acts", HARMLESS.values(), ids=HARMLESS)
def test_what_does_no_harm(tmp_path, acts):
    assert outcome(tmp_path, attention_that(*acts)).startswith("right: attention is attention, arrays are [batch, ")


# --- what ends it -----------------------------------------------------------------------------------------

WRITES = "for n in range(3, 20):\n        try: os.write(n, {})\n        except OSError: pass"
ROOM = "it takes more than 1 GB of memory: --memory-limit GB gives it more"
LIE = """b'{"found": {"right": true}}\\n'"""
STEP = """b'{"step": "made"}\\n'"""
CALLED = {
    "crashes": ("import ctypes; ctypes.string_at(0)", "it crashed with SIGSEGV (line 6, WHILE): mend that first."),
    "aborts": ("os.abort()", "it crashed with SIGABRT (line 6, WHILE): mend that first."),
    "is killed": ("os.kill(os.getpid(), 9)", "it was killed (WHILE): was the machine out of memory?"),
    "ends": (
        "print('good\\x1b[31mbye'); os._exit(3)",
        r"it ended its process with exit code 3 (WHILE): remove os._exit or the like. Its last words: good\x1b[31mbye",
    ),
    "closes files": ("os.closerange(0, 4096)", "it closed a pipe that is not its own (WHILE): without it there is no"),
    "writes noise": (WRITES.format(r"b'\xff\n'"), "it sent no result but something else (WHILE): 'utf-8' codec can't"),
    "sends a lie": (WRITES.format(LIE), "it sent no result but something else (WHILE): found has no name. Does it"),
    "patches json": (
        "import json; json.dumps = lambda *a, **k: 'lie'",
        "it sent no result but something else (WHILE): Expecting value: line 1 column 1 (char 0). Does it write",
    ),
    "patches torch": ("torch.Tensor.detach = lambda *a: 1 / 0", "ZeroDivisionError: division by zero (line 6)"),
    "raises no Exception": ("raise KeyboardInterrupt", "attention can't be run: KeyboardInterrupt (line 6)"),
    "leaves another behind that holds our pipes": (
        "os.fork() == 0 and (os.setsid(), time.sleep(8)); os._exit(4)",
        "it ended its process with exit code 4 (WHILE)",
    ),
    "exits": ("sys.exit(3)", "it ends itself by sys.exit(3) (line 6)"),
    "calls itself for ever": ("attention(q, k, v)", "RecursionError: maximum recursion depth exceeded (line 6)"),
    "takes it all, by torch": ("torch.empty(25 * 10**9)", f"attention stops: {ROOM}"),
    "takes it all, by numpy": ("np.ones(10**10)", f"attention stops: {ROOM}"),
    "takes it all, bit by bit": ("[bytearray(10**6) for _ in range(10**5)]", f"attention stops: {ROOM}"),
    "gives 8 TB": ("return torch.zeros(1).expand(10**12)", "has the output's shape: [1000000000000];"),
    "gives no numbers": (
        "return q.to('meta')",
        "it can't be run: NotImplementedError: Cannot copy out of meta tensor;",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("act", "said"), CALLED.values(), ids=CALLED)
def test_what_ends_it_is_told(tmp_path, act, said):
    line = outcome(tmp_path, attention_that(act))
    assert said.replace("WHILE", "while it was being called") in line


OPENED = {
    "raises": ("raise ValueError('odd\\nand more')", "mine.py can't be run: ValueError: odd (line 1)"),
    "is no Python": ("def f(:", "mine.py can't be read: SyntaxError: invalid syntax (line 1)"),
    "ends": ("import os; os._exit(5)", "it ended its process with exit code 5 (while it was being opened): remove"),
    "crashes": ("\nimport ctypes; ctypes.string_at(0)", "it crashed with SIGSEGV (line 2, while it was being opened)"),
    "has another name": ("def other(): pass", "mine.py has no 'attention': it has other"),
    "cannot be made": (
        "class attention:\n    def __init__(self): raise ValueError('odd')\n    def __call__(self): pass",
        "attention can't be made: ValueError: odd (line 2)",
    ),
    "takes it all": ("import torch\nx = torch.ones(25 * 10**9)", f"mine.py can't be run: {ROOM} (line 2)"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("text", "said"), OPENED.values(), ids=OPENED)
def test_what_cannot_be_opened_is_told(tmp_path, text, said):
    assert said in outcome(tmp_path, text)


LOOPS = {
    "opened": ("while True: pass", "line 1, while it was being opened"),
    "opened, a maker": ("def attention():\n    while True: pass", "line 2, while it was being opened"),
    "made": (
        "class attention:\n    def __init__(self):\n        while True: pass\n    __call__ = print",
        "line 3, while it was being made",
    ),
    "called, prints": (attention_that("while True: print('x' * 1000)"), "line 6, while it was being called"),
    "called, in C": (
        attention_that("__import__('re').match('(a+)+$', 'a' * 60 + 'b')"),
        "line 6, while it was being called",
    ),
    "called, past the limit": (
        attention_that("import faulthandler; faulthandler.cancel_dump_traceback_later()\n    while True: pass"),
        "while it was being called",
    ),
    "stopped": (attention_that("os.kill(os.getpid(), 19)"), "while it was being called"),
    "floods": (attention_that(f"while True:\n      {WRITES.format(STEP)}"), "line 8, while it was being made"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("text", "where"), LOOPS.values(), ids=LOOPS)
def test_what_has_no_end_is_ended(tmp_path, text, where):
    for seconds in (6, 30, 120):  # a busy machine takes so long to import torch
        said = outcome(tmp_path, text, seconds)
        if where in said:
            break
    assert re.fullmatch(rf"it did not finish within {seconds} s \((line \d, )?{where}\)\. If it is no endless .*", said)


# --- what is left -----------------------------------------------------------------------------------------


@pytest.mark.slow
@SEES_PROCESSES
def test_nothing_that_it_started_goes_on(tmp_path):
    act = "import subprocess; other = subprocess.Popen(['sleep', '1000'])"
    note = f"open({str(tmp_path / 'numbers')!r}, 'a').write(f'{{os.getpid()}} {{other.pid}} ')"
    assert outcome(tmp_path, attention_that(act, note)).startswith("right")
    numbers = set((tmp_path / "numbers").read_text().split())
    assert len(numbers) > 2 and all(is_gone(int(number)) for number in numbers)


ASKING = """
import sys
from attncli.checks.code.process import Checking
with Checking(sys.argv[1], {}) as checking:
    print(checking.child.pid, "torch" in sys.modules, flush=True)
    checking.result()
"""


@pytest.mark.slow
@SEES_PROCESSES
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_whoever_asks(tmp_path, by):
    file = tmp_path / "mine.py"
    file.write_text(f"open({str(tmp_path / 'begun')!r}, 'w')\nwhile True: pass\n")
    asking = subprocess.Popen(
        [sys.executable, "-c", ASKING, f"{file}:f"],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    with asking:
        number, torch_there = asking.stdout.readline().split()
        while not (tmp_path / "begun").exists():
            assert asking.poll() is None
            time.sleep(0.05)
        os.kill(asking.pid, by)
        _, said = asking.communicate(timeout=300)
    assert asking.returncode == -by and is_gone(int(number)) and torch_there == "False"
    assert {one.name for one in tmp_path.iterdir()} == {"mine.py", "begun"}
    assert ("KeyboardInterrupt" in said) == (by == signal.SIGINT)


def test_what_has_its_number_later_is_let_be(tmp_path, monkeypatch):
    killed = []
    monkeypatch.setattr(process.os, "killpg", lambda *which: killed.append(which))
    with Checking(str(tmp_path / "mine.py"), {}) as checking:
        checking.kill()
    assert killed == [(checking.child.pid, signal.SIGKILL)] and not checking.dying.exists()


@pytest.mark.slow
def test_nothing_of_the_current_folder_is_run(tmp_path, monkeypatch):
    """Python would look there first."""
    for name in ("torch", "json", "attncli", "queue", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('run')")
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    assert outcome(tmp_path / "mine", attention_that("pass")).startswith("right")


# --- what it sends ----------------------------------------------------------------------------------------

CHECKS = (Check("masks", False, math.inf), Check("float32", None, note="no"))
DOCUMENT = Result("f", "attention", CHECKS, ("c",), (Diagnosis("m", "s", "r", 3, "t"),), "x", "h").document()
MAPS = {"layer": 0, "head": 1, "tokens": ["a"], "shown": ["a"], "theirs": [[math.nan]], "ours": [[1.0]]}


def message(**changes: object) -> bytes:
    return json.dumps({"found": DOCUMENT | changes}).encode()


def test_a_document_arrives_as_it_was():
    for changes in ({}, {"more": 3}, {"maps": {**MAPS, "theirs": None, "more": "x"}}):
        assert read_message(message(**changes)) == {"found": DOCUMENT | changes}
    assert math.isnan(read_message(message(maps=MAPS))["found"]["maps"]["theirs"][0][0])


LIES = [
    b"",
    b"\xff" * 100,
    b"null",
    b"{}",
    b"[" * 10**6,
    b'{"step": "fooled"}',
    b'{"step": "made", "refused": "no"}',
    b'{"refused": 3}',
    b'{"found": null}',
    message(right="yes"),
    message(name=None),
    message(verdict="x" * (10**6 + 1)),
    message(checks=[3]),
    message(checks=[{"name": "f", "holds": "no", "difference": None, "note": ""}]),
    message(checks=[{"name": "f", "holds": True, "difference": math.nan, "note": ""}]),
    message(diagnosis=[{"remedy": "r", "line": -1, "text": ""}]),
    message(maps={**MAPS, "ours": [3]}),
    message(maps={**MAPS, "layer": True}),
]


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: ascii(lie)[:60])
def test_a_lie_is_refused(lie):
    with pytest.raises(ValueError, match=r"\w"):
        read_message(lie)


@given(st.data())
def test_a_damaged_message_is_refused_or_says_something_else(data):
    damaged = bytearray(message(maps=MAPS))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ValueError):  # anything else would be an error of the program
        assert set(read_message(bytes(damaged))) == {"found"}


CRASH = """Fatal Python error: Segmentation fault

Current thread 0x00007f0c (most recent call first):
  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at
  File "/home/somebody/mine.py", line 5 in attention
  File "/home/somebody/mine.py", line 9 in forward

Thread 0x00007f0d (most recent call first):
  File "/home/somebody/mine.py", line 70 in waiting
"""
LATE = """Timeout (0:00:04)!
Thread 0x00007f0d (most recent call first):
  File "/home/somebody/mine.py", line 70 in waiting

Thread 0x00007f0c (most recent call first):
  File "/usr/lib/python3.11/random.py", line 1 in random
  File "/home/somebody/mine.py", line 5 in attention
"""


def test_where_it_died():
    assert line_in(CRASH, "mine.py") == "5" == line_in(LATE, "mine.py")
    for said in ("", "Timeout (0:00:04)!", CRASH[:40], CRASH.replace("mine", "yours"), CRASH.replace("mine.", "mine_")):
        assert line_in(said, "mine.py") == ""


def test_the_file_as_python_writes_it():
    expected = {"a/b.py:C": "b.py", "a/b.py": "b.py", "package.module:C": "module.py", "module": "module.py"}
    assert {what: file_of(what) for what in expected} == expected and file_of("é☃.py:C") == r"\xe9\u2603.py"
