"""ModelConfig: the shape of an encoder, read from a checkpoint's config.json.

`description` at the end says who runs any checkpoint, by its config.json alone. Nothing is loaded, and nothing that
stands in a config.json is believed: it is shown.
"""

import json
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from attncli.base.errors import RequestError
from attncli.base.printable import first_line, shorten
from attncli.base.untrusted import read_json
from attncli.models.families import FAMILIES
from attncli.models.families.family import (
    Biased,
    Biases,
    Conv,
    Disentangling,
    Family,
    NoEncoder,
    Positions,
    Source,
    Turned,
    Values,
)
from attncli.models.hub import CONFIG_FILE, LONGEST_SETTINGS, TOKENIZER_FILES, own_code

WORDS: dict[type[Positions], str] = {Turned: "rotary", Biased: "relative biases", Disentangling: "disentangled"}


@dataclass(frozen=True)
class ModelConfig:
    """What an encoder is built from.

    model_type: as config.json says it: "bert", "xlm-roberta", ...
    embedding_size: of the tokens' vectors, which may be narrower than the hidden ones; widens: whether there is a
    projection from them to these.
    position_rows: of the table of positions; padding_position: the number of [PAD]'s own position, behind which real
    tokens are counted (RoBERTa), None where every token is counted from 0.
    segments: kinds of segment, 0 where the network has none; tells_segments: whether it is told of the second.
    tasks: kinds of task, of which every text is of the first; 0 where the network knows of none.
    norm_first: pre-norm, and a norm after the last layer, instead of post-norm (Xiong et al. 2020).
    rms_norm: norms don't take the mean away (Zhang and Sennrich 2019); embedding_norm: whether the embeddings have one.
    key_heads: of keys and values, which heads share in groups; as many as heads where they don't.
    gated: the feed-forward part is f(x W) * (x V), and not f(x W) (Shazeer 2020).
    position_table: whether positions are vectors added to the input; where not, `position_rows` are those it was
    trained for. positions: for each layer what else its attention is told of them (`attncli.models.families.family`).
    reach: for each layer how many tokens it sees to either side; None where it sees everything.
    biases: whether the attention's projections, the feed-forward part and the norms add one. first_norm: whether, of
    pre-norm layers, the first has one before its attention. conv: beside the first layer, of tokens and their
    neighbours. layer_names: for each layer what it is called in a checkpoint, its number as a rule; those that are
    called alike have one set of weights.
    """

    model_type: str
    family: Family
    layers: int
    heads: int
    hidden_size: int
    intermediate_size: int
    embedding_size: int
    widens: bool
    vocab_size: int
    position_rows: int
    padding_position: int | None
    segments: int
    tells_segments: bool
    tasks: int
    activation: str
    layer_norm_eps: float
    norm_first: bool
    rms_norm: bool
    embedding_norm: bool
    key_heads: int
    gated: bool
    pad_id: int
    position_table: bool
    positions: tuple[Positions | None, ...]
    reach: tuple[int | None, ...]
    biases: Biases
    first_norm: bool
    conv: Conv | None
    layer_names: tuple[str, ...]

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.heads

    @property
    def goes_by_order(self) -> bool:
        """Whether anything besides positions does: windows, a convolution."""
        return self.conv is not None or any(reach is not None for reach in self.reach)

    @property
    def max_tokens(self) -> int:
        """The longest text that has a position for every token."""
        return self.position_rows - (0 if self.padding_position is None else self.padding_position + 1)

    @property
    def told_by(self) -> str:
        """How it is told where tokens stand, in words."""
        added = ["learned"] if self.position_table else []
        return ", ".join(dict.fromkeys([*added, *(WORDS[type(one)] for one in self.positions if one is not None)]))

    def source(self, module: str) -> Source:
        """Where a module of ours lies in a checkpoint: "layers.3.attention.query"."""
        parts, name = module.split("."), ""
        if parts[0] == "layers":
            name, parts[1] = self.layer_names[int(parts[1])], "{n}"
        source = self.family.tensors[".".join(parts)]
        return source._replace(
            names=tuple(one.format(n=name) for one in source.names),
            heads=source.heads or self.heads,
            bias=None if source.bias is None else source.bias.format(n=name),
        )

    def document(self) -> dict[str, Any]:
        """What `models show --json` says of it."""
        bases = {one.base for one in self.positions if isinstance(one, Turned)}
        stretches = {one.stretch for one in self.positions if isinstance(one, Turned) and one.stretch != 1}
        windows = {reach for reach in self.reach if reach is not None}
        document = {
            "model_type": self.model_type,
            "family": self.family.name,
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
            "pad_id": self.pad_id,
            "head_dim": self.head_dim,
            "max_tokens": self.max_tokens,
            "positions": self.told_by,
        }
        if bases:
            document["rotary_bases"] = sorted(bases)
        if stretches:
            document["rotary_stretch"] = max(stretches)
        if windows:
            document["window"] = 2 * max(windows)
            document["global_layers"] = [layer for layer, reach in enumerate(self.reach) if reach is None]
        return document

    @classmethod
    def from_file(cls, path: Path) -> "ModelConfig":
        """Read a config.json. Raises RequestError when it is missing or garbled; NoEncoder when it is of
        none of our families."""
        data = read_config(path)
        try:
            return cls.from_dict(data)
        except NoEncoder as error:
            raise NoEncoder(error.why, f"{path}: {error.why}") from error
        except RequestError as error:
            raise RequestError(f"{path}: {error}") from error

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "ModelConfig":
        """From what a config.json holds. Raises RequestError, as `from_file` does."""
        family, values = values_of(data)
        if data.get("is_decoder"):
            raise NoEncoder("is_decoder is set: attncli has encoders only")
        hidden_size, heads = values.count("hidden_size"), values.count("num_attention_heads")
        if hidden_size % heads != 0:
            raise RequestError(f"hidden_size {hidden_size} is not divisible by {heads} heads")
        fields: dict[str, Any] = {
            "layers": values.count("num_hidden_layers", most=1000),
            "heads": heads,
            "hidden_size": hidden_size,
            "intermediate_size": values.count("intermediate_size"),
            "embedding_size": hidden_size,
            "widens": False,
            "vocab_size": values.count("vocab_size"),
            "position_rows": values.count("max_position_embeddings"),
            "padding_position": None,
            "segments": values.count("type_vocab_size"),
            "tells_segments": True,
            "tasks": 0,
            "activation": values.activation("hidden_act"),
            "layer_norm_eps": values.small("layer_norm_eps"),
            "norm_first": False,
            "rms_norm": False,
            "embedding_norm": True,
            "key_heads": heads,
            "gated": False,
            "pad_id": values.pad_id,
            "position_table": True,
            "biases": Biases(),
            "first_norm": True,
            "conv": None,
        }
        fields.update(family.settings(values))
        nothing = (None,) * fields["layers"]
        of_layers = {"positions": nothing, "reach": nothing, "layer_names": tuple(map(str, range(fields["layers"])))}
        config = cls(data["model_type"], family, **{**of_layers, **fields})
        if config.max_tokens < 4:  # room for [CLS], a word and [SEP], and for a pair
            raise RequestError(f"max_position_embeddings {config.position_rows} leaves no room for a text")
        if config.pad_id >= config.vocab_size:
            raise RequestError(f"pad_token_id {config.pad_id} is outside the vocabulary of {config.vocab_size}")
        return config


def family_of(data: Mapping[str, Any]) -> Family | None:
    """The family of encoders whose network a config.json asks for."""
    model_type = data.get("model_type")
    return FAMILIES.get(model_type) if isinstance(model_type, str) else None


def native(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a config.json says in transformers' words, where it was published before transformers had these."""
    family = family_of(data)
    return data if family is None or family.published is None else family.published.native(data)


def values_of(data: Mapping[str, Any]) -> tuple[Family, Values]:
    """The family that a config.json asks for, and what it says. Raises NoEncoder where it is of none."""
    family, model_type = family_of(data), data.get("model_type")
    if family is None:
        raise NoEncoder(f"model type {reprlib.repr(model_type)} is not one that attncli has an encoder for")
    return family, Values(native(data), family.keys, family.types[str(model_type)])


def read_config(path: Path) -> dict[str, Any]:
    """What a config.json holds. Raises RequestError when it is missing, or no JSON object."""
    try:
        data = read_json(path, LONGEST_SETTINGS, infinite=True)
    except FileNotFoundError as error:
        raise RequestError(f"{path.parent} is no model's directory: it has no {path.name}") from error
    except OSError as error:
        raise RequestError(f"can't read {path}: {error.strerror}") from error
    except ValueError as error:
        raise RequestError(f"{path} is not JSON: {first_line(error)}") from error
    if not isinstance(data, dict):
        raise RequestError(f"{path}: a model's configuration is a JSON object")
    return data


# The words that families have for the same: the first that is there is taken.
KEYS_OF_SIZES: dict[str, tuple[str, ...]] = {
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
    if not any(word in one for one in every for name in HEADS for word in KEYS_OF_SIZES[name]):
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
    for name, words in KEYS_OF_SIZES.items():
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
