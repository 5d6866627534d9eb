"""attncli check of a model: which laws of attention does it keep, on each of its backends?"""

from typing import TYPE_CHECKING

import typer

from attncli.base.errors import RequestError
from attncli.base.printable import quoted
from attncli.cli import output
from attncli.cli.given import refuse
from attncli.cli.progress import progress

if TYPE_CHECKING:
    from attncli.checks.behaviour.report import Behaviour

WRONG = 1
ABOUT_FUNCTIONS = ("means", "layout", "map", "give", "nowhere", "text", "layer", "head", "seconds", "gigabytes")


def check_model(context: typer.Context, what: str | None, model: str | None, json: bool) -> None:
    """Check a model by WHAT, or the one of -m; exit with 1 where a law is broken."""
    if what is None and model is None:
        raise RequestError("say what to check: FILE.py:NAME, transformers:llama, or -m DIR")
    refuse(context, "on a model, whose laws are checked by what it does", *ABOUT_FUNCTIONS)
    if what is not None:
        refuse(context, "on a model that is made of its configuration", "model")
    from attncli.checks.behaviour.examine import examine
    from attncli.checks.behaviour.opening import open_checkpoint, open_named

    with progress(None, "laws") as advance:
        opened = open_checkpoint(model) if what is None and model is not None else open_named(what or "")
        found = examine(opened.name, opened.kind, opened.make, advance=lambda _: advance())
    if all(one.holds is None for one in found.outcomes):
        raise RequestError(f"nothing of {quoted(opened.name)} could be checked: {found.outcomes[0].note}")
    show(found, json)
    if not found.right:
        raise typer.Exit(WRONG)


def show(found: "Behaviour", json: bool) -> None:
    """Print what came out."""
    document = found.document()
    if json:
        output.json_document(document)
        return
    from rich.text import Text

    from attncli.base.printable import printable
    from attncli.render.terminal.behaviour import laws_lines, laws_table

    canvas = output.canvas()
    title = Text(printable(f"{found.name} as {found.kind}"), style=canvas.strong)
    output.show(title, laws_table(document), *laws_lines(document, canvas))
