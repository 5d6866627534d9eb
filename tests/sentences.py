"""The files with which sentence-transformers says how a sentence embedding is made, put beside a checkpoint."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

MODULES = "sentence_transformers.models."  # as its versions before 6 wrote it


def write_modules(directory: Path, *modules: tuple[str, Mapping[str, Any]], longest: int | None = None) -> Path:
    """modules.json with the encoder and these after it, (class, config.json). A Dense has its numbers drawn."""
    listed = [{"idx": 0, "name": "0", "path": "", "type": f"{MODULES}Transformer"}]
    for number, (name, settings) in enumerate(modules, start=1):
        path = f"{number}_{name}"
        (directory / path).mkdir(exist_ok=True)
        (directory / path / "config.json").write_text(json.dumps(settings))
        listed.append({"idx": number, "name": str(number), "path": path, "type": f"{MODULES}{name}"})
        if name == "Dense":
            write_dense(directory / path, settings, number)
    (directory / "modules.json").write_text(json.dumps(listed))
    if longest is not None:
        (directory / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": longest}))
    return directory


def write_dense(folder: Path, settings: Mapping[str, Any], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    shapes = {"linear.weight": (settings["out_features"], settings["in_features"])}
    if settings["bias"]:
        shapes["linear.bias"] = (settings["out_features"],)
    tensors = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    save_file(tensors, folder / "model.safetensors")


def pooling(*modes: str, size: int = 32) -> tuple[str, dict[str, Any]]:
    """By the names of before version 6: "cls_token", "mean_tokens"."""
    flags = ("cls_token", "max_tokens", "mean_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
    return "Pooling", {"word_embedding_dimension": size, **{f"pooling_mode_{one}": one in modes for one in flags}}


def dense(given: int, made: int, activation: str = "activation.Tanh", bias: bool = True) -> tuple[str, dict[str, Any]]:
    named = f"torch.nn.modules.{activation}"
    return "Dense", {"in_features": given, "out_features": made, "bias": bias, "activation_function": named}


NORMALIZE: tuple[str, dict[str, Any]] = ("Normalize", {})
