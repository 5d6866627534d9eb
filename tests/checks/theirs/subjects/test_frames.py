"""Messages through a pipe arrive whole, one by one, or not at all."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.checks.theirs.subjects import frames


class Slow(io.BytesIO):
    """As pipes are: some of it at a time."""

    def read(self, size=-1):
        return super().read(min(size, 3))

    def write(self, data):
        return super().write(bytes(data[:3]))


@given(st.lists(st.binary(max_size=40), max_size=4))
def test_messages_come_one_by_one(messages):
    stream = Slow()
    for message in messages:
        frames.send(stream, message)
    stream.seek(0)
    assert [frames.receive(stream) for _ in messages] == messages
    with pytest.raises(EOFError):
        frames.receive(stream)


@given(st.binary(min_size=1, max_size=40), st.integers(1, 40))
def test_a_message_that_breaks_off_is_none(message, missing):
    stream = io.BytesIO()
    frames.send(stream, message)
    with pytest.raises(EOFError):
        frames.receive(io.BytesIO(stream.getvalue()[:-missing]))


def test_no_room_is_made_for_a_length_that_is_a_lie():
    with pytest.raises(ValueError, match="a message of 1099511627776 bytes"):
        frames.receive(io.BytesIO(frames.LENGTH.pack(1 << 40)))
