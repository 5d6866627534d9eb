"""Multi-head attention: several attentions in parallel, each on its own projection of the input.

            x [batch, query, d_model]            memory [batch, key, d_memory] (or x itself)
            │                                     │                │
      query Linear                            key Linear      value Linear
            │                                     │                │
split into heads: each [batch, head, token, head_dim = d_model / heads]
            │                                     │                │
            └──────────► attend, separately in each head ◄─────────┘
                                   │
          join the heads: [batch, query, d_model]
                                   │
                             output Linear

With fewer key heads than heads, groups of heads share keys and values; with one, all do (here 6 heads and 2, then 1):

    query   0 1 2 3 4 5        query   0 1 2 3 4 5        query   0 1 2 3 4 5
            │ │ │ │ │ │                └─┼─┘ └─┼─┘                └─┴─┼─┴─┴─┘
    key     0 1 2 3 4 5        key       0     1          key         0
            multi-head                 grouped                   multi-query
"""

from torch import Tensor, nn

from attncli.attention.attend import Attention, attend
from attncli.attention.normalisers import Normaliser, masked_softmax
from attncli.attention.scores import ScoreFunction, scaled_dot


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O,  head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    Vaswani et al. 2017, section 3.2.2. The heads' projections are stacked in one matrix each:
    head i has the rows i * head_dim to (i + 1) * head_dim of `query.weight`, `key.weight`, `value.weight`.
    The original Transformer has 8 heads of 64, BERT-base 12 heads of 64.

    head_dim: the size of a head's vectors, by default d_model / heads. output_bias: the output projection has a bias,
    by default if the others have one. query_norm, key_norm: normalise queries and keys before the score, each head's
    vector separately or all heads joined, depending on the norm's size (Henry et al. 2020; Team OLMo 2024, section
    2.1).

    key_heads: the number of key and value heads, by default `heads`. With fewer it is grouped-query attention: head i
    uses the keys and values of key head i // (heads / key_heads) (Ainslie et al. 2023, section 2.2); with one it is
    multi-query attention (Shazeer 2019, section 3.1).

    Self-attention is `mha(x)`, cross-attention `mha(x, memory)`.

    score, normalise: shared by all heads, including learned parameters. linear: the class of the four projections,
    torch's or a faster one.

    Raises ValueError if `d_model` is not divisible by `heads` and no `head_dim` is given, or `heads` by `key_heads`.
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
        key_heads: int | None = None,
        head_dim: int | None = None,
        output_bias: bool | None = None,
        query_norm: nn.Module | None = None,
        key_norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if heads < 1 or (head_dim is None and d_model % heads != 0):
            raise ValueError(f"d_model {d_model} is not divisible by {heads} heads")
        key_heads = heads if key_heads is None else key_heads
        if key_heads < 1 or heads % key_heads != 0:
            raise ValueError(f"{heads} heads can't share {key_heads} key heads: not a multiple of {key_heads}")
        d_memory = d_model if d_memory is None else d_memory
        self.heads = heads
        self.key_heads = key_heads
        self.head_dim = d_model // heads if head_dim is None else head_dim
        self.score = score
        self.normalise = normalise
        self.query = linear(d_model, heads * self.head_dim, bias=bias)
        self.key = linear(d_memory, key_heads * self.head_dim, bias=bias)
        self.value = linear(d_memory, key_heads * self.head_dim, bias=bias)
        self.output = linear(heads * self.head_dim, d_model, bias=bias if output_bias is None else output_bias)
        self.query_norm = query_norm
        self.key_norm = key_norm

    def forward(self, x: Tensor, memory: Tensor | None = None, mask: Tensor | None = None) -> Attention:
        """Compute the formula for all heads.

        x `[batch, query, d_model]`, memory `[batch, key, d_memory]` (None: x, which is self-attention),
        mask broadcasts to `[batch, head, query, key]`.

        Returns output `[batch, query, d_model]`, weights and scores `[batch, head, query, key]`.
        """
        query, key, value = self.project(x, memory)
        attention = attend(query, key, value, mask, self.score, self.normalise)
        return attention._replace(output=self.output(self.join_heads(attention.output)))

    def project(self, x: Tensor, memory: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return query, key and value of every head, each `[batch, head, token, head_dim]`; equal within a group."""
        memory = x if memory is None else memory
        return (
            self.split_heads(apply_norm(self.query_norm, self.query(x))),
            self.share(self.split_heads(apply_norm(self.key_norm, self.key(memory)))),
            self.share(self.split_heads(self.value(memory))),
        )

    def key_head(self, head: int) -> int:
        """Return the key head whose keys and values a head uses."""
        return head * self.key_heads // self.heads

    def group(self, head: int) -> range:
        """Return the heads that use the same keys and values as this one, including itself."""
        size = self.heads // self.key_heads
        first = self.key_head(head) * size
        return range(first, first + size)

    def share(self, x: Tensor) -> Tensor:
        """Repeat `[batch, key head, token, head_dim]` for each head of a group: `[batch, head, token, head_dim]`."""
        return x if self.key_heads == self.heads else x.repeat_interleave(self.heads // self.key_heads, dim=1)

    def output_by_head(self) -> Tensor:
        """Return W^O divided by head, `[d_model, head, head_dim]`."""
        return self.output.weight.unflatten(1, (-1, self.head_dim))

    def split_heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # [b, t, h * d] -> [b, h, t, d]

    def join_heads(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).flatten(-2)  # [b, h, t, d] -> [b, t, h * d]


def apply_norm(norm: nn.Module | None, x: Tensor) -> Tensor:
    """Normalise projected queries or keys `[..., head * head_dim]`, per head or all together, by the norm's size."""
    if norm is None:
        return x
    y: Tensor = norm(x.unflatten(-1, (-1, norm_size(norm))))
    return y.flatten(-2)


def norm_size(norm: nn.Module) -> int:
    """Return the number of elements that a norm normalises together."""
    weight = norm.weight
    assert isinstance(weight, Tensor)
    return len(weight)
