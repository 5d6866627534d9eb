"""transformers' networks made to compute in float64 what they take in float32 whatever they are asked for.

ModernBERT: the angles of its rotary positions, queries and keys while they are turned, softmax. Other families that
turn all layers alike: the angles. DeBERTa: the scale of its scores, and in version 1 its norms. RoFormer: the sines and
cosines of its angles. EuroBERT: its norms and softmax too. In other dtypes everything stays as it is.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers.models.deberta import modeling_deberta
from transformers.models.deberta_v2 import modeling_deberta_v2
from transformers.models.eurobert import modeling_eurobert
from transformers.models.gte import modeling_gte
from transformers.models.jina_embeddings_v3 import modeling_jina_embeddings_v3
from transformers.models.modernbert import modeling_modernbert
from transformers.models.nomic_bert import modeling_nomic_bert
from transformers.models.roformer import modeling_roformer

from attncli.models import transformers_peer

DOUBLE = torch.float64
TURNING = (
    modeling_modernbert.ModernBertRotaryEmbedding,
    modeling_eurobert.EuroBertRotaryEmbedding,
    modeling_gte.GteRotaryEmbedding,
    modeling_jina_embeddings_v3.JinaEmbeddingsV3RotaryEmbedding,
    modeling_nomic_bert.NomicBertRotaryEmbedding,
)


@contextmanager
def computing_in_float64() -> Iterator[None]:
    """While it lasts, `compare` holds float64 to float64's tolerance in all families."""
    norm = modeling_eurobert.EuroBertRMSNorm
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transformers_peer, "PARTLY_SINGLE", ())
        for one in TURNING:
            patch.setattr(one, "forward", angles(one.forward))
        patch.setattr(modeling_modernbert, "apply_rotary_pos_emb", turned(modeling_modernbert.apply_rotary_pos_emb))
        patch.setattr(
            modeling_modernbert, "eager_attention_forward", attended(modeling_modernbert.eager_attention_forward)
        )
        patch.setattr(norm, "forward", normed(norm.forward))
        patch.setattr(modeling_eurobert, "eager_attention_forward", attended(modeling_eurobert.eager_attention_forward))
        for deberta in (modeling_deberta, modeling_deberta_v2):
            patch.setattr(deberta, "scaled_size_sqrt", scaled(deberta.scaled_size_sqrt))
        norm = modeling_deberta.DebertaLayerNorm
        patch.setattr(norm, "forward", layer_normed(norm.forward))
        sines = modeling_roformer.RoFormerSinusoidalPositionalEmbedding
        patch.setattr(sines, "forward", looked_up(sines.forward))
        yield


def angles(forward: Any) -> Any:
    def exact(self: Any, x: Tensor, position_ids: Tensor, *layer_type: str) -> tuple[Tensor, Tensor]:
        if x.dtype != DOUBLE:
            return forward(self, x, position_ids, *layer_type)  # type: ignore[no-any-return]
        config = self.config
        size = config.hidden_size // config.num_attention_heads
        stated = config.rope_parameters
        stated = stated[layer_type[0]] if layer_type else stated
        stretched = position_ids[..., None].double() / stated.get("factor", 1.0)
        found = stretched / stated["rope_theta"] ** (torch.arange(0, size, 2, dtype=DOUBLE) / size)
        both = torch.cat((found, found), dim=-1)
        return both.cos(), both.sin()

    return exact


def turned(apply: Any) -> Any:
    def exact(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> tuple[Tensor, ...]:
        if query.dtype != DOUBLE:
            return apply(query, key, cos, sin, unsqueeze_dim=unsqueeze_dim)  # type: ignore[no-any-return]
        half = modeling_modernbert.rotate_half
        cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
        return tuple(x * cos + half(x) * sin for x in (query, key))

    return exact


def attended(attend: Any) -> Any:
    def exact(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, scaling: float, **more: Any) -> Any:
        if query.dtype != DOUBLE:
            return attend(module, query, key, value, mask, scaling, **more)
        key, value = (one.repeat_interleave(query.shape[1] // one.shape[1], dim=1) for one in (key, value))
        scores = query @ key.transpose(2, 3) * scaling
        weights = (scores if mask is None else scores + mask).softmax(dim=-1)
        return (weights @ value).transpose(1, 2).contiguous(), weights

    return exact


def normed(forward: Any) -> Any:
    def exact(self: Any, x: Tensor) -> Tensor:
        if x.dtype != DOUBLE:
            return forward(self, x)  # type: ignore[no-any-return]
        return self.weight * x / (x.square().mean(dim=-1, keepdim=True) + self.variance_epsilon).sqrt()  # type: ignore[no-any-return]

    return exact


def scaled(size: Any) -> Any:
    def exact(query: Tensor, factor: int) -> Tensor:
        if query.dtype != DOUBLE:
            return size(query, factor)  # type: ignore[no-any-return]
        return torch.tensor(query.shape[-1] * factor, dtype=DOUBLE).sqrt()

    return exact


def looked_up(look: Any) -> Any:
    def exact(self: Any, shape: Any, before: int = 0, position_ids: Tensor | None = None) -> Tensor:
        if self.weight.dtype != DOUBLE:
            return look(self, shape, before, position_ids)  # type: ignore[no-any-return]
        size = self.embedding_dim
        found = torch.arange(shape[1], dtype=DOUBLE)[:, None] * 10000.0 ** (
            -torch.arange(0, size, 2, dtype=DOUBLE) / size
        )
        return torch.cat((found.sin(), found.cos()), dim=-1)

    return exact


def layer_normed(forward: Any) -> Any:
    def exact(self: Any, x: Tensor) -> Tensor:
        if x.dtype != DOUBLE:
            return forward(self, x)  # type: ignore[no-any-return]
        return torch.nn.functional.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.variance_epsilon)

    return exact
