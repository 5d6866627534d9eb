"""attncli models: which models there are, and which of them are on this machine. Nothing is fetched."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attncli.cli import hints, options, output
from attncli.cli.help import Command, Commands
from attncli.features import completion

if TYPE_CHECKING:
    from attncli.models.aliases import Alias
    from attncli.models.hub import Place

LISTED = ("key_value_heads", "family", "positions", "max_tokens", "window", "global_layers")  # beside the shape

models = typer.Typer(name="models", cls=Commands, rich_markup_mode=None)


@models.callback(invoke_without_command=True)
def list_models(
    context: typer.Context,
    json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """List the models with a short name, and which of them are here.

    Here is on this machine; naming another one fetches it. A model without a short name is named by its Hub repository
    (owner/name), its directory, or its address (s3://bucket/folder).
    ATTNCLI_MODEL sets another default.

    \b
    Examples:
      attncli models
      attncli models --json
      attncli models show minilm
    """
    if context.invoked_subcommand is not None:
        return
    from attncli.models.aliases import ALIASES

    entries = [alias_entry(name, alias) for name, alias in ALIASES.items()]
    if json:
        output.json_document({"models": entries})
    else:
        print_list(entries)
        here = [entry["name"] for entry in entries if entry["on_this_machine"]]
        output.hint(*(f"all about one of them: attncli models show {name}" for name in here))


@models.command(cls=Command)
def show(
    context: typer.Context,
    name: Annotated[
        str,
        options.argument("NAME", "An alias, a Hub repository id, a directory or an address.", completion.model),
    ],
    json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Show a model's configuration, files and hash, and who runs it. It must be on this machine.

    \b
    Examples:
      attncli models show minilm
      attncli models show minilm --json
    """
    from attncli.models.hub import locate

    assert context.parent is not None
    entry = place_entry(locate(name, download=False))
    if json or context.parent.params["json"]:  # attncli models --json show minilm
        output.json_document(entry)
    else:
        print_entry(entry)
        hints.offer(context, "what its heads do", "run", model=name)


def alias_entry(name: str, alias: "Alias") -> dict[str, Any]:
    """What is known of an alias; `origin`, `path` and `bytes` are null where it is not on this machine."""
    from attncli.models.aliases import DEFAULT_MODEL
    from attncli.models.config import said_of
    from attncli.models.hub import NotOnThisMachine, locate, weight_files

    said = said_of(alias.config)
    try:
        place = locate(name, download=False)
    except NotOnThisMachine:
        place = None
    return {
        "name": name,
        "repo": alias.repo,
        "default": name == DEFAULT_MODEL,
        "model_type": said["model_type"],
        "layers": said["layers"],
        "heads": said["heads"],
        "hidden_size": said["hidden_size"],
        **{name: said[name] for name in LISTED if name in said},
        "on_this_machine": place is not None,
        "origin": place.origin if place else None,
        "path": str(place.path) if place else None,
        "bytes": total_bytes(weight_files(place.path)) if place else None,
    }


def place_entry(place: "Place") -> dict[str, Any]:
    """Everything that can be said of a model without running it.

    Raises RequestError when its files are no model's, or the default model's are not the published ones.
    """
    from attncli.models.aliases import find_alias
    from attncli.models.config import describe
    from attncli.models.hub import check_sha256, weight_files, weights_sha256

    described = describe(place.path)
    files = weight_files(place.path)
    sha256 = weights_sha256(files)
    check_sha256(place, sha256)
    known = find_alias(place.name)
    return {
        "model": {
            "name": place.name,
            "path": str(place.path),
            "sha256": sha256,
            **{name: whole_number(described.config.get(name)) for name in ("layers", "heads", "hidden_size")},
        },
        "name": place.name,
        "repo": known[1].repo if known else None,
        "origin": place.origin,
        "path": str(place.path),
        "files": [{"name": file.name, "bytes": file.stat().st_size} for file in files],
        "bytes": total_bytes(files),
        "sha256": sha256,
        "published": place.sha256 is not None,
        "engine": described.engine,
        "why": described.why,
        "config": described.config,
    }


def whole_number(value: object) -> int | None:
    """A number as a configuration has it; None where it has none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def total_bytes(files: list[Path]) -> int:
    return sum(file.stat().st_size for file in files)


def megabytes(count: int | None) -> str:
    return "" if count is None else f"{count / 1e6:.1f} MB"


def print_list(entries: list[dict[str, Any]]) -> None:
    """A line for each that is here, and its place, which may be long, below; then all of them by what they are."""
    from rich.text import Text

    from attncli.base.printable import printable
    from attncli.report.terminal import Prose, plain_table

    table = plain_table("here", "layers x heads", "weights", "from", goes=["layers x heads", "weights"])
    here = [entry for entry in entries if entry["on_this_machine"]]
    for entry in here:
        cells = title(entry), f"{entry['layers']} x {entry['heads']}", megabytes(entry["bytes"]), entry["origin"]
        table.add_row(*(Text(cell) for cell in cells))
    places = [Text(printable(f"{entry['name']}: {entry['path']}")) for entry in here]
    output.show(*([table, *places] if here else ()), Text("\nfamilies, and their models by layers x heads"))
    for common, sizes in by_family(entries).items():
        lines = (Prose(f"  {size:<7}  {', '.join(names)}") for size, names in sizes.items())
        output.show(Text(), Prose(common, "bold"), *lines)


def by_family(entries: list[dict[str, Any]]) -> dict[str, dict[str, list[str]]]:
    """What models have in common -> by their layers and heads, their names."""
    parts: dict[str, dict[str, list[str]]] = {}
    for entry in entries:
        size = f"{entry['layers']} x {entry['heads']}"
        parts.setdefault(in_common(entry), {}).setdefault(size, []).append(title(entry))
    return parts


def in_common(entry: dict[str, Any]) -> str:
    """A model's family, how it is told of positions, its windows and its limit."""
    facts = [entry["family"], f"positions {entry['positions'] or 'none'}"]
    if "window" in entry:
        facts.append(f"windows of {entry['window']}")
    return " · ".join([*facts, f"at most {entry['max_tokens']} tokens"])


def title(entry: dict[str, Any]) -> str:
    return str(entry["name"]) + (" (default)" if entry["default"] else "")


def print_entry(entry: dict[str, Any]) -> None:
    """One fact a line."""
    from rich.text import Text

    from attncli.base.printable import printable
    from attncli.report.terminal import Prose

    why = f": {entry['why']}" if entry["why"] else ""
    facts = {
        "model": entry["name"],
        "repository": entry["repo"],
        "on this machine": f"{entry['origin']}: {entry['path']}",
        "weights": ", ".join(f"{file['name']} ({megabytes(file['bytes'])})" for file in entry["files"]),
        "SHA-256": entry["sha256"] + (" (as published)" if entry["published"] else ""),
        "run by": (entry["engine"] or "nobody") + why,
        **config_facts(entry["config"]),
    }
    facts = {name: value for name, value in facts.items() if value is not None}
    width = max(map(len, facts))
    for name, value in facts.items():
        line = printable(f"{name:<{width}}  {value}")
        output.show(Prose(line) if output.console().is_terminal else Text(line))  # in a pipe as it is


def sharing(config: dict[str, Any]) -> str | None:
    """How many heads keys and values have, and which share the first ones; None where none do, or it doesn't add up."""
    heads, keys = config.get("heads"), config.get("key_value_heads")
    if not (isinstance(heads, int) and isinstance(keys, int)) or not 0 < keys < heads or heads % keys:
        return None
    return f"{keys}: heads 0-{heads // keys - 1} share the first"


def config_facts(config: dict[str, Any], of: str = "") -> dict[str, Any]:
    """A configuration's facts by the names that they have for people; those of its parts say whose they are."""
    facts: dict[str, Any] = {}
    left = dict(config)
    for layers, heads in (("layers", "heads"), ("decoder_layers", "decoder_heads")):
        if layers in config and "heads" in config:  # a decoder that says no more has as many heads as the encoder
            facts[f"{of}{layers.replace('_', ' ')} x heads"] = (
                f"{left.pop(layers)} x {config.get(heads, config['heads'])}"
            )
            left.pop(heads, None)
    if (shared := sharing(config)) is not None:
        left["key_value_heads"] = shared
    for name, value in left.items():
        if isinstance(value, dict):
            facts.update(config_facts(value, f"{of}{name} "))
        else:
            facts[of + name.replace("_", " ")] = ", ".join(map(str, value)) if isinstance(value, list) else value
    return facts
