"""ModelConfig: the shape of an encoder, read from a checkpoint's config.json."""

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attncli.base.errors import RequestError
from attncli.base.printable import first_line
from attncli.base.untrusted import read_json
from attncli.models.checkpoint_files import LONGEST_SETTINGS
from attncli.models.families import FAMILIES
from attncli.models.families.family import Family, Source
from attncli.models.families.parts import Biased, Biases, Conv, Disentangling, Positions, Turned
from attncli.models.families.values import NoEncoder, Values

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
    trained for. positions: for each layer what else its attention is told of them (`attncli.models.families.parts`).
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
