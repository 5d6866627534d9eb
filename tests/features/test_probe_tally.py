"""Findings of heads in a sentence: guesses in both directions, edges of trees, and sums over sentences."""

from dataclasses import replace

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import record_of
from treebanks import corpora, plain, pointing, tally_of

from attncli.corpus.treebank import TreeSentence
from attncli.features.probe.tally import (
    ALL,
    Skipped,
    Tally,
    best_heads,
    spanning_trees,
    strongest_words,
    tally,
    word_maps,
)
from attncli.record.grouping import merge_words


def test_both_directions_by_hand():
    """The strongest of a row is who a word looks at; the strongest of its column, who looks at it."""
    one = np.array([[0, 0.7, 0.1], [0.5, 0, 0.2], [0.9, 0.05, 0]], dtype=np.float32)
    assert strongest_words(one[None, None])[0, 0].tolist() == [[1, 0, 0], [2, 0, 1]]


def test_of_equals_the_first_head_and_the_shortest_offset_are_taken():
    both = TreeSentence(["a", "b", "c"], [1, None, 1], ["dep", "root", "dep"], 1)
    far = TreeSentence(["a", "b", "c"], [2, None, 1], ["dep", "root", "dep"], 1)
    maps = np.stack([pointing(both)] * 4).reshape(2, 2, 3, 3)
    found = tally_of([(maps, both)], 2, 2)
    assert found.best("dep") == (0, 0, 0)
    assert found.best_offset("dep") == -1
    assert tally_of([(maps, far)], 2, 2).best_offset("dep") == -1


def test_punctuation_is_no_node_of_a_tree():
    """Two words that only a comma between them joins: their edge is found whatever the comma weighs."""
    sentence = TreeSentence(["no", ",", "thanks"], [2, 0, None], ["discourse", "punct", "root"], 1)
    maps = np.array([[0, 1, 0.1], [1, 0, 1], [0.1, 1, 0]], dtype=np.float32)
    found = tally_of([(maps[None, None], sentence)], 1, 1)
    assert (found.edges, found.chain_edges, found.tree_edges.tolist()) == (1, 1, [[1]])


@pytest.mark.parametrize(
    "sentence",
    [
        TreeSentence(["!", "?"], [None, 0], ["root:punct", "punct"], 1),
        TreeSentence(["!", "?"], [None, 0], ["punct", "punct"], 1),
        TreeSentence(["Yes"], [None], ["root"], 1),
    ],
)
def test_punctuation_alone_or_one_word_has_nothing_to_find(sentence):
    count = len(sentence)
    found = tally_of([(np.ones((1, 1, count, count), dtype=np.float32), sentence)], 1, 1)
    assert (found.word_count, found.edges, found.tree_edges.tolist(), best_heads(found, found)) == (count, 0, [[0]], [])


@pytest.mark.parametrize("family", ["gpt2", "llama-no-bos"])
def test_weight_to_the_first_word_of_a_decoder_does_not_count(foreign, family):
    """Nor does that to [CLS] in an encoder; a first word of a network that looks both ways counts."""
    record = foreign(family).attend("the cat sat on the mat")
    merged, maps = merge_words(record), word_maps(record)
    assert not maps[..., 0].any() and not maps[:, :, 0].any()
    assert np.array_equal(np.tril(maps[..., 1:, 1:], -1), np.tril(merged.weights[..., 1:, 1:], -1))
    assert word_maps(foreign("t5").attend("the cat sat on the mat", which="encoder"))[..., 1:, 0].all()


def test_word_maps_by_hand():
    """[CLS] a ##b c [SEP]: weight to the pieces of "ab" adds up, weight from them is averaged, the rest goes."""
    weights = np.array(
        [
            [1, 0, 0, 0, 0],
            [0.5, 0.1, 0.1, 0.2, 0.1],
            [0.1, 0.1, 0.1, 0.6, 0.1],
            [0.2, 0.3, 0.1, 0.4, 0],
            [0, 0, 0, 0, 1],
        ]
    )
    record = record_of(weights)
    record = replace(record, tokens=replace(record.tokens, words=[None, 0, 0, 1, None]))
    np.testing.assert_allclose(word_maps(record)[0, 0], [[0, 0.4], [0.4, 0]], atol=1e-6)


def test_records_are_counted_by_their_words():
    record = record_of(np.full((2, 3, 5, 5), 0.2))
    record = replace(record, tokens=replace(record.tokens, words=[None, 0, 0, 1, None]))
    sentence = TreeSentence(["ab", "c"], [1, None], ["det", "root"])
    read = [(record, sentence), ("too long", sentence), (record, sentence)]
    one, two, found = tally(read, Tally.nothing(2, 3))
    assert [so_far.sentence_total for so_far in (one, two, found)] == [1, 2, 3]
    assert (one.sentences, one.skipped, one.counts["det"]) == (1, 0, 1)  # it is what it was
    assert (found.sentences, found.skipped, found.word_count, found.counts["det"]) == (2, 1, 4, 2)
    assert (found.found_counts["det"] == 2).all()  # there is only one other word


def test_a_relation_called_all_is_counted_once():
    found = tally_of(
        [(np.ones((1, 1, 2, 2), dtype=np.float32), TreeSentence(["a", "b"], [1, None], [ALL, "root"], 1))], 1, 1
    )
    assert found.counts == {ALL: 1}


def skipping(whys):
    """The tally of sentences that could not be read, each in a line of its own."""
    found = Tally.nothing(2, 3)
    for line, why in enumerate(whys, start=1):
        found = found.plus_skipped(why, "a", line)
    return found


@given(corpora(), corpora(), corpora())
def test_tallies_add_up_exactly_however_sentences_are_cut(one, two, three):
    whole = tally_of(one + two + three)
    first, second, third = (tally_of(part) for part in (one, two, three))
    for found in (first + second + third, first + (second + third), third + first + second, whole + tally_of([])):
        assert plain(found) == plain(whole)


@given(st.lists(st.sampled_from(["long", "odd"])), st.lists(st.sampled_from(["long", "odd"])))
def test_of_skipped_sentences_the_first_of_each_kind_is_known(whys, later):
    found = skipping(whys)
    assert found.skips == {why: Skipped(whys.count(why), "a", whys.index(why) + 1) for why in whys}
    assert (found.skipped, found.sentence_total, found.sentences) == (len(whys), len(whys), 0)
    both = found + skipping(later)
    assert (list(both.skips), both.skipped) == (list(skipping(whys + later).skips), len(whys + later))
    assert all(both.skips[why].line == one.line for why, one in found.skips.items())


# --- trees -----------------------------------------------------------------------------------------------


@given(st.integers(2, 12), st.integers(0, 2**32 - 1))
def test_spanning_trees_are_as_heavy_as_a_librarys(count, seed):
    maps = np.random.default_rng(seed).random((2, 3, count, count))
    maps = maps + maps.swapaxes(-1, -2)
    trees = spanning_trees(maps)
    assert trees.shape == (2, 3, count) and not trees[..., 0].any()
    for place in np.ndindex(2, 3):
        graph = networkx.from_numpy_array(maps[place])
        heaviest = networkx.maximum_spanning_tree(graph)
        mine = networkx.Graph((word, int(joined)) for word, joined in enumerate(trees[place]) if word)
        assert networkx.is_tree(mine) and len(mine) == count
        assert {frozenset(edge) for edge in mine.edges} == {frozenset(edge) for edge in heaviest.edges}
