"""A name becomes a model: where it lies, and which engine runs it."""

import warnings

from attncli.base import choices
from attncli.base.errors import Notice
from attncli.models.checkpoint_files import CONFIG_FILE, weight_files
from attncli.models.config import ModelConfig
from attncli.models.devices import pick_device, pick_dtype
from attncli.models.engine import Engine
from attncli.models.families.values import NoEncoder
from attncli.models.hub import Place, check_sha256, locate, weights_sha256
from attncli.models.model import Model
from attncli.models.weights import open_checkpoint
from attncli.text.tokenizer import Tokenizer


def load_model(name: str = "minilm", device: str = "auto", dtype: str = "float32", engine: str = "auto") -> Engine:
    """Load a model by alias, Hub repository id, or directory.

    device: "auto" (a GPU where there is one), "cpu", "cuda", "cuda:1", "mps"; dtype: "float32", "float64",
    "bfloat16", "float16". engine: "attncli" for an encoder of the BERT family, by this program's own attention;
    "transformers" for whatever transformers gives attentions of; "auto" is ours where there is an encoder for it, else
    transformers, with a Notice.

    Raises RequestError when the name means nothing, the files can't be had, or the engine can't run them.
    """
    choices.check("engine", engine, choices.Engine)
    pick_device(device), pick_dtype(dtype)  # what is wrong with these is said before anything is fetched
    if engine == "transformers" or (engine == "auto" and is_foreign(locate(name))):
        from attncli.models.transformers_engine import load_with_transformers

        return load_with_transformers(name, device, dtype)
    return load_own(name, device, dtype)


def load_own(name: str = "minilm", device: str = "auto", dtype: str = "float32") -> Model:
    """`load_model` for what has to look into the network: only attncli's own engine.

    Raises RequestError as `load_model` does, and for a model that is not of the BERT family.
    """
    from attncli.models.transformers_peer import last_resort_tokenizer

    chosen, number = pick_device(device), pick_dtype(dtype)
    place = locate(name)
    config = ModelConfig.from_file(place.path / CONFIG_FILE)
    paths = weight_files(place.path)
    sha256 = weights_sha256(paths)
    check_sha256(place, sha256)
    tokenizer = Tokenizer.from_directory(
        place.path, config.max_tokens, config.vocab_size, config.pad_id, last_resort_tokenizer
    )
    return Model(place, config, tokenizer, open_checkpoint(place.path), sha256, chosen, number)


def is_foreign(place: Place) -> bool:
    """Whether attncli has no encoder for a model; a Notice says that transformers runs it then.

    Raises RequestError when its configuration can't be read.
    """
    try:
        ModelConfig.from_file(place.path / CONFIG_FILE)
    except NoEncoder as error:
        warnings.warn(f"transformers runs {place.name}: {error.why}", Notice, stacklevel=3)
        return True
    return False
