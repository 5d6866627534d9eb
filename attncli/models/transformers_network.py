"""Load a checkpoint with transformers: the network with eager attention and its tokenizer behind the `tokenizers`
interface.
"""

import reprlib
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any

import torch

from attncli.base.errors import RequestError
from attncli.models.checkpoint_files import CONFIG_FILE, Place, weight_files
from attncli.models.config import ModelConfig, family_of, native, read_config
from attncli.models.families.family import NoNetwork
from attncli.models.own_code import own_code, own_code_error, without_own_code
from attncli.models.transformers_peer import (
    check_counts,
    quiet,
    reference_config,
    refusals,
)
from attncli.text.tokens import Notation, Pieces, Unknown, word_numbers


class Backend:
    """A tokenizer of transformers with the part of the `tokenizers` interface that attncli uses.

    target: tokenize the decoder's output, for which some have another vocabulary or other special tokens.
    """

    def __init__(self, tokenizer: Any, target: bool) -> None:
        self.tokenizer = tokenizer
        self.target = target
        self.longest: int | None = None

    def no_padding(self) -> None:
        """Do nothing: transformers does not pad by default."""

    def no_truncation(self) -> None:
        self.longest = None

    def enable_truncation(self, longest: int) -> None:
        self.longest = longest

    @property
    def notation(self) -> Notation:
        """Return the notation of its vocabulary. Tokenizers not based on `tokenizers` reveal only part of it."""
        if self.tokenizer.is_fast:
            return Notation.of(self.tokenizer.backend_tokenizer)
        of_bytes, number = hasattr(self.tokenizer, "byte_decoder"), self.tokenizer.unk_token_id
        unknown = None if number is None else Unknown(number, self.tokenizer.unk_token)
        return Notation(of_bytes, not of_bytes, unknown, frozenset(self.tokenizer.get_added_vocab()))

    @property
    def pre_tokenizer(self) -> Any:
        """Return what cuts a text into words; None for a tokenizer not based on `tokenizers`."""
        return self.tokenizer.backend_tokenizer.pre_tokenizer if self.tokenizer.is_fast else None

    def id_to_token(self, number: int) -> str:
        return self.tokenizer.convert_ids_to_tokens(number)

    def token_to_id(self, token: str) -> int | None:
        return self.tokenizer.get_vocab().get(token)

    def get_vocab(self) -> dict[str, int]:
        return self.tokenizer.get_vocab()

    def get_added_tokens_decoder(self) -> dict[int, Any]:
        return self.tokenizer.added_tokens_decoder

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)

    def encode(self, text: str, pair: str | None = None, add_special_tokens: bool = True) -> Any:
        texts = {"text_target": text} if self.target else {"text": text, "text_pair": pair}
        with quiet():
            cut = self.tokenizer(
                **texts,
                truncation=self.longest is not None,
                max_length=self.longest,
                add_special_tokens=add_special_tokens,
            )
        if cut.encodings is None:
            if pair is not None:
                raise RequestError("this model's tokenizer does not separate the two texts: omit --pair")
            return pieces(self.tokenizer, cut.input_ids)
        return cut.encodings[0]


def pieces(tokenizer: Any, ids: list[int]) -> Any:
    """Build pieces from ids alone, as from a decoder or a limited tokenizer. Offsets are unknown: (0, 0)."""
    special = [number in tokenizer.all_special_ids and number != tokenizer.unk_token_id for number in ids]
    tokens = [  # a network may have more ids than its tokenizer has tokens
        name or f"<{number}>" for name, number in zip(tokenizer.convert_ids_to_tokens(ids), ids, strict=True)
    ]
    texts = [None if flag else 0 for flag in special]
    return Pieces(
        tokens=tokens,
        ids=ids,
        type_ids=[0] * len(ids),
        sequence_ids=texts,
        special_tokens_mask=[int(flag) for flag in special],
        word_ids=word_numbers(tokens, texts),
        offsets=[(0, 0)] * len(ids),
    )


_TEXT_INPUT = "input_ids"
# Endings of the class names of networks with a head, and the name of transformers' mapping for it.
_HEADS = {
    "LMHeadModel": "CAUSAL_LM",
    "ForCausalLM": "CAUSAL_LM",
    "ForMaskedLM": "MASKED_LM",
    "ForSequenceClassification": "SEQUENCE_CLASSIFICATION",
    "ForTokenClassification": "TOKEN_CLASSIFICATION",
    "ForQuestionAnswering": "QUESTION_ANSWERING",
}
_AUTO = {ending: f"AutoModel{ending}" for ending in _HEADS} | {"LMHeadModel": "AutoModelForCausalLM"}
# Inputs other than text, in words. transformers has some twenty names for them, most of these kinds.
_OTHER_INPUTS = {"pixel": "pictures", "input_features": "audio", "input_values": "audio", "audio": "audio"}
_BESIDE = {"vision_config": "pictures", "audio_config": "audio"}  # parts of a network that read other inputs


def read_network(place: Place, dtype: torch.dtype) -> Any:
    """Return transformers' network with the checkpoint's head and eager attention.

    Raises RequestError if transformers can't load it, weights are missing, the network does not read text, or the
    checkpoint needs its own code.
    """
    from transformers import AutoConfig

    data = read_config(place.path / CONFIG_FILE)
    _check_known(place, data)
    safely = {"trust_remote_code": False, "local_files_only": True}
    check_counts(place.path, data)
    with quiet(), refusals(f"transformers can't load {place.path}"):
        known = family_of(data) is not None
        config = reference_config(data) if known else AutoConfig.from_pretrained(str(place.path), **safely)
    if isinstance(getattr(config, "text_config", None), dict):
        raise RequestError(
            f"{place.path / CONFIG_FILE}: text_config is stated, but {config.model_type} has no such part"
        )
    _check_reads_text(place, config)
    with without_own_code(place.name, native(data)) as code:
        for kind in _kinds_of(config):
            _check_sizes(place, kind, config)
            with quiet(), refusals(f"transformers can't load {place.path}"):
                network, found = kind.from_pretrained(
                    str(place.path),
                    config=config,
                    dtype=dtype,
                    attn_implementation="eager",
                    output_loading_info=True,
                    **safely,
                )
            # Missing tensors are random. The pooler does not affect attention, and is often not published.
            missing = sorted(name for name in found["missing_keys"] if not name.startswith("pooler."))
            if not missing:
                break
        else:
            raise RequestError(f"transformers does not find {missing[0]} in {place.path}: the weights are incomplete")
        prefix, parts = f"{network.base_model_prefix}.", dict(network.base_model.named_children())
        unexpected = sorted(found["unexpected_keys"])  # of the network itself, not of its head:
        surplus = [name for name in unexpected if name.removeprefix(prefix).split(".")[0] in parts]
        if surplus and code is not None:
            raise RequestError(f"transformers' {config.model_type} has no {surplus[0]}")
    return network


def _kinds_of(config: Any) -> list[Any]:
    """Return the transformers classes that may load a network: with its named head, or without one."""
    import transformers

    if config.is_encoder_decoder:
        return [transformers.AutoModelForSeq2SeqLM]
    kinds = [transformers.AutoModel]
    for name in config.architectures if isinstance(config.architectures, list) else []:
        for ending, kind in _HEADS.items():
            if str(name).endswith(ending) and type(config) in getattr(transformers, f"MODEL_FOR_{kind}_MAPPING"):
                kinds.insert(0, getattr(transformers, _AUTO[ending]))
    return kinds


def _check_known(place: Place, data: dict[str, Any]) -> None:
    """Raises RequestError for a network that transformers does not have.

    Its model type is known only to the checkpoint's own code, or its configuration contradicts its model type.
    """
    from transformers import CONFIG_MAPPING

    code, model_type = own_code(data), native(data).get("model_type")
    if code is not None and model_type not in CONFIG_MAPPING:
        why = f"transformers has no model type {reprlib.repr(model_type)}"
        raise RequestError(f"{place.name}: {own_code_error(code, why)}")
    try:
        ModelConfig.from_dict(data)
    except NoNetwork as error:
        raise RequestError(f"{place.name}: {error}") from error
    except RequestError:
        pass  # transformers may run it even if attncli can't


def _check_sizes(place: Place, kind: Any, config: Any) -> None:
    """Raises RequestError if the checkpoint's files can't hold the network that its configuration describes.

    The network is built without memory. Each of its numbers takes a byte at least, unless the files are quantized.
    kind: transformers' class that will load it.
    """
    with torch.device("meta"), quiet(), refusals(f"transformers can't load {place.path}"):
        network = kind.from_config(config)
    if takes(network, "decoder_input_ids") and not config.is_encoder_decoder:
        why = f"is_encoder_decoder is false, but {config.model_type} has an encoder and a decoder"
        raise RequestError(f"{place.path / CONFIG_FILE}: {why}")
    if getattr(config, "quantization_config", None) is not None:
        return
    numbers = network.num_parameters()
    size = sum(path.stat().st_size for path in weight_files(place.path))  # of a .gguf, the converted ones
    if numbers > size:
        why = f"{CONFIG_FILE} describes a network of {numbers:,} numbers, but its weights have {size:,} bytes"
        raise RequestError(f"{place.path}: {why}")


def _check_reads_text(place: Place, config: Any) -> None:
    """Raises RequestError if the network of this configuration, or its encoder, does not read text."""
    from transformers import MODEL_MAPPING

    for part in (config, getattr(config, "encoder", None)):
        try:
            known = MODEL_MAPPING[type(part)]
        except KeyError:  # a combination of two networks, or an unknown one, which transformers reports
            continue
        network = known[0] if isinstance(known, tuple | list) else known
        named = network.main_input_name
        first = named if isinstance(named, str) else named[0]
        if first != _TEXT_INPUT:
            what = next((what for word, what in _OTHER_INPUTS.items() if word in first), first)
            raise RequestError(f"{place.name} reads {what}, not text ({network.__name__}): attncli supports only text")


@contextmanager
def on_text_alone(what: str, place: Place, config: Any) -> Iterator[None]:
    """Convert errors of transformers to one line: `what`, or that the network also needs pictures or audio."""
    beside = [kind for name, kind in _BESIDE.items() if getattr(config, name, None) is not None]
    try:
        with quiet(), refusals(f"{what} {place.name}"):
            yield
    except RequestError as error:
        if not beside:
            raise
        raise RequestError(
            f"{place.name} reads {' and '.join(beside)} besides text, and transformers does not run it on text alone"
        ) from error


def takes(module: Any, name: str) -> bool:
    """Return True if a network accepts an argument of this name, such as token_type_ids."""
    return name in signature(module.forward).parameters
