"""`trust` and `similar` inside transformers' networks, beside autograd and their eager attention."""

import numpy as np
import pytest
import torch
from by_hand import ByHand
from sentences import pooling, write_modules
from slow import slow_except
from small_networks import make_small

from attncli import load_model
from attncli.features.similar import similar
from attncli.features.trust import trust

TEXT, FIRST, SECOND = "the cat sat on", "the cat sat", "a big cat, it"
FEW = {"permutations": 3, "rankings": 5}
NEAR = 1e-5


def opened(folder, name, dtype="float64"):
    return load_model(str(make_small(folder, name)), device="cpu", dtype=dtype, engine="transformers")


@pytest.mark.parametrize("name", slow_except(["gpt2", "llama"], ["gpt2"]))
@pytest.mark.parametrize("asking", [{}, {"at": "-2", "ask": "log-probability"}], ids=str)
def test_gradients_and_erased_tokens_are_those_by_hand(tmp_path, name, asking):
    """Gradient x input by autograd on `inputs_embeds`; a deleted token by running the shorter text."""
    model = opened(tmp_path, name)
    theirs = ByHand(model.place.path, "decoder", torch.float64)
    found = trust(model, TEXT, **FEW, **asking)
    ids = theirs.tokenizer(TEXT).input_ids
    place = len(ids) - (2 if asking else 1)

    def probability_of(logits, at, label):
        number = logits.log_softmax(dim=-1)[at, label]
        return number if asking else number.exp()

    vectors = theirs.network.get_input_embeddings()(torch.tensor([ids])).detach().requires_grad_()
    logits = theirs.network(inputs_embeds=vectors).logits[0]
    label = int(logits[place].argmax())
    value = probability_of(logits, place, label)
    [slope] = torch.autograd.grad(value, vectors)
    assert found.answer.value == pytest.approx(value.item(), abs=NEAR)
    begins = 1 if name == "llama" else 0  # <s> is the tokenizer's and stays
    assert found.erasable == [one for one in range(begins, len(ids)) if one != place]
    expected = (slope * vectors)[0].sum(dim=-1).detach().numpy()[found.erasable]
    np.testing.assert_allclose(found.importances["gradient x input"], expected, atol=NEAR)
    assert np.abs(expected).max() > 10 * NEAR

    alone = []
    for gone in found.erasable:
        left = theirs.run([one for at, one in enumerate(ids) if at != gone]).logits
        alone.append(float(value.detach() - probability_of(left, place - (gone < place), label)))
    np.testing.assert_allclose(found.alone, alone, atol=NEAR)
    assert np.abs(alone).max() > 10 * NEAR

    assert found.read == [place]
    maps = theirs.maps(ids).numpy()
    np.testing.assert_allclose(found.importances["attention"], maps[-1].mean(axis=0)[place, found.erasable], atol=NEAR)
    norms = theirs.norms(ids).numpy()[-1].mean(axis=0)
    shares = norms / norms.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(found.importances["norms"], shares[place, found.erasable], atol=NEAR)
    assert "ALTI" not in found.importances  # whose norms and residual connections are not known


@pytest.mark.slow
def test_rankings_that_are_not_known_are_left_out(tmp_path):
    """Qwen3-Next has a gate before the output projection, and a layer of linear attention."""
    found = trust(opened(tmp_path, "qwen3_next", "float32"), TEXT, **FEW)
    assert set(found.importances) == {"attention", "gradient x attention", "gradient x input"}


@pytest.mark.parametrize("name", slow_except(["gpt2", "llama"], ["gpt2"]))
@pytest.mark.parametrize("mode", ["mean_tokens", "lasttoken"])
def test_a_cosine_is_that_of_pooled_last_vectors(tmp_path, name, mode):
    """Its cells are products of what tokens bring; the effect of a head is on both texts."""
    make_small(tmp_path, name)
    write_modules(tmp_path, pooling(mode))
    model = load_model(str(tmp_path), device="cpu", dtype="float64", engine="transformers")
    theirs = ByHand(tmp_path, "decoder", torch.float64)

    def parts(text, **changes):
        """Return the contribution of each token to the embedding, which is their sum."""
        last = theirs.run(theirs.tokenizer(text).input_ids, **changes).last
        weights = torch.full((len(last), 1), 1 / len(last), dtype=last.dtype)
        if mode == "lasttoken":
            weights = torch.zeros_like(weights).index_fill_(0, torch.tensor([len(last) - 1]), 1.0)
        return weights * last

    def cosine(**changes):
        one, other = (parts(text, **changes).sum(dim=0) for text in (FIRST, SECOND))
        return float(torch.cosine_similarity(one, other, dim=0))

    found = similar(model, FIRST, SECOND)
    one, other = parts(FIRST), parts(SECOND)
    sizes = float(one.sum(dim=0).norm() * other.sum(dim=0).norm())
    assert found.cosine == pytest.approx(cosine(), abs=NEAR)
    np.testing.assert_allclose(found.contributions, (one @ other.T).numpy() / sizes, atol=NEAR)
    assert found.contributions.sum() == pytest.approx(found.cosine, abs=NEAR)
    effects = found.effects.effects[0, 0]
    expected = [
        [cosine(changes={(layer, head): 0.0}) - cosine() for head in range(effects.shape[1])]
        for layer in range(effects.shape[0])
    ]
    np.testing.assert_allclose(effects, expected, atol=NEAR)
    assert np.abs(effects).max() > 10 * NEAR
