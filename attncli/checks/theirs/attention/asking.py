"""A subject made and filled, ready to be asked."""

import ast
import linecache
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from torch import Tensor

from attncli.attention.mistakes.steps import keep_scores
from attncli.base.errors import RequestError
from attncli.checks.code.subject import Description, Made, Subject
from attncli.checks.theirs.attention.conventions import (
    Part,
    Parts,
    additive,
    norms_part,
    positions_part,
    sinks_part,
    softcap_part,
    window_part,
)
from attncli.checks.theirs.attention.fitting import Asked
from attncli.checks.theirs.calling import drawing
from attncli.checks.theirs.calling.drawing import Shape
from attncli.checks.theirs.calling.forms import PROJECTED, Form
from attncli.checks.theirs.calling.making import Sizes, arguments, heads_of
from attncli.checks.theirs.calling.readings import PART_ROLES, Reading, readings, unread
from attncli.checks.theirs.calling.roles import KNOWN, Roles, role_of, roles_of
from attncli.checks.theirs.found import Wanted
from attncli.checks.theirs.idle import refuse_masks, refuse_names, refuse_roles

SINKS, NORMS = re.compile(r"sinks?$"), re.compile(r"\b([qk])_?(?:norm|ln)\.weight$")
DEFINED = (ast.ClassDef, ast.FunctionDef)


def make(subject: Subject, description: Description, wanted: Wanted, sizes: Sizes) -> Asked:
    """The subject made and filled with weights that are drawn, and the ways to read them."""
    refuse_roles(wanted.map, dict.fromkeys([*KNOWN, *PART_ROLES]))
    roles = roles_of(description.call, dict(wanted.map))
    given = arguments(description, sizes, wanted.give)
    made = subject.make(given)
    if not made.weights or any(0 in weight.shape or not weight.shape for weight in made.weights.values()):
        made = settled(subject, roles, made)
    refuse_names(wanted.map, [one.name for one in description.call], made.weights)
    if not roles.masks:
        refuse_masks(description.name, wanted.means, wanted.nowhere)
    weights = drawing.draw_weights(made)
    subject.fill(weights)
    ways: list[Reading] = []
    if made.weights:
        ways = readings(made, heads_of(made, given), wanted.map)
        if not ways:
            raise RequestError(
                f"the weights of {description.name} don't fit together as W_Q, W_K, W_V and W_O: "
                "--map NAME=query says which is which"
            )
    others = unread(made, wanted.map) if ways and ways[0].vector is None else []
    parts = own_parts(description, made, given, weights, others, ways)
    others = [name for name in others if not (SINKS.search(name) or NORMS.search(name))]
    return Asked(subject, roles, ways, made, weights, wanted.layout, wanted.means, parts, tuple(others))


def settled(subject: Subject, roles: Roles, made: Made) -> Made:
    """Run a module once, as it is likely to be called, so that the weights exist that its first run makes."""
    if subject.describe().kind == "function":
        return made
    for crosses in (True, False):
        inputs = drawing.draw(Shape(d_k=Sizes().d_model, d_v=Sizes().d_model), None, roles, crosses)
        form = Form(roles if crosses else roles.by_itself(), PROJECTED[0])
        one = inputs._replace(query=inputs.query[:, 0], key=inputs.key[:, 0], value=inputs.value[:, 0])
        made = subject.settle(form.call(one, "float32"))
    return made


def defined_in(description: Description) -> tuple[str, dict[str, Any]]:
    """Return the text of its file, and the classes and functions there by their names."""
    text = "".join(linecache.getlines(description.file))
    try:
        return text, {node.name: node for node in ast.parse(text).body if isinstance(node, DEFINED)}
    except SyntaxError:
        return text, {}


def bases_of(description: Description) -> list[str]:
    """Return its name and those of the classes of its file that it is made of."""
    _, nodes = defined_in(description)
    names = [description.name]
    for name in names:
        bases = getattr(nodes.get(name), "bases", ())
        names += [base.id for base in bases if isinstance(base, ast.Name) and base.id not in names]
    return names


def evidence(description: Description) -> str:
    """Return the source of what is checked, with that of the classes and functions of its file that it names."""
    text, nodes = defined_in(description)
    found: dict[str, str] = {}
    waiting = [description.name]
    while waiting:
        name = waiting.pop()
        if name in nodes and name not in found:
            found[name] = ast.get_source_segment(text, nodes[name]) or ""
            waiting += [node.id for node in ast.walk(nodes[name]) if isinstance(node, ast.Name)]
    return "\n".join(found.values()) or description.source


def own_parts(
    description: Description,
    made: Made,
    given: Mapping[str, Any],
    weights: Mapping[str, Tensor],
    others: Sequence[str],
    ways: Sequence[Reading],
) -> Parts:
    """Return what this attention has that the formula has not, as its weights, arguments and source tell."""
    parts = [*positions_part(evidence(description))]
    numbers = [*((name.rpartition(".")[2], number) for name, number in made.numbers.items()), *given.items()]
    by_role = {role_of(name): number for name, number in numbers}
    if isinstance(window := by_role.get("window"), int) and window > 1:
        parts.append(window_part(window))
    if isinstance(cap := by_role.get("softcap"), int | float) and cap:
        parts.append(softcap_part(cap))
    for name in others:
        if SINKS.search(name):
            parts.append(sinks_part(weights[name].flatten()))
    norms = {found[1]: name for name in others if (found := NORMS.search(name)) is not None}
    if len(norms) == 2:
        parts.append(norms_part(weights[norms["q"]], weights[norms["k"]]))
    if ways and ways[0].vector is not None:
        vector = weights[ways[0].vector].flatten()
        parts.append(Part({"additive scores": {"score": partial(additive, vector=vector), "scale": keep_scores}}, True))
    return tuple(parts)
