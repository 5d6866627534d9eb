"""Find out by trying how the code to check (the subject) is called, what its weights and masks mean, and which mistake
it has.

The formula is compared first without masks: in every layout of the arrays, every reading of the weights and every
convention. Then come all encodings of a mask. If nothing equals the formula, it is tried with one mistake, then with
two, so that one mistake does not hide the rest.
"""

import ast
import linecache
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain, combinations, islice, product
from typing import Any, NoReturn

import torch

from attncli.attention.mistakes import (
    MISTAKES,
    RIGHT,
    Formula,
    Inputs,
    Masking,
    Mistake,
    Projections,
    change_steps,
    with_mistakes,
)
from attncli.attention.mistakes.known import WEAK, weakly_hidden
from attncli.attention.mistakes.steps import hide_some_weakly, keep
from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.printable import printable, shorten
from attncli.checks.code import calling, conventions, names
from attncli.checks.code.calling import CallForm, Encoding, Shape, Trial, difference
from attncli.checks.code.conventions import MASK_STEPS, FormulaPart, bases, is_causal
from attncli.checks.code.names import ModuleSizes, NeedsAdapterError
from attncli.checks.code.subject import Returned, Subject, is_number
from attncli.checks.code.weights import WeightLayout, readings, unread_weights

DTYPES = ("float64", "float32")
SINKS, NORMS = re.compile(r"sinks?$"), re.compile(r"\b([qk])_?(?:norm|ln)\.(weight|bias)$")
LAYER_NORM = re.compile(r"(?:norm|ln)\w*\.(weight|bias)$")
COSINE = r"normalize\(|cosine"
SMALL = (1.0, 2.0, 3.0)  # mostly numbers of dimensions
TEMPERATURE = re.compile(r"temp|tau|scale", re.IGNORECASE)
T5_BIAS = "relative_attention_bias"
ROTARY = r"rope|rotary|rotate_half|freqs|inv_freq|\bcos\b"
# Lines that compute or apply positions, with or without an effect.
ROTATIONS = re.compile(r"\b(?:cos|sin|polar)\(")
_TABLES = re.compile(r"(?:^|[._])(?:cos|sin|freqs|inv_freq)", re.IGNORECASE)  # buffers of rotary positions
_BIASES = re.compile("alibi|slopes", re.IGNORECASE)
SLOPES = re.compile(r"\w*(?:alibi|slopes)\w*(?:\(|\s*=\s*(?!None|=))", re.IGNORECASE)
NUMBER = re.compile(r"(-?)(?<![\w.])(\d+\.?\d*(?:e[+-]?\d+)?)", re.IGNORECASE)
LONGEST_WINDOW = 512  # tokens; longer windows are not tried
HALVES = ("bfloat16", "float16")
# Errors that arguments in a wrong form raise.
CALL_ERRORS = re.compile("(Runtime|Value|Type|Attribute|Index|Key|Assertion)Error")
UNUSED = "part without an effect"
CONVENTIONAL = ("fully masked rows uniform", "-1e9 in half precision")  # unless --nowhere makes them wrong
SEARCH = 8000  # formulas that are tried; seconds would let a busy machine change a verdict
STRENGTH = 24  # exp(-24) added to 1 is within the tolerance
LOW_ENOUGH = -9000.0  # BERT's -1e4 is low enough for the scores of trained models
SOFT = -0.125  # exact in every dtype, and too little to hide anything
QUOTED = 80  # characters of a line that is shown
MENTIONS = {  # a mistake that mentions one of these is possible only in code that has it
    "heads": r"\bheads?\b",
    "texts": r"\btexts?\b",
    "memory": r"\bmemory\b",
}


@dataclass(frozen=True)
class Fit:
    """The way to call a subject, and the known facts about its computation.

    crosses: it takes keys of another length. formula: what it should compute, with its conventions. variant: what it
    computes as far as known, which is the formula with its mistakes. known: False if no variant explains it. unused:
    parts that it has and does not apply.
    precision: of its computation if all inputs are float64. accepted: the encodings that it understands, by role.
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
    unused: tuple[Mistake, ...] = ()
    precision: str = "float64"
    accepted: Mapping[str, tuple[Encoding, ...]] = field(default_factory=dict)

    @property
    def heads(self) -> int:
        return Shape().heads if self.reading is None else self.reading.heads

    def with_encodings(self, role: str, accepted: Sequence[Encoding], **changes: Any) -> "Fit":
        form = self.form._replace(encodings={**self.form.encodings, role: accepted[0]})
        return replace(self, form=form, accepted={**self.accepted, role: tuple(accepted)}, **changes)


class FilledSubject:
    """A subject, constructed and filled with random weights.

    parts: its parts that the formula lacks. around: residual sums and norms that it may have around its attention.
    others: the names of anything else, such as weights without a known role. zeroed: those of these weights that change
    its output, which are set to 0. made: the window and the softcap with which it was made.
    precision: the dtype in which the subject computes internally, as far as known.

    Raises RequestError if it can't be made, or its parameters or weights have unknown roles.
    """

    def __init__(self, subject: Subject, sizes: ModuleSizes, nowhere: choices.Nowhere = "any") -> None:
        self.subject, self.nowhere = subject, nowhere
        self.dropout, self.precision = True, "float64"
        names.bind_weights(subject)
        self.roles = names.roles_of(subject.parameters)
        given = sizes.arguments_for(subject)
        self.made = {name: one for name, one in given.items() if names.role_of(name) in ("window", "softcap")}
        subject.make(given)
        self.settle(sizes)
        if nowhere != "any" and not self.roles.masks:
            raise RequestError(f"--nowhere has no effect, as {subject.name} takes no mask: leave it out")
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
        window = numbers.get("window")
        self.sizes: dict[str, int] = {}  # of texts that are longer than a window
        if type(window) is int and Shape().keys <= window + 2 <= LONGEST_WINDOW:
            self.sizes = {"queries": window + 1, "keys": window + 3}
        heads = numbers.get("heads")
        self.readings: Sequence[WeightLayout | None] = [None]
        if subject.weights:
            self.readings = readings(subject.weights, heads if type(heads) is int else None)
            if not self.readings:
                raise NeedsAdapterError(
                    f"the weights of {subject.name} don't fit together as W_Q, W_K, W_V and W_O", of_weights=True
                )
        self.parts, self.others = self.find_parts(numbers)
        self.zeroed: list[str] = []

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
        """Return the parts that its source, weights and numbers reveal, and the names of anything else it has."""
        source, first = evidence(self.subject), self.readings[0]
        literals = [(minus, float(number)) for minus, number in NUMBER.findall(source)]
        self.numbers = {number for _, number in literals} - {0.0}
        self.negated = {number for minus, number in literals if minus}
        parts, unknown = [], []
        if not source or re.search(ROTARY, source, re.IGNORECASE):
            bases = [one for one in (numbers.get("base"), 1e4, 5e5, 1e6) if one and (one == 1e4 or one in self.numbers)]
            parts.append(conventions.rotary_part(dict.fromkeys(map(float, bases)), "rotary positions"))
        if not source or re.search(r"alibi|slope", source, re.IGNORECASE):
            parts.append(conventions.alibi_part("ALiBi"))
        if isinstance(window := numbers.get("window"), int) and 1 < window <= LONGEST_WINDOW:
            parts += conventions.window_parts(window)
        if isinstance(cap := numbers.get("softcap"), int | float) and cap:
            parts.append(conventions.softcap_part(cap))
        elif "tanh(" in source:
            unknown = ["tanh: a softcap is recognized by a parameter or attribute named softcap"]
        if re.search(COSINE, source):
            named = [number for name, number in self.subject.numbers.items() if TEMPERATURE.search(name)]
            written = {float(one) for one in (*named, *self.numbers) if one and one not in SMALL}
            parts.append(conventions.cosine_part(sorted({*written, *(1 / one for one in written)})))
        self.around: list[FormulaPart] = []
        if first is None:
            return parts, unknown
        if first.vector is not None:
            return [*parts, conventions.additive_part(self.weights[first.vector].flatten())], []
        others = unread_weights(self.subject.weights)
        sinks = [name for name in others if SINKS.search(name)]
        norms = {(*found.groups(),): name for name in others if (found := NORMS.search(name))}
        parts += [conventions.sinks_part(self.weights[name].flatten()) for name in sinks]
        if {("q", "weight"), ("k", "weight")} <= norms.keys():
            its = [[self.weights[norms[x, y]] for y in ("weight", "bias") if (x, y) in norms] for x in "qk"]
            parts.append(conventions.norms_part(*its))
        left = [name for name in others if name not in (*sinks, *norms.values())]
        layers = {name.rpartition(".")[0] for name in left if LAYER_NORM.search(name)}
        pairs = [[self.weights[f"{x}.{y}"] for y in ("weight", "bias") if f"{x}.{y}" in left] for x in sorted(layers)]
        self.around = conventions.residual_parts(pairs, self.roles.crosses)
        if any(T5_BIAS in name for name in left):
            parts.append(conventions.unscaled_part())
        return parts, [*unknown, *left]

    def unused_parts(self, fit: Fit, trial: Trial) -> tuple[Mistake, ...]:
        """Return a mistake for each part that the code has and that changes nothing."""
        used = {name for part in self.parts for name in part.ways if name in fit.conventions}
        idle: dict[str, str] = {}
        lines = None
        instance = self.subject.instance
        held = dict(instance.named_buffers()) if hasattr(instance, "named_buffers") else {}
        for part in self.parts:
            ways = {name for one in self.parts if one.declared == part.declared for name in one.ways}
            if not part.declared or used & ways:
                continue
            if part.declared in ("rotary positions", "ALiBi"):  # the object has it, or the lines that a call ran
                if lines is None:
                    lines = self.subject.lines_run(trial.form.call(trial.inputs, trial.dtype, dropout=self.dropout))
                buffer, line = (_TABLES, ROTATIONS) if part.declared == "rotary positions" else (_BIASES, SLOPES)
                if not any(map(buffer.search, held)) and line.search(lines) is None:
                    continue
            idle[part.declared] = f"that has {part.declared}, which changes nothing"
        remedy = "apply it between the projections and softmax, or remove it"
        return tuple(Mistake(UNUSED, says, "", remedy, "add", ()) for says in idle.values())

    def mistakes_of(self, form: CallForm, heads: int) -> list[Mistake]:
        """Return the mistakes that this code can have: those about heads, texts or a memory only if it has these."""
        has = {
            "heads": form.layout.has("head") if self.readings[0] is None else heads > 1,
            "texts": form.layout.has("batch"),
            "memory": form.roles.crosses,
        }
        lacks = [MENTIONS[name] for name, it_has in has.items() if not it_has]
        found = [
            one
            for one in MISTAKES
            if (self.nowhere != "any" or one.name not in CONVENTIONAL)
            and not any(re.search(words, f"{one.name} {one.says}") for words in lacks)
        ]
        written = [-number if number in self.negated else number for number in sorted(self.numbers - {1.0, 2.0})]
        numbers = [number for one in written for number in (one, -one) if number > LOW_ENOUGH][:40]
        more = [change for number in (*numbers, -1.0) for change in weakly_hidden(number)]
        for number, which, adds in product(numbers, ("padding", "pairs", "past", "start"), (False, True)):
            hide = partial(hide_some_weakly, number=number, which=which, adds=adds)
            more.append({"hide": hide, "forbid": keep})  # one of several masks hides too little
        return [one._replace(changes=(*more, *one.changes)) if one.name == WEAK else one for one in found]

    def draw(self, form: CallForm, reading: WeightLayout | None, crosses: bool, seed: int = 0, **sizes: int) -> Inputs:
        """Draw inputs of these sizes, as far as the layout has dimensions for them."""
        shape = Shape(**{**self.sizes, **sizes})
        for dimension, size in (("batch", "batch"), ("head", "heads"), ("token", "queries")):
            shape = shape if form.layout.has(dimension) else shape._replace(**{size: 1})
        if reading is not None:
            shape = shape._replace(heads=reading.heads)
        inputs = calling.draw(shape, reading.read(self.weights) if reading else None, form.roles, crosses, seed)
        if not {"lengths", "padding"} & {*form.roles.needed}:
            return inputs
        real = torch.ones(inputs.query.shape[0], inputs.key.shape[-2], dtype=torch.bool)
        return inputs._replace(seen=Masking(padding=real))  # a required mask, which hides nothing

    def run(self, form: CallForm, reading: WeightLayout | None, inputs: Inputs, dtype: str, **how: Any) -> Trial:
        returned = self.subject.call(form.call(inputs, dtype, dropout=self.dropout, **how))
        return Trial(form, reading, inputs, returned, dtype, self.precision)

    # --- without masks ------------------------------------------------------------------------------------

    def forms(self) -> Iterator[CallForm]:
        layouts = calling.BY_HEADS if self.readings[0] is None else calling.PROJECTED
        for roles, layout in product((self.roles, self.roles.without_memory()), layouts):
            yield CallForm(roles, layout)
        for role in self.roles.needed:
            for layout, encoding in product(layouts, calling.encodings(role, self.roles.declared(role))):
                yield CallForm(self.roles, layout, {role: encoding})

    def trials(self) -> list[list[Trial]]:
        """Return trials with two inputs for each form and reading whose output has the right shape.

        Raises RequestError with the error of the call that came furthest if there are none.
        """
        found: list[list[Trial]] = []
        failed: list[Returned] = []
        unlike: Projections | None = None
        for form, reading in product(self.forms(), self.readings):
            if any(makes_needless(trials[0], form, reading) for trials in found):
                continue
            by = reading.read(self.weights) if reading else None
            if by and not form.roles.crosses and by.query.weight.shape[1] != by.key.weight.shape[1]:
                unlike = by  # keys can't be made of the queries' vectors
                continue
            lengths = (True, False) if form.layout.has("token") else (True,)
            for crosses, dtype in product(lengths if form.roles.crosses else (False,), DTYPES):
                trials: list[Trial] = []
                while len(trials) < 2 and all(one.returned.error is None for one in trials):
                    inputs = self.draw(form, reading, crosses, seed=len(trials))
                    trials.append(self.run(form, reading, inputs, dtype))
                first, size = trials[0].result, getattr(torch, dtype).itemsize
                # JAX converts everything to float32, so it is tried again in float32.
                if first and all(one.result for one in trials) and first.output.dtype.itemsize >= size:
                    found.append(trials)
                    break
                if len(trials) == 2 and trials[1].returned.error is not None:
                    refuse_second_call(trials[1].returned)
                failed.append(trials[0].returned)
        if not found and not failed and unlike is not None:
            query, key = unlike.query.weight.shape[1], unlike.key.weight.shape[1]
            raise RequestError(
                f"{self.subject.name} makes queries of {query} numbers per token and keys of {key}, from one input: a "
                "learned query, or keys made of a smaller vector, can't be checked"
            )
        if not found and failed:
            # Report the call that came furthest. If several did, prefer an error that other arrays would not avoid.
            at = max(failed, key=lambda one: (one.line or 0, not re.match("RuntimeError|ValueError", one.error or "")))
            if at.line is None:
                raise NeedsAdapterError(describe_failure(failed[0]))
            text = printable(linecache.getline(self.subject.file, at.line).strip())  # the line that raised the error
            error_type = NeedsAdapterError if CALL_ERRORS.match(at.error or "") else RequestError
            raise error_type(f"{describe_failure(at)}: {shorten(text, QUOTED)}")
        return found

    def fit(self, tried: Sequence[Sequence[Trial]]) -> Fit:
        """Fit the formula to one of these groups of trials: in float64, then with float32 inside, then with mistakes.

        Raises RequestError if nothing fits and the code has an undeclared window, or parts or weights that the formula
        lacks.
        """
        bare = ((self.parts, dtype) for dtype in DTYPES)
        around = (([*self.parts, part], dtype) for dtype in DTYPES for part in self.around)
        for parts, self.precision in chain(bare, around):
            tried = [[replace(one, precision=self.precision) for one in trials] for trials in tried]
            for (under, base), trials in product(bases(parts), tried):
                if all(one.fits(base) for one in trials):
                    self.parts = parts
                    made = self.make_fit(trials[0], (), under, base, base)
                    return replace(made, unused=self.unused_parts(made, trials[0]))
        first = tried[0][0]
        unknown = [name for name in self.others if name in self.weights and not LAYER_NORM.search(name)]
        if unknown and not self.zeroed:
            self.subject.fill({name: torch.zeros_like(self.weights[name]) for name in unknown})
            plain = self.run(first.form, first.reading, first.inputs, first.dtype).result
            if plain is None or first.result is None or difference(plain.output, first.result.output) > 0:
                self.zeroed = unknown
                return self.fit(self.trials())
        if first.form.roles.has("memory") and first.inputs.query.shape[-1] == first.inputs.key.shape[-1]:
            joined = []
            for one in tried[0]:
                both = torch.cat([one.inputs.key, one.inputs.query], dim=-2)
                joined.append(replace(one, inputs=one.inputs._replace(key=both, value=both)))
            if any(all(one.fits(base) for one in joined) for _, base in bases(self.parts)):
                raise RequestError(
                    f"{self.subject.name} attends to its queries too, not to the memory alone, as a Perceiver "
                    "resampler does: that can't be checked"
                )
        known = self.mistakes_of(first.form, 1 if first.reading is None else first.reading.heads)
        with_parts = [self.parts, *([*self.parts, part] for part in self.around)]
        variants = [conventions.candidates(tried[0], parts, known, parts is self.parts) for parts in with_parts]
        if not self.zeroed:
            variants.append(conventions.pairs_of(self.parts, known))
        for mistakes, under, formula, base in islice(chain.from_iterable(variants), SEARCH):
            for trials in tried if len(mistakes) < 2 else tried[:2]:
                if all(one.fits(formula) for one in trials):
                    if all(replace(one, precision="float64").fits(formula) for one in trials):
                        self.precision = "float64"
                    return self.make_fit(trials[0], mistakes, under, formula, base)
        keys = first.inputs.key.shape[-2]
        for window in range(2, keys):
            for part in conventions.window_parts(window)[: 2 if window < keys - 1 else 1]:
                if any(all(one.fits(base) for one in tried[0]) for _, base in bases([part._replace(needed=True)])):
                    raise RequestError(
                        f"it has a window of {window} tokens, but no parameter or attribute named window: store the "
                        "number under that name, so that it can be compared"
                    )
        if self.parts or self.others:
            extra = ", ".join(self.others) or " or ".join(name for part in self.parts for name in part.ways)
            raise RequestError(
                f"{self.subject.name} is neither the formula nor has a known mistake, and has parts that can't be "
                f"checked ({shorten(extra, 150)}): check it without them, or the whole model with "
                "attncli.testing.assert_no_leak"
            )
        self.precision = "float64"
        return replace(self.make_fit(first, (), (), RIGHT, RIGHT), known=False)

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

    # --- masks --------------------------------------------------------------------------------------------

    def fit_masks(self, fit: Fit) -> Fit:
        """Find the shapes of masks that the subject understands, and what True, 1 or 0 means in them."""
        for role in self.roles.masks:
            # If a parameter is for a mask of keys, `mask` is for pairs of queries and keys.
            own = role != "mask" or not self.roles.has("padding", "lengths")
            fit = self.fit_mask(fit, role, own)
        return fit

    def fit_mask(self, fit: Fit, role: str, own: bool) -> Fit:
        known = [one for one in calling.encodings(role, self.roles.declared(role)) if own or "query" in one.shape]
        if not fit.form.layout.has("token"):  # a mask [query, key] with one query is one that all texts share
            known = [one for one in known if "query" not in one.shape or "batch" in one.shape]
        taken: list[Trial] = []
        # Some code takes a mask only if a batch has as many texts as heads. A mask that it applies to the queries
        # instead of the memory fits only a memory of the same length.
        lengths = (True, False) if role == "memory_padding" else (True,)
        for crosses, texts in product(lengths, dict.fromkeys((Shape().batch, fit.heads))):
            if taken and (texts == fit.heads or not crosses):
                break
            tried = [trial for one in known for trial in self.try_mask(fit, role, one, texts, crosses)]
            taken += [trial for trial in tried if trial.result is not None]
            for variant in (fit, unless_masked(fit)) if "causal by itself" in fit.conventions else (fit,):
                right = [one for one in taken if one.fits(variant.variant, padded=False)]
                if variant is not fit:  # a caller can put causality only into a mask of queries and keys
                    right = [one for one in right if "query" in one.form.encodings[role].shape]
                if right:
                    chosen = self.choose_meaning(variant, role, right)
                    if chosen is None:
                        break  # the only form that works is one that no caller passes
                    meaning = chosen.form.encodings[role][1:]
                    same = [one.form.encodings[role] for one in right if one.form.encodings[role][1:] == meaning]
                    return variant.with_encodings(role, same)
        return self.fit_wrong_mask(fit, role, taken) if taken else fit

    def choose_meaning(self, fit: Fit, role: str, right: Sequence[Trial]) -> Trial | None:
        """Return a trial with the meaning that also works in half precision.

        Return None if only -inf hides enough and the code does not add the mask. Such code expects 0 and 1, which hide
        too little in it.
        """
        first = {one.form.encodings[role][1:]: one for one in reversed(right)}
        plain = [first[one] for one in calling.MEANINGS[:-1] if one in first]
        for trial in plain:
            half = [self.run(trial.form, trial.reading, trial.inputs, dtype) for dtype in HALVES]
            if all(one.result is not None and one.fits(fit.variant, padded=False) for one in half):
                return trial
        if plain or self.roles.declared(role):
            return [*plain, right[0]][0]
        trial = right[0]
        call = trial.form.call(trial.inputs, trial.dtype, dropout=self.dropout)
        if re.search(r"\b1(?:\.0*)? - [^\n]*mask", self.subject.lines_run(call)):  # written for a mask of 0 and 1
            return None

        def soften(x: Any) -> Any:
            return x.masked_fill(x.isinf(), SOFT) if isinstance(x, torch.Tensor) else x

        soft = call._replace(
            arguments=tuple(map(soften, call.arguments)),
            keywords={name: soften(x) for name, x in call.keywords.items()},
        )
        softly = replace(trial, returned=self.subject.call(soft))

        def add(scores: torch.Tensor, mask: torch.Tensor, own: bool) -> torch.Tensor:
            kept = fit.variant.mask(Masking(), *scores.shape[-2:]) if own else None  # causality or a window
            soft = scores + (~mask) * SOFT
            return soft if kept is None else soft.masked_fill(~kept, -torch.inf)

        added = [change_steps(fit.variant, {"hide": partial(add, own=own), "forbid": keep}) for own in (False, True)]
        return trial if any(softly.fits(one, padded=False) for one in (fit.variant, *added) if one) else None

    def part_variants(self, fit: Fit) -> Iterator[tuple[tuple[Mistake, ...], Formula]]:
        """Yield the mistakes possible in each part, with the formula of the fit changed accordingly."""
        for part in self.parts:
            others = [one for one in self.parts if one is not part]
            for mistakes, under, made, _ in conventions.with_part_mistakes(part, bases(others)):
                if {*under} - part.ways.keys() == {*fit.conventions} - part.ways.keys():
                    yield mistakes, made

    def fit_wrong_mask(self, fit: Fit, role: str, taken: Sequence[Trial]) -> Fit:
        finite = [one for one in taken if one.result and one.result.output.isfinite().any()]
        taken = finite or taken  # outputs of only NaN tell nothing
        first = {one.form.encodings[role][1:]: one for one in reversed(taken)}
        for (mistakes, made), trial in product(self.part_variants(fit), first.values()):
            if trial.fits(made):
                return fit.with_encodings(role, [trial.form.encodings[role]], mistakes=mistakes, variant=made)
        for mistake in self.mistakes_of(fit.form, fit.heads):
            trials = list(first.values()) if mistake.name == WEAK else taken
            for change in mistake.changes:
                formula = change_steps(fit.variant, change) if set(change) <= MASK_STEPS else None
                for trial in trials if formula is not None else ():
                    if formula is not None and trial.fits(formula):
                        mistakes = (*(one for one in fit.mistakes if one.name != mistake.name), mistake)
                        accepted = [trial.form.encodings[role]]
                        return fit.with_encodings(role, accepted, mistakes=mistakes, variant=formula)
        return fit.with_encodings(role, [taken[0].form.encodings[role]], known=False)

    def try_mask(self, fit: Fit, role: str, encoding: Encoding, texts: int, crosses: bool) -> Iterator[Trial]:
        """Yield a trial with a random mask, if this encoding can express it."""
        form = fit.form._replace(encodings={**fit.form.encodings, role: encoding})
        may_cross = "query" in encoding.shape or role == "memory_padding" or not form.layout.has("token")
        crosses = crosses and fit.crosses and may_cross
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


def refuse_second_call(returned: Returned) -> NoReturn:
    raise RequestError(f"it fails when it is called again: {returned.describe()}")


def describe_failure(returned: Returned) -> str:
    problem = "nothing that it returns has the output's shape" if returned.error is None else "it can't be run"
    return f"{problem}: {returned.describe()}"


def makes_needless(trial: Trial, form: CallForm, reading: WeightLayout | None) -> bool:
    """Return whether a trial makes it needless to try this form: code that takes heads is not tried without them."""
    layout, other = trial.form.layout, form.layout
    dimensions = [one.has("batch") + one.has("head") for one in (layout, other)]
    is_fitting = trial.crosses or not form.roles.crosses
    return (
        (reading is None and dimensions[0] > dimensions[1])
        or (is_fitting and other.columns > layout.columns)
        # One query per text is tried only if several fail: code that is wrong for several may be right for one.
        or (not other.has("token") and layout.has("token") and not layout.columns)
        or (layout == other and trial.reading is reading)
    )


# --- mistakes that explain all trials ---------------------------------------------------------------------


def diagnose(fit: Fit, attention: FilledSubject, trials: Sequence[Trial], nowhere: bool) -> tuple[Mistake, ...]:
    """Return the fewest mistakes that explain all trials, beginning with those of the fit. May be empty.

    nowhere: explain fully masked rows too.
    """
    if all(trial.fits(fit.formula, padded=False) for trial in trials):
        return ()
    if not any(array.isfinite().any() for trial in trials for array in trial.returned.arrays[:1]):
        return ()  # many mistakes give errors and NaN
    # First come the trials that are most likely to rule out a variant.
    difficult = sorted(trials, key=lambda trial: (trial.fits(fit.variant), trial.inputs.query.numel()))
    for mistakes, formula in islice(suspects(fit, attention), SEARCH):
        if mistakes and all(trial.fits(formula, nowhere=nowhere) for trial in difficult):
            return tuple(with_number(one, formula) for one in mistakes)
    return ()


def with_number(mistake: Mistake, formula: Formula) -> Mistake:
    """Name the number that hides too little, and how far scores must differ for that."""
    number = getattr(formula.hide, "keywords", {}).get("number")
    if mistake.name != WEAK or number is None:
        return mistake
    size = f" for scores that differ by {-number - STRENGTH:.3g} or more" if number < -STRENGTH else ""
    return mistake._replace(says=f"whose hidden keys keep weight: {number:g} is not low enough{size}")


def suspects(fit: Fit, attention: FilledSubject) -> Iterator[tuple[tuple[Mistake, ...], Formula]]:
    """Yield the mistakes to try, each time with the formula that has them. The likeliest come first."""
    known = attention.mistakes_of(fit.form, fit.heads)
    if fit.known:
        yield fit.mistakes, fit.variant
        yield from attention.part_variants(fit)
        for mistake in known:
            if mistake.name not in {one.name for one in fit.mistakes}:
                yield from (((*fit.mistakes, mistake), made) for made in with_mistakes(fit.variant, (mistake,)))
    for mistakes in (*combinations(known, 1), *combinations(known, 2)):
        few = conventions.FEW if len(mistakes) > 1 else None
        yield from ((mistakes, made) for made in with_mistakes(fit.formula, mistakes, few))


def unless_masked(fit: Fit) -> Fit:
    """Return the fit in which any mask turns causality off."""
    formula, variant = (change_steps(one, conventions.MASKED_ONLY) for one in (fit.formula, fit.variant))
    assert formula is not None and variant is not None
    under = tuple(conventions.UNLESS_MASKED if one == "causal by itself" else one for one in fit.conventions)
    return replace(fit, formula=formula, variant=variant, conventions=under)


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
