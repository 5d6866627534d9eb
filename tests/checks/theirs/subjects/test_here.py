"""A subject in this process: it is made, gets its weights, and is run as its callers would run it."""

import types

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attncli.base.errors import RequestError
from attncli.checks.theirs.subjects.here import Here
from attncli.checks.theirs.subjects.subject import Call

X = torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def call_of(*arguments, dtype="float64", **how) -> Call:
    return Call(arguments, how.pop("keywords", {}), dtype, **how)


class Linear(nn.Module):
    def __init__(self, size, *, bias=True):
        super().__init__()
        self.inner = nn.Linear(size, size, bias=bias)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x, mask=None):
        return self.dropout(self.inner(x)) if mask is None else self.inner(x).masked_fill(~mask, 0)


def test_a_class_is_described_made_filled_and_run():
    here = Here(Linear)
    told = here.describe()
    assert (told.name, told.kind, told.speaks) == ("Linear", "class", "torch")
    assert told.source.startswith("class Linear(nn.Module):") and told.file == __file__
    assert [one.name for one in told.constructor] == ["size", "bias"]
    assert [one.name for one in told.call] == ["x", "mask"]
    made = here.make({"size": 4, "bias": False})
    assert {name: one.shape for name, one in made.weights.items()} == {"inner.weight": (4, 4)}
    weight = torch.randn(4, 4, dtype=torch.float64)
    here.fill({"inner.weight": weight, "not there": weight})
    (output,) = here.call(call_of(X)).outputs
    assert torch.allclose(output, X @ weight.float().double().T)  # filled while it was in float32


def test_what_is_there_already_is_not_made_anew():
    module = Linear(4)
    here = Here(module)
    assert here.describe().kind == "thing" and here.describe().constructor == ()
    here.make({})
    assert here.instance is module and not module.training


def test_a_function_without_parameters_makes_the_subject():
    def attention():
        return Linear(4)

    assert isinstance(Here(attention).instance, Linear)


@pytest.mark.parametrize("thing", [3, "Linear", None, np.zeros(3)])
def test_what_cannot_be_called_is_refused(thing):
    with pytest.raises(RequestError, match="is no function, class or module, but"):
        Here(thing)


def test_a_config_is_read_by_attribute_item_and_get():
    class Configured(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.sizes = [config.hidden_size, config["hidden_size"], config.get("hidden_size"), config.get("no", 7)]

        def forward(self, x):
            return x

    here = Here(Configured)
    here.make({"config": {"hidden_size": 8}})
    assert here.instance.sizes == [8, 8, 8, 7]


def raising(*_):
    raise ValueError("odd")


def leaving(*_):
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("act", "said"), [(raising, "ValueError: odd"), (leaving, r"it ends itself by sys\.exit\(3\)")]
)
def test_what_cannot_be_made_is_refused_with_its_line(act, said):
    class Broken(nn.Module):
        def __init__(self):
            act()

    line = Broken.__init__.__code__.co_firstlineno + 1
    with pytest.raises(RequestError, match=rf"^Broken can't be made: {said} \(line \d+\)$"):
        Here(Broken).make({})
    answer = Here(lambda x: act()).call(call_of(X))
    assert answer.error and answer.at and answer.at < line and answer.outputs == ()


def test_everything_that_holds_numbers_is_an_output_in_its_order():
    class Output:
        def __init__(self, x):
            self.hidden, self.flag = x + 2, "no"

    answer = Here(lambda x: (x, {"a": x + 1, "b": None}, [Output(x)], np.ones(2))).call(call_of(X))
    assert [one.flatten()[0].item() - X.flatten()[0].item() for one in answer.outputs[:3]] == pytest.approx([0, 1, 2])
    assert answer.outputs[3].tolist() == [1, 1] and len(answer.outputs) == 4


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_weights_and_inputs_have_the_dtype(dtype):
    here = Here(Linear(4))
    answer = here.call(call_of(X, dtype=dtype))
    assert answer.outputs[0].dtype == getattr(torch, dtype) == here.instance.inner.weight.dtype


def test_masks_keep_theirs():
    mask = torch.tensor([[True], [False], [True]])
    (output,) = Here(Linear(4)).call(call_of(X, keywords={"mask": mask})).outputs
    assert (output[:, 1] == 0).all() and (output[:, 0] != 0).all()


def test_strided_inputs_hold_the_same_numbers_elsewhere():
    seen = []

    def attention(x):
        seen.append(x)
        return x

    here = Here(attention)
    for strided in (False, True):
        here.call(call_of(X, strided=strided))
    assert seen[0].is_contiguous() and not seen[1].is_contiguous()
    assert torch.equal(seen[0], X) and torch.equal(seen[1], X)


def test_a_changed_input_is_noticed_and_not_ours():
    before = X.clone()
    assert Here(lambda x: x.mul_(2)).call(call_of(X)).changed
    assert torch.equal(X, before)
    assert not Here(lambda x: x * 2).call(call_of(X)).changed


def in_numpy(x, w=np.ones(3)):
    x[0] = 0
    return x


def test_a_changed_input_is_noticed_in_numpy_too():
    exec(
        "import numpy as np\ndef attention(x):\n    assert type(x) is np.ndarray\n    x[0] = 0\n    return x",
        made := {},
    )
    answer = Here(made["attention"]).call(call_of(X))
    assert answer.error is None and answer.changed and answer.outputs[0].dtype == torch.float64


def test_gradients_are_those_of_the_inputs():
    def attention(query, key, unused):
        return query.sum(-1, keepdim=True), query * key

    cotangent = torch.arange(24.0).reshape(2, 3, 4).double()
    answer = Here(attention).call(call_of(X, X + 1, X, cotangent=cotangent))
    assert torch.equal(answer.gradients[0], cotangent * (X + 1)) and torch.equal(answer.gradients[1], cotangent * X)
    assert (answer.gradients[2] == 0).all() and not answer.outputs[1].requires_grad


def test_without_a_way_back_there_are_no_gradients():
    cotangent = torch.ones_like(X)
    assert Here(lambda x: x.detach()).call(call_of(X, cotangent=cotangent)).gradients == ()
    assert Here(lambda x: x).call(call_of(X)).gradients is None


def dropped(x):
    return F.dropout(x, 0.5)


def fused(x):
    return F.scaled_dot_product_attention(x, x, x, None, 0.5)


def fused_by_name(x):
    return F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)


@pytest.mark.parametrize("attention", [dropped, fused, fused_by_name, nn.Dropout(0.5).train().forward])
def test_dropout_can_be_switched_off(attention):
    here = Here(attention)
    expected = X if "fused" not in attention.__name__ else F.scaled_dot_product_attention(X, X, X)
    (off,) = here.call(call_of(X, dropout=False)).outputs
    (on,) = here.call(call_of(X)).outputs
    assert torch.allclose(off, expected) and not torch.allclose(on, expected)


def test_sparse_numbers_are_numbers_and_complex_ones_are_none():
    answer = Here(lambda x: (x.to_sparse(), x.to(torch.complex128), x + 1)).call(call_of(X))
    assert [torch.equal(one, other) for one, other in zip(answer.outputs, (X, X + 1), strict=True)] == [True, True]


def test_weights_of_an_object_in_numpy_are_filled():
    class Attention:
        def __init__(self, size):
            self.W = np.zeros((size, size))

        def __call__(self, x):
            return x @ self.W

    here = Here(Attention)
    made = here.make({"size": 4})
    here.fill({name: 2 * torch.eye(*one.shape, dtype=torch.float64) for name, one in made.weights.items()})
    assert torch.equal(here.call(call_of(X)).outputs[0], 2 * X)


def test_what_it_says_of_itself_cannot_command_a_terminal():
    def attention(x):
        raise ValueError("\x1b[31mred\nand more")

    attention.__name__ = "at\x1btention"
    here = Here(attention)
    assert here.describe().name == r"at\x1btention"
    assert here.call(call_of(X)).error == r"ValueError: \x1b[31mred"


def test_a_namespace_that_is_called_is_a_thing():
    class Thing(types.SimpleNamespace):
        def __call__(self, x):
            return x * self.scale

    assert Here(Thing(scale=3.0)).call(call_of(X)).outputs[0].equal(X * 3)
