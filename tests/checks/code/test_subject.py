"""What somebody hands in is opened, inspected, made and run, and stays as it was."""

import copy
import dataclasses
import pickle
import sys
import threading
import types
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attncli.base.errors import RequestError
from attncli.base.printable import shorten_start
from attncli.checks.code.subject import (
    OUT_OF_MEMORY,
    Call,
    Subject,
    Weight,
    called_function,
    describe_error,
    library_of,
    open_code,
    parameters_of,
    split_name,
)

X = torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
DTYPES = ["bfloat16", "float32", "float64", "float16", "float64"]


def call_of(*arguments, dtype="float64", **how) -> Call:
    return Call(arguments, how.pop("keywords", {}), dtype, **how)


def output(subject, *arguments, **how) -> torch.Tensor:
    answer = subject.call(call_of(*arguments or (X,), **how))
    assert answer.error is None, answer
    return answer.arrays[0]


class Linear(nn.Module):
    def __init__(self, size, *, bias=True):
        super().__init__()
        self.inner = nn.Linear(size, size, bias=bias)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x, mask=None):
        return self.dropout(self.inner(x)) if mask is None else self.inner(x).masked_fill(~mask, 0)


# --- nothing that it does to itself lasts -----------------------------------------------------------------


class Careless(nn.Module):
    """Changes all that it has, each time that it runs."""

    def __init__(self, lock=None):
        super().__init__()
        self.lock = lock() if lock else None  # which can't be copied
        self.inner = nn.Linear(4, 4)
        self.register_buffer("table", torch.arange(1, 5) / 3)
        self.register_buffer("phases", torch.polar(torch.ones(4), torch.arange(4.0)), persistent=False)
        self.plain, self.kept, self.runs = torch.ones(4), [], 0

    def forward(self, x):
        made = self.inner(x) * self.table * self.plain * (x[..., :1] * self.phases).abs() + self.runs + len(self.kept)
        self.weights = made  # which has a graph
        with torch.no_grad():
            for tensor in (self.inner.weight, self.table, self.phases, self.plain):
                tensor += 1
        self.kept.append(x)
        self.runs += 1
        self.inner.bias = None
        self.half().train()
        return made


def careless_alone(module, x):
    return module.inner(x) * module.table * (x[..., :1] * module.phases).abs()


@pytest.mark.parametrize("kind", ["a class", "an object", "a method"])
def test_every_call_is_the_first(kind):
    torch.manual_seed(0)
    module = Careless()
    if kind.startswith("a class"):
        torch.manual_seed(0)
        subject = Subject(Careless)
        subject.make({"lock": threading.Lock} if "can't" in kind else {})
    else:
        subject = Subject(module if kind == "an object" else module.forward)
        subject.make({})
    for dtype in DTYPES if kind != "a method" else ["float32"] * 2:
        rounded = copy.deepcopy(module)
        for tensor in (*rounded.parameters(), rounded.table):
            tensor.data = tensor.to(getattr(torch, dtype))
        rounded.phases = module.phases.to(torch.complex128 if dtype == "float64" else torch.complex64)
        x = X.to(getattr(torch, dtype))
        with torch.no_grad():
            assert torch.equal(
                output(subject, dtype=dtype), careless_alone(rounded, x).to(X).to(output(subject, dtype=dtype))
            )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_module_that_is_handed_in_stays_bit_for_bit(dtype):
    module = Careless().to(dtype).train()
    module.phases = torch.polar(torch.ones(4), torch.arange(4.0))
    module.inner.weight.requires_grad_(False)
    module.inner.bias.grad = torch.ones(4, dtype=dtype)
    before = pickle.dumps(module), module.inner.bias.grad, list(map(id, module.parameters()))
    subject = Subject(module)
    subject.make({})
    subject.fill({name: torch.zeros(weight.shape) for name, weight in subject.weights.items()})
    for one in DTYPES:
        assert (output(subject, dtype=one) == 0).all()
        subject.call(call_of(X, dtype=one, cotangent=X))
    assert (pickle.dumps(module), module.inner.bias.grad, list(map(id, module.parameters()))) == before
    assert module.training


def test_an_object_that_ran_before_can_be_copied_and_one_with_a_lock_is_refused():
    module = Linear(4)
    module.weights = module(X.float())
    assert output(Subject(module)).shape == X.shape
    module.lock = threading.Lock()
    with pytest.raises(RequestError, match=r"^Linear can't be copied \(TypeError: .*lock.*\): hand in its class, or a"):
        Subject(module)


def test_weights_keep_their_precision_in_each_dtype():
    subject = Subject(Linear)
    subject.make({"size": 4, "bias": False})
    weight = torch.randn(4, 4, dtype=torch.float64)
    subject.fill({"inner.weight": weight, "not there": weight})
    for dtype in DTYPES:
        kind = getattr(torch, dtype)
        assert torch.equal(output(subject, torch.eye(4), dtype=dtype, dropout=False), weight.to(kind).T.contiguous())


def test_settings_of_torch_stay_ours():
    def attention(x):
        torch.set_default_dtype(torch.float16)
        torch.set_grad_enabled(False)
        return x

    assert torch.equal(output(Subject(attention)), X)
    assert torch.get_default_dtype() == torch.float32 and torch.is_grad_enabled()


class Late(nn.Module):
    """Makes its parameters in the first forward."""

    def __init__(self, inner):
        super().__init__()
        self.first, self.inner, self.runs = nn.LazyLinear(4), inner, 0

    def forward(self, x):
        if self.inner is None:
            self.inner = nn.Sequential(nn.Linear(x.shape[-1], 4, bias=False), nn.Dropout(0.5)).to(x)
        self.runs += 1
        return self.inner(self.first(x)) * self.runs


def test_parameters_that_are_made_late_are_known_once_it_has_run():
    subject = Subject(Late)
    subject.make({"inner": None})
    subject.settle(call_of(X[..., None], X, X))  # a call that gives an error
    assert subject.weights == {}
    subject.settle(call_of(X))
    assert subject.weights == {
        "first.weight": Weight((4, 4), "linear"),
        "first.bias": Weight((4,), "linear"),
        "inner.0.weight": Weight((4, 4), "linear"),
    }
    subject.fill({name: torch.ones(weight.shape) for name, weight in subject.weights.items()})
    expected = 2 * 4 * (X.sum(-1, keepdim=True) + 1).expand(X.shape)  # runs is 2, as one run made it
    assert torch.allclose(output(subject), expected) and torch.allclose(output(subject), expected)


def test_a_run_that_makes_no_parameter_changes_nothing():
    subject = Subject(Careless())
    subject.make({})
    before = subject.instance
    subject.settle(call_of(X))
    assert subject.weights and subject.instance is before and torch.equal(output(subject), output(subject))


def test_calls_in_turn_find_what_the_one_before_has_left():
    subject = Subject(Late(nn.Identity()))
    subject.settle(call_of(X))
    again = call_of(X, dropout=False)
    one, other = subject.call(again), subject.call(again._replace(earlier=(again,)))
    assert torch.allclose(other.arrays[0], 1.5 * one.arrays[0]) and torch.equal(output(subject), one.arrays[0])


# --- inspected and made ------------------------------------------------------------------------------------


class Layer(nn.Module):
    def __init__(self, size: int = 4) -> None:
        super().__init__()
        self.query = nn.Linear(size, size)
        self.more = nn.ModuleList([nn.Linear(size, 2, bias=False)])
        self.own = nn.Parameter(torch.zeros(3, size))
        self.listed = nn.ParameterList([torch.zeros(2)])
        self.heads, self.fused = 2, True
        self.register_buffer("mask", torch.ones(2))

    def forward(self, x, mask=None):
        return x


class Called:
    def __init__(self, **attributes):
        vars(self).update(attributes)

    def __call__(self, x):
        return x @ self.W


def test_a_class_is_described_and_made():
    subject = Subject(Layer)
    told = subject
    assert (told.name, told.kind, told.library, told.file) == ("Layer", "class", "torch", __file__)
    lines = Path(__file__).read_text(encoding="utf-8").splitlines(keepends=True)
    assert told.source == "".join(lines[told.first - 1 :][: told.source.count("\n")])
    assert told.source.startswith("class Layer(nn.Module):") and told.source.endswith("        return x\n")
    assert [one.name for one in told.constructor] == ["size"]
    assert [one.name for one in told.parameters] == ["x", "mask"]
    subject.make({"size": 5})
    weights, numbers = subject.weights, subject.numbers
    assert weights == {
        "own": Weight((3, 5), ""),
        "query.weight": Weight((5, 5), "linear"),
        "query.bias": Weight((5,), "linear"),
        "more.0.weight": Weight((2, 5), "linear"),
        "listed.0": Weight((2,), ""),
    }
    assert numbers["heads"] == 2 and numbers["query.in_features"] == 5 and "fused" not in numbers


def test_weights_of_an_object_are_found_and_filled():
    thing = Called(
        W=np.zeros((4, 4)),
        count=np.arange(3),
        scale=np.float64(2),
        heads=[types.SimpleNamespace(W_v=torch.zeros(4, 5))],
        parts={"out": nn.Linear(2, 2, bias=False)},
        layer=Layer,
    )
    thing.me = thing  # is followed three levels deep
    subject = Subject(thing)
    subject.make({})
    assert {name: one for name, one in subject.weights.items() if not name.startswith("me.")} == {
        "W": Weight((4, 4), ""),
        "heads.0.W_v": Weight((4, 5), ""),
        "parts.out.weight": Weight((2, 2), "linear"),
    }
    assert "me.me.me.W" in subject.weights and "me.me.me.me.W" not in subject.weights
    subject.fill({"W": 2 * torch.eye(4, dtype=torch.float64)})
    assert torch.equal(output(subject), 2 * X) and (thing.W == 0).all()


def test_parameters_of_a_call():
    assert parameters_of(torch.softmax) == () and [one.name for one in parameters_of(called_function(Called))] == ["x"]


def test_libraries():
    made = {}
    for text in ("import numpy as np", "import numpy, torch", "from numpy import exp, ndarray", "import math"):
        exec(f"{text}\ndef attention(q): pass", space := {})
        made[text] = library_of(space["attention"])
    assert list(made.values()) == ["numpy", "torch", "numpy", "torch"]
    exec("import numpy as np\nimport torch\ndef one(q): return np.exp(q)\ndef other(q): return torch.exp(q)\n", space)
    assert [library_of(space[name]) for name in ("one", "other")] == ["numpy", "torch"]


def test_a_function_without_parameters_makes_the_subject_and_a_config_is_read_in_three_ways():
    class Configured:
        def __init__(self, config):
            self.W = config.size * torch.eye(4).double() + config["size"] + config.get("size") + config.get("no", 7)

        __call__ = Called.__call__

    subject = Subject(Configured)
    subject.make({"config": {"size": 8}})
    assert torch.equal(output(subject), X @ (8 * torch.eye(4).double() + 23))
    assert Subject(lambda: Linear(4)).name == "Linear"
    with pytest.raises(RequestError, match=r"the config has no size: --give config.size=VALUE"):
        subject.make({"config": {}})


@pytest.mark.parametrize("thing", [3, "Linear", None, np.zeros(3)])
def test_what_cannot_be_called_is_refused(thing):
    with pytest.raises(RequestError, match="is no function, class or module, but"):
        Subject(thing)


# --- called ----------------------------------------------------------------------------------------------


def raising(error: BaseException):
    raise error


LINE = raising.__code__.co_firstlineno + 1
ERRORS = {
    "ValueError: odd": ValueError("odd\nand more"),
    "ValueError": ValueError("  "),
    "KeyError: no 'k'": KeyError("k"),
    r"TypeError: \x1b[31mred": TypeError("\x1b[31mred"),
    "it ends itself by sys.exit()": SystemExit(),
    r"it ends itself by sys.exit(\x1b)": SystemExit("\x1b"),
    f"ValueError: {'x' * 147}…": ValueError("x" * 1000),
}


@pytest.mark.parametrize(("said", "error"), ERRORS.items())
def test_an_error_is_a_line_with_its_place(said, error):
    answer = Subject(lambda x: raising(error)).call(call_of(X))
    assert (answer.error, answer.line, answer.arrays) == (said, LINE, ())

    class Broken:
        def __init__(self):
            raising(error)

        __call__ = print

    with pytest.raises(RequestError) as refused:
        Subject(Broken).make({})
    assert str(refused.value) == f"Broken can't be made: {said} (line {LINE})"


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: 8 bytes")])
def test_what_has_no_room_is_called_no_more(error):
    with pytest.raises(RequestError, match=f"^<lambda> stops: {OUT_OF_MEMORY}$"):
        Subject(lambda x: raising(error)).call(call_of(X))


def test_names_are_shown_without_harm():
    assert shorten_start("a/" * 50 + "mine.py:Attention").endswith("a/a/mine.py:Attention")
    assert len(shorten_start("a" * 100)) == 60 and shorten_start("\x1b[31m.py") == r"\x1b[31m.py"
    assert describe_error(ValueError("odd"), "other.py") == "ValueError: odd"


def test_everything_that_holds_numbers_is_an_output_in_its_order():
    def attention(x):
        out = types.SimpleNamespace(hidden=x + 2, flag="no")
        return x, {"a": x + 1, "b": None}, [out], np.ones(2), x.to(torch.complex128), x.to_sparse()

    outputs = Subject(attention).call(call_of(X)).arrays
    assert all(torch.equal(one, other) for one, other in zip(outputs, (X, X + 1, X + 2, torch.ones(2), X), strict=True))


def test_inputs_have_the_dtype_and_masks_keep_theirs():
    mask = torch.tensor([[True], [False], [True]])
    made = output(Subject(Linear(4)), dtype="bfloat16", keywords={"mask": mask})
    assert made.dtype == torch.bfloat16 and (made[:, 1] == 0).all() and (made[:, 0] != 0).all()


def test_inputs_are_copies_and_may_be_strided():
    seen = []
    subject = Subject(lambda x: seen.append(x) or x.mul(1))
    for strided in (False, True):
        assert not subject.call(call_of(X, strided=strided)).changed
    assert seen[0].is_contiguous() and not seen[1].is_contiguous() and torch.equal(seen[0], seen[1])
    before = X.clone()
    assert Subject(lambda x: x.mul_(2)).call(call_of(X)).changed and torch.equal(X, before)
    exec("import numpy as np\ndef f(x):\n    assert type(x) is np.ndarray\n    x[0] = 0\n    return x", space := {})
    answer = Subject(space["f"]).call(call_of(X))
    assert answer.changed and answer.arrays[0].dtype == torch.float64 and torch.equal(X, before)


def test_gradients_are_those_of_the_inputs():
    def attention(query, key, unused):
        return query.sum(-1, keepdim=True), query * key

    answer = Subject(attention).call(call_of(X, X + 1, X, cotangent=2 * X))
    expected = (2 * X * (X + 1), 2 * X * X, 0 * X)
    assert all(torch.equal(one, other) for one, other in zip(answer.gradients, expected, strict=True))
    assert not answer.arrays[1].requires_grad
    assert Subject(lambda x: x.detach()).call(call_of(X, cotangent=X)).gradients == ()
    assert Subject(lambda x: x).call(call_of(X)).gradients is None


FUSED = F.scaled_dot_product_attention


@pytest.mark.parametrize(
    ("attention", "expected"),
    [
        (lambda x: F.dropout(x, 0.5), X),
        (nn.Dropout(0.5).train().forward, X),
        (lambda x: FUSED(x, x, x, None, 0.5), FUSED(X, X, X)),
        (lambda x: FUSED(x, x, x, dropout_p=0.5), FUSED(X, X, X)),
    ],
)
def test_dropout_can_be_switched_off(attention, expected):
    subject = Subject(attention)
    assert torch.allclose(output(subject, dropout=False), expected) and not torch.allclose(output(subject), expected)


# --- opened ----------------------------------------------------------------------------------------------

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
    """One with a file, a module beside it and a package. What is imported is forgotten."""
    files = {"deep/mine.py": FILE, "deep/beside.py": "", "package/__init__.py": "", "random.py": "def f(q): return q\n"}
    for name, text in {**files, "package/module.py": "def attention(q): return q\n"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(sys, "argv", ["attncli", "check", "deep/mine.py"])
    before = dict(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - set(before):
        del sys.modules[name]


def test_what_a_file_or_a_module_has(folder):
    attention = open_code("deep/mine.py:attention")
    name, arguments, first, file = attention.__globals__["SAID"]
    assert (name, arguments, first) == ("mine", ["deep/mine.py"], str(folder / "deep"))
    assert file == str(folder / "deep/mine.py") and Path.cwd() == folder
    assert Subject(attention).source == "def attention(q, k, v):\n    return q\n"
    assert not list(folder.glob("deep/__pycache__/mine*"))  # nothing of ours is left beside it
    assert open_code("package.module").__name__ == open_code("package.module:attention").__name__ == "attention"
    random = sys.modules["random"]
    assert open_code("random.py").__module__ == "random_" and sys.modules["random"] is random


def test_what_is_opened_is_a_module_for_everybody(folder):
    made = open_code("deep/mine.py:Sizes")(2)
    assert pickle.loads(pickle.dumps(made)) == made and dataclasses.asdict(made) == {"heads": 2}
    del sys.modules["mine"]
    assert open_code("deep/mine.py:Outer.Inner").__qualname__ == "Outer.Inner"


REFUSED = {
    "deep/mine.py": "deep/mine.py has 3 functions and classes: deep/mine.py:attention, or Sizes, Outer?",
    "deep/mine.py:Attention": "deep/mine.py has no 'Attention': it has attention, Sizes, Outer",
    "deep/mine.py:Outer.Iner": "deep/mine.py has no 'Outer.Iner': it has attention, Sizes, Outer",
    "deep/mine.py:three": "deep/mine.py:three is no function, class or module, but of type int",
    "deep/mine.py:odd.what": "deep/mine.py:odd.what can't be run: ValueError: odd (line 26)",
    "mine.py:attention": "'mine.py' can't be read (No such file or directory): FILE.py:NAME says what to check",
    "gone:attention": "no module 'gone' is in this folder",
    "gone.mine:attention": "no module 'gone.mine' is in this folder or installed; a file is FILE.py:NAME",
    "package": "package has no functions and classes of its own: FILE.py:NAME says what to check",
    "a file:attention": "'a file' can't be read (No such file or directory): FILE.py:NAME says what to check",
    "": "'' can't be read (Is a directory): FILE.py:NAME says what to check",
    "folder.py:f": "'folder.py' can't be read (Is a directory): FILE.py:NAME says what to check",
    f"{'x' * 5000}.py:f": f"'{'x' * 39}…' can't be read (File name too long): FILE.py:NAME says what to check",
    "a\0.py:f": "'a\\x00.py' can't be read (embedded null byte): FILE.py:NAME says what to check",
}


@pytest.mark.parametrize("what", REFUSED, ids=lambda what: what[:30])
def test_what_cannot_be_opened(folder, what):
    (folder / "folder.py").mkdir()
    with pytest.raises(RequestError) as refused:
        open_code(what)
    said = str(refused.value)
    assert said.startswith(REFUSED[what]) and len(said) <= 300 and said.isprintable()


BROKEN = {
    "x = 1\ny = 1 / 0\n": "run: ZeroDivisionError: division by zero (line 2)",
    "def f(:\n    pass\n": "read: SyntaxError: invalid syntax (line 1)",
    "\nimport no_such_thing\n": "run: ModuleNotFoundError: No module named 'no_such_thing' (line 2)",
    "\n\nexit()\n": "run: it ends itself by sys.exit() (line 3)",
    "raise KeyboardInterrupt\n": "run: KeyboardInterrupt (line 1)",
    "raise MemoryError\n": "run: it takes more memory than it may have (line 1)",
    "\0": "read: SyntaxError: source code string cannot contain null bytes",
    "x = '\udcff'": "read: SyntaxError: (unicode error) 'utf-8' codec can't decode byte 0xff in position",
    "class Odd(BaseException):\n    def __str__(self): raise self\nraise Odd\n": "run: Odd (line 3)",
}


@pytest.mark.parametrize("text", BROKEN, ids=lambda text: ascii(text)[:20])
def test_a_file_that_cannot_be_run(folder, text):
    (folder / "package/module.py").write_text(text, errors="surrogateescape")
    with pytest.raises(RequestError) as refused:
        open_code("package/module.py:f")
    assert str(refused.value).startswith(f"package/module.py can't be {BROKEN[text]}")
    if "\0" not in text and "\udcff" not in text:
        with pytest.raises(RequestError) as refused:
            open_code("package.module:f")
        assert str(refused.value).startswith(f"package.module can't be {BROKEN[text]}")


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
    assert split_name(what) == parts
