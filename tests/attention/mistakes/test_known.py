"""Check that each known mistake differs from the formula and from every other mistake."""

from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from itertools import combinations

import pytest
import torch

from attncli.attention.mistakes import (
    MISTAKES,
    RIGHT,
    Affine,
    Formula,
    Inputs,
    Masking,
    Projections,
    change_steps,
)

HALF, UNIFORM, DROPOUT = "-1e9 in half precision", "fully masked rows uniform", "dropout left on"
HEADS, D = 6, 7  # of which no root is one of the temperatures
CHANGES = [(mistake, change) for mistake in MISTAKES for change in mistake.changes]
PAIRS = torch.tensor([[1, 0, 1, 1, 0], [0, 1, 1, 0, 1], [1, 1, 0, 1, 1], [0, 0, 0, 0, 0], [1, 0, 0, 0, 1]]).bool()
PADDING = torch.arange(5) < torch.tensor([[5], [3], [2]])


@cache
def inputs() -> dict[str, Inputs]:
    """Make inputs of every kind on which a mistake shows."""
    random = torch.Generator().manual_seed(0)

    def numbers(*shape: int) -> torch.Tensor:
        return torch.randn(shape, dtype=torch.float64, generator=random)

    by = Projections(*(Affine(numbers(HEADS * D, HEADS * D) / 3, numbers(HEADS * D)) for _ in range(4)))
    x, memory = numbers(3, 5, HEADS * D), numbers(3, 7, HEADS * D)
    self_attention = Inputs(x, x, x, HEADS, by)
    grouped = Inputs(numbers(3, HEADS, 5, D), numbers(3, 2, 5, D), numbers(3, 2, 5, D), HEADS)
    return {
        "self-attention": self_attention,
        "cross-attention": self_attention._replace(key=memory, value=memory),
        "causal": self_attention._replace(seen=Masking(causal=True)),
        "causal and padding": self_attention._replace(seen=Masking(causal=True, padding=PADDING)),
        "padding": self_attention._replace(seen=Masking(padding=PADDING)),
        "pairs": self_attention._replace(seen=Masking(pairs=PAIRS)),
        "both": self_attention._replace(seen=Masking(padding=PADDING, pairs=PAIRS[:, :5])),
        "large": self_attention._replace(query=1000 * x, key=1000 * x),
        "grouped": grouped,
    }


@cache
def came_out(formula: Formula, name: str) -> torch.Tensor | None:
    try:
        return formula(inputs()[name]).output
    except (RuntimeError, ValueError):
        return None


def alike(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and torch.allclose(one, other, atol=1e-6, equal_nan=True)


def where_apart(one: Formula, other: Formula) -> Iterator[str]:
    """The inputs on which they give another output."""
    return (name for name in inputs() if not alike(came_out(one, name), came_out(other, name)))


ids = [f"{mistake.name} {mistake.changes.index(change)}" for mistake, change in CHANGES]


@pytest.mark.parametrize("change", [change for _, change in CHANGES], ids=ids)
def test_a_mistake_gives_another_output(change) -> None:
    assert set(change) <= {field.name for field in fields(Formula)}
    found = list(where_apart(RIGHT, change_steps(RIGHT, change)))
    assert found
    if set(change) <= {"hide", "forbid", "seen", "allow", "padding"}:  # what is wrong with masks shows with one
        assert not {"self-attention", "cross-attention", "large", "grouped"} & set(found)


# What differs in half precision alone, and in the ways in which finite numbers are written.
SAME = {frozenset((HALF, UNIFORM))}


def test_no_two_mistakes_are_one():
    made = [(mistake.name, change_steps(RIGHT, change)) for mistake, change in CHANGES]
    same = {
        frozenset((first, second))
        for (first, one), (second, other) in combinations(made, 2)
        if first != second and next(where_apart(one, other), None) is None
    }
    assert same == SAME


def test_in_half_precision_a_great_number_is_told_from_the_least():
    half, uniform = (next(one for one in MISTAKES if one.name == name) for name in (HALF, UNIFORM))
    given = inputs()["pairs"]
    query = given.query.unflatten(-1, (HEADS, D)).transpose(1, 2).half()
    given = Inputs(query, query, query, HEADS, seen=given.seen)
    least = change_steps(RIGHT, uniform.changes[0])(given).output
    assert least.isfinite().all()
    for change in half.changes:
        try:
            assert not torch.equal(change_steps(RIGHT, change)(given).output, least)
        except RuntimeError as error:
            assert "overflow" in str(error)


def test_only_dropout_has_no_steps_of_its_own():
    assert [mistake.name for mistake in MISTAKES if not mistake.changes] == [DROPOUT]


def test_names_and_words_are_there_and_no_two_alike():
    for words in ("name", "says"):
        assert len({getattr(mistake, words) for mistake in MISTAKES}) == len(MISTAKES)
    for mistake in MISTAKES:
        assert all((mistake.name, mistake.says, mistake.where, mistake.remedy, mistake.step))


def test_every_step_has_a_pattern_for_its_line():
    from attncli.checks.code.result import PATTERNS

    assert {mistake.step for mistake in MISTAKES} <= set(PATTERNS)
