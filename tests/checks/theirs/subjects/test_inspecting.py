"""What somebody's attention is, is found by looking at it."""

import functools
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from attncli.checks.theirs.subjects.inspecting import called, numbers_of, parameters, source_of, speaks, weights_of
from attncli.checks.theirs.subjects.subject import Parameter


def of(function) -> str:
    """Its parameters as "name kind", "name=default kind"."""
    told = [
        f"{one.name}{'' if one.required else f'={one.default!r}'} {one.kind}" for one in parameters(called(function))
    ]
    return ", ".join(told)


def test_parameters_of_a_function():
    def attention(q, /, k, v=None, *rest, mask=0.5, causal, **more):
        pass

    assert of(attention) == (
        "q positional, k positional, v=None positional, rest many, mask=0.5 keyword, causal keyword, more many"
    )


def test_a_default_that_is_no_plain_value_is_not_told():
    def attention(q, dtype=torch.float32, scale=np.float64(2)):
        pass

    assert parameters(attention)[1:] == (
        Parameter("dtype", "positional", False),
        Parameter("scale", "positional", False),
    )


class Layer(nn.Module):
    def __init__(self, size: int = 4) -> None:
        super().__init__()
        self.query = nn.Linear(size, size)
        self.more = nn.ModuleList([nn.Linear(size, 2, bias=False)])
        self.own = nn.Parameter(torch.zeros(3, size))
        self.listed = nn.ParameterList([torch.zeros(2)])
        self.heads = 2
        self.fused = True
        self.register_buffer("mask", torch.ones(2))

    def forward(self, x, mask=None):
        return x


class Called:
    def __call__(self, q, k):
        return q


@pytest.mark.parametrize("thing", [Layer, Layer()])
def test_a_module_is_called_as_its_forward(thing):
    assert of(thing) == "x positional, mask=None positional"


@pytest.mark.parametrize("thing", [Called, Called()])
def test_an_object_is_called_without_self(thing):
    assert of(thing) == "q positional, k positional"


def test_of_what_python_cannot_tell_there_are_none():
    assert parameters(torch.softmax) == ()


def test_weights_of_a_module_say_whose_they_are():
    found = {name: (tuple(array.shape), owner) for name, array, owner in weights_of(Layer())}
    assert found == {
        "own": ((3, 4), ""),
        "query.weight": ((4, 4), "linear"),
        "query.bias": ((4,), "linear"),
        "more.0.weight": ((2, 4), "linear"),
        "listed.0": ((2,), ""),
    }


def test_weights_of_an_object_are_found_in_what_it_has():
    thing = types.SimpleNamespace(
        W_q=np.zeros((2, 3)),
        count=np.arange(3),
        scale=np.float64(2),
        heads=[types.SimpleNamespace(W_v=torch.zeros(4, 5))],
        parts={"out": nn.Linear(2, 2, bias=False)},
        np=np,
        layer=Layer,
    )
    found = {name: (tuple(array.shape), owner) for name, array, owner in weights_of(thing)}
    assert found == {"W_q": ((2, 3), ""), "heads.0.W_v": ((4, 5), ""), "parts.out.weight": ((2, 2), "linear")}


def test_an_object_that_has_itself_is_looked_at_no_further_than_three_deep():
    thing = Called()
    thing.me, thing.w = thing, np.zeros(2)
    assert [name for name, *_ in weights_of(thing)] == ["me.me.me.w", "me.me.w", "me.w", "w"]


def test_what_has_no_attributes_has_no_weights():
    class Slots:
        __slots__ = ("w",)

        def __call__(self, q):
            return q

    assert list(weights_of(Slots())) == [] == list(weights_of(of)) and numbers_of(Slots()) == {}


def test_numbers_are_whole_and_those_of_modules_in_it_too():
    told = numbers_of(Layer())
    assert told["heads"] == 2 and told["query.in_features"] == 4 and "fused" not in told


def test_it_speaks_the_language_of_its_file():
    spoken = {}
    for text in ("import numpy as np", "import numpy, torch", "from numpy import exp, float64, ndarray", "import math"):
        exec(f"{text}\ndef attention(q): pass", made := {})
        spoken[text.partition(" ")[2]] = speaks(made["attention"])
    assert spoken == {
        "numpy as np": "numpy",
        "numpy, torch": "torch",
        "numpy import exp, float64, ndarray": "numpy",
        "math": "torch",
    }


def test_source_has_its_first_line_and_its_file():
    source, first, file = source_of(Called)
    lines = Path(__file__).read_text(encoding="utf-8").splitlines(keepends=True)
    assert file == __file__ and source == "".join(lines[first - 1 : first + 2]) and source.startswith("class Called")


def test_what_nobody_wrote_down_has_no_source():
    exec("def attention(q): pass", made := {})
    assert source_of(made["attention"])[0] == "" == source_of(functools.partial(print))[2]


def test_of_two_languages_in_a_file_a_function_speaks_the_one_that_it_names():
    made = {}
    exec(
        "import numpy as np\nimport torch\n"
        "def one(q): return np.exp(q)\ndef other(q): return torch.exp(q)\ndef neither(q): return q\n",
        made,
    )
    assert [speaks(made[name]) for name in ("one", "other", "neither")] == ["numpy", "torch", "torch"]
