"""Multi-head attention: several attentions side by side, each on its own projection of the input.

            x [batch, query, d_model]            memory [batch, key, d_memory] (or x itself)
            │                                     │                │
      query Linear                            key Linear      value Linear
            │                                     │                │
split into heads: each [batch, head, token, head_dim = d_model / heads]
            │                                     │                │
            └──────────► attend, in every head by itself ◄─────────┘
                                   │
          join the heads: [batch, query, d_model]
                                   │
                             output Linear
"""

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncli.attention.attend import Attention, attend, attend_into, attend_output
from attncli.attention.normalise import Normaliser, masked_softmax
from attncli.attention.scores import ScoreFunction, scaled_dot


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O,  head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    Vaswani et al. 2017, section 3.2.2. The heads' projections stand side by side in one matrix each:
    head i has the rows i * head_dim to (i + 1) * head_dim of `query.weight`, `key.weight`, `value.weight`.
    The original Transformer has 8 heads of 64, BERT-base 12 heads of 64.

    Self-attention is `mha(x)`, cross-attention `mha(x, memory)`.

    score, normalise: of all heads alike; a score that learns something shares it between them. `linear` is the
    class of the four projections, for whoever has a faster one than torch's.

    Raises ValueError when `d_model` is not divisible by `heads`.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_memory: int | None = None,
        bias: bool = True,
        score: ScoreFunction = scaled_dot,
        linear: type[nn.Linear] = nn.Linear,
        normalise: Normaliser = masked_softmax,
    ) -> None:
        super().__init__()
        if heads < 1 or d_model % heads != 0:
            raise ValueError(f"d_model {d_model} is not divisible by {heads} heads")
        d_memory = d_model if d_memory is None else d_memory
        self.heads = heads
        self.head_dim = d_model // heads
        self.score = score
        self.normalise = normalise
        self.query = linear(d_model, d_model, bias=bias)
        self.key = linear(d_memory, d_model, bias=bias)
        self.value = linear(d_memory, d_model, bias=bias)
        self.output = linear(d_model, d_model, bias=bias)

    def forward(self, x: Tensor, memory: Tensor | None = None, mask: Tensor | None = None) -> Attention:
        """The formula, for all heads.

        x `[batch, query, d_model]`, memory `[batch, key, d_memory]` (None: x, which is self-attention),
        mask broadcasts to `[batch, head, query, key]`.

        Returns output `[batch, query, d_model]`, weights and scores `[batch, head, query, key]`.
        """
        query, key, value = self.project(x, memory)
        attention = attend(query, key, value, mask, self.score, self.normalise)
        return attention._replace(output=self.output(self.join_heads(attention.output)))

    def forward_keeping(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: Tensor | None = None,
        heads: Sequence[int] = (),
        maps: Tensor | None = None,
        vectors: Mapping[int, Tensor] | None = None,
    ) -> Tensor:
        """The output of `forward`; only the weights of the chosen `heads` are ever there, in `maps`.

        `maps` is storage of the caller's, `[batch, len(heads), query, key]`; the other heads go through
        torch's fused kernel. `vectors` is storage for the query and the key of some heads of self-attention,
        by head: `[2, batch, token, head_dim]`. With `heads` or `vectors`, inference only.

        Returns output `[batch, query, d_model]`. Raises ValueError for another score than scaled_dot.
        """
        self.check_score()
        query, key, value = self.project(x, memory)
        keep_vectors(vectors, query, key, range(self.heads))
        mask = four_dimensions(mask)
        others = [head for head in range(self.heads) if head not in heads]
        if maps is None or len(heads) == 0:
            output = attend_output(query, key, value, mask)
        elif not others and list(heads) == sorted(heads):
            output = attend_texts_into(maps, query, key, value, mask)
        else:
            output = torch.empty(*query.shape[:-1], value.shape[-1], dtype=x.dtype, device=x.device)
            if others:
                output[:, others] = attend_output(
                    query[:, others], key[:, others], value[:, others], heads_of(mask, others)
                )
            output[:, heads] = attend_texts_into(
                maps, query[:, heads], key[:, heads], value[:, heads], heads_of(mask, heads)
            )
        return self.output(self.join_heads(output))

    def project(self, x: Tensor, memory: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value of every head, each `[batch, head, token, head_dim]`."""
        memory = x if memory is None else memory
        return (
            self.split_heads(self.query(x)),
            self.split_heads(self.key(memory)),
            self.split_heads(self.value(memory)),
        )

    def maps_into(
        self,
        maps: Tensor,
        x: Tensor,
        mask: Tensor | None = None,
        heads: Sequence[int] = (),
        vectors: Mapping[int, Tensor] | None = None,
    ) -> None:
        """Self-attention's weights of the chosen heads and nothing else: no value, no output.

        Only these heads' queries and keys are projected. `maps`, `vectors` (of some of `heads`) and errors as in
        `forward_keeping`.
        """
        self.check_score()
        mask = four_dimensions(mask)
        rows = torch.cat([torch.arange(h * self.head_dim, (h + 1) * self.head_dim) for h in heads])
        rows = rows.to(x.device)
        query = self.split_heads(linear_rows(self.query, x, rows))
        key = self.split_heads(linear_rows(self.key, x, rows))
        keep_vectors(vectors, query, key, heads)
        nothing = key[..., :0]  # values of width 0: the weighted sum costs nothing
        attend_texts_into(maps, query, key, nothing, heads_of(mask, heads))

    def check_score(self) -> None:
        """Raises ValueError when the weights are not those that torch's fused kernel computes."""
        if self.score is not scaled_dot or self.normalise is not masked_softmax:
            raise ValueError("only forward takes another score than the scaled dot product, or another normaliser")

    def split_heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # [b, t, h * d] -> [b, h, t, d]

    def join_heads(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).flatten(-2)  # [b, h, t, d] -> [b, t, h * d]


def keep_vectors(vectors: Mapping[int, Tensor] | None, query: Tensor, key: Tensor, heads: Sequence[int]) -> None:
    """Copy query and key `[batch, head, token, head_dim]`, whose heads are `heads`, to where `vectors` has room."""
    for head, place in (vectors or {}).items():
        place[0], place[1] = query[:, heads.index(head)], key[:, heads.index(head)]


def attend_texts_into(maps: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """`attend_into` for one text of the batch after the other: one text's maps fit the cache."""
    if mask is not None:
        mask = mask.expand(len(query), -1, -1, -1)
    return torch.stack(
        [
            attend_into(maps[text], query[text], key[text], value[text], None if mask is None else mask[text])
            for text in range(len(query))
        ]
    )


def four_dimensions(mask: Tensor | None) -> Tensor | None:
    """The mask as `[batch or 1, head or 1, query or 1, key or 1]`: what broadcasting does, written out."""
    return None if mask is None else mask[(None,) * (4 - mask.dim())]


def heads_of(mask: Tensor | None, heads: Sequence[int]) -> Tensor | None:
    """The part of a mask `[batch or 1, head or 1, query or 1, key or 1]` that is about these heads."""
    return mask if mask is None or mask.shape[1] == 1 else mask[:, heads]


def linear_rows(linear: nn.Linear, x: Tensor, rows: Tensor) -> Tensor:
    """Some of a linear layer's outputs: x W[rows]^T + b[rows]."""
    return F.linear(x, linear.weight[rows], None if linear.bias is None else linear.bias[rows])
