"""Asking somebody's layer: made, filled with weights that are drawn, and called in every form that may be its own."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from attncli.attention.mistakes.layer_formula import LayerInputs
from attncli.base.errors import RequestError
from attncli.checks.theirs.attention.fitting import DTYPES
from attncli.checks.theirs.calling import drawing
from attncli.checks.theirs.calling.forms import PROJECTED, Encoding, encodings, layouts_of
from attncli.checks.theirs.calling.making import Sizes, arguments, heads_of
from attncli.checks.theirs.calling.roles import role_of
from attncli.checks.theirs.found import Wanted
from attncli.checks.theirs.layers.fitting import ITSELF, Group, LayerFit, explained_by, fitted, is_decoder
from attncli.checks.theirs.layers.forms import CROSS, LayerForm, hiding_by, places_of
from attncli.checks.theirs.layers.parts import layer_readings
from attncli.checks.theirs.layers.trials import LayerTrial
from attncli.checks.theirs.subjects.subject import Description, Subject

SIZES = Sizes(hidden=40)  # no whole number of times d_model, as projections in one matrix have


class Asked:
    """A layer that has been made, and what it is asked."""

    def __init__(self, subject: Subject, wanted: Wanted) -> None:
        self.subject = subject
        self.wanted = wanted
        self.described = subject.describe()
        given = arguments(self.described, SIZES, of_network(self.described) | dict(wanted.give))
        self.made = subject.make(given)
        self.readings = layer_readings(self.made, heads_of(self.made, given), wanted.map)
        self.weights = drawing.draw_weights(self.made)
        subject.fill(self.weights)
        self.decoder = is_decoder(self.readings[0], self.weights)
        self.places = places_of(self.described.call, wanted.map, self.decoder)

    def draw(self, batch: int, tokens: int, keys: int, seed: int = 0) -> LayerInputs:
        generator = torch.Generator().manual_seed(seed)
        parts = self.readings[0].read(self.weights)
        x = torch.randn(batch, tokens, parts.down.weight.shape[0], generator=generator, dtype=torch.float64)
        size = 0 if parts.cross is None else parts.cross.key.weight.shape[1]
        memory = torch.randn(batch, keys, size, generator=generator, dtype=torch.float64) if self.decoder else None
        return LayerInputs(x, self.readings[0].heads, parts, memory)

    def tried(self, form: LayerForm, inputs: LayerInputs, dtype: str, **how: object) -> LayerTrial:
        answer = self.subject.call(form.call(inputs, dtype, **how))
        return LayerTrial(form, inputs, self.weights, answer, dtype)

    def forms(self) -> Iterator[LayerForm]:
        by_place = tuple(one.name for one in self.described.call if one.kind == "positional")
        yield from (LayerForm(self.places, by_place, layout) for layout in layouts_of(PROJECTED, self.wanted.layout))

    def forms_with_masks(self) -> Iterator[LayerForm]:
        """With masks that hide nothing, in every way to say so: of what can't be called without."""
        by_place = tuple(one.name for one in self.described.call if one.kind == "positional")
        for one in encodings("mask", self.wanted.means):
            for layout in layouts_of(PROJECTED, self.wanted.layout):
                form = LayerForm(self.places, by_place, layout, full=True)
                yield form._replace(encodings=dict.fromkeys(form.masks, one))

    def answers(self, form: LayerForm, dtype: str) -> tuple[LayerTrial, ...]:
        sizes = ((3, 7, 5), (2, 6, 6)) if form.layout.batch else ((1, 7, 5), (1, 6, 6))
        return tuple(self.tried(form, self.draw(*size, seed), dtype) for seed, size in enumerate(sizes))

    def bare(self, full: Sequence[LayerTrial]) -> tuple[LayerTrial, ...]:
        """The same with weights of 0 in attention, which then gives 0."""
        nothing = {name: torch.zeros_like(self.weights[name]) for name in self.readings[0].inside}
        self.subject.fill(nothing)
        made = [self.tried(trial.form, trial.inputs, trial.dtype) for trial in full]
        self.subject.fill(self.weights)
        return tuple(replace(trial, weights=self.weights | nothing) for trial in made)

    def fit(self) -> LayerFit:
        """Raises RequestError with the first error, when it can't be run."""
        first: LayerTrial | None = None
        for forms in (self.forms(), self.forms_with_masks()):
            groups = []
            for form in forms:
                for dtype in DTYPES:
                    full = self.answers(form, dtype)
                    first = first or full[0]
                    if any(trial.output is not None for trial in full):
                        groups.append(Group(self.bare(full), full))
                        break
            if groups:
                return fitted(groups, self.readings)
        assert first is not None
        where = "" if first.answer.at is None else f" (line {first.answer.at})"
        shapes = ", ".join(str(list(one.shape)) for one in first.answer.outputs) or "nothing"
        told = first.answer.error or f"none of what it gives has the output's shape: {shapes}"
        raise RequestError(f"it can't be run: {told}{where}")


def of_network(description: Description) -> dict[str, int]:
    """Arguments for its constructor that are the feed-forward network's size, where d_model has a name of its own."""
    sizes = [one.name for one in description.constructor if role_of(one.name) == "d_model"]
    inner = [name for name in sizes if re.search("hid|inner|inter", name)]
    return dict.fromkeys(inner, SIZES.hidden) if set(inner) < set(sizes) else {}


# --- masks ----------------------------------------------------------------------------------------------


def hidden(asked: Asked, fit: LayerFit, role: str, encoding: Encoding, seed: int = 2) -> LayerTrial | None:
    """An answer to inputs of which this mask hides something; None where that can't be said so."""
    form = fit.form._replace(encodings={**fit.form.encodings, role: encoding})
    batch, tokens = 3 if form.layout.batch else 1, 7
    inputs = asked.draw(batch, tokens, tokens, seed)
    mask = drawing.mask_for(encoding, batch, tokens, tokens, seed)
    if mask.dim() == 4:
        mask[..., 0] |= ITSELF in fit.conventions  # so that no query is left with nothing
    inputs = hiding_by(inputs, role, mask)
    return None if form.encoded(inputs) is None else asked.tried(form, inputs, fit.dtype)


def ways(form: LayerForm, role: str, wanted: Wanted) -> list[Encoding]:
    """To say a mask; what hides keys alone has a parameter of its own, where there is one."""
    kind = role.removeprefix(CROSS)
    others = [one for one in form.masks if one != role and one.startswith(CROSS) == role.startswith(CROSS)]
    found = encodings(kind, wanted.means)
    return [one for one in found if kind != "mask" or not others or "query" in one.shape]


def fit_masks(asked: Asked, fit: LayerFit) -> LayerFit:
    """With all ways to say a mask that the subject understands."""
    for role in fit.form.masks:
        tried = [hidden(asked, fit, role, encoding) for encoding in ways(fit.form, role, asked.wanted)]
        taken = [trial for trial in tried if trial is not None and trial.output is not None]
        right = [trial for trial in taken if trial.fits(fit.variant, fit.reading)]
        if not right and fit.known:
            wrong = next((more for trial in taken if (more := explained_by(fit, [trial])) is not None), None)
            right = [trial for trial in taken if wrong is not None and trial.fits(wrong.variant, wrong.reading)][:1]
            fit = wrong or replace(fit, known=fit.known and not taken)
        said = [trial.form.encodings[role] for trial in right or taken[:1]]
        if said:
            accepted = tuple(sorted(said, key=lambda one: one.means != said[0].means))
            form = fit.form._replace(encodings={**fit.form.encodings, role: said[0]})
            fit = replace(fit, form=form, accepted={**fit.accepted, role: accepted})
    return fit
