"""Whose queries and keys a page holds where nobody says of which heads."""

import pytest

from attncli import load_model
from attncli.models.engine import SHORT, vectors_within
from attncli.record import Input, Request

MOST = 75_000


def chosen(model, *counts, masks=1, **asked):
    """Return the number of heads chosen for texts of so many tokens."""
    texts = [next(model.tokenize([Input("the")], count)) for count in counts]
    found = vectors_within(model, texts, Request(**asked), MOST, masks)
    every = [f"{layer}.{head}" for layer in range(model.config.layers) for head in range(model.config.heads)]
    if not asked:
        assert every[: len(found.split(","))] == found.split(",")
    return len(found.split(","))


def test_all_heads_of_short_texts_bring_theirs(minilm):
    assert all(chosen(minilm, count) == 72 for count in (3, 40, 64, SHORT))
    assert chosen(minilm, SHORT, 20, SHORT, masks=3) == 72


def test_of_a_longer_one_as_many_as_there_is_room_for_and_one_at_least(minilm):
    assert chosen(minilm, SHORT + 1) == MOST // (2 * (SHORT + 1) * 32)
    assert chosen(minilm, 512) == 2
    assert chosen(minilm, 512, 100, masks=3) == 1
    assert chosen(minilm, 512, layers=[3], heads=[5]) == 1


@pytest.mark.parametrize(("family", "all_of_them"), [("bert", True), ("mpnet", True), ("deberta-v2", False)])
def test_terms_take_of_the_room_what_they_say(family, all_of_them, tiny, monkeypatch):
    """Those that depend on the distance say the same again and again; DeBERTa's don't, and are as many as weights."""
    model = load_model(str(tiny(family, max_position_embeddings=200)), "cpu")
    monkeypatch.setattr("attncli.models.engine.ALWAYS", 1000)
    heads = model.config.layers * model.config.heads
    assert (chosen(model, SHORT) == heads) == all_of_them
