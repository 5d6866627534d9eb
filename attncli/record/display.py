"""The words, cells and colours with which every output shows a record."""

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

LONGEST_NAMED = 240  # tokens of a map that has room for their names
MOST_LABELS = 4  # labels of a text that are listed
MOST_WORDS = 12  # words with a label that are listed
NAMELESS = "LABEL_0"  # transformers' name of the one label of a regression without a name

SINKS = "heads have sinks, so rows sum to less than 1; the rest of the weight goes to the sink"
DIVIDED = f"{SINKS}: each row of the mean over heads is divided by its sum"
ZOOM = "--tokens 0-255 shows single tokens"

# --- titles ---------------------------------------------------------------------------------------------


def model_name(name: str) -> str:
    """Return a model's name without the folders that lead to it."""
    return printable(name.rstrip("/\\").replace("\\", "/").rpartition("/")[2] or name)


def model_shown(model: Mapping[str, Any]) -> str:
    """Return the name of a document's model, with its changes."""
    return model_name(f"{model['name']} {model.get('changes', '')}".strip())


def title_of_record(record: AttentionRecord, what: str) -> list[str]:
    """Return the parts of a record's title: the model, unusual settings, `what` is shown, the mask, and the size."""
    mask = f"mask {record.mask_name}"
    return [model_name(record.model.full_name), *record.unusual, what, mask, record_size(record)]


def record_size(record: AttentionRecord) -> str:
    """Return the number of tokens, counting [PAD] separately: "16 tokens + 2 [PAD]", or "357 tokens in 15 units"."""
    if in_stretches(record) and record.part is not None:
        return f"{record.part.tokens} tokens in {len(record.tokens)} {'stretches' if record.part.size > 1 else 'units'}"
    if record.key_tokens is not None:
        return f"{token_count(record.tokens)} to {token_count(record.key_tokens)}"
    return token_count(record.tokens)


def is_long(record: AttentionRecord) -> bool:
    """Return whether a map of all tokens has no room for their names, and one of units is easier to read."""
    return record.part is None and max(len(record.tokens), len(record.keys)) > LONGEST_NAMED


def token_count(tokens: Tokens) -> str:
    """16 tokens + 2 [PAD]"""
    padding = sum(tokens.padding)
    count = len(tokens) - padding
    return f"{count} token{'' if count == 1 else 's'}" + (f" + {padding} [PAD]" if padding else "")


# --- predictions ----------------------------------------------------------------------------------------


def describe_prediction(record: AttentionRecord) -> list[str]:
    """Return the prediction as lines: one, or one for every [MASK]; none if the record has no prediction."""
    prediction = record.prediction
    if record.written is not None:
        pieces = zip(record.tokens.shown[record.written :], record.tokens.special[record.written :], strict=True)
        return [f'written: "{printable(joined([piece for piece, special in pieces if not special]))}"']
    if prediction is None or not prediction.answers:  # or all are about tokens that are omitted
        return []
    name = "prediction" if prediction.output == prediction.kind else f"prediction, {printable(prediction.output)}"
    return [f"{name}: {line}" for line in _answers(prediction, record)]


def _answers(prediction: PredictionSummary, record: AttentionRecord) -> Iterator[str]:
    """Yield the answers of a prediction, one line each."""
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
    """Return whether an independent label applies to the text; a regression's number always does."""
    return answer.probability is None or answer.probability >= LIKELY


def _first_of(names: Sequence[str], most: int) -> str:
    """Return the first of many names, and the number of the others."""
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
    """Return one sentence each on sinks, selected tokens and stretches, if a record has them."""
    part, found = record.part, list[str]()
    if record.sinks and record.measure == "weight":
        sums: Doubles = record.weights.sum(axis=-1, dtype=np.float64)  # [layer, head, query]
        may: Bools = np.asarray(record.masks.any(axis=2))  # [layer, query]
        attending = may[:, None] & ~record.unchosen[..., None]
        complete = part is None or not part.chosen  # the rows of some tokens don't show how much goes to sinks
        known = complete and attending.any()
        found.append(f"{SINKS}: {1 - np.mean(sums, where=attending):.0%} of it, on average" if known else SINKS)
    if part is not None and part.chosen:
        share = ""
        if record.key_tokens is None and record.measure == "weight":
            sums = record.weights.sum(axis=-1, dtype=np.float64)
            share = f": they give each other {sums.sum() / max(int((sums > 0).sum()), 1):.0%} of their weight"
        found.append(f"tokens {part.chosen} of {part.tokens}, renumbered from 0{share}")
    if part is not None and part.size > 1:
        found.append(
            f"{part.units} {part.unit} are shown as {max(len(record.tokens), len(record.keys))} stretches of "
            f"{part.size}: weights to a stretch are summed, weights from it are averaged; {ZOOM}"
        )
    elif part is not None and part.stretched:
        found.append(
            f"{part.tokens} tokens are merged by {part.unit[:-1]} into {part.units} units: weights to a unit are "
            "summed, weights from it averaged; the first token and special tokens stay separate"
        )
    return found


# --- hidden cells -------------------------------------------------------------------------------------

HIDDEN = "hidden"  # in legends


def hide_masked(weights: Floats, masks: Bools) -> Floats:
    """Return weights with NaN in hidden cells, `[..., query, key]`. A weight above 0 is drawn even if hidden."""
    return np.where(masks | (weights > 0), weights, np.float32(np.nan))


def drawn_map(record: AttentionRecord, layer: int, head: int) -> Floats:
    """Return one head of a record as it is drawn, `[query, key]`, by its numbers in the model."""
    return hide_masked(record.map(layer, head), record.mask_of(layer))


def largest_weight(*maps: Floats | Doubles) -> float:
    """Return the largest visible weight in these drawn maps; 0 if all are hidden."""
    return max(float(np.max(one, initial=0, where=~np.isnan(one))) for one in maps)


def hides(*maps: Floats) -> bool:
    """Return whether any cell of these drawn maps is hidden."""
    return any(bool(np.isnan(one).any()) for one in maps)


# --- pooling ------------------------------------------------------------------------------------------


def pool(weights: Floats, rows: int, columns: int) -> Floats:
    """Return a smaller map whose cells are the largest of the weights that they cover, so that no peak is lost.

    Hidden cells (NaN) do not count: a cell is hidden if all cells that it covers are.
    """
    for axis, most in ((0, rows), (1, columns)):
        length = weights.shape[axis]
        if length > most:
            starts = np.arange(most) * length // most
            weights = np.fmax.reduceat(weights, starts, axis=axis)
    return weights


def pool_signed(numbers: Floats, rows: int, columns: int) -> Floats:
    """Return a smaller map of signed numbers, whose cells are the numbers with the largest absolute value."""
    nothing = np.isnan(numbers)
    highest = pool(np.where(nothing, -np.inf, numbers), rows, columns)
    lowest = -pool(np.where(nothing, -np.inf, -numbers), rows, columns)
    found = np.where(highest >= -lowest, highest, lowest)
    return np.where(np.isinf(found), np.nan, found)


# --- terms of scores ---------------------------------------------------------------------------------

SCORE = "score"  # the sum


def score_terms(record: AttentionRecord) -> dict[str, Doubles]:
    """Return the score of a record's only head, and the score's terms by name, `[query, key]` each.

    "content" is scale q·k; positions add the others. Hidden keys are NaN.
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
    """Return the record. Raises RequestError if it has several heads, no queries and keys, or no terms."""
    if len(record.each_head) > 1:
        raise RequestError("--terms needs one head: choose it with -l and -H")
    [layer], [head] = record.layers, record.heads
    name = printable(record.model.name)
    if record.vectors is None or record.measure != "weight":
        raise RequestError(
            f"the record lacks q and k of head {layer}.{head} of {name}, from which scores are computed: save them "
            f"with attncli run --vectors {layer}.{head} -o maps.safetensors TEXT"
        )
    if not record.vectors.terms:
        raise RequestError(
            f"the scores of head {layer}.{head} of {name} are q·k, scaled, and positions add no term: omit --terms "
            "(attncli explain shows how they are computed)"
        )
    return record


# --- colours -----------------------------------------------------------------------------------------

# Red, green and blue from 0 to 255: the ends of matplotlib's RdBu_r.
BELOW, ABOVE = (33, 102, 172), (178, 24, 43)

# Visible on white and on black (3:1), and distinguishable with normal vision, protanopia, deuteranopia and tritanopia:
# tests/record/test_palette.py.
HEAD_COLOURS = ("#2d69b4", "#ff3c1e", "#00a52d", "#960fff", "#d27878", "#c30f78", "#5a693c", "#ff2df0")

# Weights from 0 to the largest on paper, at equal distances: white, blue, violet, nearly black. A dark page reverses
# them. CIE lightness falls in even steps, 100 to 8, so that weights stay distinguishable in grey print and with
# red-green colour blindness: tests/record/test_palette.py.
WEIGHTS_NAME = "violets"  # among matplotlib's colour maps
WEIGHTS = (
    "#ffffff", "#e5f0fb", "#cce1f7", "#b4d1f3", "#9dc1f0", "#88b0ed", "#779fe8", "#6a8ee3", "#617cdc",
    "#5c69d3", "#5856c5", "#5246b2", "#4c369f", "#442a82", "#372069", "#2a194b", "#1d122f",
)  # fmt: skip


def head_colour(place: int) -> str:
    """Return the colour of a head by its index among those that are drawn. After the last colour, colours repeat."""
    return HEAD_COLOURS[place % len(HEAD_COLOURS)]


def dashes(place: int) -> str:
    """Return matplotlib's line style by the line's index: dashes are distinguishable where colours are not."""
    return ("-", "--", "-.", ":")[(place + place // len(HEAD_COLOURS)) % 4]


SIGNED = "RdBu_r"  # among matplotlib's colour maps: blue is below 0, red above

# From below 0 to above it, at equal distances: on white matplotlib's "RdBu_r"; on black its mirror, whose middle is the
# dark page's own colour.
CHANGES_LIGHT = (
    "#053061", "#2166ac", "#4393c3", "#92c5de", "#d1e5f0", "#f7f7f7", "#fddbc7", "#f4a582", "#d6604d", "#b2182b",
    "#67001f",
)  # fmt: skip
CHANGES_DARK = (
    "#d1e5f0", "#92c5de", "#4393c3", "#2166ac", "#183a62", "#14161a", "#621824", "#b2182b", "#d6604d", "#f4a582",
    "#fddbc7",
)  # fmt: skip
