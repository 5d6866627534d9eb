"""Trying a layer on inputs of every kind, each answer beside the formula's, and its laws."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attncli.attention.masks import causal_mask
from attncli.attention.mistakes.layer_formula import RIGHT_LAYER, LayerInputs
from attncli.checks.theirs.calling import drawing
from attncli.checks.theirs.comparing import difference
from attncli.checks.theirs.found import Check
from attncli.checks.theirs.layers.asking import Asked, hidden
from attncli.checks.theirs.layers.fitting import ITSELF, LayerFit
from attncli.checks.theirs.layers.forms import CROSS, hiding_by
from attncli.checks.theirs.layers.trials import LayerTrial, computed

LARGE = 30.0  # so many times larger, weights give scores of which exp overflows in float64
OVERFLOW = "overflow"  # what errors say that come of a number that half precision doesn't have
HALVES = ("bfloat16", "float16")
MORE = 3  # tokens that are appended


class LayerExamination:
    """Of one layer. trials: all that it was tried on, with its answers."""

    def __init__(self, asked: Asked, fit: LayerFit) -> None:
        self.asked = asked
        self.fit = fit
        self.trials: list[LayerTrial] = []
        self.itself = ITSELF in fit.conventions
        self.batch = 3 if fit.form.layout.batch else 1

    def run(self, inputs: LayerInputs, dtype: str | None = None, **how: Any) -> LayerTrial:
        return self.asked.tried(self.fit.form, inputs, dtype or self.fit.dtype, **how)

    def draw(self, tokens: int = 7, keys: int = 5, batch: int | None = None, seed: int = 3) -> LayerInputs:
        return self.asked.draw(self.batch if batch is None else min(batch, self.batch), tokens, keys, seed)

    def judged(self, name: str, trial: LayerTrial, nowhere: str | None = None) -> Check:
        """Beside the formula; the trial is kept, for the diagnosis."""
        self.trials.append(trial)
        expected = computed(self.fit.formula, trial.read_by(self.fit.reading))
        if trial.output is None or expected is None:
            return Check(name, False, note=trial.answer.error or "it gives nothing of the output's shape")
        where = None if nowhere is None else expected.nowhere[:, None]
        gap = difference(trial.output[:, None], expected.output[:, None], where)
        within = trial.within(self.fit.formula, self.fit.reading)
        return Check(name, gap <= within, gap)

    # --- beside the formula -----------------------------------------------------------------------------

    def shapes(self) -> list[Check]:
        tried = {"without a mask": self.draw(), "one text": self.draw(batch=1, seed=4), "one token": self.draw(1, 1)}
        if self.asked.decoder:
            tried |= {"a memory longer than the text": self.draw(4, 9), "a memory of one token": self.draw(5, 1)}
        made = [self.judged(name, self.run(inputs)) for name, inputs in tried.items()]
        return [*made, self.large()]

    def large(self) -> Check:
        """With scores so large that exp overflows."""
        names = self.fit.reading.scored
        weights = {name: w * LARGE if name in names else w for name, w in self.asked.weights.items()}
        self.asked.subject.fill(weights)
        trial = replace(self.run(self.draw(seed=5)), weights=weights)
        self.asked.subject.fill(self.asked.weights)
        return self.judged("large scores", trial)

    def masks(self) -> list[Check]:
        """Every way to say a mask that it takes; then a query that may see nothing."""
        made = []
        names = {role: name for name, role, _ in self.fit.form.places}
        for role in self.fit.form.masks:
            tried = [hidden(self.asked, self.fit, role, one, seed=6) for one in self.fit.accepted.get(role, ())]
            judged = [self.judged(names[role], trial) for trial in tried if trial is not None]
            note = "; ".join(str(one) for one in self.fit.accepted.get(role, ()))
            if not judged:
                made.append(Check(names[role], None, note="no mask that is tried is taken"))
                continue
            worst = max(judged, key=lambda check: check.difference or 0.0)
            made.append(Check(names[role], all(check.holds for check in judged), worst.difference, note))
        return [*made, self.nothing_seen()]

    def hiding(self, inputs: LayerInputs, mask: Tensor) -> LayerInputs | None:
        """With this mask of the text, `[batch, 1, query, key]` or `[batch, key]`; None where it takes none such."""
        for role in self.fit.form.masks:
            made = hiding_by(inputs, role, mask)
            if not role.startswith(CROSS) and self.fit.form.encoded(made) is not None:
                return made
        return None

    def nothing_seen(self) -> Check:
        """A query that may see nothing gives NaN, or adds nothing, as is wanted."""
        name = "a query that may see nothing"
        wanted = self.asked.wanted.nowhere
        inputs = self.draw(seed=7)
        pairs = drawing.some_pairs(1, 7, 7).expand(self.batch, -1, -1, -1).clone()
        pairs[:, :, 2] = False
        padding = drawing.some_padding(self.batch, 7)
        padding[-1] = False
        hiding = self.hiding(inputs, pairs)
        hiding = self.hiding(inputs, padding) if hiding is None else hiding
        if hiding is None or wanted == "any":
            return Check(name, None, note="it takes no such mask" if hiding is None else "anything is right")
        trial = self.run(hiding)
        check = self.judged(name, trial, nowhere=wanted)
        is_nan = trial.output is not None and bool(trial.output.isnan().any())
        allowed = {"zero-or-nan": True, "zero": not is_nan, "nan": is_nan}[wanted]
        told = "it gives NaN" if is_nan else "attention gives 0" if check.holds else "it looks at what is forbidden"
        return check._replace(holds=check.holds and allowed, note=told)

    def precisions(self) -> list[Check]:
        made = [self.judged("float32", self.run(self.draw(seed=8), "float32"))] if self.fit.dtype == "float64" else []
        masked = self.hiding(self.draw(seed=9), drawing.some_pairs(1, 7, 7).expand(self.batch, -1, -1, -1))
        masked = self.hiding(self.draw(seed=9), drawing.some_padding(self.batch, 7)) if masked is None else masked
        for dtype in HALVES:
            made.append(self.half(dtype, dtype, self.draw(seed=9)))
            if masked is not None:
                made.append(self.half(f"{dtype}, masked", dtype, masked))
        return made

    def half(self, name: str, dtype: str, inputs: LayerInputs) -> Check:
        """What does not take half precision is not wrong; what has numbers in it that are too large is."""
        trial = self.run(inputs, dtype)
        error = trial.answer.error
        if error is not None and OVERFLOW not in error:
            return Check(name, None, note=f"it does not take it: {error}")
        return self.judged(name, trial)

    def gradients(self) -> Check:
        """Of what is given, beside those of the formula."""
        name = "gradients"
        inputs = self.draw(seed=10)
        given = [one.requires_grad_() for one in (inputs.x, inputs.memory) if one is not None]
        output = self.fit.formula(self.run(inputs).read_by(self.fit.reading)).output
        cotangent = torch.randn(output.shape, generator=torch.Generator().manual_seed(11), dtype=torch.float64)
        ours = torch.autograd.grad((output * cotangent).sum(), given)
        plain = inputs._replace(x=inputs.x.detach(), memory=None if inputs.memory is None else inputs.memory.detach())
        trial = self.run(plain, cotangent=self.fit.form.layout.put(cotangent))
        theirs = trial.answer.gradients
        if not theirs or len(theirs) < len(ours):
            return Check(name, None, note=trial.answer.error or "none can be had")
        gap = max(difference(self.fit.form.layout.take(one), other) for one, other in zip(theirs, ours, strict=False))
        most = max(1.0, *(float(one.abs().max()) for one in ours))
        return Check(name, gap <= most * 100 * trial.within(self.fit.formula, self.fit.reading), gap)

    # --- laws, and answers ------------------------------------------------------------------------------

    def laws(self) -> list[Check]:
        return [self.permuted(), *self.memory_is_a_set(), self.future(), self.padded()]

    def permuted(self) -> Check:
        name = "permuting tokens permutes the output"
        if self.itself or self.fit.formula.positions is not RIGHT_LAYER.positions:
            return Check(name, None, note="its tokens have an order")
        inputs, order = self.draw(seed=12), torch.randperm(7, generator=torch.Generator().manual_seed(0))
        return self.same(name, inputs, inputs._replace(x=inputs.x[:, order]), order, slice(None))

    def memory_is_a_set(self) -> list[Check]:
        inputs = self.draw(seed=13)
        if inputs.memory is None:
            return []
        other = inputs._replace(memory=inputs.memory.flip(1))
        return [self.same("permuting the memory changes nothing", inputs, other)]

    def future(self) -> Check:
        """Under a causal mask."""
        name = "the future changes no prefix"
        whole = self.draw(seed=14)
        texts: list[LayerInputs | None] = [whole, whole._replace(x=whole.x[:, :-MORE])]
        if not self.itself and self.fit.formula.masks is RIGHT_LAYER.masks:
            texts = [self.hiding(x, causal_mask(x.x.shape[1])[None, None]) for x in texts if x is not None]
        masked, prefix = texts
        if masked is None or prefix is None:
            return Check(name, None, note="it takes no such mask")
        return self.same(name, masked, prefix, slice(7 - MORE))

    def padded(self) -> Check:
        """Appended [PAD] that is hidden."""
        name = "appended [PAD] changes nothing"
        whole = self.draw(seed=15)
        real = (torch.arange(7) < 7 - MORE).expand(self.batch, -1)
        masked = self.hiding(whole, real)
        if masked is None:
            return Check(name, None, note="it takes no such mask")
        return self.same(name, masked, whole._replace(x=whole.x[:, :-MORE]), slice(7 - MORE))

    def same(
        self, name: str, one: LayerInputs, other: LayerInputs, of: slice | Tensor = slice(None), at: slice = slice(None)
    ) -> Check:
        """Whether these tokens' outputs of two runs are the same."""
        first, second = self.run(one), self.run(other)
        if first.output is None or second.output is None:
            return Check(name, None, note=first.answer.error or second.answer.error or "it can't be run so")
        gap = difference(first.output[:, of], second.output[:, at])
        return Check(name, gap <= first.within(self.fit.formula, self.fit.reading), gap)

    def answers(self) -> list[Check]:
        """Whether an input was changed; whether the same comes twice, dropout being as eval leaves it."""
        changed = any(trial.answer.changed for trial in self.trials)
        inputs = self.draw(keys=7, seed=16)
        first, second = self.run(inputs, dropout=True), self.run(inputs, dropout=True)
        twice = Check("the same twice", None, note=first.answer.error or "")
        if first.output is not None and second.output is not None:
            gap = difference(first.output, second.output)
            twice = Check("the same twice", gap == 0, gap)
        return [Check("inputs are not changed", not changed), twice]

    def smallest(self) -> str:
        """The smallest input on which it differs, and both results, in words."""
        for tokens in range(1, 8):
            trial = self.run(self.draw(tokens, 1, batch=1))
            if not self.judged("", trial).holds:
                return told(tokens, trial, self.fit)
        return ""


def told(tokens: int, trial: LayerTrial, fit: LayerFit) -> str:
    def few(x: Tensor | None) -> str:
        return "nothing" if x is None else f"[{', '.join(f'{number:.4g}' for number in x.flatten()[:4].tolist())}, ...]"

    expected = computed(fit.formula, trial.read_by(fit.reading))
    ours = None if expected is None else expected.output[0, -1]
    theirs = None if trial.output is None else trial.output[0, -1]
    return f"on one text of {tokens} tokens the last one's output is {few(theirs)}, and should be {few(ours)}"
