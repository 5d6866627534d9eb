"""Small random networks of many model types of transformers, whose attention is neither uniform nor one-hot."""

from pathlib import Path
from typing import Any

import torch
import transformers
from foreign_checkpoints import write_foreign_tokenizer

from attncli.checks.behaviour.opening import MORE, SMALL, small_config

__all__ = ["MORE", "SMALL", "small_config"]

SHARPER = {"marian": 3.0}  # factor of the query weights of types that give uniform attention otherwise


def sharpen(network: Any, model_type: str) -> None:
    """Multiply the query weights of a network whose attention would be uniform."""
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.endswith("q_proj.weight"):
                parameter *= SHARPER.get(model_type, 1.0)


# Types whose own code computes attention, with more of their configuration.
BY_HAND: dict[str, dict[str, Any]] = {
    "falcon": {"alibi": True}, "bloom": {},
    "gpt_neo": {"attention_types": [[["global", "local", "local"], 1]], "num_layers": 3, "window_size": 3},
    "mpnet": {}, "deberta-v2": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "mpt": {"d_model": 32, "n_heads": 4, "n_layers": 2},
    "deberta": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "xlnet": {"d_model": 32, "n_head": 4, "n_layer": 2, "d_inner": 40},
    "xlm": {"n_layers": 2, "n_heads": 4, "emb_dim": 32}, "openai-gpt": {}, "convbert": {}, "rembert": {},
    "xglm": {"d_model": 32, "attention_heads": 4, "num_layers": 2},
}  # fmt: skip

# Checkpoints with tokenizers, by name: the model type, the network, whose tokenizer, and values of the configuration.
WINDOWS = ["sliding_attention", "full_attention", "sliding_attention"]
ENDS = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": None}
LLAMA_ENDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None}
CHECKPOINTS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "gpt2": ("gpt2", "GPT2LMHeadModel", "gpt2", ENDS),
    "llama": ("llama", "LlamaForCausalLM", "llama", LLAMA_ENDS),
    "mistral": ("mistral", "MistralForCausalLM", "llama", LLAMA_ENDS | {"sliding_window": 3}),
    "gemma3": ("gemma3_text", "Gemma3ForCausalLM", "gemma2", {
        "sliding_window": 3, "layer_types": WINDOWS, "attn_logit_softcapping": None, "query_pre_attn_scalar": 8,
        **LLAMA_ENDS,
    }),
    "gemma2": ("gemma2", "Gemma2ForCausalLM", "gemma2", {
        "layer_types": WINDOWS, "query_pre_attn_scalar": 8, **LLAMA_ENDS,
    }),
    "gemma2-uncapped": ("gemma2", "Gemma2ForCausalLM", "gemma2", {
        "layer_types": WINDOWS, "attn_logit_softcapping": None, "query_pre_attn_scalar": 8, **LLAMA_ENDS,
    }),
    "gpt_oss": ("gpt_oss", "GptOssForCausalLM", "llama", LLAMA_ENDS | {"layer_types": WINDOWS}),
    "qwen3_next": ("qwen3_next", "Qwen3NextForCausalLM", "llama", {
        "layer_types": ["linear_attention", "full_attention", "full_attention"], "linear_num_value_heads": 4,
        "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
        "shared_expert_intermediate_size": 32, "partial_rotary_factor": 1.0, **LLAMA_ENDS,
    }),
    "opt": ("opt", "OPTForCausalLM", "gpt2", {**ENDS, "pad_token_id": 1, "word_embed_proj_dim": 32}),
    "esm": ("esm", "EsmForMaskedLM", "esm", {"pad_token_id": 1, "position_embedding_type": "rotary"}),
    "modernbert": ("modernbert", "ModernBertForMaskedLM", "modernbert", {
        "local_attention": 4, "layer_types": WINDOWS,
        "bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3,
    }),
    "t5": ("t5", "T5ForConditionalGeneration", "t5", {
        "num_decoder_layers": 2, "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1,
    }),
    "bart": ("bart", "BartForConditionalGeneration", "bart", {
        "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2,
        "decoder_attention_heads": 2, "num_hidden_layers": 3,
    }),
}  # fmt: skip


def make_small(directory: Path, name: str, head: str | None = None) -> Path:
    """Write a checkpoint of CHECKPOINTS with its tokenizer; return its directory.

    head: the network's class, in place of the usual one. Biases and sinks are not 0, so that none can be forgotten.
    """
    model_type, network_class, tokenizer, more = CHECKPOINTS[name]
    size = write_foreign_tokenizer(directory, tokenizer)
    network = make_network(small_config(model_type, vocab_size=size, **more), head or network_class)
    if network.can_generate():
        network.generation_config.no_repeat_ngram_size = 1  # random weights write one token for ever otherwise
    network.save_pretrained(directory)
    theirs = transformers.AutoTokenizer.from_pretrained(directory)
    if theirs.pad_token is None:
        theirs.pad_token = theirs.eos_token or theirs.bos_token
        theirs.save_pretrained(directory)
    return directory


def make_network(config: Any, network_class: str) -> Any:
    """Return a random network of a configuration."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = getattr(transformers, network_class)(config)
        with torch.no_grad():
            for name, parameter in network.named_parameters():
                if parameter.dim() > 1 or name.endswith(("bias", "sinks")):
                    parameter.normal_(std=0.3)
    return network.eval()


def make_by_hand(directory: Path, model_type: str) -> Path:
    """Write a checkpoint of BY_HAND with a head and a tokenizer that has [PAD]; return its directory."""
    size = write_foreign_tokenizer(directory, "bart")
    ends = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    config = small_config(model_type, **BY_HAND[model_type], vocab_size=size, **ends)
    mapping = transformers.MODEL_FOR_CAUSAL_LM_MAPPING
    if type(config) not in mapping:
        mapping = transformers.MODEL_FOR_MASKED_LM_MAPPING
    network = make_network(config, mapping[type(config)].__name__)
    if network.can_generate():
        network.generation_config.no_repeat_ngram_size = 1
    network.save_pretrained(directory)
    return directory
