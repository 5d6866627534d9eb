"""What attention may be: the formula under conventions, with no mistake, with one, or with two."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations

import torch

from attncli.attention.mistakes import MISTAKES, RIGHT, Formula, Mistake, changed, with_mistakes
from attncli.attention.mistakes.known import TEMPERATURE, Change
from attncli.attention.mistakes.steps import from_the_start, join_interleaved, split_interleaved, with_temperature
from attncli.checks.theirs.attention.trial import Trial
from attncli.checks.theirs.comparing import difference

# What is right in another way than the formula's.
CAUSAL = {"seen": lambda seen: seen._replace(causal=True)}
CONVENTIONS: dict[str, Change] = {
    "": {},
    "causal by itself": CAUSAL,
    "causal by itself, counted from the first key": {**CAUSAL, "first": from_the_start},
    "heads take turns: element i is of head i mod heads": {"split": split_interleaved, "join": join_interleaved},
}
TIMES_FINER = 26  # by 4 each time: as fine as float64 is
FEW = 3  # ways of making each of two mistakes
OF_MASKS = ("seen", "allow", "padding", "hide", "forbid")  # fields that matter under a mask alone


def is_causal(conventions: Sequence[str]) -> bool:
    return any(name.startswith("causal by itself") for name in conventions)


def bases() -> Iterator[tuple[tuple[str, ...], Formula]]:
    """The formula in every convention, and in two at once."""
    for first, second in ((one, other) for one in CONVENTIONS for other in CONVENTIONS if one <= other):
        made = changed(RIGHT, CONVENTIONS[first])
        both = made and changed(made, CONVENTIONS[second])
        if both and (first != second or first == "") and not (is_causal([first]) and is_causal([second])):
            yield tuple(name for name in (first, second) if name), both


Candidate = tuple[tuple[Mistake, ...], tuple[str, ...], Formula, Formula]


def candidates(trials: Sequence[Trial]) -> Iterator[Candidate]:
    """Mistakes, conventions, the formula with both, and with conventions alone: none, one, then two mistakes."""
    conventions = list(bases())
    for count in range(3):
        for mistakes in combinations(MISTAKES, count):
            for names, base in conventions if count < 2 else conventions[:3]:
                if count == 0 or is_causal(names) or not any(map(of_masks, mistakes)):
                    few = None if count < 2 else FEW
                    yield from ((mistakes, names, made, base) for made in with_mistakes(base, mistakes, few))
        if count == 1:
            yield from with_any_temperature(trials, conventions)


def with_any_temperature(
    trials: Sequence[Trial], conventions: Sequence[tuple[tuple[str, ...], Formula]]
) -> Iterator[Candidate]:
    """The temperature with which each convention comes nearest."""
    temperature = next(mistake for mistake in MISTAKES if mistake.name == TEMPERATURE)
    for names, base in conventions:
        change = {"scale": partial(with_temperature, temperature=nearest_temperature(trials[0], base))}
        made = changed(base, change)
        if made is not None:
            yield (temperature,), names, made, base


def nearest_temperature(trial: Trial, base: Formula) -> float:
    """By ever finer steps, from a twentieth to twenty."""

    def gap(logarithm: float) -> float:
        made = replace(base, scale=partial(with_temperature, temperature=10**logarithm))
        ours = made(trial.inputs)
        theirs = trial.output(ours.output.shape)
        return torch.inf if theirs is None else difference(theirs, ours.output, ours.nowhere)

    best, step = 0.0, 1.3
    for _ in range(TIMES_FINER):
        best = min((best + step * place / 8 for place in range(-8, 9)), key=gap)
        step /= 4
    return float(10**best)


def of_masks(mistake: Mistake) -> bool:
    """Whether nothing of it shows without a mask."""
    return all(set(change) <= {*OF_MASKS, "causal"} for change in mistake.changes)
