"""The weights that come with the package."""

import pytest
from train_align import STEPS

from attncli.align.checkpoint import WEIGHTS, load
from attncli.base import choices

ATTENTIONS = choices.names(choices.Attention)


def test_the_package_has_one_file_a_kind_and_all_are_small():
    files = sorted(WEIGHTS.iterdir())
    assert [file.name for file in files] == sorted(f"{attention}.safetensors" for attention in ATTENTIONS)
    assert sum(file.stat().st_size for file in files) <= 4e6


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_the_weights_are_those_of_a_whole_training(attention):
    found = load(attention)
    assert (found.attention, found.seed, found.steps) == (attention, 0, STEPS[attention])
    assert all(tensor.isfinite().all() for tensor in found.network.state_dict().values())
