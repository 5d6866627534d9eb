"""Positions, since attention itself ignores the order of tokens.

Vectors of positions are added to the input, or scores depend on positions:

    s(q_i, k_j) = scale · turn(q_i, i) · turn(k_j, j) + Σ terms(i, j)

Either queries and keys are rotated by an angle proportional to the position (`RotaryScore`), or terms that depend on
the distance are added: a learned bias, a slope, or disentangled attention. A `PositionalScore` is a scoring function
like those of `scores`, with access to its parts.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

# --- vectors added to the input ------------------------------------------------------------------------


class LearnedPositions(nn.Module):
    """One learned vector per position, as in BERT (Devlin et al. 2019, section 3; Gehring et al. 2017).

    `embedding` is the class of the table, for example one filled from a checkpoint.
    """

    def __init__(self, positions: int, d_model: int, embedding: type[nn.Embedding] = nn.Embedding) -> None:
        super().__init__()
        self.table = embedding(positions, d_model)

    def forward(self, positions: Tensor) -> Tensor:
        """Position numbers `[..., token]` (int) -> vectors `[..., token, d_model]`."""
        vectors: Tensor = self.table(positions)
        return vectors


class SinusoidalPositions(nn.Module):
    """PE(pos, 2i) = sin(pos / 10000^(2i / d_model)),  PE(pos, 2i + 1) = cos(the same).

    Vaswani et al. 2017, section 3.5. Nothing is learned, and there is no last position.

    Raises ValueError if `d_model` is odd: sine and cosine come in pairs.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        if d_model % 2 != 0:
            raise ValueError(f"sine and cosine come in pairs: d_model {d_model} is odd")
        self.d_model = d_model

    def forward(self, positions: Tensor) -> Tensor:
        """Position numbers `[..., token]` -> vectors `[..., token, d_model]` in torch's default dtype."""
        # In double precision for any dtype of the module: at position 500 the rounding error of an angle in
        # float32 already affects its sine.
        pair = torch.arange(0, self.d_model, 2, dtype=torch.float64, device=positions.device)
        frequencies = 10000.0 ** (-pair / self.d_model)
        angles = positions[..., None].double() * frequencies  # [..., token, d_model / 2]
        pairs = torch.stack([angles.sin(), angles.cos()], dim=-1)  # [..., token, d_model / 2, 2]
        return pairs.flatten(-2).to(torch.get_default_dtype())


# --- scores that depend on positions -------------------------------------------------------------------


_Rotation = Callable[[Tensor], Tensor]


class Where(NamedTuple):
    """Some heads, queries and keys of a text, counted from 0."""

    heads: Sequence[int]
    queries: slice
    keys: slice

    def offsets(self, device: torch.device | None = None) -> Tensor:
        """Return the distance of each key after each query: j - i, `[query, key]`."""
        queries = torch.arange(self.queries.start, self.queries.stop, device=device)
        keys = torch.arange(self.keys.start, self.keys.stop, device=device)
        return keys - queries[:, None]


class PositionalScore(nn.Module):
    """The scaled dot product. Subclasses rotate the vectors or add terms.

    names: of the terms. by_offset: the terms depend only on the distance of query and key. turned: the vectors that
    positions rotate, by `rotary`, if any. factor: of the dot product, by default 1 / sqrt(d_k). softcap: bounds the
    scaled scores s to c tanh(s / c) (Gemma Team 2024, "Gemma 2", section 2); None for no bound.
    """

    names: tuple[str, ...] = ()
    turned: tuple[str, ...] = ("query", "key")
    by_offset = False
    rotary: "Rotary | None" = None
    factor: float | None = None
    softcap: float | None = None

    @property
    def has_terms(self) -> bool:
        return bool(self.names)

    def scale(self, d_k: int) -> float:
        """Return the factor of the dot product: 1 / sqrt(d_k), or the network's own."""
        return float(d_k**-0.5) if self.factor is None else self.factor

    def rotation(self, positions: Tensor, dtype: torch.dtype) -> _Rotation:
        """Return the function that rotates `[..., head, token, head_dim]` vectors at these positions `[token]`."""
        return lambda x: x

    def turn(self, x: Tensor, positions: Tensor) -> Tensor:
        """Rotate queries or keys at these positions."""
        return self.rotation(positions, x.dtype)(x)

    def terms(self, query: Tensor, key: Tensor, where: Where) -> dict[str, Tensor]:
        """Return the terms added to the scaled dot product, by name. Each broadcasts to `[..., head, query, key]`."""
        return {}

    def forward(
        self, query: Tensor, key: Tensor, heads: Sequence[int] | None = None, positions: Tensor | None = None
    ) -> Tensor:
        """Return the scores of complete texts, `[..., head, query, head_dim]` and `[..., head, key, head_dim]` ->
        `[..., head, query, key]`. heads: the numbers of these heads, by default all. positions: of the tokens, by
        default 0, 1, 2, ...
        """
        where = Where(
            range(query.shape[-3]) if heads is None else heads, slice(0, query.shape[-2]), slice(0, key.shape[-2])
        )
        turned, met = (
            self.turn(x, torch.arange(x.shape[-2], device=x.device) if positions is None else positions)
            for x in (query, key)
        )
        scores = turned * self.scale(query.shape[-1]) @ met.mT
        if self.softcap is not None:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        for term in self.terms(query, key, where).values():
            scores = scores + term
        return scores


# --- rotation ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rotary:
    """Pair i of a vector at position p is rotated by the angle p · base^(-2i / rotated)   (Su et al. 2021, equation
    34).

    The dot product of two vectors rotated by m θ and n θ equals that of rotations by (m - n) θ and 0. So it depends
    only on the difference of their positions (section 3.2).

    rotated: the number of rotated elements, from the first; even. interleaved: pairs are the elements 2i and 2i + 1, as
    in the paper; else i and i + rotated / 2 (GPT-NeoX, ModernBERT). values: values are rotated too, as in some of
    RoFormer's. exact: angles are computed in float64 for any dtype of sines and cosines, as in a precomputed table.
    stretch: a divisor of positions, so that longer texts have the angles of shorter ones (Chen et al. 2023, equation
    2); or one divisor for each pair, as in Llama 3.1.
    """

    rotated: int
    base: float = 10_000.0
    interleaved: bool = False
    values: bool = False
    exact: bool = False
    stretch: float | tuple[float, ...] = 1.0

    def __post_init__(self) -> None:
        if self.rotated % 2 != 0:
            raise ValueError(f"elements are rotated in pairs: {self.rotated} is odd")

    def angles(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return cosine and sine for positions `[token]`, each `[token, rotated / 2]`.

        They are computed in float32, or in float64 for float64. At position 8,000 the two differ by about 1e-4.
        Networks were trained with float32, except those with a table.
        """
        if self.exact:  # on the CPU, since not every device supports float64
            exact = positions.cpu()[:, None] * self.rates(torch.float64)
            return exact.cos().to(positions.device, dtype), exact.sin().to(positions.device, dtype)
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        angles = positions[:, None].to(wide) * self.rates(wide, positions.device)
        return angles.cos().to(dtype), angles.sin().to(dtype)

    def rates(self, dtype: torch.dtype, device: torch.device | None = None) -> Tensor:
        """Return the angle between neighbouring positions for each pair, `[rotated / 2]`, in radians."""
        pair = torch.arange(0, self.rotated, 2, dtype=dtype, device=device)
        return 1.0 / self.base ** (pair / self.rotated) / torch.tensor(self.stretch, dtype=dtype, device=device)

    def pairs(self) -> Tensor:
        """Return the two elements of every pair, int `[rotated / 2, 2]`."""
        elements = torch.arange(self.rotated)
        return elements.view(-1, 2) if self.interleaved else elements.view(2, -1).mT

    def turn(self, x: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
        """Rotate x `[..., token, head_dim]` by the result of `angles`."""
        cos, sin = angles
        turned, rest = x[..., : self.rotated], x[..., self.rotated :]
        if self.interleaved:
            first, second = turned[..., 0::2], turned[..., 1::2]
        else:
            first, second = turned.chunk(2, dim=-1)
        pairs = (first * cos - second * sin, second * cos + first * sin)
        joined = torch.stack(pairs, dim=-1).flatten(-2) if self.interleaved else torch.cat(pairs, dim=-1)
        return torch.cat([joined, rest], dim=-1) if rest.shape[-1] else joined


class RotaryScore(PositionalScore):
    """s(q_i, k_j) = turn(q_i, i) · turn(k_j, j) / sqrt(d_k)   (Su et al. 2021, equation 16)."""

    rotary: Rotary

    def __init__(self, rotary: Rotary) -> None:
        super().__init__()
        self.rotary = rotary
        if rotary.values:
            self.turned = (*self.turned, "value")

    def rotation(self, positions: Tensor, dtype: torch.dtype) -> _Rotation:
        return partial(self.rotary.turn, angles=self.rotary.angles(positions, dtype))


# --- terms that depend on the distance -----------------------------------------------------------------


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

    table is b, a number for each bucket and head, `[buckets, heads]`. furthest: the distance from which all larger ones
    share a bucket. `embedding` is the table's class.
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
