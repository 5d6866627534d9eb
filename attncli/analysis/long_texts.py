"""What is shown of a long text: stretches of tokens in place of tokens, or some of the tokens by themselves."""

from dataclasses import replace

import numpy as np

from attncli.analysis.words import merge
from attncli.base.printable import shorten
from attncli.record import AttentionRecord
from attncli.record.selection import Selection, number_list, select
from attncli.text.shown import joined
from attncli.text.tokens import Tokens

LONG = 1024  # tokens: of more, stretches are shown where every token would take a line or an element of a page
MOST = 512  # stretches
BEGINNING = 24  # characters of a stretch that are shown


def is_long(record: AttentionRecord) -> bool:
    """Whether there are more tokens on one of its sides than can be shown one by one."""
    return max(len(record.tokens), len(record.keys)) > LONG


def in_stretches(record: AttentionRecord) -> AttentionRecord:
    """A long record between stretches of neighbouring tokens, MOST at most, instead of tokens; another as it is.

    Weights to the tokens of a stretch add up, weights from them are averaged, as for words
    (`attncli.analysis.words.merge_words`): rows still sum to 1, and nothing is left out.
    """
    if not is_long(record):
        return record
    queries, keys = stretches(len(record.tokens)), stretches(len(record.keys))
    of_keys = None if record.key_tokens is None else stretch_tokens(record.key_tokens, keys)
    return merge(record, (queries, keys), stretch_tokens(record.tokens, queries), of_keys)


def stretches(tokens: int) -> list[list[int]]:
    """The places of each stretch's tokens; all stretches but the last are of one size."""
    size = -(-tokens // MOST)
    return [list(range(start, min(start + size, tokens))) for start in range(0, tokens, size)]


def stretch_tokens(tokens: Tokens, groups: list[list[int]]) -> Tokens:
    """Each stretch as a token, named by the first and the last of its tokens and how it begins: "16-31 the cat"."""
    names = [number_list(group) for group in groups]
    begin = [shorten(joined([tokens.shown[place] for place in group]).strip(), BEGINNING) for group in groups]
    starts = [group[0] for group in groups]
    return replace(
        tokens.take(starts),
        text=names,
        words=list(range(len(groups))),
        offsets=[(tokens.offsets[group[0]][0], tokens.offsets[group[-1]][1]) for group in groups],
        special=[all(tokens.special[place] for place in group) for group in groups],
        padding=[all(tokens.padding[place] for place in group) for group in groups],
        shown=[f"{name} {text}" for name, text in zip(names, begin, strict=True)],
    )


def stretches_note(record: AttentionRecord, shown: AttentionRecord) -> str:
    """What has to be said of stretches."""
    size = -(-max(len(record.tokens), len(record.keys)) // MOST)
    return (
        f"{len(record.tokens)} tokens are shown as {len(shown.tokens)} stretches of {size}: weights to one add up, "
        "from one are averaged; --tokens 0-255 shows some one by one"
    )


def some_tokens(record: AttentionRecord, tokens: Selection) -> AttentionRecord:
    """The record of some of its tokens only, as queries and as keys; of another text's keys all are kept.

    tokens: as `select` takes them: "4000-4099", "0,4000-4099". Rows sum to what these tokens give each other.

    Raises RequestError for tokens that are not there.
    """
    chosen = sorted(select(tokens, len(record.tokens), "token"))
    first, last = chosen[0], chosen[-1] + 1
    places = slice(first, last) if len(chosen) == last - first else np.array(chosen)
    keys = places if record.key_tokens is None else slice(None)
    return replace(
        record,
        tokens=record.tokens.take(chosen),
        weights=np.array(record.weights[:, :, places][..., keys]),
        masks=np.array(record.masks[:, places][..., keys]),
        vectors=None if record.vectors is None else record.vectors.between(places, keys),
        prediction=None if record.prediction is None else record.prediction.between([[place] for place in chosen]),
    )


def some_tokens_note(record: AttentionRecord, shown: AttentionRecord, tokens: Selection) -> str:
    """How much of the weight of these tokens they give each other; of norms there is no such share."""
    chosen = number_list(sorted(select(tokens, len(record.tokens), "token")))
    few = f"tokens {chosen} of {len(record.tokens)}, counted from 0 anew"
    if record.key_tokens is not None or record.measure == "norm":
        return few
    rows = shown.weights.sum(axis=-1, dtype=np.float64)
    attending = max(int((rows > 0).sum()), 1)
    return f"{few}: they give each other {rows.sum() / attending:.0%} of their weight"
