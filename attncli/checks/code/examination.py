"""Try a subject on inputs of every kind, and compare each output with the formula's."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import torch
from torch import Tensor

from attncli.attention.masks import causal_mask
from attncli.attention.mistakes import Inputs, Masking
from attncli.checks.code import calling
from attncli.checks.code.calling import VECTORS, CallForm, Trial, difference
from attncli.checks.code.conventions import is_causal, is_ordered
from attncli.checks.code.fitting import FilledSubject, Fit, describe_failure
from attncli.checks.code.result import Finding
from attncli.checks.code.subject import CodeCall

LARGE = 60.0  # inputs so many times larger give scores of which exp overflows in float64
LONG = 100
APPENDED = 3  # tokens
HALVES = ("bfloat16", "float16")
NOWHERE, GIVES_NAN, GIVES_ZERO = "a query that may see nothing", "it gives NaN", "it gives 0"
OVERFLOW = "overflow"  # errors say so of a number that half precision lacks
NO_SUCH_INPUT, NO_SUCH_MASK = "it takes no such input", "it takes no such mask"
SMALL = ((1, 1), (1, 2), (2, 2), (2, 3), (3, 3), (5, 7))  # queries, keys
SHOWN = 6  # numbers of a small input


class Examination:
    """The examination of an attention, with all trials that a diagnosis has to explain."""

    def __init__(self, attention: FilledSubject, fit: Fit, nowhere: str) -> None:
        self.attention, self.fit, self.nowhere = attention, fit, nowhere
        self.trials: list[Trial] = []
        encodings = product(*fit.accepted.values())
        self.forms = [fit.form._replace(encodings=dict(zip(fit.accepted, one, strict=True))) for one in encodings]
        self.causal, self.ordered = is_causal(fit.conventions), is_ordered(fit.conventions)
        self.roles = attention.roles

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
        yield from self.check_laws()
        yield self.check_weights()
        yield Finding("inputs are not changed", not any(trial.returned.changed for trial in self.trials))

    # --- inputs and trials --------------------------------------------------------------------------------

    def draw(self, crosses: bool = True, seed: int = 3, **sizes: int) -> Inputs:
        crosses = crosses and self.fit.crosses
        return self.attention.draw(self.fit.form, self.fit.reading, crosses, seed, **sizes)

    def padded(self, inputs: Inputs) -> Inputs:
        left = self.causal and calling.LENGTHS not in self.fit.accepted
        padding = calling.some_padding(inputs.query.shape[0], inputs.key.shape[-2], left)
        return inputs._replace(seen=inputs.seen._replace(padding=padding))

    def masked(self, inputs: Inputs, mask: Tensor) -> Inputs | None:
        """Apply a mask `[query, key]`, as padding if possible. Return None if no encoding can express it."""
        if bool((mask == mask[:1]).all()):
            made = inputs._replace(seen=Masking(padding=mask[:1].expand(inputs.query.shape[0], -1)))
        else:
            made = with_pairs(inputs, mask)
        return made if self.form_for(made) is not None else None

    def masked_somehow(self, inputs: Inputs) -> Inputs | None:
        mask = calling.random_pairs(1, inputs.query.shape[-2], inputs.key.shape[-2], seed=6)[0, 0]
        return self.masked(inputs, mask) or self.masked(inputs, mask[:1].expand_as(mask))

    def form_for(self, inputs: Inputs) -> CallForm | None:
        """Return the first form that can express these inputs."""
        return next((form for form in self.forms if form.can_express(inputs)), None)

    def run(self, inputs: Inputs, dtype: str | None = None, form: CallForm | None = None, **how: Any) -> Trial:
        form, dtype = form or self.form_for(inputs) or self.fit.form, dtype or self.fit.dtype
        trial = self.attention.run(form, self.fit.reading, inputs, dtype, **how)
        return replace(trial, precision=self.fit.precision)

    def compare(self, name: str, inputs: Inputs | None, dtype: str | None = None) -> Finding:
        """Compare with the formula, and keep the trial."""
        if inputs is None or self.form_for(inputs) is None:
            return Finding(name, None, note=NO_SUCH_INPUT)
        trial = self.run(inputs, dtype)
        self.trials.append(trial)
        return self.judge(name, trial)

    def compare_unless_refused(self, name: str, trial: Trial, what: str = "it") -> Finding:
        """Compare with the formula. An error is no mistake."""
        if trial.returned.error is not None:
            return Finding(name, None, note=f"it does not take {what}: {trial.returned.error}")
        self.trials.append(trial)
        return self.judge(name, trial)

    def judge(self, name: str, trial: Trial) -> Finding:
        if trial.result is None:
            return Finding(name, False, note=describe_failure(trial.returned))
        ours, unread = self.fit.formula(trial.inputs), calling.padded_queries(trial.inputs)
        if ours.nowhere is not None:
            unread = unread | ours.nowhere.any(1)
        gap = difference(trial.result.output, ours.output, ignored=unread)
        return Finding(name, gap <= trial.tolerance, gap)

    # --- shapes -------------------------------------------------------------------------------------------

    def check_shapes(self) -> Iterator[Finding]:
        yield self.compare("self-attention", self.draw(crosses=False))
        if self.roles.crosses:
            name = "cross-attention, of other lengths"
            other = Finding(name, None, note="it takes no keys of another length")
            yield self.compare(name, self.draw()) if self.fit.crosses else other
        yield self.compare("one text", self.draw(batch=1))
        if self.fit.reading is None:
            yield self.compare("one head", self.draw(heads=1))
            yield self.compare("values of another size", self.draw(d_v=6))
            grouped = self.run(self.draw(seed=12, key_heads=2)) if self.fit.form.layout.heads else None
            if grouped is not None and grouped.result is not None:
                yield self.compare_unless_refused("fewer key heads", grouped)
        yield self.compare("one token", self.draw(crosses=False, keys=1))
        # A mask of its own may end before that.
        long = self.run(self.draw(batch=1, heads=1, queries=LONG, keys=LONG))
        yield self.compare_unless_refused(f"{LONG} tokens", long, "so many")
        strided = self.run(self.draw(), strided=True)
        yield self.compare_unless_refused("inputs that are no block in memory", strided, "them")
        yield self.compare("large scores", enlarged(self.draw()))
        if self.roles.has("causal"):
            inputs = self.draw(crosses=False, seed=13)._replace(seen=Masking(causal=True))
            yield self.compare_unless_refused("causal by its own flag", self.run(inputs), "it alone")
        if self.roles.has("cache"):
            yield self.check_cache()

    def check_cache(self) -> Finding:
        """Compare three steps, each with the cache of the previous one, with one pass."""
        name = "steps with a cache"
        if self.roles.has("memory"):
            return Finding(name, None, note="its cache may be that of a memory")
        inputs = self.draw(crosses=False, seed=16)
        tokens = inputs.query.shape[-2]
        ends = (0, tokens - 3, tokens - 1, tokens)
        allowed = causal_mask(tokens)
        if not self.causal and "mask" not in self.fit.accepted:  # each step sees all of its own tokens
            seen = torch.tensor([end for start, end in pairwise(ends) for _ in range(start, end)])
            allowed = torch.arange(tokens) < seen[:, None]
        form, outputs = self.fit.form, []
        calls: list[CodeCall] = []
        for step, (start, end) in enumerate(pairwise(ends)):
            now = calling.select_tokens(inputs, range(start, end))
            mask = None if self.causal else allowed[start:end, :end].expand(now.query.shape[0], 1, -1, -1)
            call = form.call(now, self.fit.dtype, step, mask, dropout=self.attention.dropout)
            returned = self.attention.subject.call(call._replace(earlier=tuple(calls)))
            result = Trial(form, self.fit.reading, now, returned, self.fit.dtype).result
            if result is None:
                return Finding(name, False if step else None, note=f"step {step + 1}: {describe_failure(returned)}")
            outputs.append(result.output)
            calls.append(call)
        gap = difference(torch.cat(outputs, dim=-2), self.fit.formula(with_pairs(inputs, allowed)).output)
        tolerance = Trial(form, self.fit.reading, inputs, returned, self.fit.dtype, self.fit.precision).tolerance
        return Finding(name, gap <= tolerance, gap)

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
        name, is_taken = "a mask for each text, as many as heads", self.form_for(each) is not None
        yield self.compare(name, each) if is_taken else self.check_first_mask(name, each)
        yield self.compare("[PAD], as many texts as heads", self.padded(texts))
        yield self.compare("large scores, masked", self.masked_somehow(enlarged(self.draw(seed=5))))
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
                    return Finding(name, False, note="the mask of the first text hides keys in all of them")
        return Finding(name, None, note=NO_SUCH_INPUT)

    def check_nowhere(self) -> Finding:
        """Check a query that may see nothing: it gives 0 (and W_O's bias), NaN, or anything, as the options say."""
        name, inputs = NOWHERE, self.draw(seed=7)
        mask = torch.ones(inputs.query.shape[-2], inputs.key.shape[-2], dtype=torch.bool)
        mask[-1] = False
        made = self.masked(inputs, mask)
        if made is None:
            padding = torch.ones(inputs.query.shape[0], inputs.key.shape[-2], dtype=torch.bool)
            padding[-1] = False
            made = inputs._replace(seen=Masking(padding=padding))
        if self.form_for(made) is None:
            return Finding(name, None, note="its mask can't say so")
        trial, ours = self.run(made), self.fit.formula(made)
        if trial.result is None:
            return Finding(name, None if self.nowhere == "any" else False, note=describe_failure(trial.returned))
        assert ours.nowhere is not None
        rows = ours.nowhere if ours.output.dim() == 4 else ours.nowhere.any(1)
        is_nan = bool(trial.result.output[rows].isnan().any())
        is_zero = difference(trial.result.output[rows], ours.output[rows]) <= trial.tolerance
        note = GIVES_NAN if is_nan else GIVES_ZERO if is_zero else "it attends to what is hidden"
        if self.nowhere == "any":
            return Finding(name, True, note=note)
        self.trials.append(trial)
        gap = difference(trial.result.output, ours.output, ours.nowhere)
        allowed = {"zero-or-nan": True, "zero": not is_nan, "nan": is_nan}[self.nowhere]
        return Finding(name, gap <= trial.tolerance and allowed, gap, note)

    # --- precisions and gradients -------------------------------------------------------------------------

    def check_half(self, name: str, dtype: str, inputs: Inputs | None) -> Finding:
        """Check half precision, which it need not take: -1e9 for a hidden score does not exist there."""
        if inputs is None:
            return Finding(name, None, note=NO_SUCH_INPUT)
        trial = self.run(inputs, dtype)
        if OVERFLOW in (trial.returned.error or ""):
            if self.nowhere != "any":
                self.trials.append(trial)
            note = f"a number for what is hidden is too large for {dtype}"
            return Finding(name, None if self.nowhere == "any" else False, note=note)
        return self.compare_unless_refused(name, trial)

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
        trial = self.run(inputs, cotangent=(layout.put_query or layout.put)(cotangent))
        if trial.returned.error is not None:
            return Finding(name, None, note=f"it can't be differentiated: {trial.returned.error}")
        if not trial.returned.gradients:
            return Finding(name, None, note="torch can't differentiate it")
        masks = self.fit.form.encodings  # a mask that is always given, as real numbers, has a gradient too
        numbers = [role for role in self.roles.needed if role in masks and masks[role].dtype == "float"]
        real = [role for _, role in self.roles.places if role in given or role in numbers]
        pairs = zip(real, trial.returned.gradients, strict=True)
        theirs = [
            gradient if layout.put_query is not None and role != "query" else layout.take(gradient)
            for role, gradient in pairs
            if role in given
        ]
        gap = max(difference(one, other) for one, other in zip(theirs, ours, strict=True))
        return Finding(name, gap <= trial.tolerance * max(1.0, *(float(one.abs().max()) for one in ours)), gap)

    # --- laws, without the formula ------------------------------------------------------------------------

    def check_laws(self) -> Iterator[Finding]:
        # Without weights, the output for values of 1 is their sum.
        name, inputs = "weights sum to 1", self.draw(seed=20)
        by_values = self.fit.reading is None and self.roles.has("value")
        trial = self.run(inputs._replace(value=torch.ones_like(inputs.value)) if by_values else inputs)
        if trial.result is None or not (by_values or trial.result.weights.numel()):
            yield Finding(name, None, note="it gives no weights")
        else:
            sums = trial.result.output if by_values else trial.result.weights.sum(-1)
            gap = difference(sums, torch.ones_like(sums))
            yield Finding(name, gap <= trial.tolerance, gap)
        name, inputs = "permuting keys with values changes nothing", self.draw(seed=21)
        if not self.roles.crosses or self.ordered:
            yield Finding(name, None, note="its keys stand in the order of its queries")
        else:
            order = random_order(inputs.key.shape[-2])
            moved = inputs._replace(key=inputs.key[..., order, :], value=inputs.value[..., order, :])
            yield self.compare_runs(name, inputs, moved)
        name, inputs = "permuting tokens permutes the output", self.draw(crosses=False, seed=22)
        if self.ordered:
            yield Finding(name, None, note="the places of its tokens matter by themselves")
        else:
            order = random_order(inputs.key.shape[-2])
            yield self.compare_runs(name, inputs, calling.select_tokens(inputs, order), order)
        inputs = self.draw(crosses=False, seed=23)
        tokens = inputs.query.shape[-2] - APPENDED
        prefix = calling.select_tokens(inputs, range(tokens))
        if not self.causal:
            inputs, prefix = (with_pairs(x, causal_mask(x.query.shape[-2])) for x in (inputs, prefix))
        yield self.compare_runs("the future changes no prefix", inputs, prefix, slice(tokens))
        inputs = self.draw(crosses=False, seed=24)
        real = torch.arange(tokens + APPENDED) < tokens
        padded = inputs._replace(seen=Masking(padding=real.expand(inputs.query.shape[0], -1)))
        yield self.compare_runs(
            "appended [PAD] changes nothing", padded, calling.select_tokens(inputs, range(tokens)), slice(tokens)
        )

    def compare_runs(self, name: str, one: Inputs, other: Inputs, tokens: slice | Tensor = slice(None)) -> Finding:
        """Compare the outputs of these queries of one run with all outputs of another run."""
        if self.form_for(one) is None or self.form_for(other) is None:
            return Finding(name, None, note=NO_SUCH_INPUT if one.seen == Masking() else NO_SUCH_MASK)
        first, second = self.run(one), self.run(other)
        if first.result is None or second.result is None:
            return Finding(name, None, note="it can't be run so")
        gap = difference(first.result.output[..., tokens, :], second.result.output)
        return Finding(name, gap <= first.tolerance, gap)

    # --- other outputs ------------------------------------------------------------------------------------

    def check_weights(self) -> Finding:
        """Compare the second output, if it has the shape of weights."""
        name, inputs = "the weights that it gives", self.draw(seed=11)
        trial = self.run(inputs)
        if trial.result is None or not trial.result.weights.numel():
            return Finding(name, None, note="it gives none")
        ours, theirs = self.fit.formula(inputs).weights, trial.result.weights
        is_mean = theirs.shape[1] < ours.shape[1]
        gap = difference(theirs, ours.mean(1, keepdim=True) if is_mean else ours)
        return Finding(name, gap <= trial.tolerance, gap, "their mean over heads" if is_mean else "")

    def check_twice(self) -> Finding:
        """Compare the second of two calls of one instance with the first."""
        name, inputs = "the same twice", self.draw(seed=10)
        first = self.run(inputs)
        call = first.form.call(inputs, first.dtype, dropout=self.attention.dropout)
        second = replace(first, returned=self.attention.subject.call(call._replace(earlier=(call,))))
        if first.result is None or second.result is None:
            return Finding(name, None, note=describe_failure(first.returned))
        gap = difference(first.result.output, second.result.output)
        return Finding(name, gap <= first.tolerance, gap)

    # --- the smallest input that shows a difference -------------------------------------------------------

    def smallest(self) -> str:
        """Return the first of ever larger inputs whose output differs, with both outputs; "" if none does."""
        for (queries, keys), masked in product(SMALL, (False, True)):
            inputs = self.draw(batch=1, heads=1, queries=queries, keys=keys, d_k=2, d_v=2, crosses=queries != keys)
            inputs = calling.with_vectors(inputs, lambda x: (x * 10).round() / 10)
            lengths = inputs.query.shape[-2], inputs.key.shape[-2]
            made = self.masked(inputs, causal_mask(*lengths)) if masked else inputs
            if made is None:
                continue
            words = f"of queries and keys {lengths[0]} and {lengths[1]}{', a causal mask' if masked else ''}"
            if inputs.projections is None:
                words += f" ({', '.join(f'{one} {show(getattr(inputs, one))}' for one in VECTORS)})"
            trial, ours = self.run(made), self.fit.formula(made)
            if trial.result is None:
                return f"{words}: {describe_failure(trial.returned)}; the formula gives {show(ours.output)}"
            if difference(trial.result.output, ours.output, ours.nowhere) > trial.tolerance:
                # Both numbers at the place of the largest difference, with as many digits as differ.
                gaps = (trial.result.output.double() - ours.output.double()).abs().nan_to_num(nan=torch.inf)
                place = torch.unravel_index(gaps.argmax(), gaps.shape)
                one, other = float(trial.result.output[place]), float(ours.output[place])
                digits = next((n for n in range(4, 17) if f"{one:.{n}g}" != f"{other:.{n}g}"), 17)
                where = ", ".join(str(int(number)) for number in place)
                return f"{words}: output[{where}] is {one:.{digits}g}; the formula gives {other:.{digits}g}"
        return ""


def with_pairs(inputs: Inputs, mask: Tensor) -> Inputs:
    return inputs._replace(seen=Masking(pairs=mask))


def enlarged(inputs: Inputs) -> Inputs:
    return calling.with_vectors(inputs, lambda x: x * LARGE, ("query", "key"))


def random_order(tokens: int) -> Tensor:
    return torch.randperm(tokens, generator=torch.Generator().manual_seed(0))


def show(x: Tensor) -> str:
    numbers = [f"{float(one):.4g}" for one in x.flatten()[:SHOWN]]
    return f"[{', '.join(numbers)}{', ...' if x.numel() > SHOWN else ''}]"
