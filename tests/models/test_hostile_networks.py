"""Networks that nobody should write, and some that people do: capture works, or says why not in one clear line.

Every case is one way of attention and one hostile kind of input, network or surroundings. The network's result, or its
error, is the one that it has without capture, and no hook, mode or stance is left.
"""

import copy
import math
import os
import pickle
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from own_networks import HEADS, WIDTH, FusedGPT, InBlocks, Lucidrains, NanoGPT
from torch import Tensor, nn

import attncli
from attncli.base.errors import RequestError
from attncli.models.block import Tap
from attncli.models.capture import Capture

pytestmark = pytest.mark.filterwarnings("ignore")
TOKENS = 6


class Heads(nn.MultiheadAttention):
    """torch's own attention, called with one argument."""

    def __init__(self) -> None:
        super().__init__(WIDTH, HEADS, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x, x, x, need_weights=False)[0]


class Layer(nn.TransformerEncoderLayer):
    def __init__(self) -> None:
        super().__init__(WIDTH, HEADS, 64, dropout=0.0, batch_first=True)


WAYS: dict[str, Callable[[], nn.Module]] = {
    "fused": FusedGPT,
    "torch.nn": Heads,
    "a layer of torch.nn": Layer,
    "by hand": NanoGPT,
    "by einsum": lambda: WithMask(Lucidrains()),
    "in blocks": lambda: InBlocks("running maximum"),
}


class WithMask(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x, torch.ones(x.shape[:2], dtype=torch.bool, device=x.device))


def left_behind() -> tuple[Any, ...]:
    """Return what capture could leave: global hooks of modules, modes, and how torch compiles."""
    module = nn.modules.module
    hooks = [getattr(module, name) for name in dir(module) if name.startswith("_global_") and "hooks" in name]
    return (
        *map(len, hooks),
        torch._C._len_torch_function_stack(),
        torch._dynamo.eval_frame._stance.stance if hasattr(torch, "_dynamo") else None,
    )


# --- inputs ------------------------------------------------------------------------------------------------


def x(texts: int = 2, tokens: int = TOKENS) -> Tensor:
    return torch.randn(texts, tokens, WIDTH)


INPUTS: dict[str, Callable[[], Tensor]] = {
    "plain": x,
    "no texts": lambda: x(0),
    "no tokens": lambda: x(2, 0),
    "one token": lambda: x(1, 1),
    "NaN": lambda: x() * math.nan,
    "infinite": lambda: x() * math.inf,
    "one NaN": lambda: x().index_fill(1, torch.tensor([2]), math.nan),
    "huge numbers": lambda: x() * 1e30,
    "tiny numbers": lambda: x() * 1e-40,
    "expanded": lambda: x(1, 1).expand(3, TOKENS, WIDTH),
    "not contiguous": lambda: torch.randn(WIDTH, TOKENS, 2).T,
    "huge strides": lambda: torch.randn(2, TOKENS, 50 * WIDTH)[..., ::50],
    "flipped": lambda: x().flip(1),
    "a view of a leaf": lambda: torch.randn(4, TOKENS, WIDTH, requires_grad=True)[::2],
    "a leaf": lambda: x().requires_grad_(),
    "a parameter": lambda: nn.Parameter(x()),
    "complex": lambda: x().to(torch.complex64),
    "whole numbers": lambda: torch.ones(2, TOKENS, WIDTH, dtype=torch.long),
    "bool": lambda: torch.ones(2, TOKENS, WIDTH, dtype=torch.bool),
    "half": lambda: x().half(),
    "float64": lambda: x().double(),
    "meta": lambda: x().to("meta"),
    "sparse": lambda: x().to_sparse(),
    "nested": lambda: torch.nested.nested_tensor([torch.randn(3, WIDTH), torch.randn(2, WIDTH)]),
    "jagged": lambda: torch.nested.nested_tensor([torch.randn(3, WIDTH), torch.randn(2, WIDTH)], layout=torch.jagged),
    "of another width": lambda: torch.randn(2, TOKENS, WIDTH + 1),
    "without texts": lambda: x()[0],
    "of five dimensions": lambda: x()[None, None],
    "too long": lambda: x(1, 17),
    "a number": lambda: torch.tensor(1.0),
    "inference": lambda: make_inference(),
}


def make_inference() -> Tensor:
    with torch.inference_mode():
        return x()


def outcome(call: Callable[[], Any]) -> Any:
    """Return what a call gives, or the type of what it raises."""
    torch.manual_seed(0)
    try:
        return call()
    except Exception as error:  # noqa: BLE001  (any that the network has)
        return type(error)


def assert_same(one: Any, other: Any) -> None:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        assert (one.shape, one.dtype, one.layout) == (other.shape, other.dtype, other.layout) or one.is_nested
        if one.is_nested:
            for part, theirs in zip(one.unbind(), other.unbind(), strict=True):
                assert_same(part, theirs)
        elif not one.is_meta:
            assert torch.equal(one.detach().nan_to_num(), other.detach().nan_to_num())
    else:
        assert one == other


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("way", WAYS)
def test_inputs(way: str, kind: str) -> None:
    torch.manual_seed(0)
    network, given = WAYS[way]().eval(), INPUTS[kind]()
    before = left_behind()
    bare = outcome(lambda: network(given))
    seen = attncli.capture(network)
    with seen:
        found = outcome(lambda: network(given))
    assert_same(found, bare)
    assert left_behind() == before
    check_line(seen)
    if isinstance(bare, Tensor) and bare.numel() and not (bare.is_nested or bare.is_meta or way == "in blocks"):
        assert len(seen.calls) + len(seen.missed) == 1


def check_line(seen: Capture) -> None:
    """Check that all that capture says is one line, and that a record is made, or refused in one line."""
    assert "\n" not in repr(seen) and all("\n" not in one for one in seen.missed)
    assert all(name not in " ".join(seen.missed) for name in ("Traceback", "NoneType", "object has no attribute"))
    try:
        for record in seen.records():
            assert record.weights.ndim == 4
    except RequestError as error:
        assert "\n" not in str(error)


# --- networks and surroundings -----------------------------------------------------------------------------


class Twice(nn.Module):
    """One module that stands in two places, and runs in both."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.one, self.two = inner, inner

    def forward(self, x: Tensor) -> Tensor:
        return self.two(self.one(x))


class Raising(nn.Module):
    """Raises behind its attention, and goes on if `caught`."""

    def __init__(self, inner: nn.Module, error: type[BaseException] = ZeroDivisionError, caught: bool = False) -> None:
        super().__init__()
        self.inner, self.error, self.caught = inner, error, caught

    def forward(self, x: Tensor) -> Tensor:
        found = self.inner(x)
        try:
            raise self.error
        except Exception:
            if not self.caught:
                raise
        return found


class InThread(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        found: list[Tensor] = []
        thread = threading.Thread(target=lambda: found.append(self.inner(x)))
        thread.start()
        thread.join()
        return found[0]


class Recursive(nn.Module):
    """Calls itself, two times deep."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor, depth: int = 0) -> Tensor:
        return self.inner(x) if depth == 2 else self(x, depth + 1)


class Capturing(nn.Module):
    """Captures itself while it runs."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        with attncli.capture() as own:
            found = self.inner(x)
        assert "\n" not in repr(own)
        return found


class Functional(nn.Module):
    """Runs with other parameters than its own."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return torch.func.functional_call(self.inner, dict(self.inner.named_parameters()), (x,))


class Called(nn.Module):
    """Makes a new module each time, and deletes it."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        object.__setattr__(self, "inner", inner)  # no submodule

    def forward(self, x: Tensor) -> Tensor:
        return copy.deepcopy(self.inner)(x)


def failing_hook(inner: nn.Module) -> nn.Module:
    inner.register_forward_hook(lambda *_: 1 / 0)
    return inner


def failing_pre_hook(inner: nn.Module) -> nn.Module:
    inner.register_forward_pre_hook(lambda *_: 1 / 0)
    return inner


def replacing_hook(inner: nn.Module) -> nn.Module:
    inner.register_forward_hook(lambda module, inputs, output: output * 2)
    return inner


def checkpointed(inner: nn.Module) -> nn.Module:
    class Checkpointed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            from torch.utils.checkpoint import checkpoint

            return checkpoint(inner, x, use_reentrant=False)

    return Checkpointed()


NETWORKS: dict[str, Callable[[nn.Module], Any]] = {
    "shared": Twice,
    "raises": Raising,
    "raises, and goes on": lambda inner: Raising(inner, caught=True),
    "stops": lambda inner: Raising(inner, StopIteration),
    "in a thread": InThread,
    "recursive": Recursive,
    "captures itself": Capturing,
    "functional": Functional,
    "made anew": Called,
    "a failing hook": failing_hook,
    "a failing hook before": failing_pre_hook,
    "a hook that replaces": replacing_hook,
    "deep copy": copy.deepcopy,
    "in a list": lambda inner: nn.ModuleList([inner])[0],
    "in parallel": nn.DataParallel,
    "frozen": lambda inner: inner.requires_grad_(False),
    "compiled": lambda inner: torch.compile(inner, backend="eager"),
    "half": lambda inner: Of16(inner.bfloat16()),
    "vmap": lambda inner: Vmapped(inner),
    "gradient": lambda inner: OfGradient(inner),
    "gradient by func": lambda inner: OfGradient(inner, True),
    "checkpointed": checkpointed,
    "no module": lambda inner: lambda x: inner.forward(x),
    "with no_grad": lambda inner: torch.no_grad()(inner.__call__),
    "autocast": lambda inner: torch.autocast("cpu", torch.bfloat16)(inner.__call__),
    "in deterministic mode": lambda inner: Deterministic(inner),
    "subclass of tensor": lambda inner: lambda x: inner(x.as_subclass(Marked)),
    "changes its input": lambda inner: lambda x: inner(x.add_(1)),
    "changes its output": lambda inner: lambda x: inner(x).mul_(2),
    "traced": lambda inner: torch.jit.trace(inner, x(), check_trace=False),
}


class Marked(Tensor):
    pass


class Of16(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x.bfloat16())


class Vmapped(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return torch.vmap(self.inner)(x[:, None])


class OfGradient(nn.Module):
    def __init__(self, inner: nn.Module, by_func: bool = False) -> None:
        super().__init__()
        self.inner, self.by_func = inner, by_func

    def forward(self, x: Tensor) -> Tensor:
        if self.by_func:
            return torch.func.grad(lambda one: self.inner(one).sum())(x)
        x = x.detach().requires_grad_()
        return torch.autograd.grad(self.inner(x).sum(), x)[0]


class Deterministic(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        torch.use_deterministic_algorithms(True)
        try:
            return self.inner(x)
        finally:
            torch.use_deterministic_algorithms(False)


COUNTS = {"shared": 2, "in a thread": 0, "traced": 0, "a failing hook before": 0}  # of calls that are seen, else 1


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("way", WAYS)
def test_networks(way: str, kind: str) -> None:
    torch.manual_seed(0)
    network, given = NETWORKS[kind](WAYS[way]().eval()), x()
    before = left_behind()
    bare = outcome(lambda: network(given.clone()))
    seen = attncli.capture(network if isinstance(network, nn.Module) else None)
    with seen:
        found = outcome(lambda: network(given.clone()))
    assert_same(found, bare)
    assert left_behind() == before
    check_line(seen)
    count = COUNTS.get(kind, 1)
    no_map = way == "in blocks" or kind in ("vmap", "gradient by func")  # numbers in functional transforms are none
    assert len(seen.calls) == (0 if no_map else count) and bool(seen.missed) == (no_map and count > 0)


def odd_calls() -> dict[str, list[Tensor]]:
    """Return queries, keys and values that no network of this table has."""
    x = torch.randn(2, 3, 4, 8)
    return {
        "no heads": [x[:, :0]] * 3,
        "no keys": [x, x[:, :, :0], x[:, :, :0]],
        "one text": [x[0]] * 3,
        "no heads but texts": [x[0, 0]] * 3,
        "broadcast": [x, x[:1], x[:1]],
        "wide values": [x, x, torch.randn(2, 3, 4, 5)],
    }


@pytest.mark.parametrize("case", odd_calls())
def test_odd_calls_give_what_they_gave(case: str) -> None:
    tensors = odd_calls()[case]
    expected = F.scaled_dot_product_attention(*tensors)
    with attncli.capture() as seen:
        assert torch.equal(F.scaled_dot_product_attention(*tensors), expected)
    assert len(seen.calls) + len(seen.missed) == 1
    check_line(seen)


def test_a_capture_that_is_running_is_not_begun_again_but_may_be_later() -> None:
    network = Heads()
    before = left_behind()
    with attncli.capture(network) as seen:
        with pytest.raises(RequestError, match="is already running"):
            seen.__enter__()
        network(x())
    assert left_behind() == before
    with seen:
        network(x())
    assert len(seen.calls) == 2 and left_behind() == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit, SystemExit, MemoryError])
def test_nothing_is_left_after_any_error(error: type[BaseException]) -> None:
    network, before = Raising(Heads(), error), left_behind()
    with pytest.raises(error), attncli.capture(network) as seen:
        network(x())
    assert left_behind() == before and not seen._running
    with seen:
        network.inner(x())
    assert [call.name for call in seen.calls] == ["inner"] * 2


def test_a_tap_that_raises_is_heard_and_nothing_is_left() -> None:
    class Bad(Tap):
        def output(self, block: Any, output: Tensor) -> Tensor:
            raise ZeroDivisionError

    before = left_behind()
    with pytest.raises(ZeroDivisionError), attncli.capture(taps=[Bad()]):
        Heads()(x())
    assert left_behind() == before


def test_captures_of_threads_see_their_own() -> None:
    networks = [FusedGPT(), NanoGPT(), Heads()]
    found: dict[int, Capture] = {}
    started = threading.Barrier(len(networks))

    def run(number: int) -> None:
        with attncli.capture(networks[number]) as found[number]:
            started.wait()
            for _ in range(20):
                networks[number](x())

    before = left_behind()
    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(networks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(found[number].calls) for number in range(3)] == [20] * 3
    assert all(not found[number].missed for number in range(3)) and left_behind() == before


def test_a_forked_worker_runs_on() -> None:
    network, given = NanoGPT(), x()
    reading, writing = os.pipe()
    with attncli.capture(network) as seen:
        child = os.fork()
        if child == 0:
            with suppress(BaseException):
                os.write(writing, bytes([torch.isfinite(network(given)).all().item(), len(seen.calls)]))
            os._exit(0)
        os.waitpid(child, 0)
        network(given)
    assert os.read(reading, 2) == bytes([1, 1]) and len(seen.calls) == 1


def test_a_network_is_copied_and_saved_as_before() -> None:
    network = Heads()
    with attncli.capture(network) as seen:
        network(x())
        copied = copy.deepcopy(network)
        assert pickle.loads(pickle.dumps(network.state_dict())).keys() == network.state_dict().keys()
        copied(x())
    assert len(seen.calls) == 1  # the copy is another network


@pytest.mark.parametrize("wrong", ["bert", 3, torch.ones(2), lambda x: x])
def test_what_is_no_network_is_refused(wrong: Any) -> None:
    with pytest.raises(RequestError, match=r"capture takes a network, an nn.Module, not \w+"):
        attncli.capture(wrong)


def test_a_capture_that_ends_leaves_networks_uncompiled_for_others() -> None:
    compiled, before = torch.compile(Heads().eval(), backend="eager"), left_behind()
    compiled(x())
    with attncli.capture() as seen:
        with attncli.capture():
            pass
        assert left_behind()[-1] == "force_eager"
        compiled(x())
    assert len(seen.calls) == 1 and left_behind() == before
