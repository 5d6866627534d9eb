"""A real head as it would look in other designs: with other positions in its score, in a window, or with shared keys.

The head was not trained for them. What a design does to a map is told from what any change of its kind does by
controls: the same design that is told the positions in a shuffled order, or another head's keys.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import mean
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attncli.attention import (
    Alibi,
    Disentangled,
    MultiHeadAttention,
    PositionalScore,
    RelativeBias,
    Rotary,
    RotaryScore,
    causal_mask,
    window_mask,
)
from attncli.base import choices
from attncli.checks.claims import SAME
from attncli.checks.looks import HeadInLayer, Look

REACH = 2  # of a window, to each side
DRAWS = 12  # of shuffled orders: what all of them say is no chance, which would say it once in 2 ** 11
PART = 4  # partial rotation turns a part of 1 / 4 of each vector, as in GPT-NeoX
SPAN = 256  # offsets to each side that have a vector of their own, and from where on they are alike, as in DeBERTa-v3
FURTHEST = 512
SHUFFLED, OTHERS = "positions shuffled", "another head's keys"
MASKS = ("window", "causal-window")  # the designs that are masks, which need no projections


@dataclass(frozen=True)
class Design:
    """The head's queries and keys in a design, beside controls.

    name: as `--design` has it; described: in words. trained: False where it has parameters that this model never
    learned, which are drawn from a seed. control: what the controls are. verdict: how the figures stand to theirs.
    """

    name: str
    described: str
    trained: bool
    look: Look
    control: str
    controls: Sequence[Look]
    verdict: str

    @property
    def control_distance(self) -> float:
        """Mean over the controls."""
        return mean(look.distance for look in self.controls)

    @property
    def control_moved(self) -> float:
        """Mean over the controls."""
        return mean(look.moved for look in self.controls)

    def document(self) -> dict[str, Any]:
        """Its part of what `mechanisms --json` prints; of the controls the map of the first."""
        return {
            "name": self.name,
            "described": self.described,
            "trained": self.trained,
            **asdict(self.look),
            "weights": self.look.weights.tolist(),
            "control": self.control,
            "control_distance": self.control_distance,
            "control_moved": self.control_moved,
            "control_weights": self.controls[0].weights.tolist(),
            "verdict": self.verdict,
        }


def designs(
    head: HeadInLayer, reach: int = REACH, temperature: float = 1.0, seed: int = 0, only: str | None = None
) -> list[Design]:
    """The head in every one of `choices.Design`, or in the one of this name.

    reach: a window's, to each side. Those that there are not for this head are left out: heads of one element can't be
    turned, a layer of one head has none to share keys with, and where the projections are not known there are MASKS.
    """
    found = []
    names = choices.names(choices.Design) if only is None else (only,)
    for name in names if head.attention is not None else [name for name in names if name in MASKS]:
        if (told := order_told(head, name, reach, seed)) is not None:
            found.append(in_order(head, name, told, temperature, seed))
        elif (size := sharing(head, name)) is not None:
            found.append(shared(head, name, size, temperature))
    return found


# --- where tokens stand ---------------------------------------------------------------------------------


class Told(NamedTuple):
    """What knows where tokens stand: a score of all heads, and a mask `[query, key]` besides the head's own.

    score: None for the head's own, as it is. trained: False where the score's parameters are drawn.
    """

    described: str
    score: PositionalScore | None
    mask: Tensor | None = None
    trained: bool = True


def order_told(head: HeadInLayer, name: str, reach: int, seed: int) -> Told | None:
    """The design of this name, if it is one of positions; other positions come in the place of those that are there."""
    own, tokens, heads, d_k = head.score, len(head.mask), len(head.key), head.key.shape[-1]
    pairs = d_k // 2
    part = 2 * max(pairs // PART, 1)
    match name:
        case "window":
            return Told(f"window of {reach}", own, window_mask(reach, tokens))
        case "causal-window":
            return Told(f"window of {reach}, causal", own, window_mask(reach, tokens) & causal_mask(tokens))
        case "alibi":
            return Told("ALiBi", Alibi(heads))
        case "rotary" if pairs:
            return Told("rotary, halves", RotaryScore(Rotary(2 * pairs)))
        case "rotary-interleaved" if pairs:
            return Told("rotary, interleaved", RotaryScore(Rotary(2 * pairs, interleaved=True)))
        case "rotary-partial" if pairs:
            return Told(f"rotary, {part} of {d_k}", RotaryScore(Rotary(part)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        match name:
            case "relative":
                return Told("relative buckets", RelativeBias(heads).to(head.key), trained=False)
            case "disentangled":
                return Told("disentangled", disentangled(head).to(head.key), trained=False)
    return None


def disentangled(head: HeadInLayer) -> Disentangled:
    """With vectors of offsets that are drawn, and the content's projections for them too, as DeBERTa-v3 has it."""
    assert head.attention is not None
    query, key = head.attention.query, for_every_head(head.attention, head.attention.key)
    score = Disentangled(
        nn.Embedding(2 * SPAN, query.in_features),
        nn.LayerNorm(query.in_features),
        None,
        near=SPAN,
        furthest=FURTHEST,
    )
    score.share(query, key)
    return score


def for_every_head(attention: MultiHeadAttention, part: nn.Linear) -> nn.Linear:
    """A projection of keys that heads share, once for each of them."""
    if attention.key_heads == attention.heads:
        return part
    every = nn.Linear(part.in_features, attention.query.out_features, part.bias is not None)
    for name, tensor in part.named_parameters():
        by_head = attention.share(tensor.unflatten(0, (-1, attention.head_dim))[None])
        setattr(every, name, nn.Parameter(by_head[0].flatten(0, 1), requires_grad=False))
    return every


def in_order(head: HeadInLayer, name: str, told: Told, temperature: float, seed: int) -> Design:
    """A design that is told where tokens stand, and as controls the same with the real tokens in a shuffled order."""
    generator = torch.Generator().manual_seed(seed)
    orders = [head.shuffled(generator) for _ in range(DRAWS)]
    look = head.look(told.score, told.mask, temperature)
    controls = [head.look(told.score, told.mask, temperature, order=order) for order in orders]
    verdict = verdict_on_distance(head, look, controls) + ("" if told.trained else ", as drawn")
    return Design(name, told.described, told.trained, look, SHUFFLED, controls, verdict)


def verdict_on_distance(head: HeadInLayer, look: Look, controls: Sequence[Look]) -> str:
    """Whether it looks nearer or further than the head does by itself, and than every one of the controls, by more than
    rounding explains.
    """
    own, shuffled = own_distance(head), [control.distance for control in controls]
    if look.distance < min(own, *shuffled) - SAME:
        return "looks nearer"
    return "looks further" if look.distance > max(own, *shuffled) + SAME else "as in any order"


def own_distance(head: HeadInLayer) -> float:
    return Look.of(head.own, head.own, head.counted).distance


# --- shared keys ----------------------------------------------------------------------------------------


def sharing(head: HeadInLayer, name: str) -> int | None:
    """How many heads share keys in the design of this name: as few as can and don't yet, or all."""
    sizes = [] if head.attention is None else group_sizes(head)[1:]
    return {"grouped": sizes[0], "multi-query": sizes[-1]}.get(name) if sizes else None


def group_sizes(head: HeadInLayer) -> list[int]:
    """1, ..., heads: in groups of how many they can share keys. As many as share them already are the first."""
    assert head.attention is not None
    heads, already = len(head.key), len(head.attention.group(head.number))
    return [size for size in range(already, heads + 1, already) if heads % size == 0]


def shared(head: HeadInLayer, name: str, size: int, temperature: float) -> Design:
    """With the mean of its group's keys in the place of its own; as controls with each other head's."""
    look = with_shared_keys(head, size, temperature)
    others = [other for other in range(len(head.key)) if other != head.number]
    controls = [
        head.look(head.score, temperature=temperature, key=head.key[other].expand_as(head.key)) for other in others
    ]
    nearer = look.moved < min(control.moved for control in controls) - SAME
    verdict = "nearer than any other's" if nearer else "as with another's"
    return Design(name, f"keys of {size} heads", True, look, OTHERS, controls, verdict)


def with_shared_keys(head: HeadInLayer, size: int, temperature: float = 1.0) -> Look:
    """Heads in groups of `size`, whose keys are the mean of theirs: projections are pooled so when a trained network
    is converted, of which keys are linear (Ainslie et al. 2023, section 2.1).
    """
    pooled = head.key.unflatten(0, (-1, size)).mean(dim=1).repeat_interleave(size, dim=0)
    return head.look(head.score, temperature=temperature, key=pooled)
