"""The formula under conventions and with parts of its own, with one mistake, or with two."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, product
from typing import NamedTuple

import torch
from torch import Tensor

from attncli.attention.mistakes import (
    MISTAKES,
    RIGHT,
    Formula,
    Mistake,
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

CAUSAL: Replacement = {"seen": lambda seen: seen._replace(causal=True)}
# Ways to be right: one of each group, "" being the formula's own.
HIDING: Mapping[str, Replacement] = {
    "": {},
    "causal by itself": CAUSAL,
    "causal by itself, counted from the first key": {**CAUSAL, "first": from_the_start},
}
HEADS: Mapping[str, Replacement] = {
    "": {},
    "heads take turns: element i is of head i mod heads": {"split": split_interleaved, "join": join_interleaved},
}
FAR = 0.1  # a difference of outputs of about 1, for a temperature that is right within a thousandth
TIMES_FINER = 26  # by 4 each time: as fine as float64 is
MOST = 8  # conventions under which mistakes are looked for
FEW = 3  # ways of making each of two mistakes
MASK_STEPS = {"seen", "allow", "padding", "hide", "forbid"}  # they matter only under a mask


class FormulaPart(NamedTuple):
    """A part that the formula lacks, in one of several ways. needed: the attention always has it.

    mistakes: those that are made with this part.
    """

    ways: Mapping[str, Replacement]
    needed: bool = False
    mistakes: tuple[Mistake, ...] = ()


Candidate = tuple[tuple[Mistake, ...], tuple[str, ...], Formula, Formula]


def is_causal(conventions: Sequence[str]) -> bool:
    return any(name.startswith("causal") for name in conventions)


def is_ordered(conventions: Sequence[str]) -> bool:
    """Return whether the order of the tokens matters without a mask."""
    return any(re.match("causal|rotary|ALiBi|a window", name) for name in conventions)


def bases(parts: Sequence[FormulaPart]) -> Iterator[tuple[tuple[str, ...], Formula]]:
    """Yield the formula under all conventions, with their names, the fewest first."""
    groups = [*(part.ways if part.needed else {**part.ways, "": {}} for part in parts), HIDING, HEADS]
    for names in sorted(product(*groups), key=lambda names: sum(name != "" for name in names[-2:])):
        made: Formula | None = RIGHT
        for group, name in zip(groups, names, strict=True):
            made = made and change_steps(made, group[name])
        if made is not None:
            yield tuple(name for name in names if name), made


def candidates(trials: Sequence[Trial], parts: Sequence[FormulaPart]) -> Iterator[Candidate]:
    """Yield one mistake, then two, with the conventions, the formula with both, and the formula without mistakes."""
    for part in parts:
        others = list(bases([one for one in parts if one is not part]))
        way, change = next(iter(part.ways.items()))
        for mistake, (names, base) in product(part.mistakes, others):
            right = change_steps(base, change)
            if right is not None:
                yield from (((mistake,), (way, *names), made, right) for made in with_mistakes(base, (mistake,)))
    conventions = list(bases(parts))[:MOST]
    for mistake, (names, base) in product(MISTAKES, conventions):
        if is_causal(names) or shows_unmasked(mistake):
            yield from (((mistake,), names, made, base) for made in with_mistakes(base, (mistake,)))
    temperature = next(mistake for mistake in MISTAKES if mistake.name == TEMPERATURE)
    for names, base in conventions:
        made = change_steps(
            base, {"scale": partial(with_temperature, temperature=nearest_temperature(trials[0], base))}
        )
        if made is not None:
            yield (temperature,), names, made, base
    for mistakes, (names, base) in product(combinations(MISTAKES, 2), conventions[:3]):
        if is_causal(names) or all(map(shows_unmasked, mistakes)):
            yield from ((mistakes, names, made, base) for made in with_mistakes(base, mistakes, FEW))


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


# --- parts that the source, a weight or an argument tells of ------------------------------------------------


def rotary_part(source: str) -> FormulaPart:
    """Rotary positions in both orders of pairs, with the bases that the source names."""
    rates = [1e4, *(base for base in (5e5, 1e6) if re.search(f"{base:.0f}|{base:_.0f}|{base:g}", source))]
    orders = {"pairs half a head apart": False, "pairs side by side": True}
    ways: dict[str, Replacement] = {
        f"rotary positions, {order}{'' if base == 1e4 else f', base {base:g}'}": {
            "place": partial(rotate, interleaved=interleaved, base=base)
        }
        for base, (order, interleaved) in product(rates, orders.items())
    }
    pairs = Mistake(
        "rotary pairs",
        "whose vectors are turned in pairs of one order by angles in the other",
        "",
        "lay the angles out as the pairs lie: cat([a, a]) for halves, repeat_interleave(2) for neighbours",
        "turn",
        tuple({"place": partial(rotate_mixed, interleaved=interleaved)} for interleaved in (False, True)),
    )

    def turn_values(turn: Callable[..., Tensor]) -> Replacement:
        return {"place": turn, "weigh": lambda weights, key, value: weights @ turn(value, 0)}

    values = Mistake(
        "rotary on values",
        "whose values are turned too",
        "",
        "turn queries and keys, but not values",
        "turn",
        tuple(turn_values(way["place"]) for way in ways.values()),
    )
    return FormulaPart(ways, mistakes=(pairs, values))


def rotate(x: Tensor, first: int, interleaved: bool, base: float = 1e4) -> Tensor:
    """Turn each vector by its position   (Su et al. 2021, equation 34)."""
    rotary = Rotary(x.shape[-1], base, interleaved)
    return rotary.turn(x, rotary.angles(torch.arange(first, first + x.shape[-2]), x.dtype))


def rotate_mixed(x: Tensor, first: int, interleaved: bool) -> Tensor:
    """Turn pairs of one order by angles of the other."""
    cos, sin = Rotary(x.shape[-1]).angles(torch.arange(first, first + x.shape[-2]), x.dtype)
    if interleaved:
        cos, sin = (torch.cat([one, one], dim=-1) for one in (cos, sin))
        other = torch.stack([-x[..., 1::2], x[..., 0::2]], dim=-1).flatten(-2)
    else:
        cos, sin = (one.repeat_interleave(2, dim=-1) for one in (cos, sin))
        other = torch.cat([-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]], dim=-1)
    return x * cos + other * sin


def alibi_part() -> FormulaPart:
    wrong = Mistake(
        "ALiBi slopes",
        "with the slopes of ALiBi in another order, or with another sign",
        "",
        "subtract 2^(-8 (head + 1) / heads) times the distance from the scores",
        "add",
        tuple({"add": partial(add_slopes, sign=s, reverse=r)} for s, r in ((1.0, False), (-1.0, True), (1.0, True))),
    )
    return FormulaPart({"ALiBi: a slope times the distance": {"add": add_slopes}}, mistakes=(wrong,))


def add_slopes(scores: Tensor, sign: float = -1.0, reverse: bool = False) -> Tensor:
    """Add a slope times the distance of query and key   (Press et al. 2022, section 3)."""
    queries, keys = scores.shape[-2:]
    distance = (torch.arange(queries)[:, None] + keys - queries - torch.arange(keys)).abs()
    slopes = alibi_slopes(scores.shape[1]).to(scores)
    return scores + sign * (slopes.flip(0) if reverse else slopes)[:, None, None] * distance


def softcap_part(cap: float) -> FormulaPart:
    cap_scores = partial(capped, cap=cap)
    late = Mistake(
        "softcap after the mask",
        "whose scores are capped after the mask, which then hides nothing",
        "",
        "cap the scores, and then hide",
        "cap",
        ({"add": cap_scores, "hide": lambda scores, mask: scores.masked_fill(~mask, -cap), "forbid": keep},),
    )
    return FormulaPart({f"scores capped at {cap:g}": {"add": cap_scores}}, mistakes=(late,))


def capped(scores: Tensor, cap: float) -> Tensor:
    """Return cap · tanh(scores / cap)   (Gemma 2, section 2)."""
    return cap * torch.tanh(scores / cap)


def sinks_part(sinks: Tensor) -> FormulaPart:
    forgotten = Mistake(
        "sinks left out",
        "without its sinks in the sum of softmax",
        "",
        "append the sink to the scores before softmax, and drop its column after",
        "normalise",
        ({"normalise": RIGHT.normalise},),
    )
    return FormulaPart({"each head has a sink": {"normalise": partial(with_sinks, sinks=sinks)}}, True, (forgotten,))


def with_sinks(scores: Tensor, sizes: Sizes, sinks: Tensor) -> Tensor:
    """Take softmax with one more score a head, which leads nowhere   (gpt-oss; Xiao et al. 2024, equation 2)."""
    column = sinks.to(scores)[:, None, None].expand(*scores.shape[:-1], 1)
    return torch.softmax(torch.cat([scores, column], dim=-1), dim=-1)[..., :-1]


def norms_part(query: Tensor, key: Tensor) -> FormulaPart:
    """RMS norms of the queries and keys of each head, with the usual epsilons."""
    epsilons = (1e-6, 1e-5, torch.finfo(torch.float32).eps, torch.finfo(torch.float64).eps)
    names = {f"queries and keys normalised, epsilon {epsilon:g}": epsilon for epsilon in epsilons}
    return FormulaPart(
        {name: {"norm": partial(rms_norm, weights=(query, key), epsilon=epsilon)} for name, epsilon in names.items()},
        needed=True,
    )


def rms_norm(query: Tensor, key: Tensor, weights: tuple[Tensor, Tensor], epsilon: float) -> tuple[Tensor, Tensor]:
    """Normalise queries and keys   (Zhang and Sennrich 2019, equation 4)."""
    normed = (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon) for x in (query, key))
    query, key = (x * weight.to(x) for x, weight in zip(normed, weights, strict=True))
    return query, key


def additive_part(vector: Tensor) -> FormulaPart:
    linear = Mistake(
        "tanh left out",
        "whose additive scores have no tanh around the sum of query and key, so that the query changes no weight",
        "",
        "put tanh around the sum of the projected query and key",
        "tanh",
        ({"score": partial(additive_scores, vector=vector, between=torch.nn.Identity()), "scale": keep_scores},),
    )
    right: Replacement = {"score": partial(additive_scores, vector=vector), "scale": keep_scores}
    return FormulaPart({"additive scores": right}, True, (linear,))


def additive_scores(
    query: Tensor, key: Tensor, vector: Tensor, between: Callable[[Tensor], Tensor] = torch.tanh
) -> Tensor:
    """Return vᵀ tanh(q + k)   (Bahdanau et al. 2015, section A.1.2)."""
    return between(query[..., :, None, :] + key[..., None, :, :]) @ vector.to(query)


def window_parts(window: int) -> list[FormulaPart]:
    """A window of so many tokens, as causal models count it (the query's own among them), or to each side."""

    def band(before: int, after: int) -> Replacement:
        return {**CAUSAL, "causal": partial(in_window, before=before, after=after)}

    def off_by_one(remedy: str, *changes: Replacement) -> tuple[Mistake, ...]:
        says = f"with a window that is not the {window} tokens that are asked for, but one more or less"
        return (Mistake("window off by one", says, "", remedy, "window", changes),)

    own = f"a query sees itself and the {window - 1} tokens before it: query - key < window"
    each = f"a query sees itself and {window} tokens to each side: |query - key| <= window"
    both_sides = {
        f"a window of {size} tokens to each side": band(size, size) for size in dict.fromkeys((window, window // 2))
    }
    return [
        FormulaPart(
            {f"causal, with a window of {window} tokens": band(window - 1, 0)},
            mistakes=off_by_one(own, band(window, 0), band(window - 2, 0)),
        ),
        FormulaPart(both_sides, mistakes=off_by_one(each, band(window + 1, window + 1), band(window - 1, window - 1))),
    ]


def in_window(queries: int, keys: int, first: int, before: int, after: int) -> Tensor:
    """Return bool `[query, key]`: so many keys before the query's own, and after it."""
    offsets = torch.arange(keys) - (torch.arange(queries)[:, None] + first)
    return (offsets >= -before) & (offsets <= after)
