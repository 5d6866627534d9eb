"""Edges far above their usual weight, found where they are planted; the strongest edges; and sinks."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import attention_records, cross_records, layered_records, record_of, tokens

from attncli.analysis.edges import (
    ANY,
    BORDERS,
    FEW,
    Usual,
    WordPairs,
    by_content,
    clear_patterns,
    edges,
    first_is_sink,
    sinks,
    strongest_edges,
    usual_weights,
)
from attncli.record.grouping import group_record, merge_words
from attncli.record.selection import Grouping

LENGTH = 14


def flat() -> np.ndarray:
    """A head that looks at everything alike."""
    return np.full((LENGTH, LENGTH), 1 / LENGTH, dtype=np.float32)


def with_edge(weights: np.ndarray, query: int, key: int, weight: float = 0.8) -> np.ndarray:
    """Return weights whose query gives this key that much, and spreads the rest evenly."""
    changed = weights.copy()
    changed[query] = (1 - weight) / (LENGTH - 1)
    changed[query, key] = weight
    return changed


def found_in(weights: np.ndarray):
    record = record_of(weights)
    return edges(record, Usual.of_text(record))


def counted_pairs(record, place):
    return WordPairs.of(record).different() & record.masks[place]


def usual_at(record, place, over):
    allowed = counted_pairs(record, place)
    return usual_weights(
        record.weights[place], WordPairs.of(record).bins(), allowed, over.sums[place], over.counts[place]
    )


def pairs_one_by_one(record, place):
    """Every pair of words that counts, with its distance group, in plain Python."""
    groups = [*BORDERS, float("inf")]
    for query, word in enumerate(record.tokens.words):
        for key, other in enumerate(record.keys.words):
            said = record.tokens.text[query], record.keys.text[key]
            if None in (word, other) or any(not any(map(str.isalnum, text)) for text in said):
                continue
            if record.key_tokens is None and word == other:
                continue
            if record.masks[place, query, key]:
                apart = 0 if record.key_tokens is not None else key - query
                nearest = next(number for number, border in enumerate(groups) if abs(apart) <= border)
                yield query, key, (np.sign(apart), nearest)


@given(layered_records() | attention_records() | cross_records())
def test_usual_is_the_larger_of_two_means_without_the_weight_itself(record):
    over = Usual.of_text(record)
    for place in range(len(record.layers)):
        every = list(pairs_one_by_one(record, place))
        usual = usual_at(record, place, over)
        assert {(q, k) for q, k, _ in every} == set(map(tuple, np.argwhere(counted_pairs(record, place)).tolist()))
        for head, weights in enumerate(record.weights[place]):
            for query, key, group in every:
                there = [(q, k) for q, k, its in every if its == group]
                there = [(q, k) for q, k, _ in every] if len(there) <= FEW else there
                means = [
                    np.mean([weights[pair] for pair in pairs if pair != (query, key)] or [0.0])
                    for pairs in (there, [(q, k) for q, k, _ in every if k == key])
                ]
                assert usual[head, query, key] == pytest.approx(max(means), abs=1e-6)


def test_a_planted_edge_is_the_first_and_the_only_one():
    [[edge]] = found_in(with_edge(flat(), 9, 3))
    assert (edge.layer, edge.head, edge.query, edge.key) == (0, 0, 9, 3)
    assert edge.weight == pytest.approx(0.8) and edge.usual == pytest.approx(1 / LENGTH, abs=0.02)


@pytest.mark.parametrize("offset", [-1, 1, -3])
def test_a_head_that_always_looks_so_far_has_no_edge_that_stands_out(offset):
    weights = np.eye(LENGTH, k=offset)
    weights[weights.sum(axis=1) == 0, 0] = 1
    assert found_in(weights) == []


def test_a_silenced_head_has_no_finding():
    record = record_of(np.stack([with_edge(flat(), 9, 3), with_edge(flat(), 9, 3), np.eye(LENGTH)])[None])
    silenced = replace(record, model=replace(record.model, changes="without 0.0,0.2"))
    for one, heads, clear in ((record, [0, 1], [2]), (silenced, [1], [])):
        assert sorted(of_head[0].head for of_head in edges(one, Usual.of_text(one))) == heads
        assert [head for _, head, *_ in clear_patterns(one)] == clear
    foreign = replace(record, model=replace(record.model, changes="without salt"))
    assert len(edges(foreign, Usual.of_text(foreign))) == 2


def test_pieces_of_one_word_and_punctuation_are_no_edges():
    record = record_of(with_edge(flat(), 9, 8))
    words = [*range(8), 8, 8, 9, 10, 11, 12]
    one_word = replace(record, tokens=tokens(["[CLS]", *"abcdefghijkl", "[SEP]"], [None, *words[1:-1], None]))
    assert edges(one_word, Usual.of_text(one_word)) == []
    marks = replace(record, tokens=tokens(["[CLS]", *"abcdefg.ijkl", "[SEP]"], [None, *range(12), None]))
    assert edges(marks, Usual.of_text(marks)) == []


def test_not_the_largest_weight_comes_first_but_the_farthest_above():
    """The key that the second head gives 0.9 gets half of all that the others have to give."""
    usual = flat()
    usual[:, 3] += 0.5 - 1 / LENGTH
    found = found_in(np.stack([with_edge(usual, 9, 3, 0.9), with_edge(flat(), 9, 3, 0.7)])[None])
    assert [of_head[0].head for of_head in found] == [1, 0]


def test_other_texts_say_what_is_usual():
    """A short text alone has nothing to be held against; beside others that do the same nothing stands out."""
    weights = np.zeros((4, 4), dtype=np.float32)
    weights[:, 0] = 1
    weights[2] = [0, 1, 0, 0]
    short, long = record_of(weights), record_of(np.eye(LENGTH, k=-1))
    assert edges(short, Usual.of_text(short)) != []
    assert edges(short, Usual.of([short, long])) == []


def test_a_text_that_is_among_the_others_counts_once(minilm):
    texts = ["The cat sat on the mat.", "The film was not good.", "It was a good film."]
    others = Usual.of(minilm.attend_many(texts))
    for record, alone in (
        (minilm.attend(texts[1]), texts[::2]),
        (minilm.attend(texts[1].upper(), pad_to=20, mask="none"), texts[::2]),
        (minilm.attend(texts[1], pair=texts[0]), texts),
        (minilm.attend("The film was not bad."), texts),
    ):
        over, expected = Usual.with_text(record, others), Usual.of([*minilm.attend_many(alone), record])
        assert over.texts == len(alone) + 1
        assert np.allclose(over.sums, expected.sums, atol=1e-5) and np.array_equal(over.counts, expected.counts)
    some = group_record(minilm.attend(texts[1]), Grouping(tokens="1-4"))
    assert Usual.with_text(some, others).texts == 3


@pytest.mark.parametrize("family", ["gpt2", "llama-no-bos"])
def test_the_first_token_of_a_decoder_is_no_word(foreign, family):
    """Treat it like [CLS]. In a bidirectional network a first token is an ordinary word."""
    record = foreign(family).attend("the cat sat on the mat")
    for place in range(len(record.layers)):
        allowed = counted_pairs(record, place)
        assert allowed.any() and not allowed[:, 0].any() and not allowed[0].any()
    seen = foreign("t5").attend("the cat sat on the mat", which="encoder")
    allowed = counted_pairs(seen, 0)
    assert allowed[:, 0].any() and allowed[0].any()


def test_an_edge_to_the_first_token_is_strong_only_where_tokens_see_later_ones():
    weights = with_edge(flat(), 9, 0, 0.9)
    plain = tokens([*"abcdefghijklmn"], range(LENGTH))
    both = replace(record_of(weights), tokens=plain)
    mask = np.tri(LENGTH, dtype=bool)
    back = replace(record_of(weights * mask, mask, "causal"), tokens=plain)
    [[edge]] = edges(both, Usual.of_text(both))
    assert (edge.query, edge.key) == (9, 0) and edges(back, Usual.of_text(back)) == []


def test_clear_patterns_are_those_that_are_no_sinks():
    first, previous = np.zeros((LENGTH, LENGTH)), np.eye(LENGTH, k=-1)
    first[:, 0] = 1
    found = clear_patterns(record_of(np.stack([first, previous, np.eye(LENGTH), flat()])[None]))
    assert [(head, pattern) for _, head, pattern, _ in found] == [(2, "self"), (1, "previous")]


# --- strongest edges ---------------------------------------------------------------------------------


@given(attention_records() | layered_records(), st.data())
def test_the_largest_weight_between_the_two_of_every_head(record, data):
    query, key = (data.draw(st.sampled_from([ANY, *record.tokens.text])) for _ in range(2))
    places = [[p for p, token in enumerate(record.tokens.text) if name in (ANY, token)] for name in (query, key)]
    found = {(edge.layer, edge.head): edge for edge, _ in strongest_edges(record, Usual.of([record]), query, key)}
    for number, layer in enumerate(record.layers):
        for head in record.heads:
            pairs = [(q, k) for q in places[0] for k in places[1] if record.masks[number, q, k]]
            chosen = [(q, k) for q, k in pairs if query != ANY or record.masks[number, q].sum() > 1]
            pairs = chosen or pairs  # a token that may look at one key only has no choice
            assert ((layer, head) in found) == bool(pairs)
            if pairs:
                edge = found[layer, head]
                assert edge.weight == max(record.map(layer, head)[pair] for pair in pairs)
                assert (edge.query, edge.key) in pairs


def test_heads_are_ranked_by_content():
    """Those that have no edge between words come last."""
    high, edge = np.full((8, 8), 0.1), np.full((8, 8), 0.01)
    edge[5, 2] = 0.4
    record = record_of(np.stack([high, edge])[None])
    assert by_content(record) == [(0, 1), (0, 0)]
    assert by_content(record_of(np.full((2, 3, 2, 2), 0.5))) == [
        (layer, head) for layer in (0, 1) for head in (0, 1, 2)
    ]


# --- sinks -------------------------------------------------------------------------------------------


TEXT = "the cat sat on the mat"


def plain(mask, padding: int = 0):
    """A record of a text without special tokens at its ends, of uniform weights under a mask."""
    mask = np.array(mask, dtype=bool)
    length = mask.shape[-1]
    weights = mask / np.maximum(mask.sum(axis=-1, keepdims=True), 1)
    text = [*"abcdefghijkl"[: length - padding], *["[PAD]"] * padding]
    made = tokens(text, [*range(length - padding), *[None] * padding])
    return replace(record_of(weights[None] if mask.ndim == 2 else weights[:, None], mask), tokens=made)


@pytest.mark.parametrize(
    ("family", "options", "special", "sink"),
    [
        *((family, {}, False, True) for family in ("gpt2", "llama-no-bos", "gpt_neo")),  # the last has windows
        *((family, {}, True, False) for family in ("llama", "mistral")),  # the special token is a sink by itself
        *((family, {"which": "encoder"}, False, False) for family in ("t5", "marian")),  # sees later tokens too
    ],
)
def test_the_first_token_of_a_network(foreign, family, options, special, sink):
    record = foreign(family).attend(TEXT, **options)
    assert (record.tokens.special[0], first_is_sink(record)) == (special, sink)
    assert sinks(record).tolist() == [special or sink, *record.tokens.special[1:]]


@given(st.integers(1, 4), st.integers(1, 8), st.integers(0, 3), st.integers(0, 2**32 - 1))
def test_it_is_one_where_no_token_sees_a_later_one(layers, length, padding, seed):
    numbers = np.random.default_rng(seed)
    masks = np.tril(numbers.random((layers, length + padding, length + padding)) < 0.7)
    masks[:, :, length:] = False
    looks_back = any(masks[layer, q, k] for layer in range(layers) for q in range(length) for k in range(q))
    assert first_is_sink(plain(masks, padding)) is looks_back
    if length > 1:
        masks[numbers.integers(layers), 0, numbers.integers(1, length)] = True
        assert not first_is_sink(plain(masks, padding))


@given(layered_records() | attention_records(padding=2), st.integers(1, 200))
def test_edges_are_the_same_in_steps(record, together):
    over = Usual.of_text(record)
    whole = edges(record, over)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("attncli.analysis.edges._TOGETHER", together)
        in_steps, again = edges(record, over), Usual.of_text(record)
    assert [[(one.query, one.key) for one in some] for some in in_steps] == [
        [(one.query, one.key) for one in some] for some in whole
    ]
    for some, of_head in zip(in_steps, whole, strict=True):
        np.testing.assert_allclose([one.usual for one in some], [one.usual for one in of_head], atol=1e-6)
    np.testing.assert_allclose(again.sums, over.sums, rtol=1e-6, atol=1e-9)
    assert np.array_equal(again.counts, over.counts)


@given(layered_records() | attention_records(padding=2), st.data())
def test_pairs_and_sinks_of_some_rows_are_those_of_their_text(record, data):
    """A layer's masks that only look back may do so in all rows, and not tell it in a few."""
    places = sorted(data.draw(st.sets(st.integers(0, len(record.tokens) - 1), min_size=1)))
    some = group_record(record, Grouping(queries=places))
    whole, pairs = WordPairs.of(record), WordPairs.of(some)
    assert np.array_equal(pairs.bins(), whole.bins()[places])
    if first_is_sink(record) == first_is_sink(some):
        assert np.array_equal(pairs.different(), whole.different()[places])
        assert np.array_equal(sinks(some), sinks(record))
    assert Usual.of_text(some).each[0].tokens == Usual.of_text(record).each[0].tokens


def test_the_first_token_is_a_sink_of_a_row_that_looks_back():
    record = plain(np.tri(9))
    assert first_is_sink(group_record(record, Grouping(queries="LAST"))) and first_is_sink(
        group_record(record, Grouping(queries="4"))
    )
    assert not first_is_sink(group_record(plain(np.ones((9, 9))), Grouping(queries="4")))


def test_a_strong_edge_of_a_row_is_found_at_its_place():
    some = group_record(record_of(with_edge(flat(), 5, 9)), Grouping(queries="2,5"))
    [[edge]] = edges(some, Usual.of_text(some))
    assert (edge.query, edge.key, some.rows[edge.query]) == (1, 9, 5)


def test_words_stretches_and_some_tokens_have_that_of_their_text():
    record = plain(np.tri(9))
    assert first_is_sink(merge_words(record))
    assert first_is_sink(group_record(record, Grouping(tokens="0,4-8")))
    assert not first_is_sink(group_record(record, Grouping(tokens="3-8")))
