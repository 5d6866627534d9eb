"""A family that nobody has published, with all that families may differ in, and its forward pass written out.

Query, key and value are one matrix, by head, and keys have no bias; the output projection is stored as `[in, out]`; the
norms stand before, with one after the last layer; the feed-forward part is gated, and the same in all layers; the last
two layers are one; tokens are narrower and are widened; every second layer sees no further than two tokens.
"""

import json
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from checkpoints import write_tokenizer
from safetensors.torch import save_file
from torch import Tensor

from attncli.models.families.family import Biases, Family, Values, fuse, split_by_head, tensors_of, transpose

REACH = 2
LAYERS, BLOCKS, HEADS, NARROW, SIZE, WIDE, WORDS, POSITIONS = 4, 3, 4, 12, 24, 40, 120, 64


def settings(values: Values) -> dict[str, Any]:
    layers = values.count("num_hidden_layers")
    return {
        "embedding_size": NARROW,
        "widens": True,
        "segments": 0,
        "norm_first": True,
        "gated": True,
        "biases": Biases(bare_keys=True),
        "layer_names": tuple(str(min(layer, BLOCKS - 1)) for layer in range(layers)),
        "reach": tuple(values.count("window") if layer % 2 else None for layer in range(layers)),
    }


FAMILY = Family(
    name="made up",
    types={"made-up": {"window": REACH}},
    tensors={
        "embeddings.tokens": tensors_of("words"),
        "embeddings.positions.table": tensors_of("places"),
        "embeddings.norm": tensors_of("first"),
        "embeddings.project": tensors_of("widen"),
        "layers.{n}.attention.query": split_by_head("blocks.{n}.Wqkv", 0, 3, bias="blocks.{n}.bq"),
        "layers.{n}.attention.key": split_by_head("blocks.{n}.Wqkv", 1, 3),
        "layers.{n}.attention.value": split_by_head("blocks.{n}.Wqkv", 2, 3, bias="blocks.{n}.bv"),
        "layers.{n}.attention.output": transpose("blocks.{n}.Wo"),
        "layers.{n}.attention_norm": tensors_of("blocks.{n}.norms.0"),
        "layers.{n}.feed_forward.up": fuse("gate", "up"),
        "layers.{n}.feed_forward.down": tensors_of("down"),
        "layers.{n}.feed_forward_norm": tensors_of("blocks.{n}.norms.1"),
        "final_norm": tensors_of("last"),
    },
    prefix="made_up.",
    body=("words.", "places.", "first.", "widen.", "gate.", "up.", "down.", "blocks.", "last."),
    keys={"num_hidden_layers": "depth"},
    settings=settings,
)

CONFIG = {
    "model_type": "made-up",
    "depth": LAYERS,
    "num_attention_heads": HEADS,
    "hidden_size": SIZE,
    "intermediate_size": WIDE,
    "vocab_size": WORDS,
    "max_position_embeddings": POSITIONS,
    "layer_norm_eps": 1e-6,
}


def made_up_tensors() -> dict[str, Tensor]:
    """A checkpoint's (seed 0)."""
    generator = torch.Generator().manual_seed(0)

    def matrix(rows: int, columns: int) -> Tensor:
        return torch.randn(rows, columns, generator=generator) * 2 / columns**0.5

    def norm(name: str, size: int = SIZE) -> dict[str, Tensor]:
        drawn = 0.2 * torch.randn(2, size, generator=generator)
        return {f"{name}.weight": 1 + drawn[0], f"{name}.bias": drawn[1]}

    def linear(name: str, rows: int, columns: int) -> dict[str, Tensor]:
        return {f"{name}.weight": matrix(rows, columns), f"{name}.bias": 0.2 * torch.randn(rows, generator=generator)}

    tensors = {"words.weight": matrix(WORDS, NARROW), "places.weight": matrix(POSITIONS, NARROW)}
    tensors |= norm("first", NARROW) | linear("widen", SIZE, NARROW) | norm("last")
    tensors |= linear("gate", WIDE, SIZE) | linear("up", WIDE, SIZE) | linear("down", SIZE, WIDE)
    for number in range(BLOCKS):
        block = f"blocks.{number}"
        tensors |= {f"{block}.Wqkv.weight": matrix(3 * SIZE, SIZE)} | linear(f"{block}.Wo", SIZE, SIZE)
        tensors |= {f"{block}.{name}": 0.2 * torch.randn(SIZE, generator=generator) for name in ("bq", "bv")}
        tensors |= norm(f"{block}.norms.0") | norm(f"{block}.norms.1")
    return tensors


def made_up_checkpoint(directory: Path) -> Path:
    """A directory with the family's files."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(CONFIG))
    save_file(
        {f"made_up.{name}": tensor for name, tensor in made_up_tensors().items()}, str(directory / "model.safetensors")
    )
    write_tokenizer(directory, "distilbert", 0)
    return directory


def by_hand(ids: list[int], allowed: Tensor) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """Compute one text by hand, from the stored tensors, in float64: every layer's weights `[head, query, key]`; the
    vectors `[token, size]` before the first layer and after every one; and values W_O by head, `[head, token, size]`.

    allowed: bool `[query, key]`, the mask requested besides the windows.
    """
    tensors = {name: tensor.double() for name, tensor in made_up_tensors().items()}

    def linear(name: str, x: Tensor) -> Tensor:
        return x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]

    def norm(name: str, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], tensors[f"{name}.weight"], tensors[f"{name}.bias"], 1e-6)

    count = len(ids)
    places = torch.arange(count)
    near = (places[:, None] - places).abs() <= REACH
    x = linear("widen", norm("first", tensors["words.weight"][ids] + tensors["places.weight"][places]))
    maps, states, brought = [], [x], []
    for number in range(LAYERS):
        block = f"blocks.{min(number, BLOCKS - 1)}"
        fused = norm(f"{block}.norms.0", x) @ tensors[f"{block}.Wqkv.weight"].T
        query, key, value = fused.view(count, HEADS, 3, SIZE // HEADS).permute(2, 1, 0, 3)
        query, value = (
            one + tensors[f"{block}.{name}"].view(HEADS, 1, -1) for one, name in ((query, "bq"), (value, "bv"))
        )
        scores = query @ key.mT / (SIZE // HEADS) ** 0.5
        seen = allowed & near if number % 2 else allowed
        weights = scores.masked_fill(~seen, -torch.inf).softmax(dim=-1).nan_to_num(0.0)  # a row of nothing is 0
        output = tensors[f"{block}.Wo.weight"].view(HEADS, SIZE // HEADS, SIZE)  # stored as [in, out]
        brought.append(value @ output)
        x = x + (weights @ brought[-1]).sum(dim=0) + tensors[f"{block}.Wo.bias"]
        wide = norm(f"{block}.norms.1", x)
        x = x + linear("down", F.gelu(linear("gate", wide)) * linear("up", wide))
        maps.append(weights)
        states.append(norm("last", x) if number == LAYERS - 1 else x)
    return maps, states, brought
