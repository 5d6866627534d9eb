"""attncli models: which models there are, and which of them are on this machine. Nothing is fetched."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attncli.cli import options, output

if TYPE_CHECKING:
    from attncli.models.hub import Alias, Place

models = typer.Typer(name="models", rich_markup_mode=None)


@models.callback(invoke_without_command=True)
def list_models(
    context: typer.Context,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """List the models that have a short name, and which of them are on this machine.

    Any other model of the BERT family is named by its Hub repository (owner/name) or its directory.

    \b
    Examples:
      attncli models
      attncli models --json
      attncli models show minilm
    """
    if context.invoked_subcommand is not None:
        return
    from attncli.models.hub import ALIASES

    entries = [alias_entry(name, alias) for name, alias in ALIASES.items()]
    if json:
        output.json_document({"models": entries})
    else:
        print_list(entries)


@models.command()
def show(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="An alias, a Hub repository id, or a directory.",
            autocompletion=options.complete_model,
        ),
    ],
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Show a model's configuration, files and hash. It must be on this machine.

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


def alias_entry(name: str, alias: "Alias") -> dict[str, Any]:
    """What is known of an alias; `origin`, `path` and `bytes` are null where it is not on this machine."""
    from attncli.models.checkpoint_files import weight_files
    from attncli.models.config import ModelConfig
    from attncli.models.hub import DEFAULT_MODEL, NotOnThisMachine, locate

    config = ModelConfig.from_dict(alias.config)
    try:
        place = locate(name, download=False)
    except NotOnThisMachine:
        place = None
    return {
        "name": name,
        "repo": alias.repo,
        "default": name == DEFAULT_MODEL,
        "layers": config.layers,
        "heads": config.heads,
        "hidden_size": config.hidden_size,
        "on_this_machine": place is not None,
        "origin": place.origin if place else None,
        "path": str(place.path) if place else None,
        "bytes": total_bytes(weight_files(place.path)) if place else None,
    }


def place_entry(place: "Place") -> dict[str, Any]:
    """Everything that can be said of a model without running it.

    Raises RequestError when its files are no model of the BERT family, or the default model's are not the
    published ones.
    """
    from attncli.models.checkpoint_files import CONFIG_FILE, weight_files
    from attncli.models.config import ModelConfig
    from attncli.models.hub import check_sha256, find_alias, weights_sha256

    config = ModelConfig.from_file(place.path / CONFIG_FILE)
    files = weight_files(place.path)
    sha256 = weights_sha256(files)
    check_sha256(place, sha256)
    known = find_alias(place.name)
    return {
        "name": place.name,
        "repo": known[1].repo if known else None,
        "origin": place.origin,
        "path": str(place.path),
        "files": [{"name": file.name, "bytes": file.stat().st_size} for file in files],
        "bytes": total_bytes(files),
        "sha256": sha256,
        "published": place.sha256 is not None,
        "config": config.document(),
    }


def total_bytes(files: list[Path]) -> int:
    return sum(file.stat().st_size for file in files)


def megabytes(count: int | None) -> str:
    return "" if count is None else f"{count / 1e6:.1f} MB"


def print_list(entries: list[dict[str, Any]]) -> None:
    """A line a model; the places, which may be long, stand below."""
    from rich.text import Text

    from attncli.base.printable import printable
    from attncli.render.terminal.tables import plain_table

    table = plain_table("model", "layers x heads", "weights", "here", goes=["layers x heads", "weights"])
    for entry in entries:
        cells = (
            entry["name"] + (" (default)" if entry["default"] else ""),
            f"{entry['layers']} x {entry['heads']}",
            megabytes(entry["bytes"]),
            entry["origin"] or "no",
        )
        table.add_row(*(Text(cell) for cell in cells), style=None if entry["on_this_machine"] else "dim")
    places = [Text(printable(f"{entry['name']}: {entry['path']}")) for entry in entries if entry["on_this_machine"]]
    output.show(table, *places)


def print_entry(entry: dict[str, Any]) -> None:
    """One fact a line."""
    from rich.text import Text

    from attncli.base.printable import printable
    from attncli.render.terminal.tables import Prose

    facts = {
        "model": entry["name"],
        "repository": entry["repo"],
        "on this machine": f"{entry['origin']}: {entry['path']}",
        "weights": ", ".join(f"{file['name']} ({megabytes(file['bytes'])})" for file in entry["files"]),
        "SHA-256": entry["sha256"] + (" (as published)" if entry["published"] else ""),
        "layers x heads": f"{entry['config']['layers']} x {entry['config']['heads']}",
        **{name.replace("_", " "): value for name, value in entry["config"].items() if name not in ("layers", "heads")},
    }
    facts = {name: value for name, value in facts.items() if value is not None}
    width = max(map(len, facts))
    for name, value in facts.items():
        line = printable(f"{name:<{width}}  {value}")
        output.show(Prose(line) if output.console().is_terminal else Text(line))  # in a pipe as it is
