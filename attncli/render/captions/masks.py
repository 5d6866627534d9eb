"""What a map is called under each mask, and what is hidden in it."""

import numpy as np

from attncli.record import AttentionRecord

CAPTIONS = {"none": "unmasked", "causal": "causal", "padding": "padding"}


def hidden_keys(record: AttentionRecord, layer: int) -> str:
    """Which keys a layer's mask hides of a text's own: "hidden: later keys, [PAD]"."""
    hidden = ~record.mask_of(layer)
    padding = np.broadcast_to(np.array(record.tokens.padding), hidden.shape)
    later = np.triu(np.ones_like(hidden), 1) & ~padding
    kinds = {"later keys": later, "[PAD]": padding}
    found = [name for name, cells in kinds.items() if cells.any() and hidden[cells].all()]
    told = np.any([kinds[name] for name in found], axis=0) if found else np.zeros_like(hidden)
    if (hidden & ~told).any():
        found.append("keys too far away")
    return f"hidden: {', '.join(found) or 'nothing'}"
