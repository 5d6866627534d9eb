"""Mistakes on the way from queries and keys to weights: in the scale, in softmax, and in what hides keys from it."""

from attncli.attention.mistakes import steps
from attncli.attention.mistakes.mistake import Mistake

WEIGHTS: tuple[Mistake, ...] = (
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
        ({"scale": lambda scores, sizes: scores / sizes.d_model**0.5},),
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
        "softmax over queries",
        "with softmax over the queries, not over the keys",
        "dim=1 of [batch, query, key], or dim=-2: it was right in a layout that the scores no longer have",
        "softmax over the last dimension of [.., query, key]: each query's weights sum to 1",
        "normalise",
        ({"normalise": steps.softmax_over(-2)}, {"normalise": steps.softmax_over(-2), "forbid": steps.keep}),
    ),
    Mistake(
        "softmax over heads",
        "with softmax over the heads, not over the keys",
        "dim=1 of [batch, head, query, key] after it was dim=1 of [batch, key]",
        "softmax over the last dimension, the keys",
        "normalise",
        ({"normalise": steps.softmax_over(1)}, {"normalise": steps.softmax_over(1), "forbid": steps.keep}),
    ),
    Mistake(
        "softmax over the batch",
        "with softmax over the texts of the batch, not over the keys",
        "softmax is called without dim, or with dim=0",
        "softmax over the last dimension, the keys",
        "normalise",
        ({"normalise": steps.softmax_over(0)}, {"normalise": steps.softmax_over(0), "forbid": steps.keep}),
    ),
    Mistake(
        "softmax over all heads",
        "with one softmax over the keys of all heads together",
        "heads and keys are flattened into one dimension before softmax",
        "softmax over the keys of each head by itself",
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
        "set forbidden scores to -inf before softmax",
        "hide",
        ({"hide": steps.keep, "forbid": steps.masked},),
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
        "normalise",
        ({"normalise": steps.softmax_over(-1, maximum=False)},),
        needs="scores above 88, whose exponential float32 has no number for",
    ),
)
