"""Trying a subject on inputs of every kind, each answer beside the formula's."""

from dataclasses import replace
from itertools import product
from typing import Any

import torch
from torch import Tensor

from attncli.attention.masks import causal_mask
from attncli.attention.mistakes import Inputs, Result, Seen
from attncli.checks.code.subject import Call
from attncli.checks.theirs.attention.conventions import is_causal, is_ordered
from attncli.checks.theirs.attention.fitting import Asked, Fit
from attncli.checks.theirs.attention.trial import Trial, no_output, shape_in
from attncli.checks.theirs.calling import drawing
from attncli.checks.theirs.calling.drawing import Shape
from attncli.checks.theirs.calling.forms import Encoding, Form
from attncli.checks.theirs.comparing import difference, unread_queries
from attncli.checks.theirs.found import Check

LARGE = 60.0  # so many times larger, inputs give scores of which exp overflows in float64
LONG = 100
HALVES = ("bfloat16", "float16")
NOWHERE, GIVES_NAN, GIVES_ZERO = "a query that may see nothing", "it gives NaN", "it gives 0"
OVERFLOW = "overflow"  # what errors say that come of a number that half precision doesn't have


class Examination:
    """Of one subject. trials: all that it was tried on, with its answers."""

    def __init__(self, asked: Asked, fit: Fit, nowhere: str) -> None:
        self.asked = asked
        self.fit = fit
        self.nowhere = nowhere
        self.trials: list[Trial] = []
        self.forms = [
            fit.form._replace(encodings=dict(zip(fit.accepted, chosen, strict=True)))
            for chosen in product(*fit.accepted.values())
        ]
        self.implied = () if fit.reading is None else fit.reading.mistakes
        self.causal, self.ordered = is_causal(fit.conventions), is_ordered(fit.conventions)

    # --- inputs -----------------------------------------------------------------------------------------

    def draw(self, crosses: bool = True, seed: int = 3, **sizes: int) -> Inputs:
        """Of these sizes, as far as the form has them."""
        shape = shape_in(self.fit.form, Shape(**sizes))
        return self.asked.draw(self.asked.roles, self.fit.reading, shape, crosses and self.fit.crosses, seed)

    def pairs(self, inputs: Inputs, mask: Tensor) -> Inputs:
        return inputs._replace(seen=Seen(pairs=mask))

    def padded(self, inputs: Inputs) -> Inputs:
        return inputs._replace(
            seen=inputs.seen._replace(padding=drawing.some_padding(inputs.query.shape[0], inputs.key.shape[-2]))
        )

    def hiding(self, inputs: Inputs, mask: Tensor) -> Inputs | None:
        """With this mask `[query, key]`, as far as any way to say a mask can say it; None where none can."""
        if bool((mask == mask[:1]).all()):
            made = inputs._replace(seen=Seen(padding=mask[:1].expand(inputs.query.shape[0], -1)))
        else:
            made = self.pairs(inputs, mask)
        return made if self.form_of(made) is not None else None

    def form_of(self, inputs: Inputs) -> Form | None:
        """The first of the ways to call it that can say what is to be hidden."""
        return next((form for form in self.forms if form.can(inputs)), None)

    # --- answers ----------------------------------------------------------------------------------------

    def expected(self, inputs: Inputs) -> Result:
        return self.fit.formula(inputs)

    def run(self, inputs: Inputs, dtype: str | None = None, **how: Any) -> Trial:
        """Without a form for it, as well as may be."""
        form, dtype = self.form_of(inputs) or self.fit.form, dtype or self.fit.dtype
        answer = self.asked.ask(form, inputs, dtype, **how)
        return Trial(form, self.fit.reading, inputs, answer, dtype, self.fit.precision)

    def compare(self, name: str, inputs: Inputs | None, dtype: str | None = None, **how: Any) -> Check:
        """Beside the formula; the trial is kept, for the diagnosis. Without inputs it can't be tried."""
        if inputs is None or self.form_of(inputs) is None:
            return Check(name, None, note="it takes no such input")
        trial = self.run(inputs, dtype, **how)
        self.trials.append(trial)
        return self.judged(name, trial)

    def unless_refused(self, name: str, trial: Trial, what: str = "it") -> Check:
        """As `compare`, of what may be refused aloud, which is not wrong."""
        error = trial.answer.error
        if error is not None:
            return Check(name, None, note=f"it does not take {what}: {error}")
        self.trials.append(trial)
        return self.judged(name, trial)

    def judged(self, name: str, trial: Trial) -> Check:
        if trial.result is None:
            return Check(name, False, note=no_output(trial.answer))
        ours = self.expected(trial.inputs)
        gap = difference(trial.result.output, ours.output, ignored=unread_queries(trial.inputs, ours))
        return Check(name, gap <= trial.within, gap)

    # --- the kinds of inputs ----------------------------------------------------------------------------

    def shapes(self) -> list[Check]:
        """Lengths, texts, heads, sizes."""
        return [
            self.compare("self-attention", self.draw(crosses=False)),
            *self.cross(),
            self.compare("one text", self.draw(batch=1)),
            *self.some_heads(),
            self.compare("one token", self.draw(crosses=False, keys=1)),
            self.long(),
            self.strided(),
            self.compare("large scores", self.larger(self.draw())),
            *self.flags(),
            *self.cached(),
        ]

    def cross(self) -> list[Check]:
        name = "cross-attention, of other lengths"
        if not self.asked.roles.crosses:
            return []
        if not self.fit.crosses:
            return [Check(name, None, note="it takes no keys of another length")]
        return [self.compare(name, self.draw())]

    def strided(self) -> Check:
        return self.unless_refused("inputs that are no block in memory", self.run(self.draw(), strided=True), "them")

    def long(self) -> Check:
        """What has a mask of its own may end before that many tokens."""
        trial = self.run(self.draw(batch=1, heads=1, queries=LONG, keys=LONG))
        return self.unless_refused(f"{LONG} tokens", trial, "so many")

    def some_heads(self) -> list[Check]:
        """Of a function: one head; fewer key heads, and its own causal mask, where it has such things."""
        if self.fit.reading is not None:
            return []
        checks = [
            self.compare("one head", self.draw(heads=1)),
            self.compare("values of another size", self.draw(d_v=6)),
        ]
        grouped = self.run(self.draw(seed=12, key_heads=2)) if self.fit.form.layout.heads else None
        if grouped is not None and grouped.result is not None:
            self.trials.append(grouped)
            checks.append(self.judged("fewer key heads", grouped))
        return checks

    def cached(self) -> list[Check]:
        """Three steps, each with the cache of the one before, beside one pass: some tokens, two more, and one more."""
        if not self.asked.roles.has("cache"):
            return []
        if self.asked.roles.has("memory"):
            return [Check("steps with a cache", None, note="its cache may be that of a memory")]
        name = "steps with a cache"
        whole = self.draw(crosses=False, seed=16)
        tokens = whole.query.shape[-2]
        ends = (tokens - 3, tokens - 1, tokens)
        starts = (0, *ends[:-1])
        allowed = causal_mask(tokens)
        if not self.causal and "mask" not in self.fit.accepted:  # each step sees all of its own tokens
            upto = torch.tensor([end for start, end in zip(starts, ends, strict=True) for _ in range(start, end)])
            allowed = torch.arange(tokens) < upto[:, None]
        form = self.fit.form
        calls: list[Call] = []
        outputs: list[Tensor] = []
        for step, (start, end) in enumerate(zip(starts, ends, strict=True)):
            now = drawing.some_tokens(whole, range(start, end))
            mask = None if self.causal else allowed[start:end, :end].expand(now.query.shape[0], 1, -1, -1)
            call = form.call(now, self.fit.dtype, step, mask, dropout=self.asked.dropout)
            answer = self.asked.subject.call(call._replace(earlier=tuple(calls)))
            trial = Trial(form, self.fit.reading, now, answer, self.fit.dtype)
            if trial.result is None:
                return [Check(name, False if step else None, note=f"step {step + 1}: {no_output(answer)}")]
            outputs.append(trial.result.output)
            calls.append(call)
        ours = self.expected(self.pairs(whole, allowed)).output
        gap = difference(torch.cat(outputs, dim=-2), ours)
        within = Trial(form, self.fit.reading, whole, answer, self.fit.dtype, self.fit.precision).within
        return [Check(name, gap <= within, gap)]

    def flags(self) -> list[Check]:
        """`is_causal`, where there is such a parameter."""
        if not self.asked.roles.has("causal"):
            return []
        inputs = self.draw(crosses=False, seed=13)._replace(seen=Seen(causal=True))
        return [self.unless_refused("causal by its own flag", self.run(inputs), "it alone")]

    def larger(self, inputs: Inputs) -> Inputs:
        """Queries and keys LARGE times as large."""
        return drawing.with_vectors(inputs, lambda x: x * LARGE, ("query", "key"))

    def masks(self) -> list[Check]:
        """Who may look at whom."""
        if not self.fit.accepted:
            taken = self.asked.roles.masks
            return [Check("masks", None, note=f"no way to say {taken[0]} is understood")] if taken else []
        whole = self.draw(crosses=False)
        tokens = whole.query.shape[-2]
        checks = [
            self.compare("causal mask", self.pairs(whole, causal_mask(tokens))),
            self.compare("padding mask", self.padded(whole)),
        ]
        cross = self.draw()
        if cross.query.shape[-2] != cross.key.shape[-2]:
            memory = drawing.some_pairs(1, cross.query.shape[-2], cross.key.shape[-2], seed=4)
            checks += [
                self.compare("memory mask", self.pairs(cross, memory)),
                self.compare("padding of the memory", self.padded(cross)),
            ]
        own = self.draw(batch=self.fit.heads, crosses=False, seed=14)
        each = drawing.some_pairs(own.query.shape[0], tokens, tokens, seed=15, diagonal=True)
        checks += [
            self.compare("a mask for each text, as many as heads", self.pairs(own, each)),
            self.compare("[PAD], as many texts as heads", self.padded(own)),
            self.compare("large scores, masked", self.first_that_can(self.larger(self.draw(seed=5)))),
            *(self.silent(role, encoding) for role, encoding in self.fit.silent),
        ]
        if "mask" in self.fit.accepted and {"padding", "lengths"} & set(self.fit.accepted):
            checks.append(self.compare("both masks together", self.padded(self.pairs(own, each))))
        return [*checks, self.nothing_seen()]

    def silent(self, role: str, encoding: Encoding) -> Check:
        """A mask that it takes without a word, in a shape beside those that are understood, and that it gets wrong."""
        form = self.fit.form._replace(encodings={**self.fit.form.encodings, role: encoding})
        inputs = self.draw(crosses=False, seed=2)
        inputs = self.pairs(
            inputs, drawing.some_pairs(inputs.query.shape[0], *(inputs.key.shape[-2],) * 2, diagonal=True)
        )
        answer = self.asked.ask(form, inputs, self.fit.dtype)
        trial = Trial(form, self.fit.reading, inputs, answer, self.fit.dtype, self.fit.precision)
        return self.judged(f"a mask as {encoding.dimensions}", trial)

    def first_that_can(self, inputs: Inputs) -> Inputs | None:
        mask = drawing.some_pairs(1, inputs.query.shape[-2], inputs.key.shape[-2], seed=6)[0, 0]
        return self.hiding(inputs, mask) or self.hiding(inputs, mask[:1].expand_as(mask))

    def nothing_seen(self) -> Check:
        """A query that may see nothing: 0 (and W_O's bias), NaN, or anything: as was asked for."""
        name = NOWHERE
        inputs = self.draw(seed=7)
        queries, keys = inputs.query.shape[-2], inputs.key.shape[-2]
        mask = torch.ones(queries, keys, dtype=torch.bool)
        mask[-1] = False
        made = self.hiding(inputs, mask)
        if made is None:
            padding = torch.ones(inputs.query.shape[0], keys, dtype=torch.bool)
            padding[-1] = False
            made = inputs._replace(seen=Seen(padding=padding))
        if self.form_of(made) is None:
            return Check(name, None, note="its mask can't say so")
        trial = self.run(made)
        if trial.result is None:
            return Check(name, None if self.nowhere == "any" else False, note=no_output(trial.answer))
        ours = self.expected(made)
        assert ours.nowhere is not None
        rows = ours.nowhere if ours.output.dim() == 4 else ours.nowhere.any(1)
        is_nan = bool(trial.result.output[rows].isnan().any())
        is_zero = difference(trial.result.output[rows], ours.output[rows]) <= trial.within
        told = GIVES_NAN if is_nan else GIVES_ZERO if is_zero else "it attends to what is hidden"
        if self.nowhere == "any":
            return Check(name, True, note=told)
        self.trials.append(trial)
        gap = difference(trial.result.output, ours.output, ours.nowhere)
        allowed = {"zero-or-nan": True, "zero": not is_nan, "nan": is_nan}[self.nowhere]
        return Check(name, gap <= trial.within and allowed, gap, told)

    def precisions(self) -> list[Check]:
        """What it takes beside float64."""
        checks = []
        if self.fit.dtype == "float64":
            checks.append(self.compare("float32", self.draw(seed=8), "float32"))
        for dtype in HALVES:
            checks += [self.half(dtype, dtype, self.draw(seed=9))]
            if self.fit.accepted:
                checks += [self.half(f"{dtype}, masked", dtype, self.first_that_can(self.draw(seed=9)))]
        return checks

    def half(self, name: str, dtype: str, inputs: Inputs | None) -> Check:
        """In half precision, which it need not take: -1e9 for what is hidden does not exist there."""
        if inputs is None:
            return Check(name, None, note="it takes no such input")
        trial = self.run(inputs, dtype)
        if OVERFLOW in (trial.answer.error or ""):
            if self.nowhere != "any":
                self.trials.append(trial)
            note = f"a number for what is hidden is too large for {dtype}"
            return Check(name, None if self.nowhere == "any" else False, note=note)
        return self.unless_refused(name, trial)

    # --- answers as such --------------------------------------------------------------------------------

    def its_weights(self) -> list[Check]:
        """Only where one is not there."""
        return [Check("its weights", False, note="there is no W_V")] if self.implied else []

    def answers(self, random: bool) -> list[Check]:
        """Of all trials: whether an input was changed, and whether the same comes twice. random: that it does not."""
        changed = any(trial.answer.changed for trial in self.trials)
        return [Check("inputs are not changed", not changed), self.twice(random)]

    def twice(self, random: bool) -> Check:
        name = "the same twice"
        if random:
            return Check(name, False, note="it draws something anew each time, in eval too")
        inputs = self.draw(seed=10)
        first = self.run(inputs)
        call = first.form.call(inputs, first.dtype, dropout=self.asked.dropout)
        second = replace(first, answer=self.asked.subject.call(call._replace(earlier=(call,))))
        if first.result is None or second.result is None:
            return Check(name, None, note=no_output(first.answer))
        gap = difference(first.result.output, second.result.output)
        return Check(name, gap == 0 or gap <= first.within, gap)

    def weights(self) -> Check:
        """What is returned beside the output, where that has the shape of weights."""
        name = "the weights that it gives"
        inputs = self.draw(seed=11)
        trial = self.run(inputs)
        if trial.result is None or not trial.result.weights.numel():
            return Check(name, None, note="it gives none")
        ours = self.expected(inputs).weights
        theirs = trial.result.weights
        note = ""
        if theirs.shape[1] < ours.shape[1]:
            ours, note = ours.mean(1, keepdim=True), "their mean over heads"
        gap = difference(theirs, ours)
        return Check(name, gap <= trial.within, gap, note)
