"""The mechanisms on a real head: its variants, what it would be in other designs, and what is claimed of attention."""

from dataclasses import asdict, dataclass
from typing import Any

from attncli.base.errors import RequestError
from attncli.checks.claims import Claim, check_claims
from attncli.checks.designs import MASKS, REACH, Design, designs
from attncli.checks.looks import HeadInLayer, Look
from attncli.checks.papers import check_papers
from attncli.checks.planted import Mistakes, planted
from attncli.checks.variants import Variant, variants
from attncli.models.head import OneHead
from attncli.models.tapped import TappedModel
from attncli.record import AttentionRecord

COLDEST, HOTTEST = 0.001, 1000.0  # beyond, every row is hard or uniform, and at last scores overflow


@dataclass(frozen=True)
class Mechanisms:
    """What was found on one head.

    own: what its map looks like; variants, designs: its queries and keys otherwise, softmax with this temperature,
    windows of this reach, what is random from this seed; claims: how they came out; mistakes: made in its layer, None
    where nobody asked for them. projections: whether they are known; if not, designs and claims that need them are left
    out.
    """

    record: AttentionRecord
    own: Look
    variants: list[Variant]
    designs: list[Design]
    claims: list[Claim]
    temperature: float
    reach: int
    seed: int
    mistakes: Mistakes | None = None
    projections: bool = True

    def document(self) -> dict[str, Any]:
        """What `mechanisms --json` prints: the head's own map, what becomes of it, and the claims."""
        [layer], [head] = self.record.layers, self.record.heads
        return {
            "model": self.record.model.document(),
            "layer": layer,
            "head": head,
            "mask": self.record.mask_name,
            "temperature": self.temperature,
            "reach": self.reach,
            "seed": self.seed,
            "tokens": self.record.tokens.text,
            "weights": self.record.map(layer, head).tolist(),
            "variants": [{**asdict(variant), "weights": variant.weights.tolist()} for variant in self.variants],
            "designs": [design.document() for design in self.designs],
            "claims": [asdict(claim) for claim in self.claims],
            "mistakes": None if self.mistakes is None else self.mistakes.document(),
            "records": [self.record.document()],
        }


def mechanisms(
    model: TappedModel,
    head: OneHead,
    temperature: float = 1.0,
    seed: int = 0,
    reach: int = REACH,
    design: str | None = None,
) -> Mechanisms:
    """One head of a model under every scoring function and normaliser, in other designs, and the claims on it; or in
    one design, which is all then.

    The model should compute in float32 or better: where a claim says that two ways give the same, their difference is
    measured against its rounding.

    Raises RequestError as `check_temperature` and `check_design` do, and where this head can't be in that design.
    """
    check_temperature(temperature)
    if design is not None:
        check_design(model, head, design)
    in_layer = HeadInLayer.of(model, head)
    own = Look.of(in_layer.own, in_layer.own, in_layer.counted)
    itself, known = head.record.key_tokens is None, head.x is not None
    found = designs(in_layer, reach, temperature, seed, design) if itself else []
    if design is not None and not found:
        heads, _, d_k = in_layer.key.shape
        raise RequestError(f"--design {design} is for several heads of two or more elements: here are {heads} of {d_k}")
    if design is not None:
        return Mechanisms(head.record, own, [], found, [], temperature, reach, seed, projections=known)
    claims = [*check_claims(model, head, seed), *check_papers(head, in_layer, seed)]
    every = variants(head, temperature, seed)
    return Mechanisms(head.record, own, every, found, claims, temperature, reach, seed, projections=known)


def check_design(model: TappedModel, head: OneHead, design: str) -> None:
    """Raises RequestError where a design needs projections that are not known, or the keys are of another text."""
    if head.record.key_tokens is not None:
        raise RequestError(
            f"--design {design} is for a text's attention to itself, and this is cross-attention: leave --design out, "
            "or take --which encoder or decoder"
        )
    if head.x is None and design not in MASKS:
        raise RequestError(
            f"--design {design} needs a layer's projections, which are not known in {model.place.name}, because "
            f"transformers runs it: --design {' or '.join(MASKS)}"
        )


def with_mistakes(model: TappedModel, head: OneHead) -> Mechanisms:
    """One head of a model with every known mistake, which is all then.

    Raises RequestError as `planted` does.
    """
    in_layer = HeadInLayer.of(model, head)
    own = Look.of(in_layer.own, in_layer.own, in_layer.counted)
    return Mechanisms(head.record, own, [], [], [], 1.0, REACH, 0, planted(model, head))


def check_temperature(temperature: float) -> None:
    """Raises RequestError when softmax can't be computed at this temperature."""
    if not COLDEST <= temperature <= HOTTEST:  # NaN is not either
        raise RequestError(
            f"--temperature {temperature:g} is out of range: give one from {COLDEST:g} to {HOTTEST:g}, 1 as it is"
        )
