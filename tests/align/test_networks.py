"""The recurrent networks and the Transformer: masks, order of writing, and what their attention is."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli.align import checkpoint
from attncli.align.characters import PAD, START, sources
from attncli.align.checkpoint import build
from attncli.base import choices

ATTENTIONS = choices.names(choices.AttentionName)
SMALL = {"d_embedding": 5, "d_hidden": 8}
SIZES = dict.fromkeys(ATTENTIONS, SMALL) | {"transformer": {"d_model": 8, "heads": 2, "layers": 2}}
TEXTS = ["3 March 2021", "2021年3月3日", "Wednesday, the 3rd of March 2021", "3.3.2021"]

every_kind = pytest.mark.parametrize("attention", ATTENTIONS)
recurrent_kinds = pytest.mark.parametrize("attention", ATTENTIONS[:-1])


def network_of(attention, seed=0):
    return build(attention, seed).double()


def previous_outputs(texts, length=6, seed=0):
    """START and some characters, different for each text."""
    symbols = torch.randint(4, 15, (texts, length), generator=torch.Generator().manual_seed(seed))
    symbols[:, 0] = START
    return symbols


@pytest.fixture(autouse=True)
def small(monkeypatch):
    for attention, sizes in SIZES.items():
        monkeypatch.setitem(checkpoint.SIZES, attention, sizes)


@pytest.fixture(autouse=True)
def double_precision():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@every_kind
def test_a_text_in_a_batch_is_decoded_as_if_it_were_alone(attention):
    network, previous = network_of(attention), previous_outputs(len(TEXTS))
    together = network(sources(TEXTS), previous)
    for number, text in enumerate(TEXTS):
        alone = network(sources([text]), previous[number : number + 1])
        torch.testing.assert_close(together.logits[number], alone.logits[0])
        for kind, weights in alone.maps.items():
            size = weights.shape[-2:]
            torch.testing.assert_close(together.maps[kind][number, ..., : size[0], : size[1]], weights[0])


@every_kind
def test_weights_sum_to_1_and_none_is_on_padding(attention):
    network, texts = network_of(attention), sources(TEXTS)
    decoded = network(texts, previous_outputs(len(TEXTS)))
    for weights in decoded.maps.values():
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    padding, cross = (texts == PAD)[:, None, None, None, :], decoded.maps["cross"]
    assert not (cross * padding).any() and (cross.masked_select(~padding) > 0).all()


@every_kind
@given(data=st.data())
@settings(max_examples=15)
def test_no_row_sees_what_is_written_after_it(attention, data):
    network = network_of(attention)
    texts, previous = sources(TEXTS[:2]), previous_outputs(2)
    place = data.draw(st.integers(1, previous.shape[1] - 1))
    changed = previous.clone()
    changed[:, place] = data.draw(st.integers(4, 14).filter(lambda symbol: symbol not in previous[:, place]))
    before, after = network(texts, previous).logits, network(texts, changed).logits
    torch.testing.assert_close(before[:, :place], after[:, :place])
    assert not torch.allclose(before[:, place:], after[:, place:])


@recurrent_kinds
def test_recurrent_networks_are_the_papers_formulas_written_as_loops(attention):
    """One text, every element of every equation by hand; gates after torch's own documentation of GRU."""
    network = network_of(attention)
    encoder, decoder = network.encoder, network.decoder
    text = sources(["3.3.21"])
    previous = previous_outputs(1, length=4)
    decoded = network(text, previous)

    x = encoder.embedding.weight[text[0]]
    forward, backward = gru(encoder.gru, x, torch.zeros(4)), gru(encoder.gru, x.flip(0), torch.zeros(4), "_reverse")
    h = torch.cat([forward, backward.flip(0)], dim=-1)
    y = decoder.embedding.weight[previous[0]]
    if attention == "additive":
        state = torch.tanh(decoder.first_state(backward[-1]))
    else:
        state = torch.tanh(decoder.first_state(torch.cat([forward[-1], backward[-1]])))
    for i in range(4):
        if attention != "additive":
            state = gru(decoder.gru, y[i : i + 1], state)[0]
        weights = torch.stack([energy(decoder.score, attention, state, h_j) for h_j in h]).softmax(0)
        context = sum(weight * h_j for weight, h_j in zip(weights, h, strict=True))
        if attention == "additive":
            state = decoder.cell(torch.cat([y[i], context]), state)
            logits = decoder.output(torch.cat([state, y[i], context]))
        else:
            logits = decoder.output(torch.tanh(decoder.combine(torch.cat([context, state]))))
        torch.testing.assert_close(decoded.maps["cross"][0, 0, 0, i], weights)
        torch.testing.assert_close(decoded.logits[0, i], logits)


def gru(layer, x, state, direction=""):
    """n = tanh(W x + r * (U h)), h' = (1 - z) n + z h: every state, `[token, d_hidden]`."""
    w, u, b, c = (getattr(layer, f"{name}_l0{direction}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    states = []
    for x_t in x:
        (xr, xz, xn), (hr, hz, hn) = (w @ x_t + b).chunk(3), (u @ state + c).chunk(3)
        z = torch.sigmoid(xz + hz)
        state = (1 - z) * torch.tanh(xn + torch.sigmoid(xr + hr) * hn) + z * state
        states.append(state)
    return torch.stack(states)


def energy(score, attention, s, h_j):
    """a(s, h_j), as the papers write it."""
    match attention:
        case "additive":
            return score.energy.weight[0] @ torch.tanh(score.query.weight @ s + score.key.weight @ h_j)
        case "dot":
            return s @ h_j
        case "general":
            return s @ score.weight @ h_j
    return score.energy.weight[0] @ torch.tanh(score.hidden.weight @ torch.cat([s, h_j]))
