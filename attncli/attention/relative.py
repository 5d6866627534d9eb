"""Terms that depend on the distance between key and query: a learned bias, a slope, or disentangled attention."""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from attncli.attention.positional import PositionalScore, Where

KEPT = 2**23  # elements of biases cached for the next layer or text


def relative_buckets(offsets: Tensor, buckets: int = 32, furthest: int = 128) -> Tensor:
    """Return the bucket of an offset j - i (int, of any shape), from 0 to buckets - 1.

    Half of the buckets are for keys before the query, half for keys after it. In each half, the first half hold one
    distance each. The others grow logarithmically up to `furthest`, and the last holds all beyond.

    Source: Raffel et al. 2020, section 2.1, and the published code for an encoder.
    """
    half = buckets // 2
    distances = offsets.abs()
    near = half // 2
    # In float32 and in this order, as in the published code: a bucket's border must not depend on rounding.
    share = torch.log(distances.clamp(min=1).float() / near) / math.log(furthest / near)
    far = (near + (share * (half - near)).long()).clamp(max=half - 1)
    return (offsets > 0) * half + torch.where(distances < near, distances, far)


def log_buckets(offsets: Tensor, near: int, furthest: int) -> Tensor:
    """Return the bucket of an offset, with its sign.

    It is the offset itself up to near / 2, then grows logarithmically up to near - 1 at `furthest`.

    Source: He et al. 2021 (DeBERTa), the published code of version 2.
    """
    mid = near // 2
    distances = torch.where(offsets.abs() < mid, mid - 1, offsets.abs())
    # In float32 and in this order, as in the published code.
    share = torch.log(distances / mid) / torch.log(torch.tensor((furthest - 1) / mid, device=offsets.device))
    far = (torch.ceil(share * (mid - 1)) + mid).long() * offsets.sign()
    return torch.where(distances <= mid, offsets, far)


class RelativeBias(PositionalScore):
    """s(q_i, k_j) = q_i · k_j / sqrt(d_k) + b[bucket(j - i)]   (Raffel et al. 2020, section 2.1; T5 has no root).

    table is b, a number for each bucket and head, `[buckets, heads]`. furthest: the distance from which on all share a
    bucket. `embedding` is the table's class.
    """

    names = ("position",)
    by_offset = True

    def __init__(
        self, heads: int, buckets: int = 32, furthest: int = 128, embedding: type[nn.Embedding] = nn.Embedding
    ) -> None:
        super().__init__()
        self.table = embedding(buckets, heads)
        self.furthest = furthest
        self.kept: dict[tuple[int, int, int, int], Tensor] = {}

    def rows(self, offsets: Tensor) -> Tensor:
        """Return the row of the table for offsets j - i."""
        return relative_buckets(offsets, self.table.num_embeddings, self.furthest)

    def bias(self, where: Where) -> Tensor:
        """Return the bias of all heads, `[head, query, key]`."""
        offsets = where.offsets(self.table.weight.device)
        return self.table(self.rows(offsets)).permute(2, 0, 1).contiguous()

    def terms(self, query: Tensor, key: Tensor, where: Where) -> dict[str, Tensor]:
        place = (where.queries.start, where.queries.stop, where.keys.start, where.keys.stop)
        kept = self.kept
        bias = kept.get(place)
        if bias is None:
            bias = self.bias(where)
            if bias.numel() + sum(one.numel() for one in list(kept.values())) > KEPT:
                kept = self.kept = {}
            kept[place] = bias
        heads = list(where.heads)
        return {self.names[0]: bias if heads == list(range(len(bias))) else bias[heads]}


def alibi_slopes(heads: int) -> Tensor:
    """Return m_h: 2^(-8/heads), 2^(-16/heads), ..., 2^-8   (Press et al. 2022, section 3, and the published code).

    If heads is not a power of 2: the slopes for the next lower power of 2, then every second one for the next higher.
    """
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2.0 ** (-8 * (head + 1) / power) for head in range(power)]
    between = [2.0 ** (-8 * (head + 1) / (2 * power)) for head in range(0, 2 * power, 2)]
    return torch.tensor((slopes + between)[:heads])


class Alibi(PositionalScore):
    """s(q_i, k_j) = q_i · k_j / sqrt(d_k) - m_h |i - j|   (Press et al. 2022, section 3). Nothing is learned.

    The paper's model is causal. In an encoder the distance counts to both sides.
    """

    names = ("distance",)
    by_offset = True

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.slopes = alibi_slopes(heads)

    def terms(self, query: Tensor, key: Tensor, where: Where) -> dict[str, Tensor]:
        slopes = self.slopes[list(where.heads)].to(query)
        return {self.names[0]: -slopes[:, None, None] * where.offsets(query.device).abs()}


CONTENT_TO_POSITION, POSITION_TO_CONTENT = "content to position", "position to content"
# The projection of offset vectors for each term: the content's queries meet their keys, and its keys their queries.
PROJECTIONS = {CONTENT_TO_POSITION: "key", POSITION_TO_CONTENT: "query"}


class Disentangled(PositionalScore):
    """s(q_i, k_j) = (q_i · k_j + q_i · K[δ(i, j)] + k_j · Q[δ(i, j)]) / sqrt(d_k (1 + terms))

    He et al. 2021, section 3.1, equations 3 and 4.

    δ(i, j) is the row for the offset i - j; rows below `span` are for keys after the query. K and Q are projections of
    one table of offset vectors, `[2 span, d_model]`, by `key` and `query`. (The paper writes Q[δ(j, i)], but its
    published code uses the row of i - j for both, as here.)

    kinds: the terms that are used. near: offsets have one row each up to near / 2, and logarithmic buckets beyond, up
    to `furthest` (`log_buckets`); 0 for one row each.
    vectors, norm: the table and its norm, if any. own: its projections, by "query" and "key"; without them `share`
    provides the content's.

    Raises ValueError for another kind.
    """

    def __init__(
        self,
        vectors: nn.Embedding,
        norm: nn.Module | None,
        own: Mapping[str, nn.Linear] | None,
        kinds: Sequence[str] = tuple(PROJECTIONS),
        near: int = 0,
        furthest: int = 512,
    ) -> None:
        super().__init__()
        if set(kinds) - set(PROJECTIONS):
            raise ValueError(f"terms are {' and '.join(PROJECTIONS)}, not {', '.join(kinds)}")
        self.vectors, self.norm = vectors, norm
        self.own = None if own is None else nn.ModuleDict(own)
        self.names = tuple(kinds)
        self.near, self.furthest = near, furthest
        self.span = vectors.num_embeddings // 2
        self.projections: dict[str, nn.Linear] = dict(own or {})
        self.kept: dict[str, Tensor] = {}

    def share(self, query: nn.Linear, key: nn.Linear) -> None:
        """Use the content's projections unless there are own ones."""
        if self.own is None:
            self.projections = {"query": query, "key": key}

    def scale(self, d_k: int) -> float:
        return float((d_k * (1 + len(self.names))) ** -0.5)

    def rows(self, offsets: Tensor) -> Tensor:
        """Return δ, the row of the table for offsets i - j."""
        near = log_buckets(offsets, self.near, self.furthest) if self.near else offsets
        return (near + self.span).clamp(0, 2 * self.span - 1)

    def projected(self, name: str, head_dim: int) -> Tensor:
        """Return K ("key") or Q ("query") of all heads, `[head, row, head_dim]`. Cached, since no text affects it."""
        made = self.kept.get(name)
        if made is None:
            vectors = self.vectors.weight if self.norm is None else self.norm(self.vectors.weight)
            made = self.kept[name] = self.projections[name](vectors).unflatten(-1, (-1, head_dim)).transpose(0, 1)
        return made

    def terms(self, query: Tensor, key: Tensor, where: Where) -> dict[str, Tensor]:
        head_dim, scale = query.shape[-1], self.scale(query.shape[-1])
        heads, queries, keys = list(where.heads), query.shape[-2], key.shape[-2]
        made: dict[str, Tensor] = {}
        # All offsets i - j of queries and keys, ascending.
        first, last = where.queries.start - where.keys.stop + 1, where.queries.stop - where.keys.start
        behind = torch.arange(first, last, device=query.device)
        if CONTENT_TO_POSITION in self.names:
            of_offset = self.projected("key", head_dim)[heads][:, self.rows(behind.flip(0))]  # j - i ascends
            made[CONTENT_TO_POSITION] = by_offset(query * scale @ of_offset.mT, keys)
        if POSITION_TO_CONTENT in self.names:
            of_offset = self.projected("query", head_dim)[heads][:, self.rows(behind)]
            made[POSITION_TO_CONTENT] = by_offset(key * scale @ of_offset.mT, queries).mT
        return made


def by_offset(x: Tensor, others: int) -> Tensor:
    """Convert values at (token, offset) to values at (token, other token), a view: `[..., token, other]`.

    x `[..., token, offset]`: all offsets other - token, ascending. Those of the last token begin at 0, and those of
    every earlier token begin one further   (Huang et al. 2018, "Music Transformer", section 3.4.1).
    """
    x = x.contiguous()
    tokens, offsets = x.shape[-2:]
    strides = (*x.stride()[:-2], offsets - 1, 1)
    return x.as_strided((*x.shape[:-1], others), strides, x.storage_offset() + tokens - 1)
