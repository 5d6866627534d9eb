"""ALTI: how much each token of the input is in a token of a layer, by what its vector brings and not by weights.

Of an attention block, what token j brings to token i is a vector, T_i(x_j), and the block's output y_i is the sum of
these and of a constant. How much of y_i comes from j is how near T_i(x_j) is to y_i (Ferrando et al. 2022, "Measuring
the Mixing of Contextual Information in the Transformer", section 3):

    T_i(x_j) = L_i(Σ_h α_ij^h v_j^h W_O^h + [i = j] x_j)      c_ij ∝ max(0, ‖y_i‖₁ - ‖y_i - T_i(x_j)‖₁)

L_i is the norm after the block, taken as linear: γ (z - mean(z)) / σ_i, with σ_i of what it normalises. Where the norm
stands before the block (pre-norm), nothing stands there. Shares of a row sum to 1; layers are multiplied as in rollout,
without a share for the residual connection, which is in T. The feed-forward part is passed over.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from attncli.analysis.rollout import rollout
from attncli.base.arrays import Doubles
from attncli.effects.copies import Unchanged
from attncli.models.block import Block, Tap
from attncli.models.network import Layer

TOGETHER = 2**24  # elements of the vectors that are made at once


class Mixing(Tap):
    """Keeps what heads of one text mix: by layer weights `[head, query, key]` and values `[head, key, head_dim]`."""

    def __init__(self) -> None:
        self.kept: dict[int, tuple[Tensor, Tensor]] = {}

    def places(self, block: Block) -> Sequence[int]:
        return range(len(block.numbers))

    def begin(self, block: Block) -> Block:
        room = block.query.new_zeros(*block.query.shape[1:3], block.key.shape[2])
        self.kept[block.layer] = room, block.value[0]
        return block

    def weights(self, part: Block, weights: Tensor) -> None:
        self.kept[part.layer][0][:, part.queries, part.keys] = weights[0]


def alti(text: Unchanged) -> Doubles:
    """Shares of the input tokens in every token of every layer, `[layer, token, input token]`, rows sum to 1."""
    keep, network = Mixing(), text.model.network
    with torch.inference_mode():
        for _ in text.model.walk(text.model.rows([text.tokens], text.mask), [keep]):
            pass
        steps = [
            contributions(network.layer(number), text.states[number], *mixed)
            for number, mixed in sorted(keep.kept.items())
        ]
    return rollout(torch.stack(steps).double().cpu().numpy())


def contributions(layer: Layer, x: Tensor, weights: Tensor, values: Tensor) -> Tensor:
    """c of a layer, `[query, key]`, from what goes into it, x `[token, hidden_size]`, and what its heads mix."""
    output = layer.attention.output.weight.unflatten(1, (-1, values.shape[-1]))  # [hidden_size, head, head_dim]
    brought = torch.einsum("hkd,shd->hks", values, output)
    together = max(1, TOGETHER // brought[0].numel())
    shares = [
        shares_of(*block_vectors(layer, x, weights, brought, slice(start, start + together)))
        for start in range(0, len(x), together)
    ]
    found = torch.cat(shares)
    nowhere = found.sum(dim=-1, keepdim=True) == 0
    return torch.where(nowhere, torch.eye(len(x), dtype=x.dtype, device=x.device), found)


def block_vectors(layer: Layer, x: Tensor, weights: Tensor, brought: Tensor, queries: slice) -> tuple[Tensor, Tensor]:
    """Of some queries T_i(x_j) `[query, key, hidden_size]`, and y_i `[query, hidden_size]`.

    brought: v W_O of each head, `[head, key, hidden_size]`.
    """
    vectors = torch.einsum("hqk,hks->qks", weights[:, queries].to(brought.dtype), brought)
    of_queries = x[queries]
    rows = torch.arange(len(of_queries), device=x.device)
    vectors[rows, rows + queries.start] += of_queries
    made = vectors.sum(dim=1)
    if layer.attention.output.bias is not None:
        made = made + layer.attention.output.bias
    if layer.norm_first:
        return vectors, made
    norm = layer.attention_norm
    assert isinstance(norm, torch.nn.LayerNorm)
    spread = (made.var(dim=-1, correction=0) + norm.eps).sqrt()[:, None, None]
    return norm.weight * (vectors - vectors.mean(dim=-1, keepdim=True)) / spread, norm(made)


def shares_of(vectors: Tensor, made: Tensor) -> Tensor:
    """c of some queries, `[query, key]`; 0 in a row to which nothing is near."""
    away = (made[:, None] - vectors).abs().sum(dim=-1)
    near = (made.abs().sum(dim=-1, keepdim=True) - away).clamp(min=0)
    total = near.sum(dim=-1, keepdim=True)
    return near / total.where(total > 0, 1)
