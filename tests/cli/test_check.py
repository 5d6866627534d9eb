"""attncli check: what is right, what is wrong, what can't be checked, and files that do harm."""

import json
import signal
import subprocess
import sys
import time

import pytest
from own_attention import MINE
from shell import environment
from terminals import ESCAPES, at_a_terminal

import attncli as package

BODY = "return torch.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, -1) @ v"
TOO_DEEP = """class attention:
    def forward(self, x): return x
    def __init__(self, depth): pass"""
# Files whose function is called attention, and what is said of them.
HOSTILE = {
    "import os\ndef attention(q, k, v):\n    os._exit(3)": "attention ended its process with exit code 3 (while it",
    "import sys\ndef attention(q, k, v):\n    sys.exit('bye')": "it ends itself by sys.exit(bye) (line 3)",
    "import ctypes\ndef attention(q, k, v):\n    ctypes.string_at(0)": "attention crashed with SIGSEGV (line 3, ",
    "import torch\ndef attention(q, k, v):\n    return torch.zeros(100 * 2**30)": "takes more than 4 GB of memory",
    "def attention(q, k, v):\n    kept = []\n    while True:\n        kept.append(bytearray(2**26))": "more than 4 GB",
    "def attention(q, k, v):\n    raise ValueError('\\x1b[31mred\\x07\\n')": r"ValueError: \x1b[31mred\x07 (line 2)",
    "def attention(q, k, v)\n    return v": "mine.py can't be read: SyntaxError: expected ':' (line 1)",
    "raise ImportError('no jax')": "mine.py can't be run: ImportError: no jax (line 1)",
    "def attention(q, k, v):\n    return 'weights'": "none of what it gives has the output's shape: nothing; is "
    "it called otherwise? --map, --layout",
}


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """`mine(text)` -> writes it as mine.py, in the folder that we are in."""
    monkeypatch.chdir(tmp_path)

    def write(text: str = MINE) -> None:
        (tmp_path / "mine.py").write_text(text, encoding="utf-8")

    write()
    return write


# --- what is refused before anything runs -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mine.py:unscaled", "A text."], "TEXT has no effect without -m"),
        (["mine.py:unscaled", "-l", "3"], "--layer has no effect without -m"),
        (["mine.py:unscaled", "--map", "q"], "--map 'q' is no NAME=VALUE"),
        (["mine.py:unscaled", "--give", "=3"], "--give '=3' is no NAME=VALUE"),
        (["mine.py:unscaled", "--time-limit", "0"], "--time-limit 0 is out of range: give one from 0.1 to 86400"),
        (["mine.py:unscaled", "--time-limit", "nan"], "--time-limit nan is out of range"),
        (["mine.py:unscaled", "--memory-limit", "1e9"], "--memory-limit 1e+09 is out of range"),
    ],
)
def test_what_has_no_effect_or_no_sense_is_refused(mine, refused, arguments, said):
    assert said in refused("check", *arguments)


# --- right, wrong, not checkable --------------------------------------------------------------------------


def test_a_wrong_one_is_named_and_ends_in_1(mine, attncli):
    done = attncli("check", "mine.py:unscaled")
    assert (done.code, done.err) == (1, "")
    assert "wrong: unscaled is attention without the division by √d_k" in done.out
    assert "line 14 has `return torch.softmax(q @ k.transpose(-2, -1), -1) @ v` (a guess" in done.out


@pytest.mark.slow
def test_a_right_one_ends_in_0_and_its_document_is_all_that_is_printed(mine, attncli):
    mine(f"import os, sys\n{MINE}\nprint('aloud')\nos.write(1, b'raw')\nprint('words', file=sys.stderr)\n")
    done = attncli("check", "mine.py:MyAttention", "--json")
    document = json.loads(done.out)
    assert (done.code, done.err) == (0, "")
    assert document["right"] is True and document["diagnosis"] == [] and document["smallest"] is None
    assert set(document["checks"][0]) == {"name", "holds", "difference", "note"}
    assert any(one.startswith("mask: True = allowed, as [query, key]") for one in document["conventions"])
    assert not any(check["holds"] is False for check in document["checks"])


@pytest.mark.slow
def test_a_mask_that_means_what_was_said(mine, attncli):
    assert attncli("check", "mine.py:MyAttention", "--mask-means", "allowed").code == 0
    done = attncli("check", "mine.py:MyAttention", "--mask-means", "forbidden", "--json")
    assert done.code == 1
    assert [one["mistake"] for one in json.loads(done.out)["diagnosis"]] == ["mask inverted"]


@pytest.mark.slow
def test_what_a_query_gives_that_may_see_nothing(mine, attncli):
    assert attncli("check", "mine.py:attention").code == 0
    assert attncli("check", "mine.py:attention", "--nowhere", "zero-or-nan").code == 1
    assert attncli("check", "mine.py:MyAttention", "--nowhere", "zero").code == 1  # it gives NaN


@pytest.mark.slow
def test_what_is_said_of_names_layouts_and_constructors(mine, attncli, refused):
    assert attncli("check", "mine.py:WithDepth", "--give", "depth=3").code == 0
    assert "--give width: WithDepth's constructor has no such parameter" in refused(
        "check", "mine.py:WithDepth", "--give", "depth=3", "--give", "width=4"
    )
    assert "--give n: unscaled's constructor has no such parameter" in refused(
        "check", "mine.py:unscaled", "--give", "n=1"
    )
    mine(MINE.replace("self.q,", "self.first,").replace("self.q(", "self.first("))
    assert "--map NAME=query says which it is" in attncli("check", "mine.py:WithDepth", "--give", "depth=3").err
    mapped = ["check", "mine.py:WithDepth", "--give", "depth=3", "--map"]
    assert attncli(*mapped, "first=query").code == 0
    assert "--map 'other': nothing has this name; there is x, first, k, v" in refused(*mapped, "other=query")
    assert "--map 'first=what': that is none of x, query, " in refused(*mapped, "first=what")
    mine(f"import torch\ndef attention(q, k, v):\n    {BODY}")
    assert attncli("check", "mine.py", "--layout", "batch token d").code == 0
    assert "--layout 'token of d' is none of: batch head token d, " in refused(
        "check", "mine.py", "--layout", "token of d"
    )
    for option in (["--mask-means", "allowed"], ["--nowhere", "nan"]):
        assert f"{option[0]} has no effect, as attention takes no mask" in refused("check", "mine.py", *option)


@pytest.mark.slow
def test_a_layers_weights(mine, attncli):
    done = attncli("check", "mine.py:MyAttention", "-m", "minilm", "-l", "3", "-H", "1", "The cat sat.")
    assert (done.code, done.err) == (0, "")
    assert any("3.1 of the model" in line and "3.1 by MyAttention" in line for line in done.out.splitlines())
    maps = json.loads(attncli("check", "mine.py:MyAttention", "-m", "minilm", "-l", "3", "-H", "1", "--json", "Hi").out)
    assert maps["maps"]["tokens"] == ["[CLS]", "hi", "[SEP]"]
    for theirs, ours in zip(maps["maps"]["theirs"], maps["maps"]["ours"], strict=True):
        assert theirs == pytest.approx(ours, abs=1e-5)


@pytest.mark.slow
def test_a_module_by_its_path(mine, tmp_path, attncli, refused):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "own.py").write_text(MINE, encoding="utf-8")
    assert attncli("check", "package.own:MyAttention").code == 0
    assert "no module 'package.other' is in this folder or installed" in refused("check", "package.other:MyAttention")
    assert "mine.py has no 'Other': it has attention, unscaled" in refused("check", "mine.py:Other")
    assert "mine.py has 4 functions and classes: mine.py:attention, or unscaled" in refused("check", "mine.py")
    assert "'none.py' can't be read (No such file or directory)" in refused("check", "none.py:attention")


@pytest.mark.slow
@pytest.mark.parametrize("thing", ["MyAttention", "unscaled"])
def test_three_lines_of_pytest(thing):
    """As attncli/attention/README.md has it."""
    space: dict = {}
    exec(MINE, space)
    found = package.check(space[thing])
    assert found.right == (thing == "MyAttention"), found
    assert str(found).startswith("right: " if found.right else "wrong: unscaled is attention without the division")


# --- files that do harm -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text.splitlines()[-1].strip()[:40])
def test_harm_ends_in_a_line(mine, refused, text):
    mine(text)
    line = refused("check", "mine.py:attention" if "def" in text else "mine.py")
    assert HOSTILE[text] in line and len(line) <= 320 and line.isprintable()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "reason", "adapter"),
    [
        (
            "def attention(one, two, three, four, five):\n    return one",
            "--map one=query (or key, value, x, ",
            "    return attention(one=..., two=..., three=..., four=..., five=...)",
        ),
        (
            TOO_DEEP,
            "--give depth=VALUE, or an adapter at the end of the file",
            "    def __init__(self, d_model, heads): super().__init__(depth=...)",
        ),
    ],
)
def test_an_adapter_is_printed_above_the_reason(mine, attncli, text, reason, adapter):
    mine(text)
    done = attncli("check", "mine.py:attention")
    *lines, last = done.err.splitlines()
    assert (done.code, done.out, len(lines)) == (2, "", 3) and adapter in lines and reason in last


@pytest.mark.slow
@pytest.mark.parametrize("text", ["while True: pass", "def attention(q, k, v):\n    while True: pass"])
def test_a_loop_without_end(mine, refused, text):
    mine(text)
    for seconds in (8, 30, 120):  # a busy machine takes so long to import torch
        line = refused("check", "mine.py:attention", "--time-limit", str(seconds))
        if f"did not finish within {seconds} s (line {len(text.splitlines())}, while it was being " in line:
            return
    pytest.fail(line)


@pytest.mark.slow
def test_interrupted(mine, tmp_path):
    mine("import pathlib\npathlib.Path('begun').touch()\nwhile True: pass")
    process = subprocess.Popen(
        [sys.executable, "-m", "attncli", "check", "mine.py"],
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=environment(),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    while not (tmp_path / "begun").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert (process.returncode, b"Traceback" in said) == (130, False)


@pytest.mark.slow
def test_nothing_of_theirs_reaches_the_terminal(mine, tmp_path):
    mine(
        f"import torch\ndef attention(q, k, v):\n    {BODY.replace('/ q.shape[-1] ** 0.5', '')}  # \x1b[31m\n"
        "attention.__name__ = attention.__qualname__ = '\\x1b]0;title\\x07red'\n"
    )
    code, text = at_a_terminal(["check", "mine.py:attention"], tmp_path, columns=44, NO_COLOR="1")
    assert code == 1 and "wrong: " in text
    assert "\x1b]" not in text and "\x1b[31m" not in text and "\x07" not in text
    assert all(len(line) <= 44 for line in ESCAPES.sub("", text).splitlines())
