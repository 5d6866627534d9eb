"""Memory for maps: somebody's as long as anything looks at it, and used again after that."""

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli.models.devices import LARGE, Storage

LIKE = torch.empty(0)
ENOUGH = LARGE // 4  # float32 numbers


def test_it_is_used_again_when_the_last_view_is_gone():
    pool = Storage()
    first = pool.empty((2, ENOUGH), LIKE)
    where = first.data_ptr()
    part = first[1, 7:9].numpy()[:1]
    del first
    gc.collect()
    assert not pool.waiting
    assert pool.empty((2, ENOUGH), LIKE).data_ptr() != where
    del part
    gc.collect()
    assert pool.empty((ENOUGH, 2), LIKE).data_ptr() == where


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 5)), max_size=25))
def test_no_two_have_the_same(turns):
    """Some come, some go: each holds what was written there."""
    pool = Storage()
    held: list[tuple[int, np.ndarray]] = []
    for number, (parts, gone) in enumerate(turns):
        if gone < len(held):
            held.pop(gone)
        held.append((number, pool.empty((parts, ENOUGH), LIKE).fill_(number).numpy()[-1:, ::512]))
        assert all((array == value).all() for value, array in held)


def test_threads_do_not_share_one():
    pool = Storage()

    def one(number: int) -> bool:
        made = pool.empty((ENOUGH,), LIKE).fill_(number)
        return bool((made == number).all())

    with ThreadPoolExecutor(4) as workers:
        assert all(workers.map(one, range(100)))
    assert 1 <= len(pool.waiting) <= 4
