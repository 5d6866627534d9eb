"""List the models with a short name, or show one model: its configuration, files and hash. Nothing is fetched."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from attncli.base.errors import RequestError
from attncli.features import completion
from attncli.features.feature import Feature
from attncli.features.options import argument
from attncli.report import Column, NextCommand, Part, Report, Table, TextLine

if TYPE_CHECKING:
    from attncli.models.aliases import Alias
    from attncli.models.checkpoint_files import Place

LISTED = ("key_value_heads", "family", "positions", "max_tokens", "window", "global_layers")  # beside the shape


@dataclass(eq=False)
class Models(Feature):
    """List the models with a short name, or show one.

    The list says which of them are here, on this machine; naming another model fetches it. A model without a short name
    is named by its Hub repository (owner/name), its directory, or its .gguf file. ATTNCLI_MODEL sets another default,
    and ATTNCLI_CACHE the folder for what can be computed again. `show NAME` prints the configuration, files and hash
    of a model that is here, and what runs it.

    \b
    Examples:
      attncli models
      attncli models --json
      attncli models show minilm
    """

    group = "The program itself"
    saves = ()

    action: Annotated[Literal["show"] | None, argument("show", "show NAME: one model in place of the list.")] = None
    name: Annotated[
        str | None,
        argument("NAME", "An alias, a repository, a directory or a .gguf file.", completion.model),
    ] = None

    def report(self) -> Report:
        if self.action is None:
            return _list_report()
        if self.name is None:
            raise RequestError("no model is named: attncli models show NAME, as in attncli models show minilm")
        from attncli.models.hub import locate

        return _model_report(place_entry(locate(self.name, download=False)), self.name)


# --- what is known --------------------------------------------------------------------------------------


def alias_entry(name: str, alias: "Alias") -> dict[str, Any]:
    """Return the facts of an alias; `origin`, `path` and `bytes` are null where it is not on this machine."""
    from attncli.models.aliases import DEFAULT_MODEL
    from attncli.models.config import describe_config
    from attncli.models.hub import NotOnThisMachine, find_place

    facts = describe_config(alias.config)
    try:
        place = find_place(name, download=False)
    except NotOnThisMachine:
        place = None
    return {
        "name": name,
        "repo": alias.repo,
        "default": name == DEFAULT_MODEL,
        "model_type": facts["model_type"],
        "layers": facts["layers"],
        "heads": facts["heads"],
        "hidden_size": facts["hidden_size"],
        **{name: facts[name] for name in LISTED if name in facts},
        "on_this_machine": place is not None,
        "origin": place.origin if place else None,
        "path": str(place.path) if place else None,
        "bytes": _total_bytes(place.weights) if place else None,
    }


def place_entry(place: "Place") -> dict[str, Any]:
    """Return the facts of a model that are known without running it.

    Raises RequestError when its files are not those of a model, or the default model's are not the published ones.
    """
    from attncli.models.aliases import find_alias
    from attncli.models.config import describe
    from attncli.models.gguf.conversion import types
    from attncli.models.hashes import check_sha256
    from attncli.models.loading import check_runs

    engine, why, config = describe(place.path)
    files = place.weights
    sha256 = check_sha256(place)
    if engine == "attncli":
        try:
            check_runs(place)
        except RequestError as error:
            engine, why = None, str(error)
    known = find_alias(place.name)
    sizes = {name: config.get(name) for name in ("layers", "heads", "hidden_size")}
    return {
        "model": {
            "name": place.name,
            "path": str(place.path),
            "sha256": sha256,
            **{name: size if type(size) is int else None for name, size in sizes.items()},
        },
        "name": place.name,
        "repo": known[1].repo if known else None,
        "origin": place.origin,
        "path": str(place.path),
        **({} if place.gguf is None else {"gguf": {"path": str(place.gguf), "types": types(place.path)}}),
        "files": [{"name": file.name, "bytes": file.stat().st_size} for file in files],
        "bytes": _total_bytes(files),
        "sha256": sha256,
        "published": place.sha256 is not None,
        "engine": engine,
        "why": why,
        "config": config,
    }


def _total_bytes(files: Sequence[Path]) -> int:
    return sum(file.stat().st_size for file in files)


# --- the list -------------------------------------------------------------------------------------------


def _list_report() -> Report:
    """List the models that are here, with their places, and all models by family."""
    from attncli.models.aliases import ALIASES

    entries = [alias_entry(name, alias) for name, alias in ALIASES.items()]
    here = [entry for entry in entries if entry["on_this_machine"]]
    parts: list[Part] = []
    if here:
        columns = [Column("here"), Column("layers x heads", leaves=1), Column("weights", leaves=2), Column("from")]
        rows = [(_title(one), _size(one), _megabytes(one["bytes"]), one["origin"]) for one in here]
        parts += [Table(columns, rows), *(TextLine(f"{one['name']}: {one['path']}") for one in here)]
    parts += [TextLine(""), TextLine("families, and their models by layers x heads")]
    families: dict[str, dict[str, list[str]]] = {}  # by what models have in common, and then by their size
    for entry in entries:
        facts = [entry["family"], f"positions {entry['positions']}"]
        if "window" in entry:
            facts.append(f"windows of {entry['window']} to each side")
        facts.append(f"at most {entry['max_tokens']} tokens")
        families.setdefault(" · ".join(facts), {}).setdefault(_size(entry), []).append(_title(entry))
    for family, sizes in families.items():
        parts += [TextLine(""), TextLine(family, "strong")]
        parts += [TextLine(f"  {size:<7}  {', '.join(names)}") for size, names in sizes.items()]
    example = NextCommand("models", {"action": "show", "name": here[0]["name"]} if here else {})
    return Report([], parts, lambda: {"models": entries}, next=example if here else None)


def _size(entry: Mapping[str, Any]) -> str:
    return f"{entry['layers']} x {entry['heads']}"


def _title(entry: Mapping[str, Any]) -> str:
    return str(entry["name"]) + (" (default)" if entry["default"] else "")


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"


# --- one model ------------------------------------------------------------------------------------------


def _model_report(entry: dict[str, Any], name: str) -> Report:
    """Report one fact per line."""
    why = f": {entry['why']}" if entry["why"] else ""
    gguf = entry.get("gguf", {})
    facts = {
        "model": entry["name"],
        "repository": entry["repo"],
        "on this machine": f"{entry['origin']}: {gguf.get('path', entry['path'])}",
        "quantization": ", ".join(gguf["types"]) if gguf else None,
        "converted to": entry["path"] if gguf else None,
        "weights": ", ".join(f"{file['name']} ({_megabytes(file['bytes'])})" for file in entry["files"]),
        "SHA-256": entry["sha256"] + (" (as published)" if entry["published"] else ""),
        "run by": (entry["engine"] or "nobody") + why,
        **config_facts(entry["config"]),
    }
    known = {key: value for key, value in facts.items() if value is not None}
    width = max(map(len, known))
    lines = [TextLine(f"{key:<{width}}  {value}") for key, value in known.items()]
    return Report([], lines, lambda: entry, next=NextCommand("run", {"model": name}))


def config_facts(config: Mapping[str, Any], part: str = "") -> dict[str, Any]:
    """Return the facts of a configuration by readable names; those of a part begin with the part's name."""
    facts: dict[str, Any] = {}
    left = dict(config)
    for layers, heads in (("layers", "heads"), ("decoder_layers", "decoder_heads")):
        if layers in config and "heads" in config:  # a decoder that names no heads has as many as the encoder
            facts[f"{part}{layers.replace('_', ' ')} x heads"] = (
                f"{left.pop(layers)} x {config.get(heads, config['heads'])}"
            )
            left.pop(heads, None)
    heads_count, keys = config.get("heads"), config.get("key_value_heads")
    if isinstance(heads_count, int) and isinstance(keys, int) and 0 < keys < heads_count and heads_count % keys == 0:
        left["key_value_heads"] = f"{keys}: heads 0-{heads_count // keys - 1} share the first"
    causal = left.pop("causal", None)
    if causal is not None and "window" in left:
        left["window"] = f"{left['window']} tokens before" + ("" if causal else f", {left['window']} after")
    for name, value in left.items():
        if isinstance(value, dict):
            facts.update(config_facts(value, f"{part}{name} "))
        else:
            facts[part + name.replace("_", " ")] = ", ".join(map(str, value)) if isinstance(value, list) else value
    return facts


# The fields of its document (`attncli.features.document`).
FIELDS = """
### models

models | [object] | | those with a short name
models.name | str
models.repo | str | | on the Hub
models.default | bool
models.model_type | str | | as in its config.json
models.layers | int
models.heads | int | | per layer
models.hidden_size | int
models.key_value_heads | int? | | this and the next five as in `network`
models.family | str
models.positions | str
models.max_tokens | int
models.window | int? | tokens
models.global_layers | [int]? | `[layer]`
models.on_this_machine | bool | | if false, the next three are null
models.origin | str or null | | where it was found, in words
models.path | str or null
models.bytes | int or null | bytes | of its weights

### models show

model | model
name | str | | as in `model`
repo | str or null | | on the Hub, for a model with a short name
origin | str | | where it was found, in words
path | str | | as in `model`
gguf | object? | | for a model from a .gguf file, of which `path` is the conversion
gguf.path | str | | of that file, whose size and hash follow
gguf.types | [str] | `[type]` | of its tensors, such as Q4_1; the one with the most bytes first
files | [object] | | its weight files
files.name | str
files.bytes | int | bytes
bytes | int | bytes | of all files
sha256 | str | | as in `model`
published | bool | | true if these were checked to be the published weights
engine | str or null | | the program that runs it: attncli or transformers; null: neither
why | str or null | | why not attncli, or why no program
config | network

### network

The architecture of a network (`models show`): attncli's reading of config.json, or for other families its entries
under these names, with a number that is not whole as a string.

model_type | str? | | as in config.json
architectures | str? | | for other families
family | str? | | attncli's name of the family
causal | bool? | | no token attends to later ones; for attncli's families, like `family`
layers | int or str?
heads | int or str? | | per layer
decoder_layers | int or str? | | for an encoder-decoder
decoder_heads | int or str? | | per decoder layer
key_value_heads | int or str? | | per layer, if queries share keys
hidden_size | int or str?
intermediate_size | int or str? | | of the feed-forward network
embedding_size | int?
vocab_size | int or str?
position_rows | int? | | rows of the position table
segments | int? | | 0 if it has none
activation | str?
layer_norm_eps | float?
pad_id | int?
head_dim | int?
max_tokens | int or str? | | per text
positions | str? | | kind of positions
rotary_bases | [float]? | `[base]` | bases of its layers, ascending; for rotary positions
rotary_stretch | float? | | divisor of the positions before rotation, if not 1
window | int or str? | tokens | visible to each side (decoders: before) in layers with a window; or as in config.json
global_layers | [int]? | `[layer]` | layers without the window
encoder | network? | | a nested configuration, like all below
decoder | network?
text | network?
vision | network?
audio | network?
"""
