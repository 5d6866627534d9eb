"""Peculiarities of ALBERT: layers that share weights, by groups, and the contents of its config.json."""

import numpy as np
import pytest
from checkpoints import make_checkpoint
from safetensors.torch import load_file

from attncli import load_model
from attncli.models.config import ModelConfig

TEXT = "the cat sat on it, un believ able"


def read(**changes):
    return ModelConfig.from_dict({"model_type": "albert", **changes})


def groups(config):
    return [config.source(f"layers.{layer}.feed_forward.up").names[0].split(".")[2] for layer in range(config.layers)]


@pytest.mark.parametrize(
    ("layers", "said", "expected"),
    [(12, 4, "000111222333"), (5, 2, "00011"), (4, 3, "0012"), (3, 3, "012"), (7, 3, "0001122"), (2, 3, "01")],
)
def test_layers_are_of_groups(layers, said, expected):
    """The first of n groups begins the layers; where they don't go up evenly, it is as in the published code."""
    assert "".join(groups(read(num_hidden_layers=layers, num_hidden_groups=said))) == expected


def test_layers_of_a_step_are_layers():
    config = read(num_hidden_layers=2, inner_group_num=3, num_hidden_groups=2)
    [names] = {config.source(f"layers.{layer}.attention.key").names for layer in (4,)}
    assert names == ("encoder.albert_layer_groups.1.albert_layers.1.attention.key",)
    assert (config.layers, len(config.positions), len(config.reach)) == (6, 6, 6)


@pytest.mark.parametrize("many", [4, 40])
def test_weights_are_there_once_however_many_layers(tmp_path, many):
    """Take another dtype than the file's, so that nothing is only mapped; the layout for oneDNN is made once, too."""
    directory = make_checkpoint(tmp_path, "albert", num_hidden_layers=many)
    stored = load_file(directory / "model.safetensors")
    model = load_model(str(directory), "cpu", "float64")
    for _ in range(9):  # often enough that weights are laid out
        model.need(model.config.layers)
    held = {one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in model.network.parameters()}
    used = sum(2 * tensor.nbytes for name, tensor in stored.items() if not name.startswith("pooler"))
    assert sum(held.values()) == used
    assert len({id(layer) for layer in model.network.layers}) == 2


def test_a_head_is_silenced_in_its_layer_alone(tmp_path):
    """Whose weights the next layer has too."""
    model = load_model(str(make_checkpoint(tmp_path, "albert", num_hidden_groups=1)), "cpu", "float64")
    tokens = model.tokenizer.encode(TEXT)
    joins, columns = model.network.layer(0).attention.output, slice(8, 16)  # of head 1
    assert all(model.network.layer(layer).attention.output is joins for layer in range(4))
    plain = [one.numpy() for one in model.hidden_states(tokens)]
    changed = [one.numpy() for one in model.without("1.1").hidden_states(tokens)]
    np.testing.assert_array_equal(changed[1], plain[1])
    assert np.abs(changed[2] - plain[2]).max() > 1e-3
    calls = []

    def zero(module, inputs):
        calls.append(module)
        if len(calls) == 2:
            inputs[0][..., columns] = 0

    joins.register_forward_pre_hook(zero)
    for ours, expected in zip(changed, model.hidden_states(tokens), strict=True):
        np.testing.assert_allclose(ours, expected.numpy(), atol=1e-12)
    assert len(calls) == 4
