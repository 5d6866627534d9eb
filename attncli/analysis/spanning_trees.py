"""Maximum spanning trees of maps between words, and how many of their edges are those of a sentence's tree."""

import numpy as np
import numpy.typing as npt

from attncli.base.arrays import Bools, Floats
from attncli.text.trees import Sentence

Ints = npt.NDArray[np.int64]


def tree_edges(maps: Floats, sentence: Sentence) -> tuple[Bools, Ints]:
    """The edges of the sentence's tree, bool `[word, word]`, and how many of them are in the tree of each head.

    That is `[layer, head]`, with the layer's mean map as one more head. Punctuation is no node here; an edge is in a
    tree or not, whichever of its two words is the head.
    """
    kept = np.flatnonzero(~np.array(sentence.punctuation))
    gold = np.zeros((len(sentence), len(sentence)), dtype=bool)
    for word, head in enumerate(sentence.heads):
        if head is not None:
            gold[word, head] = gold[head, word] = True
    gold = gold[np.ix_(kept, kept)]
    if not gold.any():
        return gold, np.zeros((maps.shape[0], maps.shape[1] + 1), dtype=np.int64)
    both = maps[..., kept[:, None], kept]
    both = both + both.swapaxes(-1, -2)
    return gold, shared_edges(spanning_trees(np.concatenate([both, both.mean(axis=1, keepdims=True)], axis=1)), gold)


def spanning_trees(maps: Floats) -> Ints:
    """Maximum spanning trees of symmetric `[..., word, word]` maps, all of them together, by Prim's algorithm.

    `[..., word]`: the word that each was joined to; the first word, where trees begin, has itself.
    """
    count = maps.shape[-1]
    flat = maps.reshape(-1, count, count)
    trees = np.arange(len(flat))
    nearest, joined = flat[:, 0].copy(), np.zeros((len(flat), count), dtype=np.int64)
    inside = np.zeros((len(flat), count), dtype=bool)
    inside[:, 0] = True
    for _ in range(count - 1):
        new = np.where(inside, -np.inf, nearest).argmax(axis=1)
        inside[trees, new] = True
        nearer = ~inside & (flat[trees, new] > nearest)
        nearest = np.where(nearer, flat[trees, new], nearest)
        joined = np.where(nearer, new[:, None], joined)
    return joined.reshape(maps.shape[:-1])


def shared_edges(trees: Ints, gold: Bools) -> Ints:
    """How many edges of each of the `[..., word]` trees are edges in `gold`, bool `[word, word]`."""
    shared: Ints = gold[np.arange(1, len(gold)), trees[..., 1:]].sum(axis=-1)
    return shared
