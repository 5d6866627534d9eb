"""Tell a model, which is made of a configuration, from somebody's attention, by its name alone. Imports no torch."""

import ast
import importlib.util
from pathlib import Path


def names_model(what: str) -> bool:
    """Say whether WHAT names a model that is made of a configuration. No code of it is run."""
    module, _, name = what.partition(":")
    if module.split(".")[0] == "transformers":
        return True
    if module.endswith(".py") or not name:
        return False
    try:
        spec = importlib.util.find_spec(module)
        source = Path(spec.origin or "").read_text(encoding="utf-8") if spec is not None else ""
        tree = ast.parse(source)
    except (ImportError, ValueError, OSError, SyntaxError):
        return False
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    return any(ast.unparse(base).endswith("PreTrainedModel") for found in classes for base in found.bases) or any(
        "config_class" in ast.unparse(line).split(" = ")[0] for found in classes for line in found.body
    )
