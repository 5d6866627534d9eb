"""Rows of some queries equal those of full maps and of transformers, and take no memory that a map would take."""

import sys

import numpy as np
import pytest
import torch
import transformers
from checkpoints import EVERY
from foreign_checkpoints import ANSWER
from foreign_checkpoints import TEXT as FOREIGN_TEXT
from measuring import peak_added

from attncli import load_model
from attncli.attention import Window
from attncli.base.errors import RequestError
from attncli.models import engine, weighing
from attncli.models.rows import LayerMask
from attncli.models.taps import KeptMaps
from attncli.record import Request
from attncli.record.selection import Grouping, name_of

TEXT = "the cat sat on the big cat"
ROWS = Grouping(queries="LAST,3,the")


@pytest.mark.parametrize("pad_to", [None, 38])
@pytest.mark.parametrize("family", EVERY)
def test_they_are_those_of_full_maps(tiny, family, pad_to):
    model = load_model(str(tiny(family)), device="cpu", engine="attncli")
    for request in ({"vectors": "all"}, {"mask": "none"}, {"mask": "causal"}, {"measure": "norm"}, {"layers": -1}):
        full, some = (model.attend(TEXT, pad_to=pad_to, grouping=one, **request) for one in (Grouping(), ROWS))
        assert 3 in some.rows and full.tokens.real[-1] in some.rows and some.key_tokens == full.tokens
        assert some.tokens == full.tokens.take(some.rows) and len(some.rows) >= 3
        np.testing.assert_allclose(some.weights, full.weights[:, :, some.rows], rtol=2e-4, atol=2e-5)
        assert np.array_equal(some.masks, full.masks[:, some.rows])
        if request == {"vectors": "all"}:
            np.testing.assert_allclose(some.vectors.query, full.vectors.query[:, some.rows], rtol=1e-3, atol=1e-4)
            assert some.vectors.key.shape == full.vectors.key.shape
            terms = some.vectors.terms, full.vectors.terms
            assert all(np.allclose(terms[0][name], terms[1][name][:, some.rows], atol=1e-4) for name in terms[1])


@pytest.mark.parametrize("family", ["llama", "mistral", "gpt2", "bert", "modernbert"])
def test_they_are_those_of_transformers(tiny, family):
    """Causal decoders, with a sliding window and without, and encoders with [PAD] and with windows."""
    pad_to = 36 if "bert" in family else None
    record = load_model(str(tiny(family)), device="cpu").attend(TEXT, pad_to=pad_to, grouping=ROWS)
    network = transformers.AutoModel.from_pretrained(str(tiny(family)), attn_implementation="eager").eval()
    ids, seen = torch.tensor([record.keys.ids]), ~torch.tensor([record.keys.padding])
    with torch.inference_mode():
        theirs = torch.cat(network(input_ids=ids, attention_mask=seen.long(), output_attentions=True).attentions)
    assert not bool(seen.all()) or pad_to is None
    np.testing.assert_allclose(record.weights, theirs[:, :, record.rows].numpy(), atol=1e-5)


@pytest.mark.parametrize(
    ("family", "request_"),
    [
        ("opt", {}),
        ("gpt_neo", {}),
        ("gpt_oss", {}),
        ("t5", {"which": "encoder"}),
        ("t5", {"which": "decoder", "target": ANSWER}),
        ("t5", {"which": "cross", "target": ANSWER}),
    ],
)
def test_they_are_those_of_networks_that_transformers_runs(foreign, family, request_):
    model = foreign(family)
    full = model.attend(FOREIGN_TEXT, **request_)
    name = name_of(2, full.tokens)
    some = model.attend(FOREIGN_TEXT, grouping=Grouping(queries=f"{name},LAST"), **request_)
    places = [2, len(full.tokens) - 1]
    np.testing.assert_allclose(some.weights, full.weights[:, :, places], atol=1e-5)
    assert np.array_equal(some.masks, full.masks[:, places]) and some.tokens == full.tokens.take(places)
    assert some.keys == full.keys and some.rows == (None if some.kind == "cross" else places)


def test_weights_of_no_other_row_are_computed(tiny, monkeypatch):
    """Nor outputs in the last layer, which nobody needs. Each layer before it has the outputs of all rows once."""
    model, seen, outputs = load_model(str(tiny("llama")), device="cpu", engine="attncli"), [], []
    attend_into, fused = weighing.attend_into, weighing.F.scaled_dot_product_attention
    monkeypatch.setattr(
        weighing, "attend_into", lambda room, *rest: seen.append(room.shape) or attend_into(room, *rest)
    )
    monkeypatch.setattr(
        weighing.F,
        "scaled_dot_product_attention",
        lambda *q, **more: outputs.append(q[0].shape[2]) or fused(*q, **more),
    )
    record = model.attend(TEXT, grouping=Grouping(queries="-1,0"))
    tokens = len(record.keys)
    assert seen == [(1, 4, 1, tokens)] * 2 * model.layers and outputs == [tokens] * (model.layers - 1)


def test_a_tap_that_needs_all_rows_gets_them(tiny):
    """Besides, each row of `GroupedMaps` is counted once."""
    model = load_model(str(tiny("modernbert")), device="cpu", engine="attncli")
    tokens = model.tokenizer.encode(TEXT)
    kept = KeptMaps(model.rows([tokens], None).runs, [0, 1, 2, 3], [0, 1, 2, 3], torch.empty)
    [some] = model.attend_tokens([tokens], Request(grouping=ROWS), [kept])
    np.testing.assert_array_equal(some.weights, kept.kept[0][0][:, :, some.rows].numpy())


@pytest.mark.parametrize("shown", [None, torch.tensor([True] * 7 + [False] * 2).view(1, 1, 1, 9)])
@pytest.mark.parametrize("window", [None, Window(2)])
def test_a_mask_that_is_never_there_as_a_whole_has_the_same_parts(shown, window):
    every = slice(0, 9)
    mask = LayerMask(shown, window, causal=True)
    whole = torch.ones(9, 9, dtype=torch.bool).tril()[None, None]
    whole = whole if shown is None else whole & shown
    whole = whole if window is None else whole & (torch.arange(9)[:, None] - torch.arange(9) <= 2)
    assert torch.equal(mask.of(every, every), whole)
    for queries, keys in ((slice(3, 5), every), (slice(8, 9), slice(2, 9)), (slice(0, 4), slice(0, 4))):
        assert torch.equal(mask.of(queries, keys), whole[:, :, queries, keys])
        assert torch.equal(mask.hiding(~whole).of(queries, keys), whole[:, :, queries, keys] & False)


def test_a_masked_output_is_the_same_in_steps(tiny, monkeypatch):
    """And that of the text without [PAD] before it."""
    model = load_model(str(tiny("llama")), device="cpu", engine="attncli")
    tokens = model.tokenizer.encode(TEXT, pad_to=38)
    [whole] = model.last_hidden([tokens])
    monkeypatch.setattr(weighing, "MASKED", 100)
    [in_steps] = model.last_hidden([tokens])
    torch.testing.assert_close(in_steps, whole)
    [alone] = model.last_hidden([model.tokenizer.encode(TEXT)])
    torch.testing.assert_close(whole[tokens.first :], alone, rtol=1e-3, atol=1e-5)


def test_memory_is_asked_for_the_rows(tiny, monkeypatch):
    model = load_model(str(tiny()), device="cpu")
    tokens = len(model.tokenizer.encode(TEXT))
    monkeypatch.setattr(engine, "SMALL", 0)
    monkeypatch.setattr(engine, "available", lambda: engine.record_bytes(tokens, model.layers, model.heads))
    model.attend(TEXT, grouping=Grouping(queries="LAST"))
    with pytest.raises(RequestError, match=f"^16 maps of 2 x {tokens} tokens take"):
        model.attend(TEXT, grouping=Grouping(queries="0-1"))


def test_a_network_of_transformers_says_that_its_masks_are_too_large(foreign, monkeypatch):
    monkeypatch.setattr(engine, "SMALL", 0)
    monkeypatch.setattr(engine, "available", lambda: 100)
    with pytest.raises(RequestError, match=r"builds masks of all queries and keys; request a shorter text$"):
        foreign("opt").attend(FOREIGN_TEXT, layers=0, heads=0, grouping=Grouping(queries="LAST"))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="measured on Linux only")
@pytest.mark.parametrize(
    ("family", "pad_to"), [("llama", None), ("llama", 4096), ("mistral", None), ("bert", 4096), ("modernbert", None)]
)
def test_memory_grows_with_the_length(tiny, family, pad_to):
    """4,000 tokens: a map has 64 MB, its mask 16; the last rows of all 16 maps have 0.3 MB. Where [PAD] stands before a
    text, the fused kernel needs a mask of the future, of at most MASKED cells.
    """
    model = load_model(str(tiny(family, max_position_embeddings=4096)), device="cpu", engine="attncli")
    tokens = model.tokenizer.encode("cat " * 3998).take(range(4000))
    tokens = tokens if pad_to is None else model.tokenizer.pad(tokens, pad_to)
    request = Request(grouping=Grouping(queries="LAST"))
    added = min(peak_added(lambda: next(model.attend_tokens([tokens], request)), torch.device("cpu")) for _ in range(4))
    assert added < (130 if family == "llama" and pad_to else 45) * 2**20, f"{added / 2**20:.0f} MiB"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="measured on Linux only")
def test_the_rows_of_32000_tokens_take_less_than_a_gigabyte_and_a_fifth(tiny):
    changes = {"max_position_embeddings": 32768, "hidden_size": 64, "head_dim": 16}
    model = load_model(str(tiny("llama", **changes)), device="cpu", engine="attncli")
    tokens = model.tokenizer.encode("the cat " * 16000).take(range(32000))
    model.need(model.layers)
    request = Request(grouping=Grouping(queries="LAST"), predict=True)
    made = []
    added = peak_added(lambda: made.extend(model.attend_tokens([tokens], request)), torch.device("cpu"))
    assert made[0].weights.shape == (4, 4, 1, 32000) and np.allclose(made[0].weights.sum(-1), 1, atol=1e-4)
    assert added < 0.5e9, f"{added / 1e9:.2f} GB"
