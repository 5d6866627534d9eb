"""Read a checkpoint with transformers: a network with eager attention, and its tokenizer in place of `tokenizers`."""

import reprlib
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any

import torch

from attncli.base.errors import RequestError
from attncli.models.config import ModelConfig, family_of, native, read_config
from attncli.models.families.family import NoNetwork
from attncli.models.hub import CONFIG_FILE, Place, left_aside, needs_its_code, own_code
from attncli.models.transformers_peer import peer_tokenizer, quiet, reference_config, refusals
from attncli.text.tokens import Notation, Pieces, Unknown, with_words, word_numbers


class Backend:
    """A tokenizer of transformers in the place of one of `tokenizers`, as far as attncli's own uses that.

    target: cut what a decoder is to write, for which some have another vocabulary or other special tokens.
    """

    def __init__(self, tokenizer: Any, target: bool) -> None:
        self.tokenizer = tokenizer
        self.target = target
        self.longest: int | None = None

    def no_padding(self) -> None:
        """transformers never pads unasked."""

    def no_truncation(self) -> None:
        self.longest = None

    def enable_truncation(self, longest: int) -> None:
        self.longest = longest

    @property
    def notation(self) -> Notation:
        """How its vocabulary writes pieces; one that is not made of `tokenizers` says only some of it."""
        if self.tokenizer.is_fast:
            return Notation.of(self.tokenizer.backend_tokenizer)
        of_bytes, number = hasattr(self.tokenizer, "byte_decoder"), self.tokenizer.unk_token_id
        unknown = None if number is None else Unknown(number, self.tokenizer.unk_token)
        return Notation(of_bytes, not of_bytes, unknown, frozenset(self.tokenizer.get_added_vocab()))

    def id_to_token(self, number: int) -> str:
        return self.tokenizer.convert_ids_to_tokens(number)

    def token_to_id(self, token: str) -> int | None:
        return self.tokenizer.get_vocab().get(token)

    def get_vocab(self) -> dict[str, int]:
        vocabulary: dict[str, int] = self.tokenizer.get_vocab()
        return vocabulary

    def encode(self, text: str, pair: str | None = None) -> Any:
        texts = {"text_target": text} if self.target else {"text": text, "text_pair": pair}
        with quiet():
            cut = self.tokenizer(**texts, truncation=self.longest is not None, max_length=self.longest)
        if cut.encodings is None:
            if pair is not None:
                raise RequestError("this model's tokenizer does not say what belongs to which text: leave --pair out")
            return pieces(self.tokenizer, cut.input_ids)
        return with_words(cut.encodings[0])


def pieces(tokenizer: Any, ids: list[int]) -> Any:
    """Of numbers alone, as from a decoder, or from a tokenizer that gives no more. Offsets are not known: (0, 0)."""
    special = [number in tokenizer.all_special_ids and number != tokenizer.unk_token_id for number in ids]
    tokens = [  # a network may have more numbers than its tokenizer has names for
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


TEXT_INPUT = "input_ids"
# Endings of the names of networks with a head: transformers' list of those that have one, and the class that loads it.
HEADS = {
    "LMHeadModel": "CAUSAL_LM",
    "ForCausalLM": "CAUSAL_LM",
    "ForMaskedLM": "MASKED_LM",
    "ForSequenceClassification": "SEQUENCE_CLASSIFICATION",
    "ForTokenClassification": "TOKEN_CLASSIFICATION",
    "ForQuestionAnswering": "QUESTION_ANSWERING",
}
AUTO = {ending: f"AutoModel{ending}" for ending in HEADS} | {"LMHeadModel": "AutoModelForCausalLM"}
# What else a network may be called with, in words; transformers has some twenty names, most of them of these kinds.
OTHER_INPUTS = {"pixel": "pictures", "input_features": "audio", "input_values": "audio", "audio": "audio"}
BESIDE = {"vision_config": "pictures", "audio_config": "audio"}  # a part of a network that reads something else


def load_network(place: Place, dtype: torch.dtype) -> tuple[Any, Any]:
    """Return transformers' network and its tokenizer. Raises RequestError when it can't load them."""
    network = read_network(place, dtype)
    tokenizer = peer_tokenizer(place.path)
    if getattr(tokenizer, "separate_vocabs", False):
        raise RequestError(f"{place.path} has two vocabularies, and transformers names the tokens of one only")
    return network, tokenizer


def read_network(place: Place, dtype: torch.dtype) -> Any:
    """Return transformers' network, with the head that the checkpoint has, with eager attention.

    Raises RequestError when transformers can't load it, doesn't find all of the network in the weights, the network
    reads something else than text, or the checkpoint needs code of its own.
    """
    from transformers import AutoConfig

    data = read_config(place.path / CONFIG_FILE)
    check_known(place, data)
    safely = {"trust_remote_code": False, "local_files_only": True}
    with quiet(), refusals(f"transformers can't load {place.path}"):
        known = family_of(data) is not None
        config = reference_config(data) if known else AutoConfig.from_pretrained(str(place.path), **safely)
    check_reads_text(place, config)
    with left_aside(place.name, native(data)) as code:
        for kind in kinds_of(config):
            with quiet(), refusals(f"transformers can't load {place.path}"):
                network, found = kind.from_pretrained(
                    str(place.path),
                    config=config,
                    dtype=dtype,
                    attn_implementation="eager",
                    output_loading_info=True,
                    **safely,
                )
            # What is not found is drawn at random. The pooler takes no part in attention, and is often not published.
            missing = sorted(name for name in found["missing_keys"] if not name.startswith("pooler."))
            if not missing:
                break
        else:
            raise RequestError(f"transformers does not find {missing[0]} in {place.path}: the weights are not whole")
        surplus = sorted(name for name in found["unexpected_keys"] if is_of_body(name, network))
        if surplus and code is not None:
            raise RequestError(f"transformers' {config.model_type} has no {surplus[0]}")
    return network


def kinds_of(config: Any) -> list[Any]:
    """Return the classes of transformers that may load a network: with the head that is named, or without one."""
    import transformers

    if config.is_encoder_decoder:
        return [transformers.AutoModelForSeq2SeqLM]
    kinds = [transformers.AutoModel]
    for name in config.architectures or []:
        for ending, kind in HEADS.items():
            if str(name).endswith(ending) and type(config) in getattr(transformers, f"MODEL_FOR_{kind}_MAPPING"):
                kinds.insert(0, getattr(transformers, AUTO[ending]))
    return kinds


def check_known(place: Place, data: dict[str, Any]) -> None:
    """Raises RequestError for a network that transformers has not: of a model type that only the checkpoint's own code
    knows, or another one than its model type says.
    """
    from transformers import CONFIG_MAPPING

    code, model_type = own_code(data), native(data).get("model_type")
    if code is not None and model_type not in CONFIG_MAPPING:
        why = f"transformers has no model type {reprlib.repr(model_type)}"
        raise RequestError(f"{place.name}: {needs_its_code(code, why)}")
    try:
        ModelConfig.from_dict(data)
    except NoNetwork as error:
        raise RequestError(f"{place.name}: {error}") from error
    except RequestError:
        pass  # what attncli can't run, transformers may


def is_of_body(name: str, network: Any) -> bool:
    """Whether a tensor of a checkpoint lies in what a network consists of, and not in a head upon it."""
    parts = dict(network.base_model.named_children())
    return name.removeprefix(f"{network.base_model_prefix}.").split(".")[0] in parts


def check_reads_text(place: Place, config: Any) -> None:
    """Raises RequestError when the network of this configuration, or its encoder, reads something else than text."""
    from transformers import MODEL_MAPPING

    for part in (config, getattr(config, "encoder", None)):
        try:
            known = MODEL_MAPPING[type(part)]
        except KeyError:  # no network of its own: one of two others, or none at all, which transformers says itself
            continue
        network = known[0] if isinstance(known, tuple | list) else known
        named = network.main_input_name
        first = named if isinstance(named, str) else named[0]
        if first != TEXT_INPUT:
            what = next((what for word, what in OTHER_INPUTS.items() if word in first), first)
            raise RequestError(f"{place.name} reads {what} and not text ({network.__name__}): attncli has texts only")


@contextmanager
def on_text_alone(what: str, place: Place, config: Any) -> Iterator[None]:
    """What transformers refuses as one line, which begins with `what`; of a network that reads pictures or audio too,
    that it can't do without.
    """
    beside = [kind for name, kind in BESIDE.items() if getattr(config, name, None) is not None]
    try:
        with quiet(), refusals(f"{what} {place.name}"):
            yield
    except RequestError as error:
        if not beside:
            raise
        raise RequestError(
            f"{place.name} reads {' and '.join(beside)} beside text, and transformers does not run it on text alone"
        ) from error


def takes(module: Any, name: str) -> bool:
    """Whether a network can be told of something by this name, such as token_type_ids."""
    return name in signature(module.forward).parameters
