"""Compare numbers of two programs up to rounding, by the scaled tolerance."""

from contextlib import contextmanager

import torch

from attncli.checks.tolerance import scaled_tolerance, vector_size, weight_size
from attncli.models.transformers_place import NAME


def same_weights(ours, theirs) -> bool:
    """Return whether maps `[layer, ...]` in float32 are equal up to rounding."""
    ours, theirs = torch.as_tensor(ours), torch.as_tensor(theirs)
    allowed = scaled_tolerance(torch.float32, len(theirs), weight_size(theirs))
    return ours.shape == theirs.shape and float((ours - theirs).abs().max()) <= allowed


def same_vectors(ours, theirs, depth: int) -> bool:
    """Return whether vectors after so many layers, in float32, are equal up to rounding."""
    allowed = scaled_tolerance(torch.float32, depth, vector_size(theirs))
    return ours.shape == theirs.shape and float((ours - theirs).abs().max()) <= allowed


@contextmanager
def eager(model):
    """A model's network of transformers with its own eager attention, which gives its maps."""
    ours = NAME if model.places.by_hand is None else "eager"
    model.network.set_attn_implementation("eager")
    try:
        yield model.network
    finally:
        model.network.set_attn_implementation(ours)
