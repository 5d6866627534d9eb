"""Networks that compute attention by hand: maps and changes at our place, against changes of the network itself."""

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from nearness import eager, same_vectors, same_weights
from slow import slow_except
from small_networks import BY_HAND, make_by_hand
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers import AttentionMaskInterface

from attncli import load_model
from attncli.effects.change import Changed, Hide
from attncli.models.hand_written import HandWritten
from attncli.record import Request

TEXT, OTHER = "the cat sat on a mat", "a cat in the mat"
NO_W_O = ("xlnet", "convbert")  # a product of three dimensions, and heads beside a convolution
TYPES = slow_except([*BY_HAND], ["falcon", "bloom", "mpnet", "deberta"])


@pytest.fixture(scope="module")
def model_of(tmp_path_factory):
    """`model_of(type)` -> the model of a small checkpoint that transformers runs, made once."""
    made = {}

    def make(model_type):
        if model_type not in made:
            folder = make_by_hand(tmp_path_factory.mktemp(model_type), model_type)
            made[model_type] = load_model(str(folder), "cpu", engine="transformers")
        assert made[model_type].places.by_hand is not None
        return made[model_type]

    return make


class Hidden(TorchFunctionMode):
    """Hides keys before every softmax over keys: bool `[query, key]`, True = hidden."""

    def __init__(self, hidden: Tensor) -> None:
        super().__init__()
        self.hidden = hidden

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if getattr(func, "__name__", "") == "softmax" and args[0].shape[-2:] == self.hidden.shape:
            args = (args[0].masked_fill(self.hidden, -math.inf), *args[1:])
        return func(*args, **(kwargs or {}))


def theirs(model, tokens, mode=None, **options):
    """Run the network with its own attention on a text, in a mode of torch."""
    with eager(model) as network, torch.inference_mode(), mode or nullcontext():
        return network.base_model(**model.inputs([tokens], "padding"), **options)


def last(model, tokens, mask=None, taps=()):
    with torch.inference_mode():
        [vectors] = model.last_hidden([tokens], mask, taps=taps)
    return vectors


@pytest.mark.parametrize("name", TYPES)
def test_with_padding_real_tokens_have_their_maps(model_of, name):
    model = model_of(name)
    tokens = model.tokenizer.encode(TEXT, pad_to=len(model.tokenizer.encode(TEXT)) + 3)
    real = ~np.array(tokens.padding)
    [record] = model.attend_tokens([tokens], Request())
    expected = torch.cat(theirs(model, tokens, output_attentions=True).attentions)
    assert same_weights(record.weights[:, :, real], expected[:, :, real])
    shown = np.broadcast_to(real, (len(real),) * 2)
    shown = np.tril(shown) if model.parts == ("decoder",) else shown
    if name != "gpt_neo":  # which has windows
        assert all(np.array_equal(mask[real], shown[real]) for mask in record.masks)


@pytest.mark.parametrize("name", [one for one in TYPES if one not in NO_W_O])
def test_a_silenced_head_is_one_without_its_columns_of_w_o(model_of, name):
    model = model_of(name)
    if name in NO_W_O:
        return
    tokens = model.tokenizer.encode(TEXT)
    silenced = last(model.without("1.2"), tokens)
    of_layer = {layers[0]: one for one, (_, layers) in model.places.layers.items()}
    projection, size = model.places.projections[of_layer[1]], model.head_dim
    columns = projection.weight if isinstance(projection, nn.Linear) else projection.weight.T
    before = columns.detach().clone()
    with torch.no_grad():
        columns[:, 2 * size : 3 * size] = 0
        expected = theirs(model, tokens).last_hidden_state[0]
        columns[:] = before
    assert same_vectors(silenced, expected, 6) and not same_vectors(silenced, last(model, tokens), 6)


@pytest.mark.parametrize("name", TYPES)
def test_a_cut_edge_is_one_that_a_mask_hides(model_of, name):
    model = model_of(name)
    tokens = model.tokenizer.encode(TEXT)
    every = [(layer, head) for layer in range(model.layers) for head in range(model.heads)]
    found = last(model, tokens, taps=[Changed([Hide(every, [(4, 1), (3, 2)])])])
    hidden = torch.zeros(len(tokens), len(tokens), dtype=torch.bool)
    hidden[[4, 3], [1, 2]] = True
    expected = theirs(model, tokens, Hidden(hidden)).last_hidden_state[0]
    assert same_vectors(found, expected, 6) and not same_vectors(found, last(model, tokens), 6)


@pytest.mark.parametrize("name", ["mpnet", "deberta"])
def test_an_encoder_has_a_causal_mask_if_asked_for(model_of, name):
    model = model_of(name)
    tokens = model.tokenizer.encode(TEXT)
    hidden = torch.ones(len(tokens), len(tokens), dtype=torch.bool).triu(1)
    made = theirs(model, tokens, Hidden(hidden), output_attentions=True)
    [record] = model.attend_tokens([tokens], Request(mask="causal"))
    assert same_weights(record.weights, torch.cat(made.attentions))
    assert np.array_equal(record.masks, np.broadcast_to(~hidden.numpy(), record.masks.shape))


@pytest.mark.parametrize("name", slow_except(["bloom", "mpt"], ["bloom"]))
def test_a_decoder_shows_the_future_if_asked_to_with_its_bias_of_distances(model_of, name, monkeypatch):
    """Without transformers' mask, their own code adds ALiBi to all keys."""
    model = model_of(name)
    tokens = model.tokenizer.encode(TEXT)

    def nothing(batch_size, q_length, kv_length, **_):
        return torch.zeros(batch_size, 1, q_length, kv_length)

    with monkeypatch.context() as patch:
        patch.setitem(AttentionMaskInterface._global_mapping, "eager", nothing)
        expected = torch.cat(theirs(model, tokens, output_attentions=True).attentions)
    [record] = model.attend_tokens([tokens], Request(mask="none"))
    assert expected.triu(1).sum() > 1 and same_weights(record.weights, expected)


@pytest.mark.parametrize("name", TYPES)
def test_several_texts_give_what_each_gives_alone(model_of, name):
    model = model_of(name)
    tokens = [model.tokenizer.encode(text) for text in (TEXT, OTHER, TEXT[::-1], TEXT)]
    for one, record in zip(tokens, model.attend_tokens(tokens, Request()), strict=True):
        [alone] = model.attend_tokens([one], Request())
        assert same_weights(record.weights, alone.weights)
    with torch.inference_mode():
        rows = model.rows(tokens, None)
        embedded, final = (rows.texts(x) for x in model.walk(rows))
        for one, *vectors in zip(tokens, embedded, final, strict=True):
            alone = model.walk(model.rows([one], None))
            assert all(same_vectors(*both, 6) for both in zip(vectors, alone, strict=True))


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_scores_may_have_another_dtype_than_values(tmp_path, dtype):
    """GPT-Neo computes scores in float32, whatever the dtype of its values."""
    model = load_model(str(make_by_hand(tmp_path, "gpt_neo")), "cpu", dtype)
    [record] = model.attend_tokens([model.tokenizer.encode(TEXT)], Request(measure="norm"))
    assert record.weights.max() > 0.1 and last(model, model.tokenizer.encode(TEXT)).dtype == getattr(torch, dtype)


# --- what is followed -------------------------------------------------------------------------------------

SIZE, HEADS, LENGTH = 4, 2, 5


class Following(TorchFunctionMode):
    """Makes a block of the attention that runs in it."""

    def __init__(self) -> None:
        super().__init__()
        self.followed = HandWritten()
        self.block: Any = None

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name, kwargs = func.__name__, kwargs or {}
        if (found := self.followed.find(name, args, kwargs)) is not None:
            self.block = found[0].block(found[1].right, 2)
        result = func(*args, **kwargs)
        self.followed.follow(name, args, kwargs, result)
        return result


def flat(x: Tensor) -> Tensor:
    return x.flatten(0, 1)


BIAS = torch.randn(2, HEADS, 1, LENGTH, generator=torch.Generator().manual_seed(1))
MASK = torch.zeros(LENGTH, LENGTH).masked_fill(torch.ones(LENGTH, LENGTH).triu(1) > 0, -1e4)
# Scores of queries and keys `[2, HEADS, LENGTH, SIZE]`, the factor of their product, and whether a term is added.
SCORES: dict[str, tuple[Any, float, bool]] = {
    "@": (lambda q, k: q @ k.mT / 2 + MASK, 0.5, False),
    "in place": (lambda q, k: (q @ k.mT).mul_(0.5).add_(MASK), 0.5, False),
    "bias, then scale": (lambda q, k: (q @ k.mT + BIAS) * 0.5 + MASK, 0.5, True),
    "baddbmm": (
        lambda q, k: torch.baddbmm(flat(BIAS), flat(q), flat(k).mT, alpha=0.5).view(2, HEADS, LENGTH, LENGTH) + MASK,
        0.5,
        True,
    ),
    "three dimensions": (lambda q, k: flat(q) @ flat(k).mT * 0.5 + MASK, 0.5, False),
    "einsum": (lambda q, k: torch.einsum("bhid,bhjd->bhij", q, k) + MASK, 1.0, False),
    "where": (lambda q, k: torch.where(MASK == 0, q @ k.mT - BIAS, -1e9), 1.0, True),
    "unknown to it": (lambda q, k: 3 * torch.tanh(q @ k.mT) + MASK, 3.0, True),
    "one key head": (lambda q, k: q @ k[:, :1].mT + MASK, 1.0, False),
}


@pytest.mark.parametrize("way", SCORES)
def test_scores_are_followed_to_their_values(way):
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, HEADS, LENGTH, SIZE)
    scores, scale, has_term = SCORES[way]
    with Following() as following:
        made = scores(query, key)
        weights = torch.softmax(made.float(), dim=-1)
        output = weights @ (flat(value) if weights.dim() == 3 else value)
    block = following.block
    assert block.query.shape == (2, HEADS, LENGTH, SIZE) and block.scale == scale
    assert list(block.all_terms()) == (["position"] if has_term else [])
    assert block.allowed().expand(2, 1, -1, -1).equal((MASK == 0).expand(2, 1, -1, -1))
    again = block.scale * block.query @ block.key.mT + sum(block.all_terms().values())
    again = again.masked_fill(~block.allowed(), -math.inf).softmax(-1)
    torch.testing.assert_close(again, weights.view(again.shape))
    torch.testing.assert_close(again @ block.value, output.view(2, HEADS, LENGTH, SIZE))


def test_a_router_is_no_attention():
    """Its keys are parameters."""
    router, x = nn.Linear(SIZE, LENGTH), torch.randn(2, LENGTH, SIZE)
    with Following() as following:
        (x @ router.weight.T).softmax(-1) @ x
    assert following.block is None
