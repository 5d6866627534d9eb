"""Batches as collators make them, right and wrong: each wrong one is named, and no right one is called wrong."""

import json
from functools import cache

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from attncli.base.errors import RequestError
from attncli.checks.behaviour.batch import BatchMask, check_batch, read_batch
from attncli.checks.behaviour.opening import randomize, small_config
from attncli.testing import assert_no_leak

PAD = 0
IDS = torch.randint(5, 90, (2, 12), generator=torch.Generator().manual_seed(3))
RIGHT_PAD, LEFT_PAD = IDS.clone(), IDS.clone()
RIGHT_PAD[0, 8:], LEFT_PAD[0, :4] = PAD, PAD
REAL, REAL_LEFT = (RIGHT_PAD != PAD).long(), (LEFT_PAD != PAD).long()
AGAIN = torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 0, 1, 2, 3, 4, 5, 0, 1, 2]])
DOCUMENT = torch.tensor([[0] * 5 + [1] * 7, [0] * 3 + [1] * 6 + [2] * 3])
LOWER = torch.ones(12, 12, dtype=torch.bool).tril()
APART = (DOCUMENT[:, None, :, None] == DOCUMENT[:, None, None, :]) & LOWER
LEAST = torch.finfo(torch.float32).min


def additive(allowed):
    return torch.where(allowed, 0.0, LEAST)


DECODERS, ENCODERS = ("llama", "gpt2", "qwen3"), ("bert", "roberta")
SAFE = {  # a batch, and the models that run it
    "one length": (DECODERS + ENCODERS, {"input_ids": IDS}),
    "padded on the right": (DECODERS + ENCODERS, {"input_ids": RIGHT_PAD, "attention_mask": REAL}),
    "padded on the left": (DECODERS + ENCODERS, {"input_ids": LEFT_PAD, "attention_mask": REAL_LEFT}),
    "a bool mask": (DECODERS, {"input_ids": RIGHT_PAD, "attention_mask": REAL.bool()}),
    "padded on the right without a mask": (DECODERS, {"input_ids": RIGHT_PAD}),
    "packed by positions": (DECODERS, {"input_ids": IDS, "position_ids": AGAIN}),
    "packed by a mask": (DECODERS, {"input_ids": IDS, "position_ids": AGAIN, "attention_mask": additive(APART)}),
    "packed by a bool mask": (("llama",), {"input_ids": IDS, "position_ids": AGAIN, "attention_mask": APART}),
    "packed, of named documents": (("llama",), {"input_ids": IDS, "position_ids": AGAIN, "seq_idx": DOCUMENT}),
    "with labels": (
        DECODERS,
        {"input_ids": RIGHT_PAD, "attention_mask": REAL, "labels": torch.where(REAL == 1, RIGHT_PAD, -100)},
    ),
    "labels of one token": (("llama",), {"input_ids": IDS * 0 + 7, "labels": IDS * 0 + 7}),
}
WRONG = {  # a batch, the models, and the laws that it breaks
    "left padding without a mask": (DECODERS, {"input_ids": LEFT_PAD}, {"padding", "attention weights"}),
    "a mask of ones over left padding": (
        DECODERS,
        {"input_ids": LEFT_PAD, "attention_mask": torch.ones_like(IDS)},
        {"attention_mask", "padding", "attention weights"},
    ),
    "an encoder without a mask": (ENCODERS, {"input_ids": RIGHT_PAD}, {"padding", "attention weights"}),
    "a mask the wrong way round": (DECODERS, {"input_ids": RIGHT_PAD, "attention_mask": 1 - REAL}, {"attention_mask"}),
    "a mask off by one": (
        DECODERS,
        {"input_ids": RIGHT_PAD, "attention_mask": REAL.roll(1, 1)},
        {"attention_mask"},
    ),
    "packed with a mask of ones": (
        DECODERS,
        {"input_ids": IDS, "position_ids": AGAIN, "attention_mask": torch.ones_like(IDS)},
        {"documents apart", "attention weights"},
    ),
    "packed, with one lower triangle": (
        DECODERS,
        {"input_ids": IDS, "position_ids": AGAIN, "attention_mask": additive(LOWER.expand(2, 1, 12, 12))},
        {"documents apart", "attention weights"},
    ),
    "packed, with the documents of the other row": (
        DECODERS,
        {"input_ids": IDS, "position_ids": AGAIN, "attention_mask": additive(APART.flip(0))},
        {"documents apart", "attention weights"},
    ),
    "packed, without a triangle": (
        DECODERS,
        {
            "input_ids": IDS,
            "position_ids": AGAIN,
            "attention_mask": additive(DOCUMENT[:, None, :, None] == DOCUMENT[:, None, None, :]),
        },
        {"look-ahead", "attention weights"},
    ),
    "a triangle that is one too wide": (
        ("llama",),
        {"input_ids": IDS, "attention_mask": additive(torch.ones(2, 1, 12, 12, dtype=torch.bool).tril(1))},
        {"look-ahead", "attention weights"},
    ),
    "first tokens that see each other": (
        ("llama",),
        {"input_ids": IDS, "attention_mask": additive((LOWER | (torch.arange(12) < 3)).expand(2, 1, 12, 12))},
        {"look-ahead", "attention weights"},
    ),
    "an additive mask of another sign": (
        DECODERS,
        {"input_ids": IDS, "attention_mask": -additive(LOWER.expand(2, 1, 12, 12)) / 1e36},
        {"look-ahead", "attention weights"},
    ),
    "a mask that is not low enough": (
        ("llama",),
        {"input_ids": IDS, "position_ids": AGAIN, "attention_mask": additive(APART).clamp(min=-3.0)},
        {"documents apart", "look-ahead", "attention weights"},
    ),
    "documents by cu_seqlens, which no kernel here reads": (
        ("llama",),
        {"input_ids": IDS[:1], "cu_seqlens": torch.tensor([0, 5, 12])},
        {"documents apart", "attention weights"},
    ),
    "documents by the numbers of the mask": (
        ("llama",),
        {"input_ids": IDS, "attention_mask": DOCUMENT + 1},
        {"documents apart", "attention weights"},
    ),
    "labels on [PAD]": (
        DECODERS,
        {"input_ids": RIGHT_PAD, "attention_mask": REAL, "labels": RIGHT_PAD},
        {"labels"},
    ),
    "labels that are shifted already": (
        DECODERS,
        {"input_ids": IDS, "labels": torch.cat([IDS[:, 1:], torch.full((2, 1), -100)], 1)},
        {"labels"},
    ),
}


@cache
def network(model_type):
    from transformers import AutoModel

    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = AutoModel.from_config(small_config(model_type, pad_token_id=PAD), attn_implementation="sdpa")
    randomize(made)
    return made.eval()


def each(cases):
    """Yield every case on every model, those of the first model quickly."""
    return [
        pytest.param(name, model, marks=[] if model in ("llama", "bert") else [pytest.mark.slow])
        for name, (models, *_) in cases.items()
        for model in models
    ]


def laws(found):
    return {one.law for one in found.broken}


@pytest.mark.parametrize(("name", "model_type"), each(SAFE))
def test_a_right_batch_is_right(name, model_type):
    found = check_batch(network(model_type), SAFE[name][1])
    assert found.right and not found.broken, str(found)
    assert "attention weights" in {one.law for one in found.outcomes if one.holds}
    assert not found.cells and (found.seen[~found.allowed] == 0).all()
    assert_no_leak(network(model_type), batch=SAFE[name][1])


@pytest.mark.parametrize(("name", "model_type"), each(WRONG))
def test_a_wrong_batch_is_wrong_by_name(name, model_type):
    _, batch, broken = WRONG[name]
    found = check_batch(network(model_type), batch)
    assert laws(found) == broken, str(found)
    with pytest.raises(AssertionError, match="wrong: "):
        assert_no_leak(network(model_type), batch=batch)


@pytest.mark.parametrize("leaks", [False, True])
def test_all_documents_of_a_long_row_are_changed(leaks):
    """Only document 18 sees another one, which is document 17."""
    document = torch.arange(40)[None] // 2
    allowed = (document[:, :, None] == document[:, None, :]) & torch.ones(40, 40, dtype=torch.bool).tril()
    ids = torch.randint(5, 90, (1, 40), generator=torch.Generator().manual_seed(4))
    batch = {"input_ids": ids, "position_ids": torch.arange(40)[None] % 2, "seq_idx": document}
    seen = allowed.clone()
    seen[0, 36:38, 34:36] |= leaks
    found = check_batch(network("llama"), {**batch, "attention_mask": additive(seen[:, None])})
    [apart] = [one for one in found.outcomes if one.law == "documents apart"]
    assert apart.holds is not leaks and apart.position == (36 if leaks else apart.position)


@pytest.mark.parametrize(
    "batch",
    [
        {"position_ids": AGAIN},
        {"position_ids": AGAIN[:1]},
        {"seq_idx": DOCUMENT},
        {"cu_seqlens": torch.tensor([0, 5, 12, 15, 21, 24])},
        {"attention_mask": DOCUMENT + 1},
    ],
    ids=lambda batch: next(iter(batch)),
)
def test_what_a_token_may_see_follows_from_the_batch(batch):
    rows = len(batch.get("position_ids", IDS))
    found = BatchMask.of({"input_ids": IDS[:rows], **batch}, True, PAD, None)
    assert torch.equal(found.allowed, APART[:rows, 0]) and found.real.all() and not found.problems
    both = BatchMask.of({"input_ids": IDS[:rows], **batch}, False, PAD, None)
    assert torch.equal(both.allowed, (DOCUMENT[:, :, None] == DOCUMENT[:, None, :])[:rows])


@pytest.mark.parametrize("pad", [PAD, 2])
def test_the_end_of_a_text_is_no_padding_even_if_its_id_is(pad):
    """[PAD] has the id of the end in many decoders. With a mask, the mask says which of the run is the text's."""
    ids = torch.tensor([[7, 8, 9, 2, pad, pad], [2, 2, 7, 8, 9, 2]])
    real = torch.tensor([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]] if pad == 2 else [[1, 1, 1, 1, 0, 0], [1] * 6])
    for batch in ({"input_ids": ids, "attention_mask": real}, {"input_ids": ids}):
        found = BatchMask.of(batch, True, pad, 2)
        assert torch.equal(found.real, real.bool()) and not found.problems
        assert not found.allowed[~found.real].any() and not found.allowed.mT[~found.real].any()


def test_leaked_cells_are_those_of_transformers_own_maps():
    """Every cell of transformers' maps that lies where the batch allows none is listed, with its weight."""
    from transformers import AutoModel

    _, batch, _ = WRONG["packed with a mask of ones"]
    plain = network("llama")
    eager = AutoModel.from_config(plain.config, attn_implementation="eager").eval()
    eager.load_state_dict(plain.state_dict())
    with torch.no_grad():
        maps = torch.stack(eager(**batch, output_attentions=True).attentions)  # [layer, text, head, query, key]
    forbidden = ~APART.expand(2, maps.shape[2], 12, 12)
    expected = {
        (layer, head, text, query, key): float(maps[layer, text, head, query, key])
        for layer, text, head, query, key in ((maps > 1e-6) & forbidden).nonzero().tolist()
    }
    found = check_batch(plain, batch)
    assert len(expected) > len(found.cells) == 100
    torch.testing.assert_close(torch.from_numpy(found.seen), maps.amax((0, 2))[found.text], rtol=1e-4, atol=1e-6)
    for cell in found.cells:
        assert cell.weight == pytest.approx(expected[cell[:-1]], rel=1e-4)
    assert f"{len(expected)} cells" in str(found)


class Plain(nn.Module):
    """A decoder of torch, which knows no batch."""

    def __init__(self, causal=True):
        super().__init__()
        self.embed = nn.Embedding(100, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.layers, self.causal = nn.TransformerEncoder(layer, 2), causal

    def forward(self, ids):
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1]) if self.causal else None
        return self.layers(self.embed(ids), mask=mask)


@pytest.mark.parametrize("causal", [True, False])
def test_a_network_from_elsewhere(causal):
    torch.manual_seed(0)
    found = check_batch(Plain(causal).eval(), {"input_ids": IDS})
    assert laws(found) == (set() if causal else {"look-ahead", "attention weights"})
    real = check_batch(Plain(causal).eval(), {"input_ids": IDS}, causal=False)
    assert not real.broken


def test_what_the_labels_leave_open_is_told():
    batch = {"input_ids": IDS, "position_ids": AGAIN, "labels": IDS}
    notes = [one.note for one in check_batch(network("llama"), batch).outcomes if one.holds is None]
    assert any("3 first tokens of documents" in note for note in notes)
    assert any("so does the prompt" in note for note in notes)


@pytest.mark.parametrize(
    ("mask", "said"),
    [(1 - REAL, "it is inverted"), (REAL.flip(1), "padded on the other side"), (REAL.roll(1, 1), "")],
)
def test_a_mask_that_is_inverted_or_of_the_other_side_is_told(mask, said):
    [problem] = [
        one.note
        for one in check_batch(network("llama"), {"input_ids": RIGHT_PAD, "attention_mask": mask}).broken
        if one.law == "attention_mask"
    ]
    assert "attention_mask hides " in problem and said in problem
    assert said or not ("inverted" in problem or "other side" in problem)


def test_end_tokens_inside_of_a_row_are_told():
    ids = IDS.clone()
    ids[0, 4] = network("llama").config.eos_token_id
    notes = [one.note for one in check_batch(network("llama"), {"input_ids": ids}).outcomes if one.holds is None]
    assert any("1 end token inside rows" in note for note in notes)


def test_documents_that_position_ids_do_not_tell_and_positions_that_count_pads_are_told():
    def notes(model, **batch):
        return [one.note for one in check_batch(network(model), batch).outcomes if one.holds is None]

    never = torch.arange(IDS.shape[1]).expand_as(IDS)
    assert any("position_ids never restart at 0" in note for note in notes("llama", input_ids=IDS, position_ids=never))
    count = (REAL_LEFT.cumsum(1) - 1).clamp(min=0)
    assert any("[PAD] is on the left" in note for note in notes("gpt2", input_ids=LEFT_PAD, attention_mask=REAL_LEFT))
    given = notes("gpt2", input_ids=LEFT_PAD, attention_mask=REAL_LEFT, position_ids=count)
    assert not any("[PAD] is on the left" in note for note in given)


@pytest.mark.parametrize(
    ("batch", "model", "why"),
    [
        ({"attention_mask": REAL}, "llama", "no input_ids"),
        ({"input_ids": IDS[0]}, "llama", "no input_ids"),
        ({"input_ids": IDS}, "t5", "encoder-decoder"),
        ({"input_ids": IDS + 10**6}, "bert", "fails on this batch: IndexError"),
        ({"input_ids": IDS.repeat(1, 100)}, "bert", "fails on this batch"),
    ],
)
def test_what_can_not_be_checked_is_refused(batch, model, why):
    with pytest.raises(RequestError, match=why):
        check_batch(network(model), batch)


def test_nothing_checked_is_not_right():
    """An encoder whose attention is not seen, on texts of one length."""
    with pytest.raises(RequestError, match="nothing in this batch could be checked"):
        check_batch(lambda ids: torch.zeros(*ids.shape, 4), {"input_ids": IDS}, causal=False)


def test_a_model_in_training_is_refused():
    with pytest.raises(RequestError, match=r"\.eval\(\)"):
        check_batch(Plain().train(), {"input_ids": IDS})


class Harmful:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return self.path.touch, ()


def test_files_of_every_kind_are_read_and_nothing_in_them_is_run(tmp_path):
    batch = {"input_ids": IDS, "attention_mask": REAL}
    torch.save(batch | {"texts": ["a", "b"]}, tmp_path / "a.pt")
    save_file(batch, tmp_path / "b.safetensors")
    (tmp_path / "c.json").write_text(json.dumps({name: one.tolist() for name, one in batch.items()}))
    for name in ("a.pt", "b.safetensors", "c.json"):
        found = read_batch(tmp_path / name)
        assert torch.equal(found["input_ids"], IDS) and torch.equal(found["attention_mask"], REAL)
    torch.save({"input_ids": Harmful(tmp_path / "harm")}, tmp_path / "d.pt")
    (tmp_path / "e.json").write_text("[1, 2]")
    (tmp_path / "f.pt").write_bytes(b"no zip")
    (tmp_path / "g.npy").write_bytes(b"")
    for name in ("d.pt", "e.json", "f.pt", "g.npy", "missing.pt"):
        with pytest.raises(RequestError):
            read_batch(tmp_path / name)
    assert not (tmp_path / "harm").exists()
