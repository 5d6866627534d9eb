"""Values of options that the shell offers. Without any, shells complete the names of files.

A shell waits for this at every Tab, so that nothing may be imported that computes: a model's layers are what its
config.json says, or what is known of an alias, and nothing is fetched. Choices (`attncli.base.choices`) that are an
option's type are offered by Typer. A completer gets the beginning of a value, and before it, if it asks for them,
the values of the options typed so far.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.untrusted import read_regular

# What config.json may call the numbers of layers and of heads, where we have no family for it; of an encoder-decoder
# the decoder's, which are those of the attention that is meant without --which.
SHAPE_KEYS = (
    ("num_decoder_layers", "num_heads"),
    ("decoder_layers", "decoder_attention_heads"),
    ("num_hidden_layers", "num_attention_heads"),
    ("n_layer", "n_head"),
    ("num_layers", "num_heads"),
)
MOST = 1000  # layers or heads: more is no model


def begun(names: Iterable[str], incomplete: str) -> list[str]:
    """The names that begin so."""
    return [name for name in names if name.startswith(incomplete)]


def last_of_list(names: Iterable[str], incomplete: str) -> list[str]:
    """ "none,ca" -> "none,causal": a list with its last name completed by one that is not in it yet."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in begun(names, last) if name not in before.split(",")]


def several(choice: Any) -> Callable[[str], list[str]]:
    """For an option that takes some of the names of a choice, with commas between them."""

    def complete(incomplete: str) -> list[str]:
        return last_of_list(choices.names(choice), incomplete)

    return complete


def sample(incomplete: str) -> list[str]:
    from attncli.text.samples import samples

    return begun((one.name for one in samples()), incomplete)


def device(incomplete: str) -> list[str]:
    return begun(choices.names(choices.Device), incomplete)


def segments(incomplete: str) -> list[str]:
    from attncli.record.selection import SEGMENTS

    return begun(SEGMENTS, incomplete)


# --- models, their layers and heads ---------------------------------------------------------------------


def model(incomplete: str) -> list[str]:
    """The aliases; a directory is the shell's own business."""
    from attncli.models.aliases import ALIASES

    return begun(ALIASES, incomplete)


def models(incomplete: str) -> list[str]:
    """Two aliases with a comma between them."""
    from attncli.models.aliases import ALIASES

    return last_of_list(ALIASES, incomplete)


def layers(options: Mapping[str, Any], incomplete: str) -> list[str]:
    return numbers(counts(options)[0], incomplete)


def heads(options: Mapping[str, Any], incomplete: str) -> list[str]:
    return numbers(counts(options)[1], incomplete)


def one_layer(options: Mapping[str, Any], incomplete: str) -> list[str]:
    return begun(map(str, range(counts(options)[0])), incomplete)


def one_head(options: Mapping[str, Any], incomplete: str) -> list[str]:
    return begun(map(str, range(counts(options)[1])), incomplete)


def numbers(count: int, incomplete: str) -> list[str]:
    """ "0,1" -> "0,1", "0,10", "0,11": a selection with its last number completed; "0-" -> what a range may end in."""
    before, comma, last = incomplete.rpartition(",")
    first, dash, _ = last.partition("-")
    if dash and first.isdecimal():
        return begun((f"{before}{comma}{first}-{end}" for end in range(int(first) + 1, count)), incomplete)
    every = ["all"] if count and not comma else []
    return begun(every, incomplete) + last_of_list(map(str, range(count)), incomplete)


def counts(options: Mapping[str, Any]) -> tuple[int, int]:
    """Return the numbers of layers and heads of the model named so far; 0 where that takes long to find out.

    What a saved record holds is not looked up: reading it takes numpy.
    """
    name = options.get("model")
    if not name or options.get("saved"):
        return 0, 0
    from attncli.models.aliases import find_alias
    from attncli.models.config import ModelConfig, said_of

    known = find_alias(name)
    if known is not None:
        said = said_of(known[1].config)
        return said["layers"], said["heads"]
    path = config_file(name)
    if path is None:
        return 0, 0
    try:
        config = ModelConfig.from_file(path)
    except RequestError:
        return foreign_counts(path)
    return config.layers, config.heads


def config_file(name: str) -> Path | None:
    """The config.json in a directory, or in the Hugging Face cache, whose own functions take 0.15 s to import."""
    from attncli.models.hub import CONFIG_FILE, HUB_ID, directory

    folder = directory(name)
    if folder is None and HUB_ID.fullmatch(name):
        from huggingface_hub import constants

        cached = Path(constants.HF_HUB_CACHE) / f"models--{name.replace('/', '--')}"
        try:
            folder = cached / "snapshots" / read_regular(cached / "refs" / "main").decode("utf-8").strip()
        except (OSError, ValueError):
            return None
    return None if folder is None else folder / CONFIG_FILE


def foreign_counts(path: Path) -> tuple[int, int]:
    """Return the numbers for a model that transformers runs."""
    from attncli.models.config import read_config

    try:
        config = read_config(path)
    except RequestError:
        return 0, 0
    for keys in SHAPE_KEYS:
        layers, heads = (config.get(key) for key in keys)
        if isinstance(layers, int) and isinstance(heads, int):
            return min(layers, MOST), min(heads, MOST)
    return 0, 0
