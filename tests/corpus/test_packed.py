"""How texts become batches: nothing is lost, nothing is padded, and nothing is too large."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from records import tokens_of

from attncli.corpus import packed
from attncli.corpus.units import Units
from attncli.text.windows import Window


def window(text: int, length: int) -> Window:
    nothing = np.zeros(length, dtype=int)
    return Window(text, 1, (0, length), tokens_of(length), nothing, nothing, nothing > 0)


LENGTHS = st.lists(st.integers(3, 30), min_size=1, max_size=40)


@given(LENGTHS, st.integers(1, 200))
def test_batches_hold_every_window_once_and_not_too_many_tokens(lengths, most):
    group = [window(number, length) for number, length in enumerate(lengths)]
    batches = packed.batches(group, most)
    assert sorted(one.text for batch in batches for one in batch) == list(range(len(lengths)))
    neighbours = sorted([len(one) for one in batch] for batch in batches)
    assert [length for batch in neighbours for length in batch] == sorted(lengths)
    assert all(len(batch) == 1 or sum(map(len, batch)) <= most for batch in batches)


@given(LENGTHS, st.integers(1, 4), st.integers(1, 5000))
def test_runs_are_of_one_length_and_cover_the_batch(lengths, heads, most):
    batch = [window(number, length) for number, length in enumerate(sorted(lengths))]
    runs = list(packed.runs(batch, heads, most))
    assert [one for run in runs for one in run.windows] == batch
    assert [place for run in runs for place in range(run.places.start, run.places.stop)] == list(range(len(batch)))
    assert [row for run in runs for row in range(run.rows.start, run.rows.stop)] == list(range(sum(lengths)))
    for run in runs:
        assert {len(one) for one in run.windows} == {run.length}
        blocks = list(Units(run, False, torch.device("cpu")).blocks(run.block))
        assert [query for block in blocks for query in range(block.start, block.stop)] == list(range(run.length))
        assert run.whole == (len(blocks) == 1)
        at_once = len(run.windows) * max(block.stop - block.start for block in blocks) * heads * run.length
        assert at_once <= most or (len(run.windows) == 1 and len(blocks) == run.length)


def test_a_run_finds_its_texts_in_the_rows_of_a_batch():
    batch = [window(number, length) for number, length in enumerate([3, 5, 5])]
    rows = torch.arange(2 * 13 * 4).reshape(2, 13, 4)  # [head, row, head_dim]
    [_, run] = packed.runs(batch, heads=2, most_weights=1000)
    assert torch.equal(run.texts(rows), torch.stack([rows[:, 3:8], rows[:, 8:13]]))


def test_groups_end_when_there_are_enough_texts_or_tokens(monkeypatch):
    monkeypatch.setattr(packed, "TEXTS_SORTED", 3)
    monkeypatch.setattr(packed, "TOKENS_SORTED", 50)
    texts = [[window(number, length)] for number, length in enumerate([10, 10, 10, 30, 30, 5])]
    assert [[one.text for one in group] for group in packed.groups(texts)] == [[0, 1, 2], [3, 4], [5]]
