"""A real head's queries, keys and values under every scoring function and normaliser of the tutorials."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attncli.analysis.patterns import counted_queries
from attncli.attention import NORMALISERS, SCORES, Location, attend, hard_sample, masked_softmax
from attncli.attention.normalise import Normaliser
from attncli.attention.scores import ScoreFunction
from attncli.base.arrays import Floats
from attncli.checks.looks import Look
from attncli.models.head import OneHead

POSITIONS = 512  # of a location score, or more where the text has more: up to here it is the same score for every text


@dataclass(frozen=True)
class Variant:
    """The head's queries and keys under one scoring function and one normaliser.

    trained: False where the score has parameters that this model never learned: they are drawn from a seed.
    entropy: mean over queries, in nats. moved: the weight that would have to move to make it the head's own map
    (total variation, mean over queries). same_key: the share of queries whose strongest key is the same.
    """

    score: str
    normaliser: str
    trained: bool
    weights: Floats
    entropy: float
    moved: float
    same_key: float


def variants(head: OneHead, temperature: float = 1.0, seed: int = 0) -> list[Variant]:
    """The head's own queries and keys under every score of `SCORES` and every normaliser of `NORMALISERS`."""
    query, key, value = (torch.from_numpy(part) for part in (head.query, head.key, head.value))
    mask = mask_of(head)
    queries = counted_queries(head.record, head.record.layers[0])
    own = head.record.weights[0, 0]
    found = []
    for name in SCORES:
        score, trained = make_score(name, query.shape[-1], len(key), seed)
        for normaliser, normalise in normalisers(temperature, seed).items():
            with torch.inference_mode():
                _, kept, _ = attend(query, key, value, mask, score, normalise)
            look = Look.of(kept.numpy(), own, queries, head.record.sinks)
            found.append(
                Variant(
                    score=name,
                    normaliser=normaliser,
                    trained=trained,
                    weights=look.weights,
                    entropy=look.entropy,
                    moved=look.moved,
                    same_key=look.same_key,
                )
            )
    return found


def make_score(name: str, d_k: int, keys: int, seed: int) -> tuple[ScoreFunction, bool]:
    """A scoring function by name, and whether it needs no training; what it would learn is drawn from the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        score = Location(d_k, max(keys, POSITIONS)) if name == "location" else SCORES[name](d_k)
    return score, not isinstance(score, nn.Module)


def normalisers(temperature: float, seed: int) -> dict[str, Normaliser]:
    """Those of `NORMALISERS`: the softmax with this temperature, the sampling with this seed."""

    def soft(scores: Tensor, mask: Tensor | None) -> Tensor:
        return masked_softmax(scores, mask, temperature)

    def sample(scores: Tensor, mask: Tensor | None) -> Tensor:
        return hard_sample(scores, mask, torch.Generator().manual_seed(seed))

    return {**NORMALISERS, "softmax": soft, "hard_sample": sample}


def mask_of(head: OneHead) -> Tensor:
    """The head's mask, bool `[query, key]`."""
    return torch.from_numpy(head.record.mask.copy())  # which may share one row among all queries


def own_score(head: OneHead) -> ScoreFunction:
    """The head's own score of queries and keys that nothing has turned yet."""
    vectors = head.record.vectors
    assert vectors is not None
    scale, places = float(vectors.scale[0]), torch.arange(len(head.value))
    terms = [torch.from_numpy(term[0]) for term in vectors.terms.values()]

    def score(query: Tensor, key: Tensor) -> Tensor:
        if head.rotary is not None:
            angles = head.rotary.angles(places, query.dtype)
            query, key = head.rotary.turn(query, angles), head.rotary.turn(key, angles)
        return sum(terms, start=scale * query @ key.mT)

    return score
