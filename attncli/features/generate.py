"""Write on from a text with a decoder, and show where each new token looked.

A new token is chosen from the vector of the token before it: so what it was made of is the attention of that row. A
weight alone does not say that a head reacts to the text, so edges are compared with their usual weight
(`attncli.analysis.edges`). The first token of a decoder is a sink, whatever it is, and its share stands apart.

With heads silenced or edges cut the text is written twice: as it is, and with the change.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
    read_prompt,
)
from attncli.features.measure import measure, no_effect
from attncli.features.options import MODEL, TEXT, ModelOrName, option
from attncli.models.block import Block, Tap
from attncli.models.taps import BLOCK
from attncli.record import AttentionRecord, Request
from attncli.record.display import model_name
from attncli.record.parts import ModelDocument, UsualWeights
from attncli.record.record import SUFFIXES
from attncli.record.selection import number_list, numbered_names, select_pieces
from attncli.report import Column, NextCommand, Part, Report, Result, Table, TextLine
from attncli.text.tokens import Tokens, joined
from attncli.text.units import PartedText, unit_tokens

if TYPE_CHECKING:
    from attncli.analysis.edges import Usual
    from attncli.models.devices import InTorch
    from attncli.models.generation import Manner, Step

ANY = "*"  # every token, also those that are still to be written
LOOKS = 2  # edges that the terminal names for a token
HEADS = 8  # heads that the terminal lists


@measure(saves=(*SUFFIXES, PAGE), saved_as="a record")
def generate(
    model: Annotated[
        ModelOrName | None,
        options.model("Alias, Hub id or path.", kind=str | None, show_default="smollm2"),
    ] = None,
    text: options.Text = None,
    *,
    file: options.File = None,
    whole: options.Whole = False,
    chat: Annotated[
        bool, option(TEXT, "--chat", help="Use the chat template; TEXT can be a .json of messages.")
    ] = False,
    edges: options.Edges = None,
    max_tokens: Annotated[int, option(MODEL, "--max-tokens", metavar="N", min=1, help="Write at most N tokens.")] = 40,
    sample: Annotated[bool, option(MODEL, "--sample", help="Draw each token, instead of the likeliest.")] = False,
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
        option(MODEL, "--seed", metavar="N", min=0, help="With --sample: the seed of the draws.", show_default="0"),
    ] = None,
    without: options.Without = None,
    which: options.Which = None,
    engine: Annotated[choices.EngineName | None, options.ENGINE] = None,
    device: Annotated[str | None, options.DEVICE] = None,
    dtype: Annotated[choices.DtypeName | None, options.DTYPE] = None,
) -> "WrittenText":
    """Write on from a text, and show where each new token looked.

    The likeliest token is taken each time, or one is drawn (--sample). The text appears as it is written. Then each
    token has its probability, and the edges far above their usual weight from the row that it was chosen from. With
    --without or --cut the text is written with and without the change. -o saves the whole as one record.

    \b
    Examples:
      attncli generate "The trophy does not fit in the suitcase because"
      attncli generate --chat --max-tokens 30 "What is attention?"
      attncli generate --without 10.1 "The capital of France is"
      attncli generate --sample --top-p 0.9 --seed 1 -o written.html "Once upon a time"
    """
    from attncli.models.generation import Manner, next_output, prompt_tokens

    if not sample:
        no_effect("without --sample, which draws tokens", temperature=temperature, top_p=top_p, seed=seed)
    beginning = SAMPLE.partition(" it ")[0]
    otherwise = "give the one to write on from"
    prompt = "" if chat else read_input(text, None, file, whole, otherwise, sample=beginning).text
    named = default_model("smollm2") if model is None else model
    opening = opening_of(named, engine=engine, device=device, dtype=dtype)
    opened = cast("InTorch", open_tappable(opening, which))
    next_output(opened)  # refuses a model that writes no text before anything is printed
    note = None
    if chat:
        parted = read_prompt(text, file, whole, chat=opened.place.path, sample=beginning)
        tokens = opened.tokenizer.encode_marked(parted.text)
        prompt, note = _chat_note(tokens, parted)
    else:
        tokens = prompt_tokens(opened, prompt)
    manner = Manner(
        max_tokens, sample, 1.0 if temperature is None else temperature, 1.0 if top_p is None else top_p, seed or 0
    )
    cut = [] if edges is None else edge_names(edges)
    names = [] if without is None else [f"without {without}"]
    if cut:
        names.append(f"with {', '.join(f'{query} → {key}' for query, key in cut)} cut")
    changed = None
    if names:
        other = opened if without is None else cast("InTorch", opened.without(without))
        changed = _Writing(other, tokens, manner, _cutting(other, tokens, cut, max_tokens), " and ".join(names))
    return WrittenText(prompt, _Writing(opened, tokens, manner), changed, chat, note)


def _cutting(engine: "InTorch", tokens: Tokens, edges: Sequence[tuple[str, str]], most: int) -> "list[Tap]":
    """Return the tap that cuts edges in all heads: a key of the text, hidden from a query of it or from all."""
    if not edges:
        return []
    from attncli.effects.change import Changed, Hide

    if engine.part != "decoder":
        raise RequestError("--cut is for decoders, whose text is its own context: leave it out")
    cut = []
    for query, key in edges:
        keys = range(len(tokens)) if key == ANY else select_pieces(key, tokens)
        queries = range(len(tokens) + most) if query == ANY else select_pieces(query, tokens)
        cut += [(q, k) for q in queries for k in keys if k < q]
    every = [(layer, head) for layer in range(engine.layers) for head in range(engine.heads)]
    return [Changed([Hide(every, cut)])]


# --- writing --------------------------------------------------------------------------------------------


class _Writing:
    """A text while it is written and afterwards.

    tokens: the text; of an encoder-decoder its input. name: the change, if any.
    """

    def __init__(
        self, engine: "InTorch", tokens: Tokens, manner: "Manner", taps: "Sequence[Tap]" = (), name: str = ""
    ) -> None:
        self.engine, self.tokens, self.manner, self.taps, self.name = engine, tokens, manner, taps, name
        self._done: list[Step] = []

    @cached_property
    def _coming(self) -> "Iterator[Step]":
        """The steps that are still to be made."""
        from attncli.models.generation import write

        return write(self.engine, self.tokens, self.manner, self.taps)

    def each_step(self) -> "Iterator[Step]":
        """Yield the steps that were made, then make and yield the others."""
        for place in count():
            if place == len(self._done):
                step = next(self._coming, None)
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
    def text(self) -> str:
        """The written text, without special tokens."""
        from attncli.models.generation import writer

        return writer(self.engine).decode(self.ids)

    def pieces(self) -> Iterator[str]:
        """Yield the text as it grows. A character that is written byte by byte comes when it is whole."""
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

    def record(self) -> AttentionRecord:
        """Return the record of the text with what was written, from one pass. Its rows are those of every step."""
        from attncli.models.generation import extend, with_steps

        whole = extend(self.engine, self.tokens, self.ids)
        request = Request(which=self.engine.part if len(self.engine.parts) > 1 else None)
        [record] = self.engine.attend_tokens([whole], request, self.taps)
        return with_usual(with_steps(self.engine, record, whole, self.steps), self.usual)

    @cached_property
    def usual(self) -> "Usual | None":
        """The usual weights of the heads over other texts."""
        from attncli.corpus.usual import usual_of

        return usual_of(self.engine, Request(which=self.engine.part if len(self.engine.parts) > 1 else None))

    @cached_property
    def looks(self) -> "_Looks":
        """The edges and the sink's share of each row that a token was chosen from, from one pass without maps."""
        from attncli.models.generation import extend
        from attncli.models.taken import read_by
        from attncli.models.walk import Ending

        part = self.engine
        whole = part.ready(extend(part, self.tokens, self.ids))
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
    """Finds the strong edges of the rows that written tokens were chosen from, and keeps no map.

    The usual weight of an edge needs all rows of its layer: these are summed as they come, and the rows from `start` on
    are kept until the layer ends.

    queries, keys: the tokens of a map's axes; keys are None if they are the queries. others: the usual weights over
    other texts. edges: by row, farthest above their usual weight first. to_first: the mean weight, over layers and
    heads, that each row from `start` on gives to the first token.
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
        self.to_first = np.zeros(len(queries) - start)

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
        self.to_first += self.rows[..., 0].sum(axis=0) / (len(self.layers) * len(block.numbers))
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
    """Of that row, the edges between words at least 0.3 above their usual weight, in heads that are not silenced."""

    layer: int
    head: int
    query: Annotated[int, "position of the row: `index` - 1"]
    key: int
    weight: float
    usual: Annotated[float, "as in `findings` of `run`", "weight"]
    key_token: str


class _TokenEntry(TypedDict):
    """One per written token."""

    index: Annotated[int, "position in the text, or in the output of an encoder-decoder"]
    token: str
    probability: Annotated[float, "the model's own, before --temperature and --top-p", "probability"]
    likely: list[_LikelyEntry]
    sink: Annotated[
        float | None,
        "the mean weight, over layers and heads, from the row that the token was chosen from to the first token; null "
        "if that is no sink",
        "weight",
    ]
    edges: list[_EdgeEntry]


class _UnchangedEntry(TypedDict):
    """What was written without the change."""

    text: str
    ended: bool


class _DifferenceEntry(TypedDict):
    """The first place where both texts differ; null if they don't, and without a change."""

    place: Annotated[int, "from 0, the first written token"]
    tokens: Annotated[list[str], "the token written as it is, and the one with the change", "`[2]`"]
    probabilities: Annotated[list[list[float]], "of both tokens as it is, then with the change", "`[2][2]`"]


class _Changes(TypedDict, total=False):
    changes: str
    unchanged: _UnchangedEntry


class GenerateDocument(TypedDict):
    """`-o` saves the whole text as a record, as .json too."""

    model: ModelDocument
    prompt: Annotated[str, "the text to write on from"]
    text: Annotated[str, "what was written; with a change, what was written with it"]
    ended: Annotated[bool, "the model wrote its end token"]
    tokens: list[_TokenEntry]
    changes: NotRequired[
        Annotated[str, "the heads that are silenced and the edges that are cut, with --without and --cut"]
    ]
    unchanged: NotRequired[_UnchangedEntry]
    difference: _DifferenceEntry | None


@dataclass(frozen=True, repr=False)
class WrittenText(Result):
    """A text that a model writes on. It is written when it is asked for, token by token.

    prompt: the text to write on from. plain: what the model writes as it is. changed: what it writes with heads
    silenced or edges cut. chat: whether the prompt stands in a chat template; note: which tokens come from that.
    """

    prompt: str
    plain: _Writing
    changed: _Writing | None
    chat: bool
    note: str | None

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
        """What was written, without special tokens."""
        return self.shown.text

    @property
    def _how(self) -> str:
        manner = self.plain.manner
        return f"drawn with seed {manner.seed}" if manner.sample else "the likeliest tokens"

    def record(self) -> AttentionRecord:
        """Return the record of the text with what was written.

        Raises RequestError where its maps don't fit into memory, before anything is written.
        """
        from attncli.models.engine import check_room

        plain = self.plain
        longest = len(plain.tokens) + plain.manner.max_tokens
        advice = "leave out -o, which saves all of them, or write on from a shorter text"
        check_room([longest], plain.engine.layers, plain.engine.heads, advice=advice)
        return self.shown.record()

    @cached_property
    def _difference(self) -> _DifferenceEntry | None:
        return None if self.changed is None else _difference(self.plain, self.changed)

    def document(self) -> GenerateDocument:
        """Return what --json prints."""
        shown = self.shown
        changes: _Changes = {}
        if self.changed is not None:
            unchanged: _UnchangedEntry = {"text": self.plain.text, "ended": self.plain.ended}
            changes = {"changes": self.changed.name, "unchanged": unchanged}
        return {
            "model": shown.engine.info.document(),
            "prompt": self.prompt,
            "text": shown.text,
            "ended": shown.ended,
            "tokens": _steps(shown),
            **changes,
            "difference": self._difference,
        }

    def report(self) -> Report:
        """Report the text for a document or a file; `reports` shows it."""

        def save_as_page(path: Path) -> None:
            from attncli.page import page, save_page

            save_page(page([self.record()]), path)

        return Report(
            [],
            [],
            self.document,
            files={**dict.fromkeys(SUFFIXES, lambda path: self.record().save(path)), PAGE: save_as_page},
        )

    def reports(self) -> Iterator[Report]:
        """Yield the text piece by piece as it is written, then where each token looked."""
        engine = self.plain.engine
        part = [] if engine.part == "decoder" else [f"{engine.part} attention"]
        title = " · ".join([model_name(engine.info.full_name), *part, self._how])
        above = f"{title}\n{visible_text(self.prompt)}"
        if self.changed is not None:
            yield from _pieces(self.plain, f"{above}\nas it is: ")
            yield from _pieces(self.changed, f"{self.changed.name}: ")
        else:
            yield from _pieces(self.plain, above + "\n" if self.chat or engine.part == "cross" else above)
        parts: list[Part] = []
        if self.changed is not None:
            line = f"{self.changed.name}: the same {len(self.changed.steps)} tokens"
            if self._difference is not None:
                (one, other), (before, after) = self._difference["tokens"], self._difference["probabilities"]
                line = (
                    f"{self.changed.name} the text differs from token {self._difference['place'] + 1} on: {other} "
                    f"({after[1]:.1%}; as it is {before[1]:.1%}) instead of {one} ({before[0]:.1%}; with the change "
                    f"{after[0]:.1%})"
                )
            parts += [TextLine(line, "strong"), TextLine("")]
        parts += [_steps_table(self.shown, _steps(self.shown)), *_heads_parts(self.shown)]
        if self.note is not None:
            parts.append(TextLine(self.note, "faint"))
        yield Report([], parts, dict, next=NextCommand("generate", {"output_path": Path("written.html")}))


def _pieces(writing: _Writing, before: str) -> Iterator[Report]:
    """Write, and yield the text piece by piece. What is refused is refused before anything is printed."""
    pieces = writing.pieces()
    first = next(pieces, "")
    if before.endswith(" "):
        first = first.removeprefix(" ")
    for piece in chain([before + first], pieces, ["\n"]):
        yield Report([], [], dict, verbatim=piece)


def _chat_note(tokens: Tokens, parted: PartedText) -> tuple[str, str | None]:
    """Return what a chat asks, and which tokens come from where: of one message, or of several by their names."""
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
    shares = looks.to_first.tolist() if writing.engine.part == "decoder" else [None] * len(looks.to_first)
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


def _steps_table(writing: _Writing, steps: Sequence[_TokenEntry]) -> Table:
    """Return a row per written token: its probability, the share of the sink, and the edges far above usual."""
    looks = writing.looks
    queries, keys = numbered_names(looks.queries), numbered_names(looks.keys)
    rows = []
    for step in steps:
        edges = [
            f"{keys[edge['key']]} {edge['weight']:.2f} ({edge['usual']:.2f}) {edge['layer']}.{edge['head']}"
            for edge in step["edges"][:LOOKS]
        ]
        sink = [] if step["sink"] is None else [f"{step['sink']:.2f}"]
        rows.append([queries[step["index"]], f"{step['probability']:.1%}", *sink, "  ".join(edges) or "-"])
    sink_column = [Column(f"to {visible(looks.keys.shown[0])}")] if writing.engine.part == "decoder" else []
    columns = [Column("token", "name"), Column("probability"), *sink_column, Column("looked at", "prose")]
    return Table(columns, rows)


def _heads_parts(writing: _Writing) -> list[Table | TextLine]:
    """Return the heads with edges far above usual at the most written tokens."""
    looks = writing.looks
    of_heads: dict[tuple[int, int], dict[int, Edge]] = defaultdict(dict)
    for row in range(looks.start, looks.start + len(writing.steps)):
        for edge in looks.edges[row]:
            of_heads[edge.layer, edge.head].setdefault(edge.query, edge)
    about = (
        "looked at: key, weight, in brackets the usual weight, and the head; only edges between words, at least "
        f"{STRONG} above usual, of the row that the token was chosen from"
    )
    if writing.engine.part == "decoder":
        about += f". to {visible(looks.keys.shown[0])}: the mean over all heads; this first token is a sink"
    if not of_heads:
        nothing = f"no head looked at a word {STRONG} above its usual weight"
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
    title = f"{len(of_heads)} of {every} heads looked far above usual while writing. The first {len(rows)}:"
    columns = [Column("head", "name"), Column("tokens"), Column("strongest edge", "name")]
    columns += [Column("weight"), Column("usual")]
    return [TextLine(""), Table(columns, rows, title), TextLine(about, "faint")]


# --- with a change --------------------------------------------------------------------------------------


def _difference(plain: _Writing, changed: _Writing) -> _DifferenceEntry | None:
    """Return the first place where two texts differ, as the document has it; None if they don't."""
    from attncli.models.generation import next_probabilities, writer

    pairs = zip(plain.ids, changed.ids, strict=False)
    same = next((number for number, (one, other) in enumerate(pairs) if one != other), None)
    if same is None:
        return None  # greedy: one of them ends where the other does
    ids = plain.ids[same], changed.ids[same]
    probabilities = []
    for one in (plain, changed):
        *_, found = next_probabilities(one.engine, one.tokens, plain.ids[:same], taps=one.taps)
        probabilities.append([float(found[token]) for token in ids])
    names = [visible(writer(plain.engine).extend(plain.tokens.take([]), [token]).shown[0]) for token in ids]
    return {"place": same, "tokens": names, "probabilities": probabilities}
