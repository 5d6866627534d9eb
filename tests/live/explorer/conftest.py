"""A session with the default model open, once a file."""

import pytest
from exploring import session_of


@pytest.fixture(scope="module")
def session(minilm):
    return session_of(minilm=minilm)
