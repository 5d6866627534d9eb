"""ModelConfig: the shape of a BERT-family encoder, read from a checkpoint's config.json."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attncli.base.errors import RequestError

# What config.json calls the architecture -> the family whose tensors and positions it shares.
FAMILIES = {
    "bert": "bert",
    "roberta": "roberta",
    "xlm-roberta": "roberta",
    "camembert": "roberta",
    "distilbert": "distilbert",
    "electra": "electra",
}

# DistilBERT's own words for what the others name alike.
DISTILBERT_KEYS = {
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "hidden_size": "dim",
    "intermediate_size": "hidden_dim",
    "hidden_act": "activation",
}

# A key that config.json leaves out has the value that transformers takes for it.
DEFAULTS: dict[str, Any] = {
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "hidden_size": 768,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "vocab_size": 30522,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
}
DEFAULTS_OF: dict[str, dict[str, Any]] = {
    "bert": {},
    "roberta": {"vocab_size": 50265, "pad_token_id": 1},
    "xlm-roberta": {"pad_token_id": 1},
    "camembert": {"pad_token_id": 1},
    "distilbert": {"num_hidden_layers": 6},
    "electra": {"num_attention_heads": 4, "hidden_size": 256, "intermediate_size": 1024, "embedding_size": 128},
}

ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish")


class NoEncoder(RequestError):  # noqa: N818  (it says what is the case)
    """A good configuration, of a network that attncli has no encoder for; `why` says what it is."""

    def __init__(self, why: str, where: str = "") -> None:
        self.why = why
        super().__init__(f"{where}{why}; transformers runs it, for run, view, heatmap, flow and diff")


@dataclass(frozen=True)
class ModelConfig:
    """The numbers that an encoder is built from."""

    model_type: str  # as config.json says it: "bert", "xlm-roberta", ...
    family: str  # whose tensor names and positions it has: "bert", "roberta", "distilbert", "electra"
    layers: int
    heads: int
    hidden_size: int
    intermediate_size: int
    embedding_size: int  # ELECTRA's token vectors may be narrower than its hidden ones
    vocab_size: int
    position_rows: int  # rows of the table of positions
    segments: int  # kinds of segment; 0 where the network has none (DistilBERT)
    activation: str
    layer_norm_eps: float
    pad_id: int

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.heads

    @property
    def position_offset(self) -> int:
        """The position of the first token: RoBERTa counts from `padding_idx + 1`."""
        return self.pad_id + 1 if self.family == "roberta" else 0

    @property
    def max_tokens(self) -> int:
        """The longest text that has a position for every token."""
        return self.position_rows - self.position_offset

    @classmethod
    def from_file(cls, path: Path) -> "ModelConfig":
        """Read a config.json. Raises RequestError when it is missing, garbled, or not of the BERT family."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise RequestError(f"{path.parent} is no model's directory: it has no {path.name}") from error
        except OSError as error:
            raise RequestError(f"can't read {path}: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise RequestError(f"{path} is not JSON: {error}") from error
        try:
            return cls.from_dict(data)
        except NoEncoder as error:
            raise NoEncoder(error.why, f"{path}: ") from error
        except RequestError as error:
            raise RequestError(f"{path}: {error}") from error

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "ModelConfig":
        """From what a config.json holds. Raises RequestError, as `from_file` does."""
        if not isinstance(data, dict):
            raise RequestError("a model's configuration is a JSON object")
        model_type = data.get("model_type")
        family = FAMILIES.get(model_type) if isinstance(model_type, str) else None
        if family is None:
            known = ", ".join(FAMILIES)
            raise NoEncoder(f"model type {model_type!r} is not one that attncli has an encoder for: {known}")
        if data.get("is_decoder"):
            raise NoEncoder("is_decoder is set: attncli has encoders only")
        if data.get("position_embedding_type", "absolute") != "absolute":
            raise NoEncoder(
                f"position_embedding_type {data['position_embedding_type']!r} is not supported, only 'absolute'"
            )

        def value(key: str) -> Any:
            name = DISTILBERT_KEYS.get(key, key) if family == "distilbert" else key
            return data.get(name, DEFAULTS_OF[str(model_type)].get(key, DEFAULTS.get(key)))

        def count(key: str, least: int = 1, most: int = 10_000_000) -> int:
            number = value(key)
            if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
                raise RequestError(f"{key} is {number!r}, not a whole number from {least} to {most}")
            return number

        hidden_size, heads = count("hidden_size"), count("num_attention_heads")
        if hidden_size % heads != 0:
            raise RequestError(f"hidden_size {hidden_size} is not divisible by {heads} heads")
        activation = value("hidden_act")
        if activation not in ACTIVATIONS:
            raise RequestError(f"activation {activation!r} is not one of {', '.join(ACTIVATIONS)}")
        eps = 1e-12 if family == "distilbert" else value("layer_norm_eps")
        if not isinstance(eps, float | int) or isinstance(eps, bool) or not 0 <= eps < 1:
            raise RequestError(f"layer_norm_eps is {eps!r}, not a small number")
        config = cls(
            model_type=str(model_type),
            family=family,
            layers=count("num_hidden_layers", most=1000),
            heads=heads,
            hidden_size=hidden_size,
            intermediate_size=count("intermediate_size"),
            embedding_size=count("embedding_size") if family == "electra" else hidden_size,
            vocab_size=count("vocab_size"),
            position_rows=count("max_position_embeddings"),
            segments=0 if family == "distilbert" else count("type_vocab_size"),
            activation=activation,
            layer_norm_eps=float(eps),
            pad_id=0 if value("pad_token_id") is None else count("pad_token_id", least=0),
        )
        if config.max_tokens < 4:  # room for [CLS], a word and [SEP], and for a pair
            raise RequestError(f"max_position_embeddings {config.position_rows} leaves no room for a text")
        if config.pad_id >= config.vocab_size:
            raise RequestError(f"pad_token_id {config.pad_id} is outside the vocabulary of {config.vocab_size}")
        return config
