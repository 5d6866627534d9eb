"""What the configuration of any checkpoint says of it, and who runs it. Nothing is loaded, and nothing that stands in a
config.json is believed: it is shown.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

from attncli.base.errors import RequestError
from attncli.base.printable import shorten
from attncli.models.checkpoint_files import CONFIG_FILE, TOKENIZER_FILES
from attncli.models.config import ModelConfig, read_config
from attncli.models.families.values import NoEncoder
from attncli.models.own_code import own_code

# The words that families have for the same: the first that is there is taken.
WORDS: dict[str, tuple[str, ...]] = {
    "model_type": ("model_type",),
    "architectures": ("architectures",),
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "encoder_layers", "num_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "encoder_attention_heads", "num_heads", "attention_heads"),
    "decoder_layers": ("decoder_layers", "num_decoder_layers"),
    "decoder_heads": ("decoder_attention_heads",),
    "key_value_heads": ("num_key_value_heads",),
    "hidden_size": ("hidden_size", "n_embd", "d_model", "dim"),
    "intermediate_size": ("intermediate_size", "n_inner", "d_ff", "encoder_ffn_dim", "hidden_dim"),
    "vocab_size": ("vocab_size",),
    "max_tokens": ("max_position_embeddings", "n_positions", "n_ctx", "max_source_positions"),
    "window": ("sliding_window", "local_attention", "window_size"),
    "activation": ("hidden_act", "activation_function", "hidden_activation", "dense_act_fn"),
}
TEXTS = ("model_type", "architectures", "activation")  # the others are numbers
# Configurations inside a configuration.
PARTS = {
    "encoder": "encoder",
    "decoder": "decoder",
    "text_config": "text",
    "vision_config": "vision",
    "audio_config": "audio",
}
HEADS = ("heads", "decoder_heads")
AUDIO, PICTURES = ("num_mel_bins", "feat_extract_norm"), ("image_size", "patch_size", "num_channels")


class Description(NamedTuple):
    """What is said of a checkpoint.

    engine: "attncli" or "transformers", by what stands in its files; None where neither runs it. why: not attncli, or
    nobody; and that code of the checkpoint's own is not run. config: the facts that matter, in attncli's words, as they
    stand there.
    """

    engine: str | None
    why: str | None
    config: dict[str, Any]


def describe(directory: Path) -> Description:
    """Of the checkpoint in a directory. Raises RequestError when it has no config.json, or that is no JSON object."""
    path = directory / CONFIG_FILE
    data = read_config(path)
    engine, why = who_runs(data)
    if engine is not None and not any((directory / name).is_file() for name in TOKENIZER_FILES):
        engine, why = None, "there is no tokenizer beside it"
    return Description(engine, why, said_of(data))


def said_of(data: dict[str, Any]) -> dict[str, Any]:
    """What a configuration says, in attncli's words: of our families all that their networks are built from."""
    try:
        return ModelConfig.from_dict(data).document()
    except RequestError:
        return facts(data)


def who_runs(data: dict[str, Any]) -> tuple[str | None, str | None]:
    """The engine, and why it is not attncli's. Whether transformers knows a model type is seen when it is run."""
    code = own_code(data)
    aside = None if code is None else f"its own code (auto_map: {code}) is not run"
    try:
        ModelConfig.from_dict(data)
    except NoEncoder as error:
        nobody = why_nobody(data)
        return (None, nobody) if nobody else ("transformers", "; ".join(filter(None, (error.why, aside))))
    except RequestError as error:
        return None, str(error)
    return "attncli", aside


def why_nobody(data: dict[str, Any]) -> str | None:
    """Why transformers gives no attention of a text either, as far as a configuration can tell."""
    if not isinstance(data.get("model_type"), str):
        return f"{CONFIG_FILE} does not say what model type it is"
    instead = read_instead_of_text(data)
    if instead is not None:
        return f"it reads {instead}"
    every = [data, *(part for name in PARTS if isinstance(part := data.get(name), dict))]
    if not any(word in one for one in every for name in HEADS for word in WORDS[name]):
        return f"{CONFIG_FILE} names no attention heads"
    return None


def read_instead_of_text(data: dict[str, Any]) -> str | None:
    """What a model reads by its configuration, in words, where that is not a text alone."""
    if isinstance(data.get("encoder"), dict):
        return read_instead_of_text(data["encoder"])
    speaks = "vocab_size" in data and not data.get("is_encoder_decoder")  # which has mel bins and reads text
    if any(key in data for key in AUDIO) and not (speaks and "feat_extract_norm" not in data):
        return "audio and not text"
    if any(key in data for key in PICTURES) and "vocab_size" not in data:
        return "pictures and not text"
    if "projection_dim" in data and "vision_config" in data and "text_config" in data:
        return "pictures beside text"
    return None


def facts(data: dict[str, Any]) -> dict[str, Any]:
    """What a configuration says in these words, and its parts in theirs."""
    found: dict[str, Any] = {}
    for name, words in WORDS.items():
        there = [data[word] for word in words if data.get(word) is not None]
        if there:
            found[name] = as_text(there[0]) if name in TEXTS else plain(there[0])
    for key, name in PARTS.items():
        if isinstance(data.get(key), dict):
            found[name] = facts(data[key])
    return found


def plain(value: Any) -> int | str:
    """A whole number as it stands, and anything else as a text."""
    return value if isinstance(value, int) and not isinstance(value, bool) else as_text(value)


def as_text(value: Any) -> str:
    """A text as it stands, a list of texts as one, anything else as JSON; cut short."""
    if isinstance(value, str):
        return shorten(value)
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return shorten(", ".join(value))
    return shorten(json.dumps(value))
