"""The mistakes that people make in positions: sines and cosines, learned vectors, rotations."""

from functools import partial

import torch

from attncli.attention.mistakes import placing
from attncli.attention.mistakes.known import Change, Mistake

FROM_ONE = {"count": partial(placing.from_, 1)}
BASES = (1_000.0, 100_000.0, 1_000_000.0, 500_000.0, 160_000.0, 1_024.0, 10.0)  # 100 is the exponent without 2
COUNTED = (
    Mistake(
        "first position for all",
        "of which every token has the first",
        "table[0], or an index that is never counted up",
        "token p has row p of the table",
        "count",
        ({"count": lambda positions, shape: positions * 0},),
    ),
    Mistake(
        "positions over the batch",
        "counted along the texts of the batch, not along the tokens",
        "x.size(0) of [batch, token, d_model], in code that was written for [token, batch, d_model]",
        "count along the tokens: table[: x.size(1)] where the batch is first",
        "count",
        ({"count": partial(placing.over, -2)},),
    ),
    Mistake(
        "positions in reverse",
        "counted from the end",
        "flip, or length - 1 - position",
        "the first token has position 0",
        "count",
        ({"count": lambda positions, shape: positions.flip(-1)},),
    ),
)
RATED = (
    Mistake(
        "exponent without 2",
        "with the exponent i / d_model, where it should be 2i / d_model",
        "i counts pairs, from 0 to d_model / 2, and the 2 of the paper is left out",
        "10000 ** (2 * i / d_model) for pair i, which is arange(0, d_model, 2) / d_model",
        "rates",
        ({"rates": partial(placing.rates_of, lambda element, d: element // 2 / d)},),
    ),
    Mistake(
        "exponent doubled",
        "with the exponent 2i / d_model in which i is an even number already",
        "2 * i / d_model with i from arange(0, d_model, 2)",
        "either i from 0 to d_model / 2 and 2 * i, or arange(0, d_model, 2) without the 2",
        "rates",
        ({"rates": partial(placing.rates_of, lambda element, d: 2 * (element - element % 2) / d)},),
    ),
    Mistake(
        "exponent of every element",
        "with a rate for every element, where sine and cosine should share one",
        "the exponent is made of the element's number, without // 2, or of i + 1 for the cosine",
        "elements 2i and 2i + 1 have the same angle, pos / 10000 ** (2 * i / d_model)",
        "rates",
        (
            {"rates": partial(placing.rates_of, lambda element, d: element / d)},
            {"rates": partial(placing.rates_of, lambda element, d: 2 * element / d)},
        ),
    ),
    Mistake(
        "rates the wrong way",
        "multiplied by 10000^(2i / d_model), where they should be divided by it",
        "exp(arange * log(10000) / d_model) without the minus",
        "exp(-arange(0, d_model, 2) * log(10000) / d_model)",
        "rates",
        ({"rates": lambda d: 1 / placing.rates(d)},),
    ),
    Mistake(
        "degrees, not radians",
        "with angles in degrees",
        "a sine that is thought to take degrees",
        "sines take radians: the angle is pos / 10000 ** (2 * i / d_model) as it is",
        "rates",
        (
            {"angles": lambda positions, rates: torch.deg2rad(placing.angles(positions, rates))},
            {"angles": lambda positions, rates: torch.rad2deg(placing.angles(positions, rates))},
        ),
    ),
    Mistake(
        "angles times 2π",
        "with angles that are multiplied by 2π",
        "positions are taken for turns, not for radians",
        "the angle is pos / 10000 ** (2 * i / d_model) as it is",
        "rates",
        ({"angles": lambda positions, rates: 2 * torch.pi * placing.angles(positions, rates)},),
    ),
)
OTHER_BASES = tuple({"rates": partial(placing.rates, base=base)} for base in BASES)

MISTAKES_OF_ADDED: tuple[Mistake, ...] = (
    Mistake(
        "position added twice",
        "that are added twice",
        "the module that embeds has added them already, or x = x + p is followed by return x + p",
        "add them once, before the first layer",
        "position",
        ({"join": lambda x, vectors: x + 2 * vectors},),
    ),
    Mistake(
        "positions counted from 1",
        "counted from 1",
        "arange(1, length + 1)",
        "the first token has position 0: sines of 0, cosines of 1",
        "count",
        (FROM_ONE,),
    ),
    Mistake(
        "sine and cosine swapped",
        "with sine and cosine in each other's place",
        "pe[:, 0::2] = cos, pe[:, 1::2] = sin",
        "sine at even elements, cosine at odd ones",
        "waves",
        (
            {
                "waves": lambda angles: placing.waves(
                    angles + torch.pi / 2 - torch.pi * (torch.arange(angles.shape[-1]) % 2)
                )
            },
        ),
    ),
    Mistake(
        "one wave alone",
        "of sines alone, or of cosines alone",
        "sine of the whole table, without the second assignment",
        "sine at even elements, cosine at odd ones",
        "waves",
        ({"waves": torch.sin}, {"waves": torch.cos}),
    ),
    *COUNTED,
    *RATED,
    Mistake(
        "base other than 10000",
        "with another base than 10000",
        "a typing error in the number of zeros, or the base of another model",
        "10000 ** (2 * i / d_model)",
        "rates",
        OTHER_BASES,
    ),
    Mistake(
        "position multiplied",
        "that x is multiplied by",
        "x * table",
        "add them: x + table",
        "position",
        ({"join": lambda x, vectors: x * vectors},),
    ),
    Mistake(
        "position never added",
        "that are not there: x comes out as it went in",
        "the sum is computed and not returned",
        "return x + table[: x.size(1)]",
        "position",
        ({"join": lambda x, vectors: x},),
    ),
)

MISTAKES_OF_TURNED: tuple[Mistake, ...] = (
    Mistake(
        "turned the wrong way",
        "turned the other way round, by minus the angle",
        "the sign of the sine is at the wrong element: (a cos + b sin, b cos - a sin)",
        "(a, b) becomes (a cos - b sin, b cos + a sin)",
        "turn",
        ({"turn": placing.turn_back}, {"turn": partial(placing.turn_halves, pairs=placing.turn_back)}),
    ),
    Mistake(
        "turned without the minus",
        "that are no rotation: the minus of the sine is missing",
        "rotate_half gives (b, a) in the place of (-b, a)",
        "(a, b) becomes (a cos - b sin, b cos + a sin)",
        "turn",
        ({"turn": placing.turn_without_sign}, {"turn": partial(placing.turn_halves, pairs=placing.turn_without_sign)}),
    ),
    Mistake(
        "pairs mixed",
        "in which pairs are neighbours in one place, and halves in the other",
        "tables by repeat_interleave with rotate_half, or tables by cat with a rotation of neighbours",
        "repeat_interleave(2) with neighbours; cat([angles, angles]) with rotate_half",
        "turn",
        ({"turn": placing.turn_half_as_neighbours}, {"turn": placing.turn_neighbours_as_half}),
    ),
    Mistake(
        "keys not turned",
        "that turn queries and not keys, or keys and not queries",
        "one of both is returned as it came in",
        "turn both by their own positions: scores then know the difference alone",
        "turn",
        (
            {"which": placing.first_only},
            {"which": lambda turned, x: torch.cat([x[:1], turned[1:]]) if len(x) > 1 else turned},
        ),
    ),
    COUNTED[0],
    Mistake(
        "positions over the heads",
        "counted along the heads, not along the tokens",
        "[batch, head, token, d] is given to what was written for [batch, token, head, d], or the other way round",
        "count along the tokens",
        "count",
        ({"count": lambda positions, shape: placing.over(-2, positions, shape)},),
    ),
    Mistake(
        "positions over the batch",
        COUNTED[1].says,
        COUNTED[1].where,
        COUNTED[1].remedy,
        "count",
        ({"count": lambda positions, shape: placing.over(-3, positions, shape)},),
    ),
    COUNTED[2],
    *RATED,
    Mistake(
        "position added twice",
        "that turn twice as far",
        "what was turned is turned again",
        "turn once, before the scores",
        "position",
        ({"angles": lambda positions, rates: 2 * placing.angles(positions, rates)},),
    ),
    Mistake(
        "position never added",
        "that are not there: vectors come out as they went in",
        "the result is computed and not returned",
        "return what was turned",
        "position",
        ({"turn": lambda x, angles: x},),
    ),
)

IN_PLACE = Mistake(
    "input changed in place",
    "that change what they are given",
    "x += table, or x.add_(table): whoever gave x has another one afterwards",
    "x = x + table",
    "position",
    (),
)

CONVENTIONS_OF_ADDED: dict[str, Change] = {
    "x is multiplied by √d_model first": {"embed": lambda x: x * x.shape[-1] ** 0.5},
    "sines before cosines, not in turns, as in tensor2tensor": {"arrange": placing.halves},
    "the last rate is 1/10000 itself, as in tensor2tensor": {"rates": placing.inclusive},
}
CONVENTIONS_OF_LEARNED: dict[str, Change] = {
    "x is multiplied by √d_model first": {"embed": lambda x: x * x.shape[-1] ** 0.5},
    "counted from 1": FROM_ONE,
    "counted from 2, as in RoBERTa": {"count": partial(placing.from_, 2)},
}
CONVENTIONS_OF_TURNED: dict[str, Change] = {
    "pairs are elements i and i + d/2, as in GPT-NeoX": {"turn": placing.turn_halves},
    "counted from 1": FROM_ONE,
    "the first half of each vector is turned": {"rotated": lambda d: d // 2},
    **{f"base {int(base)}": {"rates": partial(placing.rates, base=base)} for base in BASES},
}
