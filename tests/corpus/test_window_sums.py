"""The sums of a window, from maps of which one knows what they add up to."""

import numpy as np
import pytest

from attncli.corpus.sums import FIGURES, plain_part
from attncli.text.windows import Window, windows


@pytest.fixture
def window(minilm) -> Window:
    [one] = windows(0, "the cat, the mat.", minilm.tokenizer)
    return one


def figures(part, queries: int) -> dict[str, float]:
    """Return the figures of the first head of the first layer."""
    return dict(zip(FIGURES, part.totals[0, 0] / queries, strict=True))


def test_a_head_that_looks_at_everything_alike(window):
    length = len(window)
    part = plain_part(window, np.full((2, 3, length, length), 1 / length, dtype=np.float32), distances=True)
    found = figures(part, length)
    assert found["entropy"] == pytest.approx(np.log(length)) == part.limit[0] / length
    shares = {
        "strongest": 1,
        "self": 1,
        "first": 1,
        "cls": 1,
        "separator": 1,
        "punctuation": 2,
        "same_word": 2 / length,
    }
    assert {name: found[name] for name in shares} == pytest.approx({n: s / length for n, s in shares.items()}, abs=1e-6)
    assert (part.queries, part.totals.shape) == (length, (2, 3, len(FIGURES)))
    assert np.allclose(part.divergence, 0, atol=1e-5)


def test_a_head_that_looks_at_the_token_before(window):
    length = len(window)
    weights = np.eye(length, k=-1, dtype=np.float32)
    weights[0, 0] = 1
    found = figures(plain_part(window, weights[None, None]), length)
    assert (found["entropy"], found["strongest"]) == pytest.approx((0, 1), abs=1e-6)
    assert (found["previous"], found["self"]) == pytest.approx(((length - 1) / length, 1 / length))
