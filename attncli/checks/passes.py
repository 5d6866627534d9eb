"""One text through this program and through another: what both make of it, ready to be compared.

Against transformers, both run the whole network, so that whatever differs in one layer goes on into the next.
Against `torch.nn.MultiheadAttention`, every layer stands by itself: both get that layer's input from our pass.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attncli.attention import MultiHeadAttention
from attncli.models.model import Model
from attncli.models.transformers_peer import Reference
from attncli.text.tokens import Tokens


class Pass(NamedTuple):
    """What one program makes of one text, for each of the layers compared.

    weights: `[head, query, key]` each; hidden: `[token, hidden_size]` each; embeddings: `[token, hidden_size]`.
    """

    weights: Sequence[Tensor]
    hidden: Sequence[Tensor]
    embeddings: Tensor | None = None

    def only(self, rows: list[int]) -> "Pass":
        """The same for these tokens."""
        return Pass(
            [weights[:, rows] for weights in self.weights],
            [hidden[rows] for hidden in self.hidden],
            None if self.embeddings is None else self.embeddings[rows],
        )


Both = Callable[[Tokens], tuple[Pass, Pass]]


def beside_transformers(model: Model, layers: Sequence[int], mask: str, reference: Reference) -> Both:
    """Our pass and transformers'."""

    def both(tokens: Tokens) -> tuple[Pass, Pass]:
        weights, hidden = model.hidden_states(tokens, model.mask([tokens], mask), layers)
        their_weights, their_hidden = reference.run(tokens, mask)
        after = [layer + 1 for layer in layers]  # vectors before the first layer come first
        return (
            Pass(list(weights), [hidden[number] for number in after], hidden[0]),
            Pass(
                [their_weights[layer] for layer in layers],
                [their_hidden[number] for number in after],
                their_hidden[0],
            ),
        )

    return both


def beside_torch(model: Model, layers: Sequence[int], mask: str) -> Both:
    """Our attention and torch's, layer by layer, both on that layer's input from our pass."""
    model.need(model.config.layers)
    ours: list[Any] = [model.encoder.layers[layer].attention for layer in layers]
    theirs = [torch_attention(attention) for attention in ours]

    def both(tokens: Tokens) -> tuple[Pass, Pass]:
        allowed = model.mask([tokens], mask)
        _, hidden = model.hidden_states(tokens, allowed)
        inputs = [hidden[layer][None] for layer in layers]
        with torch.inference_mode():
            made = [attend(one, x, allowed) for one, x in zip(ours, inputs, strict=True)]
            torchs = [torch_attend(one, x, tokens, mask) for one, x in zip(theirs, inputs, strict=True)]
        return (
            Pass([weights for weights, _ in made], [output for _, output in made]),
            Pass([weights for weights, _ in torchs], [output for _, output in torchs]),
        )

    return both


def attend(attention: MultiHeadAttention, x: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    """Weights `[head, query, key]` and output `[token, hidden_size]`, as the model's own pass computes them."""
    maps = x.new_empty(1, attention.heads, x.shape[1], x.shape[1])
    output = attention.forward_keeping(x, mask=allowed, heads=range(attention.heads), maps=maps)
    return maps[0], output[0]


def torch_attend(attention: nn.MultiheadAttention, x: Tensor, tokens: Tokens, mask: str) -> tuple[Tensor, Tensor]:
    """The same by torch, which is told of masks in its own way: True = may not."""
    padding = torch.tensor([tokens.padding], device=x.device) if mask != "none" else None
    length = len(tokens)
    if mask not in ("padding", "causal", "none"):
        raise ValueError(f"torch has to be told what the mask {mask!r} hides")
    future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1) if mask == "causal" else None
    output, weights = attention(x, x, x, key_padding_mask=padding, attn_mask=future, average_attn_weights=False)
    return weights[0], output[0]


def torch_attention(attention: MultiHeadAttention) -> nn.MultiheadAttention:
    """torch's module with copies of these weights; it keeps the three projections in one matrix."""
    parts = (attention.query, attention.key, attention.value)
    like = attention.query.weight
    theirs = nn.MultiheadAttention(
        like.shape[1], attention.heads, batch_first=True, device=like.device, dtype=like.dtype
    )
    theirs.load_state_dict(
        {
            "in_proj_weight": torch.cat([part.weight for part in parts]),
            "in_proj_bias": torch.cat([part.bias for part in parts]),
            "out_proj.weight": attention.output.weight,
            "out_proj.bias": attention.output.bias,
        }
    )
    return theirs.eval()
