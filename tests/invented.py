"""Invented networks whose answer is known: what an output is made of, and whether attention can matter to it."""

import json
from pathlib import Path

import torch
from checkpoints import make_checkpoint, vocabulary
from safetensors.torch import load_file, save_file

from attncli import load_model
from attncli.models.model import Model

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SIZE = 32


def changed(folder: Path, change) -> Model:
    """The model of a checkpoint whose tensors were changed, in float64."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return load_model(str(folder), device="cpu", dtype="float64")


def embedding_model(folder: Path, seed: int = 0, equal_values: bool = False) -> Model:
    """A random network whose vectors are pooled to an embedding; of which every token may have the same values."""
    make_checkpoint(folder, "bert", seed=seed)
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": SIZE, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))

    def equal(tensors: dict[str, torch.Tensor]) -> None:
        for name in tensors:
            if equal_values and name.endswith("self.value.weight"):
                tensors[name].zero_()

    return changed(folder, equal)


def one_head_reads(folder: Path) -> Model:
    """A classifier of one layer, in which [CLS] alone is read, and takes what it says from other tokens through one
    head, 0.0. The later in the alphabet a letter is, the more that head looks at it, and the more it says for LABEL_1.
    The other heads look at all alike, and say nothing.
    """
    make_checkpoint(folder, "bert", head="ForSequenceClassification", num_hidden_layers=1)
    tokens, own, layer = vocabulary(), 4.0, "bert.encoder.layer.0"

    def invent(tensors: dict[str, torch.Tensor]) -> None:
        for name, tensor in tensors.items():
            tensor.fill_(1.0 if "LayerNorm.weight" in name else 0.0)
        words = tensors["bert.embeddings.word_embeddings.weight"]
        words[:, 2], words[:, 3] = own, -own
        for place, letter in enumerate(LETTERS):
            speaks = 0.2 * (place + 1)
            words[tokens.index(letter), :2] = torch.tensor([speaks, -speaks])
        tensors[f"{layer}.attention.self.query.bias"][0] = 3.0
        tensors[f"{layer}.attention.self.key.weight"][0, 0] = 1.0
        tensors[f"{layer}.attention.self.value.weight"][0, 0] = 1.0
        tensors[f"{layer}.attention.output.dense.weight"][5:7, 0] = torch.tensor([1.0, -1.0])
        tensors["bert.pooler.dense.weight"][0, 5] = 1.0
        tensors["classifier.weight"][1, 0] = 2.0

    return changed(folder, invent)
