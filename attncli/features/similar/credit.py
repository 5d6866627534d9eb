"""Divide the embedding of a text among the last vectors of its tokens, as a sum of one part per token.

    e = Σ_i z_i

    pooling     z_i = w_i x_i; max: the elements of x_i that are the largest of all tokens, and 0 elsewhere
    Normalize   z_i / ‖Σ z‖
    Dense       z_i W^T + s_i b, if it has no activation; s_i: the token's share of the pooling's weights, w_i / Σ w

The shares of the bias are a convention: they don't depend on the text.
"""

from collections.abc import Sequence
from copy import copy, deepcopy

import torch
from torch import Tensor, nn

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.effects.change import Unchanged
from attncli.models.engine import Engine, check_model, require_tapped
from attncli.models.network import NO_ACTIVATION, Linear
from attncli.models.output import LAST, MEAN, POOLINGS, AvailableOutputs, Output
from attncli.text.tokens import Tokens

POOLS = {"mean": MEAN, "last": LAST}  # names of --pool, and those of checkpoints


def with_pooling(model: Engine, pool: str | None) -> Engine:
    """Return the model with an output "embedding" that pools the last vectors by `pool`, one of `choices.Pool`.

    None keeps the checkpoint's pooling. Raises RequestError if neither names a pooling, or both do.
    """
    check_model(model)
    tapped = require_tapped(model, "encoder" if len(model.parts) > 1 else None)
    if pool is not None:
        choices.check("pooling", pool, choices.Pool)
    outputs, refused = tapped.available_outputs
    if "embedding" in {*outputs, *refused}:
        if pool is not None:
            raise RequestError(f"the files of {tapped.place.name} name its pooling: omit --pool")
        return tapped
    if pool is None:
        raise RequestError(
            f"the files of {tapped.place.name} name no pooling: add --pool mean, or --pool last (the last token)"
        )
    made = copy(tapped)
    embedding = Output("embedding", [POOLS[pool]], None, list, nn.Sequential)
    made.available_outputs = AvailableOutputs({**outputs, "embedding": embedding}, refused)
    return made


# --- last vectors ---------------------------------------------------------------------------------------

MAX = "max"
LEAST = 1e-12  # the smallest number that Normalize divides by
INSTEAD = "attncli ablate --similar-to measures heads for any network"


def credit_vectors(text: Unchanged, output: Output) -> Tensor:
    """Return each token's part of the normalised embedding, `[token, size]`."""
    parts = parts_of(output, text.last[0].double(), text.tokens)
    return parts / norm(parts.sum(dim=0))


def parts_of(output: Output, vectors: Tensor, tokens: Tokens) -> Tensor:
    """Return parts `[token, size]` whose sum is the `output` of the last vectors `[token, size]`; 0 for [PAD].

    Raises RequestError if there is no such sum.
    """
    x, pooled = vectors[tokens.real], []
    for name in output.pooling:
        if name == MAX:  # the first of equal maxima
            numbers = torch.arange(len(x), device=x.device)[:, None]
            pooled.append(x * (numbers == x.argmax(dim=0)))
        else:
            pooled.append(_pooling_weights(name, x)[:, None] * x)
    parts = torch.cat(pooled, dim=-1)
    for module in output.network.children():
        if not isinstance(module, Linear):
            parts = parts / norm(parts.sum(dim=0))
            continue
        if module.activation != NO_ACTIVATION:
            raise RequestError(
                f"a Dense layer with {module.activation} follows the pooling, so the cosine is not a sum over pairs of "
                f"tokens; {INSTEAD}"
            )
        biases = 0 if module.bias is None else shares(output.pooling, parts)[:, None] * module.bias
        parts = parts @ module.weight.T + biases
    made = parts.new_zeros(len(tokens), parts.shape[-1])
    made[tokens.real] = parts
    return made


def _pooling_weights(name: str, like: Tensor) -> Tensor:
    """Return the weights of a linear pooling, `[token]`, by pooling unit vectors."""
    return POOLINGS[name](torch.eye(len(like), dtype=like.dtype, device=like.device))


def shares(poolings: Sequence[str], parts: Tensor) -> Tensor:
    """Return the share of each token in the weights of the pooling, `[token]`.

    Raises RequestError if there are no such weights, or several poolings differ in them.
    """
    known = [] if MAX in poolings else [_pooling_weights(name, parts) for name in poolings]
    found = [weights / weights.sum() for weights in known]
    if not found or not all(torch.allclose(found[0], other) for other in found):
        raise RequestError(
            f"a Dense layer with a bias follows {' and '.join(poolings)} pooling, and the bias can't be divided among "
            f"tokens; {INSTEAD}"
        )
    return found[0]


def has_bias(output: Output) -> bool:
    """Return True if a Dense module adds a bias, which is divided among the tokens."""
    return any(isinstance(module, Linear) and module.bias is not None for module in output.network.children())


def norm(vector: Tensor) -> Tensor:
    """Return the length of a vector, which Normalize divides by."""
    return vector.norm().clamp(min=LEAST)


def in_float64(output: Output) -> Output:
    """Return the same output, computed in float64 from the last vectors on."""
    return Output(
        output.kind, output.pooling, output.function, lambda: output.labels, lambda: deepcopy(output.network).double()
    )
