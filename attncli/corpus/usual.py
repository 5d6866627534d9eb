"""What a model's heads usually give between words: over short texts that come with the program."""

import warnings
from dataclasses import replace

from attncli.analysis.shares import row_shares
from attncli.analysis.telling import Usual
from attncli.analysis.words import merge_words
from attncli.base.errors import Notice
from attncli.models.engine import Engine
from attncli.record.request import TOKENS, Input, Request
from attncli.text.samples import find_sample

FILES = ("agreement.txt", "coreference.txt", "negation.txt", "pair.txt", "words.txt")  # those of short lines


def usual_of(engine: Engine, request: Request, words: bool = False) -> Usual | None:
    """Over the texts that come with the program, asked for as `request` asks; `words`: between words.

    None where a decoder would have to write something to each first, which takes long.

    Raises RequestError as `Engine.answer` does.
    """
    if engine.writes(request):
        return None
    asked = replace(request, pad_to=None, vectors=None, target=None, predict=False, grouping=TOKENS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)  # of these texts nobody wants to know that one was cut
        records = map(row_shares, engine.answer(map(Input, lines()), asked))
        return Usual.of(map(merge_words, records) if words else records)


def lines() -> list[str]:
    """These texts."""
    files = [find_sample(name).text.splitlines() for name in FILES]
    return [line.strip() for file in files for line in file if line.strip()]
