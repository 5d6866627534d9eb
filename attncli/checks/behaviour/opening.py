"""Find the model that laws are put to: a model type of transformers, a class, or a checkpoint on disk."""

import importlib
from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch import nn

from attncli.base.errors import RequestError
from attncli.base.printable import first_line, quoted
from attncli.checks.behaviour.laws import passes
from attncli.checks.behaviour.small import SMALL, config_for_laws, randomize
from attncli.checks.behaviour.subject import Subject, TheirModel
from attncli.models.config import native, read_config
from attncli.models.hub import CONFIG_FILE, check_sha256, left_aside, locate, weight_files, weights_sha256
from attncli.models.transformers_network import check_known, check_reads_text
from attncli.models.transformers_peer import quiet, refusals

PREFIX = "transformers:"
WINDOW = 4  # of a checkpoint, so that a short text is longer
LARGE = 1_000_000_000  # parameters; a model with more of them is not run in float64
# Model types that write text, and yet show a token what follows it.
LOOKING_AHEAD = ("xlnet", "cpmant", "bert-generation")


class Opened(NamedTuple):
    """A model by its name, what it is in words, and a function that makes it with a backend."""

    name: str
    kind: str
    make: Callable[[str], Subject]


def open_named(what: str) -> Opened:
    """Open transformers:TYPE, or MODULE:CLASS. Raises RequestError for a name that means nothing."""
    module, _, name = what.partition(":")
    if what.startswith(PREFIX):
        return of_config(what, config_of(name), None)
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise RequestError(f"there is no {quoted(what)}: {first_line(error)}") from error
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise RequestError(f"{quoted(what)} is no class of modules")
    config_class = getattr(found, "config_class", None)
    if config_class is None:  # a module of a model: it is checked inside the smallest one
        model_type = module.split(".")[2] if module.startswith("transformers.models.") else ""
        opened = of_config(what, config_of(model_type), None)
        if not any(isinstance(one, found) for one in opened.make("eager").model.modules()):
            raise RequestError(f"no small {model_type} has a {name}: check transformers:{model_type}")
        return opened._replace(kind=f"{opened.kind} with this module")
    theirs = module.split(".")[0] == "transformers"
    return of_config(what, config_of(config_class.model_type) if theirs else small_of(config_class), found)


def small_of(config_class: Any) -> Any:
    """Make a small configuration of somebody's class."""
    known = config_class()
    named = {*known.to_dict(), *type(known).attribute_map}
    return config_class(**{name: value for name, value in SMALL.items() if name in named})


def config_of(model_type: str) -> Any:
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


def of_config(name: str, config: Any, network: Any) -> Opened:
    """Make random models of a configuration."""
    from transformers import AutoModel

    def make(backend: str) -> Any:
        kind = AutoModel if network is None else network
        with quiet(), torch.random.fork_rng():
            torch.manual_seed(0)
            build = kind.from_config if network is None else kind._from_config
            model = build(config, attn_implementation=backend)
        randomize(model)
        return model

    return Opened(name, kind_of(config), lambda backend: subject_of(make(backend)))


def open_checkpoint(name: str) -> Opened:
    """Open a checkpoint on disk. Its window is made short; code that it brings is not run.

    Raises RequestError for files that are not there or not whole, and for a network that reads no text.
    """
    from transformers import AutoConfig, AutoModel

    place = locate(name)
    check_sha256(place, weights_sha256(weight_files(place.path)))
    data = read_config(place.path / CONFIG_FILE)
    check_known(place, data)
    safely = {"trust_remote_code": False, "local_files_only": True}

    def configure() -> Any:
        with quiet(), refusals(f"transformers can't load {place.path}"):
            config = AutoConfig.from_pretrained(str(place.path), **safely)
        text = config.get_text_config()
        if isinstance(getattr(text, "sliding_window", None), int):
            text.sliding_window = WINDOW
            if hasattr(text, "local_attention"):
                text.local_attention = 2 * WINDOW
        return config

    def make(backend: str) -> Subject:
        with left_aside(place.name, native(data)), quiet(), refusals(f"transformers can't load {place.path}"):
            model, read = AutoModel.from_pretrained(
                str(place.path),
                config=configure(),
                attn_implementation=backend,
                use_safetensors=True,
                dtype=torch.float32,
                output_loading_info=True,
                **safely,
            )
            if missing := sorted(one for one in read["missing_keys"] if not one.startswith("pooler.")):
                raise RequestError(
                    f"transformers does not find {missing[0]} in {place.path}: the weights are not whole"
                )
        return subject_of(model)

    config = configure()
    check_reads_text(place, config)
    return Opened(place.name, kind_of(config), make)


def kind_of(config: Any) -> str:
    """Say whether a configuration is of an encoder, a decoder or both."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as WRITE
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES as FILL

    if getattr(config, "is_encoder_decoder", False):
        return "encoder-decoder"
    text = config.get_text_config()
    ahead = getattr(text, "use_bidirectional_attention", None) is True or getattr(text, "is_causal", True) is False
    kind = config.model_type
    writes = kind in WRITE and (kind not in FILL or getattr(config, "is_decoder", False))
    return "decoder" if writes and not ahead and kind not in LOOKING_AHEAD else "encoder"


def subject_of(model: Any, causal: bool | None = None) -> TheirModel:
    """Make a subject of a model, in float64 where it runs in that. causal: by default what its configuration says."""
    model.eval()
    causal = kind_of(model.config) != "encoder" if causal is None else causal
    if sum(one.numel() for one in model.parameters()) < LARGE:
        try:
            subject = TheirModel(model.double(), causal, torch.float64)
            if all(bool(run.stages[-1].vectors.isfinite().all()) for run, _ in passes(subject).values()):
                return subject
        except (RuntimeError, NotImplementedError, ValueError, TypeError):
            pass  # some of it is made in float32
    return TheirModel(model.float(), causal, torch.float32)


def subject_of_model(
    model: Any,
    call: Callable[..., Any] | None,
    causal: bool | None,
    vocab_size: int | None,
    width: int | None,
) -> Subject:
    """Make a subject of a model that somebody has, as `attncli.testing.assert_no_leak` is given it. It is not changed.

    Raises RequestError where nothing says what the model reads.
    """
    from transformers import PreTrainedModel

    if isinstance(model, PreTrainedModel) and call is None:
        return subject_of(deepcopy(model), causal)
    if (vocab_size is None) == (width is None):
        raise RequestError("say what the model reads: vocab_size= of ids, or width= of vectors")
    training = isinstance(model, nn.Module) and model.training
    run = call or (lambda texts, _: model(texts))
    dtype = next((one.dtype for one in model.parameters()), torch.float32) if isinstance(model, nn.Module) else None
    subject = Subject(model, run, causal is not False, vocab_size, width, dtype or torch.float32)
    subject.takes_padding = call is not None
    if training:
        raise RequestError("the model is in training, where dropout moves everything: call its .eval() first")
    with torch.no_grad():
        subject.find_places()
    return subject
