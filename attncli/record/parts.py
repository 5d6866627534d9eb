"""The parts of a record beside its weights: the model, the vectors of its heads, and the model's prediction."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from attncli.base.arrays import Doubles, Floats, Ints
from attncli.base.brief import Brief
from attncli.base.choices import Output
from attncli.base.untrusted import listed


def decimals(numbers: Floats) -> str:
    """JSON of an array of float32, each number in the fewest digits that read back as the same float32: 0.1.

    Raises ValueError for NaN and infinity, which JSON has not.
    """
    import orjson

    if not np.isfinite(numbers).all():
        raise ValueError("NaN and infinity are not JSON")
    return orjson.dumps(np.ascontiguousarray(numbers), option=orjson.OPT_SERIALIZE_NUMPY).decode("ascii")


VECTOR_ARRAYS = ("neurons", "query", "key")  # what vectors are called in files
TURNING_ARRAYS = ("rates", "pairs", "query_places", "key_places")  # how positions turned them, where they did
SCORE_ARRAYS = ("scale", "terms", "sinks", *TURNING_ARRAYS)  # what else makes their scores; older files lack it
Places = slice | Ints
CONTENT = "content"  # the part of a score that is made of q and k


@dataclass(frozen=True)
class ModelInfo:
    """Which model a record is of; the counts are the model's, not the record's.

    changes: what was done to its network, in words: "without 3.1, 4.0-2"; empty for nothing.
    """

    name: str
    path: str
    sha256: str
    layers: int
    heads: int
    hidden_size: int
    changes: str = ""

    @property
    def shown(self) -> str:
        """Its name, and what was done to it."""
        return f"{self.name} {self.changes}".strip()

    def document(self) -> dict[str, Any]:
        """As files and --json have it; `changes` where there are any."""
        return {name: value for name, value in asdict(self).items() if name != "changes" or value}


class Part(NamedTuple):
    """What of a text stands along a record's axes where that is not each of its tokens (`attncli.record.grouping`).

    tokens: how many it has; chosen: the numbers of those that are there, "" where all are; unit: "tokens" or "words",
    of which there are `units`, `size` of them in a stretch; 1 where each stands for itself.
    """

    tokens: int
    chosen: str
    unit: str
    units: int
    size: int

    @property
    def stretched(self) -> bool:
        return self.size > 1


@dataclass(frozen=True, repr=False)
class Turning(Brief):
    """How positions turned queries and keys: pair p of a vector at place t by the angle t · rates[head, p].

    A pair (a, b) became (a cos - b sin, b cos + a sin)   (Su et al. 2021, equation 34).

    rates: float64 `[head, pair]`, radians; pairs: int64 `[pair, 2]`, the elements of each, none twice, in the same
    way in all heads; queries, keys: int64 `[token]`, the places of these tokens in the text.
    """

    rates: Doubles
    pairs: Ints
    queries: Ints
    keys: Ints

    def back(self, vectors: Floats, head: int, places: Ints) -> Floats:
        """Vectors `[token, head_dim]` of the head at this place in `rates`, as they were before."""
        angles = places[:, None] * self.rates[head]
        cos, sin = np.cos(angles), np.sin(angles)
        one, other = (vectors[:, elements] for elements in self.pairs.T)
        before = vectors.copy()
        before[:, self.pairs[:, 0]] = one * cos + other * sin
        before[:, self.pairs[:, 1]] = other * cos - one * sin
        return before


@dataclass(frozen=True, repr=False)
class Vectors(Brief):
    """The queries and keys of some heads: what their scores are made of.

    A head's map is softmax(scale q k^T + sum of its terms) over the keys that its mask allows, and over its sink if it
    has one, up to the rounding of the dtype that the model computed in.

    heads: (layer, head), their numbers in the model, each once. query, key: float32 `[head, token, head_dim]`,
    in the order of `heads`, as they meet: turned where positions turn them (rotary), and not scaled yet.
    scale: float64 `[head]`, what q k^T is multiplied with; by default 1 / sqrt(head_dim).
    terms: what positions add then, by name, float32 `[head, query, key]`; 0 for a head that has no such term.
    turning: how positions turned them, if they did and it is known.
    sinks: float32 `[head]`, one further score of each head that takes part in the softmax and leads nowhere (gpt-oss);
    -inf for a head without one. Empty if no head has one.
    """

    heads: list[tuple[int, int]]
    query: Floats
    key: Floats
    scale: Doubles = field(default_factory=lambda: np.empty(0))
    terms: dict[str, Floats] = field(default_factory=dict)
    turning: Turning | None = None
    sinks: Floats = field(default_factory=lambda: np.empty(0, np.float32))

    def __post_init__(self) -> None:
        if not len(self.scale):
            object.__setattr__(self, "scale", np.full(len(self.heads), self.query.shape[-1] ** -0.5))

    def of(self, layer: int, head: int) -> tuple[Floats, Floats]:
        """Query and key of one head, `[token, head_dim]` each, by its numbers in the model.

        Raises KeyError for a head whose vectors are not here.
        """
        place = self.place(layer, head)
        return self.query[place], self.key[place]

    def before(self, layer: int, head: int) -> tuple[Floats, Floats]:
        """The same before positions turned them; the same where they don't. Raises KeyError as `of` does."""
        query, key = self.of(layer, head)
        if self.turning is None:
            return query, key
        place, turning = self.place(layer, head), self.turning
        return turning.back(query, place, turning.queries), turning.back(key, place, turning.keys)

    def place(self, layer: int, head: int) -> int:
        """Of a head along the first axes. Raises KeyError for a head whose vectors are not here."""
        if (layer, head) not in self.heads:
            raise KeyError(f"the vectors of layer {layer}, head {head} are not in this record")
        return self.heads.index((layer, head))

    def sink(self, layer: int, head: int) -> float | None:
        """Return the sink score of a head; None if it has none. Raises KeyError as `of` does."""
        place = self.place(layer, head)
        return float(self.sinks[place]) if len(self.sinks) and np.isfinite(self.sinks[place]) else None

    def parts(self, layer: int, head: int) -> dict[str, Doubles]:
        """What a head's scores are the sum of, `[query, key]` each: scale q k^T ("content"), and its terms.

        Raises KeyError as `of` does.
        """
        place = self.place(layer, head)
        query, key = (part.astype(np.float64) for part in self.of(layer, head))
        terms = {name: term[place].astype(np.float64) for name, term in self.terms.items()}
        return {CONTENT: self.scale[place] * query @ key.T, **terms}

    def between(self, queries: Places, keys: Places) -> "Vectors":
        """The same of some queries and some keys, by their places."""
        terms = {name: term[:, queries][..., keys] for name, term in self.terms.items()}
        turning = self.turning
        if turning is not None:
            turning = replace(turning, queries=turning.queries[queries], keys=turning.keys[keys])
        return replace(self, query=self.query[:, queries], key=self.key[:, keys], terms=terms, turning=turning)

    @property
    def size(self) -> int:
        """How many numbers these are."""
        return self.query.size + self.key.size + sum(term.size for term in self.terms.values())

    def select(self, layers: Sequence[int], heads: Sequence[int]) -> "Vectors | None":
        """The vectors of those heads that are among these layers and heads; None when there is none."""
        places = [place for place, (layer, head) in enumerate(self.heads) if layer in layers and head in heads]
        if not places:
            return None
        return Vectors(
            [self.heads[place] for place in places],
            self.query[places],
            self.key[places],
            self.scale[places],
            {name: term[places] for name, term in self.terms.items()},
            None if self.turning is None else replace(self.turning, rates=self.turning.rates[places]),
            self.sinks[places] if len(self.sinks) else self.sinks,
        )

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """What files hold of them, under VECTOR_ARRAYS and SCORE_ARRAYS; the terms' names are labels."""
        made: dict[str, npt.NDArray[Any]] = {
            "neurons": np.array(self.heads, dtype=np.int64),
            "query": np.ascontiguousarray(self.query),
            "key": np.ascontiguousarray(self.key),
            "scale": self.scale,
        }
        if self.terms:
            made["terms"] = np.stack(list(self.terms.values()))
        if len(self.sinks):
            made["sinks"] = self.sinks
        if self.turning is not None:
            turning = (getattr(self.turning, one.name) for one in fields(self.turning))
            made |= dict(zip(TURNING_ARRAYS, turning, strict=True))
        return made


def build_vectors(
    numbers: dict[str, Any], names: Sequence[str], layers: list[int], heads: list[int], queries: int, keys: int
) -> Vectors:
    """Vectors from arrays under VECTOR_ARRAYS and SCORE_ARRAYS, and the names of their terms.

    Raises ValueError where they don't fit the rest.
    """
    for name in VECTOR_ARRAYS:
        if name not in numbers:
            raise ValueError(f"it has vectors and no {name}")
    neurons, query, key = (numbers[name] for name in VECTOR_ARRAYS)
    pairs = pairs_of(neurons)
    if len(set(pairs)) != len(pairs) or not all(layer in layers and head in heads for layer, head in pairs):
        raise ValueError("neurons are not some of its heads, each once")
    for name, array, length in (("query", query, queries), ("key", key, keys)):
        if array.dtype != np.float32 or array.ndim != 3 or array.shape != (len(pairs), length, query.shape[-1]):
            raise ValueError(f"{name} is {array.dtype} {list(array.shape)} for {len(pairs)} heads, {length} tokens")
        if array.size == 0 or not np.isfinite(array).all():
            raise ValueError(f"{name} is empty or holds what is not a number")
    scale = numbers.get("scale", np.full(len(pairs), query.shape[-1] ** -0.5))
    if scale.dtype != np.float64 or scale.shape != (len(pairs),):
        raise ValueError(f"scale is {scale.dtype} {list(scale.shape)} for {len(pairs)} heads")
    if not (np.isfinite(scale) & (scale > 0)).all():
        raise ValueError("scale is not above 0")
    terms = numbers.get("terms", np.empty((0, len(pairs), queries, keys), np.float32))
    if terms.dtype != np.float32 or terms.shape != (len(names), len(pairs), queries, keys):
        wanted = f"{len(names)} names, {len(pairs)} heads, {queries} queries and {keys} keys"
        raise ValueError(f"terms are {terms.dtype} {list(terms.shape)} for {wanted}")
    if len({CONTENT, *names}) <= len(names) or not np.isfinite(terms).all():
        raise ValueError("terms have no names of their own, or hold what is not a number")
    sinks = numbers.get("sinks", np.empty(0, np.float32))
    if "sinks" in numbers and (sinks.dtype != np.float32 or sinks.shape != (len(pairs),)):
        raise ValueError(f"sinks are {sinks.dtype} {list(sinks.shape)} for {len(pairs)} heads")
    if np.isnan(sinks).any() or np.isposinf(sinks).any():
        raise ValueError("sinks hold what is not a number")
    turning = build_turning(numbers, len(pairs), queries, keys, query.shape[-1])
    return Vectors(pairs, query, key, scale, dict(zip(names, terms, strict=True)), turning, sinks)


def build_turning(numbers: dict[str, Any], heads: int, queries: int, keys: int, size: int) -> Turning | None:
    """How vectors of this size were turned, from arrays under TURNING_ARRAYS; None without any.

    Raises ValueError where they don't fit.
    """
    if not numbers.keys() & {*TURNING_ARRAYS}:
        return None
    for name in TURNING_ARRAYS:
        if name not in numbers:
            raise ValueError(f"its vectors were turned and it has no {name}")
    rates, pairs, *places = (numbers[name] for name in TURNING_ARRAYS)
    elements = set(pairs.ravel().tolist())
    if pairs.dtype != np.int64 or pairs.shape != (len(elements) // 2, 2) or not elements <= set(range(size)):
        raise ValueError(f"pairs are {pairs.dtype} {list(pairs.shape)}, not pairs of {size} elements, each once")
    if rates.dtype != np.float64 or rates.shape != (heads, len(pairs)) or not np.isfinite(rates).all():
        raise ValueError(f"rates are {rates.dtype} {list(rates.shape)} for {heads} heads, or not all numbers")
    for name, array, length in zip(TURNING_ARRAYS[2:], places, (queries, keys), strict=True):
        if array.dtype != np.int64 or array.shape != (length,) or (array < 0).any():
            raise ValueError(f"{name} are {array.dtype} {list(array.shape)} for {length} tokens, or below 0")
    return Turning(rates, pairs, *places)


def pairs_of(neurons: npt.NDArray[Any]) -> list[tuple[int, int]]:
    """(layer, head) of each of some heads. Raises ValueError for what are no such pairs."""
    if neurons.dtype != np.int64 or neurons.ndim != 2 or neurons.shape[1] != 2:
        raise ValueError(f"neurons are {neurons.dtype} {list(neurons.shape)}, not pairs of layer and head")
    return [(layer, head) for layer, head in listed("neurons", neurons)]


NOTHING = "O"  # the label of a token that is none of what is looked for (Ramshaw and Marcus 1995)
LIKELY = 0.5  # a label that has to do with no other is meant from this probability on


@dataclass(frozen=True)
class Answer:
    """One of them. logit: its score; of a span, of its first and its last token together. probability: None where there
    is none, as of a regression, whose answer the logit is. start, end: the tokens [start, end) that it is for; None
    where it is for the text as a whole.
    """

    label: str
    logit: float
    probability: float | None
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True)
class Said:
    """output: which of the model's outputs says so, by its name. answers: the best first; of tokens in their order, and
    of each [MASK] the best first.

    single: whether one label is right, so that the probabilities of all sum to 1.
    """

    output: str
    kind: Output
    single: bool
    answers: list[Answer]

    def document(self) -> dict[str, Any]:
        """As `run --json` has it."""
        return asdict(self)

    def between(self, groups: Sequence[Sequence[int]]) -> "Said":
        """The same of a text whose tokens are groups of these, in their order; what is for none of them is left out."""
        where = {place: number for number, group in enumerate(groups) for place in group}
        kept = []
        for answer in self.answers:
            if answer.start is None or answer.end is None:
                kept.append(answer)
            elif here := [where[place] for place in range(answer.start, answer.end) if place in where]:
                kept.append(replace(answer, start=here[0], end=here[-1] + 1))
        return replace(self, answers=kept)


def said_of(document: dict[str, Any] | None) -> Said | None:
    """From what a file holds, which has been held to its schema."""
    return None if document is None else Said(**{**document, "answers": [Answer(**one) for one in document["answers"]]})
