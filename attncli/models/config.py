"""ModelConfig: the shape of a network, read from a checkpoint's config.json.

`description` at the end says which engine runs a checkpoint, from its config.json alone. It loads nothing, and displays
the values of config.json without trusting them.
"""

import json
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attncli.base.errors import RequestError
from attncli.base.printable import first_line, shorten
from attncli.base.untrusted import read_json
from attncli.models.checkpoint_files import CONFIG_FILE, LONGEST_SETTINGS, TOKENIZER_FILES
from attncli.models.families import find_family
from attncli.models.families.family import (
    Biases,
    Conv,
    Disentangling,
    Family,
    NoOwnNetwork,
    Positions,
    RelativeBiasPositions,
    RotaryPositions,
    Source,
    Values,
)
from attncli.models.own_code import own_code

TABLE = "embeddings.tokens"  # the token embeddings in our network
_WORDS: dict[type[Positions], str] = {
    RotaryPositions: "rotary",
    RelativeBiasPositions: "relative biases",
    Disentangling: "disentangled",
}


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The architecture of an encoder, or of a decoder.

    model_type: as in config.json: "bert", "xlm-roberta", ...
    embedding_size: the size of token embeddings, which may be smaller than the hidden size. widens: there is a
    projection from embeddings to hidden states.
    position_rows: the rows of the position table. padding_position: the position of [PAD], after which real tokens are
    counted (RoBERTa); None if all tokens are counted from 0.
    segments: the number of segment embeddings, possibly 0. returns_segments: the second text gets its own segment.
    tasks: the number of task embeddings; the first one is used; 0 if the network has none. embedding_scale: a factor of
    the token embeddings.
    causal: no token sees later ones: the network is a decoder. head_dim: the size of a head's vectors.
    norm_first: pre-norm layers instead of post-norm (Xiong et al. 2020). output_norm: the outputs of the attention and
    the feed-forward part have a norm before they are added (Gemma Team 2024, "Gemma 2", section 2). With either there
    is a norm after the last layer. parallel: both parts of a layer read its input (Black et al. 2022, section 2.1).
    query_key_norm: "head" if queries and keys have a norm of each head's vector, "all" if of all heads joined, or None.
    score_scale: the factor of the dot product, by default 1 / sqrt(head_dim). softcap: the bound of scaled scores.
    rms_norm: norms do not subtract the mean (Zhang and Sennrich 2019). embedding_norm: the embeddings have a norm.
    key_heads: the number of key and value heads, which groups of heads share; equal to `heads` if they are not shared.
    gated: the feed-forward part is f(x W) * (x V) instead of f(x W) (Shazeer 2020).
    position_table: position embeddings are added to the input; if not, `position_rows` is the trained length.
    positions: for each layer, how else its attention uses positions (`attncli.models.families.family`).
    reach: for each layer, the number of tokens it sees to either side; None for all.
    biases: which of the attention's projections, the feed-forward part and the norms have a bias. first_norm: the first
    pre-norm layer has a norm before its attention. conv: a convolution over neighbouring tokens, parallel to the first
    layer. layer_names: for each layer its name in a checkpoint, usually its number; layers of one name share weights.
    stated: the content of config.json.
    """

    model_type: str
    family: Family
    layers: int
    heads: int
    hidden_size: int
    intermediate_size: int
    embedding_size: int
    widens: bool = False
    vocab_size: int
    position_rows: int
    padding_position: int | None = None
    segments: int
    returns_segments: bool = True
    tasks: int = 0
    activation: str
    layer_norm_eps: float
    norm_first: bool = False
    rms_norm: bool = False
    embedding_norm: bool = True
    key_heads: int
    gated: bool = False
    pad_id: int | None
    position_table: bool = True
    positions: tuple[Positions | None, ...]
    reach: tuple[int | None, ...]
    biases: Biases
    head_dim: int
    causal: bool = False
    output_norm: bool = False
    parallel: bool = False
    query_key_norm: str | None = None
    embedding_scale: float = 1.0
    score_scale: float | None = None
    softcap: float | None = None
    first_norm: bool = True
    conv: Conv | None = None
    layer_names: tuple[str, ...]
    stated: Mapping[str, Any] = field(compare=False, repr=False)

    @property
    def part(self) -> str:
        """Return the kind of the network's attention, as in `AttentionRecord.kind`."""
        return "decoder" if self.causal else "encoder"

    @property
    def final_norm(self) -> bool:
        """Return True if there is a norm after the last layer."""
        return self.norm_first or self.output_norm

    @property
    def goes_by_order(self) -> bool:
        """Return True if anything besides positions depends on the order of tokens: windows or a convolution."""
        return self.conv is not None or any(reach is not None for reach in self.reach)

    @property
    def max_tokens(self) -> int:
        """Return the length of the longest text with a position for every token."""
        return self.position_rows - (0 if self.padding_position is None else self.padding_position + 1)

    @property
    def position_words(self) -> str:
        """Describe in words how the network represents positions."""
        added = ["learned"] if self.position_table else []
        return ", ".join(dict.fromkeys([*added, *(_WORDS[type(one)] for one in self.positions if one is not None)]))

    def source(self, module: str) -> Source:
        """Return where a module of our network lies in a checkpoint: "layers.3.attention.query"."""
        parts, name = module.split("."), ""
        if parts[0] == "layers":
            name, parts[1] = self.layer_names[int(parts[1])], "{n}"
        source = self.family.tensors[".".join(parts)]
        if source.grouped is not None:
            ends = [0, self.heads, self.heads + self.key_heads, self.heads + 2 * self.key_heads]
            place = ("query", "key", "value").index(source.grouped)
            source = source._replace(taken=tuple(range(ends[place], ends[place + 1])), parts=ends[3])
        return source._replace(
            names=tuple(one.format(n=name) for one in source.names),
            heads=source.heads or self.heads,
            bias=None if source.bias is None else source.bias.format(n=name),
        )

    def document(self) -> dict[str, Any]:
        """Return the entry in `models show --json`."""
        bases = {one.base for one in self.positions if isinstance(one, RotaryPositions)}
        stretches = [
            most
            for one in self.positions
            if isinstance(one, RotaryPositions)
            and (most := max(one.stretch) if isinstance(one.stretch, tuple) else one.stretch) != 1
        ]
        windows = {reach for reach in self.reach if reach is not None}
        document: dict[str, Any] = {
            "model_type": self.model_type,
            "family": self.family.name,
            "causal": self.causal,
            "layers": self.layers,
            "heads": self.heads,
            **({"key_value_heads": self.key_heads} if self.key_heads < self.heads else {}),
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "embedding_size": self.embedding_size,
            "vocab_size": self.vocab_size,
            "position_rows": self.position_rows,
            "segments": self.segments,
            "activation": self.activation,
            "layer_norm_eps": self.layer_norm_eps,
            **({} if self.pad_id is None else {"pad_id": self.pad_id}),
            "head_dim": self.head_dim,
            "max_tokens": self.max_tokens,
            "positions": self.position_words,
        }
        if bases:
            document["rotary_bases"] = sorted(bases)
        if stretches:
            document["rotary_stretch"] = max(stretches)
        if windows:
            document["window"] = max(windows)
            document["global_layers"] = [layer for layer, reach in enumerate(self.reach) if reach is None]
        return document

    @classmethod
    def from_file(cls, path: Path) -> "ModelConfig":
        """Read a config.json. Raises RequestError if it is missing or damaged, and NoOwnNetwork for other families."""
        data = read_config(path)
        try:
            return cls.from_dict(data)
        except NoOwnNetwork as error:
            raise NoOwnNetwork(error.why, f"{path}: {error.why}") from error
        except RequestError as error:
            raise RequestError(f"{path}: {error}") from error

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "ModelConfig":
        """Build from the content of a config.json. Raises RequestError as `from_file` does."""
        family, values = values_of(data)
        hidden_size, heads = values.count("hidden_size"), values.count("num_attention_heads")
        unstated = values.value("intermediate_size") is None  # GPT-2
        fields: dict[str, Any] = {
            "layers": values.layers,
            "heads": heads,
            "hidden_size": hidden_size,
            "intermediate_size": 4 * hidden_size if unstated else values.count("intermediate_size"),
            "embedding_size": hidden_size,
            "vocab_size": values.count("vocab_size"),
            "position_rows": values.count("max_position_embeddings"),
            "segments": values.count("type_vocab_size"),
            "activation": values.activation("hidden_act"),
            "layer_norm_eps": values.small("layer_norm_eps"),
            "key_heads": heads,
            "pad_id": values.pad_id,
            "biases": Biases(),
            "head_dim": hidden_size // heads,
        }
        fields.update(family.settings(values))
        nothing = (None,) * fields["layers"]
        of_layers = {"positions": nothing, "reach": nothing, "layer_names": tuple(map(str, range(fields["layers"])))}
        config = cls(model_type=data["model_type"], family=family, stated=data, **{**of_layers, **fields})
        if data.get("is_decoder") and not config.causal:
            raise NoOwnNetwork(f"is_decoder is set, but attncli runs {family.name} only as an encoder")
        if hidden_size % heads != 0 and config.head_dim == hidden_size // heads:
            raise RequestError(f"hidden_size {hidden_size} is not divisible by {heads} heads")
        if config.max_tokens < 4:  # room for [CLS], a word and [SEP], and for a pair
            raise RequestError(f"max_position_embeddings {config.position_rows} leaves no room for a text")
        return config


def family_of(data: Mapping[str, Any]) -> Family | None:
    """Return the family that a config.json names, or None."""
    model_type = data.get("model_type")
    return find_family(model_type) if isinstance(model_type, str) else None


def native(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Translate a config.json that was published before transformers supported its family to transformers' keys."""
    family = family_of(data)
    return data if family is None or family.published is None else family.published.native(data)


def values_of(data: Mapping[str, Any]) -> tuple[Family, Values]:
    """Return the family of a config.json, and its values. Raises NoOwnNetwork for an unsupported family."""
    family, model_type = family_of(data), data.get("model_type")
    if family is None:
        raise NoOwnNetwork(f"model type {reprlib.repr(model_type)} is not supported by attncli's networks")
    return family, Values(native(data), family.keys, family.types[str(model_type)])


def read_config(path: Path) -> dict[str, Any]:
    """Return the content of a config.json. Raises RequestError if it is missing or not a JSON object."""
    try:
        data = read_json(path, LONGEST_SETTINGS, infinite=True)
    except FileNotFoundError as error:
        raise RequestError(f"{path.parent} is not a model's directory: it has no {path.name}") from error
    except OSError as error:
        raise RequestError(f"can't read {path}: {error.strerror}") from error
    except ValueError as error:
        raise RequestError(f"{path} is not JSON: {first_line(error)}") from error
    if not isinstance(data, dict):
        raise RequestError(f"{path}: a model's configuration is a JSON object")
    return data


# The keys that families use for the same value. The first present one counts.
_KEYS_OF_SIZES: dict[str, tuple[str, ...]] = {
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
_PARTS = {
    "encoder": "encoder",
    "decoder": "decoder",
    "text_config": "text",
    "vision_config": "vision",
    "audio_config": "audio",
}
_HEADS = ("heads", "decoder_heads")
AUDIO, PICTURES = ("num_mel_bins", "feat_extract_norm"), ("image_size", "patch_size", "num_channels")


def describe(directory: Path) -> tuple[str | None, str | None, dict[str, Any]]:
    """Return the engine of the checkpoint in a directory, why it is not attncli's, and `describe_config`.

    The engine is "attncli" or "transformers", judged by its files; None if neither can run it. The reason includes a
    note if the checkpoint's own code is ignored. Raises RequestError if config.json is missing or not a JSON object.
    """
    data = read_config(directory / CONFIG_FILE)
    engine, why = choose_engine(data)
    if engine is not None and not any((directory / name).is_file() for name in TOKENIZER_FILES):
        engine, why = None, "it has no tokenizer"
    return engine, why, describe_config(data)


def describe_config(data: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration under attncli's names: the complete architecture for supported families."""
    try:
        return ModelConfig.from_dict(data).document()
    except RequestError:
        return facts(data)


def choose_engine(data: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return the engine, and why it is not attncli's. Only running it shows if transformers knows the model type."""
    code = own_code(data)
    note = None if code is None else f"its own code (auto_map: {code}) is not run"
    try:
        ModelConfig.from_dict(data)
        return "attncli", note
    except NoOwnNetwork as error:
        why = "; ".join(filter(None, (error.why, note)))
    except RequestError as error:
        return None, str(error)
    if not isinstance(data.get("model_type"), str):
        return None, f"{CONFIG_FILE} names no model type"
    if (instead := _read_instead_of_text(data)) is not None:
        return None, f"it reads {instead}"
    every = [data, *(part for name in _PARTS if isinstance(part := data.get(name), dict))]
    if not any(word in one for one in every for name in _HEADS for word in _KEYS_OF_SIZES[name]):
        return None, f"{CONFIG_FILE} names no attention heads"
    return "transformers", why


def _read_instead_of_text(data: dict[str, Any]) -> str | None:
    """Return, in words, the input of a model that does not read only text; None if it does."""
    if isinstance(data.get("encoder"), dict):
        return _read_instead_of_text(data["encoder"])
    speaks = "vocab_size" in data and not data.get("is_encoder_decoder")  # text to speech: has mel bins but reads text
    if any(key in data for key in AUDIO) and not (speaks and "feat_extract_norm" not in data):
        return "audio, not text"
    if any(key in data for key in PICTURES) and "vocab_size" not in data:
        return "pictures, not text"
    if "projection_dim" in data and "vision_config" in data and "text_config" in data:
        return "pictures besides text"
    return None


def facts(data: dict[str, Any]) -> dict[str, Any]:
    """Return the main values of a configuration and of its parts under attncli's names."""
    found: dict[str, Any] = {}
    for name, words in _KEYS_OF_SIZES.items():
        value = next((data[word] for word in words if data.get(word) is not None), None)
        if value is not None and (type(value) is not int or name in TEXTS):
            if isinstance(value, list) and all(isinstance(one, str) for one in value):
                value = ", ".join(value)
            value = shorten(value if isinstance(value, str) else json.dumps(value))
        if value is not None:
            found[name] = value
    for key, name in _PARTS.items():
        if isinstance(data.get(key), dict):
            found[name] = facts(data[key])
    return found
