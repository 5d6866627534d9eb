"""Continue a text with a decoder, and show where each new token looked.

The vector of the preceding token predicts a new token, so the row of the preceding token shows where the model looked.
A large weight alone does not show that a head reacts to the text, so edges are compared with their usual weight
(`attncli.analysis.edges`). The first token of a decoder is a sink, so its share is shown separately. With heads
silenced or edges cut, the text is written twice: unchanged, and with the change.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict, cast

import numpy as np

from attncli.analysis.edges import (
    STRONG,
    Edge,
    LayerSums,
    WordPairs,
    placed_tokens,
    strong_edges,
    usual_over_others,
    usual_weights,
    with_usual,
)
from attncli.base import choices
from attncli.base.arrays import Array, as_floats, as_numpy, titled
from attncli.base.errors import RequestError
from attncli.base.files import PAGE
from attncli.base.printable import shorten, visible, visible_text
from attncli.base.typed import NotRequired
from attncli.features import options
from attncli.features.inputs import (
    SAMPLE,
    default_model,
    edge_names,
    open_tappable,
    opening_of,
    read_input,
    read_parts,
    read_prompt,
)
from attncli.features.lens import LENS, check_lens, lens_entries, lens_table
from attncli.features.measure import measure, no_effect
from attncli.features.options import MODEL, OUTPUT, SELECTION, TEXT, ModelOrName, option
from attncli.models.block import Block, Tap
from attncli.models.taps import BLOCK
from attncli.record import AttentionRecord, Request
from attncli.record.display import model_name
from attncli.record.grouping import axes_of, group_record
from attncli.record.parts import LensDocument, LensLayerDocument, ModelDocument, PlaceDocument, UsualWeights
from attncli.record.record import SUFFIXES
from attncli.record.selection import TOKENS, Grouping, number_list, numbered_names, select_token, select_units
from attncli.report import Column, NextCommand, Part, Report, Result, Table, TextLine
from attncli.text.tokens import Tokens, joined
from attncli.text.units import PartedText, unit_tokens

if TYPE_CHECKING:
    from attncli.analysis.edges import Usual
    from attncli.models.devices import InTorch
    from attncli.models.generation import Sampling, Step

ANY = "*"  # every token, including those not written yet
LOOKS = 2  # edges that the terminal names for a token
UNITS = 3  # units that it names for a token
SOME_LAYERS = 0.2, 0.4, 0.6, 0.8  # shares of the depth after which the terminal shows predictions
HEADS = 8  # heads that the terminal lists


@measure(saves=(*SUFFIXES, PAGE), saved_as="a record")
def generate(
    model: Annotated[
        ModelOrName | None,
        options.model("Short name, Hub id or path.", kind=str | None, show_default="smollm2"),
    ] = None,
    text: options.Text = None,
    *,
    file: options.File = None,
    whole: options.Whole = False,
    chat: Annotated[
        bool, option(TEXT, "--chat", help="Use the chat template; TEXT can be a .json of messages.")
    ] = False,
    part: options.PartFiles = None,
    edges: options.Edges = None,
    unit: Annotated[
        choices.UnitName | None,
        option(
            SELECTION,
            "--unit",
            metavar="NAME",
            help="Show attention per token, word, line, sentence or part.",
            show_default=False,
        ),
    ] = None,
    lens: Annotated[
        bool,
        option(OUTPUT, "--lens", help="Show the tokens that each layer would predict."),
    ] = False,
    query: Annotated[
        str | None,
        option(
            SELECTION,
            "--query",
            rare=True,
            metavar="TOKEN",
            help="With --lens: the token whose vectors predict.",
            show_default="before each written token",
        ),
    ] = None,
    max_tokens: Annotated[int, option(MODEL, "--max-tokens", metavar="N", min=1, help="Write at most N tokens.")] = 40,
    sample: Annotated[bool, option(MODEL, "--sample", help="Sample each token, instead of the likeliest.")] = False,
    temperature: Annotated[
        float | None,
        option(
            MODEL,
            "--temperature",
            metavar="X",
            min=0.01,
            max=100,
            help="With --sample: divide the logits by X.",
            show_default="1.0",
        ),
    ] = None,
    top_p: Annotated[
        float | None,
        option(
            MODEL,
            "--top-p",
            metavar="P",
            min=0.0,
            max=1.0,
            help="With --sample: draw from the likeliest tokens that sum to P.",
            show_default="1.0",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        option(
            MODEL,
            "--seed",
            rare=True,
            metavar="N",
            min=0,
            help="With --sample: the seed of the draws.",
            show_default="0",
        ),
    ] = None,
    without: options.Without = None,
    which: options.Which = None,
    engine: Annotated[choices.EngineName | None, options.ENGINE] = None,
    device: Annotated[str | None, options.DEVICE] = None,
    dtype: Annotated[choices.DtypeName | None, options.DTYPE] = None,
) -> "WrittenText":
    """Continue a text, and show where each new token looked.

    Takes the likeliest token each time, or samples one (--sample). Shows each token's probability, and where the
    position that predicted it looked far more than on other texts. With --without or --cut, the text is written twice:
    unchanged, and with the change. -o saves the whole text's maps.

    \b
    Examples:
      attncli generate "The trophy does not fit in the suitcase because"
      attncli generate --chat --max-tokens 30 "What is attention?"
      attncli generate --without 10.1 "The capital of France is"
      attncli generate --sample --top-p 0.9 --seed 1 -o written.html "Once upon a time"
    """
    from attncli.models.generation import Sampling, next_output, prompt_tokens

    if not sample:
        no_effect("without --sample, which draws tokens", temperature=temperature, top_p=top_p, seed=seed)
    if lens:
        no_effect("with --lens, which shows no weights", unit=unit)
        no_effect("with --lens: silence heads instead (--without)", edges=edges)
    else:
        no_effect("without --lens", query=query)
    beginning = SAMPLE.partition(" it ")[0]
    otherwise = "give one as TEXT"
    parted = None
    if not chat:
        parted = read_parts(text, None, file, whole, part, None, unit, beginning)
        prompt = (parted or read_input(text, None, file, whole, otherwise, sample=beginning)).text
    named = default_model("smollm2") if model is None else model
    opening = opening_of(named, engine=engine, device=device, dtype=dtype)
    opened = cast("InTorch", open_tappable(opening, which))
    next_output(opened)  # refuses a model that writes no text before anything is printed
    if lens:
        check_lens(opened)
    note = None
    if chat:
        parted = read_prompt(text, file, whole, part, opened.place.path, sample=beginning)
        tokens = opened.tokenizer.encode_marked(parted.text)
        prompt, note = _chat_note(tokens, parted)
    else:
        tokens = prompt_tokens(opened, prompt)
    sampling = Sampling(
        max_tokens, sample, 1.0 if temperature is None else temperature, 1.0 if top_p is None else top_p, seed or 0
    )
    cut = [] if edges is None else edge_names(edges)
    names = [] if without is None else [f"without {without}"]
    if cut:
        names.append(f"with {', '.join(f'{query} → {key}' for query, key in cut)} cut")
    changed = None
    grouping = None if unit is None else Grouping(unit=unit, parted=parted)
    if names:
        other = opened if without is None else cast("InTorch", opened.without(without))
        taps = _cutting(other, tokens, grouping or TOKENS, cut, max_tokens)
        changed = _Writing(other, tokens, sampling, taps, " and ".join(names))
    return WrittenText(prompt, _Writing(opened, tokens, sampling), changed, chat, note, grouping, lens, query)


def _cutting(
    engine: "InTorch", tokens: Tokens, grouping: Grouping, edges: Sequence[tuple[str, str]], most: int
) -> "list[Tap]":
    """Return the tap that cuts edges in all heads: it hides keys of the text from one query or from all."""
    if not edges:
        return []
    from attncli.effects.change import Changed, Hide

    if engine.part != "decoder":
        raise RequestError("--cut works only on decoders without an encoder: omit it")
    units = axes_of(grouping, tokens).queries

    def named(name: str, count: int) -> Sequence[int]:
        if name == ANY:
            return range(count)
        return [place for one in select_units(name, units.tokens, grouping) for place in units.groups[one]]

    cut = []
    for query, key in edges:
        keys, queries = named(key, units.text_length), named(query, units.text_length + most)
        cut += [(q, k) for q in queries for k in keys if k < q]
    every = [(layer, head) for layer in range(engine.layers) for head in range(engine.heads)]
    return [Changed([Hide(every, cut)])]


# --- writing --------------------------------------------------------------------------------------------


class _Writing:
    """A text while it is being written and afterwards.

    tokens: the text; for an encoder-decoder, its input. name: the change, if any.
    """

    def __init__(
        self, engine: "InTorch", tokens: Tokens, sampling: "Sampling", taps: "Sequence[Tap]" = (), name: str = ""
    ) -> None:
        self.engine, self.tokens, self.sampling, self.taps, self.name = engine, tokens, sampling, taps, name
        self._done: list[Step] = []

    @cached_property
    def _remaining_steps(self) -> "Iterator[Step]":
        """The steps still to come."""
        from attncli.models.generation import write

        return write(self.engine, self.tokens, self.sampling, self.taps)

    def each_step(self) -> "Iterator[Step]":
        """Yield the steps made so far, then make and yield the others."""
        for place in count():
            if place == len(self._done):
                step = next(self._remaining_steps, None)
                if step is None:
                    return
                self._done.append(step)
            yield self._done[place]

    @property
    def steps(self) -> "list[Step]":
        """All steps."""
        return list(self.each_step())

    @property
    def ids(self) -> list[int]:
        return [step.token for step in self.steps]

    @property
    def whole(self) -> Tokens:
        """The text with its continuation; for an encoder-decoder, the decoder's text."""
        from attncli.models.generation import extend

        return extend(self.engine, self.tokens, self.ids)

    @property
    def text(self) -> str:
        """The written text, without special tokens."""
        from attncli.models.generation import writer

        return writer(self.engine).decode(self.ids)

    def pieces(self) -> Iterator[str]:
        """Yield the text as it grows. A character written byte by byte is yielded once it is complete."""
        from attncli.models.generation import writer

        ids: list[int] = []
        shown = 0
        for step in self.each_step():
            ids.append(step.token)
            text = writer(self.engine).decode(ids)
            if not text.endswith("\ufffd"):
                yield visible_text(text[shown:])
                shown = len(text)

    @property
    def ended(self) -> bool:
        """Return whether the model wrote its end token."""
        return bool(self.steps) and self.steps[-1].ends

    def record(self, vectors: bool = False) -> AttentionRecord:
        """Return the record of the text with its continuation, from one pass. Its rows equal those of the steps that
        wrote the text.

        vectors: keep q and k of as many heads as the page of `view` does.
        """
        from attncli.models.engine import NEURONS, vectors_within
        from attncli.models.generation import with_steps

        whole = self.whole
        request = Request(which=self.engine.part if len(self.engine.parts) > 1 else None)
        if vectors:
            request = replace(request, vectors=vectors_within(self.engine, [whole], request, NEURONS))
        [record] = self.engine.attend_tokens([whole], request, self.taps)
        return with_usual(with_steps(self.engine, record, whole, self.steps), self.usual)

    @cached_property
    def usual(self) -> "Usual | None":
        """The usual weights of the heads over other texts."""
        from attncli.corpus.usual import usual_of

        return usual_of(self.engine, Request(which=self.engine.part if len(self.engine.parts) > 1 else None))

    @cached_property
    def looks(self) -> "_Looks":
        """The edges and the sink's share at each position that predicted a token, from one pass without maps."""
        from attncli.models.taken import read_by
        from attncli.models.walk import Ending

        part = self.engine
        whole = part.ready(self.whole)
        queries, keys = whole.plain, read_by(whole, part.part)
        pairs = WordPairs(queries, keys, part.part == "decoder" and not queries.special[queries.first])
        over_others = usual_over_others(placed_tokens(queries), len(queries), self.usual)
        looks = _Looks(part, queries, keys, pairs, over_others, len(queries) - len(self.steps) - 1)
        taps = [*self.taps, looks]
        ending = Ending(looks.layers[-1], range(part.heads), any(tap.needs_values for tap in taps))
        part.need(part.layers)
        with part.inference():
            for _ in part.walk(part.rows([whole], None), taps, ending):
                pass
        return looks


class _Looks(Tap):
    """Finds the strong edges at the positions that predicted written tokens, and keeps no map.

    The usual weight of an edge needs all rows of its layer. They are summed as they come, and the rows from `start` on
    are kept until the layer ends.

    queries, keys: the tokens of a map's axes; keys are None if they are the queries. others: the usual weights over
    other texts. edges: by row, farthest above their usual weight first. means: the mean weights of the rows from
    `start` on, over layers and heads, `[row, key]`.
    """

    needs_values = False
    most_weights = BLOCK

    def __init__(
        self,
        engine: "InTorch",
        queries: Tokens,
        keys: Tokens | None,
        pairs: WordPairs,
        others: UsualWeights | None,
        start: int,
    ) -> None:
        self.layers, self.silenced = engine.select_layers("all"), engine.silenced_heads
        self.queries, self.keys = queries, queries if keys is None else keys
        self.pairs, self.others, self.start = pairs, others, start
        self.edges: dict[int, list[Edge]] = defaultdict(list)
        self.means = np.zeros((len(queries) - start, len(self.keys)))

    def begin(self, block: Block) -> Block:
        shape = len(self.queries) - self.start, len(self.keys)
        self.sums = LayerSums(len(block.numbers), len(self.keys))
        self.rows, self.allowed = np.zeros((len(block.numbers), *shape), np.float32), np.zeros(shape, bool)
        return block

    def places(self, block: Block) -> Sequence[int]:
        return range(len(block.numbers))

    def weights(self, part: Block, weights: Array) -> None:
        found, mask = as_floats(weights)[0], part.allowed()
        allowed = self.pairs.different(part.queries, part.keys)
        if mask is not None:
            allowed = allowed & as_numpy(mask)[0, 0]
        self.sums.add(found, self.pairs.bins(part.queries, part.keys), allowed, part.keys)
        skipped = max(self.start - part.queries.start, 0)
        rows = slice(part.queries.start + skipped - self.start, max(part.queries.stop - self.start, 0))
        self.rows[:, rows, part.keys], self.allowed[rows, part.keys] = found[:, skipped:], allowed[skipped:]

    def output(self, block: Block, output: Array) -> Array:
        sums, counts = self.sums.sums, self.sums.counts
        if self.others is not None:
            place = self.layers.index(block.layer)
            sums, counts = sums + self.others.sums[place], counts + self.others.counts[place]
        self.means += self.rows.sum(axis=0) / (len(self.layers) * len(block.numbers))
        if counts.sum() >= 2:
            bins = self.pairs.bins(slice(self.start, None))
            usual = usual_weights(self.rows, bins, self.allowed, sums, counts, self.sums)
            for edge in chain(*strong_edges(block.layer, block.numbers, self.rows, usual, self.allowed, self.start)):
                if (edge.layer, edge.head) in self.silenced:
                    continue
                self.edges[edge.query].append(edge)
                self.edges[edge.query].sort(key=lambda one: -one.above)
        return output


# --- the result -----------------------------------------------------------------------------------------


class _LikelyEntry(TypedDict):
    """The 5 most likely tokens."""

    token: Annotated[str | None, "null if the vocabulary has no name for it"]
    probability: Annotated[float, "", "probability"]


class _EdgeEntry(TypedDict):
    """Edges between words from the position that predicted the token, at least 0.3 above their usual weight, in heads
    that are not silenced.
    """

    layer: int
    head: int
    query: Annotated[int, "position of the row: `index` - 1"]
    key: int
    weight: float
    usual: Annotated[float, "as in `findings` of `run`", "weight"]
    key_token: str


class _UnitEntry(TypedDict):
    """With `--unit`: the shares of that position's weight on each unit of the text, and on the tokens written before
    ("(written)"). The first token and special tokens outside units are omitted.
    """

    unit: Annotated[str, "its name, or its text"]
    share: Annotated[float, "mean weight over layers and heads, divided by that of all these units", "share"]
    length: Annotated[float, "the share of uniform attention: its tokens, divided by those of all these units", "share"]


class _TokenEntry(TypedDict):
    """One per written token."""

    index: Annotated[int, "position in the text, or in the output of an encoder-decoder"]
    token: str
    probability: Annotated[float, "the model's own, before --temperature and --top-p", "probability"]
    likely: list[_LikelyEntry]
    sink: Annotated[
        float | None,
        "the mean weight, over layers and heads, from the position that predicted the token to the first token; null "
        "if that is not a sink",
        "weight",
    ]
    edges: list[_EdgeEntry]
    units: NotRequired[list[_UnitEntry]]
    lens: NotRequired[
        Annotated[
            list[LensLayerDocument],
            "with `--lens`: the likeliest tokens after each layer, at the token before. With `--query`, `lens` of the "
            "document has those at that token instead",
        ]
    ]


class _UnchangedEntry(TypedDict):
    """The text written without the change."""

    text: str
    ended: bool


class _DifferenceEntry(TypedDict):
    """The first place where both texts differ; null if they don't differ, or without a change."""

    place: Annotated[int, "from 0, the first written token"]
    tokens: Annotated[list[str], "the token without and with the change", "`[2]`"]
    probabilities: Annotated[list[list[float]], "of both tokens, without and then with the change", "`[2][2]`"]


class _More(TypedDict, total=False):
    changes: str
    unchanged: _UnchangedEntry
    lens: LensDocument


class GenerateDocument(TypedDict):
    """`-o` saves a record of the whole text; so its .json is not this document."""

    model: ModelDocument
    prompt: Annotated[str, "the text to continue"]
    text: Annotated[str, "the continuation; with a change, the changed one"]
    ended: Annotated[bool, "the model wrote its end token"]
    tokens: list[_TokenEntry]
    changes: NotRequired[
        Annotated[str, "the heads that are silenced and the edges that are cut, with --without and --cut"]
    ]
    unchanged: NotRequired[_UnchangedEntry]
    difference: _DifferenceEntry | None
    lens: NotRequired[LensDocument]


@dataclass(frozen=True, repr=False)
class WrittenText(Result):
    """A text that a model continues. It is written on demand, token by token.

    prompt: the text to continue. plain: the unchanged continuation. changed: the one with heads silenced or edges cut.
    chat: whether the prompt is in a chat template; note: which tokens come from the template. grouping: the units of
    the prompt, if they are shown. lens: whether to show what layers would predict; query: the token after which they
    predict it, or None for the token before each written one.
    """

    prompt: str
    plain: _Writing
    changed: _Writing | None
    chat: bool
    note: str | None
    grouping: Grouping | None = None
    lens: bool = False
    query: str | None = None

    def __repr__(self) -> str:
        """<WrittenText of smollm2: the likeliest tokens, after "The capital of France is">"""
        engine = self.plain.engine
        return titled(self, engine.info.full_name, self._how, f'after "{shorten(self.prompt)}"')

    @property
    def shown(self) -> _Writing:
        """The text that is shown and saved: the one with the change, if there is one."""
        return self.changed or self.plain

    @property
    def text(self) -> str:
        """The continuation, without special tokens."""
        return self.shown.text

    @property
    def _how(self) -> str:
        sampling = self.plain.sampling
        return f"drawn with seed {sampling.seed}" if sampling.sample else "the likeliest tokens"

    def record(self, vectors: bool = False) -> AttentionRecord:
        """Return the record of the text with its continuation. vectors: with q and k of heads, for a page.

        Raises RequestError with a lens, or if its maps don't fit into memory, before anything is written.
        """
        from attncli.models.engine import check_room

        no_effect("on a record, which holds only maps", lens=self.lens)
        plain = self.plain
        longest = len(plain.tokens) + plain.sampling.max_tokens
        advice = "omit -o, which saves all maps, or continue a shorter text"
        check_room([(longest, longest)], plain.engine.layers, plain.engine.heads, advice=advice)
        return group_record(self.shown.record(vectors), self.grouping or TOKENS)

    @cached_property
    def _difference(self) -> _DifferenceEntry | None:
        """The first place where both texts differ; None if they don't."""
        from attncli.models.generation import next_probabilities, writer

        plain, changed = self.plain, self.changed
        if changed is None:
            return None
        pairs = zip(plain.ids, changed.ids, strict=False)
        same = next((number for number, (one, other) in enumerate(pairs) if one != other), None)
        if same is None:
            return None  # the likeliest tokens are equal up to the end, so both end there
        ids = plain.ids[same], changed.ids[same]
        probabilities = []
        for one in (plain, changed):
            *_, found = next_probabilities(one.engine, one.tokens, plain.ids[:same], taps=one.taps)
            probabilities.append([float(found[token]) for token in ids])
        names = [visible(writer(plain.engine).extend(plain.tokens.take([]), [token]).shown[0]) for token in ids]
        return {"place": same, "tokens": names, "probabilities": probabilities}

    def document(self) -> GenerateDocument:
        """Return what --json prints."""
        shown = self.shown
        more: _More = {}
        if self.changed is not None:
            unchanged: _UnchangedEntry = {"text": self.plain.text, "ended": self.plain.ended}
            more = {"changes": self.changed.name, "unchanged": unchanged}
        steps = _steps(shown)
        if self.grouping is not None:
            for step, units in zip(steps, _unit_shares(shown, self.grouping), strict=True):
                step["units"] = units
        if self.lens and self.query is None:
            for step, one in zip(steps, self._lens(), strict=True):
                step["lens"] = one["layers"]
        elif self.lens:
            [more["lens"]] = self._lens()
        return {
            "model": shown.engine.info.document(),
            "prompt": self.prompt,
            "text": shown.text,
            "ended": shown.ended,
            "tokens": steps,
            **more,
            "difference": self._difference,
        }

    def _lens(self) -> Iterator[LensDocument]:
        """Yield what every layer would predict at the token before each written one, or at the token of --query."""
        from attncli.models.generation import next_output

        shown = self.shown
        engine, tokens = shown.engine, shown.whole
        before = len(tokens) - len(shown.ids) - 1
        places = range(before, len(tokens) - 1) if self.query is None else [select_token(self.query, tokens)]
        mask = engine.usual_mask(None)
        for place, layers in zip(places, lens_entries(engine, next_output(engine), tokens, places, mask), strict=True):
            at: PlaceDocument = {"index": place, "token": tokens.text[place], "shown": tokens.shown[place]}
            yield {"query": at, "mask": mask, "tokens": tokens.text, "layers": layers}

    def report(self) -> Report:
        """Report the text for a document or a file; `reports` shows it."""

        def save_as_page(path: Path) -> None:
            from attncli.page import page, save_page

            save_page(page([self.record(vectors=True)]), path)

        return Report(
            [],
            [],
            self.document,
            files={**dict.fromkeys(SUFFIXES, lambda path: self.record().save(path)), PAGE: save_as_page},
            records=lambda: [self.record()],
        )

    def reports(self) -> Iterator[Report]:
        """Yield the text piece by piece as it is written, then where each token looked."""
        engine = self.plain.engine
        part = [] if engine.part == "decoder" else [f"{engine.part} attention"]
        title = " · ".join([model_name(engine.info.full_name), *part, self._how])
        above = f"{title}\n{visible_text(self.prompt)}"
        if self.query is not None:
            select_token(self.query, self.shown.whole)  # an unknown one is refused before anything is printed
        if self.changed is not None:
            yield from _pieces(self.plain, f"{above}\nunchanged: ")
            yield from _pieces(self.changed, f"{self.changed.name}: ")
        else:
            yield from _pieces(self.plain, above + "\n" if self.chat or engine.part == "cross" else above)
        parts: list[Part] = []
        if self.changed is not None:
            count = len(self.changed.steps)
            line = f"{self.changed.name}: the same {'token' if count == 1 else f'{count} tokens'}"
            if self._difference is not None:
                (one, other), (before, after) = self._difference["tokens"], self._difference["probabilities"]
                same = self._difference["place"]  # tokens before the first that differs
                first = "the first token" if same <= 1 else f"the first {same} tokens"
                verb = "differs:" if same == 0 else "is the same, then" if same == 1 else "are the same, then"
                line = (
                    f"{self.changed.name}, {first} {verb} {other} "
                    f"({after[1]:.1%}; unchanged {before[1]:.1%}) instead of {one} ({before[0]:.1%}; with the change "
                    f"{after[0]:.1%})"
                )
            parts += [TextLine(line, "strong"), TextLine("")]
        if self.lens:
            parts += self._lens_parts()
        else:
            shares = None if self.grouping is None else list(_unit_shares(self.shown, self.grouping))
            parts += [
                _steps_table(self.shown, _steps(self.shown), shares),
                *_heads_parts(self.shown, shares is not None),
            ]
        if self.note is not None:
            parts.append(TextLine(self.note, "faint"))
        yield Report([], parts, dict, next=NextCommand("generate", {"output_path": Path("written.html")}))

    def _lens_parts(self) -> list[Part]:
        """Return a row per written token, with the predictions of some layers; with --query, a row per layer."""
        found = list(self._lens())
        if self.query is not None:
            [one] = found
            where = f"after token {one['query']['index']} ({visible(one['query']['shown'])})"
            return [TextLine(where, "strong"), lens_table(one["layers"]), TextLine(LENS, "faint")]
        layers = self.shown.engine.layers
        some = sorted({round(layers * share) for share in SOME_LAYERS} - {0, layers})
        names, rows = numbered_names(self.shown.whole), []
        for one, step in zip(found, self.shown.steps, strict=True):
            place = one["query"]["index"] + 1
            tops = [layer["likeliest"][0] for layer in one["layers"]]
            row = 1 + max((row for row, top in enumerate(tops) if top["token"] != one["tokens"][place]), default=-1)
            since = "-" if row > layers else "embeddings" if row == 0 else str(row - 1)
            after = [f"{visible(tops[row]['shown'])} {tops[row]['probability']:.2f}" for row in some]
            rows.append([names[place], f"{step.probability:.1%}", since, *after])
        columns = [Column("token", "name"), Column("probability"), Column("likeliest from layer")]
        columns += [Column(f"after layer {row - 1}", "name", drop) for drop, row in enumerate(some, 1)]
        since = "likeliest from layer: after this layer and all later ones, the token is the likeliest"
        return [Table(columns, rows), TextLine(f"{LENS}. {since}", "faint")]


def _pieces(writing: _Writing, before: str) -> Iterator[Report]:
    """Write, and yield the text piece by piece. Errors are raised before anything is printed."""
    pieces = writing.pieces()
    first = next(pieces, "")
    if before.endswith(" "):
        first = first.removeprefix(" ")
    for piece in chain([before + first], pieces, ["\n"]):
        yield Report([], [], dict, verbatim=piece)


def _chat_note(tokens: Tokens, parted: PartedText) -> tuple[str, str | None]:
    """Return the prompt of a chat, and a note on which tokens come from its one message or each of its named
    messages."""
    if len(parted.parts) != 1:
        runs = parted.units("part")
        each = zip(runs, unit_tokens(tokens, [(run.start, run.end) for run in runs]), strict=True)
        named = [f"{visible(run.name)} {number_list(places)}" for run, places in each if places]
        return parted.text, f"tokens of the prompt: {', '.join(named)}"
    [(_, start, end)] = parted.parts
    own = [place for place, (first, last) in enumerate(tokens.offsets) if last > start and first < end]
    parts = [(0, own[0], "before"), (own[-1] + 1, len(tokens), "after")] if own else [(0, len(tokens), "with")]
    named = []
    for first, last, where in parts:
        if last > first:
            pieces = visible(shorten(joined(tokens.shown[first:last]), 60))
            named.append(f'{number_list(range(first, last))} {where} the text ("{pieces}")')
    return parted.text[start:end], f"from the chat template: tokens {' and '.join(named)}" if named else None


def _steps(writing: _Writing) -> list[_TokenEntry]:
    """Return each written token as the document has it, with the share of the first token, if that is a sink."""
    looks, backend = writing.looks, writing.engine.tokenizer.backend
    shares = looks.means[:, 0].tolist() if writing.engine.part == "decoder" else [None] * len(looks.means)
    return [
        {
            "index": row + 1,
            "token": looks.queries.text[row + 1],
            "probability": step.probability,
            "likely": [
                {"token": backend.id_to_token(token), "probability": probability} for token, probability in step.likely
            ],
            "sink": share,
            "edges": [
                {
                    "layer": edge.layer,
                    "head": edge.head,
                    "query": edge.query,
                    "key": edge.key,
                    "weight": edge.weight,
                    "usual": edge.usual,
                    "key_token": looks.keys.text[edge.key],
                }
                for edge in looks.edges[row]
            ],
        }
        for row, step, share in zip(count(looks.start), writing.steps, shares, strict=False)
    ]


def _unit_shares(writing: _Writing, grouping: Grouping) -> Iterator[list[_UnitEntry]]:
    """Yield, for each written token, the shares of the units of the text, and of what was written before it."""
    looks, tokens = writing.looks, writing.tokens
    axis = axes_of(grouping, tokens).queries
    units: list[tuple[str, list[int]]] = []
    for number, places in enumerate(axis.groups):
        name = axis.tokens.shown[number]
        again = next((its for other, its in units if other == name), None) if grouping.unit == "part" else None
        if tokens.first in places or (axis.tokens.special[number] and not grouping.marked):
            continue
        if again is None:
            units.append((name, list(places)))
        else:
            again.extend(places)
    before = writing.engine.part == "decoder"  # a decoder reads what it wrote
    if before:
        units.append(("(written)", list(range(len(tokens), len(looks.keys)))))
    for row in range(len(writing.steps)):
        weights = [float(looks.means[row, places].sum()) for _, places in units]
        counts = [sum(place <= looks.start + row or not before for place in places) for _, places in units]
        yield [
            {"unit": name, "share": weight / (sum(weights) or 1), "length": count / sum(counts)}
            for (name, _), weight, count in zip(units, weights, counts, strict=True)
            if count
        ]


def _steps_table(
    writing: _Writing, steps: Sequence[_TokenEntry], shares: Sequence[Sequence[_UnitEntry]] | None
) -> Table:
    """Return a row per written token: its probability, the share of the sink, and the edges far above usual, or the
    units with the largest shares.
    """
    looks = writing.looks
    queries, keys = numbered_names(looks.queries), numbered_names(looks.keys)
    rows = []
    for number, step in enumerate(steps):
        edges = [
            f"{keys[edge['key']]} {edge['weight']:.2f} ({edge['usual']:.2f}) {edge['layer']}.{edge['head']}"
            for edge in step["edges"][:LOOKS]
        ]
        if shares is not None:
            most = sorted(shares[number], key=lambda one: -one["share"])[:UNITS]
            edges = [f"{visible(one['unit'].strip())} {one['share']:.2f} ({one['length']:.2f})" for one in most]
        sink = [] if step["sink"] is None else [f"{step['sink']:.2f}"]
        rows.append([queries[step["index"]], f"{step['probability']:.1%}", *sink, "  ".join(edges) or "-"])
    sink_column = [Column(f"weight to {visible(looks.keys.shown[0])}")] if writing.engine.part == "decoder" else []
    last = Column("looked at" if shares is None else "share of units (if uniform)", "prose")
    columns = [Column("token", "name"), Column("probability"), *sink_column, last]
    return Table(columns, rows)


def _heads_parts(writing: _Writing, units: bool) -> list[Table | TextLine]:
    """Return a table of the heads with edges far above usual, those at the most written tokens first, and its meaning.

    units: whether the table above it shows the shares of units.
    """
    looks = writing.looks
    of_heads: dict[tuple[int, int], dict[int, Edge]] = defaultdict(dict)
    for row in range(looks.start, looks.start + len(writing.steps)):
        for edge in looks.edges[row]:
            of_heads[edge.layer, edge.head].setdefault(edge.query, edge)
    about = "looked at: the key, its weight (the usual weight), and the head"
    if units:
        about = (
            f"share: the {UNITS} largest shares of the weight, over all heads, at the position that predicted the "
            "token, without the first token. In brackets: the share under uniform attention. Heads are listed by edges"
        )
    about += (
        f"{' between words' if units else '; only edges between words'}, at least {STRONG} above usual, at the "
        "position that predicted the token"
    )
    if writing.engine.part == "decoder":
        about += f". weight to {visible(looks.keys.shown[0])}: the mean over all heads; this first token is a sink"
    if not of_heads:
        nothing = f"no head has an edge between words at least {STRONG} above its usual weight"
        return [TextLine(nothing, "strong"), TextLine(about, "faint")]
    queries, keys = numbered_names(looks.queries), numbered_names(looks.keys)
    strongest = {head: max(found.values(), key=lambda edge: edge.above) for head, found in of_heads.items()}
    order = sorted(of_heads, key=lambda head: (-len(of_heads[head]), -strongest[head].above))
    rows = []
    for head in order[:HEADS]:
        best = strongest[head]
        ends, numbers = f"{queries[best.query]} → {keys[best.key]}", [f"{best.weight:.3f}", f"{best.usual:.3f}"]
        rows.append([f"{head[0]}.{head[1]}", str(len(of_heads[head])), ends, *numbers])
    every = len(looks.layers) * writing.engine.heads
    title = f"{len(of_heads)} of {every} heads have edges far above their usual weight"
    title += f". The first {len(rows)}:" if len(rows) < len(of_heads) else ":"
    columns = [Column("head", "name"), Column("tokens"), Column("strongest edge", "name")]
    columns += [Column("weight"), Column("usual")]
    return [Table(columns, rows, title), TextLine(about, "faint")]
