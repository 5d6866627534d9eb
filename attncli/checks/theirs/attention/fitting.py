"""Finding out how a subject is called and what its weights mean, by trying: what equals the formula is how.

First without masks: the layout of its arrays, the reading of its weights, whether it is causal by itself. Then every
way to say a mask. Where nothing equals the formula, variants of it with one mistake are tried, then with two, so that
one mistake does not hide all else.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from torch import Tensor

from attncli.attention.mistakes import MISTAKES, RIGHT, Formula, Inputs, Mistake, Seen, changed
from attncli.base.errors import RequestError
from attncli.checks.code.failing import OR_ADAPTER
from attncli.checks.code.subject import Answer, Made, Subject
from attncli.checks.theirs.attention.conventions import OF_MASKS, Parts, bases, candidates, is_causal
from attncli.checks.theirs.attention.trial import Trial, no_output, runs_once, shape_in
from attncli.checks.theirs.calling import drawing
from attncli.checks.theirs.calling.drawing import Shape
from attncli.checks.theirs.calling.forms import BY_HEADS, PROJECTED, USUAL, Encoding, Form, encodings, layouts_of
from attncli.checks.theirs.calling.readings import Reading
from attncli.checks.theirs.calling.roles import Roles

OTHERWISE = f"; is it called otherwise? --map, --layout{OR_ADAPTER}"
DTYPES = ("float64", "float32")


@dataclass(frozen=True)
class Fit:
    """How a subject is called, and what is known of what it computes.

    crosses: whether it takes keys of another length. formula: what it should be, its conventions with it. mistakes and
    variant: what it is, as far as has been seen; without mistakes variant is formula. precision: what it computes in
    inside when everything is float64. accepted: every way to say a mask
    that it understands, by the parameter's role. silent: a mask for each text, in as many dimensions as one that it
    understands, that it takes and does not.
    """

    form: Form
    reading: Reading | None
    dtype: str
    crosses: bool
    formula: Formula
    conventions: tuple[str, ...]
    mistakes: tuple[Mistake, ...] = ()
    variant: Formula = RIGHT
    known: bool = True
    precision: str = "float64"
    accepted: dict[str, tuple[Encoding, ...]] = field(default_factory=dict)
    silent: tuple[tuple[str, Encoding], ...] = ()

    @property
    def heads(self) -> int:
        return Shape().heads if self.reading is None else self.reading.heads


class Asked:
    """A subject that has been made, and what it is asked."""

    def __init__(
        self,
        subject: Subject,
        roles: Roles,
        readings: Sequence[Reading],
        made: Made,
        weights: dict[str, Tensor],
        layout: str | None,
        means: str | None,
        parts: Parts = (),
        others: tuple[str, ...] = (),
    ) -> None:
        self.subject = subject
        self.roles = roles
        self.readings: Sequence[Reading | None] = readings or (None,)
        self.made = made
        self.weights = weights
        self.layout = layout
        self.means = means
        self.parts = parts
        self.others = others
        self.dropout = True
        self.precision = "float64"

    def draw(self, roles: Roles, reading: Reading | None, shape: Shape, crosses: bool, seed: int = 0) -> Inputs:
        projections = None if reading is None else reading.read(self.weights)
        heads = shape.heads if reading is None else reading.heads
        return drawing.draw(shape._replace(heads=heads), projections, roles, crosses, seed)

    def ask(self, form: Form, inputs: Inputs, dtype: str, **how: Any) -> Answer:
        return self.subject.call(form.call(inputs, dtype, dropout=self.dropout, **how))

    # --- without masks ----------------------------------------------------------------------------------

    def forms(self) -> Iterator[Form]:
        """Raises RequestError when the layout that was asked for is none."""
        layouts = layouts_of(BY_HEADS if self.readings[0] is None else PROJECTED, self.layout)
        yield from (Form(roles, layout) for roles in (self.roles, self.roles.by_itself()) for layout in layouts)
        for role in self.roles.needed:
            for layout in layouts:
                yield from (Form(self.roles, layout, {role: one}) for one in encodings(role, self.means))

    def trials(self, seeds: Sequence[int] = (0, 1)) -> list[list[Trial]]:
        """For every form and reading that gives an output of the right shape, the answers to some inputs.

        Raises RequestError with the first error, where none does; or with that of what ran before.
        """
        found: list[list[Trial]] = []
        first: Answer | None = None
        once: Answer | None = None  # the first error after an output
        for form, reading in product(self.forms(), self.readings):
            if any(is_enough(trials[0], form, reading) for trials in found):
                continue
            for crosses, dtype in product((True, False) if form.roles.crosses else (False,), DTYPES):
                made = []
                for seed in seeds:
                    inputs = self.draw(form.roles, reading, shape_in(form), crosses, seed)
                    answer = self.ask(form, inputs, dtype)
                    made.append(Trial(form, reading, inputs, answer, dtype, self.precision))
                    first = first or answer
                    if answer.error is not None:
                        once = once or (answer if len(made) > 1 else None)
                        break
                if all(trial.result is not None for trial in made) and made[0].is_as_exact:
                    found.append(made)
                    break
        if not found and once is not None:
            raise RequestError(runs_once(once))
        if not found and first is not None:
            raise RequestError(no_output(first) + OTHERWISE)
        return found

    def fit(self, tried: Sequence[Sequence[Trial]]) -> Fit:
        """Return what explains one of these groups of `trials`: first the formula in one of its conventions, in
        float64, then in float32, in which some compute inside whatever they are given; then mistakes.

        Raises RequestError where nothing does, and it has weights that the formula has no part for.
        """
        for self.precision in DTYPES:
            tried = [[replace(one, precision=self.precision) for one in trials] for trials in tried]
            for names, base in bases(self.parts):
                for trials in tried:
                    if all(one.fits(base) for one in trials):
                        return self.fitted(trials, (), names, base, base)
        for mistakes, names, formula, base in candidates(tried[0], self.parts):
            for trials in tried if len(mistakes) < 2 else tried[:2]:
                if all(one.fits(formula) for one in trials):
                    if all(replace(one, precision="float64").fits(formula) for one in trials):
                        self.precision = "float64"
                    return self.fitted(trials, mistakes, names, formula, base)
        if self.parts or self.others:
            what = ", ".join(self.others) or " or ".join(name for part in self.parts for name in part.ways)
            raise RequestError(
                f"it has more than the formula has ({what}), and what that does could not be found out: "
                "hand in the part without it, or use attncli.testing on the whole model"
            )
        self.precision = "float64"
        one = tried[0][0]
        self.roles = one.form.roles
        return Fit(one.form, one.reading, one.dtype, one.crosses, RIGHT, (), (), RIGHT, known=False)

    def fitted(
        self,
        trials: Sequence[Trial],
        mistakes: tuple[Mistake, ...],
        names: tuple[str, ...],
        formula: Formula,
        base: Formula,
    ) -> Fit:
        one = trials[0]
        self.roles = one.form.roles
        implied = () if one.reading is None else one.reading.mistakes
        more = tuple(mistake for mistake in MISTAKES if mistake.name in implied)
        mistakes = more + mistakes
        names += ("float32 inside",) if self.precision == "float32" else ()
        return Fit(
            one.form, one.reading, one.dtype, one.crosses, base, names, mistakes, formula, precision=self.precision
        )

    def is_right(self) -> bool:
        """Whether without masks it is the formula, in some convention."""
        try:
            tried = self.trials()
        except RequestError:
            return False
        return any(all(one.fits(base) for one in trials) for trials in tried for _, base in bases(self.parts))

    # --- masks ------------------------------------------------------------------------------------------

    def fit_masks(self, fit: Fit) -> Fit:
        """With all ways to say a mask that the subject understands."""
        for role in self.roles.masks:
            ways = [one for one in encodings(role, self.means) if role != "mask" or self.is_for_pairs(one)]
            taken: list[Trial] = []
            right: list[Trial] = []
            for usual in (True, False):  # numbers in the place of True and False only where these are not understood
                some = [one for one in ways if ((one.means, one.dtype) in USUAL) == usual]
                tried = [trial for encoding in some for trial in self.masked(fit, role, encoding)]
                if (
                    not usual and not taken and all(trial.result is None for trial in tried)
                ):  # but as many texts as heads
                    tried = [trial for encoding in ways for trial in self.masked(fit, role, encoding, fit.heads)]
                taken += [trial for trial in tried if trial.result is not None]
                right = right or [trial for trial in taken if trial.fits(fit.variant, padded=False)]
                if right:
                    break
            if right:
                said = [one.form.encodings[role] for one in right]
                fit = with_masks(fit, role, tuple(sorted(said, key=lambda one: one.means != said[0].means)))
                others = [one.form.encodings[role] for one in taken if one not in right]
                fit = replace(fit, silent=(*fit.silent, *((role, one) for one in others if is_beside(one, said))))
            elif taken:
                fit = self.with_wrong_mask(fit, role, taken)
        return fit

    def is_for_pairs(self, encoding: Encoding) -> bool:
        """Whether a mask is tried so: what hides keys alone has a parameter of its own, where there is one."""
        return "query" in encoding.shape or not self.roles.has("padding", "lengths")

    def with_wrong_mask(self, fit: Fit, role: str, taken: Sequence[Trial]) -> Fit:
        for mistake in MISTAKES:
            for change in mistake.changes:
                formula = changed(fit.variant, change) if set(change) <= set(OF_MASKS) else None
                found = [trial for trial in taken if formula is not None and trial.fits(formula)]
                if formula is not None and found:
                    accepted = tuple(trial.form.encodings[role] for trial in found[:1])
                    mistakes = fit.mistakes if mistake in fit.mistakes else (*fit.mistakes, mistake)
                    return replace(with_masks(fit, role, accepted), mistakes=mistakes, variant=formula)
        return replace(with_masks(fit, role, (taken[0].form.encodings[role],)), known=False)

    def masked(self, fit: Fit, role: str, encoding: Encoding, texts: int = Shape().batch) -> Iterator[Trial]:
        """One, with a mask that this encoding can say; none where it can't be."""
        form = fit.form._replace(encodings={**fit.form.encodings, role: encoding})
        shape = shape_in(form, Shape(texts))
        crosses = fit.crosses and ("query" in encoding.shape or role == "memory_padding")
        inputs = self.draw(form.roles, fit.reading, shape, crosses, seed=2)
        queries, keys, batch = inputs.query.shape[-2], inputs.key.shape[-2], inputs.query.shape[0]
        mask = drawing.mask_for(encoding, batch, queries, keys)
        if mask.dim() == 4:
            mask[..., 0] |= is_causal(fit.conventions)  # so that no query is left with nothing
        inputs = inputs._replace(seen=Seen(pairs=mask) if mask.dim() == 4 else Seen(padding=mask))
        if form.can(inputs):
            yield Trial(form, fit.reading, inputs, self.ask(form, inputs, fit.dtype), fit.dtype, fit.precision)


def is_enough(found: Trial, form: Form, reading: Reading | None) -> bool:
    """Whether this form need not be tried: what runs with a dimension for heads is not asked about texts without."""
    layout = found.form.layout
    fewer = reading is None and layout.batch + layout.heads > form.layout.batch + form.layout.heads
    return fewer or (layout == form.layout and found.reading is reading)


def is_beside(encoding: Encoding, understood: Sequence[Encoding]) -> bool:
    """Whether this is a mask for each text, said as one that is understood, with the same number of dimensions."""
    count = len(encoding.shape.split())
    return (
        "batch" in encoding.shape.split()
        and "query" in encoding.shape
        and any(
            (one.means, one.dtype) == (encoding.means, encoding.dtype) and len(one.shape.split()) == count
            for one in understood
        )
    )


def with_masks(fit: Fit, role: str, accepted: tuple[Encoding, ...]) -> Fit:
    form = fit.form._replace(encodings={**fit.form.encodings, role: accepted[0]})
    return replace(fit, form=form, accepted={**fit.accepted, role: accepted})
