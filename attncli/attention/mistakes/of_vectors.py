"""Mistakes in the vectors: how heads are split and joined, and the projections."""

from functools import partial
from itertools import combinations

from attncli.attention.mistakes import steps
from attncli.attention.mistakes.formula import Projections
from attncli.attention.mistakes.mistake import Mistake

VECTORS: tuple[Mistake, ...] = (
    Mistake(
        "heads split by view",
        "with heads that are split by view alone: each takes a piece of the text, not of the vectors",
        "view(batch, heads, tokens, d_k) of [batch, tokens, d_model]",
        "view(batch, tokens, heads, d_k).transpose(1, 2)",
        "split",
        ({"split": steps.split_by_view}, {"split": steps.split_by_view, "join": steps.join_by_view}),
        needs="several heads",
    ),
    Mistake(
        "heads joined in the wrong order",
        "with heads that are joined in the wrong order",
        "reshape(batch, tokens, d_model) of [batch, heads, tokens, d_k], without the transpose",
        "transpose(1, 2) before the reshape",
        "join",
        (
            {"join": steps.join_by_view},
            {"join": steps.join_interleaved},
            {"split": steps.split_interleaved},
            {"join": steps.join_reversed},
        ),
        needs="several heads",
    ),
    Mistake(
        "q and k swapped",
        "with queries and keys in each other's place",
        "a typing error, or fused projections that are taken apart in another order",
        "scores are Q Kᵀ: rows are queries, columns keys",
        "score",
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
        "x @ layer.weight.T, or call the layer",
        "projections",
        tuple(
            {"projections": partial(steps.transposed, names=names)}
            for count in (4, 1, 3, 2)
            for names in combinations(Projections._fields, count)
        ),
    ),
)
