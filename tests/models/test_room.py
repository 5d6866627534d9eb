"""Requests that exceed the memory are refused with their size and a remedy; a page holds what it has room for."""

import pytest

from attncli import Request, RequestError, load_model
from attncli.models import engine
from attncli.models.engine import (
    SHORT,
    cgroup_room,
    check_memory,
    check_room,
    record_bytes,
    under_masks,
    vector_bytes,
    vectors_within,
)
from attncli.record import Input
from attncli.record.selection import Grouping

GIGA = 10**9


def test_a_record_takes_what_its_arrays_take(tiny):
    model = load_model(str(tiny()), device="cpu", dtype="float32")
    record = model.attend("the cat sat on the cat", layers=[0, 2], heads=[1, 2, 3])
    assert record_bytes(len(record.tokens) ** 2, 2, 3) == record.weights.nbytes + 2 * len(record.tokens) ** 2
    assert record_bytes(100**2, 2, 3, 8) == 100**2 * 2 * (3 * 12 + 1)


def test_it_says_what_it_would_take_and_what_to_ask_for(monkeypatch):
    monkeypatch.setattr(engine, "available", lambda: 20 * GIGA)
    with pytest.raises(RequestError) as refused:
        check_room([(8192, 8192)], 22, 12)
    assert str(refused.value) == (
        "264 maps of 8192 tokens take 72 GB but 20 GB are available: request some with -l and -H "
        "(-l 0 -H 0 takes 0.3 GB), or the rows of some tokens (run --query LAST), or stats, which keeps no maps"
    )
    check_room([(8192, 8192)], 1, 12)
    with pytest.raises(
        RequestError, match=r"^maps of 90 texts take 111 GB but 20 GB are available: request fewer texts"
    ):
        check_room([(2048, 2048)] * 90, 6, 12)
    monkeypatch.setattr(engine, "available", lambda: GIGA // 4)
    with pytest.raises(
        RequestError,
        match=r"^1 map of 8192 tokens takes 0\.3 GB but 0\.2 GB are available: "
        r"request the rows of some tokens \(run --query LAST\), or a shorter text$",
    ):
        check_room([(8192, 8192)], 1, 1)


def test_vectors_and_copies_count(monkeypatch):
    monkeypatch.setattr(engine, "available", lambda: 2 * GIGA)
    check_room([(4096, 4096)], 1, 12)
    with pytest.raises(RequestError, match=r"^12 maps of 4096 tokens take 3.3 GB to draw but 2 GB are available"):
        check_room([(4096, 4096)], 1, 12, copies=3)
    with pytest.raises(RequestError, match=r"take, with q and k, 3.3 GB but 2 GB are available: request no q and k"):
        check_room([(4096, 4096)], 1, 12, vectors=vector_bytes(4096, 12, 64, 3))


def test_what_is_grouped_counts_as_such(tiny, monkeypatch):
    model = load_model(str(tiny()), device="cpu")
    monkeypatch.setattr(engine, "SMALL", 0)
    tokens = model.tokenizer.encode("the cat sat on the cat")
    there = record_bytes(2**2, 4, 4)
    monkeypatch.setattr(engine, "available", lambda: there)
    assert list(check_memory(model, [[tokens]], Request(grouping=Grouping("1-2")))) == [tokens]
    with pytest.raises(RequestError, match="GB are available"):
        list(check_memory(model, [[tokens]], Request(grouping=Grouping("1-3"))))
    with pytest.raises(RequestError, match="GB are available"):
        list(check_memory(model, [[tokens]], Request(vectors="0.1", grouping=Grouping("1-2"))))


@pytest.fixture
def full(tiny, monkeypatch):
    """A model on a machine that has room for one record of the text below, and that must not be run."""
    model = load_model(str(tiny()), device="cpu")
    monkeypatch.setattr(engine, "SMALL", 0)
    one = record_bytes(len(model.tokenizer.encode("the cat sat")) ** 2, 4, 4)
    monkeypatch.setattr(engine, "available", lambda: one)
    return model


def test_nothing_is_computed(full, monkeypatch):
    monkeypatch.setattr(engine, "take_batch", lambda *asked: pytest.fail("it was run"))
    for ask in (
        lambda: full.attend("the cat sat on the cat"),
        lambda: list(full.answer([Input("the cat sat")] * 2, Request(), together=True)),
        lambda: list(under_masks(full, [Input("the cat sat")], Request(), ["padding", "causal"], 1e6)),
    ):
        with pytest.raises(RequestError, match="GB are available"):
            ask()


def test_records_that_are_not_kept_are_each_by_themselves(full):
    assert full.config.layers == full.config.heads == 4
    assert len(list(full.answer([Input("the cat sat")] * 5, Request()))) == 5
    full.attend("the cat sat on the cat", layers=0, heads=0)


@pytest.mark.parametrize(
    "names", [("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")]
)
def test_what_a_container_leaves(tmp_path, names):
    assert cgroup_room(tmp_path) is None
    for name, text in zip((*names, "memory.stat"), ("1000\n", "700\n", "anon 5\ninactive_file 200\n"), strict=True):
        (tmp_path / name).write_text(text)
    assert cgroup_room(tmp_path) == 500
    (tmp_path / names[0]).write_text("max\n")
    assert cgroup_room(tmp_path) is None


# --- queries and keys of a page, where nobody says of which heads -------------------------------------------

MOST = 75_000


def chosen(model, *counts, masks=1, **asked):
    """Return the number of heads chosen for texts of so many tokens."""
    texts = [next(model.tokenizer.encode_each([Input("the")], count)) for count in counts]
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
