"""Cores of this machine, and how many share what is computed: the last bit of a product may depend on that."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch

MOST_THREADS = 8  # of a batch that has all cores: more wait for each other


@contextmanager
def pool(cores: int, threads: int) -> Iterator[ThreadPoolExecutor]:
    """Threads each of which computes on one core; what this thread computes meanwhile, so many `threads` share."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    each = ThreadPoolExecutor(cores, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield each
    finally:
        each.shutdown(cancel_futures=True)
        torch.set_num_threads(before)
