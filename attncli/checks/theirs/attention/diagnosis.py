"""Which mistake it is: the variant of the formula that gives what the subject gave, in every trial."""

from collections.abc import Iterator, Sequence
from itertools import combinations

import torch

from attncli.attention.mistakes import MISTAKES, Formula, Mistake, with_mistakes
from attncli.checks.theirs.attention.conventions import FEW
from attncli.checks.theirs.attention.fitting import Fit
from attncli.checks.theirs.attention.trial import Trial


def diagnose(fit: Fit, trials: Sequence[Trial]) -> tuple[Mistake, ...]:
    """The fewest mistakes that explain all trials; none where nothing does.

    It begins with what was found out while the subject was tried, and adds one mistake to that, or two.
    """
    if all(trial.fits(fit.formula, padded=False) for trial in trials):
        return ()
    outputs = [trial.output(torch.Size()) for trial in trials]
    if not any(output is not None and output.isfinite().any() for output in outputs):
        return ()  # errors and NaN are what many mistakes give
    # Those that a variant is soonest dismissed by come first.
    difficult = sorted(trials, key=lambda trial: (trial.fits(fit.variant), trial.inputs.query.numel()))
    for mistakes, formula in suspects(fit):
        if mistakes and all(trial.fits(formula) for trial in difficult):
            return mistakes
    return ()


def suspects(fit: Fit) -> Iterator[tuple[tuple[Mistake, ...], Formula]]:
    others = [mistake for mistake in MISTAKES if mistake not in fit.mistakes]
    if fit.known:
        yield fit.mistakes, fit.variant
        for mistake in others:
            yield from (((*fit.mistakes, mistake), made) for made in with_mistakes(fit.variant, (mistake,)))
    for mistake in MISTAKES:
        yield from (((mistake,), made) for made in with_mistakes(fit.formula, (mistake,)))
    for pair in combinations(MISTAKES, 2):
        yield from ((pair, made) for made in with_mistakes(fit.formula, pair, FEW))
