"""The formula under conventions and with parts of its own, with no mistake, one, or two."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, product
from typing import NamedTuple

import torch
from torch import Tensor

from attncli.attention.mistakes import MISTAKES, RIGHT, Formula, Mistake, changed, with_mistakes
from attncli.attention.mistakes.known import TEMPERATURE, Change
from attncli.attention.mistakes.steps import from_the_start, join_interleaved, split_interleaved, with_temperature
from attncli.attention.relative import alibi_slopes
from attncli.attention.rotary import Rotary
from attncli.checks.theirs.attention.trial import Trial
from attncli.checks.theirs.comparing import difference

# What is right in another way than the formula's: one of each group, "" being the formula's own way.
CAUSAL = {"seen": lambda seen: seen._replace(causal=True)}
HIDING: dict[str, Change] = {
    "": {},
    "causal by itself": CAUSAL,
    "causal by itself, counted from the first key": {**CAUSAL, "first": from_the_start},
}
HEADS: dict[str, Change] = {
    "": {},
    "heads take turns: element i is of head i mod heads": {"split": split_interleaved, "join": join_interleaved},
}
TIMES_FINER = 26  # by 4 each time: as fine as float64 is
MOST = 8  # conventions under which mistakes are looked for
FEW = 3  # ways of making each of two mistakes
OF_MASKS = ("seen", "allow", "padding", "hide", "forbid")  # fields that matter under a mask alone


class Part(NamedTuple):
    """A part that the formula has not, in one of several ways. needed: the attention always has it.

    mistakes: those that are made with this part alone.
    """

    ways: Mapping[str, Change]
    needed: bool = False
    mistakes: tuple[Mistake, ...] = ()

    @property
    def choices(self) -> Mapping[str, Change]:
        return self.ways if self.needed else {**self.ways, "": {}}


Parts = tuple[Part, ...]


def is_causal(conventions: Sequence[str]) -> bool:
    return any(name.startswith("causal") for name in conventions)


def is_ordered(conventions: Sequence[str]) -> bool:
    """Return whether the order of the tokens matters without a mask."""
    return any(re.match("causal|rotary|ALiBi|a window", name) for name in conventions)


def bases(parts: Parts = ()) -> Iterator[tuple[tuple[str, ...], Formula]]:
    """The formula in every convention, one of each group, the fewest first."""
    groups = [*(part.choices for part in parts), HIDING, HEADS]
    for names in sorted(product(*groups), key=lambda names: sum(name != "" for name in names[-2:])):
        made: Formula | None = RIGHT
        for group, name in zip(groups, names, strict=True):
            made = made and changed(made, group[name])
        if made is not None:
            yield tuple(name for name in names if name), made


Candidate = tuple[tuple[Mistake, ...], tuple[str, ...], Formula, Formula]


def candidates(trials: Sequence[Trial], parts: Parts) -> Iterator[Candidate]:
    """Mistakes, conventions, the formula with both, and with conventions alone: one, then two mistakes."""
    for part in parts:
        others = list(bases(tuple(one for one in parts if one is not part)))
        for mistake in part.mistakes:
            for names, base in others:
                way = next(iter(part.ways))
                right = changed(base, part.ways[way])
                if right is not None:
                    named = (way, *names)
                    yield from (((mistake,), named, made, right) for made in with_mistakes(base, (mistake,)))
    conventions = list(bases(parts))[:MOST]
    for count in (1, 2):
        for mistakes in combinations(MISTAKES, count):
            for names, base in conventions if count < 2 else conventions[:3]:
                if is_causal(names) or not any(map(of_masks, mistakes)):
                    few = None if count < 2 else FEW
                    yield from ((mistakes, names, made, base) for made in with_mistakes(base, mistakes, few))
        if count == 1:
            yield from with_any_temperature(trials, conventions)


def with_any_temperature(
    trials: Sequence[Trial], conventions: Sequence[tuple[tuple[str, ...], Formula]]
) -> Iterator[Candidate]:
    """The temperature with which each convention comes nearest."""
    temperature = next(mistake for mistake in MISTAKES if mistake.name == TEMPERATURE)
    for names, base in conventions:
        change = {"scale": partial(with_temperature, temperature=nearest_temperature(trials[0], base))}
        made = changed(base, change)
        if made is not None:
            yield (temperature,), names, made, base


def nearest_temperature(trial: Trial, base: Formula) -> float:
    """By ever finer steps, from a twentieth to twenty."""

    def gap(logarithm: float) -> float:
        made = replace(base, scale=partial(with_temperature, temperature=10**logarithm))
        try:
            ours = made(trial.inputs)
        except (RuntimeError, ValueError, IndexError):  # these shapes can't be given to it
            return torch.inf
        theirs = trial.output(ours.output.shape)
        return torch.inf if theirs is None else difference(theirs, ours.output, ours.nowhere)

    best, step = 0.0, 1.3
    for _ in range(TIMES_FINER):
        best = min((best + step * place / 8 for place in range(-8, 9)), key=gap)
        step /= 4
    return float(10**best)


def of_masks(mistake: Mistake) -> bool:
    """Whether nothing of it shows without a mask."""
    return all(set(change) <= {*OF_MASKS, "causal"} for change in mistake.changes)


# --- parts that some attention has ----------------------------------------------------------------------


def turned(x: Tensor, first: int, interleaved: bool, base: float = 1e4) -> Tensor:
    """Turn each vector by its position   (Su et al. 2021, equation 34)."""
    rotary = Rotary(x.shape[-1], base, interleaved)
    return rotary.turn(x, rotary.angles(torch.arange(first, first + x.shape[-2]), x.dtype))


def sloped(scores: Tensor, sign: float = -1.0, backwards: bool = False) -> Tensor:
    """Add a slope times the distance of query and key   (Press et al. 2022, section 3)."""
    queries, keys = scores.shape[-2:]
    distance = (torch.arange(queries)[:, None] + keys - queries - torch.arange(keys)).abs()
    slopes = alibi_slopes(scores.shape[1]).to(scores)
    return scores + sign * (slopes.flip(0) if backwards else slopes)[:, None, None] * distance


def mixed(x: Tensor, first: int, interleaved: bool) -> Tensor:
    """Turn pairs that lie in one order by angles that lie in the other."""
    rotary = Rotary(x.shape[-1])
    cos, sin = rotary.angles(torch.arange(first, first + x.shape[-2]), x.dtype)
    if interleaved:
        cos, sin = (torch.cat([one, one], dim=-1) for one in (cos, sin))
        other = torch.stack([-x[..., 1::2], x[..., 0::2]], dim=-1).flatten(-2)
    else:
        cos, sin = (one.repeat_interleave(2, dim=-1) for one in (cos, sin))
        other = torch.cat([-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]], dim=-1)
    return x * cos + other * sin


def turning_values(turn: Callable[..., Tensor]) -> Change:
    """Turn queries, keys and values."""
    return {"place": turn, "weigh": lambda weights, key, value: weights @ turn(value, 0)}


def rms_normed(query: Tensor, key: Tensor, weights: tuple[Tensor, Tensor], epsilon: float) -> tuple[Tensor, Tensor]:
    """x / sqrt(mean(x²) + ε) · weight, of queries and of keys   (Zhang and Sennrich 2019, equation 4)."""

    def normed(x: Tensor, weight: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon) * weight.to(x)

    return normed(query, weights[0]), normed(key, weights[1])


def capped(scores: Tensor, cap: float) -> Tensor:
    """cap · tanh(scores / cap)   (Gemma 2, section 2)."""
    return cap * torch.tanh(scores / cap)


def with_sinks(scores: Tensor, sinks: Tensor) -> Tensor:
    """Take softmax with one more score a head, which leads nowhere   (gpt-oss; Xiao et al. 2024, equation 2)."""
    column = sinks.to(scores)[:, None, None].expand(*scores.shape[:-1], 1)
    return torch.softmax(torch.cat([scores, column], dim=-1), dim=-1)[..., :-1]


def additive(query: Tensor, key: Tensor, vector: Tensor) -> Tensor:
    """vᵀ tanh(q + k)   (Bahdanau et al. 2015, section A.1.2)."""
    return torch.tanh(query[..., :, None, :] + key[..., None, :, :]) @ vector.to(query)


def in_window(queries: int, keys: int, first: int, before: int, after: int) -> Tensor:
    """bool `[query, key]`: so many keys before the query's own and after it."""
    offsets = torch.arange(keys) - (torch.arange(queries)[:, None] + first)
    return (offsets >= -before) & (offsets <= after)


def mistake_with(name: str, says: str, remedy: str, step: str, *changes: Change) -> Mistake:
    return Mistake(name, says, "", remedy, step, changes)


def positions_part(source: str) -> Parts:
    """Return rotary positions or ALiBi where the source speaks of one; both where there is no source."""
    parts: list[Part] = []
    if not source or re.search(r"rope|rotary|rotate_half|freqs|inv_freq|\bcos\b", source, re.IGNORECASE):
        ways: dict[str, Change] = {
            f"rotary positions, {said}{'' if base == 1e4 else f', base {base:g}'}": {
                "place": partial(turned, interleaved=interleaved, base=base)
            }
            for base in (1e4, *(base for base in (5e5, 1e6) if re.search(f"{base:.0f}|{base:_.0f}|{base:g}", source)))
            for said, interleaved in (("pairs half a head apart", False), ("pairs side by side", True))
        }
        wrong_turns = (
            mistake_with(
                "rotary pairs",
                "whose vectors are turned in pairs of one order by angles in the other",
                "lay the angles out as the pairs lie: cat([a, a]) for halves, repeat_interleave(2) for neighbours",
                "turn",
                {"place": partial(mixed, interleaved=False)},
                {"place": partial(mixed, interleaved=True)},
            ),
            mistake_with(
                "rotary on values",
                "whose values are turned too",
                "turn queries and keys alone",
                "turn",
                *(turning_values(way["place"]) for way in ways.values()),
            ),
        )
        parts.append(Part(ways, mistakes=wrong_turns))
    if not source or re.search(r"alibi|slope", source, re.IGNORECASE):
        wrong = mistake_with(
            "ALiBi slopes",
            "with the slopes of ALiBi in another order, or with another sign",
            "subtract 2^(-8 (head + 1) / heads) times the distance from the scores",
            "add",
            {"add": partial(sloped, sign=1.0)},
            {"add": partial(sloped, backwards=True)},
            {"add": partial(sloped, sign=1.0, backwards=True)},
        )
        parts.append(Part({"ALiBi: a slope times the distance": {"add": sloped}}, mistakes=(wrong,)))
    return tuple(parts)


def softcap_part(cap: float) -> Part:
    late = mistake_with(
        "softcap after the mask",
        "whose scores are capped after the mask, which then hides nothing",
        "cap the scores, and then hide",
        "hide",
        {
            "add": partial(capped, cap=cap),
            "hide": lambda scores, mask: scores.masked_fill(~mask, -cap),
            "forbid": lambda weights, mask: weights,
        },
    )
    return Part({f"scores capped at {cap:g}": {"add": partial(capped, cap=cap)}}, mistakes=(late,))


def sinks_part(sinks: Tensor) -> Part:
    forgotten = mistake_with(
        "sinks left out",
        "without its sinks in the sum of softmax",
        "append the sink to the scores before softmax, and drop its column after",
        "normalise",
        {"normalise": RIGHT.normalise},
    )
    return Part({"each head has a sink": {"normalise": partial(with_sinks, sinks=sinks)}}, True, (forgotten,))


def norms_part(query: Tensor, key: Tensor) -> Part:
    """RMS norms of the queries and keys of each head, with the epsilons that are usual."""
    return Part(
        {
            f"queries and keys normalised, epsilon {epsilon:g}": {
                "norm": partial(rms_normed, weights=(query, key), epsilon=epsilon)
            }
            for epsilon in (1e-6, 1e-5, torch.finfo(torch.float32).eps, torch.finfo(torch.float64).eps)
        },
        needed=True,
    )


def window_part(window: int) -> Part:
    """A window of so many tokens, as causal models count it (the query's own among them), or to each side."""

    def band(before: int, after: int) -> Change:
        return {**CAUSAL, "causal": partial(in_window, before=before, after=after)}

    off = mistake_with(
        "window off by one",
        f"with a window of {window + 1} tokens where {window} are asked for",
        f"a query sees itself and the {window - 1} tokens before it: query - key < window",
        "causal",
        band(window, 0),
        band(window - 2, 0),
    )
    ways = {
        f"causal, with a window of {window} tokens": band(window - 1, 0),
        f"a window of {window // 2} tokens to each side": band(window // 2, window // 2),
        f"a window of {window} tokens to each side": band(window, window),
    }
    return Part(ways, mistakes=(off,))
