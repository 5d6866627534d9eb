"""Find out by trying how a subject is called, what its weights and masks mean, and which mistake it has.

The formula is compared first without masks: in every layout of the arrays, every reading of the weights and every
convention. Then come all encodings of a mask. If nothing equals the formula, it is tried with one mistake, then with
two, so that one mistake does not hide the rest.
"""

import ast
import linecache
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations, product
from typing import Any, NoReturn

import torch

from attncli.attention.mistakes import (
    MISTAKES,
    RIGHT,
    Formula,
    Inputs,
    Masking,
    Mistake,
    change_steps,
    with_mistakes,
)
from attncli.base.errors import RequestError
from attncli.checks.code import calling, conventions, names
from attncli.checks.code.calling import CallForm, Encoding, Shape, Trial
from attncli.checks.code.conventions import MASK_STEPS, FormulaPart, bases, is_causal
from attncli.checks.code.names import ModuleSizes, NeedsAdapterError, Options
from attncli.checks.code.subject import Returned, Subject, is_number
from attncli.checks.code.weights import WeightLayout, readings, unread_weights

DTYPES = ("float64", "float32")
SINKS, NORMS = re.compile(r"sinks?$"), re.compile(r"\b([qk])_?(?:norm|ln)\.weight$")


@dataclass(frozen=True)
class Fit:
    """The way to call a subject, and the known facts about its computation.

    crosses: it takes keys of another length. formula: what it should compute, with its conventions. variant: what it
    computes as far as known, which is the formula with its mistakes. known: False if no variant explains it.
    precision: of its computation when everything is float64. accepted: the encodings that it understands, by role.
    """

    form: CallForm
    reading: WeightLayout | None
    dtype: str
    crosses: bool
    formula: Formula = RIGHT
    conventions: tuple[str, ...] = ()
    mistakes: tuple[Mistake, ...] = ()
    variant: Formula = RIGHT
    known: bool = True
    precision: str = "float64"
    accepted: Mapping[str, tuple[Encoding, ...]] = field(default_factory=dict)

    @property
    def heads(self) -> int:
        return Shape().heads if self.reading is None else self.reading.heads

    def with_encodings(self, role: str, accepted: Sequence[Encoding], **changes: Any) -> "Fit":
        form = self.form._replace(encodings={**self.form.encodings, role: accepted[0]})
        return replace(self, form=form, accepted={**self.accepted, role: tuple(accepted)}, **changes)


class FilledSubject:
    """A subject that is made and filled with random weights.

    parts: what it has that the formula lacks. others: what it has besides, such as weights that nothing reads.
    precision: in which the subject computes inside, as far as known.

    Raises RequestError if it can't be made, or its parameters or weights have unknown roles.
    """

    def __init__(self, subject: Subject, options: Options, sizes: ModuleSizes) -> None:
        self.subject, self.options = subject, options
        self.dropout, self.precision = True, "float64"
        self.roles = names.roles_of(subject.parameters, options.map)
        given = names.arguments_for(subject, sizes, options.give)
        subject.make(given)
        self.settle(sizes)
        names.refuse_unknown(options.map, [one.name for one in subject.parameters], subject.weights)
        for option, is_given in (("--mask-means", options.means is not None), ("--nowhere", options.nowhere != "any")):
            if is_given and not self.roles.masks:
                raise RequestError(f"{option} has no effect, as {subject.name} takes no mask: leave it out")
        generator = torch.Generator().manual_seed(0)
        self.weights = {}
        for name, (shape, _) in subject.weights.items():  # with a variance that keeps scores at about 1
            scale = 1.3 / (max(shape[-2:]) if len(shape) > 1 else 4) ** 0.5
            self.weights[name] = (torch.randn(shape, generator=generator) * scale).double()  # exact in float32
        subject.fill(self.weights)
        # The number of each role: a given argument, or else an attribute, or else the default of a parameter.
        attributes = [(name.rpartition(".")[2], number) for name, number in subject.numbers.items()]
        parameters = (*subject.constructor, *subject.parameters)
        defaults = [(one.name, one.default) for one in parameters if is_number(one.default)]
        known = reversed([*given.items(), *attributes, *defaults])
        numbers = {names.role_of(name): number for name, number in known}
        heads = numbers.get("heads")
        self.readings: Sequence[WeightLayout | None] = [None]
        if subject.weights:
            self.readings = readings(subject.weights, heads if type(heads) is int else None, options.map)
            if not self.readings:
                raise NeedsAdapterError(
                    f"the weights of {subject.name} don't fit together as W_Q, W_K, W_V and W_O: "
                    "--map NAME=query says which is which"
                )
        self.parts, self.others = self.find_parts(numbers)

    def settle(self, sizes: ModuleSizes) -> None:
        """Call a module once if its first call makes its weights."""
        shapes = [weight.shape for weight in self.subject.weights.values()]
        if self.subject.kind == "function" or (shapes and all(shape and 0 not in shape for shape in shapes)):
            return
        for crosses in (True, False):
            inputs = calling.draw(Shape(heads=1, d_k=sizes.d_model, d_v=sizes.d_model), None, self.roles, crosses)
            inputs = Inputs(inputs.query[:, 0], inputs.key[:, 0], inputs.value[:, 0], 1)
            form = CallForm(self.roles if crosses else self.roles.without_memory(), calling.PROJECTED[0])
            self.subject.settle(form.call(inputs, "float32"))

    def find_parts(self, numbers: Mapping[str | None, Any]) -> tuple[list[FormulaPart], list[str]]:
        """Return the parts that source, weights and numbers tell of, and what else it has that the formula lacks."""
        source, first = evidence(self.subject), self.readings[0]
        parts, unknown = [], []
        if not source or re.search(r"rope|rotary|rotate_half|freqs|inv_freq|\bcos\b", source, re.IGNORECASE):
            parts.append(conventions.rotary_part(source))
        if not source or re.search(r"alibi|slope", source, re.IGNORECASE):
            parts.append(conventions.alibi_part())
        if isinstance(window := numbers.get("window"), int) and window > 1:
            parts += conventions.window_parts(window)
        if isinstance(cap := numbers.get("softcap"), int | float) and cap:
            parts.append(conventions.softcap_part(cap))
        elif "tanh(" in source:
            unknown = ["tanh: a softcap is known if a parameter or attribute named softcap has its size"]
        if first is None:
            return parts, unknown
        if first.vector is not None:
            return [*parts, conventions.additive_part(self.weights[first.vector].flatten())], []
        others = unread_weights(self.subject.weights, self.options.map)
        sinks = [name for name in others if SINKS.search(name)]
        norms = {found[1]: name for name in others if (found := NORMS.search(name))}
        parts += [conventions.sinks_part(self.weights[name].flatten()) for name in sinks]
        if len(norms) == 2:
            parts.append(conventions.norms_part(self.weights[norms["q"]], self.weights[norms["k"]]))
        return parts, [*unknown, *(name for name in others if name not in (*sinks, *norms.values()))]

    def draw(self, form: CallForm, reading: WeightLayout | None, crosses: bool, seed: int = 0, **sizes: int) -> Inputs:
        """Draw inputs of these sizes, as far as the layout has dimensions for them."""
        shape = Shape(**sizes)
        shape = shape if form.layout.batch else shape._replace(batch=1)
        shape = shape if form.layout.heads else shape._replace(heads=1)
        shape = shape if not form.layout.one_query else shape._replace(queries=1)
        if reading is not None:
            shape = shape._replace(heads=reading.heads)
        return calling.draw(shape, reading and reading.read(self.weights), form.roles, crosses, seed)

    def run(self, form: CallForm, reading: WeightLayout | None, inputs: Inputs, dtype: str, **how: Any) -> Trial:
        returned = self.subject.call(form.call(inputs, dtype, dropout=self.dropout, **how))
        return Trial(form, reading, inputs, returned, dtype, self.precision)

    # --- without masks ------------------------------------------------------------------------------------

    def forms(self, layout: str | None) -> Iterator[CallForm]:
        known_layouts = calling.BY_HEADS if self.readings[0] is None else calling.PROJECTED
        layouts = [one for one in known_layouts if layout in (None, one.name)]
        if not layouts:
            raise RequestError(f"--layout {layout!r} is none of: {', '.join(one.name for one in known_layouts)}")
        yield from (
            CallForm(roles, layout) for roles in (self.roles, self.roles.without_memory()) for layout in layouts
        )
        for role in self.roles.needed:
            for known, encoding in product(layouts, calling.encodings(role, self.options.means)):
                yield CallForm(self.roles, known, {role: encoding})

    def trials(self, layout: str | None = None) -> list[list[Trial]]:
        """Return trials with two inputs for each form and reading whose output has the right shape.

        Raises RequestError with the first error if there is none.
        """
        found: list[list[Trial]] = []
        failed: list[Returned] = []
        for form, reading in product(self.forms(layout or self.options.layout), self.readings):
            if any(makes_needless(trials[0], form, reading) for trials in found):
                continue
            by = reading and reading.read(self.weights)
            if by and not form.roles.crosses and by.query.weight.shape[1] != by.key.weight.shape[1]:
                continue  # keys can't be made of the queries' vectors
            lengths = (True, False) if not form.layout.one_query else (True,)
            for crosses, dtype in product(lengths if form.roles.crosses else (False,), DTYPES):
                trials: list[Trial] = []
                while len(trials) < 2 and all(one.returned.error is None for one in trials):
                    inputs = self.draw(form, reading, crosses, seed=len(trials))
                    trials.append(self.run(form, reading, inputs, dtype))
                first, size = trials[0].result, getattr(torch, dtype).itemsize
                # JAX turns everything into float32, and is tried in that again.
                if first and all(one.result for one in trials) and first.output.dtype.itemsize >= size:
                    found.append(trials)
                    break
                if len(trials) == 2 and trials[1].returned.error is not None:
                    runs_once(trials[1].returned)
                failed.append(trials[0].returned)
        if not found and failed:
            remedy = "is it called otherwise? --map, --layout, or an adapter: attncli check --help has one to paste"
            raise RequestError(f"{describe_failure(failed[0])}; {remedy}")
        return found

    def fit(self, tried: Sequence[Sequence[Trial]]) -> Fit:
        """Fit the formula to one of these groups of trials: in float64, then in float32 inside, then with mistakes.

        Raises RequestError if nothing fits, and there are parts or weights that the formula lacks.
        """
        for self.precision in DTYPES:
            tried = [[replace(one, precision=self.precision) for one in trials] for trials in tried]
            for (under, base), trials in product(bases(self.parts), tried):
                if all(one.fits(base) for one in trials):
                    return self.make_fit(trials[0], (), under, base, base)
        for mistakes, under, formula, base in conventions.candidates(tried[0], self.parts):
            for trials in tried if len(mistakes) < 2 else tried[:2]:
                if all(one.fits(formula) for one in trials):
                    if all(replace(one, precision="float64").fits(formula) for one in trials):
                        self.precision = "float64"
                    return self.make_fit(trials[0], mistakes, under, formula, base)
        for window in range(2, Shape().keys):
            parts = [part._replace(needed=True) for part in conventions.window_parts(window)]
            if any(all(one.fits(base) for one in tried[0]) for part in parts for _, base in bases([part])):
                raise RequestError(
                    f"it has a window of {window} tokens, and no parameter or attribute named window says so: name the "
                    "number, so that it can be compared"
                )
        if self.parts or self.others:
            extra = ", ".join(self.others) or " or ".join(name for part in self.parts for name in part.ways)
            raise RequestError(
                f"it is neither the formula nor a known mistake, and has what can't be checked ({extra}): "
                "hand in the part without it, or use attncli.testing on the whole model"
            )
        self.precision = "float64"
        return replace(self.make_fit(tried[0][0], (), (), RIGHT, RIGHT), known=False)

    def make_fit(
        self, trial: Trial, mistakes: tuple[Mistake, ...], under: tuple[str, ...], variant: Formula, base: Formula
    ) -> Fit:
        self.roles = trial.form.roles
        under += ("float32 inside",) if self.precision == "float32" else ()
        mistakes = (*self.implied(trial.reading), *mistakes)
        fit = Fit(trial.form, trial.reading, trial.dtype, trial.crosses, base, under, mistakes, variant)
        return replace(fit, precision=self.precision)

    def implied(self, reading: WeightLayout | None) -> tuple[Mistake, ...]:
        """Return the mistakes that show in the weights alone."""
        missing = reading is not None and not reading.has_values
        return tuple(mistake for mistake in MISTAKES if missing and mistake.name == "values not projected")

    def is_right(self, layout: str) -> bool:
        """Return whether it equals the formula without masks in this layout, in some convention."""
        try:
            tried = self.trials(layout)
        except RequestError:
            return False
        return any(all(one.fits(base) for one in trials) for trials in tried for _, base in bases(self.parts))

    # --- masks --------------------------------------------------------------------------------------------

    def fit_masks(self, fit: Fit) -> Fit:
        """Find the shapes of masks that the subject understands, and what True, 1 or 0 means in them."""
        for role in self.roles.masks:
            # A mask of keys has a parameter of its own, if there is one.
            own = role != "mask" or not self.roles.has("padding", "lengths")
            known = [one for one in calling.encodings(role, self.options.means) if own or "query" in one.shape]
            taken: list[Trial] = []
            right: list[Encoding] = []
            # Some take only as many texts as heads. Few take 1 and 0 instead of True and False.
            # A mask that is put on the queries instead of the memory fits only a memory of the same length.
            lengths = (True, False) if role == "memory_padding" else (True,)
            for crosses, texts, usual in product(lengths, (Shape().batch, fit.heads), (True, False)):
                if right or (taken and (texts == fit.heads or not crosses)):
                    break
                some = [one for one in known if ((one.means, one.dtype) in calling.USUAL) == usual]
                tried = [trial for one in some for trial in self.try_mask(fit, role, one, texts, crosses)]
                taken += [trial for trial in tried if trial.result is not None]
                right = [one.form.encodings[role] for one in taken if one.fits(fit.variant, padded=False)]
            if right:
                same = [one for one in right if (one.means, one.dtype) == (right[0].means, right[0].dtype)]
                fit = fit.with_encodings(role, same)
            elif taken:
                fit = self.fit_wrong_mask(fit, role, taken)
        return fit

    def fit_wrong_mask(self, fit: Fit, role: str, taken: Sequence[Trial]) -> Fit:
        for mistake in MISTAKES:
            for change in mistake.changes:
                formula = change_steps(fit.variant, change) if set(change) <= MASK_STEPS else None
                for trial in taken if formula is not None else ():
                    if formula is not None and trial.fits(formula):
                        mistakes = (*(one for one in fit.mistakes if one is not mistake), mistake)
                        accepted = [trial.form.encodings[role]]
                        return fit.with_encodings(role, accepted, mistakes=mistakes, variant=formula)
        return fit.with_encodings(role, [taken[0].form.encodings[role]], known=False)

    def try_mask(self, fit: Fit, role: str, encoding: Encoding, texts: int, crosses: bool) -> Iterator[Trial]:
        """Yield a trial with a random mask, if this encoding can express it."""
        form = fit.form._replace(encodings={**fit.form.encodings, role: encoding})
        crosses = crosses and fit.crosses and ("query" in encoding.shape or role == "memory_padding")
        inputs = self.draw(form, fit.reading, crosses, seed=2, batch=texts)
        (texts, queries), keys = (inputs.query.shape[0], inputs.query.shape[-2]), inputs.key.shape[-2]
        causal = is_causal(fit.conventions)
        if "query" in encoding.shape:
            mask = calling.random_pairs(texts if "batch" in encoding.shape else 1, queries, keys)
            mask[..., 0] |= causal  # so that each query sees something
            seen = Masking(pairs=mask)
        else:
            seen = Masking(padding=calling.some_padding(texts, keys, causal and encoding.shape != calling.LENGTHS))
        inputs = inputs._replace(seen=seen)
        if form.can_express(inputs):
            yield self.run(form, fit.reading, inputs, fit.dtype)


def runs_once(returned: Returned) -> NoReturn:
    raise RequestError(f"it runs once and not again: {returned.describe()}")


def describe_failure(returned: Returned) -> str:
    problem = "none of what it gives has the output's shape" if returned.error is None else "it can't be run"
    return f"{problem}: {returned.describe()}"


def makes_needless(trial: Trial, form: CallForm, reading: WeightLayout | None) -> bool:
    """Return whether this form need not be tried: code that takes heads is not tried without them."""
    layout, other = trial.form.layout, form.layout
    has_more = reading is None and layout.batch + layout.heads > other.batch + other.heads
    is_fitting = trial.crosses or not form.roles.crosses
    is_less_usual = is_fitting and other.columns + other.one_query > layout.columns + layout.one_query
    return has_more or is_less_usual or (layout == other and trial.reading is reading)


# --- mistakes that explain all trials ---------------------------------------------------------------------


def diagnose(fit: Fit, trials: Sequence[Trial], nowhere: bool) -> tuple[Mistake, ...]:
    """Return the fewest mistakes that explain all trials, beginning with those that are known. May be empty.

    nowhere: explain queries that may see nothing too.
    """
    if all(trial.fits(fit.formula, padded=False) for trial in trials):
        return ()
    if not any(array.isfinite().any() for trial in trials for array in trial.returned.arrays[:1]):
        return ()  # many mistakes give errors and NaN
    # Trials that dismiss a variant soonest come first.
    difficult = sorted(trials, key=lambda trial: (trial.fits(fit.variant), trial.inputs.query.numel()))
    for mistakes, formula in suspects(fit):
        if mistakes and all(trial.fits(formula, nowhere=nowhere) for trial in difficult):
            return mistakes
    return ()


def suspects(fit: Fit) -> Iterator[tuple[tuple[Mistake, ...], Formula]]:
    if fit.known:
        yield fit.mistakes, fit.variant
        for mistake in MISTAKES:
            if mistake not in fit.mistakes:
                yield from (((*fit.mistakes, mistake), made) for made in with_mistakes(fit.variant, (mistake,)))
    for mistakes in (*combinations(MISTAKES, 1), *combinations(MISTAKES, 2)):
        few = conventions.FEW if len(mistakes) > 1 else None
        yield from ((mistakes, made) for made in with_mistakes(fit.formula, mistakes, few))


# --- source -----------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def definitions(text: str) -> dict[str, ast.AST]:
    """Return the classes and functions of a file by their names."""
    try:
        nodes = ast.parse(text).body
    except SyntaxError:
        return {}
    return {node.name: node for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef)}


def evidence(subject: Subject) -> str:
    """Return the source of the subject, with the classes and functions of its file that it names."""
    text = "".join(linecache.getlines(subject.file))
    nodes, found, waiting = definitions(text), dict[str, str](), [subject.name]
    while waiting:
        name = waiting.pop()
        if name in nodes and name not in found:
            found[name] = ast.get_source_segment(text, nodes[name]) or ""
            waiting += [node.id for node in ast.walk(nodes[name]) if isinstance(node, ast.Name)]
    return "\n".join(found.values()) or subject.source
