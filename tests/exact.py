"""transformers' networks made to compute in float64 what they take in float32 whatever they are asked for.

ModernBERT: the angles of its rotary positions, queries and keys while they are turned, softmax. Other families that
turn all layers alike: the angles. DeBERTa: the scale of its scores. In other dtypes everything stays as it is.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers.models.deberta_v2 import modeling_deberta_v2
from transformers.models.gte import modeling_gte
from transformers.models.jina_embeddings_v3 import modeling_jina_embeddings_v3
from transformers.models.modernbert import modeling_modernbert
from transformers.models.nomic_bert import modeling_nomic_bert

from attncli.models import transformers_peer

DOUBLE = torch.float64
TURNED_ALIKE = (
    modeling_gte.GteRotaryEmbedding,
    modeling_jina_embeddings_v3.JinaEmbeddingsV3RotaryEmbedding,
    modeling_nomic_bert.NomicBertRotaryEmbedding,
)


@contextmanager
def computing_in_float64() -> Iterator[None]:
    """While it lasts, `compare` holds float64 to float64's tolerance in all families."""
    rotary = modeling_modernbert.ModernBertRotaryEmbedding
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transformers_peer, "PARTLY_SINGLE", ())
        patch.setattr(rotary, "forward", angles(rotary.forward))
        patch.setattr(modeling_modernbert, "apply_rotary_pos_emb", turned(modeling_modernbert.apply_rotary_pos_emb))
        patch.setattr(
            modeling_modernbert, "eager_attention_forward", attended(modeling_modernbert.eager_attention_forward)
        )
        for one in TURNED_ALIKE:
            patch.setattr(one, "forward", angles_of_all(one.forward))
        patch.setattr(modeling_deberta_v2, "scaled_size_sqrt", scaled(modeling_deberta_v2.scaled_size_sqrt))
        yield


def angles(forward: Any) -> Any:
    def exact(self: Any, x: Tensor, position_ids: Tensor, layer_type: str) -> tuple[Tensor, Tensor]:
        if x.dtype != DOUBLE:
            return forward(self, x, position_ids, layer_type)  # type: ignore[no-any-return]
        config = self.config
        size = config.hidden_size // config.num_attention_heads
        base = config.rope_parameters[layer_type]["rope_theta"]
        found = position_ids[..., None].double() / base ** (torch.arange(0, size, 2, dtype=DOUBLE) / size)
        both = torch.cat((found, found), dim=-1)
        return both.cos(), both.sin()

    return exact


def angles_of_all(forward: Any) -> Any:
    def exact(self: Any, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        if x.dtype != DOUBLE:
            return forward(self, x, position_ids)  # type: ignore[no-any-return]
        config, stated = self.config, self.config.rope_parameters
        size = config.hidden_size // config.num_attention_heads
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
        scores = query @ key.transpose(2, 3) * scaling
        weights = (scores if mask is None else scores + mask).softmax(dim=-1)
        return (weights @ value).transpose(1, 2).contiguous(), weights

    return exact


def scaled(size: Any) -> Any:
    def exact(query: Tensor, factor: int) -> Tensor:
        if query.dtype != DOUBLE:
            return size(query, factor)  # type: ignore[no-any-return]
        return torch.tensor(query.shape[-1] * factor, dtype=DOUBLE).sqrt()

    return exact
