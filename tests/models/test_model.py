"""Model: texts in, records out; the published weights against transformers."""

import warnings

import numpy as np
import pytest
import torch
from checkpoints import FAMILIES, make_checkpoint, make_config, make_network
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli import Notice, RequestError, load_model
from attncli.models.hub import ALIASES, locate
from attncli.models.loading import pick_device

TEXT = "The trophy does not fit in the suitcase because it is too big."
OTHER = "So I bought a larger one, and a smaller trophy."
TEXTS = [TEXT, "Short.", OTHER, "Words that nobody knows: 中文 🙂 Ærøskøbing", "[MASK] a [SEP] b", "naïve café"]


@pytest.fixture(scope="module")
def theirs():
    """transformers' BERT, eager, with the published weights; and its tokenizer."""
    from transformers import AutoModel, AutoTokenizer

    path = locate("minilm").path
    return AutoModel.from_pretrained(path, attn_implementation="eager"), AutoTokenizer.from_pretrained(path)


# --- the published weights ------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", [None, OTHER])
@pytest.mark.parametrize("text", TEXTS)
def test_minilm_is_transformers_bert(text, pair, minilm, theirs):
    network, tokenizer = theirs
    inputs = tokenizer(text, pair, return_tensors="pt")
    with torch.no_grad():
        expected = network(**inputs, output_attentions=True, output_hidden_states=True)
    record = minilm.attend(text, pair)
    assert record.tokens.ids == inputs["input_ids"][0].tolist()
    assert record.tokens.segments == inputs["token_type_ids"][0].tolist()
    np.testing.assert_allclose(record.weights, torch.cat(expected.attentions).numpy(), atol=1e-5)
    mask = minilm.mask([record.tokens], "padding")
    weights, hidden = minilm.hidden_states(record.tokens, mask, range(6))
    np.testing.assert_allclose(weights.numpy(), record.weights, atol=1e-5)
    for here, there in zip(hidden, expected.hidden_states, strict=True):
        torch.testing.assert_close(here, there[0], rtol=0, atol=1e-4)


def test_minilm_padded_as_transformers_pads(minilm, theirs):
    network, tokenizer = theirs
    inputs = tokenizer(TEXT, padding="max_length", max_length=24, return_tensors="pt")
    for mask, attention_mask in (("padding", inputs["attention_mask"]), ("none", torch.ones(1, 24))):
        with torch.no_grad():
            expected = network(inputs["input_ids"], attention_mask=attention_mask, output_attentions=True)
        record = minilm.attend(TEXT, mask=mask, pad_to=24)
        assert record.tokens.padding == [not real for real in inputs["attention_mask"][0].tolist()]
        np.testing.assert_allclose(record.weights, torch.cat(expected.attentions).numpy(), atol=1e-5)


def test_minilm_says_what_it_is(minilm):
    info = minilm.info
    assert (info.name, info.layers, info.heads, info.hidden_size) == ("minilm", 6, 12, 384)
    assert info.sha256 == ALIASES["minilm"].sha256
    assert minilm.tokenizer.max_tokens == 512  # and not the 128 that its tokenizer.json says


# --- pairs in every family ------------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", [1, 2, 3])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_pair_is_what_the_family_makes_of_it(family, kinds, tmp_path):
    """BERT and ELECTRA tell the network of the second segment, where it has room for one; the others don't."""
    changes = {"max_position_embeddings": 64, **({} if family == "distilbert" else {"type_vocab_size": kinds})}
    model = load_model(str(make_checkpoint(tmp_path, family, **changes)), "cpu")
    record = model.attend("the cat sat", "it is big")
    assert set(record.tokens.segments) == {0, 1}
    told = family in ("bert", "electra") and kinds > 1
    segments = {"token_type_ids": torch.tensor([record.tokens.segments])} if told else {}
    with torch.no_grad():
        expected = make_network(make_config(family, **changes))(
            torch.tensor([record.tokens.ids]), output_attentions=True, **segments
        )
    np.testing.assert_allclose(record.weights, torch.cat(expected.attentions).numpy(), atol=1e-5)


# --- masks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", ["padding", "causal", "none"])
def test_a_record_keeps_what_its_mask_says(mask, minilm):
    record = minilm.attend(TEXT, mask=mask, pad_to=20)
    length, real = 20, 20 - sum(record.tokens.padding)
    query, key = np.indices((length, length))
    allowed = {"padding": key < real, "causal": (key < real) & (key <= query), "none": key >= 0}[mask]
    assert record.mask_name == mask and record.mask.dtype == bool
    assert (record.mask == allowed).all()
    assert (record.weights[:, :, ~allowed] == 0).all()
    np.testing.assert_allclose(record.weights.sum(axis=-1), 1, atol=1e-5)


def test_padding_changes_no_real_token_and_forgetting_the_mask_does(minilm):
    plain = minilm.attend(TEXT).weights
    length = plain.shape[-1]
    padded = minilm.attend(TEXT, pad_to=40).weights[..., :length, :length]
    np.testing.assert_allclose(padded, plain, atol=1e-5)
    forgotten = minilm.attend(TEXT, mask="none", pad_to=40).weights[..., :length, :length]
    assert np.abs(forgotten - plain).max() > 0.1


def test_under_the_causal_mask_a_prefix_knows_nothing_of_what_follows(minilm):
    short = minilm.attend("the trophy does not", mask="causal").weights[..., :5, :5]
    long = minilm.attend("the trophy does not fit in the suitcase", mask="causal").weights[..., :5, :5]
    np.testing.assert_allclose(short, long, atol=1e-5)


# --- what is asked for ----------------------------------------------------------------------------------


@given(data=st.data())
@settings(max_examples=20)
@pytest.mark.parametrize("mask", ["padding", "causal", "none"])
def test_a_selection_is_a_part_of_everything(mask, data, tiny):
    model = load_model(str(tiny(data.draw(st.sampled_from(FAMILIES)), max_position_embeddings=80)), "cpu")
    some = st.lists(st.integers(-4, 3), min_size=1, max_size=5)
    layers, heads = data.draw(some, label="layers"), data.draw(some, label="heads")
    pair = data.draw(st.none() | st.just("it is far"), label="pair")
    every = model.attend("the cat sat", pair, mask=mask, pad_to=35)
    record = model.attend("the cat sat", pair, layers, heads, mask, pad_to=35)
    assert record.layers == list(dict.fromkeys(number % 4 for number in layers))
    assert record.heads == list(dict.fromkeys(number % 4 for number in heads))
    np.testing.assert_allclose(record.weights, every.weights[np.ix_(record.layers, record.heads)], atol=1e-5)
    assert record.weights.dtype == np.float32 and record.tokens == every.tokens


@given(lengths=st.lists(st.integers(1, 12), min_size=1, max_size=12))
@settings(max_examples=20)
@pytest.mark.parametrize("mask", ["padding", "causal"])
def test_many_texts_are_each_text(mask, lengths, tiny):
    """Whatever goes through the network together: the same records, in their order."""
    model = load_model(str(tiny("bert")), "cpu")
    texts = [" ".join(["the", "cat", "sat", "on"][number % 4] for number in range(length)) for length in lengths]
    pairs = [None if length % 3 else "it" for length in lengths]
    records = list(model.attend_many(iter(texts), iter(pairs), mask=mask))
    assert len(records) == len(texts)
    for text, pair, record in zip(texts, pairs, records, strict=True):
        alone = model.attend(text, pair, mask=mask)
        assert record.tokens == alone.tokens
        np.testing.assert_allclose(record.weights, alone.weights, atol=1e-5)
        assert (record.mask == alone.mask).all()


def test_records_come_as_they_are_ready(tiny):
    """A corpus is not read to its end before the first record is there."""
    model = load_model(str(tiny("bert")), "cpu")

    def corpus():
        yield "the cat"
        yield "the cat sat"
        raise AssertionError("read too far")

    assert next(model.attend_many(corpus())).tokens.text == ["[CLS]", "the", "cat", "[SEP]"]


def test_texts_and_pairs_of_different_number(tiny):
    model = load_model(str(tiny("bert")), "cpu")
    with pytest.raises(ValueError, match="shorter"):
        list(model.attend_many(["the", "cat"], ["it"]))


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ({"text": ""}, "empty"),
        ({"text": " \n\t "}, "empty"),
        ({"text": "\x00\x01"}, "nothing"),
        ({"text": "a\ud800"}, "UTF-8 at character 1"),
        ({"pair": ""}, "empty"),
        ({"layers": 6}, "layer 6 .*0 to 5"),
        ({"layers": -7}, "layer -7 .*0 to 5"),
        ({"heads": "12"}, "head 12 .*0 to 11"),
        ({"heads": "x"}, "head 'x' .*0 to 11"),
        ({"heads": []}, "no head"),
        ({"mask": "future"}, "'future'.*padding, causal, none"),
        ({"pad_to": 3}, "pad to 3.*16"),
        ({"pad_to": 513}, "pad to 513.*512"),
        ({"pad_to": -1}, "pad to -1"),
    ],
)
def test_a_request_that_cannot_be_met(request_, says, minilm):
    with pytest.raises(RequestError, match=says) as caught:
        minilm.attend(**{"text": TEXT, **request_})
    assert "\n" not in str(caught.value)


def test_a_long_text_is_cut_with_a_notice(minilm):
    with pytest.warns(Notice, match=r"^kept the first 512 of 803 tokens$"):
        record = minilm.attend("word " * 801, layers=0, heads=0)
    assert len(record.tokens) == 512 and record.tokens.text[-1] == "[SEP]"


# --- queries and keys -----------------------------------------------------------------------------------


def maps_again(record) -> list[np.ndarray]:
    """softmax(q k^T / sqrt(head_dim)) over the allowed keys, for every head whose vectors are there."""
    maps = []
    for layer, head in record.vectors.heads:
        query, key = (part.astype(np.float64) for part in record.vectors.of(layer, head))
        scores = np.where(record.mask, query @ key.T / np.sqrt(query.shape[-1]), -np.inf)
        exponents = np.exp(scores - scores.max(axis=-1, keepdims=True))
        maps.append(exponents / exponents.sum(axis=-1, keepdims=True))
    return maps


def vectors_make_the_maps(record, near: float = 1e-5) -> None:
    maps = [record.map(layer, head) for layer, head in record.vectors.heads]
    np.testing.assert_allclose(maps, maps_again(record), atol=near)


@pytest.mark.parametrize("mask", ["padding", "causal", "none"])
def test_queries_and_keys_make_the_maps(mask, minilm):
    every = minilm.attend(TEXT, OTHER, mask=mask, pad_to=40, vectors="all")
    assert every.vectors.heads == [(layer, head) for layer in range(6) for head in range(12)]
    assert every.vectors.query.shape == every.vectors.key.shape == (72, 40, 32)
    assert every.vectors.query.dtype == every.vectors.key.dtype == np.float32
    vectors_make_the_maps(every)
    some = minilm.attend(TEXT, OTHER, [1, 4], [2, 0, 7], mask, 40, vectors="4.7,1.2,-2.0")
    assert some.vectors.heads == [(4, 7), (1, 2), (4, 0)]
    for layer, head in some.vectors.heads:
        np.testing.assert_allclose(some.vectors.of(layer, head), every.vectors.of(layer, head), atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data())
@settings(max_examples=15)
def test_queries_and_keys_make_the_maps_of_every_family(family, data, tiny):
    """Whatever is kept, of each of several texts that go through the network together."""
    model = load_model(str(tiny(family)), "cpu")
    layers, heads = (
        data.draw(st.lists(st.integers(0, 3), min_size=1, unique=True), label=what) for what in ("layers", "heads")
    )
    pairs = [(layer, head) for layer in layers for head in heads]
    vectors = data.draw(st.lists(st.sampled_from(pairs), min_size=1, unique=True), label="vectors")
    mask = data.draw(st.sampled_from(["padding", "causal", "none"]), label="mask")
    texts = ["the cat sat", "on the cat", "it is big", "the big cat sat on it"]
    for record in model.attend_many(texts, None, layers, heads, mask, pad_to=30, vectors=vectors):
        assert record.vectors.heads == vectors
        vectors_make_the_maps(record)


def test_keeping_queries_and_keys_changes_nothing_else(minilm):
    plain = minilm.attend(TEXT, layers=[0, 2], heads=[3, 1])
    for vectors in (None, "none", []):
        assert minilm.attend(TEXT, layers=[0, 2], heads=[3, 1], vectors=vectors).vectors is None
    kept = minilm.attend(TEXT, layers=[0, 2], heads=[3, 1], vectors="all")
    assert kept.vectors.heads == [(0, 3), (0, 1), (2, 3), (2, 1)]
    assert np.array_equal(kept.weights, plain.weights)


@pytest.mark.parametrize(("dtype", "near"), [("float64", 1e-6), ("float16", 0.01), ("bfloat16", 0.05)])
def test_queries_and_keys_in_other_dtypes(dtype, near, minilm):
    """Half precision rounds the scores on their way to the maps: what the vectors give is near, not the same."""
    record = load_model("minilm", "cpu", dtype).attend(TEXT, vectors="0.all,5.3")
    assert record.vectors.query.dtype == record.vectors.key.dtype == np.float32
    vectors_make_the_maps(record, near)


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ({"vectors": "4.12"}, "head 12 .*0 to 11"),
        ({"vectors": "6.0"}, "layer 6 .*0 to 5"),
        ({"vectors": "4"}, "'4' is no LAYER.HEAD"),
        ({"vectors": "4.7", "layers": "0-3"}, r"head 4\.7 is not kept \(layers 0-3, heads 0-11\).*-l and -H"),
        ({"vectors": [(4, 7)], "heads": 6}, r"head 4\.7 is not kept \(layers 0-5, heads 6\).*-l and -H"),
    ],
)
def test_vectors_that_cannot_be_had(request_, says, minilm):
    with pytest.raises(RequestError, match=says):
        minilm.attend(TEXT, **request_)


# --- how it is computed ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "near"), [("float64", 1e-5), ("float16", 0.02), ("bfloat16", 0.15)])
def test_dtypes(dtype, near, minilm):
    record = load_model("minilm", "cpu", dtype).attend(TEXT)
    expected = minilm.attend(TEXT).weights
    assert record.weights.dtype == np.float32
    np.testing.assert_allclose(record.weights, expected, atol=near)
    assert not (record.weights == expected).all()


def test_an_unknown_device_or_dtype_is_said_before_anything_is_fetched():
    with pytest.raises(RequestError, match=r"no dtype 'float8'.*float32"):
        load_model("bert-large", "cpu", "float8")
    with pytest.raises(RequestError, match=r"no device 'tpu'.*auto, cpu"):
        load_model("bert-large", "tpu")


def test_devices():
    assert pick_device("cpu") == torch.device("cpu")
    there = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    assert pick_device("auto").type == there
    for missing in ("cuda:99", "mps:7"):
        with pytest.raises(RequestError, match="not on this machine"):
            pick_device(missing)
    for wrong in ("", "gpu", "cpu:x", "cuda:"):
        with pytest.raises(RequestError, match="no device"):
            pick_device(wrong)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("mask", ["padding", "causal", "none"])
def test_a_gpu_gives_the_same(mask, minilm):
    model = load_model("minilm", "cuda")
    assert model.device.type == "cuda"
    for heads in ("all", "3", "5,1"):
        record = model.attend(TEXT, OTHER, heads=heads, mask=mask, pad_to=40)
        expected = minilm.attend(TEXT, OTHER, heads=heads, mask=mask, pad_to=40)
        np.testing.assert_allclose(record.weights, expected.weights, atol=1e-4)
    record = model.attend(TEXT, OTHER, mask=mask, pad_to=40, vectors="all")
    vectors_make_the_maps(record)


def test_scores_too_large_for_the_dtype_are_said(tmp_path):
    """Finite weights can still overflow on the way: what comes out must not pass for attention."""
    network = make_network(make_config("bert"))
    with torch.no_grad():
        network.encoder.layer[1].attention.self.query.weight.fill_(3e38)
    directory = make_checkpoint(tmp_path)
    network.save_pretrained(directory)
    model = load_model(str(directory), "cpu")
    assert np.isfinite(model.attend("the cat", layers=0).weights).all()
    with pytest.raises(RequestError, match=r"layer 1, head 2 .*too large for float32.*--dtype"):
        model.attend("the cat", layers="0-1", heads=2)


def test_a_key_too_large_for_the_dtype_is_said_where_the_mask_hides_it(tmp_path):
    """Queries of 0 make every score 0, whatever the keys are: only [PAD]'s is too large, and nobody looks there."""
    network = make_network(make_config("bert"))
    with torch.no_grad():
        embeddings, attention = network.embeddings, network.encoder.layer[0].attention.self
        embeddings.LayerNorm.weight.fill_(1)
        embeddings.LayerNorm.bias.zero_()
        embeddings.word_embeddings.weight[:, 0] = 0
        embeddings.word_embeddings.weight[0, 0] = 1000  # [PAD]: sqrt(32) after the norm, where others are small
        attention.query.weight.zero_()
        attention.query.bias.zero_()
        attention.key.weight[17].zero_()
        attention.key.weight[17, 0] = 8e37
    directory = make_checkpoint(tmp_path)
    network.save_pretrained(directory)
    model = load_model(str(directory), "cpu")
    assert np.isfinite(model.attend("the cat", layers=0, vectors="all").vectors.key).all()
    assert np.isfinite(model.attend("the cat", layers=0, pad_to=9).weights).all()
    with pytest.raises(RequestError, match=r"layer 0, head 2 .*queries or keys too large for float32.*--dtype"):
        model.attend("the cat", layers=0, pad_to=9, vectors="all")
    assert model.attend("the cat", layers=0, pad_to=9, vectors="0.1,0.3").vectors.heads == [(0, 1), (0, 3)]


def test_loading_and_attending_say_nothing(tiny, capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_model(str(tiny("bert"))).attend("the cat")
    assert capfd.readouterr() == ("", "")
