"""Variants of the formula: with other conventions, with additional parts, and with one or two mistakes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, product
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.attention.mistakes import (
    MISTAKES,
    RIGHT,
    Affine,
    Formula,
    Mistake,
    Projections,
    Replacement,
    Sizes,
    change_steps,
    with_mistakes,
)
from attncli.attention.mistakes.known import TEMPERATURE
from attncli.attention.mistakes.steps import (
    from_the_start,
    join_interleaved,
    keep,
    keep_scores,
    split_interleaved,
    with_temperature,
)
from attncli.attention.positions import Rotary, alibi_slopes
from attncli.checks.code.calling import NO_FORMULA, Trial, difference
from attncli.checks.code.names import PARTS

CAUSAL: Replacement = {"seen": lambda seen: seen._replace(causal=True)}
# Conventions, all of them right. A variant has one of each group; "" is the formula's own.
HIDING: Mapping[str, Replacement] = {
    "": {},
    "causal by itself": CAUSAL,
    "causal by itself, counted from the first key": {**CAUSAL, "first": from_the_start},
}
# Some code is causal only if no mask is passed: is_causal=mask is None.
UNLESS_MASKED = "causal by itself, unless a mask is passed"
MASKED_ONLY: Replacement = {"seen": lambda seen: seen._replace(causal=seen.causal and seen.hides_nothing)}
HEADS: Mapping[str, Replacement] = {
    "": {},
    "heads take turns: element i belongs to head i mod heads": {"split": split_interleaved, "join": join_interleaved},
}
LONGEST = 10**6  # tokens
FAR = 0.1  # no temperature fits if the best one, found to a thousandth, leaves outputs of about 1 further apart
TIMES_FINER = 26  # steps of the search, each 4 times finer, down to the precision of float64
FEW = 3  # variants of each mistake that are tried in pairs of mistakes
MASK_STEPS = {"seen", "allow", "padding", "hide", "forbid"}  # they matter only under a mask


class FormulaPart(NamedTuple):
    """A part that the formula lacks, such as ALiBi. ways: its variants by name. needed: the code always has it.

    mistakes: those that people make in this part. declared: the name of what the source declares, or "".
    """

    ways: Mapping[str, Replacement]
    needed: bool = False
    mistakes: tuple[Mistake, ...] = ()
    declared: str = ""


Candidate = tuple[tuple[Mistake, ...], tuple[str, ...], Formula, Formula]


def is_causal(conventions: Sequence[str]) -> bool:
    return any(name.startswith("causal") for name in conventions)


def bases(parts: Sequence[FormulaPart]) -> Iterator[tuple[tuple[str, ...], Formula]]:
    """Yield the formula under all conventions, with their names, the fewest first."""
    groups = [*(part.ways if part.needed else {**part.ways, "": {}} for part in parts), HIDING, HEADS]
    for names in sorted(product(*groups), key=lambda names: sum(name != "" for name in names[-2:])):
        made: Formula | None = RIGHT
        for group, name in zip(groups, names, strict=True):
            made = made and change_steps(made, group[name])
        if made is not None:
            yield tuple(name for name in names if name), made


def candidates(
    trials: Sequence[Trial], parts: Sequence[FormulaPart], known: Sequence[Mistake], temperatures: bool
) -> Iterator[Candidate]:
    """Yield one mistake, the conventions, the formula with both, and the formula without the mistake.

    temperatures: search for the temperature too, which takes hundreds of formulas.
    """
    for part in parts:
        yield from with_part_mistakes(part, bases([one for one in parts if one is not part]))
    conventions = list(bases(parts))
    for mistake, (names, base) in product(known, conventions):
        if is_causal(names) or shows_unmasked(mistake) or trials[0].inputs.seen.padding is not None:
            yield from (((mistake,), names, made, base) for made in with_mistakes(base, (mistake,)))
    temperature = next(mistake for mistake in MISTAKES if mistake.name == TEMPERATURE)
    for names, base in conventions if temperatures else ():
        nearest = partial(with_temperature, temperature=nearest_temperature(trials[0], base))
        made = change_steps(base, {"scale": nearest})
        if made is not None:
            yield (temperature,), names, made, base


def pairs_of(parts: Sequence[FormulaPart], known: Sequence[Mistake]) -> Iterator[Candidate]:
    """Yield two mistakes at a time, as `candidates` does."""
    for mistakes, (names, base) in product(combinations(known, 2), list(bases(parts))[:4]):
        if is_causal(names) or all(map(shows_unmasked, mistakes)):
            yield from ((mistakes, names, made, base) for made in with_mistakes(base, mistakes, FEW))


def with_part_mistakes(part: FormulaPart, others: Iterable[tuple[tuple[str, ...], Formula]]) -> Iterator[Candidate]:
    """Yield the mistakes in a part, in a formula that has the other parts."""
    way, change = next(iter(part.ways.items()))
    for (names, base), mistake in product(others, part.mistakes):
        right = change_steps(base, change)
        if right is not None:
            yield from (((mistake,), (way, *names), made, right) for made in with_mistakes(base, (mistake,)))


def shows_unmasked(mistake: Mistake) -> bool:
    return not all(set(change) <= {*MASK_STEPS, "causal"} for change in mistake.changes)


def nearest_temperature(trial: Trial, base: Formula) -> float:
    """Return the temperature, from a twentieth to twenty, with which the formula comes nearest to the trial."""

    def gap(logarithm: float) -> float:
        try:
            ours = replace(base, scale=partial(with_temperature, temperature=10**logarithm))(trial.inputs)
        except NO_FORMULA:
            return torch.inf
        theirs = trial.output(ours.output.shape)
        return torch.inf if theirs is None else difference(theirs, ours.output, ours.nowhere)

    best, step = 0.0, 1.3
    for finer in range(TIMES_FINER):
        best = min((best + step * place / 8 for place in range(-8, 9)), key=gap)
        step /= 4
        if finer == 4 and gap(best) > FAR:  # no temperature comes near
            break
    return float(10**best)


# --- parts that the source, a weight or an argument declares ----------------------------------------------


def mistake(name: str, says: str, remedy: str, step: str, *changes: Replacement) -> Mistake:
    """Make a mistake in a part."""
    return Mistake(name, says, "", remedy, step, changes)


def rotary_part(rates: Iterable[float], declared: str) -> FormulaPart:
    """Return rotary positions in both orders of pairs, with each of these bases."""
    orders = {"pairs half a head apart": False, "pairs side by side": True}
    named = [(base, order, partial(rotate, interleaved=orders[order], base=base)) for base in rates for order in orders]
    turns = [turn for *_, turn in named]
    exponents = product(rates, orders.values(), (0.5, 2.0))
    return FormulaPart(
        {
            f"rotary positions, {order}{'' if base == 1e4 else f', base {base:g}'}": {"place": turn}
            for base, order, turn in named
        },
        mistakes=(
            mistake(
                "rotary pairs",
                "whose vectors are rotated in pairs of one order by angles for the other",
                "lay the angles out as the pairs: cat([a, a]) for halves, repeat_interleave(2) for neighbours",
                "turn",
                *({"place": partial(rotate_mixed, interleaved=order)} for order in (False, True)),
            ),
            mistake(
                "rotary on values",
                "whose values are rotated too",
                "rotate queries and keys, but not values",
                "turn values",
                *({"place": turn, "weigh": partial(weigh_turned, turn=turn)} for turn in turns),
            ),
            mistake(
                "rotary on one side",
                "in which only the queries or only the keys are rotated",
                "rotate both, so that scores depend on the distance",
                "turn",
                *({"norm": partial(turn_one, turn=turn, of_query=side)} for turn in turns for side in (True, False)),
            ),
            mistake(
                "rotary frequencies",
                "whose vectors are rotated by the wrong angles, such as position · base^(-i / d)",
                "rotate pair i by position · base^(-2 i / d): arange(0, d, 2) / d",
                "turn",
                *({"place": partial(rotate, interleaved=order, base=base**power)} for base, order, power in exponents),
            ),
        ),
        declared=declared,
    )


def weigh_turned(weights: Tensor, key: Tensor, value: Tensor, turn: Callable[..., Tensor]) -> Tensor:
    return weights @ turn(value, 0)


def turn_one(query: Tensor, key: Tensor, turn: Callable[..., Tensor], of_query: bool) -> tuple[Tensor, Tensor]:
    """Rotate only the queries or only the keys."""
    first = key.shape[-2] - query.shape[-2]
    return (turn(query, first), key) if of_query else (query, turn(key, 0))


def rotate(x: Tensor, first: int, interleaved: bool, base: float = 1e4) -> Tensor:
    """Rotate each vector by its position   (Su et al. 2021, equation 34)."""
    rotary = Rotary(x.shape[-1], base, interleaved)
    return rotary.turn(x, rotary.angles(torch.arange(first, first + x.shape[-2]), x.dtype))


def rotate_mixed(x: Tensor, first: int, interleaved: bool) -> Tensor:
    """Rotate pairs of one order by angles for the other."""
    cos, sin = Rotary(x.shape[-1]).angles(torch.arange(first, first + x.shape[-2]), x.dtype)
    if interleaved:
        cos, sin = (torch.cat([one, one], dim=-1) for one in (cos, sin))
        other = torch.stack([-x[..., 1::2], x[..., 0::2]], dim=-1).flatten(-2)
    else:
        cos, sin = (one.repeat_interleave(2, dim=-1) for one in (cos, sin))
        other = torch.cat([-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]], dim=-1)
    return x * cos + other * sin


def alibi_part(declared: str) -> FormulaPart:
    wrong = mistake(
        "ALiBi slopes",
        "with ALiBi's slopes in another order, off by one, with another sign, or added before the scale",
        "subtract 2^(-8 (head + 1) / heads) times the distance from the scaled scores",
        "add",
        *({"add": partial(add_slopes, sign=sign, reverse=turn)} for sign, turn in ((1, False), (-1, True), (1, True))),
        *({"add": partial(add_slopes, first=first)} for first in (-1, 1)),
        {"scale": lambda scores, sizes: add_slopes(scores) / sizes.d_k**0.5},
    )
    return FormulaPart({"ALiBi: a slope times the distance": {"add": add_slopes}}, mistakes=(wrong,), declared=declared)


def add_slopes(scores: Tensor, sign: float = -1.0, reverse: bool = False, first: int = 0) -> Tensor:
    """Add a slope times the distance of query and key   (Press et al. 2022, section 3)."""
    heads, queries, keys = scores.shape[1:]
    distance = (torch.arange(queries)[:, None] + keys - queries - torch.arange(keys)).abs()
    slopes = alibi_slopes(heads).to(scores) * 2.0 ** (-8 * first / heads)
    return scores + sign * (slopes.flip(0) if reverse else slopes)[:, None, None] * distance


def softcap_part(cap: float) -> FormulaPart:
    def capped(scores: Tensor) -> Tensor:
        """Return cap · tanh(scores / cap)   (Gemma 2, section 2)."""
        return cap * torch.tanh(scores / cap)

    small = mistake(
        "softcap not multiplied back",
        "whose scores are capped at 1, as tanh(scores / cap) is not multiplied by the cap again",
        "multiply by the cap: cap * tanh(scores / cap)",
        "cap",
        {"add": lambda scores: torch.tanh(scores / cap)},
    )
    late = mistake(
        "softcap after the mask",
        "whose scores are capped after the mask, which then hides nothing",
        "cap the scores, and then hide",
        "cap",
        {"add": capped, "hide": lambda scores, mask: scores.masked_fill(~mask, -cap), "forbid": keep},
    )
    return FormulaPart({f"scores capped at {cap:g}": {"add": capped}}, False, (late, small), f"softcap={cap:g}")


def sinks_part(sinks: Tensor) -> FormulaPart:
    def normalise(scores: Tensor, sizes: Sizes, before: bool = False) -> Tensor:
        """Take softmax with one more score per head, of no key   (gpt-oss; Xiao et al. 2024, equation 2)."""
        column = sinks.to(scores)[:, None, None].expand(*scores.shape[:-1], 1)
        both = [column, scores] if before else [scores, column]
        return torch.softmax(torch.cat(both, dim=-1), dim=-1)[..., :-1]

    shifted = mistake(
        "sinks before the keys",
        "that puts the sink before the keys, and then drops the last key instead of the sink",
        "append the sink after the keys, or drop the first column",
        "normalise",
        {"normalise": partial(normalise, before=True), "forbid": keep},
    )
    forgotten = mistake(
        "sinks left out",
        "without its sinks in the denominator of softmax",
        "append the sink to the scores before softmax, and drop its column after",
        "normalise",
        {"normalise": RIGHT.normalise},
    )
    return FormulaPart({"each head has a sink": {"normalise": normalise}}, True, (forgotten, shifted))


def unscaled_part() -> FormulaPart:
    """Return scores without a scale, beside a learned bias for each distance   (Raffel et al. 2020, section 2.1)."""
    return FormulaPart({"scores are not divided by √d_k, as in T5": {"scale": keep_scores}})


def cosine_part(numbers: Iterable[float]) -> FormulaPart:
    """Return cosines of queries and keys as scores, times one of these numbers   (Henry et al. 2020, equation 3)."""

    def unit(query: Tensor, key: Tensor, axes: tuple[int | None, int | None] = (-1, -1)) -> tuple[Tensor, Tensor]:
        made = [x if axis is None else F.normalize(x, dim=axis) for x, axis in zip((query, key), axes, strict=True)]
        return made[0], made[1]

    def times(scores: Tensor, sizes: Sizes, number: float) -> Tensor:
        return scores * number

    scales: dict[str, Replacement] = {
        "": {"scale": keep_scores},
        " divided by √d_k": {},
        **{f" times {number:g}": {"scale": partial(times, number=number)} for number in numbers},
    }

    def wrong(name: str, says: str, *axes: tuple[int | None, int | None]) -> Mistake:
        changes: list[Replacement] = [
            {"norm": partial(unit, axes=one), **scale} for one, scale in product(axes, scales.values())
        ]
        return mistake(name, says, "normalise both over the numbers of a head: dim=-1", "norm", *changes)

    ways = {f"scores are cosines{name}": {"norm": unit, **scale} for name, scale in scales.items()}
    mistakes = (
        wrong("cosine of one side", "in which only queries or only keys have length 1", (-1, None), (None, -1)),
        wrong("cosine over tokens", "that normalises over the tokens, not each vector", (-1, -2), (-2, -1), (-2, -2)),
    )
    return FormulaPart(ways, mistakes=mistakes)


def norms_part(query: Sequence[Tensor], key: Sequence[Tensor]) -> FormulaPart:
    """Return norms of queries and keys, with the usual epsilons. query, key: a weight and, in a LayerNorm, a bias."""
    epsilons = (1e-6, 1e-5, torch.finfo(torch.float32).eps, torch.finfo(torch.float64).eps)
    made = partial(normed, weights=(query, key))
    one_side = product(epsilons, ((True, False), (False, True)))
    unused = mistake(
        "norms unused",
        "that has norms of queries and keys, but does not apply both",
        "normalise the queries and keys of each head before their dot product",
        "norm",
        {"norm": lambda query, key: (query, key)},
        *({"norm": partial(made, epsilon=epsilon, sides=sides)} for epsilon, sides in one_side),
    )
    ways = {f"queries and keys normalised, epsilon {one:g}": {"norm": partial(made, epsilon=one)} for one in epsilons}
    return FormulaPart(ways, True, (unused,))


def normed(
    query: Tensor,
    key: Tensor,
    weights: tuple[Sequence[Tensor], Sequence[Tensor]],
    epsilon: float,
    sides: tuple[bool, bool] = (True, True),
) -> tuple[Tensor, Tensor]:
    """Normalise queries and keys, of each head or all together   (Zhang and Sennrich 2019, equation 4)."""

    def norm(x: Tensor, weight: Tensor, *bias: Tensor) -> Tensor:
        size = (len(weight),)
        rows = x if x.shape[-1] == len(weight) else x.transpose(1, 2).flatten(-2)
        if bias:
            rows = F.layer_norm(rows, size, weight.to(x), bias[0].to(x), epsilon)
        else:
            rows = rows * torch.rsqrt(rows.square().mean(-1, keepdim=True) + epsilon) * weight.to(x)
        return rows if rows.dim() == x.dim() else rows.unflatten(-1, (x.shape[1], -1)).transpose(1, 2)

    made = [norm(x, *its) if side else x for x, its, side in zip((query, key), weights, sides, strict=True)]
    return made[0], made[1]


class NormedAffine(Affine):
    """y = W norm(x) + b"""

    norm: Callable[[Tensor], Tensor]

    def __call__(self, x: Tensor) -> Tensor:
        return super().__call__(self.norm(x))


def residual_parts(norms: Sequence[Sequence[Tensor]], crosses: bool) -> list[FormulaPart]:
    """Return parts around the attention: a residual sum, a norm of the input or the output, or both.

    norms: each a weight and, in a LayerNorm, a bias. crosses: a norm may be that of the queries' input alone.
    """

    def normalise(x: Tensor, norm: Sequence[Tensor], epsilon: float) -> Tensor:
        weight, *bias = (one.to(x) for one in norm)
        if not bias:
            return F.rms_norm(x, x.shape[-1:], weight, epsilon)
        return F.layer_norm(x, x.shape[-1:], weight, bias[0], epsilon)

    def first(by: Projections, norm: Callable[[Tensor], Tensor], parts: Sequence[str] = PARTS[:3]) -> Projections:
        made = {part: NormedAffine(*getattr(by, part)) for part in parts}
        for one in made.values():
            one.norm = norm
        return by._replace(**made)

    ways: dict[str, Replacement] = {"its input is added to the output": {"finish": torch.add}}
    for norm, epsilon in product(norms, (1e-5, 1e-6)):
        layer, said = partial(normalise, norm=norm, epsilon=epsilon), f"normalised, epsilon {epsilon:g}"
        ways |= {
            f"its input is {said}": {"projections": partial(first, norm=layer)},
            f"its input is {said}, and added to the output before that norm": {
                "projections": partial(first, norm=layer),
                "finish": torch.add,
            },
            f"its input is added to the output, and both are {said}": {
                "finish": lambda x, q, layer=layer: layer(x + q)
            },
            f"its output is {said}": {"finish": lambda x, q, layer=layer: layer(x)},
        }
        of_query = {"projections": partial(first, norm=layer, parts=PARTS[:1])} if crosses else {}
        if of_query:
            ways[f"the input of its queries is {said}"] = of_query
            ways[f"the input of its queries is {said}, and added to the output before that norm"] = {
                **of_query,
                "finish": torch.add,
            }
    return [FormulaPart({name: way}, needed=True) for name, way in ways.items()]


def additive_part(vector: Tensor) -> FormulaPart:
    def scores(query: Tensor, key: Tensor, between: Callable[[Tensor], Tensor]) -> Tensor:
        """Return vᵀ tanh(q + k)   (Bahdanau et al. 2015, section A.1.2)."""
        return between(query[..., :, None, :] + key[..., None, :, :]) @ vector.to(query)

    linear = mistake(
        "tanh left out",
        "whose additive scores have no tanh around the sum of query and key, so that the query changes no weight",
        "put tanh around the sum of the projected query and key",
        "tanh",
        {"score": partial(scores, between=torch.nn.Identity()), "scale": keep_scores},
    )
    right: Replacement = {"score": partial(scores, between=torch.tanh), "scale": keep_scores}
    return FormulaPart({"additive scores": right}, True, (linear,))


def window_parts(window: int) -> list[FormulaPart]:
    """Return a causal window of this many tokens, which counts the query's own, and windows to both sides."""

    def band(before: int, after: int) -> Replacement:
        return {**CAUSAL, "causal": partial(in_window, before=before, after=after)}

    def off_by_one(remedy: str, *changes: Replacement) -> Mistake:
        says = f"with a window that is one token larger or smaller than {window}"
        return mistake("window off by one", says, remedy, "window", *changes)

    ahead = mistake(
        "window open ahead",
        "with a window to the past, but none to the future",
        "hide what comes after the query, or after its window",
        "window",
        *(band(size, LONGEST) for size in (window - 1, window, window // 2)),
    )
    own = f"a query sees itself and the {window - 1} tokens before it: query - key < window"
    each = f"a query sees itself and {window} tokens to each side: |query - key| <= window"
    causal = {f"causal, with a window of {window} tokens": band(window - 1, 0)}
    both = {f"a window of {size} tokens to each side": band(size, size) for size in {window: 0, window // 2: 0}}
    one_less = band(window - 1, window - 1)
    return [
        FormulaPart(causal, False, (off_by_one(own, band(window, 0), band(window - 2, 0)),), f"window={window}"),
        FormulaPart(both, False, (off_by_one(each, band(window + 1, window + 1), one_less), ahead), f"window={window}"),
    ]


def in_window(queries: int, keys: int, first: int, before: int, after: int) -> Tensor:
    """Return bool `[query, key]`, True for the query's own key and this many keys before and after it."""
    offsets = torch.arange(keys) - (torch.arange(queries)[:, None] + first)
    return (offsets >= -before) & (offsets <= after)
