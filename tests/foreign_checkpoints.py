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
POSITIONS = 40  # of all small checkpoints but T5's, which has none
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


BY_BERT = {"num_hidden_layers": 3, "num_attention_heads": 4, **BERT}
GPT_ENDS = {"bos_token_id": 0, "eos_token_id": 0}
LLAMA_WINDOWS = {"sliding_window": WINDOW, "head_dim": 8, **LLAMA}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 4}
LOOKS = {"num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32, "patch_size": 8, **NARROW}
# By family: the network, its configuration, and what that says beside the number of tokens.
MADE: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {
        "n_positions": 40, "n_embd": 32, "n_layer": 3, "n_head": 4, **GPT_ENDS,
    }),
    "llama": ("LlamaForCausalLM", "LlamaConfig", LLAMA),
    "llama-no-bos": ("LlamaForCausalLM", "LlamaConfig", LLAMA),
    "mistral": ("MistralForCausalLM", "MistralConfig", {"sliding_window": WINDOW, **LLAMA}),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", LLAMA_WINDOWS),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", {
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], **LLAMA_WINDOWS, **LLAMA_ENDS,
    }),
    "gpt_oss": ("GptOssForCausalLM", "GptOssConfig", {
        "num_local_experts": 4, "num_experts_per_tok": 2, "initializer_range": 1.0, **LLAMA_WINDOWS, **LLAMA_ENDS,
    }),
    "opt": ("OPTForCausalLM", "OPTConfig", {
        "hidden_size": 32, "word_embed_proj_dim": 32, "ffn_dim": 48, "max_position_embeddings": 40,
        "num_hidden_layers": 3, "num_attention_heads": 4, "pad_token_id": 0, **GPT_ENDS,
    }),
    "gpt_neo": ("GPTNeoForCausalLM", "GPTNeoConfig", {
        "hidden_size": 32, "num_layers": 3, "num_heads": 4, "max_position_embeddings": 40, "window_size": WINDOW,
        "attention_types": [[["local"], 2], [["global"], 1]], **GPT_ENDS,
    }),
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", {**BY_BERT, **GPT_ENDS}),
    "esm": ("EsmForMaskedLM", "EsmConfig", {"position_embedding_type": "rotary", "pad_token_id": 1, **BY_BERT}),
    "modernbert": ("ModernBertModel", "ModernBertConfig", {
        **BY_BERT, "num_hidden_layers": 4, "local_attention": 2 * WINDOW - 2, "pad_token_id": 0, "bos_token_id": 2,
        "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3,
    }),
    "mamba": ("MambaForCausalLM", "MambaConfig", {"hidden_size": 32, "num_hidden_layers": 2}),
    "t5": ("T5ForConditionalGeneration", "T5Config", {**T5, "decoder_start_token_id": 0}),
    "t5-wordpiece": ("T5ForConditionalGeneration", "T5Config", {
        **T5, "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 3,
    }),
    "bart": ("BartForConditionalGeneration", "BartConfig", {**HALVES, **ENDS}),
    "bart-wordpiece": ("BartForConditionalGeneration", "BartConfig", {
        **HALVES, **BERT_ENDS, "forced_eos_token_id": None,
    }),
    "marian": ("MarianMTModel", "MarianConfig", {**HALVES, **MARIAN_ENDS}),
    "whisper": ("WhisperModel", "WhisperConfig", {
        "num_mel_bins": 8, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "d_model": 32, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
        "max_source_positions": 50, **BERT_ENDS,
    }),
    "wav2vec2": ("Wav2Vec2Model", "Wav2Vec2Config", {
        "num_hidden_layers": 2, "num_attention_heads": 4, "conv_dim": (16, 16), "conv_stride": (5, 2),
        "conv_kernel": (10, 3), "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, **NARROW,
    }),
    "vit": ("ViTModel", "ViTConfig", LOOKS),
}  # fmt: skip


def foreign_network(family: str, vocab_size: int) -> Any:
    """A network with transformers' own random numbers."""
    if family == "encoder-decoder":
        halves = [transformers.BertConfig(vocab_size=vocab_size, **BY_BERT)]
        smaller = {**BY_BERT, "num_hidden_layers": 2, "num_attention_heads": 2}
        halves.append(transformers.BertConfig(vocab_size=vocab_size, **smaller))
        both = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(*halves, **BERT_ENDS)
        return transformers.EncoderDecoderModel(both)
    if family == "clip":
        reads = {"num_hidden_layers": 2, "num_attention_heads": 4, "bos_token_id": 2, "eos_token_id": 3, **NARROW}
        text = {"vocab_size": vocab_size, **reads}
        return transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config=LOOKS))
    network, config, settings = MADE[family]
    if family == "esm":
        settings = {**settings, "mask_token_id": vocab_size - 1}
    if family not in ("wav2vec2", "vit"):
        settings = {**settings, "vocab_size": vocab_size}
    return getattr(transformers, network)(getattr(transformers, config)(**settings))


def make_foreign(directory: Path, family: str, more_numbers: int = 0) -> Path:
    """A directory with config.json, weights and a tokenizer, of 2 or 3 layers.

    more_numbers: so many more than the tokenizer has names for, as T5's networks have.
    """
    size = write_foreign_tokenizer(directory, family) + more_numbers
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = foreign_network(family, size)
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


def attend(model: Any, text: str = TEXT, pair: str | None = None, **request: Any) -> Any:
    return model.attend(text, pair, **request)
