"""List the models with a short name, or show one model: its configuration, files and hash. Nothing is downloaded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, cast

from attncli.base.errors import RequestError
from attncli.base.printable import printable
from attncli.base.typed import NotRequired
from attncli.features import completion
from attncli.features.measure import measure
from attncli.features.options import argument
from attncli.record.parts import ModelDocument
from attncli.report import Column, NextCommand, Part, Report, Result, Table, TextLine

if TYPE_CHECKING:
    from attncli.models.aliases import Alias
    from attncli.models.checkpoint_files import Place

LISTED = ("key_value_heads", "family", "positions", "max_tokens", "window", "global_layers")  # besides the shape


@measure(saves=())
def models(
    action: Annotated[
        Literal["show"] | None, argument("show", "show NAME describes one model instead of listing all.")
    ] = None,
    name: Annotated[
        str | None, argument("NAME", "A short name, a repository, a directory or a .gguf file.", completion.model)
    ] = None,
) -> "ModelList | ShownModel":
    """List the models with a short name, or show one.

    The list says which of them are on this machine; other models are downloaded on first use. A model without a short
    name is named by its Hub repository (owner/name), its directory, or its .gguf file. ATTNCLI_MODEL sets another
    default, and ATTNCLI_CACHE the folder for what can be computed again. `show NAME` prints the configuration, files
    and hash of a model on this machine, and the engine that runs it.

    \b
    Examples:
      attncli models
      attncli models --json
      attncli models show minilm
    """
    if action is None:
        from attncli.models.aliases import ALIASES

        return ModelList([_listed(name, alias) for name, alias in ALIASES.items()])
    if name is None:
        raise RequestError("no model is named: give one, as in attncli models show minilm")
    from attncli.models.hub import locate

    return ShownModel(_shown(locate(name, download=False)), name)


def _listed(name: str, alias: "Alias") -> "_ListedModel":
    """Return the facts of an alias; `origin`, `path` and `bytes` are null if it is not on this machine."""
    from attncli.models.aliases import DEFAULT_MODEL
    from attncli.models.config import describe_config
    from attncli.models.hub import NotOnThisMachine, find_place

    facts = describe_config(alias.config)
    try:
        place = find_place(name, download=False)
    except NotOnThisMachine:
        place = None
    entry = {
        "name": name,
        "repo": alias.repo,
        "default": name == DEFAULT_MODEL,
        **{name: facts[name] for name in ("model_type", "layers", "heads", "hidden_size")},
        **{name: facts[name] for name in LISTED if name in facts},
        "on_this_machine": place is not None,
        "origin": place.origin if place else None,
        "path": str(place.path) if place else None,
        "bytes": _total_bytes(place.weights) if place else None,
    }
    return cast("_ListedModel", entry)


def _shown(place: "Place") -> "ModelsShowDocument":
    """Return the facts of a model that are known without running it.

    Raises RequestError if its files are not those of a model, or the default model's are not the published ones.
    """
    from attncli.models.aliases import find_alias
    from attncli.models.config import describe
    from attncli.models.gguf.conversion import types
    from attncli.models.hashes import check_sha256
    from attncli.models.loading import check_runs

    engine, why, config = describe(place.path)
    files, path = place.weights, str(place.path)
    sha256 = check_sha256(place)
    if engine == "attncli":
        try:
            check_runs(place)
        except RequestError as error:
            engine, why = None, str(error)
    known = find_alias(place.name)
    layers, heads, hidden_size = (
        size if type(size := config.get(name)) is int else None for name in ("layers", "heads", "hidden_size")
    )
    document: ModelsShowDocument = {
        "model": {
            "name": place.name,
            "path": path,
            "sha256": sha256,
            "layers": layers,
            "heads": heads,
            "hidden_size": hidden_size,
        },
        "name": place.name,
        "repo": known[1].repo if known else None,
        "origin": place.origin,
        "path": path,
        "files": [{"name": file.name, "bytes": file.stat().st_size} for file in files],
        "bytes": _total_bytes(files),
        "sha256": sha256,
        "published": place.sha256 is not None,
        "engine": engine,
        "why": why,
        "config": cast("NetworkDocument", config),
    }
    if place.gguf is not None:
        document["gguf"] = {"path": str(place.gguf), "types": types(place.path)}
    return document


def _total_bytes(files: Sequence[Path]) -> int:
    return sum(file.stat().st_size for file in files)


# --- the list -------------------------------------------------------------------------------------------


class _ListedModel(TypedDict):
    """The models with a short name."""

    name: str
    repo: Annotated[str, "on the Hub"]
    default: bool
    model_type: Annotated[str, "as in its config.json"]
    layers: int
    heads: Annotated[int, "per layer"]
    hidden_size: int
    key_value_heads: NotRequired[Annotated[int, "this and the next five as in `network`"]]
    family: str
    positions: str
    max_tokens: int
    window: NotRequired[Annotated[int, "", "tokens"]]
    global_layers: NotRequired[Annotated[list[int], "", "`[layer]`"]]
    on_this_machine: Annotated[bool, "if false, the next three are null"]
    origin: Annotated[str | None, "where it was found, in words"]
    path: str | None
    bytes: Annotated[int | None, "of its weights", "bytes"]


class ModelsDocument(TypedDict):
    models: list[_ListedModel]


@dataclass(frozen=True, repr=False)
class ModelList(Result):
    """The models with a short name."""

    models: list[_ListedModel]

    def __repr__(self) -> str:
        """<ModelList: 2 of 70 models are on this machine>"""
        here = sum(one["on_this_machine"] for one in self.models)
        return f"<ModelList: {here} of {len(self.models)} models are on this machine>"

    def document(self) -> ModelsDocument:
        """Return what --json prints."""
        return {"models": self.models}

    def report(self) -> Report:
        """Show the models that are here, with their places, and all models by family."""
        here = [one for one in self.models if one["on_this_machine"]]
        parts: list[Part] = []
        if here:
            columns = [Column("here"), Column("layers x heads", drop=1), Column("weights", drop=2), Column("from")]
            rows = [[_title(one), _size(one), _megabytes(one["bytes"] or 0), one["origin"] or ""] for one in here]
            parts += [Table(columns, rows), *(TextLine(f"{one['name']}: {one['path']}") for one in here)]
        parts += [TextLine(""), TextLine("families, and their models by layers x heads")]
        families: dict[str, dict[str, list[str]]] = {}  # by the facts that models share, then by their size
        for one in self.models:
            facts = [one["family"], f"positions: {one['positions']}"]
            if "window" in one:
                facts.append(f"windows of {one['window']} to each side")
            facts.append(f"at most {one['max_tokens']} tokens")
            families.setdefault(" · ".join(facts), {}).setdefault(_size(one), []).append(_title(one))
        for family, sizes in families.items():
            parts += [TextLine(""), TextLine(family, "strong")]
            parts += [TextLine(f"  {size:<7}  {', '.join(names)}") for size, names in sizes.items()]
        example = NextCommand("models", {"action": "show", "name": here[0]["name"]}) if here else None
        return Report([], parts, self.document, next=example)


def _size(model: _ListedModel) -> str:
    return f"{model['layers']} x {model['heads']}"


def _title(model: _ListedModel) -> str:
    return model["name"] + (" (default)" if model["default"] else "")


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"


# --- one model ------------------------------------------------------------------------------------------


class NetworkDocument(TypedDict, total=False):
    """The architecture of a network (`models show`): attncli's reading of config.json. For a family that attncli
    can't run itself, the entries of config.json with these names; numbers that are no integers are strings.
    """

    model_type: Annotated[str, "as in config.json"]
    architectures: Annotated[str, "only for families that attncli can't run itself"]
    family: Annotated[str, "attncli's name of the family"]
    causal: Annotated[
        bool, "true if no token attends to later ones; this and `family` only for families that attncli runs itself"
    ]
    layers: int | str
    heads: Annotated[int | str, "per layer"]
    decoder_layers: Annotated[int | str, "for an encoder-decoder"]
    decoder_heads: Annotated[int | str, "per decoder layer"]
    key_value_heads: Annotated[int | str, "per layer, if queries share keys"]
    hidden_size: int | str
    intermediate_size: Annotated[int | str, "of the feed-forward network"]
    embedding_size: int
    vocab_size: int | str
    position_rows: Annotated[int, "rows of the position table"]
    segments: Annotated[int, "0 if it has none"]
    activation: str
    layer_norm_eps: float
    pad_id: int
    head_dim: int
    max_tokens: Annotated[int | str, "per text"]
    positions: Annotated[str, "kind of positions"]
    rotary_bases: Annotated[list[float], "bases of its layers, ascending; for rotary positions", "`[base]`"]
    rotary_stretch: Annotated[float, "divisor of the positions before rotation, if not 1"]
    window: Annotated[
        int | str,
        "visible to each side (decoders: before) in layers with a window; or as in config.json",
        "tokens",
    ]
    global_layers: Annotated[list[int], "layers without the window", "`[layer]`"]
    encoder: Annotated["NetworkDocument", "a nested configuration, like all below"]
    decoder: "NetworkDocument"
    text: "NetworkDocument"
    vision: "NetworkDocument"
    audio: "NetworkDocument"


class _GgufEntry(TypedDict):
    """For a model from a .gguf file; `path` is its conversion."""

    path: Annotated[str, "of that file, whose size and hash follow"]
    types: Annotated[list[str], "of its tensors, such as Q4_1; the one with the most bytes first", "`[type]`"]


class _FileEntry(TypedDict):
    """Its weight files."""

    name: str
    bytes: Annotated[int, "", "bytes"]


class ModelsShowDocument(TypedDict):
    model: ModelDocument
    name: Annotated[str, "as in `model`"]
    repo: Annotated[str | None, "on the Hub, for a model with a short name"]
    origin: Annotated[str, "where it was found, in words"]
    path: Annotated[str, "as in `model`"]
    gguf: NotRequired[_GgufEntry]
    files: list[_FileEntry]
    bytes: Annotated[int, "of all files", "bytes"]
    sha256: Annotated[str, "as in `model`"]
    published: Annotated[bool, "true if these were checked to be the published weights"]
    engine: Annotated[str | None, "the program that runs it: attncli or transformers; null: neither"]
    why: Annotated[str | None, "why not attncli, or why no program"]
    config: NetworkDocument


@dataclass(frozen=True, repr=False)
class ShownModel(Result):
    """The configuration, files and hash of a model. name: as it was named, by an alias or a path."""

    facts: ModelsShowDocument
    name: str

    def __repr__(self) -> str:
        """<ShownModel: minilm, run by attncli>"""
        return printable(f"<ShownModel: {self.name}, run by {self.facts['engine'] or 'no program'}>")

    def document(self) -> ModelsShowDocument:
        """Return what --json prints."""
        return self.facts

    def report(self) -> Report:
        """Show one fact per line."""
        found = self.facts
        why = f": {found['why']}" if found["why"] else ""
        gguf = found.get("gguf")
        facts = {
            "model": found["name"],
            "repository": found["repo"],
            "on this machine": f"{found['origin']}: {gguf['path'] if gguf else found['path']}",
            "quantization": ", ".join(gguf["types"]) if gguf else None,
            "converted to": found["path"] if gguf else None,
            "weights": ", ".join(f"{file['name']} ({_megabytes(file['bytes'])})" for file in found["files"]),
            "SHA-256": found["sha256"] + (" (as published)" if found["published"] else ""),
            "run by": (found["engine"] or "no program") + why,
            **config_facts(found["config"]),
        }
        known = {key: value for key, value in facts.items() if value is not None}
        width = max(map(len, known))
        lines = [TextLine(f"{key:<{width}}  {value}") for key, value in known.items()]
        return Report([], lines, self.document, next=NextCommand("run", {"model": self.name}))


def config_facts(config: Mapping[str, Any], part: str = "") -> dict[str, Any]:
    """Return the facts of a configuration by readable names; those of a part begin with the part's name."""
    facts: dict[str, Any] = {}
    left = dict(config)
    for layers, heads in (("layers", "heads"), ("decoder_layers", "decoder_heads")):
        if layers in config and "heads" in config:  # a decoder without a number of heads has as many as the encoder
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
