"""The clearest head for each pattern, and patterns without one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from windows import text_sums

from attncli.analysis.patterns import BROAD, BROAD_BELOW, PATTERNS
from attncli.corpus.statistics import CLEARLY, Statistics
from attncli.corpus.sums import FIGURES, LINEAR
from attncli.record import ModelInfo

MODEL = ModelInfo("made-up", "/made/up", "0" * 64, 2, 3, 24)


def made(shares=None, even=0.1, **figures) -> Statistics:
    """Shares are 0 but those given as name={(layer, head): share}; who looks at everything alike gives `even`."""
    totals = np.zeros((2, 3, len(FIGURES))) if shares is None else shares
    for name, values in figures.items():
        for place, value in values.items():
            totals[(*place, FIGURES.index(name))] = value
    return Statistics.of(text_sums(1, 2.5, totals, alike=np.full((2, len(LINEAR)), even)), MODEL)


def place(head):
    return None if head is None else (head.layer, head.head)


@pytest.mark.parametrize(
    ("share", "even", "does"),
    [
        (0.29, 0.01, False),  # of no label
        (0.3, 0.01, True),
        (0.34, 0.33, False),  # in texts of three tokens everybody gives so much
        (0.6, 0.33, False),
        (0.67, 0.33, True),
    ],
)
def test_a_head_that_does_not_do_it_is_not_called_the_clearest(share, even, does):
    statistics = made(even=even, self={(1, 0): share})
    assert place(statistics.clearest("self")) == ((1, 0) if does else None)
    assert statistics.uniform(1, "self") == pytest.approx(even)


def test_where_it_is_not_known_what_looking_at_everything_alike_gives_the_label_has_to_do():
    statistics = replace(made(self={(1, 0): 0.34}), alike=None)
    assert place(statistics.clearest("self")) == (1, 0)
    assert statistics.uniform(1, "self") is None


@given(st.integers(0, 2**32 - 1), st.floats(0, 0.6))
def test_who_is_called_clearest_is_labelled_so_and_no_fellow_gives_more(seed, even):
    shares = np.random.default_rng(seed).random((2, 3, len(FIGURES))) * 0.8
    statistics = made(shares, even)
    for pattern in PATTERNS:
        one = statistics.clearest(pattern)
        fellows = [head.figures[pattern] for head in statistics.labelled(pattern)]
        if one is None:
            assert all(share < CLEARLY * even for share in fellows)
        else:
            assert one.label == pattern and one.figures[pattern] == max(fellows)
            assert one.figures[pattern] >= max(BROAD_BELOW, CLEARLY * even)


def test_the_broadest_is_labelled_broad():
    statistics = made(entropy={(0, 0): 2.0, (0, 1): 1.5}, first={(0, 0): 0.5})
    assert place(statistics.broadest()) == (0, 1)
    everyone = made(np.full((2, 3, len(FIGURES)), 0.5))
    assert everyone.labelled(BROAD) == [] and everyone.broadest() is None
