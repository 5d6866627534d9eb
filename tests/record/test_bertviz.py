"""Check the one-line calls that BertViz's notebooks make: the arguments of its three functions.

github.com/jessevig/bertviz, notebooks head_view_*.ipynb, model_view_*.ipynb and neuron_view_*.ipynb: there the models
are bert-base-uncased, gpt2 and Helsinki-NLP/opus-mt-en-de; here small ones of such families. (Where the notebooks take
`outputs[-1]`, transformers 5 has something else there: `outputs.attentions`.)
"""

import numpy as np
import pytest
import torch
from packed import page_data

import attncli
from attncli.page import page

A, B = "The cat sat on the mat", "the cat on a mat"


def content_of(document):
    """Return the content of a page, and the view in which it opens."""
    found = page_data(document)
    return found, found["start"]["view"]


@pytest.fixture(scope="module")
def bert(tiny):
    """A model and a tokenizer loaded as BertViz's notebooks load them, with `output_attentions=True`."""
    import transformers

    place = tiny("bert")
    network = transformers.BertModel.from_pretrained(place, attn_implementation="eager", output_attentions=True)
    return place, network, transformers.BertTokenizer.from_pretrained(place)


def bert_inputs(bert):
    """attention, tokens, sentence_b_start: what head_view_bert.ipynb and model_view_bert.ipynb make."""
    _, network, tokenizer = bert
    inputs = tokenizer(A, B, return_tensors="pt")  # encode_plus, before transformers 5
    attention = network(inputs["input_ids"], token_type_ids=inputs["token_type_ids"]).attentions
    sentence_b_start = inputs["token_type_ids"][0].tolist().index(1)
    return attention, tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist()), sentence_b_start


@pytest.mark.parametrize("view", ["heads", "model"])
def test_head_view_and_model_view_of_two_sentences(bert, view):
    """head_view(attention, tokens, sentence_b_start), model_view(attention, tokens, sentence_b_start)"""
    attention, tokens, sentence_b_start = bert_inputs(bert)
    document = attncli.record_of(attention, tokens, segments=sentence_b_start).page(view=view)
    found, opens = content_of(document)
    [text] = found["texts"]
    assert opens == view and text["tokens"] == tokens
    assert text["segments"] == [0] * sentence_b_start + [1] * (len(tokens) - sentence_b_start)
    assert (len(found["layers"]), len(found["heads"])) == (len(attention), attention[0].shape[1])


@pytest.mark.parametrize("view", ["heads", "model"])
def test_head_view_and_model_view_of_a_decoder(view, tmp_path):
    """head_view(attention, tokens) of GPT-2"""
    import transformers
    from foreign_checkpoints import make_foreign

    make_foreign(tmp_path, "gpt2")
    network = transformers.GPT2Model.from_pretrained(tmp_path, attn_implementation="eager", output_attentions=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    inputs = tokenizer(A, return_tensors="pt")["input_ids"]
    attention, tokens = network(inputs).attentions, tokenizer.convert_ids_to_tokens(inputs[0])
    record = attncli.record_of(attention, tokens)
    assert (record.kind, record.mask_name) == ("decoder", "causal")
    assert content_of(record.page(view=view))[1] == view


@pytest.mark.parametrize("view", ["heads", "model"])
def test_head_view_and_model_view_of_an_encoder_decoder(view, tmp_path):
    """head_view(encoder_attention=, decoder_attention=, cross_attention=, encoder_tokens=, decoder_tokens=)"""
    import transformers
    from foreign_checkpoints import make_foreign

    make_foreign(tmp_path, "t5")
    network = transformers.AutoModel.from_pretrained(tmp_path, attn_implementation="eager", output_attentions=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    read = tokenizer(A.lower(), return_tensors="pt", add_special_tokens=True).input_ids
    written = tokenizer(B, return_tensors="pt", add_special_tokens=True).input_ids
    outputs = network(input_ids=read, decoder_input_ids=written)
    encoder_tokens = tokenizer.convert_ids_to_tokens(read[0])
    decoder_tokens = tokenizer.convert_ids_to_tokens(written[0])

    cross = attncli.record_of(outputs.cross_attentions, decoder_tokens, encoder_tokens)
    encoder, decoder, same_cross = attncli.records_of(outputs, encoder_tokens, decoder_tokens)
    np.testing.assert_array_equal(cross.weights, same_cross.weights)
    assert [one.kind for one in (encoder, decoder, cross)] == ["encoder", "decoder", "cross"]
    for record in (encoder, decoder, cross):
        found, opens = content_of(record.page(view=view))
        assert opens == view and found["texts"][0]["attention"] == record.kind
    assert len(content_of(page([decoder, cross]))[0]["texts"]) == 2  # in one page, with a menu


def test_neuron_view(bert):
    """neuron_view(model, "bert", tokenizer, sentence_a, sentence_b, layer=1, head=2)"""
    document = (
        attncli.load_model(str(bert[0]), "cpu").attend(A, B, vectors="1.2").page(view="neuron", layers=1, heads=2)
    )
    found, opens = content_of(document)
    assert opens == "neuron" and found["texts"][0]["masks"][0]["vectors"]["heads"] == [[1, 2]]


def test_neuron_view_of_vectors_that_somebody_else_took(bert):
    """Queries and keys from hooks on transformers' own layers."""
    _, network, tokenizer = bert
    taken = {}
    for number, layer in enumerate(network.encoder.layer):
        for name in ("query", "key"):
            getattr(layer.attention.self, name).register_forward_hook(
                lambda _, __, made, place=(name, number): taken.update({place: made[0]})
            )
    inputs = tokenizer(A, B, return_tensors="pt")
    outputs = network(**inputs)
    heads = network.config.num_attention_heads
    query, key = (
        torch.stack([taken[name, number] for number in range(len(outputs.attentions))])
        .unflatten(-1, (heads, -1))  # [layer, token, head, head_dim]
        .transpose(1, 2)
        for name in ("query", "key")
    )
    record = attncli.record_of(outputs.attentions, inputs, vectors=(query, key))
    scores = query.double() @ key.double().mT / query.shape[-1] ** 0.5
    np.testing.assert_allclose(scores.softmax(-1).detach().numpy(), record.weights, atol=1e-5)
    assert content_of(record.page(view="neuron"))[0]["texts"][0]["masks"][0]["vectors"]["heads"] == [
        list(pair) for pair in record.vectors.heads
    ]
