"""Find the rows in which transformers gives NaN, and compute one layer's attention in torch, for `compare`."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attncli.attention import MultiHeadAttention
from attncli.models.block import Block, Tap
from attncli.models.model import Model
from attncli.text.tokens import Tokens


class Lost(NamedTuple):
    """Rows of real tokens that transformers gives NaN in.

    layer: the first one that has such rows; rows: how many have NaN in that layer or a later one. in_float32: whether
    transformers gives numbers there when it runs in float32.
    """

    mask: str
    layer: int
    rows: int
    in_float32: bool

    def __str__(self) -> str:
        instead = "its float32 numbers were taken instead" if self.in_float32 else "nothing was proven there"
        return (
            f"transformers is at fault: from layer {self.layer} on it gives NaN in {self.rows} rows of real tokens "
            f"(mask {self.mask}); {instead}"
        )


def lost_rows(
    tokens: Tokens, mask: str, layers: Sequence[int], weights: Iterable[Tensor], vectors: Iterable[Tensor]
) -> Lost | None:
    """Return the rows of real tokens in which transformers gives NaN in these layers; None when there are none."""
    bad = torch.stack(
        [
            (one.isnan().any(dim=-1).any(dim=0) | vector.isnan().any(dim=-1)).cpu()
            for one, vector in zip(weights, vectors, strict=True)
        ]
    ) & ~torch.tensor(tokens.padding)
    places = bad.any(dim=1).nonzero()
    return Lost(mask, layers[int(places[0])], int(bad.any(dim=0).sum()), False) if len(places) else None


def merge_lost(lost: Iterable[Lost]) -> tuple[Lost, ...]:
    """Merge them to one for each mask and each way of going on, with its first layer and all rows."""
    found: dict[tuple[str, bool], Lost] = {}
    for one in lost:
        before = found.get((one.mask, one.in_float32), one._replace(rows=0))
        found[one.mask, one.in_float32] = one._replace(layer=min(one.layer, before.layer), rows=one.rows + before.rows)
    return tuple(found.values())


def is_half(dtype: torch.dtype) -> bool:
    """Return whether a dtype is smaller than float32."""
    return dtype.itemsize < torch.float32.itemsize


class AttentionInputs(Tap):
    """Keeps what every layer's attention is given on one text, and the outputs of its heads.

    inputs: by layer `[1, token, hidden_size]`; made: by layer `[1, head, token, head_dim]`.
    """

    def __init__(self, model: Model) -> None:
        self.network = model.network
        self.inputs: dict[int, Tensor] = {}
        self.made: dict[int, Tensor] = {}

    def output(self, block: Block, output: Tensor) -> Tensor:
        self.inputs[block.layer], self.made[block.layer] = block.inputs, output
        return output

    def attention(self, layer: int) -> MultiHeadAttention:
        """Return a layer's attention."""
        return self.network.layer(layer).attention

    def joined(self, layer: int) -> Tensor:
        """Return the output of a layer's attention, `[token, hidden_size]`."""
        attention = self.attention(layer)
        made: Tensor = attention.output(attention.join_heads(self.made[layer]))
        return made[0]


def torch_attend(attention: nn.MultiheadAttention, x: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    """Return weights `[head, query, key]` and output `[token, hidden_size]` by torch, which takes an inverted mask."""
    output, weights = attention(x, x, x, attn_mask=~allowed, average_attn_weights=False)
    return weights[0], output[0]


def torch_attention(attention: MultiHeadAttention) -> nn.MultiheadAttention:
    """Make torch's module with copies of these weights; it keeps the three projections in one matrix."""
    parts = (attention.query, attention.key, attention.value)
    like = attention.query.weight
    biased = attention.output.bias is not None
    theirs = nn.MultiheadAttention(
        like.shape[1], attention.heads, bias=biased, batch_first=True, device=like.device, dtype=like.dtype
    )
    tensors = {
        "in_proj_weight": torch.cat([part.weight for part in parts]),
        "out_proj.weight": attention.output.weight,
    }
    if biased:
        biases: list[Tensor] = [like.new_zeros(len(part.weight)) if part.bias is None else part.bias for part in parts]
        tensors["in_proj_bias"] = torch.cat(biases)
        tensors["out_proj.bias"] = attention.output.bias
    theirs.load_state_dict(tensors)
    return theirs.eval()
