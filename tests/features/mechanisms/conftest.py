"""Fixtures of the tests of checks."""

import pytest

from attncli.models.head import OneHead, one_head

TEXT = "The trophy does not fit in the suitcase because it is too big."


@pytest.fixture(scope="session")
def trained(minilm):
    """`trained(layer, head, mask)` -> a head of minilm on a text with two [PAD], taken apart once."""
    tokens = minilm.tokenizer.encode(TEXT, None, 18)
    made: dict[tuple[int, int, str], OneHead] = {}

    def make(layer: int = 4, head: int = 3, mask: str = "padding") -> OneHead:
        key = layer, head, mask
        if key not in made:
            made[key] = one_head(minilm, tokens, *key)
        return made[key]

    return make
