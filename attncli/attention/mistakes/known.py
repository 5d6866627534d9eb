"""The mistakes that people make in attention, and the formula with one of them or several."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import torch

from attncli.attention.mistakes import steps
from attncli.attention.mistakes.formula import RIGHT, Formula, Projections, causal, identity, join, normalise

Replacement = Mapping[str, Callable[..., Any]]
DROPOUT, TEMPERATURE = "dropout left on", "temperature"
# Steps that take what they return: a second change follows the first.
CHAINED = ("projections", "seen", "allow", "add")


class Mistake(NamedTuple):
    """A mistake, and the steps of the formula that it replaces.

    says: goes on from "this is attention". where: people make it. remedy: the code to write instead. step: the
    operation that its line has. changes: the steps that it replaces, for each way of making it. needs: the inputs or
    layers on which it shows, if not on all.
    """

    name: str
    says: str
    where: str
    remedy: str
    step: str
    changes: tuple[Replacement, ...]
    needs: str = ""


def change_steps(formula: Formula, change: Replacement) -> Formula | None:
    """Return the formula with other steps; None if a step has been changed before and can't be changed twice."""
    made: dict[str, Any] = {}
    for name, step in change.items():
        before = getattr(formula, name)
        if name in CHAINED:
            made[name] = step if before is identity else chain(before, step)
        elif before is not getattr(RIGHT, name):
            return None
        else:
            made[name] = step
    return replace(formula, **made)


def chain(first: Callable[[Any], Any], second: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: second(first(x))


def with_mistakes(formula: Formula, mistakes: Sequence[Mistake], few: int | None = None) -> Iterator[Formula]:
    """Yield the formula with these mistakes, in every way of making each, or in the first few."""
    if not mistakes:
        yield formula
        return
    for change in mistakes[0].changes[:few]:
        made = change_steps(formula, change)
        if made is not None:
            yield from with_mistakes(made, mistakes[1:], few)


# If two explain the same numbers, the first is the diagnosis.
MISTAKES: tuple[Mistake, ...] = (
    # On the way from queries and keys to weights: the scale, softmax, and masks.
    Mistake(
        "no scale",
        "without the division by √d_k",
        "the formula is remembered as softmax(Q Kᵀ) V, or the score of Luong's dot attention is taken over",
        "divide the scores by √d_k, the square root of the size of one head's query",
        "score",
        ({"scale": steps.keep_scores},),
    ),
    Mistake(
        "scale by d_model",
        "divided by √d_model, not by √d_k",
        "x.shape[-1] is asked before the heads are split, or self.d_model is at hand",
        "divide by the square root of one head's size, d_k = d_model / heads",
        "scale",
        (
            {"scale": lambda scores, sizes: scores / sizes.d_model**0.5},
            {"scale": lambda scores, sizes: scores / sizes.d_input**0.5},
        ),
        needs="several heads",
    ),
    Mistake(
        "scale without root",
        "divided by d_k, not by its root",
        "the root is forgotten, or √d_k divides the query, and then the scores once more",
        "divide by √d_k",
        "scale",
        ({"scale": lambda scores, sizes: scores / sizes.d_k},),
    ),
    Mistake(
        "scale by tokens",
        "divided by the root of the number of tokens, not by √d_k",
        "q.size(1) or k.shape[-2] is asked, which was the size in a layout that q and k no longer have",
        "divide by the square root of one head's size, d_k, the last axis of q and k",
        "scale",
        (
            {"scale": lambda scores, sizes: scores / scores.shape[-1] ** 0.5},
            {"scale": lambda scores, sizes: scores / scores.shape[-2] ** 0.5},
        ),
    ),
    Mistake(
        "scale after softmax",
        "divided by √d_k after softmax, so that rows don't sum to 1",
        "softmax(Q Kᵀ) / √d_k: the division stands outside of softmax",
        "divide the scores by √d_k before softmax",
        "scale",
        ({"scale": steps.keep_scores, "normalise": lambda scores, sizes: normalise(scores, sizes) / sizes.d_k**0.5},),
    ),
    Mistake(
        "softmax over queries",
        "with softmax over the queries, not over the keys",
        "dim=1 of [batch, query, key], or dim=-2: it was right in a layout that the scores no longer have",
        "take softmax over the axis of the keys, not of the queries: the weights of each query then sum to 1",
        "normalise",
        ({"normalise": steps.softmax_over(-2)}, {"normalise": steps.softmax_over(-2), "forbid": steps.keep}),
    ),
    Mistake(
        "softmax over heads",
        "with softmax over the heads, not over the keys",
        "dim=1 of [batch, head, query, key] after it was dim=1 of [batch, key]",
        "take softmax over the axis of the keys, not over that of the heads",
        "normalise",
        ({"normalise": steps.softmax_over(1)}, {"normalise": steps.softmax_over(1), "forbid": steps.keep}),
    ),
    Mistake(
        "softmax over the batch",
        "with softmax over the texts of the batch, not over the keys",
        "softmax is called without dim, or with dim=0",
        "take softmax over the axis of the keys, not over that of the batch",
        "normalise",
        ({"normalise": steps.softmax_over(0)}, {"normalise": steps.softmax_over(0), "forbid": steps.keep}),
    ),
    Mistake(
        "softmax over all heads",
        "with one softmax over the keys of all heads together",
        "heads and keys are flattened into one dimension before softmax",
        "take softmax over the axis of the keys alone, for each head",
        "normalise",
        (
            {"normalise": steps.softmax_over(1, 3)},
            {"normalise": steps.softmax_over(1, 3), "forbid": steps.keep},
            {"normalise": steps.softmax_over(1, 3, maximum=False)},
        ),
        needs="several heads",
    ),
    Mistake(
        "mask after softmax",
        "with the mask after softmax, so that rows don't sum to 1",
        "weights are multiplied by a mask of 0 and 1",
        "set the scores of forbidden keys to -inf before softmax",
        "hide",
        ({"hide": steps.keep, "forbid": lambda weights, mask: weights * mask},),
        needs="keys that a mask hides",
    ),
    Mistake(
        "mask multiplied",
        "with forbidden scores at 0, which softmax gives weight to",
        "scores are multiplied by a mask of 0 and 1",
        "set forbidden scores to -inf: softmax of 0 is not 0",
        "hide",
        ({"hide": lambda scores, mask: scores * mask, "forbid": steps.keep},),
        needs="keys that a mask hides",
    ),
    Mistake(
        "mask never used",
        "without the mask, which is taken and never used",
        "it stands in the signature, and in tutorials' listings, and nothing reads it",
        "set the scores where the mask forbids to -inf, before softmax",
        "hide",
        (
            {"seen": lambda seen: seen._replace(padding=None, pairs=None)},
            {"seen": lambda seen: seen._replace(padding=None)},
            {"seen": lambda seen: seen._replace(pairs=None)},
        ),
        needs="[PAD], or a mask that is handed in",
    ),
    Mistake(
        "fully masked rows uniform",
        "in which a query that may see nothing looks at what is forbidden",
        "a finite number is filled in, or added, for what is forbidden: in a row of nothing else it is no less",
        "set the weights of such rows to 0 after softmax",
        "hide",
        tuple(
            {"hide": hide, "forbid": steps.keep}
            for hide in (
                *(steps.filled_with(number, most=True) for number in (-1e9, -1e4, -1e5)),
                steps.filled_with(None),
                *(steps.added(number) for number in (None, -1e4)),
                lambda scores, mask: (scores + ~mask * -1e9).to(scores.dtype),  # as numpy adds them
            )
        ),
        needs="a query that may see nothing",
    ),
    Mistake(
        "-1e9 in half precision",
        "with -1e9 for what is forbidden, which half precision doesn't have, and under which a query that may see "
        "nothing looks at what is forbidden",
        "-1e9 is added to, or filled into, the scores",
        "fill with -inf, or with torch.finfo(scores.dtype).min, and set fully masked rows to 0",
        "hide",
        tuple(
            {"hide": hide, "forbid": steps.keep}
            for hide in (steps.filled_with(-1e9), steps.added(-1e9), steps.multiplied_and_added(-1e9))
        ),
        needs="half precision, or a query that may see nothing",
    ),
    Mistake(
        "no maximum subtracted",
        "with an exponential that overflows for large scores",
        "softmax is written as exp(s) / sum(exp(s))",
        "subtract each row's maximum before exp, or call softmax",
        "exp",
        ({"normalise": steps.softmax_over(-1, maximum=False)},),
        needs="scores above 88, whose exponential float32 has no number for",
    ),
    # In the vectors: how heads are split and joined, and the projections.
    Mistake(
        "heads split by view",
        "with heads that are split by view alone: each takes a piece of the text, not of the vectors",
        "view(batch, heads, tokens, d_k) of [batch, tokens, d_model]",
        "split the last axis alone, then move that of the heads: view(batch, tokens, heads, d_k).transpose(1, 2)",
        "split",
        ({"split": steps.split_by_view}, {"split": steps.split_by_view, "join": steps.join_by_view}),
        needs="several heads",
    ),
    Mistake(
        "heads joined in the wrong order",
        "with heads that are joined in the wrong order",
        "reshape(batch, tokens, d_model) of [batch, heads, tokens, d_k], without the transpose",
        "move the axis of the heads next to that of their elements before the reshape: [batch, token, head, d_k]",
        "join",
        (
            {"join": steps.join_by_view},
            {"join": steps.join_interleaved},
            {"split": steps.split_interleaved},
            {"join": lambda x: join(x.flip(1))},
        ),
        needs="several heads",
    ),
    Mistake(
        "q and k swapped",
        "with queries and keys in each other's place",
        "a typing error, or fused projections that are taken apart in another order",
        "scores are Q Kᵀ: rows are queries, columns keys",
        "swap",
        ({"projections": steps.swapped}, {"score": lambda query, key: key @ query.mT}),
    ),
    Mistake(
        "keys as values",
        "with keys in the place of values",
        "a typing error",
        "multiply the weights with V",
        "weigh",
        ({"weigh": lambda weights, key, value: weights @ key},),
    ),
    Mistake(
        "values not projected",
        "of values that are not projected by W_V",
        "x itself is multiplied with the weights",
        "multiply the weights with W_V x",
        "value",
        ({"projections": lambda by: by._replace(value=steps.unprojected(by.value))},),
    ),
    Mistake(
        "no W_O",
        "without the output's projection W_O",
        "the joined heads are returned",
        "apply W_O to the joined heads",
        "output",
        ({"projections": lambda by: by._replace(output=None)},),
    ),
    Mistake(
        "bias left out",
        "without a bias that is among the weights",
        "weights are multiplied by hand, and the bias is forgotten",
        "add the bias, or call the layer",
        "projections",
        tuple(
            {"projections": partial(steps.without_biases, names=names)}
            for count in (4, 1, 3, 2)
            for names in combinations(Projections._fields, count)
            if names != ("key",)  # which adds the same to all scores of a query
        ),
        needs="biases",
    ),
    Mistake(
        "transposed W",
        "with a weight in the place of its transpose",
        "x @ layer.weight, where torch's layers compute x @ layer.weight.T",
        "multiply by the transpose of this weight, or call the layer",
        "projections",
        tuple(
            {"projections": partial(steps.transposed, names=names)}
            for count in (4, 1, 3, 2)
            for names in combinations(Projections._fields, count)
        ),
    ),
    # In [PAD], a causal mask, dropout, a memory, and keys that heads share.
    Mistake(
        "[PAD] hidden as query",
        "in which [PAD] does not look, and is looked at",
        "the padding mask is put on the queries' dimension: unsqueeze(-1) in the place of unsqueeze(-2)",
        "put the padding mask on the axis of the keys: [batch, 1, 1, key]",
        "padding",
        ({"padding": lambda real: real[:, None, :, None]},),
        needs="[PAD]",
    ),
    Mistake(
        "causal off by one",
        "in which each query sees the next token",
        "triu(diagonal=2), tril(diagonal=1): the diagonal is counted from the wrong side",
        "a query sees itself and what stands before it: allow tril() of [query, key], or forbid triu(diagonal=1)",
        "causal",
        ({"causal": steps.shifted(1)},),
        needs="a causal mask",
    ),
    Mistake(
        "causal hides itself",
        "in which no query sees itself, and the first sees nothing",
        "triu() for what is forbidden, which has the diagonal, or < in the place of <=",
        "a query sees itself and what stands before it: allow tril() of [query, key], or forbid triu(diagonal=1)",
        "causal",
        (
            {"causal": steps.shifted(-1)},
            {"causal": steps.shifted(-1), "hide": steps.filled_with(None), "forbid": steps.keep},
        ),
        needs="a causal mask",
    ),
    Mistake(
        "causal the wrong way",
        "in which each query sees itself and what comes after",
        "triu in the place of tril, or a mask of what is forbidden taken for one of what is allowed",
        "a query sees itself and what stands before it: allow tril() of [query, key], or forbid triu(diagonal=1)",
        "direction",
        (
            {"causal": lambda queries, keys, first: torch.ones(queries, keys, dtype=torch.bool).triu(first)},
            {"causal": lambda queries, keys, first: ~causal(queries, keys, first)},
        ),
        needs="a causal mask",
    ),
    Mistake(
        DROPOUT,
        "that draws something anew each time, in eval too: dropout, as a rule",
        "F.dropout(weights, p) without training=self.training, or dropout_p in a fused kernel",
        "pass training=self.training, or dropout_p=self.p if self.training else 0.0",
        "dropout",
        (),
        needs="chance: it gives something else each time",
    ),
    Mistake(
        TEMPERATURE,
        "with a temperature that is not 1",
        "scores are multiplied or divided by one more number",
        "divide by √d_k and by nothing else",
        "temperature",
        tuple(
            {"scale": partial(steps.with_temperature, temperature=temperature)}
            for temperature in (0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 1.5, 2.0, 3.0, 4.0, 5.0, 10.0)
        ),
    ),
    Mistake(
        "memory ignored",
        "of the text to itself: keys and values are not made of the memory",
        "self-attention is copied, and x stays where the memory should stand",
        "make keys and values of the memory",
        "key",
        ({"memory": lambda query, memory: query},),
        needs="a memory: attention of one text to another",
    ),
    Mistake(
        "key heads in the wrong order",
        "whose heads share keys in turns, not with their neighbours",
        "repeat in the place of repeat_interleave",
        "repeat_interleave(heads // key_heads) along the axis of the heads",
        "share",
        ({"share": lambda x, heads: x.repeat(1, heads // x.shape[1], 1, 1)},),
        needs="several key heads, each of several heads",
    ),
    Mistake(
        "mask inverted",
        "with the mask the other way round",
        "True is taken for forbidden where it means allowed, or the other way round: libraries differ",
        "negate the mask",
        "meaning",
        ({"allow": lambda mask: ~mask},),
        needs="a mask",
    ),
)
