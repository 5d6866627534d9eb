"""Check the one-line calls that BertViz's notebooks make: the arguments of its three functions.

github.com/jessevig/bertviz, notebooks head_view_*.ipynb, model_view_*.ipynb and neuron_view_*.ipynb: there the models
are bert-base-uncased, gpt2 and Helsinki-NLP/opus-mt-en-de; here small ones of such families. (Where the notebooks take
`outputs[-1]`, transformers 5 has something else there: `outputs.attentions`.)
"""

import pytest
from packed import page_data

import attncli

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


def test_neuron_view(bert):
    """neuron_view(model, "bert", tokenizer, sentence_a, sentence_b, layer=1, head=2)"""
    document = (
        attncli.load_model(str(bert[0]), "cpu").attend(A, B, vectors="1.2").page(view="neuron", layers=1, heads=2)
    )
    found, opens = content_of(document)
    assert opens == "neuron" and found["texts"][0]["masks"][0]["vectors"]["heads"] == [[1, 2]]
