"""What is said of stretches of a long text, and of some of its tokens."""

from dataclasses import replace

import numpy as np
from records import record_of

from attncli.record import grouping
from attncli.record.display import notes
from attncli.record.grouping import grouped
from attncli.record.selection import Grouping


def test_how_much_of_their_weight_is_said():
    record = record_of(np.array([[0.5, 0.25, 0.25], [0.1, 0.25, 0.65], [0, 0, 1]]))
    chosen = Grouping("0-1")
    [said] = notes(grouped(record, chosen))
    assert said == "tokens 0-1 of 3, counted from 0 anew: they give each other 55% of their weight"
    [said] = notes(grouped(replace(record, measure="norm"), chosen))
    assert said == "tokens 0-1 of 3, counted from 0 anew"
    assert notes(record) == []


def test_stretches_of_some_tokens_say_both(monkeypatch):
    monkeypatch.setattr(grouping, "LONG", 2)
    monkeypatch.setattr(grouping, "MOST", 2)
    first, second = notes(grouped(record_of(np.full((5, 5), 0.2)), Grouping("1-4", stretches=True)))
    assert first == "tokens 1-4 of 5, counted from 0 anew: they give each other 80% of their weight"
    assert second == (
        "4 tokens are shown as 2 stretches of 2: weights to a stretch are summed, weights from it are averaged; "
        "--tokens 0-255 shows some one by one"
    )
