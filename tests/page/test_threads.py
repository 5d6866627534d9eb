"""The same for every layer, whoever does it."""

import threading

import pytest

from attncli.page.packing import LARGE, of_each


@pytest.mark.parametrize(("size", "here"), [(LARGE - 1, True), (LARGE, False)])
def test_each_is_made_in_order_and_large_ones_in_other_threads(size, here):
    made = of_each(lambda layer: (layer, threading.current_thread()), range(20), size)
    assert [layer for layer, _ in made] == list(range(20))
    assert {thread is threading.current_thread() for _, thread in made} == {here}


def test_what_goes_wrong_is_raised():
    with pytest.raises(ZeroDivisionError):
        of_each(lambda layer: 1 // layer, [1, 0], LARGE)
    assert of_each(len, [], LARGE) == []
