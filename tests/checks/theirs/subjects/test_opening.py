"""Somebody's file is run as their own program would be, and what stands under a name in it is found."""

import dataclasses
import inspect
import pickle
import sys
from pathlib import Path

import pytest

from attncli.base.errors import RequestError
from attncli.checks.theirs.subjects.opening import opened, split

FILE = """
import sys
from dataclasses import dataclass
from math import sqrt
import beside

SAID = (__name__, sys.argv[:], sys.path[0], __file__)
three = 3

def attention(q, k, v):
    return q

def _part():
    pass

@dataclass
class Sizes:
    heads: int = 4

class Outer:
    class Inner:
        def __call__(self, x):
            return x

    def __getattr__(self, name):
        raise ValueError("odd")

odd = Outer()

if __name__ == "__main__":
    raise SystemExit("run as a program")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """One with a file, a module beside it and a package; what is imported is forgotten."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/mine.py").write_text(FILE)
    (tmp_path / "deep/beside.py").write_text("def helper(): pass\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package/__init__.py").write_text("")
    (tmp_path / "package/module.py").write_text("def attention(q): return q\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(sys, "argv", ["attncli", "check", "deep/mine.py"])
    before = dict(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - set(before):
        del sys.modules[name]


def test_a_function_of_a_file(folder):
    attention = opened("deep/mine.py:attention")
    name, arguments, first, file = attention.__globals__["SAID"]
    assert (name, arguments, first) == ("mine", ["deep/mine.py"], str(folder / "deep"))
    assert file == str(folder / "deep/mine.py") and Path.cwd() == folder
    assert inspect.getsource(attention) == "def attention(q, k, v):\n    return q\n"
    assert not list(folder.glob("deep/__pycache__/mine*"))  # nothing of ours is left beside it


def test_what_is_opened_is_a_module_for_everybody(folder):
    made = opened("deep/mine.py:Sizes")(2)
    assert pickle.loads(pickle.dumps(made)) == made and dataclasses.asdict(made) == {"heads": 2}
    assert inspect.getmodule(type(made)) is sys.modules["mine"]


def test_a_name_inside_a_name(folder):
    assert opened("deep/mine.py:Outer.Inner").__qualname__ == "Outer.Inner"


def test_a_module(folder):
    assert opened("package.module:attention").__module__ == "package.module"
    assert opened("package.module").__name__ == "attention"


def test_a_file_takes_no_module_s_place(folder):
    (folder / "random.py").write_text("def attention(q): return q\n")
    import random

    assert opened("random.py:attention").__module__ == "random_"
    assert sys.modules["random"] is random


def test_the_one_that_stands_there_needs_no_name(folder):
    (folder / "one.py").write_text("from math import sqrt\nfrom pathlib import Path\ndef attention(q): return q\n")
    assert opened("one.py").__name__ == "attention"


REFUSED = {
    "deep/mine.py": "deep/mine.py has 3 functions and classes: deep/mine.py:attention, or Sizes, Outer?",
    "deep/mine.py:Attention": "deep/mine.py has no 'Attention': it has attention, Sizes, Outer",
    "deep/mine.py:Outer.Iner": "deep/mine.py has no 'Outer.Iner': it has attention, Sizes, Outer",
    "deep/mine.py:three": "deep/mine.py:three is no function, class or module, but of type int",
    "deep/mine.py:odd.what": "deep/mine.py:odd.what can't be run: ValueError: odd (line 26)",
    "mine.py:attention": "'mine.py' is no file that is there: FILE.py:NAME says what to check",
    "deep:attention": "no module 'deep' is in this folder",
    "gone.mine:attention": "no module 'gone.mine' is in this folder or installed; a file is FILE.py:NAME",
    "package": "package has no functions and classes of its own: FILE.py:NAME says what to check",
    "a file:attention": "'a file' is neither a file nor a module: FILE.py:NAME or MODULE:NAME",
    "": "'' is neither a file nor a module: FILE.py:NAME or MODULE:NAME",
    "folder.py:f": "'folder.py' is a folder, and no file: FILE.py:NAME says what to check",
    f"{'x' * 5000}.py:f": f"'{'x' * 39}…' is no name that a file can have: FILE.py:NAME says what to check",
    "a\0.py:f": "'a\\x00.py' is no file that is there: FILE.py:NAME says what to check",
}


@pytest.mark.parametrize("what", REFUSED, ids=lambda what: what[:30])
def test_what_cannot_be_opened(folder, what):
    (folder / "folder.py").mkdir()
    if what == "deep:attention":
        (folder / "deep").rename(folder / "away")
    with pytest.raises(RequestError) as refused:
        opened(what)
    said = str(refused.value)
    assert said.startswith(REFUSED[what]) and len(said) <= 300 and said.isprintable()


BROKEN = {
    "x = 1\ny = 1 / 0\n": "broken.py can't be run: ZeroDivisionError: division by zero (line 2)",
    "def f(:\n    pass\n": "broken.py can't be read: SyntaxError: invalid syntax (line 1)",
    "\nimport no_such_thing\n": "broken.py can't be run: ModuleNotFoundError: No module named 'no_such_thing' (line 2)",
    "\n\nexit()\n": "broken.py can't be run: it ends itself by sys.exit() (line 3)",
    "raise SystemExit('\\033[31mno')\n": r"broken.py can't be run: it ends itself by sys.exit(\x1b[31mno) (line 1)",
    "raise KeyboardInterrupt\n": "broken.py can't be run: KeyboardInterrupt (line 1)",
    "raise MemoryError\n": "broken.py can't be run: it takes more memory than it may have (line 1)",
    "{}['key']\n": "broken.py can't be run: KeyError: no 'key' (line 1)",
    "raise ValueError('x' * 10**6)\n": f"broken.py can't be run: ValueError: {'x' * 147}… (line 1)",
    "\0": "broken.py can't be read: SyntaxError: source code string cannot contain null bytes",
    "class Odd(BaseException):\n    def __str__(self): raise self\nraise Odd\n": "broken.py can't be run: Odd (line 3)",
}


@pytest.mark.parametrize("text", BROKEN, ids=lambda text: ascii(text)[:20])
def test_a_file_that_cannot_be_run(folder, text):
    (folder / "broken.py").write_text(text)
    with pytest.raises(RequestError) as refused:
        opened("broken.py:f")
    assert str(refused.value) == BROKEN[text]


def test_a_module_that_cannot_be_run(folder):
    (folder / "package/module.py").write_text("\nraise ValueError('odd')\n")
    with pytest.raises(RequestError, match=r"^package\.module can't be run: ValueError: odd \(line 2\)$"):
        opened("package.module:attention")


def test_a_file_that_is_no_text(folder):
    (folder / "broken.py").write_bytes(b"x = '\xff\xfe'\n")
    with pytest.raises(RequestError, match=r"^broken\.py can't be read: SyntaxError: .*utf-8.*$"):
        opened("broken.py:f")


@pytest.mark.parametrize(
    ("what", "parts"),
    [
        ("a.py:B", ("a.py", "B")),
        ("a.py", ("a.py", "")),
        ("a.b:C.d", ("a.b", "C.d")),
        ("c:/a.py", ("c:/a.py", "")),
        ("c:/a.py:B", ("c:/a.py", "B")),
        ("a:b/c.py:D", ("a:b/c.py", "D")),
    ],
)
def test_where_a_name_begins(what, parts):
    assert split(what) == parts
