"""attncli check of a model: which laws of attention does it keep, on each of its backends?"""

import ast
import importlib.util
from pathlib import Path

import typer

from attncli.base.errors import RequestError
from attncli.base.printable import printable, quoted
from attncli.cli import output
from attncli.cli.given import refuse
from attncli.cli.progress import progress

WRONG = 1
ABOUT_FUNCTIONS = ("means", "layout", "map", "give", "nowhere", "text", "layer", "head", "seconds", "gigabytes")


def names_model(name: str) -> bool:
    """Say whether a name is that of a model that is made of a configuration. None of its code is run."""
    module, _, member = name.partition(":")
    if module.split(".")[0] == "transformers":
        return True
    if module.endswith(".py") or not member:
        return False
    try:
        spec = importlib.util.find_spec(module)
        source = Path(spec.origin or "").read_text(encoding="utf-8") if spec is not None else ""
        tree = ast.parse(source)
    except (ImportError, ValueError, OSError, SyntaxError):
        return False
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == member]
    return any(ast.unparse(base).endswith("PreTrainedModel") for one in classes for base in one.bases) or any(
        "config_class" in ast.unparse(line).split(" = ")[0] for one in classes for line in one.body
    )


def check_model(context: typer.Context, name: str | None, model: str | None, json: bool) -> None:
    """Check the model of a name, or that of -m. Exit with 1 if it breaks a law."""
    if name is None and model is None:
        raise RequestError("say what to check: FILE.py:NAME, transformers:llama, or -m DIR")
    refuse(context, "on a model, which is checked by its behaviour", *ABOUT_FUNCTIONS)
    if name is not None:
        refuse(context, "on a model that is made of its configuration", "model")
    from attncli.checks.behaviour.laws import examine
    from attncli.checks.behaviour.opening import open_checkpoint, open_named

    with progress(None, "laws") as advance:
        opened = open_named(name) if name is not None else open_checkpoint(model or "")
        result = examine(opened.name, opened.kind, opened.make, advance=lambda _: advance())
    if all(one.holds is None for one in result.outcomes):
        raise RequestError(f"nothing of {quoted(opened.name)} could be checked: {result.outcomes[0].note}")
    if json:
        output.json_document(result.document())
    else:
        from rich.text import Text

        from attncli.render.terminal.behaviour import laws_lines, laws_table

        canvas = output.canvas()
        title = Text(printable(f"{result.name} as {result.kind}"), style=canvas.strong)
        output.show(title, laws_table(result.document()), *laws_lines(result.document(), canvas))
    if not result.right:
        raise typer.Exit(WRONG)
