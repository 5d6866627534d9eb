"""ALTI: the vectors are what the block is made of, and the shares are the paper's."""

import numpy as np
import pytest
import torch
from checkpoints import EACH, make_checkpoint

from attncli import load_model
from attncli.attention import RMSNorm
from attncli.effects.question import Asking, make_question
from attncli.features.trust.rankings import Mixing, _block_vectors, _shares_of, alti

TEXT = "the cat sat on it, the big cat"


@pytest.mark.parametrize("family", EACH)
def test_vectors_and_a_constant_add_up_to_the_block(tmp_path, family):
    """Σ_j T_i(x_j) + L b_O / σ_i + β is what comes out of the attention block and its norm (equation 8)."""
    model = load_model(str(make_checkpoint(tmp_path, family)), device="cpu", dtype="float64")
    [text] = make_question(model, TEXT, Asking(ask="distance")).texts
    keep = Mixing()
    with torch.inference_mode():
        list(model.walk(model.rows([text.tokens], text.mask), [keep]))
        for number, (weights, values) in sorted(keep.kept.items()):
            layer, x = model.network.layer(number), text.states[number]
            joined = (weights @ values).transpose(0, 1).flatten(1)
            attended = layer.attention.output(joined)
            made = x + layer.attention_output_norm(attended)
            output = layer.attention.output.weight.unflatten(1, (-1, values.shape[-1]))
            brought = torch.einsum("hkd,shd->hks", values, output)
            vectors, block = _block_vectors(layer, x, weights, brought, slice(0, len(x)))
            constant = torch.zeros_like(made) if layer.attention.output.bias is None else layer.attention.output.bias
            if isinstance(layer.attention_output_norm, RMSNorm):
                root = (attended.square().mean(dim=-1, keepdim=True) + layer.attention_output_norm.eps).sqrt()
                constant = layer.attention_output_norm.weight * constant / root
            if layer.norm_first or isinstance(layer.attention_norm, torch.nn.Identity):
                torch.testing.assert_close(block, made)
                torch.testing.assert_close(vectors.sum(dim=1) + constant, made)
                continue
            norm = layer.attention_norm
            torch.testing.assert_close(block, norm(made))
            spread = (made.var(dim=-1, correction=0) + norm.eps).sqrt()[:, None]
            centred = norm.weight * (constant - constant.mean(dim=-1, keepdim=True)) / spread
            beta = 0 if norm.bias is None else norm.bias
            torch.testing.assert_close(vectors.sum(dim=1) + centred + beta, norm(made))


def test_shares_by_hand():
    """y = (3, 1), ‖y‖₁ = 4. Near by 4 - 1, 4 - 4 and 4 - 3; 4 - 5 is cut to 0."""
    made = torch.tensor([[3.0, 1.0]])
    vectors = torch.tensor([[[2.0, 1.0], [1.0, -1.0], [0.0, 1.0], [-1.0, 0.0]]])
    np.testing.assert_allclose(_shares_of(vectors, made).numpy(), [[0.75, 0, 0.25, 0]])
    nothing = _shares_of(torch.tensor([[[-3.0, 0.0], [-1.0, -1.0]]]), made)
    np.testing.assert_array_equal(nothing.numpy(), [[0, 0]])


@pytest.mark.parametrize("mask", ["padding", "causal"])
def test_rows_are_shares_of_what_a_token_can_see(tiny, mask):
    model = load_model(str(tiny("bert")), device="cpu", dtype="float64")
    [text] = make_question(model, TEXT, Asking(ask="distance", mask=mask)).texts
    found = alti(text)
    np.testing.assert_allclose(found.sum(axis=-1), 1)
    assert (found >= 0).all()
    if mask == "causal":
        assert not np.triu(found, k=1).any()


def test_a_head_that_gives_nothing_leaves_every_token_to_itself(tiny):
    model = load_model(str(tiny("bert", seed=5)), device="cpu", dtype="float64")
    model.need(4)
    for number in range(4):
        model.network.layer(number).attention.output.weight.zero_()
    [text] = make_question(model, TEXT, Asking(ask="distance")).texts
    np.testing.assert_allclose(alti(text), np.broadcast_to(np.eye(len(text.tokens)), (4, *[len(text.tokens)] * 2)))
