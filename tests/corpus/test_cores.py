"""How many cores share what is computed."""

import pytest
import torch

from attncli.corpus.of_model import pool


def test_a_thread_of_the_pool_has_one_core_and_this_one_as_many_as_are_asked_for():
    before = torch.get_num_threads()
    with pytest.raises(KeyboardInterrupt), pool(3, before + 1) as each:
        assert list(each.map(lambda _: torch.get_num_threads(), range(6))) == [1] * 6
        assert torch.get_num_threads() == before + 1
        raise KeyboardInterrupt
    assert torch.get_num_threads() == before
