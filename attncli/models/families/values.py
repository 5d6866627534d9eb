"""What a config.json says, in BERT's words and with what transformers takes for what it leaves out."""

import reprlib
from collections.abc import Mapping
from typing import Any

from attncli.base.errors import RequestError
from attncli.models.own_code import needs_its_code, own_code

# What transformers takes for a key of BERT's that config.json leaves out.
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

ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish", "tanh")


class NoEncoder(RequestError):  # noqa: N818  (it says what is the case)
    """A good configuration of a network that attncli has no encoder for.

    why: the reason alone; message: the whole line, by default the reason.
    """

    def __init__(self, why: str, message: str | None = None) -> None:
        self.why = why
        super().__init__(why if message is None else message)


class NoNetwork(RequestError):  # noqa: N818
    """A configuration of a network that transformers has none for either: what it would run is another one."""


class Values:
    """data: what a config.json holds; keys: the family's own words for BERT's; defaults: of its model type."""

    def __init__(self, data: Mapping[str, Any], keys: Mapping[str, str | None], defaults: Mapping[str, Any]) -> None:
        self.data = data
        self.keys = keys
        self.defaults = {**DEFAULTS, **defaults}

    def value(self, key: str) -> Any:
        """Whatever stands there."""
        name = self.keys.get(key, key)
        default = self.defaults.get(key)
        return default if name is None else self.data.get(name, default)

    def count(self, key: str, least: int = 1, most: int = 10_000_000) -> int:
        """Raises RequestError when it is no whole number in this range."""
        number = self.value(key)
        if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
            raise RequestError(f"{key} is {reprlib.repr(number)}, not a whole number from {least} to {most}")
        return number

    def activation(self, key: str) -> str:
        """Raises RequestError when it is none of ACTIVATIONS."""
        name = self.value(key)
        if name not in ACTIVATIONS:
            raise RequestError(f"activation {reprlib.repr(name)} is not one of {', '.join(ACTIVATIONS)}")
        return str(name)

    def flag(self, key: str) -> bool:
        """Raises RequestError when it is not true or false."""
        stated = self.value(key)
        if not isinstance(stated, bool):
            raise RequestError(f"{key} is {reprlib.repr(stated)}, not true or false")
        return stated

    def small(self, key: str) -> float:
        """Raises RequestError when it is no number in [0, 1)."""
        number = self.value(key)
        if not isinstance(number, float | int) or isinstance(number, bool) or not 0 <= number < 1:
            raise RequestError(f"{key} is {reprlib.repr(number)}, not a small number")
        return float(number)

    def check_positions(self) -> None:
        """Raises NoNetwork where positions are told otherwise than by a table: jina-v2 (ALiBi), jina-v3 (rotary).

        For families that call this the key means something; ModernBERT's says "absolute" and mmBERT's "sans_pos", and
        neither means it.
        """
        self.check_only("position_embedding_type", "absolute")

    def check_only(self, key: str, *known: Any) -> None:
        """For what changes the network, and is passed over by transformers 5, whose network is that of these values.

        Raises NoNetwork where config.json says another one.
        """
        stated = self.data.get(key, known[0])
        if stated in known:
            return
        why, code = f"{key} {reprlib.repr(stated)} is not {reprlib.repr(known[0])}", own_code(self.data)
        if code is not None:
            raise NoNetwork(needs_its_code(code, why))
        raise NoNetwork(f"{why}, and nothing here runs it: take another model, attncli models lists some")

    @property
    def pad_id(self) -> int:
        """[PAD]'s number in the vocabulary. Raises RequestError when it can't be one."""
        return 0 if self.value("pad_token_id") is None else self.count("pad_token_id", least=0)
