"""Integrated Jacobians: complete, equal to finite differences, exact for what is linear."""

import math
from dataclasses import replace

import pytest
import torch
from sentences import NORMALIZE, pooling, write_modules
from torch import nn

from attncli import RequestError
from attncli.effects import integrated as module
from attncli.effects.copies import Unchanged
from attncli.effects.embedding_parts import in_float64
from attncli.effects.integrated import embedded, integrated, nodes, reference, rule, slopes
from attncli.models.loading import load_own
from attncli.models.walk import walk

TEXT = "the cat sat on it"
FAMILIES = ["bert", "modernbert", "deberta-v2", "roberta"]


@pytest.fixture
def asked(tiny, tmp_path):
    """`asked(family, pooling, ...)` -> a text in float64, and the embedding asked for."""

    def make(family="bert", modes=("mean_tokens",), text=TEXT):
        folder = tmp_path / family
        folder.mkdir()
        for file in tiny(family).iterdir():
            (folder / file.name).symlink_to(file)
        model = load_own(str(write_modules(folder, pooling(*modes), NORMALIZE)), "cpu", "float64")
        return Unchanged.of(model, model.tokenizer.encode(text)), in_float64(model.outputs()["embedding"])

    return make


@pytest.mark.parametrize("steps", [2, 4, 8])
def test_the_rule_is_exact_for_polynomials_of_its_degree(steps):
    for degree in range(steps + 1):
        found = sum(weight * node**degree for weight, node in zip(rule(steps), nodes(steps), strict=True))
        assert found == pytest.approx(1 / (degree + 1), abs=1e-14)
    assert nodes(2 * steps)[::2] == pytest.approx(nodes(steps))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_slopes_are_finite_differences(family, asked, monkeypatch):
    """Also with windows, whose layers are banded, with positions among the scores, and where copies are batched."""
    text, output = asked(family, text="the cat sat on it and it is too big")
    x = text.states[0].clone()
    away = x - reference(text)
    places = [1, 4, 2]
    monkeypatch.setattr(type(text.model), "batch_tokens", 2 * len(text.tokens))
    found = slopes(text, output, x, away, places)
    for place, slope in zip(places, found, strict=True):
        step = torch.zeros_like(x)
        step[place] = 1e-5 * away[place]
        up, down = embedded(text, output, torch.stack([x + step, x - step]))
        torch.testing.assert_close(slope, (up - down) / 2e-5, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("modes", "words", "steps"),
    [
        (("mean_tokens",), "the cat", 48),
        pytest.param(("cls_token",), TEXT, 128, marks=pytest.mark.slow),
        pytest.param(("mean_tokens", "lasttoken"), TEXT, 128, marks=pytest.mark.slow),
    ],
)
def test_it_is_complete(modes, words, steps, asked):
    """What tokens have sums to what the embedding is beside that of the reference, and special ones have nothing."""
    text, output = asked(modes=modes, text=words)
    found = integrated(text, output, steps)
    torch.testing.assert_close(found.tokens.sum(dim=0), found.embedding - found.reference, rtol=0, atol=1e-6)
    assert not found.tokens[[0, -1]].any() and found.tokens[1:-1].abs().sum(dim=-1).min() > 0
    torch.testing.assert_close(found.embedding, output([text.last[0]], [text.tokens])[0])


def test_half_the_steps_are_those_of_the_rule_of_half(asked):
    text, output = asked(text="the cat")
    torch.testing.assert_close(integrated(text, output, 8).half, integrated(text, output, 4).tokens)


def test_what_is_linear_is_exact_at_any_number_of_steps(asked, monkeypatch):
    """Without norms, activations and lengths, and with the same weight for every key."""
    text, output = asked(modes=("mean_tokens",))
    output.network = nn.Sequential()
    monkeypatch.setattr(module, "unit", lambda vectors: vectors)
    network = text.model.network
    for layer in network.layers:
        layer.attention_norm = layer.feed_forward_norm = nn.Identity()
        layer.feed_forward.up.activation = "none"
        layer.attention.query.weight.zero_()
        layer.attention.query.bias.zero_()
    text = Unchanged.of(text.model, text.tokens)
    found = integrated(text, output, 4)
    torch.testing.assert_close(found.tokens, found.half, rtol=0, atol=1e-9 * float(found.tokens.abs().max()))
    start, x = reference(text), text.states[0].clone()
    for place in range(1, len(text.tokens) - 1):
        moved = start.clone()
        moved[place] = x[place]
        [of_one, of_none] = embedded(text, output, torch.stack([moved, start]))
        torch.testing.assert_close(found.tokens[place], of_one - of_none, rtol=1e-9, atol=1e-9)


def test_the_reference_is_the_text_with_padding_in_place_of_its_words(asked):
    """As the network itself has it where it is given those tokens."""
    text, _ = asked()
    model, tokens = text.model, text.tokens
    ids = [tokens.ids[0], *[model.tokenizer.pad_id] * (len(tokens) - 2), tokens.ids[-1]]
    rows = replace(model.rows([tokens], "padding"), ids=torch.tensor(ids))
    expected = next(walk(model.network, rows))
    torch.testing.assert_close(reference(text), expected)


@pytest.mark.parametrize("steps", [0, 2, 30])
def test_steps_that_have_no_half_are_refused(steps, asked):
    with pytest.raises(RequestError, match=f"--steps {steps}: a multiple of 4"):
        integrated(*asked(), steps)


def test_every_step_is_told(asked):
    told = []
    integrated(*asked(), 4, lambda: told.append(math.nan))
    assert len(told) == 5
