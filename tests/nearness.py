"""Whether numbers of two programs are the same up to rounding, by the scaled tolerance."""

import torch

from attncli.checks.tolerance import scaled_tolerance, vector_size, weight_size


def same_weights(ours, theirs) -> bool:
    """Whether maps `[layer, ...]`, in float32, are the same up to rounding."""
    ours, theirs = torch.as_tensor(ours), torch.as_tensor(theirs)
    allowed = scaled_tolerance(torch.float32, len(theirs), weight_size(theirs))
    return ours.shape == theirs.shape and float((ours - theirs).abs().max()) <= allowed


def same_vectors(ours, theirs, depth: int) -> bool:
    """Whether vectors after so many layers, in float32, are the same up to rounding."""
    allowed = scaled_tolerance(torch.float32, depth, vector_size(theirs))
    return ours.shape == theirs.shape and float((ours - theirs).abs().max()) <= allowed
