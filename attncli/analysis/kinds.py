"""Kinds of heads: their definitions, and the rule that gives a head a label.

A head gets a label only if all measures of the kind hold: the interval is above the null, the score is above the null
by at least `least`, and the interval is above every head of the same network with shuffled matrices. Intervals hold for
all heads and kinds together (Bonferroni), so a network without any kind gets a label with a probability of 5%.
`attncli/analysis/README.md` explains the limits of each label.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import NamedTuple

import numpy as np

from attncli.analysis.patterns import BROAD_BELOW
from attncli.analysis.significance import LEVEL, mean_interval, student_quantile, wilson
from attncli.base.arrays import Bools, Brief, Doubles, Floats, Ints
from attncli.base.errors import RequestError
from attncli.base.printable import printable
from attncli.base.untrusted import read_json
from attncli.record import AttentionRecord
from attncli.record.parts import KnownKinds

# The smallest differences from the null that get a label.
SHARE = BROAD_BELOW  # of the weight; the threshold of `stats` too
COPIES = 0.25  # of the tokens: halfway from chance (0.5) to 1
FEEDS = 0.1  # of the induction heads' score
RETRIEVES = 0.1  # of the copied tokens (Wu et al. 2024, section 2)
MOVES = 0.1  # of the weight, above all heads with shuffled matrices
IDLE = 0.75  # how much less a head adds than the median head, as a share
FINDS = 0.1  # of the words, above the best rule that reads no words

FEWEST = 3  # texts or draws that an interval needs
LONGEST = 2**26  # bytes of a file of kinds


class HeadKind(NamedTuple):
    """A kind of head. glyph: its letter in a grid of heads. about: what is measured. null: what it is compared with."""

    name: str
    glyph: str
    about: str
    null: str


ON_TEXTS = "on texts, and on random tokens"
KINDS = {
    one.name: one
    for one in (
        HeadKind("self", "o", f"weight on the token itself, {ON_TEXTS}", "uniform attention"),
        HeadKind("previous", "p", f"weight on the previous token, {ON_TEXTS}", "uniform attention"),
        HeadKind("next", "n", f"weight on the next token, {ON_TEXTS}", "uniform attention"),
        HeadKind("offset", "k", "weight at one distance of 2 to 8, on random tokens", "the other distances"),
        HeadKind("sink", "S", f"weight on the first token, {ON_TEXTS}", "uniform attention"),
        HeadKind("sink elsewhere", "s", "weight on one later token, on texts", "the same token, in shuffled texts"),
        HeadKind("separator", "e", "weight on [SEP], on texts", "uniform attention"),
        HeadKind("punctuation", ",", "weight on punctuation, on texts", "uniform attention"),
        HeadKind("same word", "w", "weight on the same word elsewhere, on texts", "uniform attention"),
        HeadKind(
            "duplicate",
            "D",
            "weight on the earlier copy of the token, on repeated tokens",
            "the same position without a repeat",
        ),
        HeadKind(
            "induction",
            "I",
            "weight on the token after the earlier copy, and copying",
            "the same position without a repeat",
        ),
        HeadKind("feeds induction", "F", "share of the induction score lost without it", "another head of the layer"),
        HeadKind("retrieval", "R", "how often the strongest key is the copied token", "two tokens further on"),
        HeadKind("coreference", "a", "how often the strongest mention is of the same thing", "the best fixed rule"),
        HeadKind("syntactic", "y", "how often the strongest word is the syntactic head", "the best distance"),
        HeadKind("content", "c", "weight that depends on the words", "shuffled matrices"),
        HeadKind("idle", "z", "how much less it adds than the median head, as a share", "the model's median head"),
    )
}
OTHERWISE = ("content", "idle")  # labels only for heads without another label, in this order


@dataclass(frozen=True, repr=False)
class KindMeasure(Brief):
    """One measure of every head: the score, the interval of its mean, and the null, `[layer, head]` each.

    NaN if a head is not measured. least: the smallest difference from the null that gets a label. floor: the largest
    score of a head with shuffled matrices, `[layer, head]`; None if there is only a null.
    """

    name: str
    score: Doubles
    low: Doubles
    high: Doubles
    null: Doubles
    least: float
    floor: Doubles | None = None

    @classmethod
    def of(cls, name: str, samples: Doubles, nulls: Doubles, least: float, heads: int | None = None) -> "KindMeasure":
        """Build the measure from draws and their nulls, `[draw, layer, head]`. heads: the number of measured heads."""
        null = nulls.mean(axis=0)
        low, high = mean_interval(samples - nulls, interval_level(heads or samples[0].size))
        return cls(name, samples.mean(axis=0), null + low, null + high, null, least)

    @classmethod
    def of_texts(
        cls, name: str, mean: Doubles, spread: Doubles, texts: int, null: Doubles, least: float
    ) -> "KindMeasure":
        """Build the measure from means over texts, with the standard deviation of the texts' means."""
        half = student_quantile(interval_level(mean.size), texts - 1) * spread / np.sqrt(texts - 1)
        return cls(name, mean, mean - half, mean + half, np.broadcast_to(null, mean.shape), least)

    @classmethod
    def of_counts(
        cls, name: str, hits: Ints, count: int | Ints, null: Doubles, least: float, of: int = 1
    ) -> "KindMeasure":
        """Build the measure from the share of `count` words that each head finds, by Wilson's interval.

        Words are treated as independent. of: the number of candidates from which each head's share is the best.
        """
        level, counts = (1 - interval_level(hits.size)) / of, np.broadcast_to(count, hits.shape)
        ends = [wilson(*pair, level) for pair in zip(hits.ravel().tolist(), counts.ravel().tolist(), strict=True)]
        low, high = np.array(ends).T.reshape(2, *hits.shape)
        return cls(name, hits / counts, low, high, null, least)

    def with_floor(self, shuffled: "KindMeasure") -> "KindMeasure":
        """Return the measure with the floor from shuffled matrices."""
        return replace(self, floor=np.full_like(self.score, shuffled.score.max()))

    @property
    def holds(self) -> Bools:
        """Return True for each head that meets the conditions of a label, bool `[layer, head]`."""
        found: Bools = (self.low > self.null) & (self.score - self.null >= self.least)
        return found if self.floor is None else found & (self.low > self.floor)


def interval_level(heads: int) -> float:
    """Return the confidence level of one head's interval (Bonferroni).

    With a probability of 1 - LEVEL, the lower ends of all heads and kinds together are below their true means.
    """
    return 1 - 2 * LEVEL / (heads * len(KINDS))


@dataclass(frozen=True, repr=False)
class Judged(Brief):
    """A kind, with its measures of all heads. why_not: why it can't be measured on this model. beside: further numbers.

    details: further facts about heads, by (layer, head). others: heads that another label excludes.
    """

    kind: HeadKind
    measures: Sequence[KindMeasure] = ()
    why_not: str = ""
    beside: Mapping[str, Doubles] = field(default_factory=dict)
    details: Mapping[tuple[int, int], str] = field(default_factory=dict)
    others: frozenset[tuple[int, int]] = frozenset()

    @property
    def heads(self) -> list[tuple[int, int]]:
        """The heads with this label as (layer, head), the largest score first."""
        if not self.measures:
            return []
        holds = np.all([measure.holds for measure in self.measures], axis=0)
        found = [(int(layer), int(head)) for layer, head in np.argwhere(holds)]
        return sorted({*found} - self.others, key=lambda one: (-self.measures[0].score[one], one))


def exclude_labelled(kinds: Sequence[Judged]) -> list[Judged]:
    """Exclude heads that have another label from the kinds in OTHERWISE. Return all kinds."""
    by_name = {one.kind.name: one for one in kinds}
    labelled = {head for name, one in by_name.items() if name not in OTHERWISE for head in one.heads}
    for name in OTHERWISE:
        by_name[name] = replace(by_name[name], others=frozenset(labelled))
        labelled.update(by_name[name].heads)
    return list(by_name.values())


def labels_of(kinds: Iterable[Judged]) -> dict[tuple[int, int], list[str]]:
    """Return the labels of every head that has one, by (layer, head)."""
    found: dict[tuple[int, int], list[str]] = {}
    for one in kinds:
        for head in one.heads:
            found.setdefault(head, []).append(one.kind.name)
    return dict(sorted(found.items()))


# --- maps of random tokens ------------------------------------------------------------------------------

DISTANCES = (*range(-8, -1), *range(2, 9))  # of the kind "offset"


def mean_at(maps: Doubles | Floats, queries: Sequence[int], shift: int) -> Doubles:
    """Return the mean weight from these queries to the keys `shift` positions later, `[..., query, key]` -> `[...]`."""
    places = np.asarray(queries)
    return maps[..., places, places + shift].mean(axis=-1, dtype=np.float64)


def offset_samples(profile: Doubles) -> tuple[Doubles, Doubles]:
    """Return the weight at each head's best distance, and its mean at the other ones, `[draw, layer, head]` each.

    profile: by distance, `[draw, distance, layer, head]`. The best distance of a draw is chosen on the other draws, so
    that the choice does not bias the score.
    """
    count = profile.shape[1]
    total = profile.sum(axis=0)
    best = (total - profile).argmax(axis=1)[:, None]
    scores = np.take_along_axis(profile, best, axis=1)[:, 0]
    return scores, (profile.sum(axis=1) - scores) / (count - 1)


def content_shift(maps: Doubles) -> Doubles:
    """Return the weight that depends on the words, `[draw, layer, head]`, from maps `[draw, layer, head, query, key]`.

    It is the total variation distance between a draw's map and the mean map of the other draws, averaged over queries.
    """
    total = maps.sum(axis=0)
    found = [np.abs(one - (total - one) / (len(maps) - 1)).sum(axis=-1).mean(axis=-1) / 2 for one in maps]
    return np.array(found, dtype=np.float64)


def mean_received(weights: Doubles | Floats, counted: Bools) -> Doubles:
    """Return the mean weight on each key over the counted queries.

    weights: `[layer, head, query, key]`. counted: bool `[layer, query, key]`. Result: `[layer, head, key]`; 0 for a key
    without counted queries.
    """
    number = np.maximum(counted.sum(axis=-2), 1)[:, None]
    return (weights * counted[:, None]).sum(axis=-2, dtype=np.float64) / number


# --- a file of kinds ------------------------------------------------------------------------------------


def load_kinds(path: Path) -> KnownKinds:
    """Load the labels of heads from a file of `attncli kinds -o kinds.json`. Raises RequestError for any other file."""
    try:
        content = read_json(path, LONGEST)
        day = date.fromisoformat(content["measured"]).isoformat()
        model, part = content["model"], str(content["part"])
        heads = {(int(one["layer"]), int(one["head"])): str(one["labels"]).split(",") for one in content["heads"]}
        labels = {head: [name.strip() for name in names if name.strip() in KINDS] for head, names in heads.items()}
        return KnownKinds(labels, f"attncli kinds, {day}", str(model["name"]), str(model["sha256"]), part)
    except OSError as error:
        raise RequestError(f"can't read {path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise RequestError(f"{path} is not a file of kinds: make one with attncli kinds -o kinds.json") from error


def with_kinds(record: AttentionRecord, kinds: KnownKinds) -> AttentionRecord:
    """Return the record with labels for its heads. Raises RequestError for the labels of another model."""
    if (record.model.sha256, record.kind) != (kinds.sha256, kinds.part) or record.model.changes:
        this = f"{record.kind} attention of {printable(record.model.full_name)}"
        raise RequestError(
            f"--kinds has labels for the {printable(kinds.part)} attention of {printable(kinds.model)} "
            f"({printable(kinds.sha256[:6])}), and this is {this} ({record.model.sha256[:6]}): omit it"
        )
    return replace(record, kinds=kinds)
