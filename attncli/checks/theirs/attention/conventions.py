"""What attention may be: the formula under conventions and with parts of its own, with no mistake, one, or two."""

import re
from collections.abc import Iterator, Mapping, Sequence
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
    """What some attention has that the formula has not: one of these ways of it. needed: whether it can't be without.

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
    """Whether the places of tokens matter without a mask."""
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
    conventions = list(bases(parts))[:MOST]
    for count in (1, 2):
        for mistakes in combinations((*(one for part in parts for one in part.mistakes), *MISTAKES), count):
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
        ways = {
            f"rotary positions, {said}{'' if base == 1e4 else f', base {base:g}'}": {
                "place": partial(turned, interleaved=interleaved, base=base)
            }
            for base in (1e4, *(base for base in (5e5, 1e6) if re.search(f"{base:.0f}|{base:_.0f}|{base:g}", source)))
            for said, interleaved in (("pairs half a head apart", False), ("pairs side by side", True))
        }
        parts.append(Part(ways))
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
