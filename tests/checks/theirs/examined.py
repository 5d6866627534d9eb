"""Somebody's attention, asked and examined as `check_attention` does it; and attention to be examined."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attncli.attention.mistakes import RIGHT
from attncli.checks.code.subject import Subject
from attncli.checks.theirs.attention.asking import make
from attncli.checks.theirs.attention.examination import Examination
from attncli.checks.theirs.attention.fitting import Asked, Fit
from attncli.checks.theirs.calling.forms import BY_HEADS, PROJECTED, Encoding, Form
from attncli.checks.theirs.calling.making import Sizes
from attncli.checks.theirs.found import Wanted

HEADS = "batch head token d"
PAIRS, PADDING = Encoding("query key", "allowed"), Encoding("batch key", "allowed")

LAYOUTS = {layout.name: layout for layout in (*PROJECTED, *BY_HEADS)}


def asked(thing: Any, **wanted: Any) -> Asked:
    subject = Subject(thing)
    return make(subject, subject.describe(), Wanted(**wanted), Sizes())


def examined(thing: Any, dtype: str = "float64", **accepted: Encoding) -> Examination:
    """Of heads, beside the formula, without a search for what it is. accepted: its masks, by their role."""
    it = asked(thing)
    form = Form(it.roles, LAYOUTS[HEADS], accepted)
    ways = {role: (one,) for role, one in accepted.items()}
    return Examination(it, Fit(form, None, dtype, True, RIGHT, (), accepted=ways), "zero-or-nan")


def softmax(scores: Tensor) -> Tensor:
    return scores.softmax(-1).nan_to_num()


def attention_with(
    scores: Callable[[Tensor], Tensor] = lambda scores: scores,
    normalise: Callable[[Tensor], Tensor] = softmax,
    mask_of_pairs: Callable[[Tensor], Tensor] = lambda mask: mask,
    mask_of_padding: Callable[[Tensor], Tensor] = lambda mask: mask,
) -> Callable[..., Tensor]:
    """Right, but for what is given here. attn_mask `[query, key]`, key_padding_mask `[batch, key]`, True = allowed."""

    def attention(query, key, value, attn_mask=None, key_padding_mask=None):
        made = scores(query @ key.mT / query.shape[-1] ** 0.5)
        if attn_mask is not None:
            made = made.masked_fill(~mask_of_pairs(attn_mask), -torch.inf)
        if key_padding_mask is not None:
            made = made.masked_fill(~mask_of_padding(key_padding_mask)[:, None, None, :], -torch.inf)
        return normalise(made) @ value

    return attention
