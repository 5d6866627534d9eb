"""The values that a shell offers at Tab. Without any, it completes the names of files.

The user waits at every Tab, so nothing heavy is imported and nothing is fetched: layers and heads come from an alias or
from config.json. Typer itself offers the choices that are an option's type (`attncli.base.choices`). A completer takes
the beginning of a value, and before it, if it wants them, the options typed so far.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.untrusted import read_regular

# Names of the numbers of layers and heads in the config.json of other families. For an encoder-decoder they are the
# decoder's, as without --which.
SHAPE_KEYS = (
    ("num_decoder_layers", "num_heads"),
    ("decoder_layers", "decoder_attention_heads"),
    ("num_hidden_layers", "num_attention_heads"),
    ("n_layer", "n_head"),
    ("num_layers", "num_heads"),
)
MOST = 1000  # layers or heads: more is no model


def with_prefix(names: Iterable[str], incomplete: str) -> list[str]:
    """Return the names that begin with a text."""
    return [name for name in names if name.startswith(incomplete)]


def last_of_list(names: Iterable[str], incomplete: str) -> list[str]:
    """Complete the last name of a list by names that are not in it yet: "none,ca" -> "none,causal"."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in with_prefix(names, last) if name not in before.split(",")]


def several(choice: Any) -> Callable[[str], list[str]]:
    """Return the completer of an option that takes several names of a choice, separated by commas."""
    return lambda incomplete: last_of_list(choices.names(choice), incomplete)


def sample(incomplete: str) -> list[str]:
    from attncli.text.samples import samples

    return with_prefix((one.name for one in samples()), incomplete)


def device(incomplete: str) -> list[str]:
    return with_prefix(choices.names(choices.Device), incomplete)


def segments(incomplete: str) -> list[str]:
    from attncli.record.selection import SEGMENTS

    return with_prefix(SEGMENTS, incomplete)


# --- models, their layers and heads ---------------------------------------------------------------------


def model(incomplete: str) -> list[str]:
    """Return aliases; the shell itself completes directories."""
    from attncli.models.aliases import ALIASES

    return with_prefix(ALIASES, incomplete)


def models(incomplete: str) -> list[str]:
    """Complete a list of aliases."""
    from attncli.models.aliases import ALIASES

    return last_of_list(ALIASES, incomplete)


def layers(options: Mapping[str, Any], incomplete: str) -> list[str]:
    return numbers(counts(options)[0], incomplete)


def heads(options: Mapping[str, Any], incomplete: str) -> list[str]:
    """Complete heads, also after a layer: "3." -> "3.0", "3.1"."""
    before, dot, last = incomplete.rpartition(".")
    return [f"{before}{dot}{one}" for one in numbers(counts(options)[1], last)]


def one_layer(options: Mapping[str, Any], incomplete: str) -> list[str]:
    return with_prefix(map(str, range(counts(options)[0])), incomplete)


def one_head(options: Mapping[str, Any], incomplete: str) -> list[str]:
    return with_prefix(map(str, range(counts(options)[1])), incomplete)


def numbers(count: int, incomplete: str) -> list[str]:
    """Complete the last number of a selection ("0,1" -> "0,10", "0,11"), or the end of a range ("0-")."""
    before, comma, last = incomplete.rpartition(",")
    first, dash, _ = last.partition("-")
    if dash and first.isdecimal():
        return with_prefix((f"{before}{comma}{first}-{end}" for end in range(int(first) + 1, count)), incomplete)
    every = ["all"] if count and not comma else []
    return with_prefix(every, incomplete) + last_of_list(map(str, range(count)), incomplete)


def counts(options: Mapping[str, Any]) -> tuple[int, int]:
    """Return the numbers of layers and heads of the model typed so far; 0 if that takes long to find out.

    A saved record is not read, because that takes numpy.
    """
    name = options.get("model")
    if not name or options.get("saved"):
        return 0, 0
    from attncli.models.aliases import find_alias
    from attncli.models.config import ModelConfig, describe_config

    known = find_alias(name)
    if known is not None:
        described = describe_config(known[1].config)
        return described["layers"], described["heads"]
    path = config_file(name)
    if path is None:
        return 0, 0
    try:
        config = ModelConfig.from_file(path)
    except RequestError:
        return foreign_counts(path)
    return config.layers, config.heads


def config_file(name: str) -> Path | None:
    """Find config.json in a directory or in the Hugging Face cache, whose own functions take 0.15 s to import."""
    from attncli.models.checkpoint_files import CONFIG_FILE
    from attncli.models.hub import HUB_ID, directory

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
