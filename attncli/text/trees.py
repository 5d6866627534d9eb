"""Sentences of a treebank: words as tokens, with their syntactic tree."""

from dataclasses import dataclass, replace

import numpy as np

from attncli.text.tokens import Tokens

PUNCTUATION = "punct"


@dataclass(frozen=True)
class Sentence:
    """One sentence of a treebank. All lists have one entry per word.

    words: as written. heads: the place, from 0, of the word that this one depends on; None for a root. relations: the
    kind of the dependency ("nsubj", "acl:relcl"). line: the line of the file with its first word, from 1.
    """

    words: list[str]
    heads: list[int | None]
    relations: list[str]
    line: int

    def __len__(self) -> int:
        return len(self.words)

    @property
    def text(self) -> str:
        """Return the words joined by single spaces, which is what a model reads, however the original was spaced."""
        return " ".join(self.words)

    @property
    def punctuation(self) -> list[bool]:
        """Return for each word True if it is punctuation: if its relation is "punct"."""
        return [relation.partition(":")[0] == PUNCTUATION for relation in self.relations]


def words_of(tokens: Tokens, sentence: Sentence) -> Tokens | None:
    """Return the tokens of `sentence.text` with the sentence's words as `words`; None if a word has no token.

    A token belongs to the word that contains its last character; a token of only a space, to the next word. A word has
    no token if the model truncates the text, or the tokenizer drops all its characters. If the tokenizer gives no
    offsets, its own words are used if they are as many.
    """
    if not any(end for _, end in tokens.offsets):
        return tokens if set(tokens.words) - {None} == set(range(len(sentence))) else None
    ends = np.cumsum([len(word) + 1 for word in sentence.words]) - 1
    of = [
        None if special else int(np.searchsorted(ends, end))
        for special, (_, end) in zip(tokens.special, tokens.offsets, strict=True)
    ]
    return replace(tokens, words=of) if set(range(len(sentence))) <= set(of) else None
