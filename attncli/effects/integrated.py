"""Integrated Jacobians: what each input token does to a text's embedding, on the way from a reference.

    u_i = ∫_0^1 J(r + α (x - r)) dα (x - r)_i        Σ_i u_i = ê(x) - ê(r)

ê is the embedding, of length 1; J its Jacobian by what goes into the first layer; r, the reference, is what goes into
it of the same text with the vector of [PAD] in place of every token that is not special, at the same positions. So

    cos(a, b) - cos(r_a, b) - cos(a, r_b) + cos(r_a, r_b) = Σ_ij u_i · u'_j

(Moeller, Nikolaev and Padó 2023, "An Attribution Method for Siamese Encoders", equation 4; 2024, "Approximate
Attributions for Off-the-Shelf Siamese Transformers", for networks that were not trained for it, where the terms of the
references are not 0.)

J (x - r)_i is a derivative in one direction: the text goes through the network with that tangent on one token, once for
each token, and J is never there as a whole.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import forward_ad

from attncli.base.errors import RequestError
from attncli.effects.copies import Unchanged
from attncli.effects.gradients import ByFormula
from attncli.models.output import Output
from attncli.models.walk import Beginning

LEAST_STEPS = 4


class Integrated(NamedTuple):
    """tokens: u `[token, size]`, with all steps; half: the same with half of them; embedding and reference: ê(x) and
    ê(r) `[size]`. All float64.
    """

    tokens: Tensor
    half: Tensor
    embedding: Tensor
    reference: Tensor


def integrated(text: Unchanged, output: Output, steps: int, advance: Callable[[], None] = lambda: None) -> Integrated:
    """By Clenshaw and Curtis's rule of so many steps, of which every second one makes that of half of them.

    output: of float64; advance: is called after each of the steps + 1 places where it looks.

    Raises RequestError where steps are no multiple of 4, or the vocabulary has no [PAD].
    """
    check_steps(steps)
    given = text.states[0].clone()  # what was made in inference mode has no derivatives
    start = reference(text)
    away = given - start
    places = [place for place, special in enumerate(text.tokens.special) if not special]
    ends = embedded(text, output, torch.stack([start, given]))
    whole, half = (ends.new_zeros(len(text.tokens), ends.shape[-1]) for _ in range(2))
    weights, halves = rule(steps), rule(steps // 2)
    for step, node in enumerate(nodes(steps)):
        found = slopes(text, output, start + node * away, away, places)
        whole[places] += weights[step] * found
        if step % 2 == 0:
            half[places] += halves[step // 2] * found
        advance()
    return Integrated(whole, half, ends[1], ends[0])


def check_steps(steps: int) -> None:
    if steps < LEAST_STEPS or steps % LEAST_STEPS:
        raise RequestError(f"--steps {steps}: a multiple of {LEAST_STEPS} is needed, so that half of them can be tried")


def reference(text: Unchanged) -> Tensor:
    """r, `[token, hidden_size]`. Raises RequestError where the vocabulary has no [PAD]."""
    model = text.model
    if model.tokenizer.pad_id is None:
        raise RequestError(f"the vocabulary of {model.place.name} has no [PAD], whose vector inputs are held against")
    ids = [
        own if special else model.tokenizer.pad_id
        for own, special in zip(text.tokens.ids, text.tokens.special, strict=True)
    ]
    with torch.no_grad():
        made = next(model.walk(model.rows([replace(text.tokens, ids=ids)], text.mask)))
    return made[: len(ids)]


def embedded(text: Unchanged, output: Output, x: Tensor) -> Tensor:
    """The embeddings, of length 1, of copies of a text that go into the first layer as x `[copy, token, hidden_size]`:
    `[copy, size]`, float64.
    """
    copies = [text.tokens] * len(x)
    rows = text.model.rows(copies, text.mask)
    with torch.no_grad():
        beginning = Beginning(0, x.flatten(0, 1))
        *_, last = text.model.walk(rows, [ByFormula()], beginning=beginning)
        return unit(torch.stack(output([one.double() for one in rows.last(last)], copies)))


def unit(vectors: Tensor) -> Tensor:
    """The same of length 1, whose dot products are cosines."""
    return F.normalize(vectors, dim=-1)


def slopes(text: Unchanged, output: Output, x: Tensor, away: Tensor, places: Sequence[int]) -> Tensor:
    """How the embedding changes at x in the direction of each of these tokens' part of `away`, `[token, hidden_size]`
    both: `[place, size]`, float64.
    """
    together = max(1, text.model.batch_tokens // len(text.tokens))
    found = []
    for begin in range(0, len(places), together):
        some = places[begin : begin + together]
        tangent = x.new_zeros(len(some), *x.shape)
        for copy, place in enumerate(some):
            tangent[copy, place] = away[place]
        with forward_ad.dual_level():
            made = embedded(text, output, forward_ad.make_dual(x.expand_as(tangent).clone(), tangent))
            found.append(forward_ad.unpack_dual(made).tangent)
    return torch.cat(found)


def nodes(steps: int) -> list[float]:
    """Where the rule looks, from 0 to 1; every second one is a node of that of half the steps."""
    return [(1 - math.cos(math.pi * step / steps)) / 2 for step in range(steps + 1)]


def rule(steps: int) -> list[float]:
    """What it multiplies what it sees there with, for an even number of steps (Clenshaw and Curtis 1960, "A method for
    numerical integration on an automatic computer").
    """
    weights = []
    for step in range(steps + 1):
        waves = [
            (1 if 2 * wave == steps else 2) / (4 * wave**2 - 1) * math.cos(2 * math.pi * wave * step / steps)
            for wave in range(1, steps // 2 + 1)
        ]
        weights.append((1 if step in (0, steps) else 2) * (1 - sum(waves)) / (2 * steps))
    return weights
