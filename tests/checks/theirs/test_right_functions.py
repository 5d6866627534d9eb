"""The functions that are called right are right: held against torch's own kernel, without anything of ours."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from checks.theirs.calling import MASKS, PADDINGS, Called, Function, seen_keys, theirs
from checks.theirs.right import RIGHT

pytestmark = pytest.mark.slow  # these hold the programs of the tests themselves to torch

BATCH, HEADS, QUERIES, KEYS, WIDTH, VALUE_WIDTH = 2, 4, 5, 7, 3, 6


LENGTHS = torch.tensor([4, 7])

NAN = float("nan")
FUNCTIONS = {
    "plain": Function(mask="ones", hidden_row=NAN),
    "annotated": Function(mask="ones", output=0, hidden_row=NAN),
    "with_torch_einsum": Function(mask="allowed", hidden_row=NAN),
    "tokens_before_heads": Function("b t h d", "allowed", hidden_row=NAN),
    "keys_third": Function("b t h d"),
    "batched": Function("(b h) t d"),
    "batched_added": Function("(b h) t d", "added", hidden_row=NAN),
    "one_matrix": Function("t d"),
    "in_loops": Function(),
    "online_softmax": Function(mask="allowed", hidden_row=0),
    "by_logsumexp": Function(mask="allowed", hidden_row=NAN),
    "fused_kernel": Function(mask="allowed", hidden_row=0),
    "fused_kernel_of_tokens_before_heads": Function("b t h d"),
    "flex": Function(mask="allowed", gradients=False, hidden_row=0),
    "weights_first": Function(output=1),
    "as_dict": Function(mask="allowed", output="output", hidden_row=NAN),
    "blocked": Function(mask="forbidden", hidden_row=NAN),
    "added": Function(mask="added", hidden_row=NAN),
    "key_padding": Function(mask="padding", hidden_row=NAN),
    "broadcast_padding": Function(mask="broadcast", hidden_row=0),
    "valid_lengths": Function("(b h) t d", "lengths", hidden_row=NAN),
    "two_masks": Function(mask="real", hidden_row=NAN),
    "scaled_on_both_sides": Function(mask="ones", hidden_row=NAN),
    "softmax_by_hand": Function(mask="allowed", hidden_row=0),
    "causal": Function(causal=True),
    "causal_or_not": Function(),
    "grouped": Function(key_heads=2),
    "a_head_at_a_time": Function(),
    "backward_by_hand": Function(),
    "DotProduct": Function(mask="allowed", output=0, hidden_row=NAN),
    "matrices": Function(gradients=False, numpy=True),
    "with_mask": Function(mask="allowed", output=0, gradients=False, numpy=True, hidden_row=0),
    "with_einsum": Function("b t h d", "added", gradients=False, numpy=True, hidden_row=0),
    "one_query_at_a_time": Function("t d", gradients=False, numpy=True),
    "causal_matrices": Function(causal=True, gradients=False, numpy=True),
}


def heads_of(key_heads: int | None = None) -> list[torch.Tensor]:
    random = torch.manual_seed(0)
    key_heads = key_heads or HEADS
    shapes = [(HEADS, QUERIES, WIDTH), (key_heads, KEYS, WIDTH), (key_heads, KEYS, VALUE_WIDTH)]
    return [torch.randn(BATCH, *shape, dtype=torch.float64, generator=random) for shape in shapes]


def told(how: Function, hidden: bool) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """The mask for the function, and for torch; hidden: the first query, or the first text, may see nothing."""
    if how.mask in PADDINGS:
        rows, lengths = (BATCH * HEADS, LENGTHS.repeat_interleave(HEADS)) if "(b h)" in how.layout else (BATCH, LENGTHS)
        lengths = lengths.clone()
        if hidden:
            lengths[0] = 0
        real = torch.arange(KEYS).expand(rows, -1) < lengths[:, None]
        seen = real.view(BATCH, -1, 1, KEYS) if "(b h)" in how.layout else real[:, None, None, :]
        return PADDINGS[how.mask](real), seen
    if how.mask is not None:
        seen = seen_keys(QUERIES, KEYS)
        seen[0] &= not hidden
        return MASKS[how.mask](seen), seen
    return None, torch.ones(QUERIES, KEYS, dtype=torch.bool).tril() if how.causal else None


def functions(names):
    """A test for each of these."""
    here = [
        pytest.param(right.file, right.name, id=right.name, marks=[pytest.mark.slow] if right.name == "flex" else [])
        for right in RIGHT
        if right.name in names
    ]
    return pytest.mark.parametrize(("file", "name"), here)


@functions(FUNCTIONS)
@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_a_function_is_what_the_kernel_of_torch_is(file: str, name: str) -> None:
    how = FUNCTIONS[name]
    call = Called(theirs(file, name), how)
    q, k, v = heads_of(how.key_heads)
    mask, seen = told(how, hidden=False)
    wanted = partial(F.scaled_dot_product_attention, enable_gqa=how.key_heads is not None)
    torch.testing.assert_close(call(q, k, v, mask), call.laid_out(wanted(q, k, v, seen)))
    if mask is not None and how.mask != "broadcast" and name != "batched_added":
        torch.testing.assert_close(call(q, k, v), call.laid_out(wanted(q, k, v)))
    if how.gradients:
        given = [x.requires_grad_() for x in (q, k, v)]
        up = torch.randn_like(call(q, k, v, mask))
        found = torch.autograd.grad(call(q, k, v, mask), given, up)
        expected = torch.autograd.grad(call.laid_out(wanted(q, k, v, seen)), given, up)
        torch.testing.assert_close(found, expected)


@functions([name for name, how in FUNCTIONS.items() if how.mask])
@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_a_row_that_may_see_nothing_is_0_or_nan(file: str, name: str) -> None:
    how = FUNCTIONS[name]
    call = Called(theirs(file, name), how)
    q, k, v = heads_of()
    mask, seen = told(how, hidden=True)
    expected = F.scaled_dot_product_attention(q, k, v, seen)
    expected[~seen.any(-1).expand(BATCH, HEADS, QUERIES)] = how.hidden_row
    torch.testing.assert_close(call(q, k, v, mask), call.laid_out(expected), equal_nan=True)
