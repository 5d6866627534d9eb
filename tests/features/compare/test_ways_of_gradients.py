"""transformers' gradients are slopes."""

import pytest
import torch

from attncli import load_model
from attncli.features.compare.ways import their_gradients
from attncli.models.transformers_peer import load_reference


def test_a_gradient_is_the_slope_of_the_number(tiny):
    """Take a weighted sum of the last vectors, along the input vectors of the first layer."""
    directory = tiny("bert")
    model = load_model(str(directory), device="cpu", dtype="float64")
    reference = load_reference(directory, model.device, model.dtype)
    tokens = model.tokenizer.encode("the cat sat on a mat")
    number = lambda last: (last * torch.arange(32)).sum()  # noqa: E731
    inputs, _ = their_gradients(reference, tokens, "padding", number)
    moved, step = [], 1e-6
    for away in (-step, step):
        hook = reference.network.embeddings.register_forward_hook(lambda *made, away=away: made[-1] * (1 + away))
        moved.append(number(reference.run(tokens, "padding")[1][-1]))
        hook.remove()
    assert float(inputs.sum()) == pytest.approx(float(moved[1] - moved[0]) / 2 / step, rel=1e-5)
