"""A real head under every scoring function and normaliser, and in other designs: positions, windows, shared keys.

The head was not trained for them. Controls separate the effect of a design from that of any change of its kind: the
same design with positions in a shuffled order, or another head's keys.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import mean
from typing import Any, NamedTuple

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
from attncli.features.mechanisms import REACH, WINDOWS
from attncli.features.mechanisms.head import SAME, Figures, HeadInLayer, mask_of
from attncli.models.head import OneHead

POSITIONS = 512  # of a location score, or more where the text has more: up to here it is the same score for every text
DRAWS = 12  # of shuffled orders: what all of them say is no chance, which would say it once in 2 ** 11
PART = 4  # partial rotation turns a part of 1 / 4 of each vector, as in GPT-NeoX
SPAN = 256  # offsets to each side that have a vector of their own, and from where on they are alike, as in DeBERTa-v3
FURTHEST = 512
SOFT = "softmax"
SHUFFLED, OTHERS = "positions shuffled", "another head's keys"


# --- other scores ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Variant:
    """The head's queries and keys under one scoring function and one normaliser.

    trained: False where the score has parameters that this model never learned: they are drawn from a seed. zero: the
    share of visible keys whose weight is exactly 0. output: the change of the head's output, ‖changed - own‖ / ‖own‖.
    Both are over the queries that count.
    """

    score: str
    normaliser: str
    trained: bool
    found: Figures
    zero: float
    output: float

    def document(self) -> dict[str, Any]:
        """Return its part of what `mechanisms --json` prints."""
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
    """Return the head's own queries and keys under every score of `SCORES` and every normaliser of `NORMALISERS`.

    Scores with drawn parameters are under softmax only.
    """
    query, key, value = (torch.from_numpy(part) for part in (head.query, head.key, head.value))
    mask = mask_of(head)
    queries = counted_queries(head.record, head.record.layers[0])
    own = head.record.weights[0, 0]
    own_output = own[queries] @ head.value
    visible = head.record.mask[queries]
    found = []
    for name in SCORES:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            d_k = query.shape[-1]
            score = Location(d_k, max(len(key), POSITIONS)) if name == "location" else SCORES[name](d_k)
        trained = not isinstance(score, nn.Module)  # needs no training
        for normaliser, normalise in normalisers(temperature, seed).items():
            if not trained and normaliser != SOFT:
                continue
            with torch.inference_mode():
                output, kept, _ = attend(query, key, value, mask, score, normalise)
            figures = Figures.of(kept.numpy(), own, queries, head.record.sinks)
            zero = float((kept.numpy()[queries] == 0)[visible].mean())
            change = np.linalg.norm(output.numpy()[queries] - own_output) / np.linalg.norm(own_output)
            found.append(Variant(name, normaliser, trained, figures, zero, float(change)))
    return found


def normalisers(temperature: float, seed: int) -> dict[str, Normaliser]:
    """Return `NORMALISERS`: the softmax with this temperature, the sampling with this seed."""

    def soft(scores: Tensor, mask: Tensor | None) -> Tensor:
        return masked_softmax(scores, mask, temperature)

    def sample(scores: Tensor, mask: Tensor | None) -> Tensor:
        return hard_sample(scores, mask, torch.Generator().manual_seed(seed))

    return {**NORMALISERS, SOFT: soft, "hard_sample": sample}


# --- other designs --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Design:
    """The head's queries and keys in a design, beside controls.

    name: as `--design` has it; described: in words. trained: False where it has parameters that this model never
    learned, which are drawn from a seed. control: what the controls are. verdict: how the figures stand to theirs.
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

    @property
    def control_distance(self) -> float:
        """Mean over the controls."""
        return mean(one.distance for one in self.controls)

    @property
    def control_moved(self) -> float:
        """Mean over the controls."""
        return mean(one.moved for one in self.controls)

    def document(self) -> dict[str, Any]:
        """Return its part of what `mechanisms --json` prints, with the map of the first control."""
        return {
            "name": self.name,
            "described": self.described,
            "trained": self.trained,
            **asdict(self.found),
            "weights": self.found.weights.tolist(),
            "control": self.control,
            "control_distance": self.control_distance,
            "control_moved": self.control_moved,
            "control_weights": self.controls[0].weights.tolist(),
            "verdict": self.verdict,
        }


def designs(
    head: HeadInLayer, reach: int = REACH, temperature: float = 1.0, seed: int = 0, only: str | None = None
) -> list[Design]:
    """Return the head in every `choices.Design`, or in the one of this name.

    reach: of a window, to each side. Designs that this head can't have are left out: heads of one element can't be
    turned, and a layer of one head has none to share keys with. Without known projections there are only WINDOWS.
    """
    found = []
    names = choices.names(choices.Design) if only is None else (only,)
    for name in names if head.attention is not None else [name for name in names if name in WINDOWS]:
        if (positions := _positions_of(head, name, reach, seed)) is not None:
            found.append(_in_order(head, name, positions, temperature, seed))
        elif (size := sharing(head, name)) is not None:
            found.append(shared(head, name, size, temperature))
    return found


# --- where tokens stand ---------------------------------------------------------------------------------


class Positions(NamedTuple):
    """A score of all heads that depends on where tokens stand, and a mask `[query, key]` besides the head's own.

    score: None for the head's own, as it is. trained: False where the score's parameters are drawn.
    """

    described: str
    score: PositionalScore | None
    mask: Tensor | None = None
    trained: bool = True


def _positions_of(head: HeadInLayer, name: str, reach: int, seed: int) -> Positions | None:
    """Return the design of this name if it is one of positions, which replace those that the layer has."""
    own, tokens, heads, d_k = head.score, len(head.mask), len(head.key), head.key.shape[-1]
    pairs = d_k // 2
    part = 2 * max(pairs // PART, 1)
    match name:
        case "window":
            return Positions(f"window of {reach}", own, window_mask(reach, tokens))
        case "causal-window":
            return Positions(f"window of {reach}, causal", own, window_mask(reach, tokens) & causal_mask(tokens))
        case "alibi":
            return Positions("ALiBi", Alibi(heads))
        case "rotary" if pairs:
            return Positions("rotary, halves", RotaryScore(Rotary(2 * pairs)))
        case "rotary-interleaved" if pairs:
            return Positions("rotary, interleaved", RotaryScore(Rotary(2 * pairs, interleaved=True)))
        case "rotary-partial" if pairs:
            return Positions(f"rotary, {part} of {d_k}", RotaryScore(Rotary(part)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        match name:
            case "relative":
                return Positions("relative buckets", RelativeBias(heads).to(head.key), trained=False)
            case "disentangled":
                return Positions("disentangled", disentangled(head).to(head.key), trained=False)
    return None


def disentangled(head: HeadInLayer) -> Disentangled:
    """Return a score with drawn vectors of offsets, projected as the content is, as in DeBERTa-v3."""
    assert head.attention is not None
    query, key = head.attention.query, _for_every_head(head.attention, head.attention.key)
    score = Disentangled(
        nn.Embedding(2 * SPAN, query.in_features),
        nn.LayerNorm(query.in_features),
        None,
        near=SPAN,
        furthest=FURTHEST,
    )
    score.share(query, key)
    return score


def _for_every_head(attention: MultiHeadAttention, part: nn.Linear) -> nn.Linear:
    """Return a projection of keys that heads share, repeated for each of them."""
    if attention.key_heads == attention.heads:
        return part
    every = nn.Linear(part.in_features, attention.query.out_features, part.bias is not None)
    for name, tensor in part.named_parameters():
        by_head = attention.share(tensor.unflatten(0, (-1, attention.head_dim))[None])
        setattr(every, name, nn.Parameter(by_head[0].flatten(0, 1), requires_grad=False))
    return every


def _in_order(head: HeadInLayer, name: str, positions: Positions, temperature: float, seed: int) -> Design:
    """Return a design of positions, and as controls the same with the real tokens in a shuffled order."""
    generator = torch.Generator().manual_seed(seed)
    orders = [head.shuffled(generator) for _ in range(DRAWS)]
    found = head.under(positions.score, positions.mask, temperature)
    controls = [head.under(positions.score, positions.mask, temperature, order=order) for order in orders]
    verdict = verdict_on_distance(head, found, controls) + ("" if positions.trained else ", as drawn")
    return Design(name, positions.described, positions.trained, found, SHUFFLED, controls, verdict)


def verdict_on_distance(head: HeadInLayer, found: Figures, controls: Sequence[Figures]) -> str:
    """Say whether it looks nearer or further than the head itself and than every control, by more than rounding."""
    own, shuffled = head.own_figures.distance, [control.distance for control in controls]
    if found.distance < min(own, *shuffled) - SAME:
        return "looks nearer"
    return "looks further" if found.distance > max(own, *shuffled) + SAME else "as in any order"


# --- shared keys ----------------------------------------------------------------------------------------


def sharing(head: HeadInLayer, name: str) -> int | None:
    """Return the number of heads that share keys in a design: the smallest that is possible and new, or all."""
    sizes = [] if head.attention is None else group_sizes(head)[1:]
    return {"grouped": sizes[0], "multi-query": sizes[-1]}.get(name) if sizes else None


def group_sizes(head: HeadInLayer) -> list[int]:
    """Return the sizes of groups that can share keys, from those that share them already to all heads."""
    assert head.attention is not None
    heads, already = len(head.key), len(head.attention.group(head.number))
    return [size for size in range(already, heads + 1, already) if heads % size == 0]


def shared(head: HeadInLayer, name: str, size: int, temperature: float) -> Design:
    """Return the design with the mean of its group's keys, and as controls with each other head's keys."""
    found = with_shared_keys(head, size, temperature)
    others = [other for other in range(len(head.key)) if other != head.number]
    controls = [
        head.under(head.score, temperature=temperature, key=head.key[other].expand_as(head.key)) for other in others
    ]
    nearer = found.moved < min(control.moved for control in controls) - SAME
    verdict = "nearer than any other's" if nearer else "as with another's"
    return Design(name, f"keys of {size} heads", True, found, OTHERS, controls, verdict)


def with_shared_keys(head: HeadInLayer, size: int, temperature: float = 1.0) -> Figures:
    """Return the head's map with the mean of its group's keys, in groups of `size` heads.

    Key projections are pooled so when a trained network is converted (Ainslie et al. 2023, section 2.1).
    """
    pooled = head.key.unflatten(0, (-1, size)).mean(dim=1).repeat_interleave(size, dim=0)
    return head.under(head.score, temperature=temperature, key=pooled)
