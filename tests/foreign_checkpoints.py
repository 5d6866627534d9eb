"""Small random checkpoints of models that attncli has no encoder for, with small tokenizers, made by transformers."""

import json
import string
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from checkpoints import MERGES, byte_vocabulary, vocabulary, write_tokenizer

TEXT = "the cat sat on the mat"
ANSWER = "a cat on a mat"
WORDS = [f"▁{word}" for word in ("the", "cat", "on", "a", "in", "ca", "mat")]
LETTERS = list("abcdefghijklmnopqrstuvwxyz.")

# Encoder and decoder differ in layers and heads, so that nobody confuses them.
HALVES = {
    "d_model": 32,
    "max_position_embeddings": 40,
    "encoder_layers": 3,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_layers": 2,
    "decoder_attention_heads": 2,
    "decoder_ffn_dim": 48,
}
LLAMA = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 40,
}
WINDOW = 3  # keys that Mistral's queries look back on, themselves among them
NARROW = {"hidden_size": 32, "intermediate_size": 48}
BERT = {"max_position_embeddings": 40, **NARROW}
BERT_ENDS = {"bos_token_id": 2, "pad_token_id": 0, "eos_token_id": 3, "decoder_start_token_id": 2}
ENDS = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
LLAMA_ENDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
MARIAN_ENDS = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "forced_eos_token_id": None}

ENCODER_DECODERS = ("t5", "bart", "marian")
DECODERS = ("gpt2", "llama", "mistral")
WORDPIECE = ("t5-wordpiece", "bart-wordpiece", "encoder-decoder")  # encoder-decoders whose tokenizer tells of segments
NO_TEXT = {"whisper": "audio", "wav2vec2": "audio", "vit": "pictures", "clip": "pictures"}  # what is read instead
LAYERED = ("gemma2", "gpt_neo", "modernbert")  # some of whose layers see WINDOW far and others everything


def foreign_config(family: str, vocab_size: int) -> Any:
    if family == "gpt2":
        return transformers.GPT2Config(
            vocab_size=vocab_size, n_positions=40, n_embd=32, n_layer=3, n_head=4, bos_token_id=0, eos_token_id=0
        )
    if family in ("llama", "llama-no-bos"):
        return transformers.LlamaConfig(vocab_size=vocab_size, **LLAMA)
    if family == "mistral":
        return transformers.MistralConfig(vocab_size=vocab_size, sliding_window=WINDOW, **LLAMA)
    if family == "gemma2":
        return transformers.Gemma2Config(vocab_size=vocab_size, sliding_window=WINDOW, head_dim=8, **LLAMA)
    if family == "gemma3":
        kinds = ["sliding_attention", "full_attention", "sliding_attention"]
        more = {"sliding_window": WINDOW, "layer_types": kinds, "head_dim": 8, **LLAMA_ENDS}
        return transformers.Gemma3TextConfig(vocab_size=vocab_size, **more, **LLAMA)
    if family == "gpt_oss":
        experts = {"num_local_experts": 4, "num_experts_per_tok": 2, "initializer_range": 1.0}
        more = {"sliding_window": WINDOW, "head_dim": 8, **experts, **LLAMA_ENDS}
        return transformers.GptOssConfig(vocab_size=vocab_size, **more, **LLAMA)
    if family == "opt":
        sizes = {"hidden_size": 32, "word_embed_proj_dim": 32, "ffn_dim": 48, "max_position_embeddings": 40}
        layers = {"num_hidden_layers": 3, "num_attention_heads": 4}
        ends = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
        return transformers.OPTConfig(vocab_size=vocab_size, **sizes, **layers, **ends)
    if family == "gpt_neo":
        return transformers.GPTNeoConfig(
            vocab_size=vocab_size,
            hidden_size=32,
            num_layers=3,
            num_heads=4,
            max_position_embeddings=40,
            attention_types=[[["local"], 2], [["global"], 1]],
            window_size=WINDOW,
            bos_token_id=0,
            eos_token_id=0,
        )
    if family == "modernbert":
        return transformers.ModernBertConfig(
            vocab_size=vocab_size,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=4,
            num_attention_heads=4,
            max_position_embeddings=40,
            local_attention=2 * WINDOW - 2,
            pad_token_id=0,
            bos_token_id=2,
            eos_token_id=3,
            cls_token_id=2,
            sep_token_id=3,
        )
    if family == "gpt_neox":
        sizes = {"num_hidden_layers": 3, "num_attention_heads": 4, **BERT}
        return transformers.GPTNeoXConfig(vocab_size=vocab_size, bos_token_id=0, eos_token_id=0, **sizes)
    if family == "esm":
        sizes = {"num_hidden_layers": 3, "num_attention_heads": 4, **BERT}
        ends = {"pad_token_id": 1, "mask_token_id": vocab_size - 1}
        return transformers.EsmConfig(vocab_size=vocab_size, position_embedding_type="rotary", **sizes, **ends)
    if family == "mamba":
        return transformers.MambaConfig(vocab_size=vocab_size, hidden_size=32, num_hidden_layers=2)
    if family in ("t5", "t5-wordpiece"):
        ends = {} if family == "t5" else {"pad_token_id": 0, "eos_token_id": 3}
        return transformers.T5Config(
            vocab_size=vocab_size,
            d_model=32,
            d_kv=8,
            d_ff=48,
            num_layers=3,
            num_decoder_layers=2,
            num_heads=4,
            decoder_start_token_id=0,
            **ends,
        )
    if family == "bart":
        return transformers.BartConfig(vocab_size=vocab_size, **HALVES, **ENDS)
    if family == "bart-wordpiece":
        return transformers.BartConfig(vocab_size=vocab_size, **HALVES, **BERT_ENDS, forced_eos_token_id=None)
    if family == "encoder-decoder":
        encoder = transformers.BertConfig(vocab_size=vocab_size, num_hidden_layers=3, num_attention_heads=4, **BERT)
        decoder = transformers.BertConfig(vocab_size=vocab_size, num_hidden_layers=2, num_attention_heads=2, **BERT)
        return transformers.EncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder, **BERT_ENDS)
    if family in NO_TEXT:
        return no_text_config(family)
    return transformers.MarianConfig(vocab_size=vocab_size, **HALVES, **MARIAN_ENDS)


def no_text_config(family: str) -> Any:
    """Return the configuration of a model that reads audio or pictures."""
    if family == "whisper":
        sizes = {"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
        more = {"d_model": 32, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_source_positions": 50}
        return transformers.WhisperConfig(vocab_size=101, num_mel_bins=8, **sizes, **more, **BERT_ENDS)
    if family == "wav2vec2":
        cut = {"conv_dim": (16, 16), "conv_stride": (5, 2), "conv_kernel": (10, 3)}
        more = {"num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
        return transformers.Wav2Vec2Config(
            vocab_size=32, num_hidden_layers=2, num_attention_heads=4, **NARROW, **cut, **more
        )
    looks = {"num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32, "patch_size": 8, **NARROW}
    if family == "vit":
        return transformers.ViTConfig(**looks)
    reads = {"vocab_size": 101, "num_hidden_layers": 2, "num_attention_heads": 4, "bos_token_id": 2, "eos_token_id": 3}
    return transformers.CLIPConfig(text_config={**reads, **NARROW}, vision_config=looks)


NETWORKS = {
    "gpt2": "GPT2LMHeadModel",
    "llama": "LlamaForCausalLM",
    "llama-no-bos": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3": "Gemma3ForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "opt": "OPTForCausalLM",
    "gpt_neo": "GPTNeoForCausalLM",
    "gpt_neox": "GPTNeoXForCausalLM",
    "esm": "EsmForMaskedLM",
    "modernbert": "ModernBertModel",
    "mamba": "MambaForCausalLM",
    "t5": "T5ForConditionalGeneration",
    "bart": "BartForConditionalGeneration",
    "marian": "MarianMTModel",
    "t5-wordpiece": "T5ForConditionalGeneration",
    "bart-wordpiece": "BartForConditionalGeneration",
    "encoder-decoder": "EncoderDecoderModel",
    "whisper": "WhisperModel",
    "wav2vec2": "Wav2Vec2Model",
    "vit": "ViTModel",
    "clip": "CLIPModel",
}


def make_foreign(directory: Path, family: str, more_numbers: int = 0) -> Path:
    """A directory with config.json, weights and a tokenizer, of 2 or 3 layers.

    more_numbers: so many more than the tokenizer has names for, as T5's networks have.
    """
    config = foreign_config(family, write_foreign_tokenizer(directory, family) + more_numbers)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = getattr(transformers, NETWORKS[family])(config)
        with torch.no_grad():
            for parameter in network.parameters():
                if parameter.dim() > 1:
                    parameter.normal_(std=0.3)  # so that no row is even
    if network.can_generate():
        network.generation_config.no_repeat_ngram_size = 1  # greedy output of random weights says one thing for ever
    network.save_pretrained(directory)
    return directory


def write_foreign_tokenizer(directory: Path, family: str) -> int:
    """Return the number of tokens."""
    if family == "bart":
        write_tokenizer(directory, "roberta", pad_id=1)
        return len(byte_vocabulary())
    if family in ("modernbert", *WORDPIECE, *NO_TEXT):
        write_tokenizer(directory, "bert", pad_id=0)
        transformers.BertTokenizer.from_pretrained(directory).save_pretrained(directory)
        return len(vocabulary())
    if family in ("gpt2", "gpt_neo", "gpt_neox", "mamba", "llama-no-bos", "opt"):
        tokens = ["<|endoftext|>", *byte_vocabulary()[4:-1]]
        (directory / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(tokens)}))
        (directory / "merges.txt").write_text("\n".join(["#version: 0.2", *MERGES, ""]), encoding="utf-8")
        if family in ("gpt_neox", "llama-no-bos"):  # have no slow tokenizer that would read these
            transformers.GPT2Tokenizer.from_pretrained(directory).save_pretrained(directory)
        if family == "opt":
            (directory / "tokenizer_config.json").write_text(json.dumps({"pad_token": tokens[0]}))
        return len(tokens)
    if family == "esm":
        tokens = ["<cls>", "<pad>", "<eos>", "<unk>", "the", "cat", *string.ascii_letters, ".", "-", "<mask>"]
        (directory / "vocab.txt").write_text("\n".join(tokens), encoding="utf-8")
        transformers.EsmTokenizer(str(directory / "vocab.txt")).save_pretrained(directory)
        return len(tokens)
    if family == "t5":
        pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
        pieces += [(token, -2.0) for token in WORDS] + [(token, -5.0) for token in ("▁", *LETTERS)]
        transformers.T5Tokenizer(vocab=pieces, extra_ids=0).save_pretrained(directory)
        return len(pieces)
    if family in ("llama", "mistral", "gemma2", "gemma3", "gpt_oss"):
        tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *LETTERS, "▁c", "at"]
        vocab = {token: number for number, token in enumerate(tokens)}
        merges = [("▁", "c"), ("a", "t")]
        padding = {"pad_token": "<unk>"} if family in ("gemma3", "gpt_oss") else {}
        made = transformers.LlamaTokenizer(vocab=vocab, merges=merges, add_bos_token=True, **padding)
        made.save_pretrained(directory)
        return len(tokens)
    return write_marian_tokenizer(directory)


def write_marian_tokenizer(directory: Path) -> int:
    """Two sentencepiece models and one vocabulary: the one tokenizer here that gives numbers and no more."""
    sentencepiece = pytest.importorskip("sentencepiece", reason="Marian's tokenizer needs sentencepiece")
    tokens = {"<pad>": 0, "</s>": 1, "<unk>": 2}
    for name, text in (("source", TEXT), ("target", ANSWER)):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([text, " ".join(LETTERS)]),
            model_prefix=str(directory / name),
            vocab_size=44,
            hard_vocab_limit=False,
            minloglevel=2,
        )
        (directory / f"{name}.model").rename(directory / f"{name}.spm")
        (directory / f"{name}.vocab").unlink()
        cutter = sentencepiece.SentencePieceProcessor(model_file=str(directory / f"{name}.spm"))
        for number in range(cutter.get_piece_size()):
            tokens.setdefault(cutter.id_to_piece(number), len(tokens))
    (directory / "vocab.json").write_text(json.dumps(tokens), encoding="utf-8")
    return len(tokens)
