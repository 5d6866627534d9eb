"""Counting the differences of a layer."""

import torch

from attncli.features.compare.agreement import same_strongest


def test_keys_that_are_equally_strong_are_both_the_strongest():
    ours = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.4, 0.6], [1.0, 0.0, 0.0]])
    theirs = torch.tensor([[0.4999999, 0.5000001, 0.0], [0.0, 0.6, 0.4], [1.0, 0.0, 0.0]])
    assert same_strongest(ours, theirs) == 2
    assert same_strongest(ours, torch.full_like(ours, float("nan"))) == 0
