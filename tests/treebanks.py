"""Sentences with trees and made-up maps, for tests."""

from dataclasses import fields
from itertools import accumulate

import numpy as np
from hypothesis import strategies as st

from attncli.corpus.texts import LinePlace
from attncli.corpus.treebank import TreeSentence
from attncli.features.probe.tally import Tally

RELATIONS = ("nsubj", "obj", "det", "punct")


def spaced(words, heads, relations, line=1):
    """A sentence of words with spaces between them."""
    ends = [end + at for at, end in enumerate(accumulate(map(len, words)))]
    spans = [(end - len(word), end) for word, end in zip(words, ends, strict=True)]
    return TreeSentence(words, heads, relations, LinePlace("bank", line), " ".join(words), spans)


#  the   cat   chased   mice   .
CAT = spaced(["the", "cat", "chased", "mice", "."], [1, 2, None, 2, 2], ["det", "nsubj", "root", "obj", "punct"])


@st.composite
def sentences(draw, least=1):
    """Sentences whose trees are random: each word hangs on one that came before it in some order."""
    order = draw(st.permutations(range(draw(st.integers(least, 9)))))
    heads: list[int | None] = [None] * len(order)
    relations = ["root"] * len(order)
    for place, word in enumerate(order[1:], start=1):
        heads[word] = order[draw(st.integers(0, place - 1))]
        relations[word] = draw(st.sampled_from(RELATIONS))
    return spaced([f"w{word}" for word in range(len(order))], heads, relations)


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


def tally_of(corpus, layers=2, heads=3):
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


def conllu(sentences):
    """Sentences as a file has them."""
    return "".join(
        "".join(
            f"{number}\t{word}\t_\t_\t_\t_\t{0 if head is None else head + 1}\t{relation}\t_\t_\n"
            for number, (word, head, relation) in enumerate(
                zip(one.words, one.heads, one.relations, strict=True), start=1
            )
        )
        + "\n"
        for one in sentences
    )


def chain(words):
    """A sentence whose words each hang on the one before."""
    return spaced(["dog"] * words, [None, *range(words - 1)], ["root", *["dep"] * (words - 1)])


def plain(tally):
    """All that a tally says, to compare."""
    arrays = {"tree_edges": tally.tree_edges.tolist(), "layer_edges": tally.layer_edges.tolist()}
    found_at = {place: right.tolist() for place, right in tally.found_at.items()}
    return {field.name: getattr(tally, field.name) for field in fields(tally)} | arrays | {"found_at": found_at}
