"""Sentences of a treebank through a model, each with its maps; or why the model can't read it whole."""

import random
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain, islice

from attncli.models.engine import Engine
from attncli.models.model import Model
from attncli.models.rows import batches, read_ahead
from attncli.record import AttentionRecord, Request
from attncli.text.tokens import NothingKept, Tokens
from attncli.text.trees import Sentence, words_of

AT_ONCE = 2**15  # sentences that are shuffled together; all of them are in memory
ENDLESS = 10**9  # tokens: a model that has no positions to run out of says that it reads some such number
LOST = "with a word that the tokenizer has no token for"  # why a sentence is skipped
NOT_WRITTEN = "that the decoder does not write whole"


class NotWhole(Exception):  # noqa: N818  (it says what is the case)
    """Why the model can't read a sentence whole, in words that go on from a number of sentences."""


def read(
    model: Engine, sentences: Iterable[tuple[str, Sentence]], which: str | None, each: ThreadPoolExecutor
) -> Iterator[tuple[AttentionRecord | str, str, Sentence]]:
    """Every sentence, and the file that it stands in, with its maps; or, where the model can't read it whole, with why
    not, and these come first.

    Tokens are cheap to make: whether there are too many is found first, and they are made again when their turn comes,
    so that they are not held. The order is one of chance, always the same: whoever interrupts has not seen the
    beginning of a treebank.

    each: threads, of a core each, that batches are for.
    """
    left = iter(sentences)
    while some := list(islice(left, AT_ONCE)):
        whole = []
        for file, sentence in some:
            try:
                tokens_by_word(model, sentence)
            except NotWhole as why:
                yield str(why), file, sentence
            else:
                whole.append((file, sentence))
        order = list(range(len(whole)))
        random.Random(0).shuffle(order)
        if which == "decoder" and len(model.parts) > 1:
            lost = []
            for number in order:
                record = written(model, whole[number][1])
                if record is None:
                    lost.append(number)
                else:
                    yield record, *whole[number]
            yield from ((NOT_WRITTEN, *whole[number]) for number in sorted(lost))
        else:
            tokens = (tokens_by_word(model, whole[number][1]) for number in order)
            for number, record in zip(order, records(model, tokens, Request(which=which), each), strict=True):
                yield record, *whole[number]


def records(
    model: Engine, texts: Iterable[Tokens], request: Request, each: ThreadPoolExecutor
) -> Iterator[AttentionRecord]:
    """Of all layers and heads; of a model on a CPU each thread makes those of one batch.

    So their last bits don't depend on how many cores there are, and the cores of a batch don't wait for each other.
    """
    if not isinstance(model, Model) or model.device.type != "cpu":
        yield from model.attend_tokens(texts, request)
        return
    for group in read_ahead(texts, model.config.layers * model.config.heads, model.batch_tokens):
        cut = batches(group, model.batch_tokens)
        made = each.map(
            lambda batch: list(model.attend_tokens(batch, request)), [[group[n] for n in one] for one in cut]
        )
        of_group = dict(chain.from_iterable(map(zip, cut, made)))
        for number in range(len(group)):
            yield of_group.pop(number)  # whoever drops a record has its memory back


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
