"""What other weights and erased tokens do to an output, and how rankings of tokens fare by that; as plain results."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from attncli.analysis.effects import LEVEL, Answer
from attncli.analysis.luck import is_at_most, sign_test
from attncli.base.arrays import Doubles
from attncli.base.brief import Brief, titled
from attncli.record import ModelInfo
from attncli.text.tokens import Tokens

HARDLY = 0.01  # of what erasing tokens changes: other weights that change less hardly matter
NOTHING = 1e-6  # of a number: what rounding does to it
MEASURES = ("comprehensiveness", "sufficiency")
SURE = 0.01  # how often luck may tell a difference between a text and its tokens in random order
SLACK = 1e-9  # a share that equals the level is rounded to either side of it


@dataclass(frozen=True, repr=False)
class Shuffles(Brief):
    """Effects of other weights: in all heads of all layers at once, then in all heads of each layer.

    layers: their numbers. permuted: `[1 + layer, permutation]`; uniform: `[1 + layer]`. reordered: the control,
    `[permutation]`, with weights permuted in all layers and the tokens in another order each time; `[0]` where they
    have no other order.
    """

    layers: Sequence[int]
    permuted: Doubles
    uniform: Doubles
    reordered: Doubles

    @property
    def medians(self) -> Doubles:
        """Of the size of what permuting changes, `[1 + layer]`."""
        found: Doubles = np.median(np.abs(self.permuted), axis=1)
        return found

    @property
    def larger(self) -> tuple[int, int]:
        """In how many draws permuting changes the text more than its reordered tokens, and in how many less."""
        apart = np.abs(self.permuted[0]) - np.abs(self.reordered) if len(self.reordered) else np.zeros(0)
        return int(np.count_nonzero(apart > NOTHING)), int(np.count_nonzero(apart < -NOTHING))

    @property
    def matters_more(self) -> bool | None:
        """Whether permuting changes the text more than its reordered tokens, or less; None where no difference is told.

        By the sign test over the draws, two-sided at 1%: another seed seldom says otherwise where nothing differs.
        """
        more, less = self.larger
        return more > less if 2 * sign_test(max(more, less), min(more, less)) <= SURE else None

    def control(self) -> dict[str, Any] | None:
        """Return what the document has of reordered tokens."""
        if not len(self.reordered):
            return None
        sizes = np.abs(self.reordered)
        more, less = self.larger
        return {"permuted": float(np.median(sizes)), "interval": middle(sizes), "more": more, "less": less}

    def document(self) -> list[dict[str, Any]]:
        entries = []
        rows = zip([None, *self.layers], self.medians, self.permuted, self.uniform, strict=True)
        for layer, median, effects, uniform in rows:
            entry = {"permuted": float(median), "interval": middle(np.abs(effects)), "uniform": float(uniform)}
            entries.append({"layer": layer, **entry})
        return entries


@dataclass(frozen=True, repr=False)
class Erased(Brief):
    """What erasing tokens in one way does, and what rankings are worth by that: AOPC of each, and its limits.

    way: "mask" or "deletion". alone: what each token by itself changes, `[token]`. aopc, by MEASURES: `[ranking]`;
    limits, by MEASURES: the least and the most that any order of the tokens reaches; none where they were not sought.
    """

    way: str
    alone: Doubles
    aopc: Mapping[str, Doubles]
    limits: Mapping[str, tuple[float, float]]

    def normalised(self, measure: str) -> Doubles | None:
        """(AOPC - least) / (most - least), `[ranking]`; None where there are no limits or they are one."""
        if measure not in self.limits:
            return None
        least, most = self.limits[measure]
        return (self.aopc[measure] - least) / (most - least) if most > least else None

    @property
    def scores(self) -> dict[str, Doubles]:
        """What a ranking is measured by, `[ranking]` each."""
        normal = {f"normalised_{name}": self.normalised(name) for name in MEASURES}
        return dict(self.aopc) | {name: found for name, found in normal.items() if found is not None}


@dataclass(frozen=True)
class Trust:
    """How far maps explain one output of one text.

    answer: what is asked. tokens: of the text; read: places of those that the output is made of; erasable: of those
    that were ranked and erased, `[token]` below; sizes: how many were erased at once.
    importances: by method, `[token]`; the rankings are these in their order, and then random ones, `[ranking]`.
    taus: Kendall's tau of each ranking, by what with: a way of erasing one token, "gradient".
    beam: chains that were kept in the search for limits; 0 where all were tried, None where none were.
    exact: the share of all orders of the tokens with as large a gap, `[method]`, where all sets were tried.
    """

    model: ModelInfo
    answer: Answer
    tokens: Tokens
    read: Sequence[int]
    erasable: Sequence[int]
    sizes: Sequence[int]
    shuffles: Shuffles
    importances: Mapping[str, Doubles]
    taus: Mapping[str, Doubles]
    erased: Sequence[Erased]
    beam: int | None
    exact: Doubles | None = None

    def __repr__(self) -> str:
        rankings = f"{len(self.importances)} rankings of {len(self.erasable)} tokens"
        return titled(self, self.model.shown, rankings, str(self.answer))

    @property
    def methods(self) -> list[str]:
        return list(self.importances)

    @property
    def gaps(self) -> Doubles:
        """Comprehensiveness minus sufficiency, mean over the ways of erasing, `[ranking]`: large where the tokens that
        come first are the ones that the output hangs on.
        """
        found: Doubles = np.mean([one.aopc[MEASURES[0]] - one.aopc[MEASURES[1]] for one in self.erased], axis=0)
        return found

    @property
    def as_good(self) -> Doubles:
        """The share of all orders, or else of random rankings, whose gap is as large, `[method]`.

        Of random rankings it is (1 + those) / (1 + all), with itself as one. Of a ranking that is random itself either
        is at most p with a probability of at most p.
        """
        return (1 + self.hits) / (1 + self.random) if self.exact is None else self.exact

    @property
    def random(self) -> int:
        """The number of random rankings."""
        return len(self.gaps) - len(self.methods)

    @property
    def hits(self) -> Doubles:
        """How many random rankings have as large a gap, up to rounding, `[method]`."""
        count, gaps = len(self.methods), self.gaps
        found: Doubles = (gaps[count:] >= gaps[:count, None] - self.rounding).sum(axis=1).astype(np.float64)
        return found

    @property
    def rounding(self) -> float:
        """By how much changes of the output may differ and count as equal."""
        return NOTHING * max(1.0, abs(self.answer.value))

    @property
    def level(self) -> float:
        """The share below which a ranking beats random ones: 5% over all rankings of the table (Bonferroni)."""
        return LEVEL / len(self.methods)

    @property
    def beats(self) -> list[bool | None]:
        """Whether each method beats random rankings; None where those that were drawn leave it open."""
        if self.exact is not None:
            return [bool(share <= self.level * (1 + SLACK)) for share in self.exact]
        return [is_at_most(self.level, int(hits), self.random) for hits in self.hits]

    @property
    def better(self) -> list[str]:
        """The methods that beat random rankings."""
        return [name for name, beats in zip(self.methods, self.beats, strict=True) if beats]

    @property
    def open(self) -> list[str]:
        """The methods of which the random rankings that were drawn leave it open."""
        return [name for name, beats in zip(self.methods, self.beats, strict=True) if beats is None]

    @property
    def tellable(self) -> bool:
        """Whether the best ranking would beat random ones: few tokens have few orders, and the best is one of them."""
        return 1 / self.chains <= self.level * (1 + SLACK)

    @property
    def chains(self) -> int:
        """The number of orders that can score differently: chains of nested sets of tokens."""
        kept = pairwise([0, *self.sizes])
        return math.prod(math.comb(len(self.erasable) - fewer, more - fewer) for fewer, more in kept)

    @property
    def most_erased(self) -> float:
        """The most that erasing tokens was seen to change the output by."""
        return max(float(np.abs(found).max()) for one in self.erased for found in (one.alone, *one.aopc.values()))

    def document(self) -> dict[str, Any]:
        """What --json prints."""
        count = len(self.methods)
        rankings = [
            {
                "by": name,
                "as_good": float(self.as_good[place]),
                "beats": self.beats[place],
                **self.scores(place),
                "importance": importance.tolist(),
            }
            for place, (name, importance) in enumerate(self.importances.items())
        ]
        ends: dict[str, Callable[[Doubles], Any]] = {
            "low": partial(np.quantile, q=LEVEL / 2),
            "mean": np.mean,
            "high": partial(np.quantile, q=1 - LEVEL / 2),
        }
        random = {name: self.scores(slice(count, None), tell) for name, tell in ends.items()}
        return {
            "model": self.model.document(),
            "output": self.answer.document(),
            "tokens": self.tokens.text,
            "read": list(self.read),
            "erased": list(self.erasable),
            "sizes": list(self.sizes),
            "permutations": self.shuffles.permuted.shape[1],
            "weights": self.shuffles.document(),
            "reordered": self.shuffles.control(),
            "alone": {one.way: one.alone.tolist() for one in self.erased},
            "rankings": rankings,
            "random": {"rankings": self.random, "exact": self.exact is not None, **random},
            "limits": {one.way: {name: list(ends) for name, ends in one.limits.items()} for one in self.erased},
            "beam": self.beam,
            "level": self.level,
            "verdict": verdict(self),
        }

    def scores(self, which: int | slice, tell: Callable[[Doubles], Any] = float) -> dict[str, Any]:
        """The figures of one ranking, or what is told of those of some; without those that are none."""

        def told(figures: Mapping[str, Doubles]) -> dict[str, float]:
            chosen = {name: np.asarray(found[which]) for name, found in figures.items()}
            return {name: float(tell(found)) for name, found in chosen.items() if np.isfinite(found).all()}

        return {
            **told({"gap": self.gaps}),
            "tau": told(self.taus),
            **{one.way: told(one.scores) for one in self.erased},
        }


def middle(values: Doubles) -> list[float]:
    """From where to where 95% of some numbers are."""
    return [float(end) for end in np.quantile(values, [LEVEL / 2, 1 - LEVEL / 2])]


def widened(erased: Erased) -> Erased:
    """The same with limits that hold what was seen: a search that does not try all may miss the ends."""
    limits = {
        name: (min(least, float(erased.aopc[name].min())), max(most, float(erased.aopc[name].max())))
        for name, (least, most) in erased.limits.items()
    }
    return replace(erased, limits=limits)


# --- the verdict, in sentences made of these figures ----------------------------------------------------


def verdict(found: Trust) -> str:
    """Say what the figures do and no more, of this output and this text."""
    if max(found.most_erased, most_shuffled(found)) <= NOTHING * max(1.0, abs(found.answer.value)):
        return f"Neither other weights nor erased tokens change this {found.answer.kind}: there is nothing to explain."
    begin = f"{shuffled(found)}, where erasing tokens changes it by up to {figure(found.most_erased)}"
    if most_shuffled(found) <= HARDLY * found.most_erased:
        return f"{begin}: attention's weights hardly matter to this output, and no ranking by them explains it."
    return f"{begin}. {compared(found)} {rankings(found)}"


def most_shuffled(found: Trust) -> float:
    """The most that permuted weights, by their median, or uniform ones change, in all layers or one."""
    return float(max(found.shuffles.medians.max(), abs(found.shuffles.uniform).max()))


def shuffled(found: Trust) -> str:
    permuted, uniform = found.shuffles.medians[0], abs(found.shuffles.uniform[0])
    return (
        f"Permuting all weights changes this {found.answer.kind} by {figure(permuted)} (median), "
        f"uniform weights by {figure(uniform)}"
    )


def compared(found: Trust) -> str:
    """Say how much permuting weights changes beside the same tokens in random order, and whether that is more."""
    control = found.shuffles.control()
    if control is None:
        return "All its tokens are the same, so that no other order of them shows what is usual."
    more, draws = control["more"], len(found.shuffles.reordered)
    begin = (
        f"With its tokens in random order, permuting changes it by {figure(control['permuted'])}. "
        f"The text itself is changed more in {more} of {draws} draws, and less in {control['less']}."
    )
    if found.shuffles.matters_more is None:
        return f"{begin} No difference can be told from so many: nothing shows that the weights matter more here."
    how = "more" if found.shuffles.matters_more else "less"
    return f"{begin} Attention's weights matter {how} to this text than to its tokens in random order."


def rankings(found: Trust) -> str:
    """Say which methods beat random rankings, that none does, or that it can't be told."""
    if not found.tellable:
        return f"{len(found.erasable)} tokens are too few to tell a ranking of them from a random one."
    shares = dict(zip(found.methods, found.as_good, strict=True))
    level = f"at {found.level:.1%}, which is 5% over all {len(shares)}"
    better, still_open = found.better, found.open
    rest = [name for name in shares if name not in (*better, *still_open)]
    said = []
    if better:
        said.append(
            f"Tokens ranked by {listed(better)} beat random rankings {level} (as good are: {told(shares, better)})."
        )
    if still_open:
        said.append(
            f"Whether those by {listed(still_open)} beat random ones {level}, {found.random} of these leave open "
            f"(as good are: {told(shares, still_open)}). More --rankings may settle it."
        )
    if rest and said:
        said.append(f"Those by {listed(rest)} can't be told from them.")
    if not said:
        lowest = min(shares, key=shares.__getitem__)
        said.append(
            f"No ranking of its tokens can be told from random ones {level}: as good as the best of them, by {lowest}, "
            f"are {percent(shares[lowest])} of random ones."
        )
    return " ".join(said)


def told(shares: Mapping[str, float], names: Sequence[str]) -> str:
    """The shares of these methods, by name."""
    return ", ".join(f"{name} {percent(shares[name])}" for name in names)


def percent(share: float) -> str:
    """Return a share in %, and never 0.0% where it is more than 0."""
    return f"{share:.1%}" if share >= 0.001 or share == 0 else f"{100 * share:.1g}%"


def listed(names: Sequence[str]) -> str:
    """ "a, b and c" """
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def figure(number: float) -> str:
    """Three digits that matter; 0 for what rounding leaves."""
    return "0" if abs(number) < NOTHING else f"{number:.3g}"
