"""The mistakes that people make in attention, and the formula with one of them or several."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import torch

from attncli.attention.mistakes import steps
from attncli.attention.mistakes.formula import (
    RIGHT,
    Affine,
    Formula,
    Projections,
    causal,
    forbid,
    hide,
    identity,
    join,
    normalise,
)

Replacement = Mapping[str, Callable[..., Any]]
DROPOUT, TEMPERATURE, WEAK = "dropout left on", "temperature", "hidden keys keep weight"
TINY = 1e-3  # too small to hide a key when added to its score
# Steps that return the type that they take, so that a second change can follow the first.
CHAINED = ("projections", "seen", "allow", "add")


class Mistake(NamedTuple):
    """A mistake, and the steps of the formula that it replaces.

    says: completes "this computes attention". where: how people come to make it. remedy: the code to write instead.
    step: the operation to look for in the source. changes: the steps that it replaces, for each way of making it.
    needs: the inputs or layers on which it shows, if not on all.
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


def weakly_hidden(number: float) -> tuple[Replacement, ...]:
    """Return the ways to fill hidden keys' scores with a number, or to add it to them if it is not too small."""
    ways = (steps.filled_with, steps.added) if abs(number) > TINY else (steps.filled_with,)
    return tuple({"hide": way(number), "forbid": steps.keep} for way in ways)


# If two mistakes explain the same numbers, the first is the diagnosis.
MISTAKES: tuple[Mistake, ...] = (
    # About the way from queries and keys to weights: the scale, softmax, and masks.
    Mistake(
        "no scale",
        "without the division by √d_k",
        "the formula is remembered as softmax(Q Kᵀ) V, or the score of Luong's dot attention is used",
        "divide the scores by √d_k, the square root of the size of one head's query",
        "score",
        ({"scale": steps.keep_scores},),
    ),
    Mistake(
        "scale multiplied",
        "with scores multiplied by √d_k, not divided by it",
        "the scores are divided by self.scale, which is d_k ** -0.5 already",
        "divide the scores by √d_k, or multiply them by d_k ** -0.5",
        "scale",
        (
            {"scale": lambda scores, sizes: scores * sizes.d_k**0.5},
            {"scale": lambda scores, sizes: scores * sizes.d_k},
        ),
    ),
    Mistake(
        "scale by heads",
        "with scores divided by the root of the number of heads, not by √d_k",
        "self.num_heads is used, or x.shape[1] is read after the heads have moved there",
        "divide by the square root of one head's size, d_k = d_model / heads",
        "scale",
        ({"scale": lambda scores, sizes: scores / (sizes.d_model // sizes.d_k) ** 0.5},),
    ),
    Mistake(
        "scale by d_model",
        "with scores divided by √d_model, not by √d_k",
        "x.shape[-1] is read before the heads are split, or self.d_model is used",
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
        "with scores divided by d_k or d_model, not by √d_k",
        "the root is forgotten, or √d_k divides the query, and then the scores once more",
        "divide by √d_k, once",
        "scale",
        ({"scale": lambda scores, sizes: scores / sizes.d_k}, {"scale": lambda scores, sizes: scores / sizes.d_model}),
    ),
    Mistake(
        "scale by tokens",
        "with scores divided by the root of the number of tokens, not by √d_k",
        "q.size(1) or k.shape[-2] is read, which was d_k in a layout that q and k no longer have",
        "divide by the square root of one head's size, d_k, the last axis of q and k",
        "scale",
        (
            {"scale": lambda scores, sizes: scores / scores.shape[-1] ** 0.5},
            {"scale": lambda scores, sizes: scores / scores.shape[-2] ** 0.5},
        ),
    ),
    Mistake(
        "scale after softmax",
        "with weights divided by √d_k after softmax, so that rows don't sum to 1",
        "softmax(Q Kᵀ) / √d_k: the division is outside softmax",
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
        (
            {"normalise": steps.softmax_over(-2)},
            {"normalise": steps.softmax_over(-2), "forbid": steps.keep},
            {"normalise": steps.softmax_over(-2, maximum=False)},
            {"normalise": steps.softmax_over(-2, of_rows=True)},
            {"normalise": steps.softmax_without_keepdims("all", "column")},
        ),
    ),
    Mistake(
        "softmax over everything",
        "with one softmax over all queries and keys together",
        "exp(s) / exp(s).sum(), without an axis: the whole matrix sums to 1",
        "take softmax over the axis of the keys alone: axis=-1, with keepdims",
        "normalise",
        tuple(
            {"normalise": steps.softmax_over(*dims, maximum=maximum, of_rows=of_rows)}
            for dims in ((-2, -1), (0, 1, 2, 3), (1, 2, 3))
            for maximum, of_rows in ((True, False), (False, False), (True, True))
        ),
    ),
    Mistake(
        "softmax over heads",
        "with softmax over the heads, not over the keys",
        "dim=1 of [batch, head, query, key] after it was dim=1 of [batch, key]",
        "take softmax over the axis of the keys, not of the heads",
        "normalise",
        ({"normalise": steps.softmax_over(1)}, {"normalise": steps.softmax_over(1), "forbid": steps.keep}),
    ),
    Mistake(
        "softmax over the batch",
        "with softmax over the texts of the batch, not over the keys",
        "softmax is called without dim, or with dim=0",
        "take softmax over the axis of the keys, not of the batch",
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
        "sum without keepdims",
        "whose softmax uses sums or maxima of other queries or keys, not each query's own",
        "e / e.sum(axis=-1): without keepdims the sums are a row, and each column is divided by one of them",
        "keep the axis of the maxima and the sums: e / e.sum(axis=-1, keepdims=True)",
        "normalise",
        tuple(
            {"normalise": steps.softmax_without_keepdims(most, total)}
            for most, total in (
                *((most, "turned") for most in ("row", "none", "all", "turned")),
                *((most, "row") for most in ("turned", "column")),
            )
        ),
    ),
    Mistake(
        "softmax twice",
        "with softmax twice, the second time over the weights, which makes them nearly equal",
        "a function that returns weights is taken for one that returns scores",
        "take softmax of the scores once",
        "normalise",
        (
            {"normalise": lambda scores, sizes: normalise(normalise(scores, sizes), sizes), "forbid": steps.keep},
            {"normalise": lambda scores, sizes: normalise(normalise(scores, sizes), sizes)},
        ),
    ),
    Mistake(
        "a function other than softmax",
        "with a function other than softmax: sigmoid or log_softmax",
        "log_softmax is copied from a loss, or sigmoid from a gate: rows don't sum to 1",
        "take softmax over the axis of the keys",
        "normalise",
        (
            {"normalise": lambda scores, sizes: scores.sigmoid()},
            {"normalise": lambda scores, sizes: scores.log_softmax(-1), "forbid": steps.keep},
            {
                "normalise": lambda scores, sizes: scores.log_softmax(-1),
                "hide": steps.filled_with(-1e9),
                "forbid": steps.keep,
            },
        ),
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
        "-inf after softmax",
        "with -inf in weights, after softmax",
        "masked_fill(~mask, -inf) comes after softmax",
        "set the scores of forbidden keys to -inf before softmax",
        "hide",
        (
            {"hide": steps.keep, "forbid": steps.filled_with(-torch.inf)},
            {"hide": steps.keep, "forbid": steps.filled_with(-1e9)},
        ),
        needs="keys that a mask hides",
    ),
    Mistake(
        WEAK,
        "whose hidden keys keep weight, as the number in their scores is not low enough",
        "-1e-9 or 1e9 is written instead of -1e9; or -100, which is low enough only for small scores",
        "fill with -inf, or with torch.finfo(scores.dtype).min",
        "hide",
        tuple(change for number in (-10.0, 1e9) for change in weakly_hidden(number)),
        needs="keys that a mask hides",
    ),
    Mistake(
        "mask of another text",
        "in which a text's mask is applied to another text",
        "repeat, although the heads of a text are adjacent, or repeat_interleave, although they aren't",
        "repeat the mask as the scores are ordered: repeat_interleave(heads, 0) for [batch · head], else repeat",
        "repeat",
        tuple(
            {"hide": steps.of_another_text(first, hide), "forbid": steps.of_another_text(first, forbid)}
            for first in (True, False)
        ),
        needs="several texts with different masks",
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
        "without the mask, which is a parameter that it never reads",
        "it is in the signature, as in many tutorials, but nothing reads it",
        "set the scores of forbidden keys to -inf before softmax",
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
        "whose fully masked rows attend to masked keys",
        "forbidden scores get a finite number: if a row has no other scores, softmax still gives them weight",
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
        needs="a fully masked row",
    ),
    Mistake(
        "-1e9 in half precision",
        "with -1e9 for masked keys, which half precision can't represent, so that fully masked rows attend to them",
        "-1e9 is added to, or filled into, the scores",
        "fill with -inf, or with torch.finfo(scores.dtype).min, and set fully masked rows to 0",
        "hide",
        tuple(
            {"hide": hide, "forbid": steps.keep}
            for hide in (
                steps.filled_with(-1e9),
                steps.added(-1e9),
                # 0 · -inf if half precision turns the number into -inf
                lambda scores, mask: scores + (~mask).to(scores.dtype) * scores.new_tensor(-1e9),
            )
        ),
        needs="half precision, or a fully masked row",
    ),
    Mistake(
        "no maximum subtracted",
        "with an exponential that overflows for large scores",
        "softmax is written as exp(s) / sum(exp(s))",
        "subtract each row's maximum before exp, or call softmax",
        "exp",
        ({"normalise": steps.softmax_over(-1, maximum=False)},),
        needs="scores above 88, whose exponential overflows float32",
    ),
    # About the vectors: how heads are split and joined, and the projections.
    Mistake(
        "heads split by view",
        "with heads that are split by view alone: each takes some of the tokens, not a piece of each vector",
        "view(batch, heads, tokens, d_k) of [batch, tokens, d_model]",
        "split only the last axis, then move the axis of the heads: view(batch, tokens, heads, d_k).transpose(1, 2)",
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
        "heads and texts mixed",
        "in which joining the heads takes them for texts: texts see each other",
        "[batch · heads, tokens, d_k] is read back as [heads, batch, tokens, d_k]",
        "read it back as it was made: view(batch, heads, tokens, d_k).transpose(1, 2)",
        "join",
        tuple({"join": steps.join_with_texts(*axes)} for axes in ((0, 2, 1, 3), (1, 2, 0, 3))),
        needs="several heads",
    ),
    Mistake(
        "q and k swapped",
        "with queries and keys swapped",
        "a typo, or fused projections that are split in another order",
        "scores are Q Kᵀ: rows are queries, columns keys",
        "swap",
        ({"projections": steps.swapped}, {"score": lambda query, key: key @ query.mT}),
    ),
    Mistake(
        "keys as values",
        "with keys instead of values",
        "a typo",
        "multiply the weights by V",
        "weigh",
        ({"weigh": lambda weights, key, value: weights @ key},),
    ),
    Mistake(
        "values not projected",
        "with values that are not projected by W_V",
        "the weights are multiplied by x itself",
        "multiply the weights by W_V x",
        "value",
        ({"projections": lambda by: by._replace(value=Affine(torch.eye(*by.value.weight.shape).to(by.value.weight)))},),
    ),
    Mistake(
        "no W_O",
        "without the output projection W_O",
        "the joined heads are returned",
        "apply W_O to the joined heads",
        "output",
        ({"projections": lambda by: by._replace(output=None)},),
    ),
    Mistake(
        "bias left out",
        "without a bias that its layer has",
        "weights are multiplied by hand, and the bias is forgotten",
        "add the bias, or call the layer",
        "projections",
        tuple(
            {"projections": partial(steps.without_biases, names=names)}
            for count in (4, 1, 3, 2)
            for names in combinations(Projections._fields, count)
            if names != ("key",)  # a bias of the key adds the same number to all scores of a query
        ),
        needs="biases",
    ),
    Mistake(
        "transposed W",
        "with a weight matrix instead of its transpose",
        "x @ layer.weight, where torch's layers compute x @ layer.weight.T",
        "multiply by the transpose of this matrix, or call the layer",
        "projections",
        tuple(
            {"projections": partial(steps.transposed, names=names)}
            for count in (4, 1, 3, 2)
            for names in combinations(Projections._fields, count)
        ),
    ),
    # About [PAD], masks, dropout, a temperature, a memory, and keys that heads share.
    Mistake(
        "[PAD] hidden as query",
        "in which [PAD] is masked as a query, not as a key",
        "the padding mask is put on the axis of the queries: unsqueeze(-1) instead of unsqueeze(-2)",
        "put the padding mask on the axis of the keys: [batch, 1, 1, key]",
        "padding",
        (
            {"padding": steps.padding_of_queries},
            {"padding": steps.padding_of_queries, "hide": steps.filled_with(-1e9), "forbid": steps.keep},
        ),
        needs="[PAD]",
    ),
    Mistake(
        "causal off by one",
        "in which each query sees the next token",
        "triu(diagonal=2), tril(diagonal=1): the diagonal is counted from the wrong side",
        "a query sees itself and what precedes it: allow tril() of [query, key], or forbid triu(diagonal=1)",
        "causal",
        ({"causal": steps.shifted(1)},),
        needs="a causal mask",
    ),
    Mistake(
        "causal hides itself",
        "in which no query sees itself, and the first sees nothing",
        "triu() as the forbidden part, which includes the diagonal, or < instead of <=",
        "a query sees itself and what precedes it: allow tril() of [query, key], or forbid triu(diagonal=1)",
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
        "triu instead of tril, or a mask of forbidden keys taken for one of allowed keys",
        "a query sees itself and what precedes it: allow tril() of [query, key], or forbid triu(diagonal=1)",
        "direction",
        (
            {"causal": lambda queries, keys, first: torch.ones(queries, keys, dtype=torch.bool).triu(first)},
            {"causal": lambda queries, keys, first: ~causal(queries, keys, first)},
        ),
        needs="a causal mask",
    ),
    Mistake(
        "mask instead of causality",
        "in which a padding mask replaces the causal mask or the window, so that queries see the future",
        "is_causal=mask is None, or the padding mask is assigned where both should be combined",
        "combine the masks: allowed = causal & padding[:, None, None, :]",
        "causal",
        ({"seen": lambda seen: seen._replace(causal=seen.causal and seen.hides_nothing)},),
        needs="a causal mask and [PAD]",
    ),
    Mistake(
        DROPOUT,
        "whose output is random in eval mode, usually because of dropout",
        "F.dropout(weights, p) without training=self.training, or dropout_p in a fused kernel",
        "pass training=self.training, or dropout_p=self.p if self.training else 0.0",
        "dropout",
        (),
        needs="several runs: the output differs each time",
    ),
    Mistake(
        TEMPERATURE,
        "with a temperature that is not 1",
        "scores are multiplied or divided by one more number",
        "divide by √d_k and by nothing else",
        "temperature",
        (
            *(
                {"scale": partial(steps.with_temperature, temperature=temperature)}
                for temperature in (0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 1.5, 2.0, 3.0, 4.0, 5.0, 10.0)
            ),
            {"scale": lambda scores, sizes: scores / int(sizes.d_k**0.5)},
            {"scale": lambda scores, sizes: scores / sizes.d_k**0.25},
        ),
    ),
    Mistake(
        "memory ignored",
        "whose keys and values are computed from x, not from the memory",
        "self-attention is copied, and x stays where the memory should be",
        "compute keys and values from the memory",
        "key",
        ({"memory": lambda query, memory: query},),
        needs="a memory: attention of one text to another",
    ),
    Mistake(
        "key heads in the wrong order",
        "whose key heads are dealt out in turn, not each to neighbouring heads",
        "repeat instead of repeat_interleave",
        "repeat_interleave(heads // key_heads) along the axis of the heads",
        "share",
        ({"share": lambda x, heads: x.repeat(1, heads // x.shape[1], 1, 1)},),
        needs="several key heads, each shared by several heads",
    ),
    Mistake(
        "mask inverted",
        "with an inverted mask",
        "True is taken for forbidden where it means allowed, or the other way round: libraries differ",
        "negate the mask",
        "meaning",
        ({"allow": lambda mask: ~mask},),
        needs="a mask",
    ),
)
