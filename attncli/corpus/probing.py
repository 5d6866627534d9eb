"""A treebank through a model: which heads find the syntactic heads of its words. What they find is counted in
`attncli.analysis.tally`.
"""

import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from attncli.analysis.probing import Probed, TreebankTally
from attncli.analysis.tally import Tally, tally
from attncli.base.errors import Notice, RequestError
from attncli.corpus.reading import shown
from attncli.corpus.treebank import read_treebank
from attncli.models.engine import Engine
from attncli.record import AttentionRecord, Request
from attncli.text.tokens import Tokens
from attncli.text.trees import Sentence, words_of
from attncli.text.windows import encode

ENDLESS = 10**9  # tokens: a model that has no positions to run out of says that it reads some such number


class Treebank(NamedTuple):
    """Sentences, and where they were read from, as messages say it."""

    path: str
    sentences: Sequence[Sentence]

    @classmethod
    def read(cls, path: str, limit: int | None = None) -> "Treebank":
        """The first `limit` sentences of a file, by default all. Raises RequestError as `read_treebank` does."""
        return cls(shown(path), read_treebank(path, limit))


def probe(
    model: Engine,
    treebank: Treebank,
    test: Treebank | None = None,
    advance: Callable[[], None] = lambda: None,
    which: str | None = None,
) -> Probed:
    """Which heads of a model know the syntactic head of a word, for each dependency relation (Clark et al. 2019).

    test: choose heads on `treebank` and measure them here; by default both is done on the same sentences.
    `advance` is called after every sentence of either. which: of an encoder-decoder the "encoder" (the default), or the
    "decoder", which is then made to write the sentence that the encoder reads.

    A KeyboardInterrupt ends it early: what was found by then is `partial`, and a Notice says so. A treebank of which
    nothing has been counted is left out; if that is all of them, it is an interruption like any other.

    Raises RequestError as `count` does, and for a part that the model has not.
    """
    which = model.to_itself(which)
    model.check(Request(which=which))
    asked = [treebank] if test is None or test is treebank else [treebank, test]
    tallies: list[Tally] = []
    for one in asked:
        tallies.append(count(model, one, advance, which))
        if tallies[-1].seen < len(one.sentences):
            break
    if not any(found.edges for found in tallies):
        raise KeyboardInterrupt
    begun = [(one, found) for one, found in zip(asked, tallies, strict=False) if found.edges]
    partial = sum(found.seen for found in tallies) < sum(len(one.sentences) for one in asked)
    if partial:
        of = " and ".join(f"{found.seen} of {len(one.sentences)}" for one, found in begun)
        warnings.warn(f"interrupted: these figures are PARTIAL, of {of} sentences", Notice, stacklevel=2)
    results = [TreebankTally(one.path, found) for one, found in begun]
    apart = test is not None and len(results) == len(asked)
    return Probed(model.info_of(which), results[0], results[-1] if apart else None, partial, model.kind(which))


def count(
    model: Engine, treebank: Treebank, advance: Callable[[], None] = lambda: None, which: str | None = None
) -> Tally:
    """What the model's heads find in a treebank; after a KeyboardInterrupt, in the sentences seen by then.

    A Notice says how many can't be read whole. Raises RequestError when that is all of them, or no word in the others
    depends on another.
    """
    info = model.info_of(which)
    so_far = Tally.nothing(info.layers, info.heads)
    try:
        for one in tally(with_maps(model, treebank.sentences, which), so_far):
            so_far = one
            advance()
    except KeyboardInterrupt:
        return so_far
    if not so_far.edges:
        raise RequestError(f"{treebank.path}: in no sentence that the model can read does a word depend on another")
    if so_far.skipped:
        room = model.tokenizer.max_tokens
        warnings.warn(
            f"{treebank.path}: skipped {so_far.skipped} of {len(treebank.sentences)} sentences: the model does not "
            "read all of their words" + (f" (it reads {room} tokens)" if room < ENDLESS else ""),
            Notice,
            stacklevel=2,
        )
    return so_far


def with_maps(
    model: Engine, sentences: Sequence[Sentence], which: str | None = None
) -> Iterator[tuple[AttentionRecord | None, Sentence]]:
    """Every sentence with its maps; with None where the model can't read it whole, and these come first.

    Tokens are cheap to make: whether there are too many is found first, and they are made again when their turn comes,
    so that they are not held. The order is one of chance, always the same: whoever interrupts has not seen the
    beginning of a treebank.
    """
    whole = []
    for sentence in sentences:
        if tokens_by_word(model, sentence) is None:
            yield None, sentence
        else:
            whole.append(sentence)
    random.Random(0).shuffle(whole)
    if which == "decoder" and len(model.parts) > 1:
        yield from (written(model, sentence) for sentence in whole)
        return
    records = model.attend_tokens(
        (tokens for sentence in whole if (tokens := tokens_by_word(model, sentence)) is not None), Request(which=which)
    )
    yield from zip(records, whole, strict=True)


def written(model: Engine, sentence: Sentence) -> tuple[AttentionRecord | None, Sentence]:
    """A sentence with the maps of an encoder-decoder's decoder, which writes what the encoder has read; with None where
    its tokens, which another tokenizer may cut, are not all of the sentence.
    """
    record = model.attend(sentence.text, which="decoder", target=sentence.text)
    tokens = words_of(record.tokens, sentence)
    return None if tokens is None else replace(record, tokens=tokens), sentence


def tokens_by_word(model: Engine, sentence: Sentence) -> Tokens | None:
    """Its tokens, which say which word of the treebank they are of; None when the model can't read it whole.

    Raises RequestError when the tokenizer is of another model.
    """
    try:
        tokens = encode(sentence.text, model.tokenizer)
    except ValueError:  # there is nothing in it that the tokenizer keeps
        return None
    return words_of(tokens, sentence) if len(tokens) <= model.tokenizer.max_tokens else None
