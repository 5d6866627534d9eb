"""Heads that find syntactic heads: by hand, by the loop of the paper's authors' description, and as trees."""

from dataclasses import replace
from itertools import combinations

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import record_of

from attncli.analysis.probing import (
    ALL,
    DIRECTIONS,
    NOBODY,
    Tally,
    guesses,
    layer_trees,
    shared_edges,
    spanning_trees,
    strongest_words,
    tally,
    word_maps,
)
from attncli.treebank import Sentence

RELATIONS = ("nsubj", "obj", "det", "punct")

#  the   cat   chased   mice   .
CAT = Sentence(
    ["the", "cat", "chased", "mice", "."], [1, 2, None, 2, 2], ["det", "nsubj", "root", "obj", "punct"], line=1
)


@st.composite
def sentences(draw, least=1):
    """Sentences whose trees are random: each word hangs on one that came before it in some order."""
    order = draw(st.permutations(range(draw(st.integers(least, 9)))))
    heads: list[int | None] = [None] * len(order)
    relations = ["root"] * len(order)
    for place, word in enumerate(order[1:], start=1):
        heads[word] = order[draw(st.integers(0, place - 1))]
        relations[word] = draw(st.sampled_from(RELATIONS))
    return Sentence([f"w{word}" for word in range(len(order))], heads, relations, 1)


@st.composite
def corpora(draw, layers=2, heads=3):
    """Sentences with random maps `[layer, head, word, word]`."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    drawn = draw(st.lists(sentences(), min_size=1, max_size=4))
    return [(without_self(random.random((layers, heads, len(one), len(one)))), one) for one in drawn]


def without_self(maps):
    maps = maps.astype(np.float32)
    maps[..., np.arange(maps.shape[-1]), np.arange(maps.shape[-1])] = 0
    return maps


def counted(corpus, layers=2, heads=3):
    found = Tally.nothing(layers, heads)
    for maps, sentence in corpus:
        found = found.plus(maps, sentence)
    return found


def pointing(sentence, at_child=False):
    """A map that looks from every word to its head and nowhere else, or from every head to its words."""
    one = np.zeros((len(sentence), len(sentence)), dtype=np.float32)
    for word, head in enumerate(sentence.heads):
        if head is not None:
            one[(head, word) if at_child else (word, head)] = 1
    return one


# --- relations ------------------------------------------------------------------------------------------


@given(st.lists(sentences(least=2), min_size=1, max_size=4), st.booleans())
def test_a_head_that_looks_at_the_syntactic_head_finds_all(drawn, at_child):
    """It is head 1 of layer 1; the others look at nothing."""
    found = Tally.nothing(2, 2)
    for sentence in drawn:
        maps = np.zeros((2, 2, len(sentence), len(sentence)), dtype=np.float32)
        maps[1, 1] = pointing(sentence, at_child)
        found = found.plus(maps, sentence)
    for guess in guesses(found, found):
        assert (guess.layer, guess.head, guess.accuracy) == (1, 1, 1)
    for relation, right in found.found.items():
        assert right[1, 1, int(at_child)] == found.counts[relation]
        assert not right[0].any() and not right[1, 0].any()


def test_one_sentence_by_hand():
    maps = np.zeros((1, 2, 5, 5), dtype=np.float32)
    maps[0, 0] = np.eye(5, k=1)  # looks at the next word; the last at nothing
    maps[0, 1, :, 2] = [0.1, 0.2, 0, 0.6, 0.1]  # every word looks at the verb, "mice" most
    maps[0, 1, 2] = [0.3, 0.4, 0, 0.2, 0.1]
    found = {guess.relation: guess for guess in guesses(*[counted([(maps, CAT)], 1, 2)] * 2)}
    assert list(found) == [ALL, "det", "nsubj", "obj"]  # neither root nor punct
    assert [found[ALL].head, found[ALL].direction] == [0, "child->head"]
    assert (found[ALL].accuracy, found[ALL].count) == (2 / 3, 3)  # the -> cat -> chased; not mice -> chased
    assert (found["obj"].head, found["obj"].direction, found["obj"].accuracy) == (0, "head->child", 1)
    assert (found["det"].offset, found["obj"].offset, found[ALL].offset) == (1, -1, 1)
    assert found[ALL].offset_accuracy == 2 / 3


def test_both_directions_by_hand():
    """The strongest of a row is who a word looks at; the strongest of its column, who looks at it."""
    one = np.array([[0, 0.7, 0.1], [0.5, 0, 0.2], [0.9, 0.05, 0]], dtype=np.float32)
    assert strongest_words(one[None, None])[0, 0].tolist() == [[1, 0, 0], [2, 0, 1]]


def test_where_there_is_no_weight_there_is_no_guess():
    one = np.zeros((1, 1, 3, 3), dtype=np.float32)
    one[0, 0, 0, 1] = 1
    assert strongest_words(one)[0, 0].tolist() == [[1, NOBODY, NOBODY], [NOBODY, 0, NOBODY]]


@given(corpora())
def test_counts_are_those_of_a_plain_loop(corpus):
    found = counted(corpus)
    right, asked = {}, {}
    for maps, sentence in corpus:
        for word, (head, relation) in enumerate(zip(sentence.heads, sentence.relations, strict=True)):
            if head is None or relation == "punct":
                continue
            for name in (ALL, relation):
                asked[name] = asked.get(name, 0) + 1
                for layer, number in np.ndindex(2, 3):
                    one = maps[layer, number]
                    others = [other for other in range(len(sentence)) if other != word]
                    looks_at = max(others, key=lambda other: one[word, other])
                    looked_from = max(others, key=lambda other: one[other, word])
                    for direction, guess in enumerate((looks_at, looked_from)):
                        place = (name, layer, number, direction)
                        right[place] = right.get(place, 0) + (guess == head)
    assert dict(found.counts) == asked
    assert {place: int(found.found[place[0]][place[1:]]) for place in right} == right
    for guess in guesses(found, found):
        most = max(number for place, number in right.items() if place[0] == guess.relation)
        place = guess.relation, guess.layer, guess.head, DIRECTIONS.index(guess.direction)
        assert right[place] == most and guess.accuracy == most / asked[guess.relation]


@given(corpora())
def test_no_offset_is_better_than_the_baseline(corpus):
    found = counted(corpus)
    for guess in guesses(found, found):
        accuracies = {}
        for offset in range(-9, 10):
            hits = [
                head == word + offset
                for _, sentence in corpus
                for word, (head, relation) in enumerate(zip(sentence.heads, sentence.relations, strict=True))
                if head is not None and relation != "punct" and guess.relation in (ALL, relation)
            ]
            accuracies[offset] = sum(hits) / len(hits)
        assert guess.offset_accuracy == accuracies[guess.offset] == max(accuracies.values())


def test_of_equals_the_first_head_and_the_shortest_offset_are_taken():
    both = Sentence(["a", "b", "c"], [1, None, 1], ["dep", "root", "dep"], 1)
    far = Sentence(["a", "b", "c"], [2, None, 1], ["dep", "root", "dep"], 1)
    maps = np.stack([pointing(both)] * 4).reshape(2, 2, 3, 3)
    found = counted([(maps, both)], 2, 2)
    assert found.best("dep") == (0, 0, 0)
    assert found.best_offset("dep") == -1
    assert counted([(maps, far)], 2, 2).best_offset("dep") == -1


@given(corpora(), st.randoms(use_true_random=False))
def test_the_order_of_sentences_changes_nothing(corpus, random):
    one = counted(corpus)
    random.shuffle(corpus)
    other = counted(corpus)
    assert guesses(one, one) == guesses(other, other)
    assert one.edges == other.edges and (one.edges == 0 or layer_trees(one, one) == layer_trees(other, other))


def test_heads_chosen_on_one_treebank_are_measured_on_another():
    turned = replace(CAT, heads=[2, 0, None, 2, 2], relations=["det", "nsubj", "root", "xcomp", "punct"])
    maps = np.stack([pointing(CAT), pointing(turned)])[None]
    chosen, measured = counted([(maps, CAT)], 1, 2), counted([(maps, turned)], 1, 2)
    found = {guess.relation: guess for guess in guesses(chosen, measured)}
    assert list(found) == [ALL, "det", "nsubj", "obj"]  # xcomp was never there to choose a head for
    assert [found[ALL].head, found["det"].head] == [0, 0]
    assert [found[ALL].accuracy, found["det"].accuracy, found["det"].offset_accuracy] == [1 / 3, 0, 0]
    assert (found["obj"].count, found["obj"].accuracy, found["obj"].offset_accuracy) == (0, None, None)
    [trees] = layer_trees(chosen, measured)
    assert trees.best_head == 0 and trees.best_head_uuas < 1


# --- trees ----------------------------------------------------------------------------------------------


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


@given(st.integers(2, 5), st.integers(0, 2**32 - 1), st.booleans())
def test_no_tree_at_all_is_heavier(count, seed, rounded):
    """Of all sets of edges that are trees; with rounded weights there are ties and zeros."""
    one = np.random.default_rng(seed).random((count, count))
    one = one + one.T
    one = np.floor(2 * one) if rounded else one
    pairs = list(combinations(range(count), 2))
    heaviest = max(
        sum(one[pair] for pair in edges)
        for edges in combinations(pairs, count - 1)
        if networkx.is_connected(networkx.Graph([(word, word) for word in range(count)] + list(edges)))
    )
    tree = spanning_trees(one)
    assert sum(one[word, tree[word]] for word in range(1, count)) == pytest.approx(heaviest)


@given(sentences(least=2), st.booleans())
def test_a_map_that_is_the_tree_gives_the_tree(sentence, at_child):
    words = replace(sentence, relations=[relation.replace("punct", "dep") for relation in sentence.relations])
    found = counted([(pointing(words, at_child)[None, None], words)], 1, 1)
    assert found.edges == len(words) - 1
    assert [(one.uuas, one.best_head_uuas) for one in layer_trees(found, found)] == [(1, 1)]


def test_trees_by_hand():
    """Without the full stop: the-cat, cat-chased, chased-mice are the edges, and here all join neighbours."""
    chain = 0.85 * np.eye(5, k=1, dtype=np.float32)
    star = np.zeros((5, 5), dtype=np.float32)
    star[:, 0] = [0, 1, 0.9, 0.8, 0.7]  # everything hangs on "the": one edge of three
    found = counted([(np.stack([star, chain])[None], CAT)], 1, 2)
    assert (found.edges, found.chain_edges) == (3, 3)
    assert found.tree_edges.tolist() == [[1, 3]]
    [layer] = layer_trees(found, found)
    assert (layer.best_head, layer.best_head_uuas) == (1, 1)
    assert layer.uuas == 2 / 3  # twice the mean map: the-cat 1.85, the-chased 0.9, chased-mice and cat-chased 0.85


def test_punctuation_is_no_node_of_a_tree():
    """Two words that only a comma between them joins: their edge is found whatever the comma weighs."""
    sentence = Sentence(["no", ",", "thanks"], [2, 0, None], ["discourse", "punct", "root"], 1)
    maps = np.array([[0, 1, 0.1], [1, 0, 1], [0.1, 1, 0]], dtype=np.float32)
    found = counted([(maps[None, None], sentence)], 1, 1)
    assert (found.edges, found.chain_edges, found.tree_edges.tolist()) == (1, 1, [[1]])


def test_a_sentence_of_punctuation_alone_has_no_tree():
    sentence = Sentence(["!", "?"], [None, 0], ["root:punct", "punct"], 1)
    silent = replace(sentence, relations=["punct", "punct"])
    for one in (sentence, silent):
        found = counted([(np.ones((1, 1, 2, 2), dtype=np.float32), one)], 1, 1)
        assert (found.words, found.edges, found.tree_edges.tolist(), guesses(found, found)) == (2, 0, [[0]], [])


def test_a_sentence_of_one_word_has_nothing_to_find():
    found = counted([(np.zeros((1, 1, 1, 1), dtype=np.float32), Sentence(["Yes"], [None], ["root"], 1))], 1, 1)
    assert (found.sentences, found.words, found.edges, guesses(found, found)) == (1, 1, 0, [])


def test_shared_edges_count_both_ways_round():
    gold = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)
    assert shared_edges(np.array([[0, 0, 0], [0, 0, 1], [0, 2, 1]]), gold).tolist() == [1, 2, 2]


# --- maps between words ---------------------------------------------------------------------------------


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
    sentence = Sentence(["ab", "c"], [1, None], ["det", "root"], 1)
    one, two, found = tally([(record, sentence), (None, sentence), (record, sentence)], Tally.nothing(2, 3))
    assert [so_far.seen for so_far in (one, two, found)] == [1, 2, 3]
    assert (one.sentences, one.skipped, one.counts["det"]) == (1, 0, 1)  # it is what it was
    assert (found.sentences, found.skipped, found.words, found.counts["det"]) == (2, 1, 4, 2)
    assert (found.found["det"] == 2).all()  # there is only one other word
