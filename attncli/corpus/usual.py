"""The usual weights of a model's heads between words, over short texts that come with the program."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace

from attncli.analysis.edges import Usual
from attncli.analysis.patterns import row_shares
from attncli.base.errors import Notice
from attncli.models.engine import Engine
from attncli.record.grouping import merge_words
from attncli.record.selection import TOKENS, Input, Request
from attncli.text.samples import find_sample

FILES = ("agreement.txt", "coreference.txt", "negation.txt", "pair.txt", "words.txt")  # those of short lines


def usual_of(
    engine: Engine, request: Request, words: bool = False, tell: Callable[[float], None] = lambda _: None
) -> Usual | None:
    """Return the usual weights for a request, over the sample texts; `words`: between words.

    tell: called with the completed share before each text. It may raise to end the work. None if a decoder would have
    to write to each text first, which takes long.

    Raises RequestError as `Engine.answer`.
    """
    if engine.writes(request):
        return None
    asked = replace(request, pad_to=None, vectors=None, target=None, predict=False, grouping=TOKENS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)  # about the sample texts
        records = map(row_shares, engine.answer(map(Input, told_lines(tell)), asked))
        return Usual.of(map(merge_words, records) if words else records)


def told_lines(tell: Callable[[float], None]) -> Iterator[str]:
    """Yield the sample texts, after calling `tell` with the share of texts before each."""
    texts = lines()
    for number, text in enumerate(texts):
        tell(number / len(texts))
        yield text


def lines() -> list[str]:
    """Return the sample texts."""
    files = [find_sample(name).text.splitlines() for name in FILES]
    return [line.strip() for file in files for line in file if line.strip()]
