"""Layers that are right are found right, in whatever style; what is planted in them is found wrong, and named."""

import pytest
import torch
from checks.theirs.planted import Planted, source
from checks.theirs.planted_around import AROUND, INSIDE
from checks.theirs.right_layers import RIGHT, Block, ConnectedDecoder, GatedBlock
from checks.theirs.wrong import PLANTED
from torch import nn

from attncli.attention.masks import causal_mask
from attncli.attention.mistakes import MISTAKES, Linear, Projections, Seen
from attncli.attention.mistakes.layer_formula import Around, LayerFormula, LayerInputs, Norm, Parts
from attncli.attention.mistakes.of_layers import LAYER_MISTAKES, with_change
from attncli.attention.transformer import TransformerDecoderLayer, TransformerEncoderLayer
from attncli.base.errors import RequestError
from attncli.checks.theirs.found import Found, Wanted
from attncli.checks.theirs.layers.check import check_layer
from attncli.checks.theirs.subjects.here import Here

NAMES = {"encoder_layer": "EncoderLayer", "decoder_layer": "DecoderLayer"}
ALL = (*(planted for planted in PLANTED if planted.style == "encoder_layer"), *AROUND, *INSIDE)
QUICK = 24  # every so many is among the quick tests


def found(planted: Planted) -> Found:
    defined: dict = {}
    exec(compile(source(planted), planted.style, "exec"), defined)
    means = dict([planted.options]).get("--mask-means") if planted.options else None
    return check_layer(Here(defined[NAMES[planted.style]]), Wanted(kind="layer", means=means))


def wrong(check: Found) -> list[str]:
    return [str(one) for one in check.checks if one.holds is False]


# --- the formula ----------------------------------------------------------------------------------------


def linear(layer: nn.Linear) -> Linear:
    return Linear(layer.weight, layer.bias)


def projections(attention: nn.Module) -> Projections:
    return Projections(*(linear(getattr(attention, name)) for name in ("query", "key", "value", "output")))


def parts(layer: nn.Module) -> Parts:
    names = [name for name in ("attention_norm", "cross_norm", "feed_forward_norm") if hasattr(layer, name)]
    norms = tuple(Norm(norm.weight, norm.bias) for norm in (getattr(layer, name) for name in names))
    network = layer.feed_forward
    cross = projections(layer.cross) if hasattr(layer, "cross") else None
    return Parts(projections(layer.attention), linear(network.up), linear(network.down), norms, cross)


def formula(norm_first: bool) -> LayerFormula:
    around = Around(("before",) if norm_first else ("after",))
    return LayerFormula(around_attention=around, around_cross=around, around_feed_forward=around)


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_formula_is_our_own_layers(norm_first: bool) -> None:
    torch.manual_seed(0)
    layers = (TransformerEncoderLayer(24, 4, 40, norm_first), TransformerDecoderLayer(24, 4, 40, norm_first))
    for layer in layers:
        for weight in layer.double().parameters():
            nn.init.normal_(weight, std=0.3)
    x, memory = torch.randn(2, 6, 24).double(), torch.randn(2, 5, 24).double()
    seen = torch.rand(2, 1, 6, 5) > 0.3
    causal = Seen(causal=True)
    encoder, decoder = layers
    ours = formula(norm_first)(LayerInputs(x, 4, parts(encoder), seen=causal)).output
    torch.testing.assert_close(ours, encoder(x, causal_mask(6)).output)
    ours = formula(norm_first)(LayerInputs(x, 4, parts(decoder), memory, causal, Seen(pairs=seen))).output
    torch.testing.assert_close(ours, decoder(x, memory, causal_mask(6), seen).output)


def test_each_mistake_is_another_formula() -> None:
    """One way of making it at least changes the numbers, of a layer with norms before."""
    torch.manual_seed(0)
    layer = TransformerDecoderLayer(24, 4, 40, norm_first=True).double()
    for weight in layer.parameters():
        nn.init.normal_(weight, std=0.3)
    x, memory = torch.randn(2, 2, 6, 24).double()
    inputs = LayerInputs(x, 4, parts(layer), memory, Seen(causal=True), Seen(pairs=torch.ones(6, 6).triu().bool()))
    right = formula(True)
    for mistake in LAYER_MISTAKES:
        made = [with_change(right, change)(inputs).output for change in mistake.changes]
        same = [torch.allclose(one, right(inputs).output) for one in made]
        assert not all(same) or mistake.name in ("not causal", "position added twice"), mistake.name


# --- right ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "thing",
    [pytest.param(one, id=one.__name__, marks=() if one in (Block, GatedBlock) else pytest.mark.slow) for one in RIGHT],
)
def test_a_right_layer_is_right(thing: type[nn.Module]) -> None:
    check = check_layer(Here(thing), Wanted(kind="layer"))
    assert check.right, (check.verdict, wrong(check))


@pytest.mark.parametrize("norm_first", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "layer", [nn.TransformerEncoderLayer, pytest.param(nn.TransformerDecoderLayer, marks=pytest.mark.slow)]
)
def test_torch_s_own_are_right(layer: type[nn.Module], norm_first: bool) -> None:
    thing = layer(32, 4, 40, norm_first=norm_first, activation="gelu", batch_first=norm_first)
    check = check_layer(Here(thing), Wanted(kind="layer"))
    assert check.right, (check.verdict, wrong(check))
    assert check.conventions[:2] == ("pre-norm" if norm_first else "post-norm", "GELU")
    assert sum("True = forbidden" in one for one in check.conventions) == (4 if check.kind == "a decoder layer" else 2)


@pytest.mark.parametrize("style", ["encoder_layer", pytest.param("decoder_layer", marks=pytest.mark.slow)])
def test_a_base_is_right(style: str) -> None:
    check = found(Planted("", style, "\n\n\n\n", ""))
    assert check.right, (check.verdict, wrong(check))


class WantsMasks(nn.TransformerEncoderLayer):
    """Can't be called without a mask."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return super().forward(x, src_key_padding_mask=~mask)


@pytest.mark.slow
def test_a_mask_that_hides_nothing_is_given_where_one_is_needed() -> None:
    check = check_layer(Here(WantsMasks(32, 4, 40, batch_first=True)), Wanted(kind="layer"))
    assert check.right, (check.verdict, wrong(check))
    assert "mask: True = allowed, as [batch, key]" in check.conventions


@pytest.mark.slow
def test_what_is_found_is_said() -> None:
    check = check_layer(Here(ConnectedDecoder), Wanted(kind="layer"))
    assert check.kind == "a decoder layer"
    assert check.conventions[:3] == ("pre-norm", "ReLU", "LayerNorm by the standard deviation with n - 1")
    assert any(one.startswith("src_mask: True = allowed, as [query, key]") for one in check.conventions)


# --- wrong ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "planted",
    [
        pytest.param(one, id=f"{one.mistake}, {one.style}", marks=() if place % QUICK == 0 else pytest.mark.slow)
        for place, one in enumerate(ALL)
    ],
)
def test_what_is_planted_is_named(planted: Planted) -> None:
    check = found(planted)
    assert not check.right
    assert [one.mistake for one in check.diagnosis] == [planted.mistake], (check.verdict, wrong(check))


def test_each_mistake_around_attention_is_planted_once_at_least() -> None:
    assert {one.name for one in LAYER_MISTAKES} == {one.mistake for one in AROUND} - {"dropout left on"}
    assert {one.mistake for one in INSIDE} <= {one.name for one in MISTAKES}


@pytest.mark.slow
def test_what_no_mistake_explains_is_shown_on_the_smallest_input() -> None:
    check = found(Planted("", "encoder_layer", "torch.relu(self.up(x))", "torch.sin(self.up(x))"))
    assert not check.right and check.diagnosis == ()
    assert check.smallest.startswith("on one text of 1 tokens the last one's output is [")


def test_what_is_no_layer_can_t_be_checked() -> None:
    with pytest.raises(RequestError, match="the feed-forward network is not among the weights"):
        check_layer(Here(nn.MultiheadAttention), Wanted(kind="layer"))
