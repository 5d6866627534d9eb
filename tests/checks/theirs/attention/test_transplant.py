"""A real layer's weights in somebody's attention: its maps come out, or it is wrong."""

import functools

import pytest
import torch
from torch import nn

from attncli import load_model
from attncli.attention import MultiHeadAttention, attend
from attncli.base.errors import RequestError
from attncli.checks.code.subject import Subject
from attncli.checks.theirs.attention.transplant import real_layer
from attncli.checks.theirs.checking import check_subject
from attncli.checks.theirs.found import Wanted

LAYER, HEAD = 3, 1
TEXT = "The cat sat on the mat."


@pytest.fixture(scope="module")
def layer(minilm):
    tokens = minilm.tokenizer.encode(TEXT, None)
    return functools.cache(lambda mask: real_layer(minilm, tokens, LAYER, HEAD, mask))


def found(thing, layer, **wanted):
    found = check_subject(Subject(thing), Wanted(**wanted), layer)
    checks = {one.name.rpartition(" ")[2]: one for one in found.checks if one.name.startswith(f"with layer {LAYER}'s")}
    assert set(checks) == {"output", "maps"}
    return found, checks


class Plain(nn.Module):
    """Gives no weights."""

    factor = 1.0

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def split(self, x):
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def forward(self, x):
        q, k, v = (self.split(layer(x)) for layer in (self.W_q, self.W_k, self.W_v))
        return self.W_o(attend(self.factor * q, k, v).output.transpose(1, 2).flatten(-2))


class Unscaled(Plain):
    @property
    def factor(self):
        return (self.W_q.out_features / self.num_heads) ** 0.5


def function(query, key, value):
    return attend(query, key, value).output


def of_vectors(query, key, value):
    assert query.dim() == 2
    return attend(query, key, value).output


@pytest.mark.parametrize("thing", [MultiHeadAttention, Plain, function], ids=lambda thing: thing.__name__)
def test_the_layers_maps_come_out(layer, thing):
    it, checks = found(thing, layer)
    assert it.right and all(one.holds for one in checks.values()), checks
    real = layer("padding")
    ours = torch.from_numpy(it.maps.ours).double()
    assert torch.allclose(ours, real.weights[HEAD], atol=1e-6) and torch.allclose(
        ours.sum(-1), torch.ones(len(ours)).double()
    )
    assert torch.allclose(torch.from_numpy(it.maps.theirs).double(), ours, atol=1e-5)
    document = it.maps.document()
    assert (document["layer"], document["head"]) == (LAYER, HEAD)
    assert len(document["theirs"]) == len(document["ours"]) == len(document["tokens"]) == len(real.x)


def test_what_gives_no_weights_is_seen_through_its_values(layer):
    assert found(Plain, layer)[1]["maps"].note == "seen through its values"
    assert found(MultiHeadAttention, layer)[1]["maps"].note == ""


def test_other_maps_come_out_of_what_is_wrong(layer):
    it, checks = found(Unscaled, layer)
    assert not it.right and [one.mistake for one in it.diagnosis] == ["no scale"]
    assert all(one.holds is False and one.difference > 1e-3 for one in checks.values())
    assert 0 < abs(it.maps.theirs - it.maps.ours).max() <= checks["maps"].difference + 1e-6


def test_what_has_no_dimension_for_heads_has_no_maps(layer):
    it, checks = found(of_vectors, layer)
    assert it.right and {one.holds for one in checks.values()} == {None}
    assert it.maps.theirs is None and it.maps.document()["theirs"] is None
    assert "no dimension for heads" in checks["maps"].note


def test_the_text_may_be_longer_than_a_head(minilm):
    tokens = minilm.tokenizer.encode("the cat sat " * 12, None)
    it, checks = found(Plain, lambda mask: real_layer(minilm, tokens, LAYER, HEAD, mask))
    assert checks["output"].holds and checks["maps"].holds is None and "too many tokens" in checks["maps"].note
    assert it.right


@pytest.mark.parametrize("family", ["deberta-v2", pytest.param("modernbert", marks=pytest.mark.slow)])
def test_a_model_whose_scores_depend_on_positions_is_refused(tiny, family):
    model = load_model(str(tiny(family)), device="cpu")
    with pytest.raises(RequestError, match=f"the scores of {family} depend on positions: -m takes a model whose don't"):
        real_layer(model, model.tokenizer.encode("the cat", None), 0, 0, "padding")


class Drops(Plain):
    """With dropout that eval does not end."""

    def forward(self, x):
        q, k, v = (self.split(layer(x)) for layer in (self.W_q, self.W_k, self.W_v))
        weights = nn.functional.dropout(attend(q, k, v).weights, 0.3)
        return self.W_o((weights @ v).transpose(1, 2).flatten(-2))


def test_what_draws_anew_is_run_without_in_every_check(layer):
    it, checks = found(Drops, layer)
    assert [one.name for one in it.checks if one.holds is False] == ["the same twice"]
    assert checks["output"].holds and checks["maps"].holds
    assert "one head" in {one.name for one in it.checks if one.holds}
    assert [one.mistake for one in it.diagnosis] == ["dropout left on"]
