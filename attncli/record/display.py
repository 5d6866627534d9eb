"""The words, cells and colours that every medium shows with a record."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from attncli.base.arrays import Bools, Doubles, Floats
from attncli.base.errors import RequestError
from attncli.base.printable import printable, visible
from attncli.record.parts import LIKELY, NOTHING, Answer, PredictionSummary
from attncli.record.record import AttentionRecord
from attncli.text.tokens import Tokens, joined, text_between, word_groups

MOST_LABELS = 4  # labels of a text that are named
MOST_WORDS = 12  # words with a label that are named
NAMELESS = "LABEL_0"  # transformers' name of the one label of a regression without a name

SINKS = "heads have sinks, so rows sum to less than 1, and the rest of the weight goes to no token"
DIVIDED = f"{SINKS}: each row of the mean over heads is divided by its sum"
ZOOM = "--tokens 0-255 shows some one by one"

# --- titles ---------------------------------------------------------------------------------------------


def model_name(name: str) -> str:
    """Return a model's name without the folders that lead to it."""
    return printable(name.rstrip("/\\").replace("\\", "/").rpartition("/")[2] or name)


def model_shown(model: Mapping[str, Any]) -> str:
    """Return the name of a document's model, with its changes."""
    return model_name(f"{model['name']} {model.get('changes', '')}".strip())


def title_of_record(record: AttentionRecord, what: str) -> list[str]:
    """Return the pieces of a record's title: the model, anything unusual, `what` is shown, the mask, and the size."""
    mask = f"mask {record.mask_name}"
    return [model_name(record.model.full_name), *record.unusual, what, mask, record_size(record)]


def record_size(record: AttentionRecord) -> str:
    """Return the number of tokens, with [PAD] apart: "16 tokens + 2 [PAD]"."""
    if record.key_tokens is not None:
        return f"{token_count(record.tokens)} to {token_count(record.key_tokens)}"
    return token_count(record.tokens)


def token_count(tokens: Tokens) -> str:
    """16 tokens + 2 [PAD]"""
    padding = sum(tokens.padding)
    count = len(tokens) - padding
    return f"{count} token{'' if count == 1 else 's'}" + (f" + {padding} [PAD]" if padding else "")


# --- predictions ----------------------------------------------------------------------------------------


def describe_prediction(record: AttentionRecord) -> list[str]:
    """Return the prediction as lines: one, or one for every [MASK]; none where the record has no prediction."""
    prediction = record.prediction
    if record.written is not None:
        pieces = zip(record.tokens.shown[record.written :], record.tokens.special[record.written :], strict=True)
        return [f'written: "{printable(joined([piece for piece, special in pieces if not special]))}"']
    if prediction is None or not prediction.answers:  # or they are about tokens that are left out
        return []
    name = "prediction" if prediction.output == prediction.kind else f"prediction, {printable(prediction.output)}"
    return [f"{name}: {line}" for line in _answers(prediction, record)]


def _answers(prediction: PredictionSummary, record: AttentionRecord) -> Iterator[str]:
    """Yield the answers of a prediction, a line each."""
    match prediction.kind:
        case "words":
            for place, words in groupby(prediction.answers, lambda answer: answer.start):
                mask = "" if place is None else f"{visible(record.tokens.shown[place])} {place} is "
                yield mask + ", ".join(map(_with_probability, words))
        case "next":
            yield "next " + ", ".join(map(_with_probability, prediction.answers))
        case "tokens":
            ends = {group[0]: group[-1] + 1 for group in word_groups(record.tokens)}
            found = [  # a word has the label of its first piece
                f"{printable(text_between(record.tokens, one.start, ends[one.start]))} {_with_probability(one)}"
                for one in prediction.answers
                if one.start in ends and (one.label != NOTHING if prediction.single else _is_likely(one))
            ]
            yield _first_of(found, MOST_WORDS) if found else "no token has a label"
        case "span":
            yield from (f'"{printable(one.label)}"{_percent(one)}' for one in prediction.answers[:1])
        case _:
            chosen = prediction.answers if prediction.single else [one for one in prediction.answers if _is_likely(one)]
            nothing = f"none of {len(prediction.answers)} labels has {LIKELY:.0%}"
            yield _first_of(list(map(_with_probability, chosen)), MOST_LABELS) if chosen else nothing


def _is_likely(answer: Answer) -> bool:
    """Return whether an independent label applies to the text; the number of a regression always does."""
    return answer.probability is None or answer.probability >= LIKELY


def _first_of(names: Sequence[str], most: int) -> str:
    """Return the first of many names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _with_probability(answer: Answer) -> str:
    """Return a label with its probability, or the number of a regression."""
    if answer.probability is None:
        return f"{'' if answer.label == NAMELESS else f'{visible(answer.label)} '}{answer.logit:.4g}"
    return f"{visible(answer.label)}{_percent(answer)}"


def _percent(answer: Answer) -> str:
    return "" if answer.probability is None else f" {answer.probability:.1%}"


# --- notes ----------------------------------------------------------------------------------------------


def in_stretches(record: AttentionRecord) -> bool:
    """Return whether a record shows stretches of tokens, or units of several words, instead of tokens."""
    return record.part is not None and record.part.stretched


def notes(record: AttentionRecord) -> list[str]:
    """Return a sentence each on sinks, on the tokens that were chosen, and on stretches, where a record has them."""
    part, found = record.part, list[str]()
    if record.sinks and record.measure == "weight":
        sums: Doubles = record.weights.sum(axis=-1, dtype=np.float64)  # [layer, head, query]
        may: Bools = np.asarray(record.masks.any(axis=2))  # [layer, query]
        attending = may[:, None] & ~record.unchosen[..., None]
        complete = part is None or not part.chosen  # the rows of some tokens don't tell how much goes to sinks
        known = complete and attending.any()
        found.append(f"{SINKS}: {1 - np.mean(sums, where=attending):.0%} of it, on average" if known else SINKS)
    if part is not None and part.chosen:
        share = ""
        if record.key_tokens is None and record.measure == "weight":
            sums = record.weights.sum(axis=-1, dtype=np.float64)
            share = f": they give each other {sums.sum() / max(int((sums > 0).sum()), 1):.0%} of their weight"
        found.append(f"tokens {part.chosen} of {part.tokens}, counted from 0 anew{share}")
    if part is not None and part.size > 1:
        found.append(
            f"{part.units} {part.unit} are shown as {len(record.tokens)} stretches of {part.size}: weights to a "
            f"stretch are summed, weights from it are averaged; {ZOOM}"
        )
    elif part is not None and part.stretched:
        found.append(
            f"{part.tokens} tokens are merged by {part.unit[:-1]} into {part.units} units: weights to a unit are "
            "summed, from it averaged; the first token and special tokens stand apart"
        )
    return found


# --- hidden cells -------------------------------------------------------------------------------------

HIDDEN = "hidden"  # what legends say


def hide_masked(weights: Floats, masks: Bools) -> Floats:
    """Return weights with NaN where the mask hides, `[..., query, key]`. A weight above 0 is drawn even there."""
    return np.where(masks | (weights > 0), weights, np.float32(np.nan))


def drawn_map(record: AttentionRecord, layer: int, head: int) -> Floats:
    """Return one head of a record as it is drawn, `[query, key]`, by its numbers in the model."""
    return hide_masked(record.map(layer, head), record.mask_of(layer))


def largest_weight(*maps: Floats) -> float:
    """Return the largest weight that is not hidden in these drawn maps; 0 where all are hidden."""
    return max(float(np.max(one, initial=0, where=~np.isnan(one))) for one in maps)


def hides(*maps: Floats) -> bool:
    """Return whether any cell of these drawn maps is hidden."""
    return any(bool(np.isnan(one).any()) for one in maps)


# --- pooling ------------------------------------------------------------------------------------------


def pool(weights: Floats, rows: int, columns: int) -> Floats:
    """Return a smaller map, in which a cell is the largest of the weights that fall into it, so that no peak is lost.

    Hidden cells (NaN) do not count: a cell is hidden where all cells that fall into it are.
    """
    for axis, most in ((0, rows), (1, columns)):
        length = weights.shape[axis]
        if length > most:
            starts = np.arange(most) * length // most
            weights = np.fmax.reduceat(weights, starts, axis=axis)
    return weights


def pool_signed(numbers: Floats, rows: int, columns: int) -> Floats:
    """Return a smaller map of signed numbers, in which a cell is the number that is largest in size."""
    nothing = np.isnan(numbers)
    highest = pool(np.where(nothing, -np.inf, numbers), rows, columns)
    lowest = -pool(np.where(nothing, -np.inf, -numbers), rows, columns)
    found = np.where(highest >= -lowest, highest, lowest)
    return np.where(np.isinf(found), np.nan, found)


# --- terms of scores ---------------------------------------------------------------------------------

SCORE = "score"  # the sum


def score_terms(record: AttentionRecord) -> dict[str, Doubles]:
    """Return, for the one head of a record, its score and the terms of it by name, `[query, key]` each.

    "content" is scale q·k; the others are what positions add. Hidden keys are NaN.

    Raises RequestError as `with_terms` does.
    """
    [layer], [head] = with_terms(record).layers, record.heads
    assert record.vectors is not None
    parts = record.vectors.parts(layer, head)
    hidden = ~record.mask_of(layer)
    return {
        part: np.where(hidden, np.nan, numbers)
        for part, numbers in {SCORE: np.sum(list(parts.values()), axis=0), **parts}.items()
    }


def with_terms(record: AttentionRecord) -> AttentionRecord:
    """Return the record. Raises RequestError for several heads, no queries and keys, or no terms."""
    if len(record.each_head) > 1:
        raise RequestError("--terms is of one head: choose it with -l and -H")
    [layer], [head] = record.layers, record.heads
    name = printable(record.model.name)
    if record.vectors is None or record.measure != "weight":
        raise RequestError(
            f"no q and k of head {layer}.{head} of {name} are there, which make its scores: save them with "
            f"attncli run --vectors {layer}.{head} -o maps.safetensors TEXT"
        )
    if not record.vectors.terms:
        raise RequestError(
            f"the scores of head {layer}.{head} of {name} are q·k, scaled, and positions add no term to them: leave "
            "--terms out (attncli explain has what they are made of)"
        )
    return record


# --- colours -----------------------------------------------------------------------------------------

# Red, green and blue from 0 to 255: the ends of matplotlib's RdBu_r.
BELOW, ABOVE = (33, 102, 172), (178, 24, 43)

# Visible on white and on black (3:1), and told apart with normal vision, protanopia, deuteranopia and tritanopia:
# tests/record/test_palette.py.
HEAD_COLOURS = ("#2d69b4", "#ff3c1e", "#00a52d", "#960fff", "#d27878", "#c30f78", "#5a693c", "#ff2df0")

# Weights from nothing to the largest on paper, at equal distances: white, blue, violet, nearly black. On a dark page
# they go the other way. CIE lightness falls in even steps, 100 to 8, so that neither grey print nor an eye that
# doesn't tell red from green loses any: tests/record/test_palette.py.
WEIGHTS_NAME = "violets"  # among matplotlib's colour maps
WEIGHTS = (
    "#ffffff", "#e5f0fb", "#cce1f7", "#b4d1f3", "#9dc1f0", "#88b0ed", "#779fe8", "#6a8ee3", "#617cdc",
    "#5c69d3", "#5856c5", "#5246b2", "#4c369f", "#442a82", "#372069", "#2a194b", "#1d122f",
)  # fmt: skip


def head_colour(place: int) -> str:
    """Return the colour of a head by its place among those that are drawn. After the last colour they start again."""
    return HEAD_COLOURS[place % len(HEAD_COLOURS)]


def dashes(place: int) -> str:
    """Return matplotlib's style of a line by its place among others: where colours are not told apart, dashes are."""
    return ("-", "--", "-.", ":")[(place + place // len(HEAD_COLOURS)) % 4]


SIGNED = "RdBu_r"  # among matplotlib's colour maps: blue is below 0, red above

# Around 0, from below it to above it, at equal distances: on white matplotlib's "RdBu_r", on black its mirror, which
# has the dark page's own colour in its middle.
CHANGES_LIGHT = (
    "#053061", "#2166ac", "#4393c3", "#92c5de", "#d1e5f0", "#f7f7f7", "#fddbc7", "#f4a582", "#d6604d", "#b2182b",
    "#67001f",
)  # fmt: skip
CHANGES_DARK = (
    "#d1e5f0", "#92c5de", "#4393c3", "#2166ac", "#183a62", "#14161a", "#621824", "#b2182b", "#d6604d", "#f4a582",
    "#fddbc7",
)  # fmt: skip
