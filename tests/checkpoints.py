"""Small random checkpoints of every family, written by transformers: what the encoder is held against."""

import json
import string
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
from slow import slow_except
from transformers.models.auto import modeling_auto

from attncli import load_model
from attncli.features.compare import beside
from attncli.features.compare.agreement import Agreement
from attncli.models import families
from attncli.models.model import Model
from attncli.models.transformers_peer import Reference, load_reference
from attncli.record.selection import Selection
from attncli.text.tokens import Tokens

# Every model type that there is an encoder for, but those that only `native` makes known to transformers.
FAMILIES = tuple(one for one in families.PLACES if one in transformers.CONFIG_MAPPING)
ONE_OF_EACH = tuple({place: model_type for model_type, place in reversed(families.PLACES.items())}.values())
# The scaled rotary positions of Llama 3.
LLAMA_3 = {
    "factor": 32.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}
PECULIAR = ("bert", "modernbert", "deberta-v2", "gemma2")  # that have between them what families have
EACH = slow_except(ONE_OF_EACH, PECULIAR)
EVERY = slow_except(FAMILIES, PECULIAR)


# Decoders, and networks whose queries and keys positions turn, in pairs of elements (GPT-2's do not).
DECODERS = (
    "llama", "mistral", "qwen2", "smollm3", "qwen3", "olmo2", "phi3", "gemma", "gemma2", "gemma3_text", "gpt2",
    "gpt_neox",
)  # fmt: skip
TURNED = ("modernbert", "roformer", "eurobert", "nomic_bert", "gte", "jina_embeddings_v3", *DECODERS)
EACH_DECODER = slow_except(DECODERS, ("gemma2", "gpt2", "gpt_neox"))
PAIRS_OF_BYTES = tuple(one for one in FAMILIES if "roberta" in one or one == "camembert")  # byte-level tokenizers
# What small checkpoints have of a family's own: windows and buckets that the shortest texts outgrow, and rotations
# that a few tokens tell apart.
OWN: dict[str, dict[str, Any]] = {
    "ernie": {"use_task_id": True},
    "modernbert": {
        "local_attention": 8,
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 400.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 30.0},
        },
        **dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 2),
    },
    "eurobert": {
        "num_key_value_heads": 2,
        "rope_parameters": {"rope_type": "default", "rope_theta": 30.0},
        **dict.fromkeys(("bos_token_id", "eos_token_id", "mask_token_id"), 2),
    },
    "albert": {"num_hidden_groups": 2},
    "deberta": {
        "relative_attention": True,
        "pos_att_type": ["c2p", "p2c"],
        "max_relative_positions": 6,
        "position_biased_input": False,
        "type_vocab_size": 2,
    },
    "deberta-v2": {
        "relative_attention": True,
        "pos_att_type": ["c2p", "p2c"],
        "position_buckets": 6,
        "norm_rel_ebd": "layer_norm",
        "position_biased_input": False,
        "type_vocab_size": 2,
    },
    "llama": {
        "num_key_value_heads": 2,
        "head_dim": 6,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 30.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16,
        },
    },
    "mistral": {"num_key_value_heads": 2, "sliding_window": 5},
    "qwen2": {"num_key_value_heads": 2, "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 2},
    "smollm3": {"num_key_value_heads": 2, "no_rope_layer_interval": 2},
    "qwen3": {"num_key_value_heads": 2, "head_dim": 6, "attention_bias": True},
    "olmo2": {"num_key_value_heads": 2},
    "phi3": {
        "num_key_value_heads": 2,
        "sliding_window": 5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 30.0, "partial_rotary_factor": 0.5},
    },
    "gemma": {"num_key_value_heads": 2, "head_dim": 6},
    "gemma2": {
        "num_key_value_heads": 2,
        "head_dim": 6,
        "sliding_window": 5,
        "query_pre_attn_scalar": 9,
        "attn_logit_softcapping": 2.0,
        "final_logit_softcapping": 3.0,
    },
    "gemma3_text": {
        "num_key_value_heads": 2,
        "head_dim": 6,
        "sliding_window": 5,
        "query_pre_attn_scalar": 9,
        "sliding_window_pattern": 2,
    },
    "gpt_neox": {"rope_parameters": {"rope_type": "default", "rope_theta": 30.0, "partial_rotary_factor": 0.5}},
    "nomic_bert": {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}},
    "gte": {"rope_parameters": {"rope_type": "linear", "rope_theta": 60.0, "factor": 1.5}, "type_vocab_size": 2},
    "jina_embeddings_v3": {"rope_parameters": {"rope_type": "default", "rope_theta": 90.0}, "type_vocab_size": 2},
}

WORDS = ["the", "cat", "sat", "on", "and", "un", "##believ", "##able", "it", "too", "big", "中", "国", "é"]
MARKS = list("!?.,'-()[]")
MERGES = ["t h", "th e", "Ġ the", "Ġ c", "a t", "Ġc at", "i n", "e r", "Ġ a", "o n", "Ã ©"]


def make_config(family: str, **changes: Any) -> transformers.PreTrainedConfig:
    """A configuration of 4 layers of 4 heads; `changes` are in BERT's words, whatever the family's own."""
    own = families.find_family(family)
    settings: dict[str, Any] = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "max_position_embeddings": 40,
        "pad_token_id": 1 if family in PAIRS_OF_BYTES else 0,
        **OWN.get(family, {}),
    }
    if family in DECODERS:
        settings.update(bos_token_id=1, eos_token_id=2)
    if "embedding_size" in own.types[family]:
        settings["embedding_size"] = 20
    settings.update(changes)
    settings.setdefault("vocab_size", len(pieces(family, settings["pad_token_id"])) + 3)
    in_its_words = {own.keys.get(name, name) or name: value for name, value in settings.items()}
    return transformers.CONFIG_MAPPING[family](attn_implementation="eager", **in_its_words)


def network_class(family: str, head: str) -> Any:
    """Return transformers' class of a family with this ending, None if there is none."""
    kind = modeling_auto.MODEL_MAPPING_NAMES[family].removesuffix("Model")
    return getattr(transformers, kind + head, None) or getattr(transformers, kind.replace("Text", "") + head, None)


def language_head(family: str) -> str:
    """Return the ending of transformers' class that predicts tokens."""
    if family not in DECODERS:
        return "ForMaskedLM"
    return "LMHeadModel" if family == "gpt2" else "ForCausalLM"


def make_network(config: transformers.PreTrainedConfig, head: str = "Model", seed: int = 0) -> Any:
    """transformers' network with every number drawn, biases and LayerNorms too, so that none is forgotten."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = network_class(config.model_type, head)(config)
        with torch.no_grad():
            for name, parameter in network.named_parameters():
                if not parameter.requires_grad:  # what is no weight: RoFormer's sines
                    continue
                scale = 0.3 if parameter.dim() > 1 else 0.2
                if "gate_proj" in name:  # of a product of two large ones float32's rounding grows with every layer
                    scale = 0.1
                parameter.normal_(std=scale)
                if parameter.dim() == 1 and name.endswith("weight") and "gemma" not in config.model_type:  # of a norm
                    parameter.add_(1.0)
    return network.eval()


def make_checkpoint(
    directory: Path,
    family: str = "bert",
    head: str = "Model",
    form: str = "safetensors",
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    **changes: Any,
) -> Path:
    """A directory with config.json, weights and a tokenizer.

    form: "safetensors"; "sharded" with an index; "bin", a pickle; "sharded bin"; "2018", a pickle with the
    names that LayerNorm's parameters had then.
    """
    config = make_config(family, **changes)
    network = make_network(config, head, seed).to(dtype)
    if form == "sharded":
        network.save_pretrained(directory, max_shard_size="20KB")
    else:
        network.save_pretrained(directory)
    if form not in ("safetensors", "sharded"):
        (directory / "model.safetensors").unlink()
        write_pickles(directory, network.state_dict(), form)
    write_tokenizer(directory, family, config.pad_token_id)
    return directory


def write_pickles(directory: Path, tensors: dict[str, torch.Tensor], form: str) -> None:
    if form == "2018":
        old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        for ending, before in old.items():
            tensors = {name.replace(ending, before): tensor for name, tensor in tensors.items()}
    if form != "sharded bin":
        torch.save(tensors, directory / "pytorch_model.bin")
        return
    weight_map = {name: f"pytorch_model-{number % 2}.bin" for number, name in enumerate(tensors)}
    for file in set(weight_map.values()):
        torch.save({n: t for n, t in tensors.items() if weight_map[n] == file}, directory / file)
    (directory / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def edit_config(directory: Path, **changes: Any) -> None:
    """Change keys of a checkpoint's config.json; None takes a key away."""
    path = directory / "config.json"
    data = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in data.items() if value is not None}))


# --- tokenizers -----------------------------------------------------------------------------------------


def vocabulary(pad_id: int = 0) -> list[str]:
    """BERT's kind: whole words, letters, and ## for what goes on."""
    letters = string.ascii_lowercase + string.digits
    tokens = ["[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    tokens += WORDS + MARKS
    tokens.insert(pad_id, "[PAD]")
    return tokens


def byte_vocabulary(pad_id: int = 1) -> list[str]:
    """RoBERTa's kind: every byte, and pairs."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokens = ["<s>", "</s>", "<unk>", *alphabet, *(merge.replace(" ", "") for merge in MERGES), "<mask>"]
    tokens.insert(pad_id, "<pad>")
    return tokens


def pieces(family: str, pad_id: int) -> list[str]:
    """The vocabulary of a family's tokenizer."""
    if family in PAIRS_OF_BYTES:
        return byte_vocabulary(pad_id)
    if family in ("modernbert", "deberta"):
        names = {"<s>": "[CLS]", "</s>": "[SEP]", "<unk>": "[UNK]", "<mask>": "[MASK]", "<pad>": "[PAD]"}
        return [names.get(token, token) for token in byte_vocabulary(pad_id)]
    if family in DECODERS:
        return byte_vocabulary(pad_id)
    if family == "eurobert":
        names = {"<s>": "<|begin_of_text|>", "</s>": "<|end_of_text|>", "<mask>": "<|mask|>", "<pad>": "<|pad|>"}
        return [names.get(token, token) for token in byte_vocabulary(pad_id)]
    if family == "mpnet":
        names = {"[CLS]": "<s>", "[SEP]": "</s>", "[MASK]": "<mask>", "[PAD]": "<pad>"}
        return [names.get(token, token) for token in vocabulary(pad_id)]
    if family in ("albert", "deberta-v2"):
        tokens = [f"▁{token}" if token in WORDS else token for token in vocabulary(pad_id) if token[:2] != "##"]
        names = {"[UNK]": "<unk>", "[PAD]": "<pad>"} if family == "albert" else {}
        return [*(names.get(token, token) for token in tokens), "▁", "believ", "able"]
    return vocabulary(pad_id)


def write_newer_tokenizer(directory: Path, family: str, pad_id: int) -> None:
    """The tokenizer.json of a family: ModernBERT's and the first DeBERTa's bytes, EuroBERT's with Llama's marks,
    MPNet's WordPiece with RoBERTa's marks, ALBERT's and DeBERTa's sentencepiece.
    """
    tokens = pieces(family, pad_id)
    numbers = {token: number for number, token in enumerate(tokens)}
    marks = {
        name: f"[{name[:-6].upper()}]" for name in ("cls_token", "sep_token", "unk_token", "pad_token", "mask_token")
    }
    if family == "eurobert":
        names = {"cls": "begin_of_text", "sep": "end_of_text"}
        marks = {name: f"<|{names.get(name[:3], name[:-6])}|>" for name in marks if name != "unk_token"}
    if family == "mpnet":
        made = transformers.MPNetTokenizer(vocab=numbers)
    elif family in ("albert", "deberta-v2"):
        kind = transformers.AlbertTokenizer if family == "albert" else transformers.DebertaV2Tokenizer
        special = {*marks.values(), "<unk>", "<pad>"}
        made = kind(vocab=[(token, 0.0 if token in special else -float(9 - len(token))) for token in tokens])
    else:
        merges = [(one, two) for one, two in (merge.split(" ") for merge in MERGES)]
        backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=numbers, merges=merges))
        backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = tokenizers.decoders.ByteLevel()
        if family in DECODERS:
            marks = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
            first, single, pair = "<s>", ["<s>", "$A"], ["<s>", "$A", "$B:1"]
        else:
            first, last = marks["cls_token"], marks["sep_token"]
            single, pair = [first, "$A", last], [first, "$A", last, "$B:1", f"{last}:1"]
        backend.post_processor = tokenizers.processors.TemplateProcessing(
            single=single,
            pair=pair,
            special_tokens=[(mark, numbers[mark]) for mark in numbers if mark in single + pair],
        )
        made = transformers.PreTrainedTokenizerFast(
            tokenizer_object=backend,
            model_input_names=["input_ids", "attention_mask", *(["token_type_ids"] if family == "deberta" else [])],
            **marks,
        )
    made.save_pretrained(directory)


def write_tokenizer(directory: Path, family: str, pad_id: int) -> None:
    """RoBERTa: vocab.json and merges.txt; others of its kind, DistilBERT and the newer ones: tokenizer.json; the rest:
    vocab.txt.

    transformers is told what kind it is, whatever kind the family's own is.
    """
    if family in ("modernbert", "mpnet", "albert", "deberta", "deberta-v2", "eurobert", *DECODERS):
        write_newer_tokenizer(directory, family, pad_id)
        return
    kind = "RobertaTokenizer" if family in PAIRS_OF_BYTES else "BertTokenizer"
    pad = "<pad>" if family in PAIRS_OF_BYTES else "[PAD]"
    (directory / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind, "pad_token": pad}))
    if family in PAIRS_OF_BYTES:
        vocab = {token: number for number, token in enumerate(byte_vocabulary(pad_id))}
        (directory / "vocab.json").write_text(json.dumps(vocab))
        (directory / "merges.txt").write_text("\n".join(["#version: 0.2", *MERGES, ""]), encoding="utf-8")
        if family != "roberta":
            fast = transformers.RobertaTokenizer.from_pretrained(directory).backend_tokenizer
            fast.save(str(directory / "tokenizer.json"))
            (directory / "vocab.json").unlink()
            (directory / "merges.txt").unlink()
        return
    (directory / "vocab.txt").write_text("\n".join([*vocabulary(pad_id), ""]), encoding="utf-8")
    if family == "distilbert":
        fast = transformers.BertTokenizer.from_pretrained(directory).backend_tokenizer
        fast.save(str(directory / "tokenizer.json"))
        (directory / "vocab.txt").unlink()


def load_both(directory: str | Path, dtype: str = "float64") -> tuple[Model, Reference]:
    """Return our model of a checkpoint, and transformers' network of it."""
    model = load_model(str(directory), device="cpu", dtype=dtype)
    return model, load_reference(model.place.path, model.device, model.dtype)


def compare(
    model: Model,
    texts: Iterable[Tokens],
    mask: str | None = None,
    layers: Selection = "all",
    reference: Reference | None = None,
) -> Agreement:
    """Compare a network of attncli with transformers' or, without that, each layer's attention with torch's."""
    chosen = model.select_layers(layers)
    if reference is None:
        return beside.compare(beside.TorchPeers(model, mask, chosen), texts)
    return beside.compare(beside.OwnPeers(model, reference, (), (), None, mask, chosen), texts)
