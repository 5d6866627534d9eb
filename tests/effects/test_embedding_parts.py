"""What each token brings to an embedding sums to the embedding, whatever its pooling; and what is no such sum."""

import pytest
import torch
from sentences import NORMALIZE, dense, pooling, write_modules

from attncli import RequestError
from attncli.effects.embedding_parts import has_bias, in_float64, parts_of, pooled
from attncli.models.loading import load_own
from attncli.models.output import POOLINGS

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
        model = load_own(str(write_modules(folder, *modules)), "cpu")
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


@pytest.mark.parametrize("name", POOLINGS)
def test_poolings_by_hand(name):
    vectors = torch.tensor([[1.0, -2.0], [3.0, 5.0], [3.0, 1.0], [2.0, 5.0]], dtype=torch.float64)
    by_hand = {
        "cls": [[1, -2], [0, 0], [0, 0], [0, 0]],
        "max": [[0, 0], [3, 5], [0, 0], [0, 0]],  # of equal ones the first
        "mean": [[0.25, -0.5], [0.75, 1.25], [0.75, 0.25], [0.5, 1.25]],
        "mean_sqrt_len_tokens": [[0.5, -1], [1.5, 2.5], [1.5, 0.5], [1, 2.5]],
        "weightedmean": [[0.1, -0.2], [0.6, 1], [0.9, 0.3], [0.8, 2]],
        "lasttoken": [[0, 0], [0, 0], [0, 0], [2, 5]],
    }
    torch.testing.assert_close(pooled(name, vectors), torch.tensor(by_hand[name], dtype=torch.float64))
