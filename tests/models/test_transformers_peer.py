"""transformers as the reference: it gets exactly our tokens, segments and mask, and keeps quiet."""

from pathlib import Path

import pytest
import sentencepiece
import torch
from checkpoints import EVERY, load_both, make_checkpoint
from transformers import AutoModel, AutoTokenizer, BertModel, DebertaV2Config

from attncli import RequestError
from attncli.attention import window_mask
from attncli.models import transformers_peer
from attncli.models.transformers_peer import PARTLY_SINGLE, load_reference

CPU = torch.device("cpu")
TEXT = "the cat sat on a mat"


def test_it_is_what_transformers_makes_of_a_padded_pair_by_itself(minilm):
    path = minilm.place.path
    batch = AutoTokenizer.from_pretrained(path)(
        "The cat sat.", "It was tired.", padding="max_length", max_length=20, return_tensors="pt"
    )
    network = AutoModel.from_pretrained(path, attn_implementation="eager")
    with torch.inference_mode():
        expected = network(**batch, output_attentions=True, output_hidden_states=True)
    tokens = minilm.tokenizer.encode("The cat sat.", "It was tired.", 20)
    weights, hidden = load_reference(path, CPU, torch.float32).run(tokens, "padding")
    assert len(weights) == 6 and len(hidden) == 7
    assert all(torch.equal(ours, theirs[0]) for ours, theirs in zip(weights, expected.attentions, strict=True))
    assert all(torch.equal(ours, theirs[0]) for ours, theirs in zip(hidden, expected.hidden_states, strict=True))


def test_causal_is_what_transformers_own_decoder_sees(tiny):
    directory = tiny("bert")
    model, reference = load_both(directory)
    tokens = model.tokenizer.encode(TEXT)
    decoder = BertModel.from_pretrained(
        directory, is_decoder=True, attn_implementation="eager", dtype=torch.float64
    ).eval()
    with torch.inference_mode():
        expected = decoder(torch.tensor([tokens.ids]), output_attentions=True, use_cache=False).attentions
    weights, _ = reference.run(tokens, "causal")
    assert all(torch.equal(ours, theirs[0]) for ours, theirs in zip(weights, expected, strict=True))


@pytest.mark.parametrize("family", EVERY)
def test_masks_hide_what_they_say_and_nothing_else(tiny, family):
    # In float64 ModernBERT's softmax, which is in float32, makes NaN of a row that its window and the mask hide.
    dtype = "float32" if family in PARTLY_SINGLE else "float64"
    model, reference = load_both(tiny(family), dtype)
    tokens = model.tokenizer.encode(TEXT, None, 30)
    real = ~torch.tensor(tokens.padding)
    assert not real.all()
    everything = torch.ones(30, 30, dtype=torch.bool)
    to_real = everything & real
    for mask, allowed in (("none", everything), ("padding", to_real), ("causal", to_real.tril())):
        # Where a row of [PAD] is something else in transformers, nobody compares it.
        rows = real if not reference.has_padding_rows and mask != "none" else slice(None)
        for weights, reach in zip(reference.run(tokens, mask)[0], model.config.reach, strict=True):
            near = everything if reach is None else window_mask(reach, 30)
            assert torch.equal((weights != 0).any(dim=0)[rows], (allowed & near)[rows]), mask
            assert torch.allclose(weights[:, rows].sum(dim=-1), torch.ones((), dtype=reference.dtype))


@pytest.mark.parametrize("family", EVERY)
def test_segments_only_where_the_family_has_them(tiny, family):
    model, reference = load_both(tiny(family))
    tokens = model.tokenizer.encode(TEXT, "a dog ran")
    assert set(tokens.segments) == {0, 1}
    forgotten = type(tokens)(**{**vars(tokens), "segments": [0] * len(tokens)})
    with_segments, without = (reference.run(one, "none")[1][0] for one in (tokens, forgotten))
    assert torch.equal(with_segments, without) == (not (model.config.returns_segments and model.config.segments > 1))


def test_what_transformers_does_not_find_is_said(tmp_path):
    make_checkpoint(tmp_path, form="bin")
    path = tmp_path / "pytorch_model.bin"
    torch.save({f"bert.electra.{name}": tensor for name, tensor in torch.load(path).items()}, path)
    with pytest.raises(RequestError, match=r"transformers does not find embeddings.*--against torch"):
        load_reference(tmp_path, CPU, torch.float32)


def test_a_sentencepiece_model_names_the_package_that_reads_it(tmp_path, monkeypatch):
    """DeBERTa-v3 is published so, without a tokenizer.json."""
    (tmp_path / "spm.model").write_bytes(b"")

    def lacks(*_, **__):
        raise ImportError("requires the protobuf library")

    monkeypatch.setattr(AutoTokenizer, "from_pretrained", lacks)
    monkeypatch.setattr(transformers_peer, "is_installed", lambda package: package == "sentencepiece")
    with pytest.raises(RequestError, match=r"spm\.model is .*, which requires pip install \"\.\[sentencepiece\]\" in "):
        transformers_peer.peer_tokenizer(tmp_path)
    monkeypatch.setattr(transformers_peer, "is_installed", lambda package: True)
    with pytest.raises(RequestError, match="transformers can't load the tokenizer"):
        transformers_peer.peer_tokenizer(tmp_path)


def test_a_sentencepiece_model_alone_is_read_as_sentencepiece_reads_it(tmp_path):
    lines = Path("sample_inputs/coreference.txt").read_text(encoding="utf-8").splitlines()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_prefix=str(tmp_path / "spm"),
        vocab_size=120,
        hard_vocab_limit=False,
        minloglevel=2,
        **{"pad_id": 0, "bos_id": 1, "bos_piece": "[CLS]", "eos_id": 2, "eos_piece": "[SEP]"},
        **{"unk_id": 3, "unk_piece": "[UNK]", "pad_piece": "[PAD]"},
    )
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "spm.model"))
    DebertaV2Config().save_pretrained(tmp_path)
    made = transformers_peer.peer_tokenizer(tmp_path).backend_tokenizer
    for line in lines:
        assert made.encode(line, add_special_tokens=False).ids == model.encode(line)
