"""Mistakes in what attention of one kind has: [PAD], a causal mask, dropout, a memory, keys that heads share."""

from functools import partial

from attncli.attention.mistakes import steps
from attncli.attention.mistakes.mistake import Mistake

DROPOUT, TEMPERATURE = "dropout left on", "temperature"

KINDS: tuple[Mistake, ...] = (
    Mistake(
        "[PAD] hidden as query",
        "in which [PAD] does not look, and is looked at",
        "the padding mask is put on the queries' dimension: unsqueeze(-1) in the place of unsqueeze(-2)",
        "hide [PAD] as key: [batch, 1, 1, key]",
        "hide",
        ({"padding": lambda real: real[:, None, :, None]},),
        needs="[PAD]",
    ),
    Mistake(
        "causal off by one",
        "in which each query sees the next token",
        "triu(diagonal=2), tril(diagonal=1): the diagonal is counted from the wrong side",
        "a query sees itself and what stands before it: tril()",
        "causal",
        ({"causal": steps.shifted(1)},),
        needs="a causal mask",
    ),
    Mistake(
        "causal hides itself",
        "in which no query sees itself, and the first sees nothing",
        "triu() for what is forbidden, which has the diagonal, or < in the place of <=",
        "a query sees itself and what stands before it: tril()",
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
        "a query sees itself and what stands before it: tril()",
        "causal",
        ({"causal": steps.backwards}, {"causal": steps.not_causal}),
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
        "scale",
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
        "repeat_interleave(heads // key_heads, dim=1)",
        "share",
        ({"share": steps.share_in_turns},),
        needs="several key heads, each of several heads",
    ),
    Mistake(
        "mask inverted",
        "with the mask the other way round",
        "True is taken for forbidden where it means allowed, or the other way round: libraries differ",
        "negate the mask",
        "hide",
        ({"allow": lambda mask: ~mask},),
        needs="a mask",
    ),
)
