"""Records of every kind, to be saved, and whether one that was loaded is the same."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st
from records import attention_records, cross_records

from attncli.record import AttentionRecord, Vectors
from attncli.record.grouping import group_record
from attncli.record.parts import Rotation
from attncli.record.selection import Grouping

NATIVE = (".npz", ".safetensors")


@st.composite
def any_records(draw) -> AttentionRecord:
    """Any numbers of layers and heads in any order, words and characters of every kind, all masks.

    A mask that says the same of every query is stored once, in no memory of its own, as a model makes it; or every
    layer has its own.
    """
    record = draw(cross_records() | attention_records(padding=draw(st.integers(0, 3))))
    layers, heads, length, keys = record.weights.shape
    head_dim = draw(st.integers(1, 5))
    numbers = np.random.default_rng(draw(st.integers(0, 2**32)))
    masks = numbers.random(draw(st.sampled_from([(keys,), (layers, length, keys)]))) < 0.5
    masks = np.broadcast_to(masks, (layers, length, keys))
    raised = record.weights * masks[:, None]
    sums = raised.sum(axis=-1, keepdims=True)
    measure = draw(st.sampled_from(["weight", "norm", "share of norm"]))
    words = draw(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), min_size=1, max_size=4))
    record = dataclasses.replace(
        record,
        weights=7 * raised if measure == "norm" else np.divide(raised, sums, out=raised, where=sums > 0),
        layers=numbers.permutation(30)[:layers].tolist(),
        heads=numbers.permutation(30)[:heads].tolist(),
        model=dataclasses.replace(record.model, layers=30, heads=30),
        tokens=dataclasses.replace(record.tokens, text=[words[place % len(words)] for place in range(length)]),
        masks=masks,
        mask_name=draw(st.sampled_from(["padding", "causal", "none"])),
        kind="cross" if record.key_tokens is not None else draw(st.sampled_from(["encoder", "decoder"])),
        measure=measure,
    )
    pairs = [(layer, head) for layer in record.layers for head in record.heads]
    neurons = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=4))
    terms = draw(st.lists(st.sampled_from(["position", "position to content", "β→"]), unique=True))
    if neurons:
        record = with_vectors(record, neurons, head_dim, terms)
        record = turned(record) if draw(st.booleans()) else record
    return some_rows(record) if record.key_tokens is None and draw(st.booleans()) else record


def some_rows(record: AttentionRecord) -> AttentionRecord:
    """Keep the rows of the first token and the last but one."""
    return group_record(record, Grouping(queries=[0, -2]))


def turned(record: AttentionRecord) -> AttentionRecord:
    """Add a description of rotated vectors: the pairs (1, 0), (3, 2), ... as far as there are elements."""
    vectors = record.vectors
    pairs = np.arange(vectors.query.shape[-1] // 2 * 2).reshape(-1, 2)[:, ::-1].copy()
    rates = 0.1 + np.arange(float(len(vectors.heads) * len(pairs))).reshape(len(vectors.heads), len(pairs))
    places = (2 * np.arange(array.shape[1]) for array in (vectors.query, vectors.key))
    return dataclasses.replace(record, vectors=dataclasses.replace(vectors, rotation=Rotation(rates, pairs, *places)))


def with_vectors(
    record: AttentionRecord, neurons: list[tuple[int, int]], head_dim: int = 4, terms: Sequence[str] = ()
) -> AttentionRecord:
    """Add queries and keys for these heads, all numbers different, and scales and terms of these names."""
    sizes = [(len(neurons), len(tokens), head_dim) for tokens in (record.tokens, record.keys)]
    query, key = (np.arange(np.prod(shape), dtype=np.float32).reshape(shape) - 7 for shape in sizes)
    key += query.size
    if not terms:
        return dataclasses.replace(record, vectors=Vectors(neurons, query, key))
    shape = (len(neurons), *record.weights.shape[-2:])
    added = {name: np.arange(np.prod(shape), dtype=np.float32).reshape(shape) - len(name) for name in terms}
    return dataclasses.replace(record, vectors=Vectors(neurons, query, key, 0.5 + np.arange(len(neurons)), added))


def same(found: AttentionRecord, expected: AttentionRecord) -> None:
    same_fields(found, expected)
    assert all(type(number) is int for number in [*found.layers, *found.heads])
    if found.vectors is not None:
        assert all(type(number) is int for pair in found.vectors.heads for number in pair)


def same_fields(found: object, expected: object) -> None:
    for field in dataclasses.fields(expected):
        here, there = getattr(found, field.name), getattr(expected, field.name)
        if isinstance(there, np.ndarray):
            assert here.dtype == there.dtype and np.array_equal(here, there), field.name
        elif isinstance(there, Vectors | Rotation):
            same_fields(here, there)
        elif field.name == "terms":
            assert list(here) == list(there) and all(np.array_equal(here[name], there[name]) for name in there)
        else:
            assert here == there, field.name
