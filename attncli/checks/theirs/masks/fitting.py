"""Finding out how a mask function is called, what its numbers mean, and which mask it is: what equals it is it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from attncli.attention.mistakes import Mistake
from attncli.attention.mistakes.known import Change
from attncli.attention.mistakes.of_masks import MISTAKES_OF_MASKS, MaskFormula, between_real, from_the_first
from attncli.base.errors import RequestError
from attncli.checks.theirs.candidates import candidates
from attncli.checks.theirs.found import Wanted
from attncli.checks.theirs.masks.ways import (
    PADDING,
    SAY,
    TOKENS,
    Case,
    Way,
    allowed,
    as_ours,
    meanings,
    meant,
    shapes_of,
    ways,
)
from attncli.checks.theirs.subjects.subject import Answer, Description, Subject
from attncli.checks.theirs.telling import why

KINDS = {"causal": "a causal mask", "padding": "a padding mask", "combined": "a causal mask that hides [PAD]"}
CONVENTIONS: dict[str, Change] = {
    "the first query stands at the first key, as in torch's is_causal": {"causal": from_the_first},
    "[PAD] sees nothing either": {"padding": between_real},
}
INVERTED = next(one for one in MISTAKES_OF_MASKS if one.name == "mask inverted")


@dataclass(frozen=True)
class Fit:
    """How it is called, which dimensions its answer has, what that means, and what it is.

    other: what True would stand for, were it another mistake that gives the same numbers.
    """

    way: Way
    shape: str
    means: str
    kind: str
    right: MaskFormula
    conventions: tuple[str, ...] = ()
    mistakes: tuple[Mistake, ...] = ()
    other: tuple[str, Mistake] | None = None
    known: bool = True

    def differs(self, answer: Answer, case: Case) -> float | None:
        """1.0 where it forbids what it should allow, or the other way round, else 0.0; None where it gives no mask."""
        mask = self.read(answer, case)
        return None if mask is None else float(not torch.equal(mask, self.right(self.kind, case.real, case.queries)))

    def read(self, answer: Answer, case: Case) -> Tensor | None:
        """bool `[batch, query, key]`, True = may attend."""
        mask = as_ours(answer.outputs[0], self.shape, case) if len(answer.outputs) == 1 else None
        return None if mask is None else allowed(mask, self.means)


class Reading(NamedTuple):
    """A way to call it and what its answers to the two first cases may mean."""

    way: Way
    shape: str
    means: str
    masks: tuple[Tensor, ...]


def first_cases(way: Way) -> tuple[Case, Case]:
    """Of lengths that are all different; [PAD] at the end, then, where that can be said, at the beginning."""
    second = padded(6, 6, 3)
    second = second if way.takes("lengths") else second.flip(1)
    return Case(padded(7, 4, 7, 2), 5 if way.crosses else 7), Case(second, 4 if way.crosses else 6)


def padded(tokens: int, *lengths: int) -> Tensor:
    return torch.arange(tokens) < torch.tensor(lengths)[:, None]


def readings(subject: Subject, description: Description, wanted: Wanted) -> Iterator[Reading]:
    """All ways to call it that give a mask. Raises RequestError where there are none."""
    first: Answer | None = None
    found = False
    for way in ways(description.call, wanted.map):
        if found and way.alike:
            break
        answers = []
        for case in first_cases(way):
            answers.append(subject.call(way.call(case)))
            first = first or answers[-1]
            if answers[-1].error is not None or len(answers[-1].outputs) != 1:
                break
        else:
            for one in read(way, [answer.outputs[0] for answer in answers], wanted.means):
                found = True
                yield one
    if not found:
        raise RequestError(f"{description.name} gives no mask: {why(first)}; {SAY}")


def read(way: Way, outputs: Sequence[Tensor], declared: str | None) -> Iterator[Reading]:
    cases = first_cases(way)
    for shape in shapes_of(outputs[0], cases[0]):
        ours = [as_ours(output, shape, case) for output, case in zip(outputs, cases, strict=True)]
        masks = [one for one in ours if one is not None]
        if len(masks) == len(cases):
            for means in meanings(masks, declared):
                yield Reading(way, shape, means, tuple(allowed(mask, means) for mask in masks))
            return


def fitted(tried: Sequence[Reading], description: Description, wanted: Wanted) -> Fit:
    """The first that equals one of them: without a mistake, with one, with two.

    What True stands for is told by its own words where the numbers leave it open, and a mistake has to be made of it.
    """
    hint = meant(description.source) if wanted.means is None else None
    said = [one for one in tried if hint in (None, one.means)]
    others = [one for one in tried if hint not in (None, one.means)]
    for count in range(3):
        for group in (said, others):
            fits = equal(group, description.name, wanted, count)
            first = next(fits, None)
            if first is not None:
                other = next((one for one in fits if one.means != first.means), None) if count == 1 else None
                return first if other is None else replace(first, other=(other.means, other.mistakes[0]))
    one = (said or others)[0]
    return Fit(one.way, one.shape, one.means, kinds(one.way, description.name)[0], MaskFormula(), known=False)


def equal(group: Sequence[Reading], name: str, wanted: Wanted, count: int) -> Iterator[Fit]:
    """With so many mistakes; that True is taken for what it is not is one where it is said, or a number is added."""
    for candidate in candidates(MaskFormula(), CONVENTIONS, MISTAKES_OF_MASKS, count):
        for one in group:
            if INVERTED in candidate.mistakes and wanted.means is None and one.means != "added":
                continue
            for kind in kinds(one.way, name):
                if equals(candidate.formula, kind, one):
                    yield Fit(
                        one.way,
                        one.shape,
                        one.means,
                        kind,
                        candidate.base,
                        candidate.conventions,
                        candidate.mistakes,
                    )


def equals(formula: MaskFormula, kind: str, one: Reading) -> bool:
    for case, mask in zip(first_cases(one.way), one.masks, strict=True):
        try:
            if not torch.equal(formula(kind, case.real, case.queries), mask):
                return False
        except RuntimeError:  # a variant that these lengths can't be given to
            return False
    return True


def kinds(way: Way, name: str) -> tuple[str, ...]:
    """What it may be, by what it takes, and by its name where that says more."""
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    pads = "pad" in snake
    causal = bool(re.search(r"causal|look_?ahead|subsequent|future|autoregress|combined", snake)) or (
        not pads and bool(re.search(r"tgt|trg|target", snake))
    )
    if not way.takes(*TOKENS, *PADDING, "lengths"):
        return ("causal",)
    if causal and (way.tells_padding or pads):
        return ("combined",)
    return ("padding", "combined") if way.tells_padding else ("causal", "padding", "combined")
