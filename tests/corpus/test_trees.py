"""Sentences with trees, and their words as tokens."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from treebanks import spaced

from attncli import Notice
from attncli.corpus.treebank import TreeSentence, words_of
from attncli.text.tokens import Tokens


def pieces(text, spans):
    """[CLS], tokens for these characters of the text, [SEP]."""
    offsets = [(0, 0), *spans, (0, 0)]
    special = [True, *[False] * len(spans), True]
    count = len(offsets)
    return Tokens(
        text=[text[start:end] or "[X]" for start, end in offsets],
        ids=[0] * count,
        segments=[0] * count,
        words=[None if flag else 0 for flag in special],
        offsets=offsets,
        special=special,
        padding=[False] * count,
    )


def sentence(*words):
    """A sentence of words with spaces between them."""
    return spaced(list(words), [None, *[0] * (len(words) - 1)], ["root", *["dep"] * (len(words) - 1)])


@given(st.lists(st.text("ab中'", min_size=1, max_size=6), min_size=1, max_size=8), st.booleans(), st.data())
def test_tokens_are_of_the_word_that_their_characters_lie_in(words, with_space, data):
    """Try tokenizers that count the space before a word to its token (SentencePiece), and others (WordPiece)."""
    spans, of, start = [], [], 0
    for number, word in enumerate(words):
        cuts = {0, len(word), *data.draw(st.sets(st.integers(0, len(word))))}
        places = [start + cut for cut in sorted(cuts)]
        first = max(0, places[0] - 1) if with_space else places[0]
        spans += zip([first, *places[1:-1]], places[1:], strict=True)
        of += [number] * (len(places) - 1)
        start += len(word) + 1
    found, read = words_of(pieces(" ".join(words), spans), sentence(*words))
    assert found.words == [None, *of, None] and list(read.units) == list(range(len(words)))


def test_words_that_share_a_token_are_one_unit():
    """As WordPiece cuts "shouldn't" into shouldn, ' and t: both words have the first."""
    spans = [(0, 3), (3, 6), (7, 9), (9, 10)]
    text = TreeSentence(["abc", "def", "gh", "i"], [None, 0, 0, 0], ["root", *["dep"] * 3], 1, "abcdef ghi", spans)
    found, read = words_of(pieces("abcdef ghi", [(0, 2), (2, 4), (4, 6), (6, 7), (6, 9), (9, 10)]), text)
    assert (found.words, list(read.units)) == ([None, 0, 0, 0, 1, 1, 2, None], [0, 0, 1, 2])


def test_a_word_without_a_token_makes_a_sentence_useless():
    assert words_of(pieces("a bc", [(0, 1)]), sentence("a", "bc")) is None
    assert words_of(pieces("a bc", [(2, 3)]), sentence("a", "bc")) is None


def test_a_tokenizer_that_says_no_characters_has_words_of_its_own():
    """Use a tokenizer like Marian's: its words are the sentence's if their number is equal."""
    nowhere = replace(pieces("a bc", [(0, 0)] * 3), words=[None, 0, 1, 1, None])
    assert words_of(nowhere, sentence("a", "bc")) == (nowhere, sentence("a", "bc"))
    assert words_of(nowhere, sentence("a", "b", "c")) is None
    assert words_of(nowhere, sentence("abc")) is None
    joined = TreeSentence(["a", "b", "."], [None, 0, 0], ["root", "dep", "punct"], 1, "a b.", [(0, 1), (2, 3), (3, 4)])
    assert words_of(nowhere, joined) == (nowhere, replace(joined, numbers=[0, 1, 1]))


def test_real_tokens(minilm):
    text = sentence("We", "do", "n't", "like", "honeypots", "naïvely", "1 000", ".")
    tokens = minilm.tokenizer.encode(text.text)
    found, _ = words_of(tokens, text)
    grouped = {}
    for piece, word in zip(found.text, found.words, strict=True):
        grouped.setdefault(word, []).append(piece)
    assert grouped[2] == ["n", "'", "t"]  # the tokenizer's own words are three
    assert grouped[4] == ["honey", "##pot", "##s"]
    assert grouped[6] == ["1", "000"]
    assert grouped[None] == ["[CLS]", "[SEP]"]


def test_a_text_that_is_cut_is_not_read_whole(minilm):
    long = sentence(*["dog"] * 511)
    with pytest.warns(Notice, match="kept the first 512"):
        assert words_of(minilm.tokenizer.encode(long.text), long) is None
    assert words_of(minilm.tokenizer.encode("dog " * 510), sentence(*["dog"] * 510)) is not None
