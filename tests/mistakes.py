"""Mistakes such as a careful programmer makes, and how one is planted in the package.

`mistakes.txt` lists them. A mistake is found in the syntax tree, in the definition that it names, so that formatting,
comments and moving a function to another file do not matter.
"""

import ast
import shlex
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import attncli

LIST = Path(__file__).with_suffix(".txt")


class Mistake(NamedTuple):
    """Replaces the expression or statement `old`, which stands once in a definition, by `new`.

    where: the definition's qualified name. options: for `attncli compare`; -m names a family of `checkpoints.py` or
    `foreign_checkpoints.py`.
    """

    name: str
    where: str
    old: str
    new: str
    options: dict[str, str]


def read_mistakes(*finders: str) -> list[Mistake]:
    """Return the mistakes that all of these have to find: "tests", "compare"."""
    found, wanted = [], False
    lines = iter(line for line in LIST.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#"))
    for line in lines:
        if line.startswith("== "):
            wanted = all(finder in line for finder in finders)
            continue
        name, where, *options = line.split(" | ")
        words = shlex.split("".join(options))
        old, new = (next(lines)[2:] for _ in range(2))
        if wanted:
            found.append(Mistake(name, where, old, new, dict(zip(words[::2], words[1::2], strict=True))))
    return found


def plant(mistake: Mistake, package: Path) -> tuple[Path, str]:
    """Return the file of a package that a mistake goes into, and its text with the mistake.

    Raises ValueError unless exactly one place matches.
    """
    [statement] = ast.parse(mistake.old).body
    wanted = statement.value if isinstance(statement, ast.Expr) else statement
    found = [
        (path, node)
        for path in sorted(package.rglob("*.py"))
        for definition in definitions(path, mistake.where)
        for node in ast.walk(definition)
        if type(node) is type(wanted) and ast.dump(node) == ast.dump(wanted)
    ]
    if len(found) != 1:
        raise ValueError(f"{mistake.name}: {mistake.where} has {len(found)} times, not once: {mistake.old}")
    [(path, node)] = found
    return path, replaced(path.read_text(encoding="utf-8"), node, mistake.new)


def put_in_place(patch: pytest.MonkeyPatch, mistake: Mistake) -> None:
    """Put a function with a mistake in the place of the right one in this process, wherever it is known."""
    package = Path(attncli.__file__).parent
    path, text = plant(mistake, package)
    module = sys.modules[".".join(path.relative_to(package.parent).with_suffix("").parts)]
    *outer, name = mistake.where.removeprefix(f"{path.stem}.").split(".")
    owner, body, namespace = module, ast.parse(text).body, dict[str, object]()
    for one in outer:
        owner, body = getattr(owner, one), next(node for node in body if one in names_of(node)).body
    function = next(node for node in body if name in names_of(node))
    exec(compile(ast.Module([function], []), str(path), "exec"), vars(module), namespace)
    right, wrong = vars(owner)[name], namespace[name]
    patch.setattr(owner, name, wrong)
    for other in [one for known, one in sys.modules.items() if known.startswith("attncli.") or known == "ways"]:
        if owner is module and vars(other).get(name) is right:
            patch.setattr(other, name, wrong)
        for kept in [one for one in vars(other).values() if isinstance(one, type)]:  # as a method of its networks
            if getattr(vars(kept).get(name), "__func__", None) is right:
                patch.setattr(kept, name, staticmethod(wrong))


def definitions(path: Path, where: str) -> Iterator[ast.AST]:
    """Yield the functions, classes and assignments of a file that have this name, qualified or not by the file's."""
    source, tree = parsed(path)
    names = where.removeprefix(f"{path.stem}.").split(".")
    if all(name in source for name in names):
        found = [tree]
        for name in names:
            found = [one for outer in found for one in ast.iter_child_nodes(outer) if name in names_of(one)]
        yield from found


@cache
def parsed(path: Path) -> tuple[str, ast.AST]:
    """Return the text and the syntax tree of a file, which is read once."""
    source = path.read_text(encoding="utf-8")
    return source, ast.parse(source)


def names_of(node: ast.AST) -> list[str]:
    """Return the names that a statement defines."""
    targets = [*getattr(node, "targets", []), getattr(node, "target", None)]
    inside = [one for target in targets if target is not None for one in ast.walk(target)]
    return [*(one.id for one in inside if isinstance(one, ast.Name)), getattr(node, "name", "")]


def replaced(source: str, node: ast.AST, new: str) -> str:
    """Return a source with another expression or statement in place of a node, whose columns count bytes."""
    code = source.encode()
    lines = code.splitlines(keepends=True)
    start, end = (
        sum(map(len, lines[: line - 1])) + column
        for line, column in ((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset))
    )
    inserted = f"({new})" if isinstance(node, ast.expr) else new
    return (code[:start] + inserted.encode() + code[end:]).decode()
