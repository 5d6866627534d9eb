"""The mechanisms of the tutorials on a real head: its variants, and what is claimed of attention."""

from dataclasses import asdict, dataclass
from typing import Any

from attncli.base.errors import RequestError
from attncli.checks.claims import Claim, check_claims
from attncli.checks.variants import Variant, variants
from attncli.models.head import OneHead
from attncli.models.model import Model
from attncli.record import AttentionRecord

COLDEST, HOTTEST = 0.001, 1000.0  # beyond, every row is hard or uniform, and at last scores overflow


@dataclass(frozen=True)
class Mechanisms:
    """What was found on one head: its `record`, its variants (softmax with this temperature, what is random from this
    seed), and how the claims came out.
    """

    record: AttentionRecord
    variants: list[Variant]
    claims: list[Claim]
    temperature: float
    seed: int

    def document(self) -> dict[str, Any]:
        """What `mechanisms --json` prints: the head's own map, its variants with their maps, and the claims."""
        [layer], [head] = self.record.layers, self.record.heads
        return {
            "model": asdict(self.record.model),
            "layer": layer,
            "head": head,
            "mask": self.record.mask_name,
            "temperature": self.temperature,
            "seed": self.seed,
            "tokens": self.record.tokens.text,
            "weights": self.record.map(layer, head).tolist(),
            "variants": [{**asdict(variant), "weights": variant.weights.tolist()} for variant in self.variants],
            "claims": [asdict(claim) for claim in self.claims],
            "records": [self.record.document()],
        }


def mechanisms(model: Model, head: OneHead, temperature: float = 1.0, seed: int = 0) -> Mechanisms:
    """One head of a model under every scoring function and normaliser, and the tutorials' claims on it.

    The model should compute in float32 or better: where a claim says that two ways give the same, their difference is
    measured against its rounding.

    Raises RequestError as `check_temperature` does.
    """
    check_temperature(temperature)
    found, claims = variants(head, temperature, seed), check_claims(model, head, seed)
    return Mechanisms(head.record, found, claims, temperature, seed)


def check_temperature(temperature: float) -> None:
    """Raises RequestError when softmax can't be computed at this temperature."""
    if not COLDEST <= temperature <= HOTTEST:  # NaN is not either
        raise RequestError(
            f"--temperature {temperature:g} is out of range: give one from {COLDEST:g} to {HOTTEST:g}, 1 as it is"
        )
