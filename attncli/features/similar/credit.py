"""Credit the tokens of a text with its embedding: their last vectors exactly, or input tokens by integration.

Last vectors: the embedding is a sum e = Σ_i z_i, with the part of each token's last vector.

    pooling     z_i = w_i x_i; max: x_i where it is the largest of all tokens, and 0 elsewhere
    Normalize   z_i / ‖Σ z‖
    Dense       z_i W^T + s_i b, where it has no activation; s_i: the token's share of the pooling's weights, w_i / Σ w

The shares of the bias are a convention: they don't depend on the text.

Input tokens: integrated Jacobians, on the way from a reference.

    u_i = ∫_0^1 J(r + α (x - r)) dα (x - r)_i        Σ_i u_i = ê(x) - ê(r)

ê is the embedding, of length 1, and J its Jacobian by the input of the first layer. The reference r is the input of the
same text with the vector of [PAD] in place of every token that is not special, at the same positions. So

    cos(a, b) - cos(r_a, b) - cos(a, r_b) + cos(r_a, r_b) = Σ_ij u_i · u'_j

(Moeller, Nikolaev and Padó 2023, "An Attribution Method for Siamese Encoders", equation 4; 2024, "Approximate
Attributions for Off-the-Shelf Siamese Transformers", for networks that were not trained for it, where the terms of the
references are not 0.)

J (x - r)_i is a derivative in one direction. The text goes through the network once per token, with that tangent on the
token; J is never built.
"""

import math
from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from dataclasses import replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import forward_ad

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.effects.change import Unchanged
from attncli.effects.gradients import ByFormula
from attncli.features.similar import References
from attncli.models.engine import Engine, require_tapped
from attncli.models.network import NO_ACTIVATION, Linear
from attncli.models.output import LAST, MEAN, POOLINGS, AvailableOutputs, Output
from attncli.models.walk import Beginning
from attncli.text.tokens import Tokens

POOLS = {"mean": MEAN, "last": LAST}  # names of --pool, and those of checkpoints


def pooled_as(model: Engine, pool: str | None) -> Engine:
    """Return the model whose output "embedding" pools the last vectors as asked, of `choices.Pool`.

    None: as the checkpoint says. Raises RequestError where the checkpoint says nothing and pool is None, and where both
    say something.
    """
    several = isinstance(model, Engine) and len(model.parts) > 1
    tapped = require_tapped(model, "encoder" if several else None)
    if pool is not None:
        choices.check("pooling", pool, choices.Pool)
    outputs, refused = tapped.available_outputs
    if "embedding" in {*outputs, *refused}:
        if pool is not None:
            raise RequestError(f"the files of {tapped.place.name} say how its vectors are pooled: leave --pool out")
        return tapped
    if pool is None:
        raise RequestError(
            f"the files of {tapped.place.name} do not say how the vectors of a text become one: add --pool mean, or "
            "--pool last (the last token)"
        )
    made = copy(tapped)
    embedding = Output("embedding", [POOLS[pool]], None, list, nn.Sequential)
    made.available_outputs = AvailableOutputs({**outputs, "embedding": embedding}, refused)
    return made


# --- last vectors ---------------------------------------------------------------------------------------

MAX = "max"
LEAST = 1e-12  # the least number that Normalize divides by
INSTEAD = "ask with --inputs, which is for any network"


def credit_vectors(text: Unchanged, output: Output) -> Tensor:
    """Return the part of each token in the embedding of length 1, `[token, size]`."""
    parts = parts_of(output, text.last[0].double(), text.tokens)
    return parts / norm(parts.sum(dim=0))


def parts_of(output: Output, vectors: Tensor, tokens: Tokens) -> Tensor:
    """Return parts `[token, size]` whose sum is the `output` of the last vectors `[token, size]`; 0 for [PAD].

    Raises RequestError where there is no such sum.
    """
    parts = torch.cat([_pooled_part(name, vectors[tokens.real]) for name in output.pooling], dim=-1)
    for module in output.network.children():
        parts = _through(module, parts, output.pooling)
    made = parts.new_zeros(len(tokens), parts.shape[-1])
    made[tokens.real] = parts
    return made


def _pooled_part(name: str, vectors: Tensor) -> Tensor:
    """Return the part of each token in a pooling of the real tokens' vectors, `[token, size]` both.

    Of equal largest numbers the first counts.
    """
    if name == MAX:
        tokens = torch.arange(len(vectors), device=vectors.device)[:, None]
        return vectors * (tokens == vectors.argmax(dim=0))
    return _pooling_weights(name, vectors)[:, None] * vectors


def _pooling_weights(name: str, like: Tensor) -> Tensor:
    """Return the weights of a linear pooling, `[token]`: the poolings of unit vectors."""
    return POOLINGS[name](torch.eye(len(like), dtype=like.dtype, device=like.device))


def _through(module: nn.Module, parts: Tensor, poolings: Sequence[str]) -> Tensor:
    """Send the parts through Normalize or Dense. Raises RequestError where they are no sum any more."""
    if not isinstance(module, Linear):
        return parts / norm(parts.sum(dim=0))
    if module.activation != NO_ACTIVATION:
        raise RequestError(
            f"a Dense with {module.activation} follows the pooling: the cosine is no sum over pairs of tokens then; "
            f"{INSTEAD}"
        )
    made = parts @ module.weight.T
    return made if module.bias is None else made + shares(poolings, parts)[:, None] * module.bias


def shares(poolings: Sequence[str], parts: Tensor) -> Tensor:
    """Return the share of each token in the weights of the pooling, `[token]`.

    Raises RequestError where there are no such weights, and where several poolings differ in them.
    """
    known = [] if MAX in poolings else [_pooling_weights(name, parts) for name in poolings]
    found = [weights / weights.sum() for weights in known]
    if not found or not all(torch.allclose(found[0], other) for other in found):
        raise RequestError(
            f"after {' and '.join(poolings)} pooling comes a Dense with a bias, of which tokens have no share that is "
            f"known: {INSTEAD}"
        )
    return found[0]


def has_bias(output: Output) -> bool:
    """Return whether a Dense adds a bias, of which tokens have shares."""
    return any(isinstance(module, Linear) and module.bias is not None for module in output.network.children())


def norm(vector: Tensor) -> Tensor:
    """Return the length of a vector, which Normalize divides by."""
    return vector.norm().clamp(min=LEAST)


def in_float64(output: Output) -> Output:
    """Return the same output, computed in float64 from the last vectors on."""
    return Output(
        output.kind, output.pooling, output.function, lambda: output.labels, lambda: deepcopy(output.network).double()
    )


# --- input tokens ---------------------------------------------------------------------------------------

LEAST_STEPS = 4


class Integrated(NamedTuple):
    """The integrals of a text, in float64.

    tokens: u `[token, size]`; half: the same with half of the steps; embedding, reference: ê(x) and ê(r) `[size]`.
    """

    tokens: Tensor
    half: Tensor
    embedding: Tensor
    reference: Tensor


def credit_inputs(
    one: Unchanged, other: Unchanged, output: Output, steps: int, cosine: float, advance: Callable[[], None]
) -> tuple[Tensor, References]:
    """Return the contributions of pairs of input tokens, `[token, key token]`, and the terms of the references."""
    a, b = (integrated(text, output, steps, advance) for text in (one, other))
    first, second, both = (
        float(x @ y) for x, y in ((a.reference, b.embedding), (a.embedding, b.reference), (a.reference, b.reference))
    )
    half = float((a.half @ b.half.T).sum()) + first + second - both - cosine
    return a.tokens @ b.tokens.T, References(first, second, both, steps, half)


def integrated(text: Unchanged, output: Output, steps: int, advance: Callable[[], None] = lambda: None) -> Integrated:
    """Integrate by Clenshaw and Curtis's rule; every second step gives the rule of half of the steps.

    output: in float64; advance: called after each of the steps + 1 nodes.

    Raises RequestError where steps are no multiple of 4, or the vocabulary has no [PAD].
    """
    check_steps(steps)
    given = text.states[0].clone()  # tensors made in inference mode have no derivatives
    start = reference(text)
    away = given - start
    places = [place for place, special in enumerate(text.tokens.special) if not special]
    ends = _embed(text, output, torch.stack([start, given]))
    whole, half = (ends.new_zeros(len(text.tokens), ends.shape[-1]) for _ in range(2))
    weights, halves = rule(steps), rule(steps // 2)
    for step, node in enumerate(nodes(steps)):
        found = _slopes(text, output, start + node * away, away, places)
        whole[places] += weights[step] * found
        if step % 2 == 0:
            half[places] += halves[step // 2] * found
        advance()
    return Integrated(whole, half, ends[1], ends[0])


def check_steps(steps: int) -> None:
    """Raises RequestError where steps are no multiple of 4."""
    if steps < LEAST_STEPS or steps % LEAST_STEPS:
        raise RequestError(f"--steps {steps}: a multiple of {LEAST_STEPS} is needed, so that half of them can be tried")


def reference(text: Unchanged) -> Tensor:
    """Return r, `[token, hidden_size]`. Raises RequestError where the vocabulary has no [PAD]."""
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


def _embed(text: Unchanged, output: Output, x: Tensor) -> Tensor:
    """Return the embeddings of length 1, `[copy, size]`, float64, of copies of a text.

    x: their inputs of the first layer, `[copy, token, hidden_size]`.
    """
    copies = [text.tokens] * len(x)
    rows = text.model.rows(copies, text.mask)
    with torch.no_grad():
        beginning = Beginning(0, x.flatten(0, 1))
        *_, last = text.model.walk(rows, [ByFormula()], beginning=beginning)
        return F.normalize(torch.stack(output([one.double() for one in rows.last(last)], copies)), dim=-1)


def _slopes(text: Unchanged, output: Output, x: Tensor, away: Tensor, places: Sequence[int]) -> Tensor:
    """Return the derivatives of the embedding at x along the part of each of these tokens in `away`.

    x, away: `[token, hidden_size]`. The result is `[place, size]`, float64.
    """
    together = max(1, text.model.batch_tokens // len(text.tokens))
    found = []
    for begin in range(0, len(places), together):
        some = places[begin : begin + together]
        tangent = x.new_zeros(len(some), *x.shape)
        for number, place in enumerate(some):
            tangent[number, place] = away[place]
        with forward_ad.dual_level():
            made = _embed(text, output, forward_ad.make_dual(x.expand_as(tangent).clone(), tangent))
            found.append(forward_ad.unpack_dual(made).tangent)
    return torch.cat(found)


def nodes(steps: int) -> list[float]:
    """Return the nodes of the rule, from 0 to 1; every second one is a node of the rule of half the steps."""
    return [(1 - math.cos(math.pi * step / steps)) / 2 for step in range(steps + 1)]


def rule(steps: int) -> list[float]:
    """Return the weights of the nodes, for an even number of steps.

    Clenshaw and Curtis 1960, "A method for numerical integration on an automatic computer".
    """
    weights = []
    for step in range(steps + 1):
        waves = [
            (1 if 2 * wave == steps else 2) / (4 * wave**2 - 1) * math.cos(2 * math.pi * wave * step / steps)
            for wave in range(1, steps // 2 + 1)
        ]
        weights.append((1 if step in (0, steps) else 2) * (1 - sum(waves)) / (2 * steps))
    return weights
