"""The picture of `attncli trust`: ranks of tokens, a row a ranking."""

from types import SimpleNamespace

import numpy as np
from matplotlib.text import Text

from attncli.analysis.effects import Answer
from attncli.render.figures.trust import ahead, trust_figure


def test_a_token_has_the_share_of_the_others_that_are_less_important():
    np.testing.assert_allclose(ahead(np.array([0.1, 7.0, -2.0, 0.1, 3.0])), [0.25, 1, 0, 0.25, 0.75])


def test_every_ranking_and_every_way_of_erasing_is_a_row():
    numbers = np.random.default_rng(0).normal(size=(4, 3))
    found = SimpleNamespace(
        importances={"attention": numbers[0], "gradient x attention": numbers[1]},
        erased=[
            SimpleNamespace(way=way, alone=row) for way, row in zip(("mask", "deletion"), numbers[2:], strict=True)
        ],
        tokens=SimpleNamespace(shown=["[CLS]", "a", "b", "c", "[SEP]"]),
        erasable=[1, 2, 3],
        model=SimpleNamespace(shown="minilm"),
        answer=Answer("cosine", "cosine of two texts", 0.5),
    )
    said = [text.get_text() for text in trust_figure(found).findobj(Text)]
    for words in (
        "attention",
        "grad x attention",
        "alone, [MASK]",
        "alone, deleted",
        "minilm · cosine of two texts 0.5000 · mask padding",
    ):
        assert words in " ".join(said), said  # a title may be wrapped
    for row in (numbers[0], numbers[1], np.abs(numbers[2]), np.abs(numbers[3])):
        assert sorted(ahead(row)) == [0, 0.5, 1]
