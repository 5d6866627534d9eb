"""Is somebody's positional encoding right? Under which convention, or which mistake it has."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from attncli.attention.mistakes import MISTAKES
from attncli.attention.mistakes.known import DROPOUT
from attncli.attention.mistakes.of_positions import IN_PLACE
from attncli.base.errors import RequestError
from attncli.checks.theirs.calling import making
from attncli.checks.theirs.calling.roles import role_of
from attncli.checks.theirs.comparing import difference
from attncli.checks.theirs.found import Check, Found, Wanted
from attncli.checks.theirs.idle import refuse_names
from attncli.checks.theirs.positions.fitting import HEADS, Asked, Fit, Reading, far, first_cases, fitted, readings
from attncli.checks.theirs.positions.ways import Case, Way, drawn, meant
from attncli.checks.theirs.subjects.subject import Made, Subject
from attncli.checks.theirs.telling import diagnosed, why

SIZES = making.Sizes(d_model=8, heads=1, length=64)
LONG = 60
UNCHANGED = "inputs are not changed"


def check_positions(subject: Subject, wanted: Wanted) -> Found:
    """Checks what gives positions: sines and cosines, learned vectors, or rotations of queries and keys.

    It may be a function or a module, give them alone or added to x, take x, positions or a length; how, and under which
    convention, is found out and named. Raises RequestError where it can't be called, or gives nothing of that kind.
    """
    description = subject.describe()
    given = making.arguments(description, SIZES, wanted.give)
    made = subject.make(given)
    refuse_names(wanted.map, [one.name for one in description.call], made.weights)
    table = table_of(subject, made, wanted.map)
    asked = Asked(subject, table)
    said = {name: role for name, role in wanted.map.items() if role != "table"}
    tried = readings(asked, description, widths(given, table), said, wanted.layout)
    same = is_same(asked, tried[0])
    asked.dropout = same
    if not same:
        tried = readings(asked, description, widths(given, table), said, wanted.layout)
    drops = not same and is_same(asked, tried[0])
    fit = fitted(asked, tried, meant(description.source))
    if wanted.layout is not None and fit.way.layout is None:
        raise RequestError(f"--layout has no effect, as {description.name} takes no arrays: leave it out")
    checks = tuple(checked(asked, fit, same))
    dropped = tuple(one for one in MISTAKES if drops and one.name == DROPOUT)
    in_place = (IN_PLACE,) * any(check.holds is False for check in checks if check.name == UNCHANGED)
    wrong = any(check.holds is False for check in checks)
    return Found(
        description.name,
        description.file,
        fit.family.kind,
        checks,
        tuple(described(fit)),
        tuple(diagnosed(one, description) for one in (*dropped, *fit.mistakes, *in_place)),
        smallest(asked, fit) if wrong and not fit.known else "",
    )


def table_of(subject: Subject, made: Made, said: Mapping[str, str]) -> Tensor | None:
    """Its weights, when it has any, filled with numbers that tell positions from each other."""
    names = [name for name in made.weights if said.get(name) == "table"] or list(made.weights)
    if not names:
        return None
    shape = made.weights[names[0]].shape
    if len(names) > 1 or len(shape) not in (2, 3):
        raise RequestError(
            f"one weight is the table of learned positions, and there are {', '.join(names[:5])}: --map NAME=table"
        )
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(0)).double()
    subject.fill({names[0]: numbers})
    return numbers.reshape(-1, shape[-1])


def widths(given: Mapping[str, Any], table: Tensor | None) -> list[int]:
    """How long the vectors may be."""
    if table is not None:
        return [table.shape[1]]
    sizes = {role_of(name): value for name, value in given.items() if type(value) is int}
    found = [sizes[role] for role in ("head_dim", "d_model") if role in sizes]
    if "d_model" in sizes and "heads" in sizes:
        found.append(sizes["d_model"] // sizes["heads"])
    return found or [SIZES.d_model]


def is_same(asked: Asked, one: Reading) -> bool:
    """Whether it gives the same once more."""
    again = asked.ask(one.way, one.cases[0])
    return again is not None and difference(again, one.results[0]) == 0


# --- whether it is right --------------------------------------------------------------------------------


def checked(asked: Asked, fit: Fit, same: bool) -> Iterator[Check]:
    way = fit.way
    for name, case, d in cases(asked, way):
        other = way._replace(d=d)
        answers = asked.answers(other, case)
        theirs = other.read(answers, case)
        if theirs is None:
            yield Check(name, False, None, why(answers[0]))
        else:
            ours = asked.ours(fit.right, other, case)
            yield Check(name, not far(theirs, ours), difference(theirs, ours))
    case = way.fitting(first_cases(way)[0])
    whole = asked.ask(way, case)
    if whole is None:
        return
    yield Check("the same twice", same)
    yield Check(UNCHANGED, not any(one.changed for one in asked.answers(way, case)))
    tokens = -3 if way.gives != "turned" else -4
    if whole.shape[tokens] > 1:
        parts = [asked.ask(way, case._replace(x=text)) for text in case.x.split(1, dim=1)]
        yield law("each text by itself", joined(parts, tokens), whole)
    yield law(
        "a longer text changes no position",
        asked.ask(way, Case(case.x[..., :4, :], case.positions[:4])),
        whole[..., :4, :],
    )
    if way.gives == "turned":
        yield law("lengths of vectors are kept", whole.norm(dim=-1), case.x.norm(dim=-1))
        yield differences(asked, way, case)


def cases(asked: Asked, way: Way) -> Iterator[tuple[str, Case, int]]:
    """Name, case, d_model."""
    most = LONG if asked.table is None else min(LONG, len(asked.table) - 2)
    first, second = first_cases(way)
    yield "texts of 7 tokens", way.fitting(first), way.d
    yield "texts of 5 tokens", way.fitting(second), way.d
    for name, tokens in (("one token", 1), ("an even number of tokens", 12), ("a long text", most)):
        yield name, way.fitting(drawn(2, HEADS, way.d, range(tokens), 2)), way.d
    if way.layout is None or way.layout.batch:
        yield "one text", way.fitting(drawn(1, HEADS, way.d, range(7), 3)), way.d
    if way.takes("d_model"):
        yield "another d_model", way.fitting(drawn(2, HEADS, 6, range(7), 4)), 6


def joined(parts: Sequence[Tensor | None], dim: int) -> Tensor | None:
    there = [one for one in parts if one is not None]
    return torch.cat(there, dim) if len(there) == len(parts) else None


def law(name: str, theirs: Tensor | None, ours: Tensor) -> Check:
    if theirs is None or theirs.shape != ours.shape:
        return Check(name, False)
    return Check(name, not far(theirs, ours), difference(theirs, ours))


def differences(asked: Asked, way: Way, case: Case) -> Check:
    """Of one query and one key that stand at every place: scores depend on how far apart they stand."""
    alike = Case(case.x[..., :1, :].expand_as(case.x), torch.arange(len(case.positions)))
    turned = asked.ask(way, alike)
    if turned is None:
        return Check("scores depend on differences alone", False)
    scores = turned[0] @ turned[-1].mT
    return law("scores depend on differences alone", scores[..., 1:, 1:], scores[..., :-1, :-1])


# --- in words -------------------------------------------------------------------------------------------


def described(fit: Fit) -> Iterator[str]:
    way = fit.way
    if way.layout is not None:
        yield f"[{', '.join(way.layout.name.split())}]"
        if way.gives == "alone":
            yield "given alone, not added to x"
    if way.gives == "turned" and not any("GPT-NeoX" in name for name in fit.conventions):
        yield "pairs are elements 2i and 2i + 1, as in the paper"
    yield from fit.conventions


def smallest(asked: Asked, fit: Fit) -> str:
    """The shortest text on which it differs, and the last vector's first elements."""
    for tokens in range(1, 8):
        case = fit.way.fitting(drawn(1, 1, fit.way.d, range(tokens)))
        theirs, ours = asked.ask(fit.way, case), asked.ours(fit.right, fit.way, case)
        if theirs is not None and far(theirs, ours):
            first, second = ([round(float(one), 4) for one in x.flatten()[-fit.way.d :][:4]] for x in (theirs, ours))
            return f"of {tokens} tokens the last vector begins with {first}, and should with {second}"
    return ""
