"""transformers' networks made to compute in float64 what they take in float32 whatever they are asked for.

ModernBERT: the angles of its rotary positions, queries and keys while they are turned, softmax. Other families that
turn all layers alike: the angles. DeBERTa: the scale of its scores, and in version 1 its norms. RoFormer: the sines and
cosines of its angles. EuroBERT and decoders: norms and softmax too. In other dtypes everything stays as it is.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers.models.deberta import modeling_deberta
from transformers.models.deberta_v2 import modeling_deberta_v2
from transformers.models.eurobert import modeling_eurobert
from transformers.models.gemma import modeling_gemma
from transformers.models.gemma2 import modeling_gemma2
from transformers.models.gemma3 import modeling_gemma3
from transformers.models.gpt_neox import modeling_gpt_neox
from transformers.models.gte import modeling_gte
from transformers.models.jina_embeddings_v3 import modeling_jina_embeddings_v3
from transformers.models.llama import modeling_llama
from transformers.models.mistral import modeling_mistral
from transformers.models.modernbert import modeling_modernbert
from transformers.models.nomic_bert import modeling_nomic_bert
from transformers.models.olmo2 import modeling_olmo2
from transformers.models.phi3 import modeling_phi3
from transformers.models.qwen2 import modeling_qwen2
from transformers.models.qwen3 import modeling_qwen3
from transformers.models.roformer import modeling_roformer
from transformers.models.smollm3 import modeling_smollm3

from attncli.models import transformers_peer

DOUBLE = torch.float64
# Modules whose norms and softmax compute in float32, of which GPT-NeoX has only the latter.
LIKE_LLAMA = (
    modeling_eurobert,
    modeling_gemma,
    modeling_gemma2,
    modeling_gemma3,
    modeling_gpt_neox,
    modeling_llama,
    modeling_mistral,
    modeling_olmo2,
    modeling_phi3,
    modeling_qwen2,
    modeling_qwen3,
    modeling_smollm3,
)


def classes(ending: str) -> list[Any]:
    """Return the classes of LIKE_LLAMA whose name ends so."""
    return [one for module in LIKE_LLAMA for name, one in vars(module).items() if name.endswith(ending)]


TURNING = (
    modeling_modernbert.ModernBertRotaryEmbedding,
    *classes("RotaryEmbedding"),
    modeling_gte.GteRotaryEmbedding,
    modeling_jina_embeddings_v3.JinaEmbeddingsV3RotaryEmbedding,
    modeling_nomic_bert.NomicBertRotaryEmbedding,
)


@contextmanager
def computing_in_float64() -> Iterator[None]:
    """While it lasts, `compare` holds float64 to float64's tolerance in all families."""
    deberta_norm = modeling_deberta.DebertaLayerNorm
    sines = modeling_roformer.RoFormerSinusoidalPositionalEmbedding
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transformers_peer, "PARTLY_SINGLE", ())
        for owner, name, exact in (
            *((one, "forward", angles) for one in TURNING),
            (modeling_modernbert, "apply_rotary_pos_emb", turned),
            *((one, "eager_attention_forward", attended) for one in (modeling_modernbert, *LIKE_LLAMA)),
            *((one, "forward", normed) for one in classes("RMSNorm")),
            *((one, "forward", embedded) for one in classes("ScaledWordEmbedding")),
            *((one, "scaled_size_sqrt", scaled) for one in (modeling_deberta, modeling_deberta_v2)),
            (deberta_norm, "forward", layer_normed),
            (sines, "forward", looked_up),
        ):
            patch.setattr(owner, name, either(getattr(owner, name), exact))
        yield


def either(usual: Any, exact: Any) -> Any:
    """Return a function that calls `exact` where one of the first two arguments is float64, or a module of it."""

    def call(*given: Any, **named: Any) -> Any:
        tensors = [one if isinstance(one, Tensor) else getattr(one, "weight", None) for one in given[:2]]
        return (exact if any(getattr(one, "dtype", None) == DOUBLE for one in tensors) else usual)(*given, **named)

    return call


def angles(self: Any, x: Tensor, position_ids: Tensor, *layer_type: str) -> tuple[Tensor, Tensor]:
    config = self.config
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    stated = config.rope_parameters
    stated = stated[layer_type[0]] if layer_type else stated
    size = int(size * (stated.get("partial_rotary_factor") or 1.0))
    rates = stated["rope_theta"] ** -(torch.arange(0, size, 2, dtype=DOUBLE) / size)
    llama_3 = stated["rope_type"] == "llama3"
    rates = slowed(rates, stated) if llama_3 else rates / stated.get("factor", 1.0)
    found = position_ids[..., None].double() * rates
    both = torch.cat((found, found), dim=-1)
    return both.cos(), both.sin()


def slowed(rates: Tensor, stated: Any) -> Tensor:
    """The rates of Llama 3.1, by wavelengths, as its published code does."""
    factor, least, most = stated["factor"], stated["low_freq_factor"], stated["high_freq_factor"]
    length, waves = stated["original_max_position_embeddings"], 2 * math.pi / rates
    smooth = (length / waves - least) / (most - least)
    between = (1 - smooth) * rates / factor + smooth * rates
    return torch.where(waves < length / most, rates, torch.where(waves > length / least, rates / factor, between))


def turned(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> tuple[Tensor, ...]:
    half = modeling_modernbert.rotate_half
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return tuple(x * cos + half(x) * sin for x in (query, key))


def attended(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, scaling: float, **more: Any) -> Any:
    key, value = (one.repeat_interleave(query.shape[1] // one.shape[1], dim=1) for one in (key, value))
    scores = query @ key.transpose(2, 3) * scaling
    if (softcap := more.get("softcap")) is not None:
        scores = softcap * (scores / softcap).tanh()
    weights = (scores if mask is None else scores + mask).softmax(dim=-1)
    return (weights @ value).transpose(1, 2).contiguous(), weights


def embedded(self: Any, ids: Tensor) -> Any:
    return torch.nn.functional.embedding(ids, self.weight) * self.scalar_embed_scale


def normed(self: Any, x: Tensor) -> Any:
    gemma = "Gemma" in type(self).__name__
    gain, eps = (1 + self.weight, self.eps) if gemma else (self.weight, self.variance_epsilon)
    return gain * x / (x.square().mean(dim=-1, keepdim=True) + eps).sqrt()


def scaled(query: Tensor, factor: int) -> Tensor:
    return torch.tensor(query.shape[-1] * factor, dtype=DOUBLE).sqrt()


def looked_up(self: Any, shape: Any, before: int = 0, position_ids: Tensor | None = None) -> Tensor:
    size = self.embedding_dim
    rates = 10000.0 ** (-torch.arange(0, size, 2, dtype=DOUBLE) / size)
    found = torch.arange(shape[1], dtype=DOUBLE)[:, None] * rates
    return torch.cat((found.sin(), found.cos()), dim=-1)


def layer_normed(self: Any, x: Tensor) -> Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.variance_epsilon)
