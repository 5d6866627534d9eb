"""Requests to a model, and selections of layers, heads and tokens: "3", "0,3,5", "0-3", "-1", "all", or numbers.

Heads of different layers are named with their layers, "4.7", "4.0-3", "4.all", "-1.0,2.5", or as pairs of numbers.
"""

import difflib
import re
import reprlib
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import product, repeat
from operator import index
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from attncli.base import choices
from attncli.base.arrays import Doubles
from attncli.base.choices import check_instance, check_optional_text, describe, each_text
from attncli.base.errors import Notice, RequestError
from attncli.base.printable import quoted, visible
from attncli.text.tokens import Tokens, characters, word_groups, word_tokens
from attncli.text.units import PartedText

Selection = str | int | Sequence[int]

ITEM = re.compile(r"\s*(-?\d{1,9})(?:\s*-\s*(-?\d{1,9}))?\s*")


def select(selection: Selection, count: int, what: str) -> list[int]:
    """Return the selected numbers, counted from 0, in the order given, without duplicates.

    A negative number counts from the end: -1 is the last of `count`. "0-3" is 0, 1, 2, 3.

    Raises RequestError with the valid range for anything else. `what` is "layer" or "head".
    """
    if isinstance(selection, str):
        numbers = parse(selection, count, what)
    else:
        numbers = [position(number, count, what) for number in whole_numbers(selection, count, what)]
    if not numbers:
        raise RequestError(f"no {what} selected: {valid_range(count, what)}")
    return list(dict.fromkeys(numbers))


def whole_numbers(selection: Any, count: int, what: str) -> list[int]:
    """Return whole numbers of any library as ints. Raises RequestError for anything else."""
    with suppress(TypeError):
        return [index(selection)]
    try:
        return [index(number) for number in selection]
    except TypeError as error:
        raise RequestError(f"{what} {reprlib.repr(selection)} is not a number: {valid_range(count, what)}") from error


def select_one(selection: Selection, count: int, what: str) -> int:
    """Return the single selected number. Raises RequestError as `select` does, and if there are several."""
    numbers = select(selection, count, what)
    if len(numbers) != 1:
        raise RequestError(f"exactly one {what} is needed, not {len(numbers)}: {what}s are 0 to {count - 1}")
    return numbers[0]


def parse(text: str, count: int, what: str) -> list[int]:
    if text.strip().lower() == "all":
        return list(range(count))
    numbers: list[int] = []
    for part in text.split(","):
        match = ITEM.fullmatch(part)
        if match is None:
            raise RequestError(f"{what} {quoted(text)} is not a number: {valid_range(count, what)}")
        first = position(int(match[1]), count, what)
        last = first if match[2] is None else position(int(match[2]), count, what)
        if last < first:
            raise RequestError(f"{what} {quoted(part.strip())} runs backwards: write the smaller number first")
        numbers.extend(range(first, last + 1))
    return numbers


def position(number: int, count: int, what: str) -> int:
    if not -count <= number < count:
        raise RequestError(f"{what} {number} is out of range: {valid_range(count, what)}")
    return int(number) % count


def valid_range(count: int, what: str) -> str:
    with_layers = ', "3.1,1.8" (heads of layers 3 and 1)' if what == "head" else ""
    return f'{what}s are 0 to {count - 1}. Examples: "3", "0,3", "0-{count - 1}", "-1", "all"{with_layers}'


LAST = "LAST"  # names the last token that is not [PAD]
NTH = re.compile(r"(?P<text>.+)#(?P<count>[1-9]\d{0,5})", re.DOTALL)


def select_token(name: str, tokens: Tokens) -> int:
    """Return the place of a token: "it" is the first such token, "it#2" the second, "7" is token 7, "-1" the last,
    LAST the last that is not [PAD].

    A number is always an index; a token that is a number is named as in "7#1". `places_of` defines which tokens match.

    Raises RequestError if there is none, suggesting similar tokens, and for a word of several tokens, listing them.
    """
    places = _find_pieces(name, tokens)
    if len(places) > 1:
        raise RequestError(f"{_describe_pieces(name, places, tokens)}: name one of them")
    return places[0]


def select_pieces(name: str, tokens: Tokens) -> list[int]:
    """Return the place of a token as `select_token` does, or those of the tokens of a word, with a Notice."""
    places = _find_pieces(name, tokens)
    if len(places) > 1:
        warnings.warn(f"{_describe_pieces(name, places, tokens)} (all are used)", Notice, stacklevel=3)
    return places


def select_units(name: str, units: Tokens, grouping: "Grouping") -> list[int]:
    """Return the units with this name as `select_pieces` does. A part that other parts interrupt has several units."""
    of_part = places_of(name, units) if grouping.unit == "part" and not is_number(name) else []
    return of_part or select_pieces(name, units)


def _find_pieces(name: str, tokens: Tokens) -> list[int]:
    """Return the place of a token, or those of the tokens of a word that no token matches."""
    if is_number(name):
        if not -len(tokens) <= int(name) < len(tokens):
            raise RequestError(f"token {name} is out of range: tokens are 0 to {len(tokens) - 1}")
        return [int(name) % len(tokens)]
    if name == LAST and not exact_places(name, tokens):
        return tokens.real[-1:]
    match = NTH.fullmatch(name)
    text, count = (match["text"], int(match["count"])) if match and not exact_places(name, tokens) else (name, 1)
    places = [[place] for place in places_of(text, tokens)]
    if not places:
        groups = word_groups(tokens)
        places = [groups[word] for word in places_of(text, word_tokens(tokens))]
    if not places:
        there = list(dict.fromkeys(map(visible, tokens.shown)))
        near = difflib.get_close_matches(text, there, n=5, cutoff=0.5) or there[:8]
        more = ", ..." if len(near) < len(there) else ""
        raise RequestError(f"no token {quoted(text)} in the text: it has {', '.join(near)}{more}")
    if count > len(places):
        times = f"{len(places)} time{'s' if len(places) > 1 else ''}"
        others = [one for one in dict.fromkeys(tokens.shown) if ignoring_case(one) == ignoring_case(text)]
        offered = ", ".join(visible(one) for one in others if one != tokens.shown[places[0][0]])
        raise RequestError(
            f"token {quoted(name)}: {quoted(text)} occurs {times}" + (f"; there is {offered} too" if offered else "")
        )
    return places[count - 1]


def select_queries(selection: Selection, tokens: Tokens) -> list[int]:
    """Return the places of queries, ascending, from numbers, ranges, and tokens as `select_token` names them.

    Commas separate them. A word of several tokens is all of them. Raises RequestError as `select_token` does.
    """
    if not isinstance(selection, str):
        return sorted(select(selection, len(tokens), "token"))
    found: set[int] = set()
    for item in [selection] if exact_places(selection, tokens) else map(str.strip, selection.split(",")):
        is_range = ITEM.fullmatch(item) and not is_number(item)
        found.update(parse(item, len(tokens), "token") if is_range else _find_pieces(item, tokens))
    return sorted(found)


def _describe_pieces(name: str, places: Sequence[int], tokens: Tokens) -> str:
    """'damaged' is 2 tokens: ␣dam, aged"""
    return f"{quoted(name)} is {len(places)} tokens: {', '.join(visible(tokens.shown[place]) for place in places)}"


def name_of(place: int, tokens: Tokens) -> str:
    """Return the name by which `select_token` finds this token: "it", or "it#2" for the second; else its number."""
    shown = tokens.shown[place].strip(" ")
    places = places_of(shown, tokens)
    count = places.index(place) + 1 if place in places else 0
    for name in ([shown] if count == 1 else []) + ([f"{shown}#{count}"] if count else []):
        with suppress(RequestError):
            if select_token(name, tokens) == place:
                return name
    return str(place)


def numbered_names(tokens: Tokens) -> list[str]:
    """Return a name for each token in a list: "it", or "it#1" and "it#2" if it occurs twice.

    `select_token` reads them.
    """
    shown = list(map(visible, tokens.shown))
    total, so_far = Counter(shown), Counter[str]()
    names = []
    for name in shown:
        so_far[name] += 1
        names.append(name if total[name] == 1 else f"{name}#{so_far[name]}")
    return names


def is_number(name: str) -> bool:
    return re.fullmatch(r"-?\d{1,9}", name) is not None


def places_of(name: str, tokens: Tokens) -> list[int]:
    """Return all tokens that equal this name exactly (`exact_places`), or else ignoring case. "猫" also matches
    "[UNK:猫]"."""
    wanted = ignoring_case(name)
    return exact_places(name, tokens) or [
        place for place, token in enumerate(tokens.shown) if wanted and ignoring_case(token) == wanted
    ]


def exact_places(name: str, tokens: Tokens) -> list[int]:
    """Return all tokens that equal the name in the first notation with a match: the vocabulary's, "ĠgrÃ¼ÃŁt"; as
    displayed, " grüßt"; as printed, "␣grüßt"; or as displayed without surrounding spaces, "grüßt".
    """
    bare = (token.strip(" ") for token in tokens.shown)
    for reading in (tokens.text, tokens.shown, map(visible, tokens.shown), bare):
        if places := [place for place, token in enumerate(reading) if token == name != ""]:
            return places
    return []


def ignoring_case(token: str) -> str:
    return characters(token).strip().casefold()


def name_numbers(what: str, numbers: Sequence[int]) -> str:
    """Return a kind with its numbers: "head 3", "heads 0-11"."""
    return f"{what}{'s' if len(numbers) > 1 else ''} {number_list(numbers)}"


def number_list(numbers: Sequence[int]) -> str:
    """0, 1, 2, 3 -> "0-3";  0, 2, 3 -> "0,2-3"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


NamedHeads = str | Sequence[str | tuple[int, int]] | None
Heads = str | int | Sequence[int | str | tuple[int, int]]
_Numbers = Callable[[Selection], list[int]]  # selects numbers of layers, or of heads in a layer

HEAD_EXAMPLES = '"4.7" (layer 4, head 7), "4.0-3", "4.all", "-1.0,2.5", "all" or "none"'


class Choice(NamedTuple):
    """Chosen heads: `heads` in each of `layers`, or only `pairs`, (layer, head), if those are not a rectangle."""

    layers: list[int]
    heads: list[int]
    pairs: list[tuple[int, int]] | None = None

    @property
    def each(self) -> list[tuple[int, int]]:
        """Return the chosen heads as (layer, head)."""
        return list(product(self.layers, self.heads)) if self.pairs is None else self.pairs

    @property
    def places(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the places of the chosen heads in an array `[layer, head]`, as an index of it."""
        rows, columns = zip(
            *((self.layers.index(layer), self.heads.index(head)) for layer, head in self.each), strict=True
        )
        return np.array(rows), np.array(columns)

    def spread(self, numbers: Doubles) -> Doubles:
        """Put numbers of the chosen heads, `[..., head]`, into `[..., layer, head]`; other heads have NaN."""
        found = np.full((*numbers.shape[:-1], len(self.layers), len(self.heads)), np.nan)
        rows, columns = self.places
        found[..., rows, columns] = numbers
        return found

    def __str__(self) -> str:
        """Layers 0-5, heads 3,7; or heads 3.1,1.8"""
        if self.pairs is not None:
            return f"heads {heads_list(self.pairs)}"
        return f"{name_numbers('layer', self.layers)}, {name_numbers('head', self.heads)}"

    @classmethod
    def of_pairs(cls, pairs: Iterable[tuple[int, int]]) -> "Choice":
        """Return these heads in the order given, without duplicates. `pairs` is None if they are a rectangle."""
        each = list(dict.fromkeys(pairs))
        layers, heads = (list(dict.fromkeys(numbers)) for numbers in zip(*each, strict=True))
        if len(each) == len(layers) * len(heads):
            return cls(layers, heads)
        return cls(sorted(layers), sorted(heads), each)


def choose_heads(layers: Selection, heads: Heads, select_layers: _Numbers, select_numbers: _Numbers) -> Choice:
    """Return the chosen heads. A head without a layer ("0") is chosen in each of `layers`; "3.1" names its own.

    Layers 2 and heads "0,3.1" are 2.0 and 3.1. select_layers, select_numbers: parse the numbers of layers, and of heads
    in a layer.

    Raises RequestError as `select` does, and for layers that have no effect, since every head names its own.
    """
    items = head_items(heads)
    if all(layer is None for layer, _ in items):
        plain = heads if isinstance(heads, str) else [number for _, head in items for number in select_numbers(head)]
        return Choice(select_layers(layers), select_numbers(plain))
    if layers != "all" and None not in [layer for layer, _ in items]:
        raise RequestError(
            f"-l {layers!s:.40} has no effect, since every head names its layer: omit -l, or add heads without a layer "
            "(-l 2 -H 0,3.1 is 2.0 and 3.1)"
        )
    return Choice.of_pairs(
        pair
        for layer, head in items
        for pair in product(select_layers(layers if layer is None else layer), select_numbers(head))
    )


def choose_head(layers: Selection, heads: Heads, model_layers: int, model_heads: int) -> tuple[int, int]:
    """Return the one chosen head as (layer, head). Raises RequestError as `choose_heads`, and if there are several."""
    choice = choose_heads(
        layers,
        heads,
        lambda one: [select_one(one, model_layers, "layer")],
        lambda one: [select_one(one, model_heads, "head")],
    )
    if len(choice.each) > 1:
        raise RequestError(f"exactly one head is needed, not {len(choice.each)}: {choice}")
    return choice.each[0]


def all_name_layers(heads: Heads | None) -> bool:
    """Return True if every head names its layer, as in "3.1", so that -l is not needed."""
    return heads is not None and None not in [layer for layer, _ in head_items(heads)]


def head_items(heads: Any) -> list[tuple[Any, Any]]:
    """Split heads into selections of a layer and of heads in it; the layer is None where it is not named.

    "4.0-3" is ("4", "0-3"), "7" is (None, "7"), the pair (4, 7) is (4, 7), and 7 is (None, 7).
    """
    if isinstance(heads, str):
        parts = (part.strip().partition(".") for part in heads.split(","))
        return [(first, head) if dot else (None, first) for first, dot, head in parts]
    items: list[tuple[Any, ...]] = []
    try:
        for one in [heads] if _is_number(heads) else heads:
            items += (
                head_items(one)
                if isinstance(one, str)
                else [(None, one) if _is_number(one) else tuple(map(index, one))]
            )
    except TypeError:
        items = [()]
    if not all(len(item) == 2 for item in items):
        raise RequestError(
            f"heads {reprlib.repr(heads)} are not numbers or pairs: write 3, [(4, 7)], or {HEAD_EXAMPLES}"
        )
    return items


def _is_number(value: Any) -> bool:
    with suppress(TypeError):
        index(value)
        return True
    return False


def select_heads(
    selection: NamedHeads, kept: Choice | None, model_layers: int, model_heads: int
) -> list[tuple[int, int]]:
    """Return the selected heads as (layer, head), counted from 0, in the order given, without duplicates.

    selection: LAYERS.HEADS, separated by commas; each side is a number, a range or "all" as in
    `attncli.record.selection`, so that "4.0-3" is four heads of layer 4, and a negative number counts from the model's
    end. Or pairs of such numbers. "all" means all that are kept: "4.all" is every kept head of layer 4. None and "none"
    select no head.
    kept: the heads whose weights are kept. The selected heads must be among them. None for all of the model.
    model_layers, model_heads: the numbers of layers and heads in the model.

    Raises RequestError for an invalid notation, or for heads that are out of range or not kept.
    """
    kept = kept or Choice(list(range(model_layers)), list(range(model_heads)))
    word = selection.strip().lower() if isinstance(selection, str) else ""
    if selection is None or word == "none":
        return []
    if word == "all":
        return kept.each
    named: list[tuple[int, int]] = []
    for layer, head in head_items(selection):
        if layer is None:
            raise RequestError(f"heads {quoted(str(head))} is not LAYER.HEAD: write {HEAD_EXAMPLES}")
        sides = (layer, model_layers, "layer"), (head, model_heads, "head")
        layers, heads = (
            None if isinstance(side, str) and side.strip().lower() == "all" else select(side, count, what)
            for side, count, what in sides
        )
        named += [
            pair
            for pair in product(kept.layers if layers is None else layers, kept.heads if heads is None else heads)
            if pair in kept.each or None not in (layers, heads)
        ]
    for layer, head in named:
        if (layer, head) not in kept.each:
            raise RequestError(f"head {layer}.{head} is not kept ({kept}): include it in -l and -H")
    return list(dict.fromkeys(named))


def heads_list(heads: Sequence[tuple[int, int]]) -> str:
    """Format heads as `select_heads` reads them: (3, 1), (4, 0), (4, 1) -> "3.1,4.0-1"."""
    of_layers: dict[int, list[int]] = {}
    for layer, head in heads:
        of_layers.setdefault(layer, []).append(head)
    runs = [f"{layer}.{run}" for layer, numbers in of_layers.items() for run in number_list(numbers).split(",")]
    return ",".join(runs)


# --- queries and keys of a map -----------------------------------------------------------------------

SEGMENTS = ("all", "AA", "AB", "BA", "BB")


def selected_places(
    tokens: Tokens, special: bool = True, segments: str = "all", keys: Tokens | None = None
) -> tuple[list[int], list[int]]:
    """Return the places of the selected queries, and of the selected keys.

    special: False omits [CLS], [SEP] and [PAD] on both sides.
    segments: "AB" selects queries of the first text and keys of the second, and so on; "all" selects every token.
    keys: the tokens of the keys if they are of another text.

    Raises RequestError for unknown segments, for a text without a second segment, and if no token is left.
    """
    name = check_segments(segments)
    keys = tokens if keys is None else keys
    if "B" in name and 1 not in tokens.segments + keys.segments:
        raise RequestError(f"segments {segments}: the text has no second segment; give one with --pair")
    letters = ("", "") if name == "all" else name
    sides = [within(side, special, letter) for side, letter in zip((tokens, keys), letters, strict=True)]
    if not all(sides):
        raise RequestError("nothing to draw: all tokens are special")
    return sides[0], sides[1]


def check_segments(segments: str) -> str:
    """Return one of SEGMENTS in its usual spelling; case is ignored. Raises RequestError for unknown segments."""
    name = segments if segments == "all" else segments.upper()
    if name not in SEGMENTS:
        raise RequestError(f"no segments {quoted(segments)}: use one of {', '.join(SEGMENTS)}")
    return name


def within(tokens: Tokens, special: bool, letter: str) -> list[int]:
    """Return the places of the tokens of segment A or B, or of both without a letter."""
    return [
        place
        for place, (flag, segment) in enumerate(zip(tokens.special, tokens.segments, strict=True))
        if (special or not flag) and (letter == "" or segment == "AB".index(letter))
    ]


# --- requests ----------------------------------------------------------------------------------------


class Input(NamedTuple):
    """A text, and its second segment if there is one."""

    text: str
    pair: str | None = None


def inputs_of(texts: Iterable[str], pairs: Iterable[str | None] | None = None) -> Iterator[Input]:
    """Yield texts with their pairs.

    Raises ValueError if their numbers differ, and TypeError for a value that is not text.
    """
    for text, pair in zip(each_text(texts), repeat(None) if pairs is None else pairs, strict=pairs is not None):
        check_optional_text("a pair", pair)
        yield Input(text, pair)


@dataclass(frozen=True)
class Grouping:
    """The units on the axes of a text's maps (`attncli.record.grouping`). The default is each token.

    tokens: only these, as queries and keys ("4000-4099", "0,4000-4099"). All keys of another text are kept. Rows sum to
    the weight among the selected tokens. unit: words instead of their pieces, or lines, sentences or parts of the text.
    stretches: merge neighbours into stretches if there are too many units to show. parted: the text, if its parts are
    known. queries: only the rows of these tokens (`select_queries`), with all keys. Rows are not merged into units.
    """

    tokens: Selection | None = None
    unit: choices.UnitName = "token"
    stretches: bool = False
    parted: PartedText | None = None
    queries: Selection | None = None

    def __post_init__(self) -> None:
        choices.check("unit", self.unit, choices.UnitName)
        if self.tokens is not None and self.queries is not None:
            raise RequestError(
                "--tokens selects queries and keys, --query selects rows with all keys: omit one of them"
            )
        if self.tokens is not None and self.long_units:
            raise RequestError(f"--tokens selects tokens, --unit {self.unit} merges them: omit one of them")

    @property
    def words(self) -> bool:
        return self.unit == "word"

    @property
    def marked(self) -> bool:
        """Return True if special tokens are written out in the text."""
        return self.parted is not None and self.parted.marked

    @property
    def long_units(self) -> bool:
        """Return True for units that can have several words."""
        return self.unit not in ("token", "word")

    def in_stretches(self, wanted: bool | None) -> "Grouping":
        """Return these units with or without stretches; None changes nothing."""
        return self if wanted is None else replace(self, stretches=wanted)


TOKENS = Grouping()


def check_choices(mask: str | None, measure: str, which: str | None) -> None:
    """Raises RequestError for an unknown mask, measure or part. None means the model's default."""
    if mask is not None:
        choices.check("mask", mask, choices.MaskName)
    choices.check("measure", measure, choices.MeasureName)
    if which is not None:
        choices.check("part", which, choices.KindName)


@dataclass(frozen=True)
class Request:
    """The layers, heads, mask and further results that are requested of a model.

    layers, heads: "all", a number, numbers, or text such as "0-3,-1"; a negative layer counts from the end. A head may
    name its layer, "3.1" or (3, 1) (`choose_heads`): heads "3.1,1.8" are two heads.
    mask: "padding" hides [PAD], "causal" hides [PAD] and the future, "none" hides nothing. None is the mask of the
    network's training: "causal" for a decoder, else "padding". A layer's window remains.
    pad_to: append [PAD] up to that many tokens.
    measure: "weight"; or "norm", the norm of weight times transformed value (Kobayashi et al. 2020), without vectors.
    vectors: heads whose queries and keys to keep in `record.vectors`: text such as "4.7" or "4.0-3,-1.all", pairs
    (layer, head), "all"; None or "none" for none. They must be among `layers` and `heads`.
    which: for an encoder-decoder "encoder", "decoder" or "cross" (the default); for other models their only part.
    target: the text that an encoder-decoder's decoder must write (teacher forcing); by default its own greedy output.
    predict: also keep the model's prediction (`record.prediction`) if it has a head that attncli supports.
    grouping: the units of the maps if these are not single tokens. Maps between tokens are then never kept.

    Raises RequestError for an unknown mask, measure or part (`which`), and TypeError for values of other types. Engines
    reject requests that they can't satisfy.
    """

    layers: Selection = "all"
    heads: Heads = "all"
    mask: str | None = None
    pad_to: int | None = None
    measure: str = "weight"
    vectors: NamedHeads = None
    which: str | None = None
    target: str | None = None
    predict: bool = False
    grouping: Grouping = TOKENS

    def __post_init__(self) -> None:
        check_choices(self.mask, self.measure, self.which)
        check_optional_text("target", self.target)
        check_instance("grouping", self.grouping, Grouping, "give an attncli.record.selection.Grouping")
        if self.pad_to is not None and not hasattr(self.pad_to, "__index__"):
            raise TypeError(f"pad_to is a number of tokens, not {describe(self.pad_to)}: give an int, or None")

    def choose(self, select_layers: _Numbers, count: int) -> Choice:
        """Return the chosen heads of a model with `count` heads in a layer, as `choose_heads` does."""
        return choose_heads(self.layers, self.heads, select_layers, partial(select, count=count, what="head"))

    def choose_in(self, layers: int, heads: int) -> Choice:
        """Return the chosen heads of a model with this number of layers and heads, as `choose_heads` does."""
        return self.choose(partial(select, count=layers, what="layer"), heads)
