"""What the recurrent networks and the Transformer have in common: encode a text once, then decode it step by step."""

from typing import Any, NamedTuple, Protocol

from torch import Tensor

from attncli.align.characters import Batch


class Decoded(NamedTuple):
    """What decoding gives.

    logits `[batch, query, characters]`: row i says what follows the first i + 1 characters. cross
    `[batch, layer, head, query, key]`: the weights from what is written to what was read. Of a Transformer also its
    self-attentions: encoder `[batch, layer, head, key, key]`, decoder `[batch, layer, head, query, query]`.
    """

    logits: Tensor
    cross: Tensor
    encoder: Tensor | None = None
    decoder: Tensor | None = None


class Network(Protocol):
    """An encoder and a decoder. What one hands to the other is their own business."""

    def encode(self, batch: Batch) -> Any:
        """What the decoder needs to know of the texts."""

    def decode(self, memory: Any, previous: Tensor) -> Decoded:
        """previous `[batch, query]`: START and what was written so far. No row sees what comes after it."""
