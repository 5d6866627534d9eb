"""Rank the tokens of a text by their importance, by maps and by gradients.

The output reads the last vectors of some tokens: [CLS], a [MASK], or all tokens if they are pooled. The importance of a
token by a map is the mean of its column over the rows of these tokens. The maps are

- attention: the mean over heads of the last layer's weights
- norms: the same for ‖α f(x)‖ (Kobayashi et al. 2020), with rows divided by their sums
- rollout: of all layers (Abnar and Zuidema 2020; `attncli.analysis.rollout`)
- gradient x attention: R of Chefer et al. 2021 (`attncli.effects.gradients`)
- ALTI: of all layers (Ferrando et al. 2022)

Gradient x input is also in `attncli.effects.gradients`. Only the two gradients depend on the question.

ALTI uses vectors instead of weights. In an attention block, token j contributes a vector T_i(x_j) to token i. The
output y_i of the block is the sum of these and of a constant. The share of j is the closeness of T_i(x_j) to y_i
(Ferrando et al. 2022, "Measuring the Mixing of Contextual Information in the Transformer", section 3):

    T_i(x_j) = L_i(Σ_h α_ij^h v_j^h W_O^h + [i = j] x_j)      c_ij ∝ max(0, ‖y_i‖₁ - ‖y_i - T_i(x_j)‖₁)

L_i is the norm after the block as a linear function: γ (z - mean(z)) / σ_i, with the σ_i of its input. With pre-norm
there is no L_i. The shares of a row sum to 1. Layers are multiplied as in rollout, without a share for the residual
connection, which T includes. The feed-forward part is omitted.
"""

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import torch
from torch import Tensor

from attncli.analysis.rollout import mean_maps, residual_steps, rollout
from attncli.attention import RMSNorm
from attncli.base.arrays import Doubles
from attncli.base.errors import RequestError
from attncli.effects.change import Unchanged
from attncli.effects.gradients import input_slopes, slopes
from attncli.effects.question import Question
from attncli.models.block import Block, Tap
from attncli.models.network import Layer, Network
from attncli.record import Request

GRADIENT = "gradient x input"


def importances(question: Question) -> dict[str, Doubles]:
    """Return the importance of the first text's tokens, `[token]`, by method, for the methods that apply."""
    text, rows = question.texts[0], read_places(question)
    layers = text.model.select_layers("all")
    [weights] = text.model.attend_tokens([text.tokens], Request(layers, "all", text.mask))
    maps = {"attention": mean_maps(weights)[-1]}
    with suppress(RequestError):  # some networks of transformers change heads before the output projection
        [norms] = text.model.attend_tokens([text.tokens], Request(layers[-1:], "all", text.mask, measure="norm"))
        maps["norms"] = mean_maps(norms)[-1]
    if len(layers) == text.model.layers:
        maps["rollout"] = rollout(residual_steps(weights))[-1]
    if isinstance(text.model.network, Network):  # ALTI needs its norms and residual connections
        maps["ALTI"] = alti(text)[-1]
    found = {name: one[rows].mean(axis=0) for name, one in maps.items()}
    if question.kind == "distance":  # has one-sided slopes, but no gradient
        found[GRADIENT] = input_slopes(text)
    elif question.kind != "divergence":  # the gradient of a divergence is 0 without a change
        both = slopes(question)
        found |= {"gradient x attention": both.relevance[rows].mean(axis=0), GRADIENT: both.inputs}
    return found


def read_places(question: Question) -> list[int]:
    """Return the positions of the first text whose last vectors the output reads."""
    tokens = question.texts[0].tokens
    if tokens.output_tokens is not tokens:  # a decoder reads all vectors of an encoder
        return list(range(len(tokens)))
    return list(question.reads)


def draw_rankings(count: int, rankings: int, seed: int) -> Doubles:
    """Draw random importances of `count` tokens, `[ranking, token]`, without ties within a ranking."""
    generator = np.random.default_rng(seed)
    return generator.permuted(np.tile(np.arange(count, dtype=np.float64), (rankings, 1)), axis=1)


# --- ALTI -----------------------------------------------------------------------------------------------

TOGETHER = 2**24  # elements of the vectors of one block of queries


class Mixing(Tap):
    """Keeps weights `[head, query, key]` and values `[head, key, head_dim]` of one text, by layer."""

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
    """Return the shares of the input tokens in each token per layer, `[layer, token, input token]`; rows sum to 1."""
    keep, network = Mixing(), text.model.network
    with torch.inference_mode():
        for _ in text.model.walk(text.model.rows([text.tokens], text.mask), [keep]):
            pass
        steps = [
            _contributions(network.layer(number), text.states[number], *mixed)
            for number, mixed in sorted(keep.kept.items())
        ]
    return rollout(torch.stack(steps).double().cpu().numpy())


def _contributions(layer: Layer, x: Tensor, weights: Tensor, values: Tensor) -> Tensor:
    """Return c of a layer, `[query, key]`, from its input x `[token, hidden_size]`, its weights and its values."""
    output = layer.attention.output.weight.unflatten(1, (-1, values.shape[-1]))  # [hidden_size, head, head_dim]
    brought = torch.einsum("hkd,shd->hks", values, output)
    together = max(1, TOGETHER // brought[0].numel())
    shares = [
        _shares_of(*_block_vectors(layer, x, weights, brought, slice(start, start + together)))
        for start in range(0, len(x), together)
    ]
    found = torch.cat(shares)
    nowhere = found.sum(dim=-1, keepdim=True) == 0
    return torch.where(nowhere, torch.eye(len(x), dtype=x.dtype, device=x.device), found)


def _block_vectors(layer: Layer, x: Tensor, weights: Tensor, brought: Tensor, queries: slice) -> tuple[Tensor, Tensor]:
    """Return T_i(x_j) `[query, key, hidden_size]` and y_i `[query, hidden_size]` for some queries.

    brought: v W_O of each head, `[head, key, hidden_size]`.
    """
    vectors = torch.einsum("hqk,hks->qks", weights[:, queries].to(brought.dtype), brought)
    made = vectors.sum(dim=1)
    if layer.attention.output.bias is not None:
        made = made + layer.attention.output.bias
    if isinstance(layer.attention_output_norm, RMSNorm):  # linear except for its divisor, which all vectors share
        output_norm = layer.attention_output_norm
        root = (made.square().mean(dim=-1) + output_norm.eps).sqrt()[:, None, None]
        vectors, made = output_norm.weight * vectors / root, output_norm(made)
    of_queries = x[queries]
    rows = torch.arange(len(of_queries), device=x.device)
    vectors[rows, rows + queries.start] += of_queries
    made = made + of_queries
    norm = layer.attention_norm
    if layer.norm_first or isinstance(norm, torch.nn.Identity):
        return vectors, made
    assert isinstance(norm, torch.nn.LayerNorm)
    spread = (made.var(dim=-1, correction=0) + norm.eps).sqrt()[:, None, None]
    return norm.weight * (vectors - vectors.mean(dim=-1, keepdim=True)) / spread, norm(made)


def _shares_of(vectors: Tensor, made: Tensor) -> Tensor:
    """Return c for some queries, `[query, key]`; 0 in rows that no vector is close to."""
    away = (made[:, None] - vectors).abs().sum(dim=-1)
    near = (made.abs().sum(dim=-1, keepdim=True) - away).clamp(min=0)
    total = near.sum(dim=-1, keepdim=True)
    return near / total.where(total > 0, 1)
