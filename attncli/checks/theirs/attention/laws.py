"""The laws of attention, on a subject alone: what comes out in two runs, without the formula."""

import torch
from torch import Tensor

from attncli.attention.masks import causal_mask
from attncli.attention.mistakes import Inputs, Seen
from attncli.checks.theirs.attention.examination import Examination
from attncli.checks.theirs.calling.drawing import some_tokens
from attncli.checks.theirs.comparing import difference
from attncli.checks.theirs.found import Check

MORE = 3  # tokens that are appended


def check_laws(of: Examination) -> list[Check]:
    return [
        rows_sum_to_one(of),
        keys_are_a_set(of),
        tokens_are_a_set(of),
        future_changes_no_prefix(of),
        padding_changes_nothing(of),
    ]


def rows_sum_to_one(of: Examination) -> Check:
    """Each query's weights; where none are given, the output for values of 1."""
    name = "weights sum to 1"
    inputs = of.draw(seed=20)
    if of.fit.reading is None and of.asked.roles.has("value"):
        trial = of.run(inputs._replace(value=torch.ones_like(inputs.value)))
        sums = None if trial.result is None else trial.result.output
    else:
        trial = of.run(inputs)
        given = trial.result is not None and trial.result.weights.numel()
        sums = trial.result.weights.sum(-1) if trial.result is not None and given else None
    if sums is None:
        return Check(name, None, note="it gives no weights")
    gap = difference(sums, torch.ones_like(sums))
    return Check(name, gap <= trial.within, gap)


def keys_are_a_set(of: Examination) -> Check:
    """Permuting keys with their values changes nothing."""
    name = "permuting keys with values changes nothing"
    if not of.asked.roles.crosses or of.ordered:
        return Check(name, None, note="its keys stand in the order of its queries")
    inputs = of.draw(seed=21)
    order = shuffled(inputs.key.shape[-2])
    moved = inputs._replace(key=inputs.key[..., order, :], value=inputs.value[..., order, :])
    return apart(of, name, inputs, moved, slice(None), slice(None))


def tokens_are_a_set(of: Examination) -> Check:
    """Permuting the tokens permutes the output, and does no more."""
    name = "permuting tokens permutes the output"
    if of.ordered:
        return Check(name, None, note="the places of its tokens matter by themselves")
    inputs = of.draw(crosses=False, seed=22)
    order = shuffled(inputs.key.shape[-2])
    return apart(of, name, inputs, some_tokens(inputs, order), order, slice(None))


def future_changes_no_prefix(of: Examination) -> Check:
    """Under a causal mask."""
    name = "the future changes no prefix"
    whole = of.draw(crosses=False, seed=23)
    tokens = whole.query.shape[-2]
    prefix = some_tokens(whole, range(tokens - MORE))
    if not of.causal:
        whole, prefix = (of.pairs(x, causal_mask(x.query.shape[-2])) for x in (whole, prefix))
    if of.form_of(whole) is None or of.form_of(prefix) is None:
        return Check(name, None, note="it takes no such mask")
    return apart(of, name, whole, prefix, slice(tokens - MORE), slice(None))


def padding_changes_nothing(of: Examination) -> Check:
    """Appended [PAD] that is hidden."""
    name = "appended [PAD] changes nothing"
    long = of.draw(crosses=False, seed=24)
    tokens = long.query.shape[-2]
    real = torch.arange(tokens) < tokens - MORE
    hidden = long._replace(seen=Seen(padding=real.expand(long.query.shape[0], -1)))
    short = some_tokens(long, range(tokens - MORE))
    if of.form_of(hidden) is None:
        return Check(name, None, note="it takes no such mask")
    return apart(of, name, hidden, short, slice(tokens - MORE), slice(None))


def shuffled(tokens: int) -> Tensor:
    return torch.randperm(tokens, generator=torch.Generator().manual_seed(0))


def apart(
    of: Examination, name: str, one: Inputs, other: Inputs, of_one: slice | Tensor, of_other: slice | Tensor
) -> Check:
    """Whether these queries' outputs of two runs are the same."""
    first, second = of.run(one), of.run(other)
    if first.result is None or second.result is None:
        return Check(name, None, note="it can't be run so")
    gap = difference(first.result.output[..., of_one, :], second.result.output[..., of_other, :])
    return Check(name, gap <= first.within, gap)
