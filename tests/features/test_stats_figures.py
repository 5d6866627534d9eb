"""Printing the figures of a corpus."""

import pytest

from attncli.features.stats import figure_text


@pytest.mark.parametrize(
    "value, by, text",
    [(0.0, "next", ".00"), (0.426, "next", ".43"), (0.996, "next", "1.0"), (1.0, "strongest", "1.0"),
     (3.214, "entropy", "3.21"), (45.67, "distance", "45.7"), (1234.5, "distance", "1234")],
)  # fmt: skip
def test_figures_fit_their_cells(value, by, text):
    assert figure_text(value, by) == text
