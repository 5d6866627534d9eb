"""The parts of a record besides its weights: the model, the vectors of its heads, and the model's prediction."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Annotated, Any, NamedTuple, TypedDict, cast

import numpy as np
import numpy.typing as npt

from attncli.base.arrays import Brief, Doubles, Floats, Ints
from attncli.base.choices import MaskName, Method, OutputName, one_of
from attncli.base.typed import NotRequired
from attncli.base.untrusted import listed


def decimals(numbers: Floats) -> str:
    """Return an array of float32 as JSON. Each number has the fewest digits that read back as the same float32: 0.1.

    Raises ValueError for NaN and infinity, which JSON does not have.
    """
    import orjson

    if not np.isfinite(numbers).all():
        raise ValueError("NaN and infinity are not JSON")
    return orjson.dumps(np.ascontiguousarray(numbers), option=orjson.OPT_SERIALIZE_NUMPY).decode("ascii")


VECTOR_ARRAYS = ("neurons", "query", "key")  # names of the vectors in files
ROTATION_ARRAYS = ("rates", "pairs", "query_places", "key_places")  # rotary positions, if any
SCORE_ARRAYS = ("scale", "terms", "sinks", *ROTATION_ARRAYS)  # the other parts of the scores; older files lack them
_Places = slice | Ints
CONTENT = "content"  # the part of a score computed from q and k


class ModelDocument(TypedDict):
    """The model of a document: under `model`, and in `diff` on each side."""

    name: Annotated[str, "as in `--model`, or made up for random weights"]
    path: Annotated[str | None, "the directory of its files; null for random weights"]
    sha256: Annotated[str | None, "of its weight files"]
    layers: Annotated[
        int | None,
        "number of layers in the model, even if the document has fewer; this and the next two are null if the model's "
        "files don't say (`models show`)",
    ]
    heads: Annotated[int | None, "per layer"]
    hidden_size: Annotated[int | None, "size of a token's vector between layers"]
    changes: NotRequired[Annotated[str, 'changes to its network (`--without`): "without 3.1,4.0-2"']]
    key_heads: NotRequired[Annotated[int, "per layer, if groups of heads share keys and values"]]


class PlaceDocument(TypedDict):
    """A token of a text, as a query or as a key."""

    index: Annotated[int, "its position in `tokens` (for a key, in `key_tokens` if present)"]
    token: Annotated[str, "as in the vocabulary"]
    shown: NotRequired[Annotated[str, "as displayed (`explain`, `find`)"]]


class LikelyDocument(TypedDict):
    """The likeliest tokens, best first."""

    token: Annotated[str, "as in the vocabulary"]
    shown: Annotated[str, "as displayed"]
    probability: float


class LensLayerDocument(TypedDict):
    """The embeddings, if no layers were chosen, and then the layers."""

    layer: Annotated[int | None, "null: after the embeddings"]
    likeliest: list[LikelyDocument]


class LensDocument(TypedDict):
    """The tokens that the vectors after each layer would predict: with `run --lens`, where `records` is empty then, and
    with `generate --lens --query`.
    """

    query: Annotated[PlaceDocument, "the token whose successor is predicted, or that is itself predicted ([MASK])"]
    mask: str
    tokens: Annotated[list[str], "of the text", "`[token]`"]
    layers: list[LensLayerDocument]


class HeadDocument(TypedDict):
    """A head, with further fields where it is used."""

    layer: Annotated[int, "layer number in the model"]
    head: Annotated[int, "head number in its layer"]


class _MaskEntry(TypedDict):
    """Only if some layers hide more keys than `mask` does, as layers with a window do."""

    layers: Annotated[list[int], "the layers with this mask", "`[layer]`"]
    allowed: Annotated[
        list[list[list[int]]],
        "the keys that a query may attend to, as runs [first key, end); all others are hidden",
        "`[query][run][2]`",
    ]


class _AnswerEntry(TypedDict):
    """For a text its labels (at most 20) or spans (3), best first; for each token its label; for each [MASK] 3 words,
    best first.
    """

    label: Annotated[str, "a label, a word, the words of a span, or a next token with its leading space"]
    logit: Annotated[float, "for a regression its value; for a span the sum of its start and end logits", "logit"]
    probability: Annotated[float | None, "null for a regression"]
    start: Annotated[int | None, "index in `tokens` of its first token; null if it is for the whole text"]
    end: Annotated[int | None, "index after its last token"]


class _PredictionEntry(TypedDict):
    """The prediction of the model's output head, if attncli can read it; words are predicted only if the text has a
    [MASK]."""

    output: Annotated[str, "the output head's name: classes, tokens, span, words, or a name that only this family has"]
    kind: Annotated[str, "classes, tokens, span or words"]
    single: Annotated[
        bool,
        "true: one label is right and all probabilities sum to 1; false: each label has its own probability, or none",
    ]
    answers: list[_AnswerEntry]


class _MapEntry(HeadDocument):
    """Layer by layer; heads of different layers (`-H 3.1,1.8`) in the order chosen. For these, .npz and .safetensors
    store the chosen heads as `pairs`, and the weights of all other heads are 0 there.
    """

    weights: Annotated[
        list[list[float]],
        "each row sums to 1 (with `sinks` to at most 1), or is 0 if the query sees no key; norms have no such sum. "
        "float32, in the fewest digits that read back the same",
        "`[query][key]`",
    ]
    terms: NotRequired[
        Annotated[
            dict[str, list[list[float]]],
            "the terms of each score by name, also for hidden keys: content (scaled q · k), and what positions, a bias "
            "or a softcap add (`run --terms`)",
            "`[query][key]`",
        ]
    ]
    method: NotRequired[Annotated[Method, "the method of these shares (`flow`)"]]


class RecordDocument(TypedDict):
    """The maps of one text."""

    tokens: Annotated[
        list[str], "the units along the queries, and along the keys if there are no `key_tokens`", "`[query]`"
    ]
    key_tokens: NotRequired[Annotated[list[str], "the units along the keys, if they differ from `tokens`", "`[key]`"]]
    rows: NotRequired[
        Annotated[
            list[int],
            "the place of each query in `key_tokens`, if only some rows of the text's maps were computed (`--query`); "
            "also stored in .npz and .safetensors",
            "`[query]`",
        ]
    ]
    shown: NotRequired[
        Annotated[list[str], "`tokens` as displayed, if that differs from the vocabulary's form", "`[query]`"]
    ]
    key_shown: NotRequired[Annotated[list[str], "the same for `key_tokens`", "`[key]`"]]
    segments: Annotated[list[int], "0 for the first text, 1 for the second of a pair", "`[query]`"]
    mask: Annotated[str, one_of(MaskName)]
    masks: NotRequired[list[_MaskEntry]]
    prediction: NotRequired[_PredictionEntry]
    written: NotRequired[
        Annotated[
            int,
            "index in `tokens` of the first generated token (`generate`); `prediction` then has the "
            "5 most likely next tokens at each position, from the one before that token on",
        ]
    ]
    kind: NotRequired[Annotated[str, "decoder or cross; missing for encoder attention"]]
    measure: NotRequired[Annotated[str, "norm, or share of norm; missing for weights"]]
    dtype: NotRequired[
        Annotated[str, "bfloat16 or float16, if the maps were computed in it; rows then sum to 1 less exactly"]
    ]
    sinks: NotRequired[
        Annotated[
            bool,
            "true if heads have a sink score (gpt-oss), which is in the softmax but belongs to no key: rows then sum "
            "to at most 1. Also stored in .npz and .safetensors, whose array `sinks` `[head]` has the scores of the "
            "heads in `neurons`",
        ]
    ]
    attention: list[_MapEntry]


class KnownKinds(NamedTuple):
    """The names of heads' kinds by (layer, head), as `attncli kinds` measured them.

    origin: the file that they come from. model, sha256, part: what was measured.
    """

    heads: Mapping[tuple[int, int], Sequence[str]]
    origin: str
    model: str
    sha256: str
    part: str


@dataclass(frozen=True)
class ModelInfo:
    """The model of a record. The counts are the model's, not the record's.

    changes: the modifications of its network in words, "without 3.1, 4.0-2"; empty if there are none. key_heads: the
    number of key heads, if groups of heads share them.
    """

    name: str
    path: str
    sha256: str
    layers: int
    heads: int
    hidden_size: int
    changes: str = ""
    key_heads: int | None = None

    @property
    def full_name(self) -> str:
        """Return its name and its modifications."""
        return f"{self.name} {self.changes}".strip()

    def document(self) -> ModelDocument:
        """Return the entry in files and --json, with `changes` and `key_heads` only if there are any."""
        entry = {name: value for name, value in asdict(self).items() if name not in ("changes", "key_heads") or value}
        return cast("ModelDocument", entry)


USUAL_ARRAYS = ("usual_sums", "usual_counts")  # names of the usual weights in files


@dataclass(frozen=True, repr=False)
class UsualWeights(Brief):
    """Sums of the weights that a record's heads give between words at each distance, over other texts.

    `attncli.analysis.edges` has the distances, and computes the usual weight of an edge from them.

    sums: float64 `[layer, head, distance]`. counts: float64 `[layer, distance]`, the number of summed weights.
    texts: the number of other texts.
    """

    sums: Doubles
    counts: Doubles
    texts: int

    def select(self, rows: Sequence[int], columns: Sequence[int]) -> "UsualWeights":
        """Return the usual weights of some layers and heads, by index."""
        return UsualWeights(self.sums[np.ix_(rows, columns)], self.counts[rows], self.texts)

    def arrays(self) -> dict[str, Doubles]:
        """Return the arrays as files store them."""
        return dict(zip(USUAL_ARRAYS, (self.sums, self.counts), strict=True))


class AxisUnits(NamedTuple):
    """Describes the units on a record's axes if they are not all tokens of the text (`attncli.record.grouping`).

    tokens: the number of tokens in the text. chosen: the numbers of the selected ones, "" for all. unit: "tokens",
    "words", "lines", "sentences" or "parts". units: their number. size: units per stretch; 1 if there are no stretches.
    """

    tokens: int
    chosen: str
    unit: str
    units: int
    size: int

    @property
    def stretched(self) -> bool:
        """Return True if a unit can have several words, so that single words are unknown."""
        return self.size > 1 or self.unit not in ("tokens", "words")


@dataclass(frozen=True, repr=False)
class Rotation(Brief):
    """Rotary positions: pair p of a vector at place t is rotated by the angle t · rates[head, p].

    The rotation maps a pair (a, b) to (a cos - b sin, b cos + a sin)   (Su et al. 2021, equation 34).

    rates: float64 `[head, pair]`, radians. pairs: int64 `[pair, 2]`, the two elements of each pair, without repetition,
    for all heads. queries, keys: int64 `[token]`, the places of these tokens in the text.
    """

    rates: Doubles
    pairs: Ints
    queries: Ints
    keys: Ints

    def undo(self, vectors: Floats, head: int, places: Ints) -> Floats:
        """Return the vectors `[token, head_dim]` of head number `head` of `rates` as they were before the rotation."""
        angles = places[:, None] * self.rates[head]
        cos, sin = np.cos(angles), np.sin(angles)
        one, other = (vectors[:, elements] for elements in self.pairs.T)
        before = vectors.copy()
        before[:, self.pairs[:, 0]] = one * cos + other * sin
        before[:, self.pairs[:, 1]] = other * cos - one * sin
        return before


@dataclass(frozen=True, repr=False)
class Vectors(Brief):
    """The queries and keys of some heads, from which their scores are computed.

    A head's map is softmax(scale q k^T + sum of its terms) over the keys that its mask allows, and over its sink if it
    has one, up to the rounding of the dtype that the model computed in.

    heads: (layer, head), their numbers in the model, without repetition. query, key: float32 `[head, token, head_dim]`,
    in the order of `heads`, rotated if positions are rotary, and not yet scaled.
    scale: float64 `[head]`, the factor of q k^T; by default 1 / sqrt(head_dim).
    terms: the scores that positions add, by name, float32 `[head, query, key]`; 0 for a head without this term.
    rotation: the rotation by positions, if there is one and it is known.
    sinks: float32 `[head]`, an extra score of each head in the softmax that belongs to no key (gpt-oss); -inf for a
    head without one. Empty if no head has one.
    """

    heads: list[tuple[int, int]]
    query: Floats
    key: Floats
    scale: Doubles = field(default_factory=lambda: np.empty(0))
    terms: dict[str, Floats] = field(default_factory=dict)
    rotation: Rotation | None = None
    sinks: Floats = field(default_factory=lambda: np.empty(0, np.float32))

    def __post_init__(self) -> None:
        if not len(self.scale):
            object.__setattr__(self, "scale", np.full(len(self.heads), self.query.shape[-1] ** -0.5))

    def of(self, layer: int, head: int) -> tuple[Floats, Floats]:
        """Return the query and key of one head, `[token, head_dim]` each, by its numbers in the model.

        Raises KeyError for a head whose vectors are missing.
        """
        place = self.place(layer, head)
        return self.query[place], self.key[place]

    def before(self, layer: int, head: int) -> tuple[Floats, Floats]:
        """Return query and key as `of` does, but before positions rotate them. Raises KeyError as `of` does."""
        query, key = self.of(layer, head)
        if self.rotation is None:
            return query, key
        place, rotation = self.place(layer, head), self.rotation
        return rotation.undo(query, place, rotation.queries), rotation.undo(key, place, rotation.keys)

    def place(self, layer: int, head: int) -> int:
        """Return a head's place on the first axes. Raises KeyError for a head whose vectors are missing."""
        if (layer, head) not in self.heads:
            raise KeyError(f"the vectors of layer {layer}, head {head} are not in this record")
        return self.heads.index((layer, head))

    def sink(self, layer: int, head: int) -> float | None:
        """Return the sink score of a head; None if it has none. Raises KeyError as `of` does."""
        place = self.place(layer, head)
        return float(self.sinks[place]) if len(self.sinks) and np.isfinite(self.sinks[place]) else None

    def parts(self, layer: int, head: int) -> dict[str, Doubles]:
        """Return the summands of a head's scores, `[query, key]` each: scale q k^T ("content"), and its terms.

        Raises KeyError as `of` does.
        """
        place = self.place(layer, head)
        query, key = (part.astype(np.float64) for part in self.of(layer, head))
        terms = {name: term[place].astype(np.float64) for name, term in self.terms.items()}
        return {CONTENT: self.scale[place] * query @ key.T, **terms}

    def between(self, queries: _Places, keys: _Places) -> "Vectors":
        """Return the vectors of some queries and some keys, by their places."""
        terms = {name: term[:, queries][..., keys] for name, term in self.terms.items()}
        rotation = self.rotation
        if rotation is not None:
            rotation = replace(rotation, queries=rotation.queries[queries], keys=rotation.keys[keys])
        return replace(self, query=self.query[:, queries], key=self.key[:, keys], terms=terms, rotation=rotation)

    @property
    def size(self) -> int:
        """Return the total number of elements of query, key and terms."""
        return self.query.size + self.key.size + sum(term.size for term in self.terms.values())

    def select(self, heads: Collection[tuple[int, int]]) -> "Vectors | None":
        """Return the vectors of these heads; None if the record has vectors of none of them."""
        places = [place for place, head in enumerate(self.heads) if head in heads]
        if not places:
            return None
        return Vectors(
            [self.heads[place] for place in places],
            self.query[places],
            self.key[places],
            self.scale[places],
            {name: term[places] for name, term in self.terms.items()},
            None if self.rotation is None else replace(self.rotation, rates=self.rotation.rates[places]),
            self.sinks[places] if len(self.sinks) else self.sinks,
        )

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays for files, under VECTOR_ARRAYS and SCORE_ARRAYS. The names of the terms are labels."""
        made: dict[str, npt.NDArray[Any]] = {
            "neurons": np.array(self.heads, dtype=np.int64),
            "query": np.ascontiguousarray(self.query),
            "key": np.ascontiguousarray(self.key),
            "scale": self.scale,
        }
        if self.terms:
            made["terms"] = np.ascontiguousarray(list(self.terms.values()))
        if len(self.sinks):
            made["sinks"] = self.sinks
        if self.rotation is not None:
            rotation = (getattr(self.rotation, one.name) for one in fields(self.rotation))
            made |= dict(zip(ROTATION_ARRAYS, rotation, strict=True))
        return made


def build_vectors(
    numbers: dict[str, Any], names: Sequence[str], layers: list[int], heads: list[int], queries: int, keys: int
) -> Vectors:
    """Build Vectors from arrays under VECTOR_ARRAYS and SCORE_ARRAYS, and the names of their terms.

    Raises ValueError if they are inconsistent.
    """
    for name in VECTOR_ARRAYS:
        if name not in numbers:
            raise ValueError(f"it has vectors but no {name}")
    neurons, query, key = (numbers[name] for name in VECTOR_ARRAYS)
    pairs = pairs_of(neurons)
    if len(set(pairs)) != len(pairs) or not all(layer in layers and head in heads for layer, head in pairs):
        raise ValueError("neurons are not distinct heads of the record")
    for name, array, length in (("query", query, queries), ("key", key, keys)):
        if array.dtype != np.float32 or array.ndim != 3 or array.shape != (len(pairs), length, query.shape[-1]):
            raise ValueError(f"{name} is {array.dtype} {list(array.shape)} for {len(pairs)} heads, {length} tokens")
        if array.size == 0 or not np.isfinite(array).all():
            raise ValueError(f"{name} is empty or contains a value that is not a number")
    scale = numbers.get("scale", np.full(len(pairs), query.shape[-1] ** -0.5))
    if scale.dtype != np.float64 or scale.shape != (len(pairs),):
        raise ValueError(f"scale is {scale.dtype} {list(scale.shape)} for {len(pairs)} heads")
    if not (np.isfinite(scale) & (scale > 0)).all():
        raise ValueError("scale is not positive")
    terms = numbers.get("terms", np.empty((0, len(pairs), queries, keys), np.float32))
    if terms.dtype != np.float32 or terms.shape != (len(names), len(pairs), queries, keys):
        wanted = f"{len(names)} names, {len(pairs)} heads, {queries} queries and {keys} keys"
        raise ValueError(f"terms are {terms.dtype} {list(terms.shape)} for {wanted}")
    if len({CONTENT, *names}) <= len(names) or not np.isfinite(terms).all():
        raise ValueError("terms have no distinct names, or contain a value that is not a number")
    sinks = numbers.get("sinks", np.empty(0, np.float32))
    if "sinks" in numbers and (sinks.dtype != np.float32 or sinks.shape != (len(pairs),)):
        raise ValueError(f"sinks are {sinks.dtype} {list(sinks.shape)} for {len(pairs)} heads")
    if np.isnan(sinks).any() or np.isposinf(sinks).any():
        raise ValueError("sinks contain a value that is not a number")
    rotation = build_rotation(numbers, len(pairs), queries, keys, query.shape[-1])
    return Vectors(pairs, query, key, scale, dict(zip(names, terms, strict=True)), rotation, sinks)


def build_rotation(numbers: dict[str, Any], heads: int, queries: int, keys: int, size: int) -> Rotation | None:
    """Build the Rotation of vectors of this size from arrays under ROTATION_ARRAYS; None if there are no such arrays.

    Raises ValueError if they are inconsistent.
    """
    if not numbers.keys() & {*ROTATION_ARRAYS}:
        return None
    for name in ROTATION_ARRAYS:
        if name not in numbers:
            raise ValueError(f"its vectors are rotated but it has no {name}")
    rates, pairs, *places = (numbers[name] for name in ROTATION_ARRAYS)
    elements = set(pairs.ravel().tolist())
    if pairs.dtype != np.int64 or pairs.shape != (len(elements) // 2, 2) or not elements <= set(range(size)):
        raise ValueError(f"pairs are {pairs.dtype} {list(pairs.shape)}, not distinct pairs of {size} elements")
    if rates.dtype != np.float64 or rates.shape != (heads, len(pairs)) or not np.isfinite(rates).all():
        raise ValueError(f"rates are {rates.dtype} {list(rates.shape)} for {heads} heads, or not all numbers")
    for name, array, length in zip(ROTATION_ARRAYS[2:], places, (queries, keys), strict=True):
        if array.dtype != np.int64 or array.shape != (length,) or (array < 0).any():
            raise ValueError(f"{name} are {array.dtype} {list(array.shape)} for {length} tokens, or below 0")
    return Rotation(rates, pairs, *places)


def pairs_of(neurons: npt.NDArray[Any]) -> list[tuple[int, int]]:
    """Return (layer, head) for each row of `neurons`. Raises ValueError if they are not such pairs."""
    if neurons.dtype != np.int64 or neurons.ndim != 2 or neurons.shape[1] != 2:
        raise ValueError(f"neurons are {neurons.dtype} {list(neurons.shape)}, not pairs of layer and head")
    return [(layer, head) for layer, head in listed("neurons", neurons)]


NOTHING = "O"  # the label of a token outside every entity (Ramshaw and Marcus 1995)
LIKELY = 0.5  # the least probability with which an independent label is predicted


@dataclass(frozen=True)
class Answer:
    """One answer of a prediction.

    logit: its score; for a span, the sum of the scores of its first and last token. probability: None if there is none,
    as in a regression, whose answer is the logit. start, end: the tokens [start, end) of the answer; None if it is
    about the whole text.
    """

    label: str
    logit: float
    probability: float | None
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True)
class PredictionSummary:
    """A model's prediction for a text.

    output: the name of the model's output. answers: the best first; for tokens in their order, with the best first for
    each [MASK]. single: True if exactly one label applies, so that the probabilities of all labels sum to 1.
    """

    output: str
    kind: OutputName
    single: bool
    answers: list[Answer]

    def document(self) -> dict[str, Any]:
        """Return the entry in `run --json`."""
        return asdict(self)

    def between(self, groups: Sequence[Sequence[int]]) -> "PredictionSummary":
        """Return the prediction with tokens renumbered to groups. Answers about tokens in no group are dropped."""
        where = {place: number for number, group in enumerate(groups) for place in group}
        kept = []
        for answer in self.answers:
            if answer.start is None or answer.end is None:
                kept.append(answer)
            elif here := [where[place] for place in range(answer.start, answer.end) if place in where]:
                kept.append(replace(answer, start=here[0], end=here[-1] + 1))
        return replace(self, answers=kept)
