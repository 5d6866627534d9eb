"""What is said to a process that runs somebody's code arrives as it was, and what nobody said is refused."""

import contextlib
import math
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attncli.checks.theirs.subjects import frames, wire

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.bool, torch.int64, torch.uint8]


@st.composite
def tensors(draw):
    made = torch.arange(math.prod(shape := draw(st.lists(st.integers(0, 3), max_size=3))))
    made = made.reshape(shape).to(draw(st.sampled_from(DTYPES)))
    return made.mT if draw(st.booleans()) and made.dim() > 1 else made


texts = st.text('aé\0"\\☃\n', max_size=5)  # all of Unicode costs three seconds to list
plain = st.none() | st.booleans() | st.integers() | st.floats() | texts
values = st.recursive(
    plain | tensors(), lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4)
)


def same(one, other) -> bool:
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[name], other[name]) for name in one)
    return type(one) is type(other) and (one == other or (one != one and other != other))


@given(values)
def test_what_is_sent_arrives(value):
    assert same(value, wire.unpack(wire.pack(value)))


@given(values, st.data())
def test_a_damaged_message_is_refused_or_says_something_else(value, data):
    message = bytearray(wire.pack(value))
    for _ in range(data.draw(st.integers(1, 4))):
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    del message[data.draw(st.integers(0, len(message))) :]
    with contextlib.suppress(ValueError):  # anything else would be an error of the program
        wire.unpack(bytes(message))


@given(st.binary(max_size=100))
def test_what_nobody_has_packed_is_refused(noise):
    with pytest.raises(ValueError, match=r"\w"):
        wire.unpack(frames.LENGTH.pack(len(noise)) + noise + b"\xff" * 9)


@pytest.mark.parametrize(
    "told",
    [
        '{"tensor": 0}',
        '{"tensor": true}',
        '{"number": "1e999"}',
        '{"fields": [["a"]]}',
        '{"fields": [[1, 2]]}',
        '{"a": 1}',
        "{}",
        '{"number": "nan", "tensor": 0}',
        "NaN",
        "[" * 100 + "]" * 100,
        "[" * 10**6,
    ],
)
def test_a_lie_is_refused(told):
    with pytest.raises(ValueError, match=r"\w"):
        wire.unpack(frames.LENGTH.pack(len(told)) + told.encode())


def test_tensors_that_share_memory_arrive_each():
    row = torch.randn(1, 3)
    first, second = wire.unpack(wire.pack([row.expand(2, 3), row]))
    assert torch.equal(first, row.expand(2, 3)) and torch.equal(second, row)


def test_named_tuples_arrive_as_their_fields():
    class Point(NamedTuple):
        x: int
        y: tuple

    assert wire.unpack(wire.pack(Point(1, (2, 3)))) == {"x": 1, "y": [2, 3]}


@pytest.mark.parametrize(
    "value", [object(), torch, 1j, {1, 2}, torch.zeros(2).to_sparse(), torch.zeros(2, device="meta")]
)
def test_what_is_no_value_is_not_sent(value):
    with pytest.raises(TypeError, match="nothing that can be sent"):
        wire.pack([value])
