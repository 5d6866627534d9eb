"""Finding out what somebody's layer computes, by trying: what equals the formula is how.

First without masks: where norms stand, which function, which layout; then every way to say a mask. Where nothing equals
the formula, variants of it with one mistake are tried.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.attention.mistakes import MISTAKES, Mistake, Seen
from attncli.attention.mistakes.layer_formula import (
    RIGHT_LAYER,
    Around,
    Function,
    LayerFormula,
    layer_norm,
    rms_norm,
    sample_norm,
)
from attncli.attention.mistakes.of_layers import AROUND, LAYER_MISTAKES, layer_variants, own_variants, with_change
from attncli.attention.positions import SinusoidalPositions
from attncli.checks.theirs.calling.forms import Encoding
from attncli.checks.theirs.comparing import difference
from attncli.checks.theirs.layers.forms import LayerForm
from attncli.checks.theirs.layers.parts import LayerReading
from attncli.checks.theirs.layers.trials import LayerTrial, computed

ROUGHLY = 2e-3  # beside outputs of about 1: more than what ε explains
MANY = 4
EPS = (1e-5, 1e-6, 1e-12, 1e-8, 1e-3, 0.0)
NORMS = {"post-norm": ("after",), "pre-norm": ("before",), "norms of what sublayers give": ("within",)}
FUNCTIONS: dict[str, Function] = {
    "ReLU": torch.relu,
    "GELU": F.gelu,
    "GELU by tanh": partial(F.gelu, approximate="tanh"),
    "SiLU": F.silu,
    "tanh": torch.tanh,
    "leaky ReLU": F.leaky_relu,
}
KINDS = {
    "": layer_norm,
    "RMSNorm": rms_norm,
    "LayerNorm by the standard deviation with n - 1": sample_norm,
}
ITSELF = "causal by itself"
EVERY = (*LAYER_MISTAKES, *MISTAKES)


@dataclass(frozen=True)
class LayerFit:
    """formula: what it should be, in its conventions; variant: what it is, as far as has been seen, with `mistakes`.

    known: whether `variant` explains everything. accepted: every way to say a mask, by the parameter's role.
    """

    form: LayerForm
    reading: LayerReading
    dtype: str
    decoder: bool
    conventions: tuple[str, ...]
    formula: LayerFormula
    variant: LayerFormula
    mistakes: tuple[Mistake, ...] = ()
    known: bool = True
    accepted: Mapping[str, tuple[Encoding, ...]] = field(default_factory=dict)

    def with_mistake(self, mistake: Mistake, variant: LayerFormula) -> "LayerFit":
        mistakes = self.mistakes if mistake in self.mistakes else (*self.mistakes, mistake)
        return replace(self, mistakes=mistakes, variant=variant)


# --- without masks --------------------------------------------------------------------------------------


def causal(own: Seen, memory: Seen) -> tuple[Seen, Seen]:
    return own._replace(causal=True), memory


def kinds_of(reading: LayerReading) -> list[str]:
    """Of norms, by their names, the likeliest first."""
    told = " ".join(reading.owners).lower()
    if re.search("(?<!no)rms", told):  # norms are not
        return ["RMSNorm"]
    return list(KINDS)[::2] if "_2" in told or "alpha" in told or "gamma" in told else list(KINDS)


def bases(reading: LayerReading, few: bool) -> Iterator[tuple[tuple[str, ...], LayerFormula]]:
    """The formula in every convention; few: in those that mistakes are looked for in."""
    for kind in kinds_of(reading)[: 1 if few else None]:
        for function in list(FUNCTIONS)[: 4 if few else None]:
            for place in list(NORMS)[: 2 if few else None]:
                names = tuple(filter(None, (place, function, kind)))
                around = dict.fromkeys(AROUND, Around(NORMS[place]))
                yield names, replace(RIGHT_LAYER, norm=KINDS[kind], function=FUNCTIONS[function], **around)  # type: ignore[arg-type]


def tables(reading: LayerReading, weights: Mapping[str, Tensor]) -> Iterator[tuple[str, Function]]:
    """What a layer that adds positions may add."""
    if reading.table is not None:
        table = weights[reading.table].reshape(-1, weights[reading.table].shape[-1])
        yield "it adds its learned positions", lambda x: x + table[: x.shape[1]].to(x)
    size = reading.read(weights).down.weight.shape[0]
    if size % 2 == 0:
        sines = SinusoidalPositions(size)(torch.arange(64))
        yield "it adds sinusoidal positions", lambda x: x + sines[: x.shape[1]].to(x)


class Candidate(NamedTuple):
    """What it may be: made is base, which is right in these conventions, with the mistakes."""

    reading: LayerReading
    conventions: tuple[str, ...]
    base: LayerFormula
    made: LayerFormula
    mistakes: tuple[Mistake, ...] = ()

    def with_mistake(self, mistake: Mistake, made: LayerFormula) -> "Candidate":
        mistakes = self.mistakes if mistake in self.mistakes else (*self.mistakes, mistake)
        return self._replace(made=made, mistakes=mistakes)

    def fits(self, trials: Sequence[LayerTrial], roughly: float = 0.0) -> bool:
        return all(trial.fits(self.made, self.reading, roughly) for trial in trials)


class Group(NamedTuple):
    """Trials of one form: bare with all weights of attention 0, so that it gives 0, whatever it is; full as drawn."""

    bare: tuple[LayerTrial, ...]
    full: tuple[LayerTrial, ...]


def outside(readings: Sequence[LayerReading], weights: Mapping[str, Tensor]) -> Iterator[list[Candidate]]:
    """What may stand around attention: without a mistake, with positions, with one mistake; each group by itself."""
    ones = [next(one for one in readings if one.outside == number) for number in {one.outside for one in readings}]
    plain = [
        Candidate(one, names, base, base, tuple(known for known in EVERY if known.name in one.mistakes))
        for one in sorted(ones, key=lambda one: (len(one.mistakes), one.outside))
        for names, base in bases(one, few=False)
    ]
    yield plain
    first = ones[0]
    few = [Candidate(first, names, base, base) for names, base in bases(first, few=True)]
    twice = next(mistake for mistake in LAYER_MISTAKES if mistake.name == "position added twice")
    placed = []
    for told, add in tables(first, weights):
        for one in few:
            once = replace(one.base, positions=add)
            named = Candidate(first, (*one.conventions, told), once, once)
            placed += [named, named.with_mistake(twice, with_change(once, twice.changes[0]))]
    yield placed
    yield [
        one.with_mistake(mistake, made)
        for one in few
        for mistake, made in own_variants(one.made, is_decoder(first, weights))
    ]
    yield few


def is_decoder(reading: LayerReading, weights: Mapping[str, Tensor]) -> bool:
    return reading.read(weights).cross is not None


def expanded(one: Candidate, readings: Sequence[LayerReading]) -> Iterator[Candidate]:
    """With every reading of attention's weights; and causal by itself."""
    for reading in readings:
        if reading.outside == one.reading.outside:
            names = tuple(filter(None, (*one.conventions, reading.note)))
            made = one._replace(reading=reading, conventions=names)
            yield made
            yield made._replace(
                conventions=(*names, ITSELF),
                base=replace(one.base, masks=causal),
                made=replace(one.made, masks=causal),
            )


def fitted(groups: Sequence[Group], readings: Sequence[LayerReading]) -> LayerFit:
    """First what stands around attention, which is seen when attention gives 0; then attention."""
    weights = groups[0].full[0].weights
    decoder = is_decoder(readings[0], weights)
    for stage in outside(readings, weights):
        there = [
            (group, made)
            for group in groups
            for one in stage
            if one.fits(group.bare, ROUGHLY)
            for made in expanded(one, readings)
        ]
        for group, one in there:
            if (fit := refined(one, group)) is not None:
                return fit
        for group, one in likeliest(there):
            for mistake, made in layer_variants(one.made, decoder):
                if (fit := refined(one.with_mistake(mistake, made), group)) is not None:
                    return fit
    form, tried = groups[0].full[0].form, groups[0].full
    names, base = min(bases(readings[0], few=True), key=lambda named: apart(named[1], tried, readings[0]))
    return LayerFit(form, readings[0], tried[0].dtype, decoder, names, base, base, known=False)


def likeliest(found: Sequence[tuple[Group, Candidate]]) -> Iterator[tuple[Group, Candidate]]:
    """Of each form a few, with one order of the norms: those in which mistakes are looked for."""
    for group in {id(group): group for group, _ in found}.values():
        ones = [one for other, one in found if other is group]
        yield from [(group, one) for one in ones if one.reading.outside == ones[0].reading.outside][:MANY]


def refined(one: Candidate, group: Group) -> LayerFit | None:
    """With the ε that it has; None where it is something else."""
    if not one.fits(group.full, ROUGHLY):
        return None
    for eps in EPS:
        made = one._replace(base=replace(one.base, eps=eps), made=replace(one.made, eps=eps))
        if made.fits(group.full):
            trial = group.full[0]
            return LayerFit(
                trial.form,
                one.reading,
                trial.dtype,
                is_decoder(one.reading, trial.weights),
                one.conventions,
                made.base,
                made.made,
                one.mistakes,
            )
    return None


def apart(formula: LayerFormula, trials: Sequence[LayerTrial], reading: LayerReading) -> float:
    """How far the answers are from the formula's."""
    gaps = []
    for trial in trials:
        result = computed(formula, trial.read_by(reading))
        if result is not None and trial.output is not None:
            gaps.append(difference(trial.output, result.output))
    return max(gaps, default=torch.inf)


# --- with more ------------------------------------------------------------------------------------------


def explained_by(fit: LayerFit, trials: Sequence[LayerTrial]) -> LayerFit | None:
    """With one more mistake, of masks or of attention, that explains all these answers; None where none does."""
    difficult = sorted(trials, key=lambda trial: trial.fits(fit.variant, fit.reading))  # the others fit already
    for mistake, made in layer_variants(fit.variant, fit.decoder):
        if all(trial.fits(made, fit.reading) for trial in difficult):
            return fit.with_mistake(mistake, made)
    return None
