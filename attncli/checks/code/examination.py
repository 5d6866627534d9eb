"""Try a subject on inputs of every kind, and compare each output with the formula's."""

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise, product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attncli.attention.masks import causal_mask
from attncli.attention.mistakes import Formula, Inputs, Masking, Mistake, Replacement, change_steps
from attncli.checks.code import calling
from attncli.checks.code.calling import VECTORS, CallForm, Trial, difference
from attncli.checks.code.conventions import is_causal, mistake
from attncli.checks.code.fitting import HALVES, FilledSubject, Fit, describe_failure
from attncli.checks.code.result import Finding
from attncli.checks.code.subject import CodeCall

LARGE = 60.0  # inputs so many times larger give scores of about SCORES
SCORES, HIGHEST = 2000.0, 8000.0  # exp overflows in float64 from 710 on, and -1e4 still hides
SCALE = 0.4  # differs from 1 / √d_k
TRIES, MOST, SEEDS = 6, 1e6, range(5, 15)
LONG = 100
MUCH = 1e5  # larger outputs are said beside their difference
NOWHERE, GIVES_NAN, GIVES_ZERO = "a fully masked row", "it gives NaN", "it gives 0"
OVERFLOW = "overflow"  # in the error for a number that half precision can't represent
WITH_CACHE = "steps with a cache"
NO_SUCH_INPUT, NO_SUCH_MASK = "no way was found to give it such inputs", "it takes no such mask"
SMALL = ((1, 1), (1, 2), (2, 2), (2, 3), (3, 3), (5, 7))  # queries, keys
SHOWN = 6  # numbers of an array that a message shows


class Examination:
    """The examination of an attention, with all trials that a diagnosis has to explain."""

    def __init__(self, attention: FilledSubject, fit: Fit) -> None:
        self.attention, self.fit, self.nowhere = attention, fit, attention.nowhere
        self.trials: list[Trial] = []
        self.of_steps: list[Mistake] = []  # those in steps with a cache
        encodings = product(*fit.accepted.values())
        self.forms = [fit.form._replace(encodings=dict(zip(fit.accepted, one, strict=True))) for one in encodings]
        self.causal = is_causal(fit.conventions)
        self.roles = fit.form.roles

    def variants(self) -> Iterator[tuple[str, "Examination"]]:
        """Yield each other way to call it: with other flags, in training, without a memory."""
        attention, form = self.attention, self.fit.form
        alone = self.roles.without_memory()
        if alone != self.roles and self.fit.known:
            other = copy.copy(attention)
            other.roles = alone
            fit = replace(self.fit, form=form._replace(roles=alone, encodings={}), accepted={}, crosses=False)
            yield "without a memory", Examination(other, other.fit_masks(fit))
        for name, role in self.roles.places:
            formula = change_steps(self.fit.formula, {"scale": lambda scores, sizes: scores * SCALE})
            if role == "scale" and formula is not None:
                fit = replace(self.fit, form=form._replace(flags={name: SCALE}), formula=formula, variant=formula)
                yield f"with {name}", Examination(attention, fit)
        flags = [name for name, role in self.roles.places if role in ("returns", "average", "keeps", "flag")]
        defaults = {one.name: one.default is True for one in attention.subject.parameters}
        usual = {
            name: role == "returns" or (role != "average" and defaults.get(name, False))
            for name, role in self.roles.places
            if name in flags
        }
        given = [dict(zip(flags, values, strict=True)) for values in product((False, True), repeat=min(len(flags), 4))]
        trains = (False, True) if isinstance(attention.subject.instance, torch.nn.Module) else (False,)
        for chosen, training in product(given or [{}], trains):
            if chosen == usual and not training:
                continue
            changed = [f"{'with' if chosen[one] else 'without'} {one}" for one in flags if chosen[one] != usual[one]]
            fit = replace(self.fit, form=form._replace(flags=chosen, training=training))
            other = copy.copy(attention)
            other.dropout = attention.dropout and not training
            yield ", ".join(changed + ["in training"] * training), Examination(other, fit)

    def check_variant(self, name: str, other: "Examination") -> Finding:
        """Run all checks in another way to call it, and name the first that fails."""
        twice = other.check_twice()
        if twice.holds is False and other.fit.form.training:
            return Finding(name, None, note="its output is random even without dropout")
        failed = [check for check in (twice, *other.checks()) if check.holds is False and check.name != WITH_CACHE]
        if all(trial.returned.error for trial in other.trials):
            return Finding(name, None, note=f"it fails when it is called this way: {other.trials[0].returned.error}")
        return Finding(name, not failed, failed[0].difference if failed else None, failed[0].name if failed else "")

    def checks(self) -> Iterator[Finding]:
        yield from self.check_shapes()
        yield from self.check_masks()
        if self.fit.dtype == "float64":
            yield self.compare("float32", self.draw(seed=8), "float32")
        for dtype in HALVES:
            yield self.check_half(dtype, dtype, self.draw(seed=9))
            if self.fit.accepted:
                yield self.check_half(f"{dtype}, masked", dtype, self.masked_somehow(self.draw(seed=9)))
        yield self.check_gradients()
        yield self.check_weights()
        changed = any(trial.returned.changed for trial in self.trials)
        yield Finding("inputs are not changed", not changed, note="one is overwritten in place" if changed else "")

    # --- inputs and trials --------------------------------------------------------------------------------

    def draw(self, crosses: bool = True, seed: int = 3, **sizes: int) -> Inputs:
        crosses = crosses and self.fit.crosses
        return self.attention.draw(self.fit.form, self.fit.reading, crosses, seed, **sizes)

    def padded(self, inputs: Inputs, left: bool = False) -> Inputs:
        left = (left or self.causal) and calling.LENGTHS not in self.fit.accepted
        padding = calling.some_padding(inputs.query.shape[0], inputs.key.shape[-2], left)
        return inputs._replace(seen=inputs.seen._replace(padding=padding))

    def masked(self, inputs: Inputs, mask: Tensor) -> Inputs | None:
        """Apply a mask `[query, key]`, as padding if possible. Return None if no encoding can express it."""
        if bool((mask == mask[:1]).all()):
            made = inputs._replace(seen=Masking(padding=mask[:1].expand(inputs.query.shape[0], -1)))
        else:
            made = with_pairs(inputs, mask)
        return made if self.form_for(made) is not None else None

    def masked_somehow(self, inputs: Inputs) -> Inputs:
        """Hide random pairs; or [PAD] at the end of texts, if the code only takes lengths."""
        mask = calling.random_pairs(1, inputs.query.shape[-2], inputs.key.shape[-2], seed=6)[0, 0]
        return self.masked(inputs, mask) or self.padded(inputs)

    def enlarged(self, drawn: Iterable[Inputs | None]) -> Inputs | None:
        """Enlarge queries and keys until exp overflows and hidden scores exceed visible ones by hundreds.

        So a number that is too close to 0 hides nothing. Of several draws, return the one whose extreme scores are the
        most similar in size, so that the verdict on such a number does not depend on the draw.
        """
        made: list[Inputs] = []
        for inputs in filter(None, drawn):
            factor = LARGE
            for _ in range(TRIES):
                large = calling.with_vectors(inputs, partial(torch.mul, other=factor), ("query", "key"))
                sizes = self.extremes(large)
                if not 0 < min(sizes) < torch.inf:
                    break
                factor = min(factor * min(SCORES / min(sizes), HIGHEST / max(sizes)) ** 0.5, MOST)
            made.append(large)
        return max(made, key=lambda one: min(self.extremes(one)) / max(self.extremes(one)), default=None)

    def extremes(self, inputs: Inputs) -> list[float]:
        """Return the largest score; with a mask also how far hidden ones exceed visible ones, and how low these are."""
        scores = self.fit.formula.scores(inputs)[0]
        mask = self.fit.formula.mask(inputs.seen, *scores.shape[-2:])
        if mask is None or bool(mask.all()):
            return [float(scores.max())]
        hidden = scores.masked_fill(mask, -torch.inf).amax(-1)
        seen = scores.masked_fill(~mask, -torch.inf).amax(-1)
        hides = hidden.isfinite() & seen.isfinite()
        return [float(scores.max()), float((hidden - seen)[hides].max()), float(-seen[hides].min())]

    def form_for(self, inputs: Inputs) -> CallForm | None:
        """Return the first form that can express these inputs."""
        return next((form for form in self.forms if form.can_express(inputs)), None)

    def run(self, inputs: Inputs, dtype: str | None = None, form: CallForm | None = None, **how: Any) -> Trial:
        form, dtype = form or self.form_for(inputs) or self.fit.form, dtype or self.fit.dtype
        trial = self.attention.run(form, self.fit.reading, inputs, dtype, **how)
        return replace(trial, precision=self.fit.precision)

    def compare(
        self, name: str, inputs: Inputs | None, dtype: str | None = None, optional: str = "", **how: Any
    ) -> Finding:
        """Compare with the formula, and keep the trial. optional: the name of an input that code may reject."""
        if inputs is None or self.form_for(inputs) is None:
            return Finding(name, None, note=NO_SUCH_INPUT)
        trial = self.run(inputs, dtype, **how)
        if optional and trial.returned.error is not None:
            return Finding(name, None, note=f"it does not take {optional}: {trial.returned.error}")
        self.trials.append(trial)
        if trial.result is None:
            return Finding(name, False, note=describe_failure(trial.returned))
        ours, unread = self.fit.formula(inputs), calling.padded_queries(inputs)
        if ours.nowhere is not None:
            unread = unread | ours.nowhere.any(1)
        gap, largest = difference(trial.result.output, ours.output, ignored=unread), float(ours.output.abs().max())
        note = f"of outputs up to {largest:.0e}" if largest > MUCH and gap <= trial.tolerance else ""
        return Finding(name, gap <= trial.tolerance, gap, note)

    # --- shapes -------------------------------------------------------------------------------------------

    def check_shapes(self) -> Iterator[Finding]:
        yield self.compare("self-attention", self.draw(crosses=False))
        if self.roles.crosses:
            name = "cross-attention, another length"
            other = Finding(name, None, note="it takes no keys of another length")
            yield self.compare(name, self.draw()) if self.fit.crosses else other
        yield self.compare("one text", self.draw(batch=1))
        if self.fit.reading is None:
            yield self.compare("one head", self.draw(heads=1))
            yield self.compare("values of another size", self.draw(d_v=6), optional="them")
            grouped = self.draw(seed=12, key_heads=2)
            if self.fit.form.layout.has("head") and self.run(grouped).result is not None:
                yield self.compare("fewer key heads", grouped)
        yield self.compare("one token", self.draw(crosses=False, keys=1))
        # The code may hold a mask that is shorter.
        long = self.draw(batch=1, heads=1, queries=LONG, keys=LONG)
        yield self.compare(f"{LONG} tokens", long, optional=f"{LONG} tokens")
        yield self.compare("non-contiguous inputs", self.draw(), optional="non-contiguous inputs", strided=True)
        yield self.compare("large scores", self.enlarged(self.draw(seed=seed) for seed in SEEDS))
        if self.roles.has("causal"):
            inputs = self.draw(crosses=False, seed=13)._replace(seen=Masking(causal=True))
            yield self.compare("causal by its own flag", inputs, optional="the flag alone")
            both = self.padded(inputs._replace(seen=Masking()), left=True)
            both = both._replace(seen=both.seen._replace(causal=True))
            if self.form_for(both) is not None:
                yield self.compare("causal by its own flag, with [PAD]", both, optional="the flag with a mask")
        if self.roles.has("cache"):
            yield self.check_cache()

    def check_cache(self) -> Finding:
        """Compare three steps, each with the cache of the previous one, with one pass."""
        name = WITH_CACHE
        if self.roles.has("memory"):
            return Finding(name, None, note="its cache may be that of a memory")
        if not all(self.fit.form.flags.get(one, True) for one, role in self.roles.places if role == "keeps"):
            return Finding(name, None, note="its flag says to keep no cache")
        inputs = self.draw(crosses=False, seed=16)
        tokens = inputs.query.shape[-2]
        ends = (0, tokens - 3, tokens - 1, tokens)
        allowed = causal_mask(tokens)
        if not self.causal and "mask" not in self.fit.accepted:  # each step sees all of its own tokens
            seen = torch.tensor([end for start, end in pairwise(ends) for _ in range(start, end)])
            allowed = torch.arange(tokens) < seen[:, None]
        form, gap = self.fit.form, 0.0
        calls: list[CodeCall] = []
        trials: list[Trial] = []
        for step, (start, end) in enumerate(pairwise(ends)):
            now, known = (calling.select_tokens(inputs, range(first, end)) for first in (start, 0))
            pairs = allowed[start:end, :end].expand(now.query.shape[0], 1, -1, -1)
            call = form.call(now, self.fit.dtype, step, None if self.causal else pairs, dropout=self.attention.dropout)
            returned = self.attention.subject.call(call._replace(earlier=tuple(calls)))
            so_far = with_pairs(known._replace(query=now.query), allowed[start:end, :end])
            trials.append(Trial(form, self.fit.reading, so_far, returned, self.fit.dtype, self.fit.precision))
            result = trials[-1].result
            if result is None:
                return Finding(name, False if step else None, note=f"step {step + 1}: {describe_failure(returned)}")
            gap = max(gap, difference(result.output, self.fit.formula(so_far).output))
            calls.append(call)
        if gap > trials[0].tolerance:
            lengths = [end - start for start, end in pairwise(ends)]
            formula = self.fit.formula
            self.of_steps = [
                one
                for one in step_mistakes(formula, lengths)
                if any(all(trial.fits(replace(formula, **change)) for trial in trials) for change in one.changes)
            ]
        return Finding(name, gap <= max(one.tolerance for one in trials), gap)

    # --- masks --------------------------------------------------------------------------------------------

    def check_masks(self) -> Iterator[Finding]:
        if not self.fit.accepted:
            return
        inputs, cross = self.draw(crosses=False), self.draw()
        queries, keys = cross.query.shape[-2], cross.key.shape[-2]
        yield self.compare("causal mask", with_pairs(inputs, causal_mask(keys)))
        yield self.compare("padding mask", self.padded(inputs))
        if queries != keys:
            yield self.compare("memory mask", with_pairs(cross, calling.random_pairs(1, queries, keys, seed=4)))
            yield self.compare("padding of the memory", self.padded(cross))
        texts = self.draw(batch=self.fit.heads, crosses=False, seed=14)
        masks = calling.random_pairs(texts.query.shape[0], keys, keys, seed=15, diagonal=True)
        each = with_pairs(texts, masks)
        name, is_taken = "a mask per text, as many texts as heads", self.form_for(each) is not None
        yield self.compare(name, each) if is_taken else self.check_first_mask(name, each)
        yield self.compare("[PAD], as many texts as heads", self.padded(texts))
        large = self.enlarged(self.masked_somehow(self.draw(seed=seed)) for seed in SEEDS)
        yield self.compare("large scores, masked", large)
        yield from (self.check_query_mask(name) for name, _ in self.roles.of_query)
        if "mask" in self.fit.accepted and {"padding", "lengths"} & self.fit.accepted.keys():
            of_all = calling.random_pairs(1, keys, keys, seed=15, diagonal=True)
            both = [self.padded(with_pairs(texts, mask)) for mask in (masks, of_all)]
            yield self.compare("both masks together", next((one for one in both if self.form_for(one)), None))
        yield self.check_nowhere()

    def check_first_mask(self, name: str, inputs: Inputs) -> Finding:
        """Check that code which takes a mask for each text does not apply the first one to all of them."""
        first = inputs._replace(seen=Masking(pairs=inputs.seen.pairs[:1])) if inputs.seen.pairs is not None else inputs
        for shape, known in product(calling.OF_TEXTS, self.fit.accepted.get("mask", ())[:1]):
            form = self.fit.form._replace(encodings={**self.fit.form.encodings, "mask": known._replace(shape=shape)})
            if inputs.query.shape[0] > 1 and form.can_express(inputs):
                trial = replace(self.run(inputs, form=form), inputs=first)
                if trial.result is not None and trial.fits(self.fit.formula, padded=False):
                    return Finding(name, False, note="the mask of the first text is applied to all texts")
        return Finding(name, None, note=NO_SUCH_INPUT)

    def check_query_mask(self, name: str) -> Finding:
        """Check that [PAD] among the queries hides no key of a memory of the same length."""
        title, keys = f"{name} hides no key of the memory", self.draw().key.shape[-2]
        inputs = self.draw(queries=keys, seed=17)
        real, ours = calling.some_padding(inputs.query.shape[0], keys, False), self.fit.formula(inputs).output
        gaps = []
        for mask in (real, real.long()):
            form = self.fit.form._replace(roles=self.roles.having(name, "flag"), flags={name: mask})
            trial = self.run(inputs, form=form)
            if trial.result is not None:  # True may mean both
                gaps.append(min(difference(trial.result.output, ours, ignored=one) for one in (real, ~real)))
        if not gaps:
            return Finding(title, None, note=NO_SUCH_MASK)
        return Finding(title, max(gaps) <= trial.tolerance, max(gaps))

    def check_nowhere(self) -> Finding:
        """Check a fully masked row: it gives 0 (and W_O's bias), NaN, or anything, as the options say."""
        name, inputs = NOWHERE, self.draw(seed=7)
        mask = torch.ones(inputs.query.shape[-2], inputs.key.shape[-2], dtype=torch.bool)
        mask[-1] = False
        made = self.masked(inputs, mask)
        if made is None:
            padding = torch.ones(inputs.query.shape[0], inputs.key.shape[-2], dtype=torch.bool)
            padding[-1] = False
            made = inputs._replace(seen=Masking(padding=padding))
        if self.form_for(made) is None:
            return Finding(name, None, note="its mask cannot express this")
        trial, ours = self.run(made), self.fit.formula(made)
        if trial.result is None:
            return Finding(name, None if self.nowhere == "any" else False, note=describe_failure(trial.returned))
        assert ours.nowhere is not None
        rows = ours.nowhere if ours.output.dim() == 4 else ours.nowhere.any(1)
        theirs = trial.result.output.clone()
        if not theirs[rows].any():  # without W_O's bias
            theirs[rows] = ours.output[rows].to(theirs)
        is_nan = bool(theirs[rows].isnan().any())
        is_zero = difference(theirs[rows], ours.output[rows]) <= trial.tolerance
        note = GIVES_NAN if is_nan else GIVES_ZERO if is_zero else "it attends to masked keys"
        if self.nowhere == "any":
            return Finding(name, True, note=note)
        self.trials.append(trial)
        gap = difference(theirs, ours.output, ours.nowhere)
        allowed = {"zero-or-nan": True, "zero": not is_nan, "nan": is_nan}[self.nowhere]
        return Finding(name, gap <= trial.tolerance and allowed, gap, note)

    # --- precisions and gradients -------------------------------------------------------------------------

    def check_half(self, name: str, dtype: str, inputs: Inputs) -> Finding:
        """Check half precision, which code may reject: float16 has no -1e9 for hidden scores."""
        found = self.compare(name, inputs, dtype, optional=dtype)
        if OVERFLOW not in found.note:
            return found
        if self.nowhere != "any":
            self.trials.append(self.run(inputs, dtype))
        note = f"the number for masked scores is too large for {dtype}"
        return Finding(name, None if self.nowhere == "any" else False, note=note)

    def check_gradients(self) -> Finding:
        """Compare the gradients of Σ output · c, with c random, for all inputs."""
        name, inputs, layout = "gradients", self.draw(seed=30), self.fit.form.layout
        given = [role for _, role in self.roles.places if role in calling.vectors_by_role(inputs)]
        leaves = {id(x): x.clone().requires_grad_() for x in (inputs.query, inputs.key, inputs.value)}
        learned = inputs._replace(
            query=leaves[id(inputs.query)], key=leaves[id(inputs.key)], value=leaves[id(inputs.value)]
        )
        expected = self.fit.formula(learned).output
        cotangent = torch.randn(expected.shape, generator=torch.Generator().manual_seed(31), dtype=torch.float64)
        by_role = calling.vectors_by_role(learned)
        ours = torch.autograd.grad((expected * cotangent).sum(), [by_role[role] for role in given])
        trial = self.run(inputs, cotangent=layout.put(cotangent, is_query=True))
        if trial.returned.error is not None:
            return Finding(name, None, note=f"it can't be differentiated: {trial.returned.error}")
        if not trial.returned.gradients:
            return Finding(name, None, note="torch can't differentiate it")
        masks = self.fit.form.encodings  # a mask that is always given, as real numbers, has a gradient too
        numbers = [role for role in self.roles.needed if role in masks and masks[role].dtype == "float"]
        real = [role for _, role in self.roles.places if role in given or role in numbers]
        pairs = zip(real, trial.returned.gradients, strict=True)
        theirs = [layout.take(gradient, is_query=role in ("query", "x")) for role, gradient in pairs if role in given]
        gap = max(difference(one, other) for one, other in zip(theirs, ours, strict=True))
        return Finding(name, gap <= trial.tolerance * max(1.0, *(float(one.abs().max()) for one in ours)), gap)

    # --- other outputs ------------------------------------------------------------------------------------

    def check_weights(self) -> Finding:
        """Compare the second output, if it has the shape of weights, without a mask and with one."""
        name, plain, note, gap = "returned weights", self.draw(seed=11), "it returns none", None
        masked = self.masked_somehow(plain) if self.fit.accepted else plain
        for inputs in (plain, masked):
            trial = self.run(inputs)
            if trial.result is None or not trial.result.weights.numel():
                return Finding(name, None, note=note)
            result, theirs, unread = self.fit.formula(inputs), trial.result.weights, calling.padded_queries(inputs)
            if result.nowhere is not None:
                unread = unread | result.nowhere.any(1)
            is_mean = theirs.shape[1] < result.weights.shape[1]
            ours = result.weights.mean(1, keepdim=True) if is_mean else result.weights
            note, gap = "their mean over heads" if is_mean else "", difference(theirs, ours, ignored=unread)
            if gap > trial.tolerance:
                seen, scores = ours > 0, self.fit.formula.scores(inputs)[0]
                if inputs is masked and masked is not plain:
                    note = "they are not those under the mask"
                elif theirs.shape == scores.shape and difference(theirs[seen], scores[seen]) <= trial.tolerance:
                    note = "they are the scores, before softmax"
                return Finding(name, False, gap, note)
        return Finding(name, True, gap, note)

    def check_twice(self) -> Finding:
        """Compare two calls of one instance."""
        name, inputs = "deterministic", self.draw(seed=10)
        first = self.run(inputs)
        call = first.form.call(inputs, first.dtype, dropout=self.attention.dropout)
        second = replace(first, returned=self.attention.subject.call(call._replace(earlier=(call,))))
        if first.result is None or second.result is None:
            return Finding(name, None, note=describe_failure(first.returned))
        gap = difference(first.result.output, second.result.output)
        return Finding(name, gap <= first.tolerance, gap)

    # --- the smallest input that shows a difference -------------------------------------------------------

    def smallest(self) -> str:
        """Describe the smallest input whose output differs, with both outputs; return "" if none does."""
        for (queries, keys), hidden in product(SMALL, ("", " and a causal mask", " and one [PAD]")):
            inputs = self.draw(batch=1, heads=1, queries=queries, keys=keys, d_k=2, d_v=2, crosses=queries != keys)
            inputs = calling.with_vectors(inputs, lambda x: (x * 10).round() / 10)
            lengths = inputs.query.shape[-2], inputs.key.shape[-2]
            made: Inputs | None = inputs
            if hidden.endswith("mask"):
                made = self.masked(inputs, causal_mask(*lengths))
            elif hidden:
                real = torch.arange(lengths[1])[None] != (0 if self.causal else lengths[1] - 1)
                made = inputs._replace(seen=Masking(padding=real)) if bool(real.any()) else None
            if made is None or self.form_for(made) is None or (hidden.endswith("mask") and lengths[0] == 1):
                continue  # the causal mask of one query hides nothing
            queries_said = "1 query" if lengths[0] == 1 else f"{lengths[0]} queries"
            words = f"with {queries_said} and {lengths[1]} key{'s' if lengths[1] > 1 else ''}{hidden}"
            if inputs.projections is None:
                words += f" ({', '.join(f'{one} {show(getattr(inputs, one))}' for one in VECTORS)})"
            trial, ours = self.run(made), self.fit.formula(made)
            if trial.result is None:
                return f"{words}: {describe_failure(trial.returned)}; the formula gives {show(ours.output)}"
            ignored = calling.padded_queries(made) if hidden.endswith("[PAD]") else None
            if difference(trial.result.output, ours.output, ours.nowhere, ignored) > trial.tolerance:
                # Both numbers where they differ most, with enough digits to tell them apart.
                gaps = (trial.result.output.double() - ours.output.double()).abs().nan_to_num(nan=torch.inf)
                if ignored is not None:
                    gaps[ignored[:, None].expand(gaps.shape[:-1]) if gaps.dim() == 4 else ignored] = 0.0
                place = np.unravel_index(int(gaps.argmax()), gaps.shape)  # torch's imports sympy
                one, other = float(trial.result.output[place]), float(ours.output[place])
                digits = next((n for n in range(4, 17) if f"{one:.{n}g}" != f"{other:.{n}g}"), 17)
                layout = self.fit.form.layout  # the place in their array
                places = {"1": 0, **dict(zip(layout.ours, map(int, place), strict=True))}
                where = ", ".join(str(places[one]) for one in layout.name.split())
                return f"{words}: output[{where}] is {one:.{digits}g}; the formula gives {other:.{digits}g}"
        return ""


def step_mistakes(formula: Formula, lengths: list[int]) -> list[Mistake]:
    """Return the mistakes that people make with a cache. lengths: the number of tokens in each step."""

    def place(x: Tensor, first: int) -> Tensor:
        steps = x.split(sizes_of(x.shape[-2]) or x.shape[-2], dim=-2)
        return torch.cat([formula.place(one, 0) for one in steps], dim=-2)

    def sizes_of(tokens: int) -> list[int]:
        return [size for size, end in zip(lengths, accumulate(lengths), strict=True) if end <= tokens]

    def turned(pairs: Tensor, queries: int, keys: int) -> Tensor:
        steps = torch.arange(keys).split(sizes_of(keys) or keys)
        return pairs[..., torch.cat(steps[::-1]).argsort()]

    def among(change: Callable[[Tensor, int, int], Tensor]) -> Replacement:
        return {"seen": lambda seen: seen._replace(pairs=change(seen.pairs, *seen.pairs.shape[-2:]))}

    return [
        mistake(
            "causal from the first key",
            "whose queries after a cache see only the first keys, as if they were the first tokens",
            "after a cache the queries are the last tokens: use tril(keys - queries), not is_causal=True",
            "first",
            among(lambda pairs, queries, keys: causal_mask(queries, keys, first=0)),
            among(lambda pairs, queries, keys: pairs if queries == 1 else causal_mask(queries, keys, first=0)),
        ),
        mistake(
            "future of a step",
            "whose new tokens, in a step with a cache, see the future among them",
            "hide the future among the new tokens too: tril(keys - queries)",
            "first",
            among(lambda pairs, queries, keys: pairs | (queries != keys)),
        ),
        mistake(
            "positions from 0 after a cache",
            "whose positions start at 0 again after a cache",
            "start positions at the length of the cache",
            "first",
            {"place": place},
        ),
        mistake(
            "cache after the new tokens",
            "that puts the cached keys after the new ones, so that the mask hides others",
            "put the cached keys and values before the new ones: cat([past, new])",
            "cache",
            among(turned),
        ),
        mistake(
            "cache ignored",
            "that takes a cache, but attends only to the new tokens",
            "put the cached keys and values before the new ones",
            "first",
            among(lambda pairs, queries, keys: pairs & (torch.arange(keys) >= keys - queries)),
        ),
    ]


def with_pairs(inputs: Inputs, mask: Tensor) -> Inputs:
    return inputs._replace(seen=Masking(pairs=mask))


def show(x: Tensor) -> str:
    numbers = [f"{float(one):.4g}" for one in x.flatten()[:SHOWN]]
    return f"[{', '.join(numbers)}{', ...' if x.numel() > SHOWN else ''}]"
