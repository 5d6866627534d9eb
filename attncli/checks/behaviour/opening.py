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
from attncli.checks.behaviour.small import SMALL, config_for_laws, randomize
from attncli.checks.behaviour.subject import Subject, TransformersSubject
from attncli.models.hub import check_sha256, locate
from attncli.models.transformers_network import read_network
from attncli.models.transformers_peer import quiet, refusals

PREFIX = "transformers:"
WINDOW = 4  # of a checkpoint, so that a short text is longer
LARGE = 1_000_000_000  # parameters; a model with more of them is not run in float64
# Model types that write text, and yet show a token the tokens after it.
LOOKING_AHEAD = ("xlnet", "cpmant", "bert-generation")


class Opened(NamedTuple):
    """A model by its name, its kind in words, and a function that makes it with a backend."""

    name: str
    kind: str
    make: Callable[[str], Subject]


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
        raise RequestError(f"{quoted(name)} is no class of modules")
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
    """Return a small configuration. Raises RequestError for no model type, and for one that reads no text."""
    from transformers import CONFIG_MAPPING

    if model_type not in CONFIG_MAPPING:
        raise RequestError(
            f"transformers has no model type {quoted(model_type)}: write transformers:llama, for example"
        )
    with quiet(), refusals(f"there is no small {model_type}"):
        config = config_for_laws(model_type)
    if not hasattr(config.get_text_config(decoder=True), "vocab_size"):
        raise RequestError(f"{model_type} reads no text: attncli has texts only")
    return config


def open_config(name: str, config: Any, network: Any = None) -> Opened:
    """Open random models of a configuration. network: their class; by default that of the model type."""
    from transformers import AutoModel

    def make(backend: str) -> Subject:
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

    def make(backend: str) -> Subject:
        with quiet():
            model = type(network)._from_config(deepcopy(config), attn_implementation=backend)
        model.load_state_dict(network.state_dict(), assign=True)
        return make_subject(model)

    return Opened(place.name, kind_of(config), make)


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
            pass  # some of it is made in float32
    return TransformersSubject(model.float(), causal, torch.float32)
