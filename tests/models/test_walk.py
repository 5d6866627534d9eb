"""One walk: what is asked for comes out, for texts of mixed lengths, and nothing else is computed."""

from functools import cache
from typing import Any

import pytest
import torch
from checkpoints import EACH, make_config, make_network
from hypothesis import given, settings
from hypothesis import strategies as st
from measuring import Watch
from torch import Tensor
from walks import made_up, network_of, walked

from attncli.attention import MASKS

F64 = torch.float64
TEXTS = st.lists(st.lists(st.integers(5, 40), min_size=1, max_size=12), min_size=1, max_size=6)


def tiny_network(family: str, dtype: torch.dtype = F64) -> Any:
    return network_of(make_network(make_config(family)), dtype)


made_once = cache(tiny_network)  # for who does not change it


@pytest.mark.parametrize("family", EACH)
@given(ids=TEXTS, mask=st.sampled_from(list(MASKS)), data=st.data())
@settings(max_examples=10)
def test_texts_of_any_lengths_are_each_as_it_is_alone(family, ids, mask, data):
    network = made_once(family)
    real = [[True, *data.draw(st.lists(st.booleans(), min_size=len(one) - 1, max_size=len(one) - 1))] for one in ids]
    texts = [made_up(*one) for one in zip(ids, real, strict=True)]
    together = walked(network, texts, mask, whole=True)
    for number, one in enumerate(texts):
        alone = walked(network, [one], mask, whole=True)
        torch.testing.assert_close(together.weights[number], alone.weights[0])
        torch.testing.assert_close(together.states[number], alone.states[0])


class Forbidden(torch.nn.Module):
    """A module that must not run."""

    def forward(self, *_: Any, **__: Any) -> Tensor:
        raise AssertionError("this was not asked for")


def test_nothing_runs_after_the_last_weights_asked_for():
    """The layer's own maps need its queries and keys; neither its values nor what comes after."""
    network = tiny_network("bert")
    texts = [made_up([2, 3, 4])]
    expected = walked(network, texts, layers=[1, 2], heads=[0]).weights[0]
    network.layers[2].attention.query = Forbidden()
    network.layers[1].attention.value = network.layers[1].feed_forward.up = Forbidden()
    torch.testing.assert_close(walked(network, texts, layers=[1], heads=[0]).weights[0][0], expected[0])
    with pytest.raises(AssertionError, match="not asked for"):
        walked(network, texts, layers=[2], heads=[0])


def test_one_head_allocates_one_heads_maps():
    """Every tensor that the request makes is counted: none is as large as the maps of two heads."""
    length = 200
    config = make_config("bert", max_position_embeddings=length, hidden_size=16, num_attention_heads=4)
    network = network_of(make_network(config))
    text = made_up(torch.randint(0, config.vocab_size, (length,)).tolist())
    with Watch() as watch:
        [kept] = walked(network, [text], layers=[3], heads=[2]).weights
    one_map = length * length * 4
    assert kept.untyped_storage().nbytes() == one_map
    assert max(watch.sizes) < 2 * one_map
