"""The bases are right, by torch's own kernel; what is planted in them is wrong, and where it should be."""

from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from checks.theirs.calling import MASKS, PADDINGS, Called, Function, Module, seen_keys
from checks.theirs.reading import Weights, expected_of, layers, nano, of_numpy, of_torch
from checks.theirs.wrong import NAME, PAIRS, PLANTED, Planted, base, source
from torch import nn

pytestmark = pytest.mark.slow  # these hold the programs of the tests themselves to torch

BATCH, HEADS, TOKENS, WIDTH, D_MODEL = 2, 4, 6, 6, 24


def sized(module_class):
    return module_class(D_MODEL, HEADS)


def head_by_head(module: nn.Module) -> Weights:
    three = [
        (torch.cat([one.weight for one in heads]), torch.cat([one.bias for one in heads]))
        for heads in (module.queries, module.keys, module.values)
    ]
    return Weights(*three, (module.proj.weight, module.proj.bias))


def numpy_with_biases(module) -> Weights:
    four = zip(of_numpy(module)[:4], (module.b_q, module.b_k, module.b_v, module.b_o), strict=True)
    return Weights(*((matrix[0], torch.as_tensor(bias)) for matrix, bias in four))


HOW: dict[str, Function | Module] = {
    "separate": Module(sized, layers("W_q W_k W_v W_o"), "q k v", "allowed"),
    "einsums": Module(sized, layers("q_proj k_proj v_proj out_proj"), "x memory", "bools"),
    "fused": Module(sized, of_torch, "x", "real"),
    "function": Function(mask="allowed"),
    "padded": Function(mask="real", output=0),
    "arrays": Function(mask="allowed", numpy=True),
    "array_class": Module(sized, numpy_with_biases, "x memory", "bools"),
    "head_by_head": Module(sized, head_by_head, "x memory", "real"),
    "rearranged": Module(sized, layers("to_q to_k to_v to_out"), "x memory", "bools"),
    "causal_buffer": Module(sized, nano, "x", "causal"),
    "causal_function": Function(causal=True),
    "causal_arrays": Function(causal=True, numpy=True),
    "causal_loop": Function(causal=True),
    "causal_places": Module(sized, layers("q_proj k_proj v_proj o_proj"), "x", "causal"),
    "grouped_module": Module(sized, layers("q_proj k_proj v_proj o_proj", key_heads=2)),
    "grouped_function": Function(key_heads=2),
    "grouped_arrays": Function(key_heads=2, numpy=True),
    "grouped_loop": Module(sized, layers("wq wk wv wo", key_heads=2)),
    "grouped_einsum": Function("b t h d", key_heads=2),
}


class Case(NamedTuple):
    """On what a program is tried."""

    masked: bool = False
    hidden: bool = False
    cross: bool = False
    size: float = 1.0
    dtype: torch.dtype = torch.float64


CASES = {
    "mask after softmax": Case(masked=True),
    "mask multiplied": Case(masked=True),
    "mask never used": Case(masked=True),
    "mask inverted": Case(masked=True),
    "[PAD] hidden as query": Case(masked=True),
    "fully masked rows uniform": Case(masked=True, hidden=True),
    "-1e9 in half precision": Case(masked=True, dtype=torch.float16),
    "no maximum subtracted": Case(size=100),
    "memory ignored": Case(cross=True),
}


def made(program: str, style: str):
    """What the program defines, with the same random weights whenever it is a module."""
    defined: dict = {}
    exec(compile(program, style, "exec"), defined)
    thing = defined[NAME[style]]
    if isinstance(HOW.get(style), Function):
        return thing
    torch.manual_seed(3)
    module = sized(thing)
    if isinstance(module, nn.Module):
        module.double().eval()
        for parameter in module.parameters():
            nn.init.normal_(parameter, std=0.3)
    return module


def masks(how: Function | Module, case: Case) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """The mask for the program, and for torch."""
    if not case.masked:
        own = how.causal if isinstance(how, Function) else how.mask == "causal"
        return None, torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril() if own else None
    if how.mask in PADDINGS:
        real = torch.arange(TOKENS) < torch.tensor([[0 if case.hidden else 3], [TOKENS]])
        return PADDINGS[how.mask](real), real[:, None, None, :]
    seen = seen_keys(TOKENS, TOKENS)
    seen[0] &= not case.hidden
    return MASKS[how.mask](seen), seen


def came_out(program: str, style: str, case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    """What the program gives, and what torch gives."""
    how, thing = HOW[style], made(program, style)
    random = torch.manual_seed(4)
    mask, seen = masks(how, case)
    if isinstance(how, Function):
        heads = (HEADS, how.key_heads or HEADS, how.key_heads or HEADS)
        q, k, v = (torch.randn(BATCH, n, TOKENS, WIDTH, dtype=torch.float64, generator=random) for n in heads)
        q, k, v = (x.to(case.dtype) for x in (q * case.size, k * case.size, v))
        call = Called(thing, how)
        expected = F.scaled_dot_product_attention(q, k, v, seen, enable_gqa=how.key_heads is not None)
        return call(q, k, v, mask), call.laid_out(expected)
    x, memory = case.size * torch.randn(2, BATCH, TOKENS, D_MODEL, dtype=torch.float64, generator=random)
    x, memory = x.to(case.dtype), (memory if case.cross else x).to(case.dtype)
    if isinstance(thing, nn.Module):
        thing = thing.to(case.dtype)
    with torch.no_grad():
        return how(thing, x, memory, mask), expected_of(how.weights(thing), x, memory, seen)


def differs(wrong: torch.Tensor, right: torch.Tensor, atol: float) -> bool:
    return not torch.allclose(wrong, right, atol=atol, rtol=1e-3, equal_nan=True)


def test_each_mistake_is_planted_in_five_styles() -> None:
    styles = Counter(planted.mistake for planted in PLANTED)
    assert min(styles.values()) == 5 and len(styles) == 30
    assert len({(planted.mistake, planted.style) for planted in PLANTED}) == len(PLANTED)


def cases(how: Function | Module) -> list[Case]:
    """Those that what is called so can be tried on."""
    masked = [] if how.mask in (None, "causal") else [Case(masked=True)]
    crossing = [Case(cross=True)] if getattr(how, "takes", "x") != "x" else []
    return [Case(), Case(size=100), *masked, *crossing]


@pytest.mark.parametrize(("style", "case"), [(style, case) for style, how in HOW.items() for case in cases(how)])
def test_a_base_is_right(style: str, case: Case) -> None:
    torch.testing.assert_close(*came_out(base(style), style, case))


ids = [f"{planted.mistake}, {planted.style}" for planted in PLANTED]


def test_what_would_be_replaced_stands_once_in_its_base() -> None:
    assert [planted for planted in PLANTED if base(planted.style).count(planted.old) != 1] == []
    assert [planted for planted in PLANTED if planted.new == planted.old] == []


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, of what overflows
@pytest.mark.parametrize(
    "planted",
    [pytest.param(planted, id=name) for planted, name in zip(PLANTED, ids, strict=True) if planted.style in HOW],
)
def test_what_is_planted_is_wrong_where_it_should_be(planted: Planted) -> None:
    case = CASES.get(planted.mistake, Case())
    right, _ = came_out(base(planted.style), planted.style, case)
    atol = 1e-2 if case.dtype == torch.float16 else 1e-6
    if not case.hidden:
        assert right.isfinite().all()
    try:
        wrong, _ = came_out(source(planted), planted.style, case)
    except RuntimeError as error:  # -1e9 is no number of half precision
        assert planted.mistake == "-1e9 in half precision" and "overflow" in str(error)
    else:
        assert wrong.shape == right.shape and wrong.dtype == right.dtype
        assert differs(wrong, right, atol)
    # What shows with a mask, with large numbers or in half precision shows nowhere else.
    plain = [came_out(program, planted.style, Case())[0] for program in (source(planted), base(planted.style))]
    assert differs(*plain, 1e-6) == (case == Case())


@pytest.mark.parametrize(
    "planted",
    [one for one in PLANTED if one.mistake == "dropout left on" and one.style in HOW],
    ids=lambda one: one.style,
)
def test_dropout_that_was_left_on_gives_something_else_each_time(planted: Planted) -> None:
    how, thing = HOW[planted.style], made(source(planted), planted.style)
    if isinstance(how, Function):
        thing, given = Called(thing, how), torch.randn(3, BATCH, HEADS, TOKENS, WIDTH)
        assert differs(thing(*given), thing(*given), 1e-6)
    else:
        x = torch.randn(BATCH, TOKENS, D_MODEL).double()
        assert differs(how(thing, x), how(thing, x), 1e-6)


@pytest.mark.parametrize(
    "planted", [one for one in PLANTED if one.style.startswith("position")], ids=lambda one: one.style
)
def test_positions_are_added_once_in_the_base_and_twice_where_it_is_planted(planted: Planted) -> None:
    places, columns = np.arange(TOKENS)[:, None], np.arange(D_MODEL)[None, :]
    angles = places / 10000 ** ((columns - columns % 2) / D_MODEL)
    once = torch.as_tensor(np.sin(angles + (columns % 2) * np.pi / 2))
    x = torch.randn(BATCH, TOKENS, D_MODEL).double()
    for text, times in ((base(planted.style), 1), (source(planted), 2)):
        thing = made(text, planted.style)
        if planted.style == "position_learned":
            once = thing.position_embeddings.weight[:TOKENS]
        given = x.transpose(0, 1) if planted.style == "position_token_first" else x
        out = torch.as_tensor(thing(given.numpy() if planted.style == "position_arrays" else given))
        out = out.transpose(0, 1) if planted.style == "position_token_first" else out
        torch.testing.assert_close(out, x + times * once, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0].style}, {pair[0].mistake} and {pair[1].mistake}")
def test_two_mistakes_together_are_neither_of_them_alone(pair: tuple[Planted, Planted]) -> None:
    style = pair[0].style
    assert all(source(*two) == source(*pair) for two in (pair, pair[::-1]))
    case = Case(masked=any(CASES.get(planted.mistake, Case()).masked for planted in pair))
    both = came_out(source(*pair), style, case)[0]
    for program in (base(style), source(pair[0]), source(pair[1])):
        assert differs(both, came_out(program, style, case)[0], 1e-6)
