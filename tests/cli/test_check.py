"""attncli check of a file: what is right, what is wrong, what can't be checked, and files that do harm."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from own_attention import MINE
from shell import environment
from terminals import ESCAPES, at_a_terminal

SEES_PROCESSES = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are seen in /proc")
RIGHT = "return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v"


def attention_that(*acts):
    """Return a file: line 5 is its function, line 6 the first act."""
    lines = "".join(f"    {act}\n" for act in (*acts, RIGHT))
    return f"import os, sys, time, threading\nimport numpy as np\nimport torch\n\ndef attention(q, k, v):\n{lines}"


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """`mine(text)` -> writes it as mine.py, in the current folder."""
    monkeypatch.chdir(tmp_path)

    def write(text=MINE):
        (tmp_path / "mine.py").write_text(text, encoding="utf-8", errors="surrogateescape")

    write()
    return write


# --- right, wrong, not checkable --------------------------------------------------------------------------


@pytest.mark.slow
def test_a_wrong_one_is_named_and_ends_in_1(mine, attncli):
    done = attncli("check", "mine.py:unscaled")
    assert (done.code, done.err) == (1, "")
    assert "wrong: unscaled computes attention without the division by √d_k" in done.out
    assert "probably line 14, `return torch.softmax(q @ k.transpose(-2, -1), -1) @ v`: " in done.out


@pytest.mark.slow
def test_a_right_one_ends_in_0_and_only_its_document_is_printed(mine, attncli):
    mine(f"import os, sys\n{MINE}\nprint('aloud')\nos.write(1, b'raw')\nprint('words', file=sys.stderr)\n")
    done = attncli("check", "mine.py:MyAttention", "--json")
    document = json.loads(done.out)
    assert (done.code, done.err, document["right"], document["diagnosis"]) == (0, "", True, [])
    assert any(one.startswith("mask: True = allowed, as [query, key]") for one in document["conventions"])


@pytest.mark.slow
def test_options_reach_the_check(mine, attncli, refused):
    assert attncli("check", "mine.py:attention", "--nowhere", "zero-or-nan").code == 1


@pytest.mark.slow
def test_the_weights_of_a_layer(mine, attncli):
    done = attncli("check", "mine.py:MyAttention", "-m", "minilm", "-l", "3", "-H", "1", "The cat sat.")
    assert (done.code, done.err) == (0, "")
    assert any("3.1 of the model" in line and "3.1 by MyAttention" in line for line in done.out.splitlines())
    for name, right in (("MyAttention", True), ("unscaled", False)):
        done = attncli("check", f"mine.py:{name}", "-m", "minilm", "-l", "3", "-H", "1", "--json", "Hi")
        document = json.loads(done.out)
        maps = [one for one in document["checks"] if one["name"].startswith("with layer 3's")]
        assert document["right"] == right and {one["holds"] for one in maps} == {right} and len(maps) == 2
        assert document["maps"]["tokens"] == ["[CLS]", "hi", "[SEP]"]
        for theirs, ours in zip(document["maps"]["theirs"], document["maps"]["ours"], strict=True):
            assert (theirs == pytest.approx(ours, abs=1e-5)) == right and sum(ours) == pytest.approx(1)


@pytest.mark.slow
def test_a_layer_with_biases_does_not_fit_into_code_without(mine, attncli):
    mine(MINE.replace("nn.Linear(d_model, d_model)", "nn.Linear(d_model, d_model, bias=False)"))
    done = attncli("check", "mine.py:MyAttention", "-m", "minilm", "-l", "3", "-H", "1", "--json", "Hi")
    found = [one for one in json.loads(done.out)["checks"] if one["name"].startswith("with layer 3's")]
    said = "the projection of the query has a bias in the model, but none in this code"
    assert done.code == 0 and [(one["holds"], one["note"]) for one in found] == [(None, said)] * 2


@pytest.mark.slow
def test_weights_of_a_model_with_positions_in_its_scores_are_refused(mine, tiny, refused):
    line = refused("check", "mine.py:MyAttention", "-m", str(tiny("deberta-v2")), "-l", "0", "-H", "0", "the cat")
    assert "the scores of deberta-v2 depend on positions: use a model whose scores don't" in line


@pytest.mark.slow
def test_files_modules_and_names_inside(mine, tmp_path, attncli, refused):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "own.py").write_text(MINE, encoding="utf-8")
    (tmp_path / "random.py").write_text(attention_that("import random, beside; random.random()"))
    (tmp_path / "beside.py").touch()
    assert attncli("check", "package.own:MyAttention").code == attncli("check", "random.py:attention").code == 0
    mine(f"import torch\nclass Outer:\n  class Inner:\n    def __call__(self, q, k, v):\n      {RIGHT}\nthree = 3\n")
    assert attncli("check", "mine.py:Outer.Inner").code == 0
    for what, said in {
        "package.other:MyAttention": "no module 'package.other' is in this folder or installed",
        "package": "package defines no public function or class: FILE.py:NAME says what to check",
        "package/own.py:Other": "package/own.py has no 'Other': it has attention, unscaled",
        "package/own.py": "package/own.py defines 3 functions and classes: check package/own.py:attention, or unscaled",
        "mine.py:three": "mine.py:three is not a function, class or module, but of type int",
        "none.py:attention": "'none.py' can't be read (No such file or directory)",
        "package.py:f": "'package.py' can't be read",
        f"{'x' * 5000}.py:f": f"'{'x' * 39}…' can't be read (File name too long)",
    }.items():
        assert said in refused("check", what)


# --- files that do no harm --------------------------------------------------------------------------------

HARMLESS = {
    "prints megabytes": "print('x' * 10**6); sys.stderr.write('y' * 10**6); os.write(1, b'z' * 10**5)",
    "closes its output": "sys.stdout.close(); sys.stderr.close()",
    "forks and waits": "if os.fork() == 0: time.sleep(1000)",
    "has endless threads": "[threading.Thread(target=time.sleep, args=(1000,)).start() for _ in range(2)]",
    "changes the folder and the default": "os.chdir('/'); torch.set_default_dtype(torch.float16)",
    "is no program": "pass\n    if __name__ == '__main__': os._exit(3)",
    "reads nothing": "assert sys.stdin.read() == ''",
}


@pytest.mark.slow
@pytest.mark.parametrize("act", HARMLESS.values(), ids=HARMLESS)
def test_what_does_no_harm_is_right(mine, attncli, act):
    mine(attention_that(act))
    done = attncli("check", "mine.py", "--json")
    assert (done.code, done.err, json.loads(done.out)["right"]) == (0, "", True)


@pytest.mark.slow
def test_nothing_of_the_current_folder_is_run(mine, tmp_path, attncli):
    for name in ("torch", "json", "attncli", "queue", "sitecustomize"):  # Python would look here first
        (tmp_path / f"{name}.py").write_text("raise SystemExit('run')")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/own.py").write_text(attention_that("pass"))
    assert attncli("check", "deep/own.py").code == 0


# --- files that do harm -----------------------------------------------------------------------------------

ROOM = "takes more than 1 GB of memory: give it more with --memory-limit GB"
TOO_DEEP = "class attention:\n  def forward(self, x): return x\n  def __init__(self, depth): pass"
# An act of a function, and a part of the line that follows. CALLED: while it was being called.
ACTS = {
    "import ctypes; ctypes.string_at(0)": "attention crashed with SIGSEGV (line 6, CALLED): fix that first.",
    "os.kill(os.getpid(), 9)": "attention was killed (CALLED): was the machine out of memory?",
    "print('good\\x1b[31mbye'); os._exit(3)": "ended its process with exit code 3 (CALLED): remove os._exit or the "
    r"like. Its last output: good\x1b[31mbye",
    "import json; json.dumps = lambda *a, **k: 'lie'": "mine.py:attention writes to the pipe for attncli's result",
    "torch.Tensor.detach = lambda *a: 1 / 0": "it can't be run: ",
    "raise ValueError('\\x1b[31mred\\x07\\n')": r"ValueError: \x1b[31mred\x07 (line 6)",
    "sys.exit('bye')": "it calls sys.exit(bye) (line 6)",
    "attention(q, k, v)": "RecursionError: maximum recursion depth exceeded (line 6)",
    "torch.empty(25 * 10**9)": ROOM,
    "np.ones(10**10)": ROOM,
    "return torch.zeros(1).expand(10**12)": "nothing that it returns has the output's shape: [1000000000000]:",
    "return 'weights'": "the output's shape: nothing: paste an adapter below the code and check it",
}
TEXTS = {
    "raise ImportError('no jax\\nand more')": "mine.py can't be run: ImportError: no jax (line 1)",
    "def f(:": "mine.py can't be read: SyntaxError: invalid syntax (line 1)",
    "import os; os._exit(5)": "ended its process with exit code 5 (while it was being opened): remove os._exit",
    "\n\nexit()": "run: it calls sys.exit() (line 3)",
    "def other(): pass": "mine.py has no 'attention': it has other",
    "class attention:\n  def __init__(self): raise ValueError('odd')\n  __call__ = print": "made: ValueError: odd",
    "import torch\nx = torch.ones(25 * 10**9)": f"mine.py can't be run: it {ROOM} (line 2)",
    "def attention(one, two, three, four, five):\n    return one": "role of the parameter 'one' is unknown: paste",
    TOO_DEEP: "attention needs 'depth', whose role is unknown: paste an adapter below the code",
}
HARM = {attention_that(act): said.replace("CALLED", "while it was being called") for act, said in ACTS.items()} | TEXTS


@pytest.mark.slow
@pytest.mark.parametrize("text", HARM, ids=[ascii(one)[:40] for one in (*ACTS, *TEXTS)])
def test_harm_ends_in_a_line(mine, attncli, text):
    mine(text)
    done = attncli("check", "mine.py:attention", "--memory-limit", "1")
    *adapter, line = done.err.splitlines()
    assert (done.code, done.out) == (2, "") and (not adapter or adapter[0].startswith("attncli: paste this adapter"))
    assert HARM[text] in line and len(line) <= 330 and line.isprintable()


LOOPS = {
    "while True: pass": "line 1, while it was being opened",
    "def attention():\n    while True: pass": "line 2, while it was being opened",
    "class attention:\n  __call__ = print\n  def __init__(self):\n    while 1: pass": "line 4, while it was being made",
    attention_that("while True: print('x' * 1000)"): "line 6, while it was being called",
    attention_that("__import__('re').match('(a+)+$', 'a' * 60 + 'b')"): "line 6, while it was being called",
    attention_that("import faulthandler; faulthandler.cancel_dump_traceback_later()\n    while True: pass"): "called",
    attention_that("os.kill(os.getpid(), 19)"): "while it was being called",
}


@pytest.mark.slow
@pytest.mark.parametrize("text", LOOPS, ids=lambda text: ascii(text[-60:]))
def test_an_endless_loop_is_ended(mine, refused, text):
    mine(text)
    for seconds in (6, 30, 120):  # a busy machine takes so long to import torch
        line = refused("check", "mine.py:attention", "--time-limit", str(seconds))
        if LOOPS[text] in line and (f"did not finish within {seconds} s" in line or not LOOPS[text]):
            return
    pytest.fail(line)


# --- what is left -----------------------------------------------------------------------------------------


def is_gone(number):
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


@pytest.mark.slow
@SEES_PROCESSES
def test_nothing_that_it_started_goes_on(mine, tmp_path, attncli):
    act = "import subprocess; other = subprocess.Popen(['sleep', '1000'])"
    mine(attention_that(act, "open('numbers', 'a').write(f'{os.getpid()} {other.pid} ')"))
    assert attncli("check", "mine.py").code == 0
    numbers = set((tmp_path / "numbers").read_text().split())
    assert len(numbers) > 2 and all(is_gone(int(number)) for number in numbers)


@pytest.mark.slow
@pytest.mark.parametrize("keys", ["1", "(1, 2)", "'\\ud800'"])
def test_keys_of_what_it_returns_may_be_anything(mine, attncli, keys):
    mine(attention_that(f"return {{{keys}: {RIGHT.removeprefix('return ')}}}"))
    assert attncli("check", "mine.py").code == 0


@pytest.mark.slow
@SEES_PROCESSES
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_the_command(mine, tmp_path, by):
    mine("import os, pathlib\npathlib.Path('begun').write_text(str(os.getpid()))\nwhile True: pass")
    command = subprocess.Popen(
        [sys.executable, "-m", "attncli", "check", "mine.py"],
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=environment(),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    begun = tmp_path / "begun"
    while not (begun.exists() and begun.read_text()):
        assert command.poll() is None
        time.sleep(0.05)
    os.kill(command.pid, by)
    _, said = command.communicate(timeout=300)
    assert is_gone(int(begun.read_text())) and b"Traceback" not in said
    assert command.returncode == 130 if by == signal.SIGINT else command.returncode in (-by, 128 + by)


@pytest.mark.slow
def test_nothing_of_the_file_commands_the_terminal(mine, tmp_path):
    mine(
        f"import torch\ndef attention(q, k, v):\n    {RIGHT.replace('/ q.shape[-1] ** 0.5', '')}  # \x1b[31m\n"
        "attention.__name__ = attention.__qualname__ = '\\x1b]0;title\\x07red'\n"
    )
    code, text = at_a_terminal(["check", "mine.py:attention"], tmp_path, columns=44, NO_COLOR="1")
    assert code == 1 and "wrong: " in text and not re.search(r"\x1b\]|\x1b\[31m|\x07", text)
    assert all(len(line) <= 44 for line in ESCAPES.sub("", text).splitlines())
