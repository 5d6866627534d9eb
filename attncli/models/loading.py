"""Load a model by name: locate its files and choose the engine."""

import os
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from attncli.base import choices
from attncli.base.choices import check_text
from attncli.base.errors import Notice, RequestError, no_notices
from attncli.models.checkpoint_files import CONFIG_FILE, Place, weight_files
from attncli.models.config import ModelConfig, native, read_config
from attncli.models.engine import Engine
from attncli.models.families.family import NoOwnNetwork
from attncli.models.hashes import check_sha256
from attncli.models.hub import locate
from attncli.models.own_code import own_code, without_own_code
from attncli.models.own_model import OwnModel
from attncli.models.weights import open_checkpoint, read_parameters, some_of
from attncli.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from attncli.models.instant import Instant
    from attncli.models.model import Model

E = TypeVar("E", bound="OwnModel")


def load_model(
    name: str | os.PathLike[str] = "minilm", device: str = "auto", dtype: str = "float32", engine: str = "auto"
) -> Engine:
    """Load a model by alias, Hub repository id, directory, or .gguf file. A `Path` is always a directory or a file.

    device: "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1", "mps"; dtype: "float32", "float64",
    "bfloat16", "float16". engine: "attncli" for this program's own networks (`attncli.models.families`);
    "transformers" for any model that transformers supports. "auto" prefers attncli, else uses transformers.
    "instant" is attncli's network in NumPy, for records of short texts (`attncli.models.instant`).

    Raises TypeError for arguments of other types, and RequestError if the name is unknown, the files are not available,
    or the engine can't run them.
    """
    if isinstance(name, os.PathLike):
        name = os.path.join(".", os.fspath(name))  # noqa: PTH118  (the leading "." distinguishes a Path from an alias)
    check_text("name", name, "give an alias, a repository owner/name, a directory, or a .gguf file")
    check_text("device", device, f"write one of {', '.join(choices.names(choices.DeviceName))}, or cuda:1")
    check_text("dtype", dtype, f"write one of {', '.join(choices.names(choices.DtypeName))}")
    choices.check("engine", engine, choices.EngineName)
    from attncli.models.devices import pick_device, pick_dtype

    pick_device(device), pick_dtype(dtype)  # raises errors before anything is downloaded
    return load_from(locate(name), device, dtype, engine)


def load_from(place: Place, device: str, dtype: str, engine: str) -> Engine:
    """Load a model whose files have been located, as `load_model` does."""
    if engine == "instant":
        if device not in ("auto", "cpu") or dtype != "float32":
            raise RequestError("--engine instant computes on the CPU in float32: omit --device and --dtype")
        instant = load_instant(place, device)
        if instant is None:
            raise RequestError(f"there is no network in NumPy for {place.name}: omit --engine instant")
        return instant
    if engine != "transformers":
        try:
            return _load_in_torch(place, device, dtype)
        except NoOwnNetwork as error:
            if engine == "attncli":
                code = own_code(read_config(place.path / CONFIG_FILE))
                note = "" if code is None else f", if it can without the model's own code (auto_map: {code})"
                raise RequestError(f"{error}: omit --engine attncli, so that transformers runs it{note}") from error
    from attncli.models.transformers_engine import load_with_transformers

    return load_with_transformers(place, device, dtype)


def _tokenizer_of_transformers(directory: Path) -> Any:
    """Return a `tokenizers.Tokenizer` built by transformers from files that this program can't read (sentencepiece).

    Raises RequestError if there are no such files.
    """
    if not any(directory.glob("*.model")):
        raise RequestError(
            f"{directory} has no tokenizer: neither tokenizer.json, nor vocab.txt, nor vocab.json with merges.txt"
        )
    from attncli.models.transformers_peer import peer_tokenizer

    return peer_tokenizer(directory).backend_tokenizer


def load_instant(place: Place, device: str) -> "Instant | None":
    """Load a model's network in NumPy; None if it has none. device: for the requests that torch computes.

    Raises RequestError as `load_model` does.
    """
    from attncli.models.instant import Instant, why_not

    try:
        config = ModelConfig.from_file(place.path / CONFIG_FILE)
    except NoOwnNetwork:
        return None
    if why_not(config) is not None or any(path.suffix != ".safetensors" for path in weight_files(place.path)):
        return None
    open_in_torch = partial(_load_in_torch, place, device, "float32", notified=True)
    return _load_own(place, config, partial(Instant, open_in_torch=open_in_torch), "mapped")


def check_runs(place: Place) -> None:
    """Read all tensors of a model with a network of attncli, one at a time, and keep none.

    Raises RequestError if `run` would refuse the model: its tokenizer can't be read, a tensor is missing or has another
    shape, or a number in one is not finite.
    """
    with no_notices():
        model = load_instant(place, "cpu") or _load_in_torch(place, "cpu", "float32")
    for parameter in model.network.shapes():
        module, _, name = parameter.partition(".")
        read_parameters(model.checkpoint, model.config, module, [name], model.dtype)


def _load_in_torch(place: Place, device: str, dtype: str, notified: bool = False) -> "Model":
    """Load a model with attncli's own network in torch. notified: as for `_load_own`.

    Raises NoOwnNetwork for a model without a network of attncli.
    """
    from attncli.models.devices import pick_device, pick_dtype
    from attncli.models.model import Model

    chosen, number = pick_device(device), pick_dtype(dtype)
    config = ModelConfig.from_file(place.path / CONFIG_FILE)
    return _load_own(place, config, partial(Model, device=chosen, dtype=number), "pt", notified)


def _load_own(
    place: Place, config: ModelConfig, make: "Callable[..., E]", framework: str, notified: bool = False
) -> "E":
    """Load a model with attncli's own network. make: the model's class. framework: as for `open_checkpoint`. notified:
    the notices have already been given.
    """
    sha256 = check_sha256(place)
    tokenizer = Tokenizer.from_directory(
        place.path,
        config.max_tokens,
        config.vocab_size,
        config.pad_id,
        _tokenizer_of_transformers,
        config.family.tokenizer,
        pads_left=config.causal,
    )
    checkpoint = open_checkpoint(place.path, config.family.prefixes, framework)
    if notified:
        return make(place, config, tokenizer, checkpoint, sha256)
    with without_own_code(place.name, native(config.stated)) as code:
        model = make(place, config, tokenizer, checkpoint, sha256)
        if model.surplus and code is not None:
            raise RequestError(f"{config.model_type} has no {some_of(model.surplus)}")
    if model.surplus:
        warnings.warn(f"{checkpoint.where}: not used: {some_of(model.surplus)}", Notice, stacklevel=2)
    return model
