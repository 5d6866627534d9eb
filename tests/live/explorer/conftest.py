"""A session with the default model open, once a file."""

import pytest
from cli.conftest import attncli, checked_once, kept, once, read_once
from exploring import session_of

__all__ = ["attncli", "checked_once", "kept", "once", "read_once"]


@pytest.fixture(scope="module")
def session(minilm):
    return session_of(minilm=minilm)
