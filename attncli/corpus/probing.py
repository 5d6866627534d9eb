"""A treebank through a model: which heads find the syntactic heads of its words. What they find is counted in
`attncli.analysis.tally`.
"""

import random
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from attncli.analysis.probing import Probed, TreebankTally
from attncli.analysis.tally import Tally, tally
from attncli.base.errors import Notice, RequestError
from attncli.corpus.reading import shown
from attncli.corpus.treebank import read_treebank
from attncli.models.engine import Engine
from attncli.record import AttentionRecord, Request
from attncli.text.tokens import NothingKept, Tokens
from attncli.text.trees import Sentence, words_of

ENDLESS = 10**9  # tokens: a model that has no positions to run out of says that it reads some such number
LOST = "with a word that the tokenizer has no token for"  # why a sentence is skipped
NOT_WRITTEN = "that the decoder does not write whole"


class NotWhole(Exception):  # noqa: N818  (it says what is the case)
    """Why the model can't read a sentence whole, in words that go on from a number of sentences."""


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
    skipped: dict[str, list[int]] = defaultdict(list)
    try:
        for one in tally(with_maps(model, treebank.sentences, skipped, which), so_far):
            so_far = one
            advance()
    except KeyboardInterrupt:
        return so_far
    if not so_far.edges:
        raise RequestError(f"{treebank.path}: in no sentence that the model can read does a word depend on another")
    if skipped:
        of = f"skipped {so_far.skipped} of {len(treebank.sentences)} sentences"
        warnings.warn(f"{treebank.path}: {of}: {in_words(skipped)}", Notice, stacklevel=2)
    return so_far


def in_words(skipped: Mapping[str, Sequence[int]]) -> str:
    """Why sentences were skipped, by the lines that they stand in."""
    return ", ".join(
        f"{len(lines)} {why} ({'line' if len(lines) == 1 else 'the first in line'} {min(lines)})"
        for why, lines in skipped.items()
    )


def with_maps(
    model: Engine, sentences: Sequence[Sentence], skipped: dict[str, list[int]], which: str | None = None
) -> Iterator[tuple[AttentionRecord | None, Sentence]]:
    """Every sentence with its maps; with None where the model can't read it whole, and these come first: `skipped` is
    told why, and in which line.

    Tokens are cheap to make: whether there are too many is found first, and they are made again when their turn comes,
    so that they are not held. The order is one of chance, always the same: whoever interrupts has not seen the
    beginning of a treebank.
    """
    whole = []
    for sentence in sentences:
        try:
            tokens_by_word(model, sentence)
        except NotWhole as why:
            skipped[str(why)].append(sentence.line)
            yield None, sentence
        else:
            whole.append(sentence)
    random.Random(0).shuffle(whole)
    if which == "decoder" and len(model.parts) > 1:
        for sentence in whole:
            record = written(model, sentence)
            if record is None:
                skipped[NOT_WRITTEN].append(sentence.line)
            yield record, sentence
        return
    records = model.attend_tokens((tokens_by_word(model, sentence) for sentence in whole), Request(which=which))
    yield from zip(records, whole, strict=True)


def written(model: Engine, sentence: Sentence) -> AttentionRecord | None:
    """The maps of an encoder-decoder's decoder, which writes the sentence that the encoder has read; None where its
    tokens, which another tokenizer may cut, are not all of the sentence.
    """
    record = model.attend(sentence.text, which="decoder", target=sentence.text)
    tokens = words_of(record.tokens, sentence)
    return None if tokens is None else replace(record, tokens=tokens)


def tokens_by_word(model: Engine, sentence: Sentence) -> Tokens:
    """Its tokens, which say which word of the treebank they are of.

    Raises NotWhole when the model can't read it whole, and RequestError when the tokenizer is of another model, or
    breaks down on it.
    """
    room = model.tokenizer.max_tokens
    try:
        tokens, *more = islice(model.tokenizer.stretches(sentence.text), 2)
    except NothingKept as error:
        raise NotWhole(LOST) from error
    if more or len(tokens) > room:
        raise NotWhole(
            f"of more than the {room} tokens that the model reads" if room < ENDLESS else "that are too long"
        )
    by_word = words_of(tokens, sentence)
    if by_word is None:
        raise NotWhole(LOST)
    return by_word
