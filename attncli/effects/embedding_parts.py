"""A text's embedding as a sum over its tokens, exactly: e = Σ_i z_i, with what each token's last vector brings.

    pooling     z_i = w_i x_i; max: x_i where it is the largest of all tokens, and 0 elsewhere
    Normalize   z_i / ‖Σ z‖
    Dense       z_i W^T + s_i b, where it has no activation; s_i: the token's share of the pooling's weights, w_i / Σ w

How the bias is shared out is a convention: it is the same whatever the text says.
"""

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn

from attncli.base.errors import RequestError
from attncli.models.network import NO_ACTIVATION, Linear
from attncli.models.output import POOLINGS, Output
from attncli.text.tokens import Tokens

MAX = "max"
LEAST = 1e-12  # that Normalize divides by
INSTEAD = "ask with --inputs, which is for any network"


def parts_of(output: Output, vectors: Tensor, tokens: Tokens) -> Tensor:
    """What each token brings, `[token, size]`, whose sum is what `output` gives of the last vectors `[token, size]`; 0
    for [PAD].

    Raises RequestError where there is no such sum.
    """
    real = [place for place, padding in enumerate(tokens.padding) if not padding]
    parts = torch.cat([pooled(name, vectors[real]) for name in output.pooling], dim=-1)
    for module in output.network.children():
        parts = through(module, parts, output.pooling)
    made = parts.new_zeros(len(tokens), parts.shape[-1])
    made[real] = parts
    return made


def pooled(name: str, vectors: Tensor) -> Tensor:
    """What each token brings to a pooling of the real tokens' vectors, `[token, size]` both; of equal largest numbers
    the first counts.
    """
    if name == MAX:
        tokens = torch.arange(len(vectors), device=vectors.device)[:, None]
        return vectors * (tokens == vectors.argmax(dim=0))
    return weights_of(name, vectors)[:, None] * vectors


def weights_of(name: str, like: Tensor) -> Tensor:
    """What a linear pooling multiplies the vectors with, `[token]`: what it makes of unit vectors."""
    return POOLINGS[name](torch.eye(len(like), dtype=like.dtype, device=like.device))


def through(module: nn.Module, parts: Tensor, poolings: Sequence[str]) -> Tensor:
    """What Normalize or Dense makes of the parts. Raises RequestError where they are no sum any more."""
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
    """Of the pooling's weights that of each token, `[token]`. Raises RequestError where it has no such weights, or
    several poolings have not the same.
    """
    known = [] if MAX in poolings else [weights_of(name, parts) for name in poolings]
    found = [weights / weights.sum() for weights in known]
    if not found or not all(torch.allclose(found[0], other) for other in found):
        raise RequestError(
            f"after {' and '.join(poolings)} pooling comes a Dense with a bias, of which tokens have no share that is "
            f"known: {INSTEAD}"
        )
    return found[0]


def has_bias(output: Output) -> bool:
    """Whether a Dense adds one, of which tokens have shares."""
    return any(isinstance(module, Linear) and module.bias is not None for module in output.network.children())


def norm(vector: Tensor) -> Tensor:
    """Its length, that Normalize divides by."""
    return vector.norm().clamp(min=LEAST)


def in_float64(output: Output) -> Output:
    """The same, computed in float64 from the last vectors on."""
    return Output(output.kind, output.pooling, output.function, lambda: output.labels, lambda: doubled(output.network))


def doubled(network: nn.Module) -> nn.Module:
    """A copy of it in float64."""
    return deepcopy(network).double()
