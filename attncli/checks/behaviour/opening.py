"""Open the model to check: a model type of transformers, a class, or a checkpoint on disk."""

import importlib
from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch import nn

from attncli.base.errors import RequestError
from attncli.base.printable import first_line, quoted
from attncli.checks.behaviour.laws import runs_to_compare
from attncli.checks.behaviour.model import ModelSubject, TransformersSubject
from attncli.models.hashes import check_sha256
from attncli.models.hub import locate
from attncli.models.transformers_network import read_network
from attncli.models.transformers_peer import quiet, refusals

# --- small models -------------------------------------------------------------------------------------

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
# More values, for models with layers of several kinds or with their own names of sizes.
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

KINDS_ELSEWHERE = ("jamba", "bamba")  # they derive the kinds of their layers from other values


def small_config(model_type: str, **more: Any) -> Any:
    """Return a small configuration of a model type. more: values that replace the usual ones."""
    from transformers import AutoConfig

    known = AutoConfig.for_model(model_type)
    named = {*known.to_dict(), *type(known).attribute_map}
    given = {name: value for name, value in SMALL.items() if name in named}
    return AutoConfig.for_model(model_type, **given | MORE.get(model_type, {}) | more)


def randomize(model: Any) -> None:
    """Draw the weights, and the biases and sinks so that none is 0."""
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 or name.endswith(("bias", "sinks")):
                parameter.normal_(std=0.3)


PREFIX = "transformers:"
WINDOW = 4  # of a checkpoint, so that a short text is longer
LARGE = 1_000_000_000  # parameters; a model with more of them is not run in float64
# Model types that write text, and yet show a token the tokens after it.
LOOKING_AHEAD = ("xlnet", "cpmant", "bert-generation")


class Opened(NamedTuple):
    """A model by its name, its kind in words, and a function that makes it with a backend."""

    name: str
    kind: str
    make: Callable[[str], ModelSubject]


def open_named(name: str) -> Opened:
    """Open transformers:TYPE, or MODULE:CLASS. Raises RequestError for a name that means nothing."""
    module, _, member = name.partition(":")
    if name.startswith(PREFIX):
        return open_config(name, small_config_of_type(member))
    try:
        named = getattr(importlib.import_module(module), member)
    except (ImportError, AttributeError) as error:
        raise RequestError(f"there is no {quoted(name)}: {first_line(error)}") from error
    if not (isinstance(named, type) and issubclass(named, nn.Module)):
        raise RequestError(f"{quoted(name)} is not a class of torch modules")
    config_class = getattr(named, "config_class", None)
    if config_class is None:  # a module of a model: it is checked inside the smallest model
        model_type = module.split(".")[2] if module.startswith("transformers.models.") else ""
        opened = open_config(name, small_config_of_type(model_type))
        if not any(isinstance(one, named) for one in opened.make("eager").model.modules()):
            raise RequestError(f"no small {model_type} has a {member}: check transformers:{model_type}")
        return opened._replace(kind=f"{opened.kind} with this module")
    if module.split(".")[0] == "transformers":
        return open_config(name, small_config_of_type(config_class.model_type), named)
    default = config_class()
    known = {*default.to_dict(), *type(default).attribute_map}
    return open_config(name, config_class(**{key: value for key, value in SMALL.items() if key in known}), named)


def small_config_of_type(model_type: str) -> Any:
    """Return a small configuration that has a layer of each kind that the model type has by default.

    Raises RequestError for no model type, and for one that reads no text.
    """
    from transformers import CONFIG_MAPPING, AutoConfig

    if model_type not in CONFIG_MAPPING:
        raise RequestError(
            f"transformers has no model type {quoted(model_type)}: write transformers:llama, for example"
        )
    with quiet(), refusals(f"there is no small {model_type}"):
        usual = FOR_LAWS.get(model_type, {})
        kinds = list(dict.fromkeys(getattr(AutoConfig.for_model(model_type), "layer_types", None) or []))
        if len(kinds) > 1 and model_type not in KINDS_ELSEWHERE:
            usual = {"layer_types": [kinds[layer % len(kinds)] for layer in range(SMALL["num_hidden_layers"])], **usual}
        config = small_config(model_type, **usual)
    if not hasattr(config.get_text_config(decoder=True), "vocab_size"):
        raise RequestError(f"{model_type} reads no text: attncli supports only text")
    return config


def open_config(name: str, config: Any, network: Any = None) -> Opened:
    """Open random models of a configuration. network: their class; by default that of the model type."""
    from transformers import AutoModel

    def make(backend: str) -> ModelSubject:
        build = AutoModel.from_config if network is None else network._from_config
        with quiet(), torch.random.fork_rng():
            torch.manual_seed(0)
            model = build(config, attn_implementation=backend)
        randomize(model)
        return make_subject(model)

    return Opened(name, kind_of(config), make)


def open_checkpoint(name: str) -> Opened:
    """Open a checkpoint on disk. Its window is made short; code that it brings is not run.

    Raises RequestError for files that are missing or not complete, and for a network that reads no text.
    """
    place = locate(name)
    check_sha256(place)
    network = read_network(place, torch.float32).base_model
    config = deepcopy(network.config)
    text = config.get_text_config()
    if isinstance(getattr(text, "sliding_window", None), int):
        text.sliding_window = WINDOW
        if hasattr(text, "local_attention"):
            text.local_attention = 2 * WINDOW

    def make(backend: str) -> ModelSubject:
        with quiet():
            model = type(network)._from_config(deepcopy(config), attn_implementation=backend)
        model.load_state_dict(network.state_dict(), assign=True)
        return make_subject(model)

    return Opened(place.name, kind_of(config), make)


def open_network(name: str) -> tuple[str, Any, Any]:
    """Open a checkpoint on disk as it is, with its tokenizer. Returns its name, the network and the tokenizer.

    Raises RequestError as `open_checkpoint` does.
    """
    from attncli.text.tokenizer import read_backend

    place = locate(name)
    check_sha256(place)
    return place.name, read_network(place, torch.float32).base_model.eval(), read_backend(place.path)


def kind_of(config: Any) -> str:
    """Return the kind of model that a configuration describes: encoder, decoder or encoder-decoder."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as WRITERS
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES as FILLERS

    if getattr(config, "is_encoder_decoder", False):
        return "encoder-decoder"
    text, kind = config.get_text_config(), config.model_type
    looks_ahead = (
        getattr(text, "use_bidirectional_attention", None) is True
        or getattr(text, "is_causal", True) is False
        or kind in LOOKING_AHEAD
    )
    writes = kind in WRITERS and (kind not in FILLERS or getattr(config, "is_decoder", False))
    return "decoder" if writes and not looks_ahead else "encoder"


def make_subject(model: Any, causal: bool | None = None) -> TransformersSubject:
    """Make a subject of a model, in float64 if it runs in that. causal: by default what its configuration says."""
    model.eval()
    causal = kind_of(model.config) != "encoder" if causal is None else causal
    if sum(one.numel() for one in model.parameters()) < LARGE:
        try:
            subject = TransformersSubject(model.double(), causal, torch.float64)
            if all(bool(run.stages[-1].vectors.isfinite().all()) for _, run, _ in runs_to_compare(subject)):
                return subject
        except (RuntimeError, NotImplementedError, ValueError, TypeError):
            pass  # parts of it compute in float32
    return TransformersSubject(model.float(), causal, torch.float32)
