"""The page of what makes two texts similar: every cell is there, texts are texts, and nothing is asked of anywhere."""

import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from records import record_of

from attncli.analysis.effects import Ablation, Answer
from attncli.analysis.similarity import Similarity
from attncli.page.document import digest
from attncli.render.page.similarity import similarity_page

CELL = re.compile(r'<td class="([ab])(\d+)" title="(.*?): ([+-][\d.]+)">(-?[\d.]+)</td>')


@pytest.fixture
def found():
    numbers = np.random.default_rng(0).normal(size=(5, 5)) / 10
    numbers[2, 3] = -0.7
    record = record_of(np.full((2, 3, 5, 5), 0.2))
    effects = np.linspace(-0.1, 0.2, 6).reshape(1, 1, 2, 3)
    answer = Answer("cosine", "cosine", 0.5)
    model = record.model
    ablation = Ablation(model, answer, [0, 1], [0, 1, 2], ["zero"], effects, effects[..., 0], effects[..., 0, 0], None)
    tokens = record.tokens
    return Similarity(model, float(numbers.sum()), tokens, tokens, numbers, ["mean"], False, ablation)


def test_every_cell_has_its_number_and_its_colour(found):
    cells = CELL.findall(similarity_page(found))
    grid, heads = cells[:25], cells[25:]
    exact = np.array([float(number) for *_, number, _ in grid]).reshape(5, 5)
    np.testing.assert_allclose(exact, found.contributions, atol=5e-7)
    np.testing.assert_allclose([float(one) for *_, one in grid], 100 * found.contributions.ravel(), atol=0.0051)
    for (side, step, *_), number in zip(grid, found.contributions.ravel(), strict=True):
        assert (side == "a") == (number > 0) and int(step) == round(20 * abs(number) / 0.7)
    assert [float(number) for *_, number, _ in heads] == pytest.approx(found.effects.mean.ravel().tolist(), abs=1e-6)
    assert [name for _, _, name, _, _ in heads[:2]] == ["0, 0", "0, 1"]


def test_texts_are_texts(found):
    evil = "</title><script>alert(1)</script>\x1b[31m\"'&"
    tokens = replace(found.tokens, shown=[evil] * 5)
    page = similarity_page(replace(found, tokens=tokens, model=replace(found.model, name=evil)))
    assert "<script" not in page and "\x1b" not in page
    assert "</title><script>" in unescape(page)
    assert len(CELL.findall(page)) == 31


def test_nothing_runs_and_nothing_is_fetched(found):
    page = similarity_page(found)
    [style] = re.findall(r"<style>(.*?)</style>", page, flags=re.DOTALL)
    assert f"default-src 'none'; style-src '{digest(style)}'" in page
    assert " style=" not in page and "http:" not in page and "https:" not in page and "src=" not in page
    assert page == similarity_page(found)
