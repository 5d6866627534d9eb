"""Small random models of the model types of transformers, whose attention is neither uniform nor one-hot."""

from typing import Any

import torch

# Values for the names that a configuration has.
SMALL: dict[str, Any] = {
    "hidden_size": 32, "d_model": 32, "n_embd": 32, "dim": 32, "num_hidden_layers": 3, "n_layer": 3, "n_layers": 3,
    "num_layers": 3, "encoder_layers": 3, "decoder_layers": 2, "num_attention_heads": 4, "n_head": 4, "n_heads": 4,
    "num_heads": 4, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "d_kv": 8, "v_head_dim": 8, "kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 4, "intermediate_size": 64, "moe_intermediate_size": 32, "hidden_dim": 64, "d_ff": 64,
    "ffn_dim": 64, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "embedding_size": 16, "num_local_experts": 4,
    "num_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1,
    "first_k_dense_replace": 1, "vocab_size": 100, "max_position_embeddings": 64, "n_positions": 64,
    "sliding_window": 4, "initializer_range": 0.3, "init_std": 0.3, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip
MORE: dict[str, dict[str, Any]] = {
    "deepseek_v3": {"num_key_value_heads": 4, "head_dim": 4},
    "gemma3_text": {"final_logit_softcapping": None, "attn_logit_softcapping": 5.0},
    "gemma2": {"attn_logit_softcapping": 2.0},
}
# Values that only a model whose layers are of several kinds needs, or whose cuts have a size of their own.
FOR_LAWS: dict[str, dict[str, Any]] = {
    "modernbert": {"local_attention": 8},
    "modernbert-decoder": {"local_attention": 8},
    "gpt_neo": {"attention_types": [[["local", "global", "local"], 1]], "window_size": 4, "num_layers": 3},
    "gptj": {"rotary_dim": 4},
    "codegen": {"rotary_dim": 4},
    "opt": {"word_embed_proj_dim": 32},
    "falcon": {"new_decoder_architecture": True, "num_kv_heads": 2},
    "qwen2": {"use_sliding_window": True, "max_window_layers": 1},
    "qwen2_moe": {"use_sliding_window": True, "max_window_layers": 1},
    "qwen3": {"use_sliding_window": True, "max_window_layers": 1},
    "qwen3_next": {
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
        "shared_expert_intermediate_size": 32,
    },
    "lfm2": {"block_ff_dim": 64, "layer_types": ["conv", "full_attention", "conv"]},
    "gpt_bigcode": {"multi_query": True},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "mamba_d_state": 4},
    "bamba": {
        "attn_layer_indices": [1], "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 1, "mamba_d_state": 8,
        "mamba_expand": 2,
    },
}  # fmt: skip

KINDS_ELSEWHERE = ("jamba", "bamba")  # whose kinds of layers are made of other values


def small_config(model_type: str, **more: Any) -> Any:
    """Return a small configuration of a model type. more: values that go before the usual ones."""
    from transformers import AutoConfig

    known = AutoConfig.for_model(model_type)
    named = {*known.to_dict(), *type(known).attribute_map}
    given = {name: value for name, value in SMALL.items() if name in named}
    return AutoConfig.for_model(model_type, **given | MORE.get(model_type, {}) | more)


def config_for_laws(model_type: str) -> Any:
    """Return a small configuration that has a layer of each kind that the model type has by default."""
    from transformers import AutoConfig

    usual = FOR_LAWS.get(model_type, {})
    kinds = list(dict.fromkeys(getattr(AutoConfig.for_model(model_type), "layer_types", None) or []))
    if len(kinds) > 1 and model_type not in KINDS_ELSEWHERE:
        usual = {"layer_types": [kinds[layer % len(kinds)] for layer in range(SMALL["num_hidden_layers"])], **usual}
    return small_config(model_type, **usual)


def randomize(model: Any) -> None:
    """Draw the weights, and the biases and sinks so that none is 0."""
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 or name.endswith(("bias", "sinks")):
                parameter.normal_(std=0.3)
