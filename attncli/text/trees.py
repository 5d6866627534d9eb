"""A sentence with its syntactic tree, and its words as tokens."""

from dataclasses import dataclass, replace

import numpy as np

from attncli.text.tokens import Tokens

PUNCTUATION = "punct"


@dataclass(frozen=True)
class Sentence:
    """One sentence of a treebank. All lists are one entry a word.

    words: as written.
    heads: the place, from 0, of the word that this one depends on; None for a root.
    relations: how it depends on it ("nsubj", "acl:relcl").
    line: where in the file its first word stands, from 1.
    """

    words: list[str]
    heads: list[int | None]
    relations: list[str]
    line: int

    def __len__(self) -> int:
        return len(self.words)

    @property
    def text(self) -> str:
        """Its words with spaces between them: what a model reads, whatever the text once looked like."""
        return " ".join(self.words)

    @property
    def punctuation(self) -> list[bool]:
        """Which words are punctuation: those whose relation is "punct"."""
        return [relation.partition(":")[0] == PUNCTUATION for relation in self.relations]


def words_of(tokens: Tokens, sentence: Sentence) -> Tokens | None:
    """The tokens of `sentence.text` with the sentence's words as their `words`; None where a word has no token.

    A token belongs to the word that its last character lies in; a space alone, to the word after it. A word has no
    token when the model cuts the text, or the tokenizer leaves out all of its characters. Where the tokenizer does not
    say which characters a token stands for, its own words are the sentence's, if there are as many.
    """
    if not any(end for _, end in tokens.offsets):
        return tokens if set(tokens.words) - {None} == set(range(len(sentence))) else None
    ends = np.cumsum([len(word) + 1 for word in sentence.words]) - 1
    of = [
        None if special else int(np.searchsorted(ends, end))
        for special, (_, end) in zip(tokens.special, tokens.offsets, strict=True)
    ]
    return replace(tokens, words=of) if set(range(len(sentence))) <= set(of) else None
