"""How far heads are apart, where that puts them in a plane, and which of them belong together."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from attncli.base.arrays import Doubles, Floats
from attncli.base.brief import Brief
from attncli.base.errors import RequestError, install_hint

MOST_CLUSTERS = 10
LEAST = np.float32(1e-37)  # stands for a weight of 0, which has no logarithm


@dataclass(frozen=True, repr=False)
class Distances(Brief):
    """Between heads, layer by layer: head h of layer l has the number l * heads + h.

    divergence: the mean over tokens of the Jensen-Shannon divergence, `[head, head]`, in nats.
    embedding: points in a plane, `[head, 2]`; clusters: to which one a head belongs, from 0.
    """

    divergence: Doubles
    embedding: Doubles
    clusters: list[int]

    @classmethod
    def of(cls, divergence: Doubles) -> "Distances":
        """Raises RequestError when scipy or scikit-learn is not installed."""
        check_installed()
        metric = np.sqrt(divergence)
        return cls(divergence, embedded(metric), clustered(metric))


def divergence_sums(weights: Floats) -> Doubles:
    """The sum over queries of the Jensen-Shannon divergence between each two heads (Clark et al. 2019, section 6).

    With p and q the weights of two heads from one query, JS = H((p + q) / 2) - (H(p) + H(q)) / 2, in nats: 0 where
    they are the same, ln 2 where they share no key (Lin 1991, section IV, with equal weights).

    weights `[head, query, key]` -> float64 `[head, head]`.
    """
    own = entropies(weights)
    heads = len(weights)
    between = np.zeros((heads, heads))
    for head in range(heads - 1):
        middle = (weights[head] + weights[head + 1 :]) / 2
        between[head, head + 1 :] = entropies(middle) - (own[head] + own[head + 1 :]) / 2
    return np.maximum(between + between.T, 0.0)  # rounding can leave less than nothing


def entropies(weights: Floats) -> Doubles:
    """The sum over queries of each head's entropy: that of `patterns` in single precision, as there are many pairs."""
    logs = np.log(np.maximum(weights, LEAST))
    sums: Doubles = -(weights * logs).sum(axis=-1).sum(axis=-1, dtype=np.float64)
    return sums


def embedded(metric: Doubles) -> Doubles:
    """Points in a plane whose distances are near these: classical multidimensional scaling (Torgerson 1952).

    It is the kernel PCA of -d^2 / 2 (Williams 2002). The root of the mean divergence is a distance between points of
    a Euclidean space (Endres and Schindelin 2003), which the plane is a shadow of.
    """
    from sklearn.decomposition import KernelPCA

    if len(metric) < 3 or not metric.any():  # no plane, or a single point
        return np.zeros((len(metric), 2))
    points: Doubles = KernelPCA(2, kernel="precomputed", eigen_solver="dense").fit_transform(-(metric**2) / 2)
    return np.pad(points, ((0, 0), (0, 2 - points.shape[1])))  # heads along a line have one number only


def clustered(metric: Doubles) -> list[int]:
    """The cluster of each head: Ward 1963, cut into as many, of 2 to 10, as have the best silhouette (Rousseeuw 1987).

    The cluster of the first head is 0, that of the first head that is not in it 1, and so on.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform
    from sklearn.metrics import silhouette_score

    if len(metric) < 3 or not metric.any():
        return [0] * len(metric)
    tree = linkage(squareform(metric, checks=False), "ward")
    cuts = [fcluster(tree, count, "maxclust") for count in range(2, min(MOST_CLUSTERS, len(metric) - 1) + 1)]

    def silhouette(cut: Any) -> float:
        return silhouette_score(metric, cut, metric="precomputed") if len(set(cut)) > 1 else -1.0  # there is none

    numbers: dict[Any, int] = {}
    return [numbers.setdefault(cluster, len(numbers)) for cluster in max(cuts, key=silhouette)]


def check_installed() -> None:
    """Raises RequestError when scipy or scikit-learn is not installed."""
    for module, package in (("scipy", "scipy"), ("sklearn", "scikit-learn")):
        if find_spec(module) is None:
            raise RequestError(f"--distances needs {package}: {install_hint('stats')}")
