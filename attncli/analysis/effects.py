"""Effects of changed attention as plain results: effect = an output with the change minus the output without it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attncli.base.arrays import Doubles
from attncli.record import ModelInfo

LEVEL = 0.05  # intervals hold the truth 19 times of 20
RESAMPLES = 1000
ROOM = 2**24  # numbers of samples that are drawn at once


@dataclass(frozen=True)
class Answer:
    """What is asked of a network: kind, one of `choices.Asked`; about, in words; value: without any change, the mean of
    several texts; mask: of its attention, one of `choices.Mask`.
    """

    kind: str
    about: str
    value: float
    mask: str = "padding"

    def document(self) -> dict[str, Any]:
        return {"kind": self.kind, "value": self.value, "about": self.about}


@dataclass(frozen=True)
class Curve:
    """What becomes of the output when more and more heads are silenced.

    by: what orders them: "effect", "importance" or "random". heads: the order, (layer, head), the first to go first;
    of random ones that of the first draw. removed: numbers of heads; effects: mean over texts `[draw, step]`.
    """

    by: str
    heads: list[tuple[int, int]]
    removed: list[int]
    effects: Doubles


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

    @property
    def texts(self) -> int:
        return len(self.effects)

    @property
    def mean(self) -> Doubles:
        """`[way, layer, head]`"""
        return self.effects.mean(axis=0)

    def interval(self) -> tuple[Doubles, Doubles] | None:
        """From where to where the means are, `[way, layer, head]` each (`bootstrap`); None for one text."""
        return bootstrap(self.effects) if self.texts > 1 else None

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


def bootstrap(samples: Doubles, seed: int = 0) -> tuple[Doubles, Doubles]:
    """From where to where the mean of `[sample, ...]` is, 19 times of 20: the percentiles of means over samples drawn
    anew with replacement (Efron 1979, "Bootstrap Methods: Another Look at the Jackknife").
    """
    generator = np.random.default_rng(seed)
    means = []
    at_once = max(1, ROOM // len(samples))
    for begin in range(0, RESAMPLES, at_once):
        drawn = generator.integers(len(samples), size=(min(at_once, RESAMPLES - begin), len(samples)))
        counts = np.apply_along_axis(np.bincount, 1, drawn, minlength=len(samples)) / len(samples)
        means.append(np.tensordot(counts, samples, axes=1))
    low, high = np.quantile(np.concatenate(means), [LEVEL / 2, 1 - LEVEL / 2], axis=0)
    return low, high
