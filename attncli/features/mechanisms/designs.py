"""Run a real head with every scoring function and normaliser, and in other designs: positions, windows, shared keys.

The head was not trained for them. Controls separate the effect of a design from that of any change of its kind: the
same design with positions in a shuffled order, or another head's keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean

import numpy as np
import torch
from torch import Tensor, nn

from attncli.analysis.patterns import counted_queries
from attncli.attention import (
    NORMALISERS,
    SCORES,
    Alibi,
    Disentangled,
    Location,
    MultiHeadAttention,
    PositionalScore,
    RelativeBias,
    Rotary,
    RotaryScore,
    attend,
    causal_mask,
    hard_sample,
    masked_softmax,
    window_mask,
)
from attncli.attention.normalisers import Normaliser
from attncli.base import choices
from attncli.features.mechanisms import REACH
from attncli.features.mechanisms.document import DesignEntry, VariantEntry
from attncli.features.mechanisms.head import SAME, Figures, HeadInLayer, mask_of
from attncli.models.head import OneHead

POSITIONS = 512  # rows of a location score; more for a longer text. Up to here the score is the same for every text
DRAWS = 12  # shuffled orders: by chance, all agree with a probability of only 1 in 2 ** 11
PART = 4  # partial rotation rotates 1 / 4 of each vector, as in GPT-NeoX
SPAN = 256  # offsets to each side with their own vector, as in DeBERTa-v3; larger ones share vectors
FURTHEST = 512
SOFT = "softmax"
DRAWN = ("relative", "disentangled")  # designs with parameters that the model never learned
SHUFFLED, OTHERS = "positions shuffled", "another head's keys"


# --- other scores ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Variant:
    """The head's queries and keys under one scoring function and one normaliser.

    trained: False if the score has parameters that this model never learned, which are drawn from a seed. zero: the
    share of visible keys whose weight is exactly 0. output: the change of the head's output, ‖changed - own‖ / ‖own‖.
    Both are over the queries that count.
    """

    score: str
    normaliser: str
    trained: bool
    found: Figures
    zero: float
    output: float

    def document(self) -> VariantEntry:
        """Return its entry in what `mechanisms --json` prints."""
        return {
            "score": self.score,
            "normaliser": self.normaliser,
            "trained": self.trained,
            "weights": self.found.weights.tolist(),
            "entropy": self.found.entropy,
            "moved": self.found.moved,
            "same_key": self.found.same_key,
            "zero": self.zero,
            "output": self.output,
        }


def variants(head: OneHead, temperature: float = 1.0, seed: int = 0) -> list[Variant]:
    """Run the head's own queries and keys with every score of `SCORES` and every normaliser of `NORMALISERS`.

    Scores with drawn parameters are under softmax only. temperature: of softmax. seed: of parameters and samples.
    """
    query, key, value = (torch.from_numpy(part) for part in (head.query, head.key, head.value))
    mask = mask_of(head)
    queries = counted_queries(head.record, head.record.layers[0])
    own = head.record.weights[0, 0]
    own_output = own[queries] @ head.value
    visible = head.record.mask[queries]
    normalisers: dict[str, Normaliser] = {
        **NORMALISERS,
        SOFT: partial(masked_softmax, temperature=temperature),
        "hard_sample": lambda scores, mask: hard_sample(scores, mask, torch.Generator().manual_seed(seed)),
    }
    found = []
    for name in SCORES:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            d_k = query.shape[-1]
            score = Location(d_k, max(len(key), POSITIONS)) if name == "location" else SCORES[name](d_k)
        trained = not isinstance(score, nn.Module)  # needs no training
        for normaliser in normalisers if trained else (SOFT,):
            with torch.inference_mode():
                output, kept, _ = attend(query, key, value, mask, score, normalisers[normaliser])
            figures = Figures.of(kept.numpy(), own, queries, head.record.sinks)
            zero = float((kept.numpy()[queries] == 0)[visible].mean())
            change = np.linalg.norm(output.numpy()[queries] - own_output) / np.linalg.norm(own_output)
            found.append(Variant(name, normaliser, trained, figures, zero, float(change)))
    return found


# --- other designs --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Design:
    """The head's queries and keys in a design, and controls.

    name: as in `--design`; described: in words. trained: False if it has parameters that this model never learned,
    which are drawn from a seed. control: a description of the controls. verdict: how its numbers compare with theirs.
    """

    name: str
    described: str
    trained: bool
    found: Figures
    control: str
    controls: Sequence[Figures]
    verdict: str

    @property
    def name_shown(self) -> str:
        """ "ALiBi", "relative buckets, untrained" """
        return self.described if self.trained else f"{self.described}, untrained"

    def document(self) -> DesignEntry:
        """Return its entry in what `mechanisms --json` prints, with the map of the first control."""
        return {
            "name": self.name,
            "described": self.described,
            "trained": self.trained,
            "weights": self.found.weights.tolist(),
            "entropy": self.found.entropy,
            "distance": self.found.distance,
            "moved": self.found.moved,
            "same_key": self.found.same_key,
            "control": self.control,
            "control_distance": mean(one.distance for one in self.controls),
            "control_moved": mean(one.moved for one in self.controls),
            "control_weights": self.controls[0].weights.tolist(),
            "verdict": self.verdict,
        }


def designs(
    head: HeadInLayer, reach: int = REACH, temperature: float = 1.0, seed: int = 0, only: str | None = None
) -> list[Design]:
    """Return the head in every `choices.DesignName`, or in the one of this name.

    reach: tokens of a window to each side. Designs that are impossible for this head are omitted: a head of size 1
    can't be rotated, and a layer of one head can't share keys. Without known projections there are only WINDOWS.
    """
    window = window_mask(reach, len(head.mask))
    positions: dict[str, tuple[str, PositionalScore | None, Tensor | None]] = {
        "window": (f"window of {reach}", head.score, window),
        "causal-window": (f"window of {reach}, causal", head.score, window & causal_mask(len(window))),
    }
    groups: dict[str, int] = {}  # the number of heads that share keys: the smallest above the layer's own, or all
    if head.attention is not None:
        positions |= {name: (described, score, None) for name, (described, score) in _scores(head, seed).items()}
        if sizes := group_sizes(head)[1:]:
            groups = {"grouped": sizes[0], "multi-query": sizes[-1]}
    found = []
    for name in choices.names(choices.DesignName) if only is None else (only,):
        if name in positions:
            described, score, mask = positions[name]
            generator = torch.Generator().manual_seed(seed)
            made = head.under(score, mask, temperature)
            orders = [head.shuffled(generator) for _ in range(DRAWS)]
            controls = [head.under(score, mask, temperature, order=order) for order in orders]
            verdict, trained = verdict_on_distance(made, [head.own_figures, *controls]), name not in DRAWN
            verdict = verdict if trained else f"{verdict}, in this draw"
            found.append(Design(name, described, trained, made, SHUFFLED, controls, verdict))
        elif name in groups:
            described, made = f"keys of {groups[name]} heads", with_shared_keys(head, groups[name], temperature)
            others = [head.key[other].expand_as(head.key) for other in range(len(head.key)) if other != head.number]
            controls = [head.under(head.score, temperature=temperature, key=keys) for keys in others]
            nearer = made.moved < min(control.moved for control in controls) - SAME
            verdict = "nearer than any other head's" if nearer else "as with another head's"
            found.append(Design(name, described, True, made, OTHERS, controls, verdict))
    return found


# --- positions ------------------------------------------------------------------------------------------


def _scores(head: HeadInLayer, seed: int) -> dict[str, tuple[str, PositionalScore]]:
    """Return designs of positions to replace the layer's own, each as a description and a score of all heads."""
    assert head.attention is not None
    heads, _, d_k = head.key.shape
    scores: dict[str, tuple[str, PositionalScore]] = {"alibi": ("ALiBi", Alibi(heads))}
    if turned := d_k // 2 * 2:
        part = 2 * max(d_k // 2 // PART, 1)
        scores |= {
            "rotary": ("rotary, halves", RotaryScore(Rotary(turned))),
            "rotary-interleaved": ("rotary, interleaved", RotaryScore(Rotary(turned, interleaved=True))),
            "rotary-partial": (f"rotary, {part} of {d_k}", RotaryScore(Rotary(part))),
        }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        scores["relative"] = "relative buckets", RelativeBias(heads).to(head.key)
        torch.manual_seed(seed)
        scores["disentangled"] = "disentangled", _disentangled(head.attention).to(head.key)
    return scores


def _disentangled(attention: MultiHeadAttention) -> Disentangled:
    """Return a score with random vectors of offsets, projected like the content, as in DeBERTa-v3."""
    query, key = attention.query, attention.key
    if attention.key_heads < attention.heads:  # repeated for each of the heads that share them
        key = nn.Linear(query.in_features, query.out_features, key.bias is not None)
        for name, tensor in attention.key.named_parameters():
            by_head = attention.share(tensor.unflatten(0, (-1, attention.head_dim))[None])
            setattr(key, name, nn.Parameter(by_head[0].flatten(0, 1), requires_grad=False))
    offsets, norm = nn.Embedding(2 * SPAN, query.in_features), nn.LayerNorm(query.in_features)
    score = Disentangled(offsets, norm, None, near=SPAN, furthest=FURTHEST)
    score.share(query, key)
    return score


def verdict_on_distance(found: Figures, others: Sequence[Figures]) -> str:
    """Describe whether a map looks nearer or further than all the others, by more than rounding."""
    distances = [one.distance for one in others]
    if found.distance < min(distances) - SAME:
        return "looks nearer"
    return "looks further" if found.distance > max(distances) + SAME else "as in shuffled orders"


# --- shared keys ----------------------------------------------------------------------------------------


def group_sizes(head: HeadInLayer) -> list[int]:
    """Return the possible sizes of groups that share keys, from the current one up to all heads."""
    assert head.attention is not None
    heads, already = len(head.key), len(head.attention.group(head.number))
    return [size for size in range(already, heads + 1, already) if heads % size == 0]


def with_shared_keys(head: HeadInLayer, size: int, temperature: float = 1.0) -> Figures:
    """Return the head's map with the mean of its group's keys, in groups of `size` heads.

    This is how key projections are pooled to convert a trained network (Ainslie et al. 2023, section 2.1).
    """
    pooled = head.key.unflatten(0, (-1, size)).mean(dim=1).repeat_interleave(size, dim=0)
    return head.under(head.score, temperature=temperature, key=pooled)
