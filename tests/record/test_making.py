"""Maps from anywhere become records: whatever holds them, and whatever does not fit is refused in words."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from foreign_checkpoints import ANSWER, TEXT
from hypothesis import given
from hypothesis import strategies as st
from nearness import eager, same_weights
from records import attention_records, layered_records, tokens_of
from saved_records import same

from attncli import RequestError, record_of, records_of
from attncli.record import ModelInfo, Vectors

TOKENS = ["[CLS]", "the", "cat", "[SEP]"]
EVEN = np.full((2, 3, 4, 4), 0.25, dtype=np.float32)


def again(record, weights=None, **more):
    """A record made of what another one says of itself."""
    said = {"layers": record.layers, "heads": record.heads, "model": record.model, "kind": record.kind, **more}
    return record_of(record.weights if weights is None else weights, record.tokens, record.key_tokens, **said)


# --- what they come in --------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 3])
@given(record=attention_records())
def test_a_tuple_of_tensors_with_a_batch_is_the_array(batch, record):
    layers = torch.from_numpy(record.weights).unsqueeze(1).repeat(1, batch, 1, 1, 1)
    layers[:, : batch - 1] = 1 / layers.shape[-1]
    which = None if batch == 1 else batch - 1
    for held in (tuple(layers.requires_grad_()), layers, [one.detach().numpy() for one in layers]):
        same(again(record, held, batch=which), again(record))
    same(again(record), record)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@given(record=attention_records())
def test_any_precision_is_read_as_it_is(dtype, record):
    rounded = torch.from_numpy(record.weights).to(dtype)
    np.testing.assert_array_equal(record_of(rounded, record.tokens).weights, rounded.float().numpy())
    np.testing.assert_array_equal(record_of(tuple(rounded[:, None]), record.tokens).weights, rounded.float().numpy())


def test_segments_are_a_list_or_where_the_second_text_begins():
    assert record_of(EVEN, TOKENS, segments=2).tokens.segments == [0, 0, 1, 1]
    assert record_of(EVEN, TOKENS, segments=[0, 1, 1, 1]).tokens.segments == [0, 1, 1, 1]
    assert record_of(EVEN, tokens_of(4), segments=3).tokens == replace(tokens_of(4), segments=[0, 0, 0, 1])


def test_layers_heads_and_the_model_have_the_numbers_that_they_are_given():
    record = record_of(EVEN, TOKENS, layers=[3, 7], heads=[2, 0, 5], model="mine")
    assert (record.layers, record.heads) == ([3, 7], [2, 0, 5])
    assert record.model == ModelInfo("mine", "", "", 8, 6, 0)
    np.testing.assert_array_equal(record.select([7], [0]).weights, EVEN[1:, 1:2])


def test_vectors_are_arrays_of_all_heads_or_vectors():
    query, key = np.random.default_rng(0).normal(size=(2, 2, 3, 4, 5)).astype(np.float32)
    record = record_of(EVEN, TOKENS, layers=[4, 2], vectors=(torch.from_numpy(query), key))
    for layer, number in enumerate([4, 2]):
        for head in range(3):
            found = record.vectors.of(number, head)
            np.testing.assert_array_equal(found, [query[layer, head], key[layer, head]])
    few = Vectors([(1, 2)], query[0, :1], key[0, :1])
    assert record_of(EVEN, TOKENS, vectors=few).vectors.heads == [(1, 2)]


# --- masks --------------------------------------------------------------------------------------------------


@given(record=attention_records(padding=2), name=st.sampled_from(["padding", "causal"]))
def test_a_mask_is_found_by_where_weight_is(record, name):
    weights = np.tril(record.weights) if name == "causal" else record.weights
    weights = weights / weights.sum(axis=-1, keepdims=True)
    found = record_of(weights, record.tokens)
    real = ~np.array(record.tokens.padding)
    allowed = np.broadcast_to(real, weights.shape[-2:])
    asked = record_of(weights, record.tokens, mask=name)
    for one in (found, asked):
        assert one.mask_name == name
        np.testing.assert_array_equal(one.mask[real], (np.tril(allowed) if name == "causal" else allowed)[real])
    assert found.kind == {"causal": "decoder", "padding": "encoder"}[name]


@given(record=layered_records())
def test_a_mask_that_is_given_is_kept_layer_by_layer(record):
    some = record.weights.any(axis=1)
    found = record_of(record.weights, record.tokens, mask=record.masks)
    np.testing.assert_array_equal(found.masks, record.masks)
    np.testing.assert_array_equal(record_of(record.weights, record.tokens, mask=torch.from_numpy(some)).masks, some)


def test_a_query_whose_row_is_zero_may_attend_to_nothing():
    weights = EVEN.copy()
    weights[1, :, 2] = 0
    record = record_of(weights, TOKENS)
    assert record.masks[0].all() and record.masks[1].sum(axis=1).tolist() == [4, 4, 0, 4]


def test_padding_before_the_text_looks_wherever_it_likes():
    """Make an even row, like transformers' eager attention under a causal mask."""
    weights = np.tril(np.ones((4, 4)))
    weights[:, 0] = 0
    weights[0] = 1
    weights /= weights.sum(axis=-1, keepdims=True)
    record = record_of(weights, ["<pad>", "a", "b", "c"])
    assert record.mask_name == "causal" and record.tokens.padding == [True, False, False, False]
    assert record.mask.tolist()[1] == [False, True, False, False] and all(record.mask[0])


def test_one_pad_that_is_looked_at_is_what_a_decoder_starts_with():
    weights = np.tril(np.ones((3, 3))) / np.arange(1, 4)[:, None]
    assert record_of(weights, ["<pad>", "▁a", "▁b"]).tokens.padding == [False] * 3
    cross = record_of(np.full((3, 2), 0.5), ["<pad>", "▁a", "▁b"], ["▁c", "</s>"])
    assert cross.tokens.padding == [False] * 3 and cross.kind == "cross" and cross.mask_name == "padding"


# --- whole models -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["gpt2", "llama", "modernbert"])
def test_a_models_outputs_are_the_record_that_the_engine_gives(family, foreign):
    model = foreign(family)
    encoding = model.theirs(TEXT, return_tensors="pt")
    with eager(model) as network:
        outputs = network(**encoding, output_attentions=True)
    expected = model.attend(TEXT)
    [record] = records_of(outputs, encoding, model=expected.model)
    assert same_weights(expected.weights, record.weights)
    same(replace(record, masks=expected.masks), replace(expected, tokens=record.tokens, weights=record.weights))
    assert record.tokens.text == expected.tokens.text and record.tokens.special == expected.tokens.special


@pytest.mark.parametrize("family", ["t5", "bart"])
def test_an_encoder_decoder_has_three(family, foreign):
    model = foreign(family)
    expected = [model.attend(TEXT, which="encoder")]
    expected += [model.attend(TEXT, which=part, target=ANSWER) for part in ("decoder", "cross")]
    read, written = expected[2].keys, expected[2].tokens
    both = {"input_ids": torch.tensor([read.ids]), "decoder_input_ids": torch.tensor([written.ids])}
    with eager(model) as network:
        outputs = network(**both, output_attentions=True)
    found = records_of(outputs, read.text, written.text)
    assert [one.kind for one in found] == ["encoder", "decoder", "cross"]
    for record, engines in zip(found, expected, strict=True):
        np.testing.assert_allclose(record.weights, engines.weights, atol=1e-6)
        assert record.mask_name == engines.mask_name and (record.masks == engines.masks).all()
        for side in ("tokens", "keys"):
            ours, theirs = getattr(record, side), getattr(engines, side)
            assert (ours.text, ours.special, ours.padding) == (theirs.text, theirs.special, theirs.padding)


@pytest.mark.parametrize("family", ["gpt2", "t5"])
def test_the_steps_of_writing_are_the_maps_of_the_whole(family, foreign, monkeypatch):
    model = foreign(family)
    encoding = model.theirs(TEXT, return_tensors="pt")
    with eager(model) as network, torch.no_grad():
        monkeypatch.setattr(network.config, "use_cache", True)
        options = {"output_attentions": True, "return_dict_in_generate": True, "max_new_tokens": 5, "do_sample": False}
        written = network.generate(**encoding, **options, use_cache=True, eos_token_id=None)
        ids = written.sequences[:, :-1]
        of_whole = {"input_ids": ids} if family == "gpt2" else {**encoding, "decoder_input_ids": ids}
        whole = network(**of_whole, output_attentions=True)
    names = [str(number) for number in range(ids.shape[1])]
    read = [str(number) for number in range(encoding["input_ids"].shape[1])]
    both = [records_of(one, *([names] if family == "gpt2" else [read, names])) for one in (written, whole)]
    for found, expected in zip(*both, strict=True):
        assert (found.kind, found.weights.shape) == (expected.kind, expected.weights.shape)
        np.testing.assert_allclose(found.weights, expected.weights, atol=1e-5)


# --- what does not fit --------------------------------------------------------------------------------------

NEGATIVE, HALF = EVEN.copy(), EVEN / 2
NEGATIVE[1, 2, 3, 0] = -0.1


@pytest.mark.parametrize(
    ("weights", "tokens", "more", "said"),
    [
        (None, TOKENS, {}, "output_attentions=True"),
        ((), TOKENS, {}, 'attn_implementation="eager"'),
        ([None], TOKENS, {}, 'load the model with attn_implementation="eager"'),
        ((EVEN[:1], None), TOKENS, {}, r"layer 1 has no attention \(None\)"),
        ((EVEN[0], EVEN[0, :2]), TOKENS, {}, r"layer 1 has \[2, 4, 4\] and layer 0 \[3, 4, 4\]"),
        (((EVEN[:1],), (EVEN[:1],)), TOKENS, {}, "weights have 8 queries and 4 keys"),
        (((EVEN[:1],), (EVEN[0],)), TOKENS, {}, r"layer 0 has shapes \[\[1, 3, 4, 4\], \[3, 4, 4\]\] in its steps"),
        ((EVEN, EVEN), TOKENS, {}, "the batch has 2 texts: choose one with batch=0"),
        (EVEN, TOKENS, {"batch": 1}, "omit batch"),
        (EVEN[0, 0, 0], TOKENS, {}, r"weights are \[4\]"),
        ([[0.5, 0.5], [1.0]], TOKENS, {}, "to an array"),
        (EVEN[..., :3] * 4 / 3, TOKENS, {}, "also give key_tokens"),
        (EVEN, TOKENS, {"key_tokens": TOKENS[1:]}, "the tokens are 4 and 3"),
        (EVEN, "abcd", {}, "a list of strings"),
        (NEGATIVE, TOKENS, {}, "the weight of query 3 to key 0 in map 1, 2 is -0.1"),
        (HALF, TOKENS, {}, r"row 0 of map 0, 0 sums to 0.5 and not to 1: .*dropout"),
        (EVEN, TOKENS, {"mask": "casual"}, "no mask 'casual'"),
        (EVEN, TOKENS, {"mask": "causal"}, r"the mask hides key 1 from query 0 \(\[CLS\]\)"),
        (EVEN, TOKENS, {"mask": "causal", "key_tokens": TOKENS}, "requires self-attention"),
        (EVEN, TOKENS, {"segments": 4}, "begin at one of the tokens 1 to 3"),
        (EVEN, TOKENS, {"layers": [0]}, "2 distinct numbers from 0"),
        (EVEN, TOKENS, {"vectors": (np.ones((3, 4, 5)), np.ones((3, 4, 5)))}, r"\[layer, head, token, head_dim\]"),
        (EVEN, TOKENS, {"vectors": (np.ones((2, 3, 4, 5)), np.ones((2, 3, 4, 6)))}, "vectors: key is"),
    ],
)
def test_what_does_not_fit_is_said_in_words(weights, tokens, more, said):
    with pytest.raises(RequestError, match=said) as caught:
        record_of(weights, tokens, **more)
    assert "\n" not in str(caught.value)
