"""Heads that find syntactic heads: by hand, by the loop of the paper's authors' description, and as trees."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slow import slow_except
from treebanks import CAT, corpora, pointing, sentences, tally_of

from attncli.features.probe.tally import ALL, DIRECTIONS, Tally, best_heads, layer_trees


def test_one_sentence_by_hand():
    maps = np.zeros((1, 2, 5, 5), dtype=np.float32)
    maps[0, 0] = np.eye(5, k=1)  # looks at the next word; the last at nothing
    maps[0, 1, :, 2] = [0.1, 0.2, 0, 0.6, 0.1]  # every word looks at the verb, "mice" most
    maps[0, 1, 2] = [0.3, 0.4, 0, 0.2, 0.1]
    found = {guess.relation: guess for guess in best_heads(*[tally_of([(maps, CAT)], 1, 2)] * 2)}
    assert list(found) == [ALL, "det", "nsubj", "obj"]  # neither root nor punct
    assert [found[ALL].head, found[ALL].direction] == [0, "child->head"]
    assert (found[ALL].accuracy, found[ALL].count) == (2 / 3, 3)  # the -> cat -> chased; not mice -> chased
    assert (found["obj"].head, found["obj"].direction, found["obj"].accuracy) == (0, "head->child", 1)
    assert (found["det"].offset, found["obj"].offset, found[ALL].offset) == (1, -1, 1)
    assert found[ALL].offset_accuracy == 2 / 3


@given(corpora())
def test_no_offset_is_better_than_the_baseline(corpus):
    found = tally_of(corpus)
    for guess in best_heads(found, found):
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


def test_heads_chosen_on_one_treebank_are_measured_on_another():
    turned = replace(CAT, heads=[2, 0, None, 2, 2], relations=["det", "nsubj", "root", "xcomp", "punct"])
    maps = np.stack([pointing(CAT), pointing(turned)])[None]
    chosen, measured = tally_of([(maps, CAT)], 1, 2), tally_of([(maps, turned)], 1, 2)
    found = {guess.relation: guess for guess in best_heads(chosen, measured)}
    assert list(found) == [ALL, "det", "nsubj", "obj"]  # xcomp was never there to choose a head for
    assert [found[ALL].head, found["det"].head] == [0, 0]
    assert [found[ALL].accuracy, found["det"].accuracy, found["det"].offset_accuracy] == [1 / 3, 0, 0]
    assert (found["obj"].count, found["obj"].accuracy, found["obj"].offset_accuracy) == (0, None, None)
    assert (found["obj"].interval, found["obj"].verdict) == (None, "too few")
    [trees] = layer_trees(chosen, measured)
    assert trees["best_head"] == 0 and trees["best_head_uuas"] < 1


@given(corpora())
def test_counts_are_those_of_a_plain_loop(corpus):
    found = tally_of(corpus)
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
    assert {place: int(found.found_counts[place[0]][place[1:]]) for place in right} == right
    for guess in best_heads(found, found):
        most = max(number for place, number in right.items() if place[0] == guess.relation)
        place = guess.relation, guess.layer, guess.head, DIRECTIONS.index(guess.direction)
        assert right[place] == most and guess.accuracy == most / asked[guess.relation]


def test_trees_by_hand():
    """Leave out the full stop: the edges are the-cat, cat-chased, chased-mice, all between neighbours."""
    chain = 0.85 * np.eye(5, k=1, dtype=np.float32)
    star = np.zeros((5, 5), dtype=np.float32)
    star[:, 0] = [0, 1, 0.9, 0.8, 0.7]  # everything hangs on "the": one edge of three
    found = tally_of([(np.stack([star, chain])[None], CAT)], 1, 2)
    assert (found.edges, found.chain_edges) == (3, 3)
    assert found.tree_edges.tolist() == [[1, 3]]
    [layer] = layer_trees(found, found)
    assert (layer["best_head"], layer["best_head_uuas"]) == (1, 1)
    assert layer["uuas"] == 2 / 3  # twice the mean map: the-cat 1.85, the-chased 0.9, chased-mice and cat-chased 0.85


@given(sentences(least=2), st.booleans())
def test_a_map_that_is_the_tree_gives_the_tree(sentence, at_child):
    words = replace(sentence, relations=[relation.replace("punct", "dep") for relation in sentence.relations])
    found = tally_of([(pointing(words, at_child)[None, None], words)], 1, 1)
    assert found.edges == len(words) - 1
    assert [(one["uuas"], one["best_head_uuas"]) for one in layer_trees(found, found)] == [(1, 1)]


def guessed(right: np.ndarray, offset: np.ndarray) -> Tally:
    """The tally of words of one relation: `right`, bool `[layer, head, direction, word]`, says who finds which; offset:
    how far their syntactic heads are.
    """
    found_at = {
        (name, away): right[..., offset == away].sum(-1) for name in (ALL, "obj") for away in set(offset.tolist())
    }
    offsets = {name: Counter(offset.tolist()) for name in (ALL, "obj")}
    return replace(Tally.nothing(*right.shape[:2]), offsets=offsets, found_at=found_at)


SHAPE = (6, 12, 2)  # minilm's


@pytest.mark.parametrize("share", slow_except([0.3, 0.7], [0.3]))
@pytest.mark.parametrize("apart", slow_except([False, True], [True]))
def test_luck_is_taken_for_a_head_once_in_twenty_at_the_most(share, apart):
    """Everybody is as good as the offset +1, and some are right and wrong on the same words."""
    numbers = np.random.default_rng(0)
    heads = 0
    for _ in range(300):
        tallies = []
        for _ in range(1 + apart):
            offset = np.where(numbers.random(60) < share, 1, numbers.integers(2, 20, 60))
            right = numbers.random((*SHAPE, 60)) < share
            right[:3] = right[0, 0, 0]
            tallies.append(guessed(right, offset))
        [_, found] = best_heads(tallies[0], tallies[-1])
        heads += found.verdict == "head"
    assert heads / 300 <= 0.05 + 0.02


@pytest.mark.parametrize(
    ("words", "by_offset", "by_head", "verdict"),
    [
        (5, 1, 5, "too few"),
        (12, 1, 12, "too few"),  # 144 / 2 ** 11 = 0.07
        (13, 1, 13, "head"),
        (100, 95, 100, "too few"),  # it's five words that count
        (60, 30, 60, "head"),
        (60, 30, 45, "unclear"),
        (60, 30, 30, "offset"),
        (60, 30, 20, "offset"),
    ],
)
def test_verdicts(words, by_offset, by_head, verdict):
    right = np.zeros((*SHAPE, words), dtype=bool)
    right[3, 1, 0, words - by_head :] = True
    offset = np.arange(words) + 100
    offset[:by_offset] = 1
    [_, found] = best_heads(*[guessed(right, offset)] * 2)
    assert (found.offset, found.offset_accuracy) == (1, by_offset / words)
    assert (found.accuracy, found.verdict) == (by_head / words, verdict)


def test_of_a_head_that_was_chosen_elsewhere_fewer_words_will_do():
    right = np.zeros((*SHAPE, 6), dtype=bool)
    right[3, 1, 0] = True
    chosen, measured = (guessed(right, np.array([1, 2, 3, 4, 5, 6])) for _ in range(2))
    same, other = best_heads(chosen, chosen)[0], best_heads(chosen, measured)[0]
    assert (same.verdict, other.verdict) == ("too few", "head")
    assert (same.chance, other.chance) == (1, pytest.approx(1 / 2**5))
    assert same.interval[0] < other.interval[0]
