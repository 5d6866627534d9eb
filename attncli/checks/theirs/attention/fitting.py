"""Finding out how a subject is called and what its weights mean, by trying: what equals the formula is how.

First without masks: the layout of its arrays, the reading of its weights, whether it is causal by itself. Then every
way to say a mask. Where nothing equals the formula, variants of it with one mistake are tried, then with two, so that
one mistake does not hide all else.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from torch import Tensor

from attncli.attention.mistakes import MISTAKES, RIGHT, Formula, Inputs, Mistake, Seen, changed
from attncli.base.errors import RequestError
from attncli.checks.code.failing import OR_ADAPTER
from attncli.checks.code.subject import Answer, Made, Subject
from attncli.checks.theirs.attention.conventions import OF_MASKS, bases, candidates, is_causal
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
    variant: what it is, as far as has been seen; without mistakes variant is formula. accepted: every way to say a mask
    that it understands, by the parameter's role.
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
    accepted: dict[str, tuple[Encoding, ...]] = field(default_factory=dict)


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
    ) -> None:
        self.subject = subject
        self.roles = roles
        self.readings: Sequence[Reading | None] = readings or (None,)
        self.made = made
        self.weights = weights
        self.layout = layout
        self.means = means
        self.dropout = True

    def draw(self, roles: Roles, reading: Reading | None, shape: Shape, crosses: bool, seed: int = 0) -> Inputs:
        projections = None if reading is None else reading.read(self.weights)
        heads = shape.heads if reading is None else reading.heads
        return drawing.draw(shape._replace(heads=heads), projections, roles, crosses, seed)

    def ask(self, form: Form, inputs: Inputs, dtype: str, **how: object) -> Answer:
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
                    made.append(Trial(form, reading, inputs, answer, dtype))
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
        """What explains one of these groups of `trials`."""
        for mistakes, names, formula, base in candidates(tried[0]):
            for trials in tried if len(mistakes) < 2 else tried[:2]:
                if all(one.fits(formula) for one in trials):
                    one = trials[0]
                    self.roles = one.form.roles
                    implied = () if one.reading is None else one.reading.mistakes
                    more = tuple(mistake for mistake in MISTAKES if mistake.name in implied)
                    return Fit(one.form, one.reading, one.dtype, one.crosses, base, names, more + mistakes, formula)
        one = tried[0][0]
        self.roles = one.form.roles
        return Fit(one.form, one.reading, one.dtype, one.crosses, RIGHT, (), (), RIGHT, known=False)

    def is_right(self) -> bool:
        """Whether without masks it is the formula, in some convention."""
        try:
            tried = self.trials()
        except RequestError:
            return False
        return any(all(one.fits(base) for one in trials) for trials in tried for _, base in bases())

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
                taken += [trial for trial in tried if trial.result is not None]
                right = right or [trial for trial in taken if trial.fits(fit.variant)]
                if right:
                    break
            if right:
                said = [one.form.encodings[role] for one in right]
                fit = with_masks(fit, role, tuple(sorted(said, key=lambda one: one.means != said[0].means)))
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

    def masked(self, fit: Fit, role: str, encoding: Encoding) -> Iterator[Trial]:
        """One, with a mask that this encoding can say; none where it can't be."""
        form = fit.form._replace(encodings={**fit.form.encodings, role: encoding})
        shape = shape_in(form)
        inputs = self.draw(form.roles, fit.reading, shape, fit.crosses and "query" in encoding.shape, seed=2)
        queries, keys, batch = inputs.query.shape[-2], inputs.key.shape[-2], inputs.query.shape[0]
        mask = drawing.mask_for(encoding, batch, queries, keys)
        if mask.dim() == 4:
            mask[..., 0] |= is_causal(fit.conventions)  # so that no query is left with nothing
        inputs = inputs._replace(seen=Seen(pairs=mask) if mask.dim() == 4 else Seen(padding=mask))
        if form.can(inputs):
            yield Trial(form, fit.reading, inputs, self.ask(form, inputs, fit.dtype), fit.dtype)


def is_enough(found: Trial, form: Form, reading: Reading | None) -> bool:
    """Whether this form need not be tried: what runs with a dimension for heads is not asked about texts without."""
    layout = found.form.layout
    fewer = reading is None and layout.batch + layout.heads > form.layout.batch + form.layout.heads
    return fewer or (layout == form.layout and found.reading is reading)


def with_masks(fit: Fit, role: str, accepted: tuple[Encoding, ...]) -> Fit:
    form = fit.form._replace(encodings={**fit.form.encodings, role: accepted[0]})
    return replace(fit, form=form, accepted={**fit.accepted, role: accepted})
