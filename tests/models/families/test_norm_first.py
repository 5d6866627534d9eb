"""Families with their norms first: where those stand, and what goes into the first layer."""

import pytest
import torch
from checkpoints import make_config, make_network
from walks import made_up, network_of, walked

NORMALISED = {"megatron-bert": False, "xlm-roberta-xl": False, "roberta-prelayernorm": True}


@pytest.mark.parametrize("family", NORMALISED)
def test_what_goes_into_the_first_layer(family):
    """The sum of the tables, normalised or not; the last state is normalised, and those between are not."""
    network = network_of(make_network(make_config(family)), torch.float64)
    ids = [5, 6, 7, 8]
    [states] = walked(network, [made_up(ids)], whole=True).states
    embeddings = network.embeddings
    first = 0 if network.config.padding_position is None else network.config.padding_position + 1
    table = embeddings.positions.table.weight[first : first + 4]
    total = embeddings.tokens.weight[ids] + embeddings.segments.weight[0] + table
    if NORMALISED[family]:
        total = embeddings.norm(total)
    else:
        assert not list(embeddings.norm.parameters())
    torch.testing.assert_close(states[0], total)
    back = (states[-1] - network.final_norm.bias) / network.final_norm.weight
    torch.testing.assert_close(back.mean(dim=-1), torch.zeros(4).double())
    assert (states[1:-1].mean(dim=-1).abs() > 1e-3).any()
