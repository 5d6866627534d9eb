"""Credits of tokens sum to the embedding: last vectors exactly for every pooling, input tokens by integration."""

from dataclasses import replace

import pytest
import torch
from sentences import NORMALIZE, dense, pooling, write_modules

from attncli import RequestError
from attncli.effects.change import Unchanged
from attncli.features.similar.credit import (
    _embed,
    _slopes,
    has_bias,
    in_float64,
    integrated,
    nodes,
    parts_of,
    reference,
    rule,
)
from attncli.models.loading import load_model
from attncli.models.walk import walk

POOLED = ("cls_token", "max_tokens", "mean_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
LINEAR = "linear.Identity"
MADE = {
    **{name: [pooling(name), NORMALIZE] for name in POOLED},
    **{f"{name}, dense": [pooling(name), dense(32, 20, LINEAR)] for name in POOLED if name != "max_tokens"},
    "max, dense without a bias": [pooling("max_tokens"), dense(32, 20, LINEAR, bias=False), NORMALIZE],
    "two": [pooling("cls_token", "max_tokens", "mean_tokens"), NORMALIZE],
    "two that weigh alike": [pooling("mean_tokens", "mean_sqrt_len_tokens"), dense(64, 20, LINEAR)],
    "after Normalize": [pooling("mean_tokens"), NORMALIZE, dense(32, 20, LINEAR), dense(20, 9, LINEAR), NORMALIZE],
}
REFUSED = {
    "with tanh": [pooling("mean_tokens"), dense(32, 20)],
    "of which tokens have no share": [pooling("max_tokens"), dense(32, 20, LINEAR)],
    "cls and mean pooling comes a Dense": [pooling("cls_token", "mean_tokens"), dense(64, 20, LINEAR)],
}
TEXT = "the unbelievable cat sat on the big cat"


@pytest.fixture
def embedding(tiny, tmp_path):
    """`embedding(modules)` -> a model, and its output in float64."""

    def make(modules):
        folder = tmp_path / "made"
        folder.mkdir()
        for file in tiny("bert").iterdir():
            (folder / file.name).symlink_to(file)
        model = load_model(str(write_modules(folder, *modules)), "cpu")
        return model, in_float64(model.outputs()["embedding"])

    return make


@pytest.mark.parametrize("modules", MADE.values(), ids=MADE)
def test_parts_sum_to_the_embedding_and_padding_has_none(modules, embedding):
    model, output = embedding(modules)
    tokens = model.tokenizer.encode(TEXT, pad_to=20)
    [last] = model.last_hidden([tokens])
    last = last.double()
    parts, [whole] = parts_of(output, last, tokens), output([last], [tokens])
    assert parts.shape == (20, len(whole)) and parts.dtype == torch.float64
    torch.testing.assert_close(parts.sum(dim=0), whole, rtol=0, atol=1e-12)
    assert not parts[tokens.padding].any()


@pytest.mark.parametrize(("why", "modules"), REFUSED.items())
def test_what_is_no_sum_is_refused_with_what_to_ask_instead(why, modules, embedding):
    model, output = embedding(modules)
    tokens = model.tokenizer.encode(TEXT)
    [last] = model.last_hidden([tokens])
    with pytest.raises(RequestError, match=f"{why}.*--inputs") as caught:
        parts_of(output, last.double(), tokens)
    assert len(str(caught.value)) <= 300


def test_a_bias_is_shared_out_as_the_pooling_weighs_tokens(embedding):
    """A Dense of nothing but a bias: what a token has of it is its share."""
    model, output = embedding(MADE["weightedmean_tokens, dense"])
    output.network[0].weight.zero_()
    tokens = model.tokenizer.encode("the cat")  # [CLS] the cat [SEP]
    parts = parts_of(output, torch.ones(4, 32, dtype=torch.float64), tokens)
    expected = torch.tensor([1, 2, 3, 4]).double()[:, None] / 10 * output.network[0].bias
    torch.testing.assert_close(parts, expected)
    assert has_bias(output) and not has_bias(embedding_without_dense(model))


def embedding_without_dense(model):
    output = in_float64(model.outputs()["embedding"])
    output.network = torch.nn.Sequential()
    return output


# --- input tokens -----------------------------------------------------------------------------------------

SHORT = "the cat sat on it"
FAMILIES = ["bert", "modernbert", "deberta-v2", "roberta"]


@pytest.fixture
def embedded(tiny, tmp_path):
    """`asked(family, pooling, ...)` -> a text in float64, and the embedding asked for."""

    def make(family="bert", modes=("mean_tokens",), text=SHORT):
        folder = tmp_path / family
        folder.mkdir()
        for file in tiny(family).iterdir():
            (folder / file.name).symlink_to(file)
        model = load_model(str(write_modules(folder, pooling(*modes), NORMALIZE)), "cpu", "float64")
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
def test_slopes_are_finite_differences(family, embedded, monkeypatch):
    """Also with windows, whose layers are banded, with positions among the scores, and where copies are batched."""
    text, output = embedded(family, text="the cat sat on it and it is too big")
    x = text.states[0].clone()
    away = x - reference(text)
    places = [1, 4, 2]
    monkeypatch.setattr(type(text.model), "batch_tokens", 2 * len(text.tokens))
    found = _slopes(text, output, x, away, places)
    for place, slope in zip(places, found, strict=True):
        step = torch.zeros_like(x)
        step[place] = 1e-5 * away[place]
        up, down = _embed(text, output, torch.stack([x + step, x - step]))
        torch.testing.assert_close(slope, (up - down) / 2e-5, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("modes", "words", "steps"),
    [
        (("mean_tokens",), "the cat", 48),
        pytest.param(("cls_token",), SHORT, 128, marks=pytest.mark.slow),
        pytest.param(("mean_tokens", "lasttoken"), SHORT, 128, marks=pytest.mark.slow),
    ],
)
def test_it_is_complete(modes, words, steps, embedded):
    """Add up the credit of the tokens: the embedding minus that of the reference; special tokens have none."""
    text, output = embedded(modes=modes, text=words)
    found = integrated(text, output, steps)
    torch.testing.assert_close(found.tokens.sum(dim=0), found.embedding - found.reference, rtol=0, atol=1e-6)
    assert not found.tokens[[0, -1]].any() and found.tokens[1:-1].abs().sum(dim=-1).min() > 0
    torch.testing.assert_close(found.embedding, output([text.last[0]], [text.tokens])[0])


def test_half_the_steps_are_those_of_the_rule_of_half(embedded):
    text, output = embedded(text="the cat")
    torch.testing.assert_close(integrated(text, output, 8).half, integrated(text, output, 4).tokens)


def test_the_reference_is_the_text_with_padding_in_place_of_its_words(embedded):
    """Compare with the network on those tokens."""
    text, _ = embedded()
    model, tokens = text.model, text.tokens
    ids = [tokens.ids[0], *[model.tokenizer.pad_id] * (len(tokens) - 2), tokens.ids[-1]]
    rows = replace(model.rows([tokens], "padding"), ids=torch.tensor(ids))
    expected = next(walk(model.network, rows))
    torch.testing.assert_close(reference(text), expected)
