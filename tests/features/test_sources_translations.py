"""Sources of what encoder-decoders write, against transformers with edited masks, in float64."""

import numpy as np
import pytest
import torch
from foreign_checkpoints import make_foreign
from transformers import AutoModelForSeq2SeqLM

from attncli import RequestError, load_model, sources
from attncli.effects.answer import EncodedPrompt

PROMPT = '<doc id="1"> the cat sat </doc> <doc id="2"> on a mat </doc> in the mat'
IDS = [5, 4, 7]


@pytest.fixture(scope="module", params=["t5", "bart", "marian", "encoder-decoder"])
def both(request, tmp_path_factory):
    """A model, and its network in transformers."""
    path = make_foreign(tmp_path_factory.mktemp(request.param), request.param)
    theirs = AutoModelForSeq2SeqLM.from_pretrained(path, dtype=torch.float64, attn_implementation="eager").eval()
    return load_model(str(path), device="cpu", dtype="float64"), theirs


def by_transformers(network, read, ids, hidden=()):
    """Return log-probabilities of ids and the cross-attention `[layer, head, row, key]` where tokens are hidden.

    The encoder's mask is 4-D: a hidden token still sees itself.
    """
    shown = torch.tensor([[place not in hidden for place in range(len(read))]])
    every = (shown[:, None] | torch.eye(len(read), dtype=torch.bool))[:, None]
    mask = torch.zeros(every.shape, dtype=torch.float64).masked_fill(~every, torch.finfo(torch.float64).min)
    start = network.config.decoder_start_token_id
    with torch.inference_mode():
        encoded = network.get_encoder()(torch.tensor([read]), attention_mask=mask)
        made = network(
            encoder_outputs=encoded,
            attention_mask=shown.long(),
            decoder_input_ids=torch.tensor([[start, *ids[:-1]]]),
            output_attentions=True,
            use_cache=False,
        )
    found = made.logits[0].log_softmax(dim=-1)[range(len(ids)), ids]
    return found.numpy(), torch.stack(made.cross_attentions)[:, 0].numpy()


def test_effects_and_shares_are_those_of_transformers(both):
    model, theirs = both
    asked = EncodedPrompt(model, model.tokenizer.encode("the cat sat on a mat in the mat"), IDS)
    read = asked.prompt.ids
    plain, maps = by_transformers(theirs, read, IDS)
    np.testing.assert_allclose(asked.plain, plain, atol=1e-9)
    for start in range(len(read) - 3):
        hidden = {start, start + 2} if start % 2 else {start, start + 1}
        expected, _ = by_transformers(theirs, read, IDS, hidden)
        np.testing.assert_allclose(asked.without(sorted(hidden)), expected, atol=1e-9)
        assert np.abs(expected - plain).max() > 1e-3
    units = np.zeros((len(read), 2))
    units[1:3, 0] = units[2:, 1] = 1
    np.testing.assert_allclose(asked.weights_on(units), maps @ units, atol=1e-9)


def test_parts_of_the_encoder_s_text(both):
    model, theirs = both
    if theirs.config.model_type == "marian":
        with pytest.raises(RequestError, match="positions of these tokens in their text are unknown"):
            sources(model, PROMPT, answer="a cat")
        return
    found = sources(model, PROMPT, target="a cat", each="token", remove=True, draws=2)
    read = model.tokenizer.encode(found.prompt.text)
    texts = ["the cat sat", "on a mat", "in the mat"]
    assert [(one.name, one.text) for one in found.parts] == list(zip(["doc 1", "doc 2", "(rest)"], texts, strict=True))
    inside = sorted(place for one in found.parts for place in one.places)
    assert inside == [place for place, special in enumerate(read.special) if not special]
    wanted = model.fed.encode("a cat")
    ids = [one for one, special in zip(wanted.ids, wanted.special, strict=True) if not special]
    ids = wanted.ids[: wanted.ids.index(ids[-1]) + 1]
    plain, maps = by_transformers(theirs, read.ids, ids)
    assert found.value == pytest.approx(plain.mean(), abs=1e-9)
    for number, part in enumerate(found.parts):
        lost = plain - by_transformers(theirs, read.ids, ids, set(part.places))[0]
        np.testing.assert_allclose(found.effects[:, number], [lost.mean(), *lost], atol=1e-9)
        others = [one for place, one in enumerate(read.ids) if place not in part.places]
        assert found.removed[number] == pytest.approx(
            (plain - by_transformers(theirs, others, ids)[0]).mean(), abs=1e-9
        )
        share = maps[..., part.places].sum() / maps[..., inside].sum()
        assert found.shares[0, number] == pytest.approx(share, abs=1e-9)
        assert found.lengths[0, number] == pytest.approx(len(part.places) / len(inside))


def test_a_decoder_s_own_answer_is_measured(both):
    model, theirs = both
    if theirs.config.model_type == "marian":
        return
    found = sources(model, PROMPT, max_tokens=3, draws=0)
    assert len(found.answer[0].places) == 3
    with pytest.raises(RequestError, match="answer has no effect with --target"):
        sources(model, PROMPT, target="cat", answer="cat")
    with pytest.raises(RequestError, match="has no tokens"):
        sources(model, PROMPT, answer=" ")
    with pytest.raises(RequestError, match="similar_to has no effect with an encoder-decoder"):
        sources(model, PROMPT, similar_to="cat")
