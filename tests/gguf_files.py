"""Small .gguf files as llama.cpp's converter writes them, from small random networks of transformers.

The names of tensors are from the `gguf` package's own table. The changes of values are written from the converter's
formulas, in the direction opposite to attncli's.
"""

import gguf
import numpy as np
import torch
import transformers
from checkpoints import LLAMA_3, MERGES
from gguf.quants import quantize
from tokenizers import pre_tokenizers

Q, KINDS = gguf.GGMLQuantizationType, gguf.GGUFValueType
TEXTS = ("the cat sat on the mat", "At 10:42 it's 3.14, isn't it?\n\n  yes", "a éa 日本 \t12 345 ½")
CONTROL, USER_DEFINED, NORMAL = gguf.TokenType.CONTROL, gguf.TokenType.USER_DEFINED, gguf.TokenType.NORMAL
SPECIAL = ["<|end|>", "<|start|>", "<|pad|>"]
SIZES = {
    "vocab_size": 300,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 40,
}
ENDS = {"bos_token_id": 1, "eos_token_id": 0, "pad_token_id": 2}
GROUPED = {**SIZES, **ENDS, "num_key_value_heads": 2}
LONG = {"rope_type": "longrope", "short_factor": [1.0, 1.5, 1.25, 2.0], "long_factor": [1.0, 2.0, 4.0, 8.0]}
GPT2 = {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 40, "n_inner": 96}
# By a name: the architecture in the file, and transformers' configuration.
NETWORKS = {
    "llama": ("llama", transformers.LlamaConfig(**GROUPED)),
    "llama-untied": ("llama", transformers.LlamaConfig(**GROUPED, tie_word_embeddings=False, rope_theta=5e5)),
    "llama3": ("llama", transformers.LlamaConfig(**GROUPED, head_dim=32, rope_theta=5e5, rope_scaling=LLAMA_3)),
    "linear": ("llama", transformers.LlamaConfig(**GROUPED, rope_scaling={"rope_type": "linear", "factor": 4.0})),
    "smollm3": ("smollm3", transformers.SmolLM3Config(**{**GROUPED, "num_hidden_layers": 5})),
    "qwen2": ("qwen2", transformers.Qwen2Config(**GROUPED)),
    "qwen3": ("qwen3", transformers.Qwen3Config(**GROUPED, head_dim=32)),
    "olmo2": ("olmo2", transformers.Olmo2Config(**GROUPED)),
    "gemma2": (
        "gemma2",
        transformers.Gemma2Config(**GROUPED, head_dim=32, query_pre_attn_scalar=32, sliding_window=3),
    ),
    "gemma3": (
        "gemma3",
        transformers.Gemma3TextConfig(
            **{**GROUPED, "num_hidden_layers": 7}, head_dim=32, query_pre_attn_scalar=32, sliding_window=3
        ),
    ),
    "phi3": ("phi3", transformers.Phi3Config(**GROUPED, sliding_window=3)),
    "phi3-long": (
        "phi3",
        transformers.Phi3Config(
            **GROUPED, rope_scaling=LONG, partial_rotary_factor=0.5, original_max_position_embeddings=20
        ),
    ),
    "gpt2": ("gpt2", transformers.GPT2Config(vocab_size=300, **GPT2, **ENDS)),
    "gpt_neox": ("gptneox", transformers.GPTNeoXConfig(**SIZES, **ENDS, rotary_pct=0.25)),
    "gpt_neox-serial": ("gptneox", transformers.GPTNeoXConfig(**SIZES, **ENDS, use_parallel_residual=False)),
}


def make_network(name):
    """A random network, with weights that leave no part of it without effect."""
    _, config = NETWORKS[name]
    torch.manual_seed(1)
    network = transformers.AutoModelForCausalLM.from_config(config).eval()
    for tensor in network.parameters():
        torch.nn.init.normal_(tensor, std=0.2)
    return network.requires_grad_(False)


def write_file(path, name, kind=Q.F32, tokenizer=True, **changes):
    """Write the network of this name, and return it. kind: of its matrices. changes: of the metadata; None leaves an
    entry out.
    """
    architecture, config = NETWORKS[name]
    network = make_network(name)
    writer = gguf.GGUFWriter(path, architecture)
    add_settings(writer, config)
    if tokenizer:
        add_byte_pairs(writer, "gpt-2" if name == "gpt2" else "smollm")
    for key, value in changes.items():
        entries = writer.kv_data[0]
        key = key.replace("__", ".")
        if value is None:
            del entries[key]
        else:
            entries[key] = gguf.gguf_writer.GGUFValue(value, value_type(value))
    kinds = {member.value: member for member in gguf.MODEL_ARCH}
    by_name = {name: arch for arch, name in gguf.MODEL_ARCH_NAMES.items()}
    names = gguf.get_tensor_name_map(kinds[by_name[architecture].value], config.num_hidden_layers)
    for known, tensor in network.state_dict().items():
        if known == "lm_head.weight" and config.tie_word_embeddings:
            continue
        renamed = names.get_name(known, try_suffixes=(".weight", ".bias"))
        assert renamed is not None, known
        add_tensor(writer, renamed, as_stored(architecture, config, renamed, tensor.numpy()), kind)
    finish(writer)
    return network


def value_type(value):
    if isinstance(value, int) and not isinstance(value, bool):
        return KINDS.UINT64 if value >= 2**32 else KINDS.UINT32 if value >= 0 else KINDS.INT32
    return {bool: KINDS.BOOL, float: KINDS.FLOAT32, str: KINDS.STRING, list: KINDS.ARRAY}[type(value)]


def add_tensor(writer, name, values, kind=Q.F32):
    if values.ndim < 2:
        kind = Q.F32
    writer.add_tensor(name, quantize(np.ascontiguousarray(values), kind), raw_dtype=kind)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_settings(writer, config):
    heads = config.num_attention_heads
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(getattr(config, "intermediate_size", None) or config.n_inner)
    writer.add_head_count(heads)
    kind = config.model_type
    if kind in ("gpt2", "gpt_neox"):
        writer.add_layer_norm_eps(getattr(config, "layer_norm_eps", None) or config.layer_norm_epsilon)
    else:
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if kind == "gpt2":
        return
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    rotary = config.rope_parameters
    if kind == "gemma3_text":
        writer.add_rope_freq_base(rotary["full_attention"]["rope_theta"])
        writer.add_rope_freq_base_swa(rotary["sliding_attention"]["rope_theta"])
    elif kind == "gpt_neox":
        writer.add_rope_dimension_count(int(head_dim * rotary["partial_rotary_factor"]))
        writer.add_parallel_residual(config.use_parallel_residual)
    else:
        writer.add_rope_freq_base(rotary["rope_theta"])
    if head_dim * heads != config.hidden_size or kind.startswith("gemma"):
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    if kind in ("llama", "smollm3"):
        writer.add_rope_dimension_count(head_dim)
        writer.add_vocab_size(config.vocab_size)
    if rotary.get("rope_type") == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rotary["factor"])
    if rotary.get("rope_type") == "llama3":
        add_tensor(writer, "rope_freqs.weight", llama3_divisors(rotary, head_dim))
    if kind == "phi3":
        writer.add_rope_dimension_count(int(head_dim * rotary["partial_rotary_factor"]))
        writer.add_rope_scaling_orig_ctx_len(config.original_max_position_embeddings)
        for key in ("long_factor", "short_factor"):
            if key in rotary:
                name = f"rope_factors_{key.removesuffix('_factor')}.weight"
                add_tensor(writer, name, np.array(rotary[key], np.float32))
    if getattr(config, "sliding_window", None) and kind in ("gemma2", "gemma3_text", "phi3"):
        writer.add_sliding_window(config.sliding_window)
    if kind == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)


def llama3_divisors(rotary, head_dim):
    """Compute the divisors as the converter does, frequency by frequency."""
    divisors = []
    for frequency in 1.0 / rotary["rope_theta"] ** (np.arange(0, head_dim, 2) / head_dim):
        length = 2 * np.pi / frequency
        if length < rotary["original_max_position_embeddings"] / rotary["high_freq_factor"]:
            divisors.append(1.0)
        elif length > rotary["original_max_position_embeddings"] / rotary["low_freq_factor"]:
            divisors.append(rotary["factor"])
        else:
            smooth = rotary["original_max_position_embeddings"] / length - rotary["low_freq_factor"]
            smooth /= rotary["high_freq_factor"] - rotary["low_freq_factor"]
            divisors.append(1 / ((1 - smooth) / rotary["factor"] + smooth))
    return np.array(divisors, np.float32)


def as_stored(architecture, config, name, values):
    heads = config.num_attention_heads
    if architecture in ("llama", "smollm3") and (".attn_q." in name or ".attn_k." in name):
        count = heads if ".attn_q." in name else config.num_key_value_heads
        halves = values.reshape(count, 2, len(values) // count // 2, -1)
        return halves.swapaxes(1, 2).reshape(values.shape)
    if architecture.startswith("gemma") and name.endswith("norm.weight"):
        return values + 1
    if architecture == "gpt2" and values.ndim == 2 and name.startswith("blk."):
        return values.T
    if architecture == "gptneox" and ".attn_qkv." in name:
        size = config.hidden_size // heads
        by_head = values.reshape(heads, 3, size, -1)
        return np.concatenate([by_head[:, part].reshape(heads * size, -1) for part in range(3)]).reshape(values.shape)
    return values


def byte_tokens(count=300):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = [*SPECIAL, "<think>", *alphabet, *(merge.replace(" ", "") for merge in MERGES)]
    return tokens + [f"[PAD{number}]" for number in range(len(tokens), count)]


def add_byte_pairs(writer, rule):
    tokens = byte_tokens()
    kinds = [CONTROL] * len(SPECIAL) + [USER_DEFINED] + [NORMAL] * (len(tokens) - len(SPECIAL) - 1)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(rule)
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(MERGES)
    writer.add_eos_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_pad_token_id(2)
    writer.add_chat_template("{{ messages[0]['content'] }}")
