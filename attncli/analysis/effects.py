"""Effects of changed attention as plain results: effect = an output with the change minus the output without it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attncli.base.arrays import Doubles
from attncli.base.brief import Brief, titled
from attncli.record import ModelInfo
from attncli.record.selection import number_list

LEVEL = 0.05  # intervals hold the truth 19 times of 20
FEWEST = 3  # texts that an interval of their mean needs
COVERED = 0.96  # of intervals around normal effects hold the mean; of skewed ones, as real effects are, some 0.95
STEPS = 2**16  # in which Student's distribution is summed, from 0 to FAR standard deviations
FAR = 12.0


@dataclass(frozen=True)
class Answer:
    """What is asked of a network: kind, one of `choices.Asked`; about, in words; value: without any change, the mean of
    several texts; mask: of its attention, one of `choices.Mask`.
    """

    kind: str
    about: str
    value: float
    mask: str = "padding"

    def __str__(self) -> str:
        """cosine of the embeddings of the two texts 0.8123"""
        return f"{self.about} {self.value:.4g}"

    def document(self) -> dict[str, Any]:
        return {"kind": self.kind, "value": self.value, "about": self.about}


@dataclass(frozen=True, repr=False)
class Curve(Brief):
    """What becomes of the output when more and more heads are silenced.

    by: what orders them: "effect", "importance" or "random". heads: the order, (layer, head), the first to go first;
    of random ones that of the first draw. removed: numbers of heads; effects: mean over texts `[draw, step]`.
    """

    by: str
    heads: list[tuple[int, int]]
    removed: list[int]
    effects: Doubles


def numbered(layers: Sequence[int], heads: Sequence[int]) -> str:
    """layers 0-5, heads 3,7"""
    return f"layers {number_list(layers)}, heads {number_list(heads)}"


@dataclass(frozen=True)
class Ablation:
    """What silencing heads does to an output.

    layers, heads: numbers in the model. ways: what was put in place of a head's output: "zero", "mean", "resample".
    effects: `[text, way, layer, head]`, each head by itself; of_layers: `[text, way, layer]`, these heads of a layer at
    once; together: `[text, way]`, all of them.
    importance: `[layer, head]`, mean over texts of |∂ output / ∂ gate|; None where that is 0 by definition.
    curves: of several texts how far the output holds. partial: whether it was interrupted, and is of some texts only.
    """

    model: ModelInfo
    answer: Answer
    layers: list[int]
    heads: list[int]
    ways: list[str]
    effects: Doubles
    of_layers: Doubles
    together: Doubles
    importance: Doubles | None
    curves: Sequence[Curve] = ()
    partial: bool = False

    def __repr__(self) -> str:
        return titled(
            self,
            self.model.shown,
            f"{self.texts} text{'s' if self.texts > 1 else ''}",
            f"way {' and '.join(self.ways)}",
            numbered(self.layers, self.heads),
            str(self.answer),
            "partial" if self.partial else "",
        )

    @property
    def texts(self) -> int:
        return len(self.effects)

    @property
    def mean(self) -> Doubles:
        """`[way, layer, head]`"""
        return self.effects.mean(axis=0)

    def interval(self) -> tuple[Doubles, Doubles] | None:
        """Return both ends of an interval for the means, `[way, layer, head]` each; None for fewer than 3 texts.

        A distance and a divergence are at least 0, and so are both ends then.
        """
        if self.texts < FEWEST:
            return None
        low, high = mean_interval(self.effects)
        return (np.maximum(low, 0.0) if self.answer.kind in ("distance", "divergence") else low), high

    def ranked(self) -> list[tuple[int, int]]:
        """The heads as (layer, head), those with the largest effect of the first way first."""
        order = np.argsort(-np.abs(self.mean[0]), axis=None, kind="stable")
        places = zip(*np.unravel_index(order, self.mean[0].shape), strict=True)
        return [(self.layers[layer], self.heads[head]) for layer, head in places]

    def document(self) -> dict[str, Any]:
        """What --json prints."""
        mean, around = self.mean, self.interval()
        entries = []
        for way, layer, head in np.ndindex(*mean.shape):
            entry = {
                "layer": self.layers[layer],
                "head": self.heads[head],
                "way": self.ways[way],
                "effect": float(mean[way, layer, head]),
            }
            if around is not None:
                entry["interval"] = [float(side[way, layer, head]) for side in around]
            if self.importance is not None:
                entry["importance"] = float(self.importance[layer, head])
            entries.append(entry)
        layers = [
            {"layer": self.layers[layer], "way": way, "effect": float(self.of_layers[:, place, layer].mean())}
            for place, way in enumerate(self.ways)
            for layer in range(len(self.layers))
        ]
        together = [
            {"way": way, "effect": float(self.together[:, place].mean())} for place, way in enumerate(self.ways)
        ]
        document: dict[str, Any] = {
            "model": self.model.document(),
            "output": self.answer.document(),
            "texts": self.texts,
        }
        if self.partial:
            document["partial"] = True
        document |= {"effects": entries, "layers": layers, "together": together}
        if self.curves:
            document["curves"] = [
                {
                    "by": curve.by,
                    "heads": [[layer, head] for layer, head in curve.heads],
                    "removed": curve.removed,
                    "effects": curve.effects.tolist(),
                }
                for curve in self.curves
            ]
        return document


def mean_interval(samples: Doubles) -> tuple[Doubles, Doubles]:
    """Return both ends of an interval for the mean of `[sample, ...]`, at least 2 samples: mean ± t s / sqrt(n)."""
    count, mean = len(samples), samples.mean(axis=0)
    half = student(COVERED, count - 1) * samples.std(axis=0, ddof=1) / np.sqrt(count)
    return mean - half, mean + half


def student(share: float, freedom: int) -> float:
    """Return the t within which, around 0, this share of Student's distribution lies (Student 1908).

    t = sqrt(freedom) tan(angle), and the density of the angle is proportional to cos(angle) ** (freedom - 1).
    """
    most = min(np.pi / 2, FAR / np.sqrt(freedom))
    step = most / STEPS
    mass = np.cumsum(np.cos(step * (np.arange(STEPS) + 0.5)) ** (freedom - 1))
    ends = step * np.arange(1, STEPS + 1)
    return float(np.sqrt(freedom) * np.tan(np.interp(share * mass[-1], mass, ends)))
