"""Write on from a text with a decoder, and show where each new token looked.

A new token is chosen from the vector of the token before it: so what it was made of is the attention of that row. A
weight alone does not say that a head reacts to the text, so edges are compared with their usual weight
(`attncli.analysis.edges`). The first token of a decoder is a sink, whatever it is, and its share stands apart.

With heads silenced or edges cut the text is written twice: as it is, and with the change.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from attncli.base.arrays import Array, as_floats, as_numpy
from attncli.base.errors import RequestError
from attncli.base.files import PAGE
from attncli.base.printable import printable, shorten, visible
from attncli.features import options
from attncli.features.feature import Feature, as_function
from attncli.features.inputs import SAMPLE, open_tapped, read_input
from attncli.features.options import MODEL, TEXT, option
from attncli.models.block import Block, Tap
from attncli.models.opening import Opening
from attncli.models.taps import BLOCK
from attncli.record import AttentionRecord, Request
from attncli.record.display import model_name
from attncli.record.parts import UsualWeights
from attncli.record.record import SUFFIXES
from attncli.record.selection import number_list, numbered_names, select_pieces
from attncli.report import Column, NextCommand, Part, Report, Table, TextLine
from attncli.text.tokens import Tokens, joined

if TYPE_CHECKING:
    from attncli.analysis.edges import Usual
    from attncli.models.devices import InTorch
    from attncli.models.generation import Manner, Step

ANY = "*"  # every token, also those that are still to be written
LOOKS = 2  # edges that the terminal names for a token
HEADS = 8  # heads that the terminal lists


@dataclass(eq=False)
class Generate(Feature):
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

    group = "Look"
    saves = (*SUFFIXES, PAGE)
    saved_as = "a record"

    text: options.Text = None
    file: options.File = None
    whole: options.Whole = False
    chat: Annotated[bool, option(TEXT, "--chat", help="Put the text into the model's own chat template.")] = False
    edges: options.Edges = None
    model: options.ModelName = "smollm2"
    max_tokens: Annotated[int, option(MODEL, "--max-tokens", metavar="N", min=1, help="Write at most N tokens.")] = 40
    sample: Annotated[bool, option(MODEL, "--sample", help="Draw each token, instead of the likeliest.")] = False
    temperature: Annotated[
        float,
        option(MODEL, "--temperature", metavar="X", min=0.01, max=100, help="With --sample: divide the logits by X."),
    ] = 1.0
    top_p: Annotated[
        float,
        option(
            MODEL,
            "--top-p",
            metavar="P",
            min=0.0,
            max=1.0,
            help="With --sample: draw from the likeliest tokens that sum to P.",
        ),
    ] = 1.0
    seed: Annotated[int, option(MODEL, "--seed", metavar="N", min=0, help="With --sample: the seed of the draws.")] = 0
    without: options.Without = None
    which: options.Which = None
    engine: options.EngineOption = "auto"
    device: options.DeviceOption = "auto"
    dtype: options.DtypeOption = "float32"

    def report(self) -> Report:
        *pieces, last = self._reports()
        title, _, written = "".join(piece.verbatim or "" for piece in pieces).partition("\n")
        return replace(last, title=[title], parts=[*map(TextLine, filter(None, written.split("\n"))), *last.parts])

    def reports(self) -> Iterator[Report]:
        """Yield the text piece by piece as it is written, then its report; with --json or -o only the report."""
        if self.for_person:
            yield from self._reports()
        else:
            yield self.report()

    def _reports(self) -> Iterator[Report]:
        from attncli.models.chat import chat_prompt
        from attncli.models.engine import check_room
        from attncli.models.generation import Manner, next_output, prompt_tokens

        if not self.sample:
            self.refuse("without --sample, which draws tokens", "temperature", "top_p", "seed")
        beginning = SAMPLE.partition(" it ")[0]
        text = read_input(
            self.text, None, self.file, self.whole, "give the one to write on from", sample=beginning
        ).text
        engine: Any = open_tapped(Opening(self.model, self.device, self.dtype, self.engine), self.which)
        next_output(engine)  # refuses a model that writes no text before anything is printed
        note = None
        if self.chat:
            prompt = chat_prompt(engine.place.path, text)
            tokens = engine.tokenizer.encode_marked(prompt)
            note = _template_note(tokens, prompt, text)
        else:
            tokens = prompt_tokens(engine, text)
        manner = Manner(self.max_tokens, self.sample, self.temperature, self.top_p, self.seed)
        how = f"drawn with seed {self.seed}" if self.sample else "the likeliest tokens"
        part = [] if engine.part == "decoder" else [f"{engine.part} attention"]
        title = " · ".join([model_name(engine.info.full_name), *part, how])
        changes = [] if self.without is None else [f"without {self.without}"]
        if self.edges:
            changes.append(f"with {', '.join(f'{query} → {key}' for query, key in self.edges)} cut")
        plain, changed = _Writing(engine, tokens, manner), None
        if self.paths:
            longest = len(tokens) + self.max_tokens
            advice = "leave out -o, which saves all of them, or write on from a shorter text"
            check_room([longest], engine.layers, engine.heads, advice=advice)
        if changes:
            other = engine if self.without is None else engine.without(self.without)
            cutting = _cutting(other, tokens, self.edges or [], self.max_tokens)
            changed = _Writing(other, tokens, manner, cutting, " and ".join(changes))
        above = f"{title}\n{visible_text(text)}"
        if changed is not None:
            yield from _pieces(plain, f"{above}\nas it is: ")
            yield from _pieces(changed, f"{changed.name}: ")
        else:
            yield from _pieces(plain, above + "\n" if self.chat or engine.part == "cross" else above)
        yield _report(text, plain, changed, note)


generate = as_function(Generate)


def _cutting(engine: "InTorch", tokens: Tokens, edges: Sequence[tuple[str | int, str | int]], most: int) -> "list[Tap]":
    """Return the tap that cuts edges in all heads: a key of the text, hidden from a query of it or from all."""
    if not edges:
        return []
    from attncli.effects.change import Changed, Hide

    if engine.part != "decoder":
        raise RequestError("--cut is for decoders, whose text is its own context: leave it out")
    cut = []
    for query, key in ((str(one), str(other)) for one, other in edges):
        keys = range(len(tokens)) if key == ANY else select_pieces(key, tokens)
        queries = range(len(tokens) + most) if query == ANY else select_pieces(query, tokens)
        cut += [(q, k) for q in queries for k in keys if k < q]
    every = [(layer, head) for layer in range(engine.layers) for head in range(engine.heads)]
    return [Changed([Hide(every, cut)])]


# --- writing --------------------------------------------------------------------------------------------


class _Writing:
    """A text while it is written and afterwards.

    tokens: the text; of an encoder-decoder its input. steps: one per written token. name: the change, if any.
    """

    def __init__(
        self, engine: Any, tokens: Tokens, manner: "Manner", taps: "Sequence[Tap]" = (), name: str = ""
    ) -> None:
        self.engine, self.tokens, self.manner, self.taps, self.name = engine, tokens, manner, taps, name
        self.steps: list[Step] = []

    @property
    def ids(self) -> list[int]:
        return [step.token for step in self.steps]

    @property
    def text(self) -> str:
        """The written text, without special tokens."""
        from attncli.models.generation import writer

        return writer(self.engine).decode(self.ids)

    def pieces(self) -> Iterator[str]:
        """Write, and yield the text as it grows. A character that is written byte by byte comes when it is whole."""
        from attncli.models.generation import write

        shown = 0
        for step in write(self.engine, self.tokens, self.manner, self.taps):
            self.steps.append(step)
            text = self.text
            if not text.endswith("\ufffd"):
                yield visible_text(text[shown:])
                shown = len(text)

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
        engine: Any,
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


# --- the report -----------------------------------------------------------------------------------------


def visible_text(text: str) -> str:
    """Return a text for a terminal: line breaks stay, and what a terminal would act on is written out."""
    return "\n".join(map(printable, text.split("\n")))


def _pieces(writing: _Writing, before: str) -> Iterator[Report]:
    """Write, and yield the text piece by piece. What is refused is refused before anything is printed."""
    pieces = writing.pieces()
    first = next(pieces, "")
    if before.endswith(" "):
        first = first.removeprefix(" ")
    for piece in chain([before + first], pieces, ["\n"]):
        yield Report([], [], dict, verbatim=piece)


def _template_note(tokens: Tokens, prompt: str, text: str) -> str | None:
    """Say which tokens of a prompt come from the chat template; None if it adds none."""
    start = prompt.rfind(text.strip())
    end = start + len(text.strip())
    own = [place for place, (first, last) in enumerate(tokens.offsets) if start >= 0 and last > start and first < end]
    parts = [(0, own[0], "before"), (own[-1] + 1, len(tokens), "after")] if own else [(0, len(tokens), "with")]
    named = []
    for first, last, where in parts:
        if last > first:
            pieces = visible(shorten(joined(tokens.shown[first:last]), 60))
            named.append(f'{number_list(range(first, last))} {where} the text ("{pieces}")')
    return f"from the chat template: tokens {' and '.join(named)}" if named else None


def _report(text: str, plain: _Writing, changed: _Writing | None, note: str | None) -> Report:
    """Report what was written, with the change if there is one. note: on the prompt."""
    shown = changed or plain
    difference = None if changed is None else _difference(plain, changed)
    parts: list[Part] = []
    if changed is not None:
        line = f"{changed.name}: the same {len(changed.steps)} tokens"
        if difference is not None:
            (one, other), (before, after) = difference["tokens"], difference["probabilities"]
            line = (
                f"{changed.name} the text differs from token {difference['place'] + 1} on: {other} ({after[1]:.1%}; as "
                f"it is {before[1]:.1%}) instead of {one} ({before[0]:.1%}; with the change {after[0]:.1%})"
            )
        parts += [TextLine(line, "strong"), TextLine("")]
    steps = _steps(shown)
    parts += [_steps_table(shown, steps), *_heads_parts(shown)]
    if note is not None:
        parts.append(TextLine(note, "faint"))

    def save_as_page(path: Path) -> None:
        from attncli.page import page, save_page

        save_page(page([shown.record()]), path)

    document: dict[str, Any] = {
        "model": shown.engine.info.document(),
        "prompt": text,
        "text": shown.text,
        "ended": bool(shown.steps) and shown.steps[-1].ends,
        "tokens": steps,
    }
    if changed is not None:
        document["changes"] = changed.name
        document["unchanged"] = {"text": plain.text, "ended": bool(plain.steps) and plain.steps[-1].ends}
    document["difference"] = difference
    return Report(
        [],
        parts,
        lambda: document,
        files={**dict.fromkeys(SUFFIXES, lambda path: shown.record().save(path)), PAGE: save_as_page},
        next=NextCommand("generate", {"output_path": Path("written.html")}),
    )


def _steps(writing: _Writing) -> list[dict[str, Any]]:
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
            "edges": [{**asdict(edge), "key_token": looks.keys.text[edge.key]} for edge in looks.edges[row]],
        }
        for row, step, share in zip(count(looks.start), writing.steps, shares, strict=False)
    ]


def _steps_table(writing: _Writing, steps: Sequence[Mapping[str, Any]]) -> Table:
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


def _difference(plain: _Writing, changed: _Writing) -> dict[str, Any] | None:
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


# The fields of its document (`attncli.features.document`).
FIELDS = """
### generate

model | model
prompt | str | | the text to write on from
text | str | | what was written; with a change, what was written with it
ended | bool | | the model wrote its end token
tokens | [object] | | one per written token
tokens.index | int | | position in the text, or in the output of an encoder-decoder
tokens.token | str
tokens.probability | float | probability | the model's own, before --temperature and --top-p
tokens.likely | [object] | | the 5 most likely tokens
tokens.likely.token | str or null | | null if the vocabulary has no name for it
tokens.likely.probability | float | probability
tokens.sink | float or null | weight | the mean weight, over layers and heads, from the row that the token was chosen
    from to the first token; null if that is no sink
tokens.edges | [object] | | of that row, the edges between words at least 0.3 above their usual weight, in heads that
    are not silenced
tokens.edges.layer | int
tokens.edges.head | int
tokens.edges.query | int | | position of the row: `index` - 1
tokens.edges.key | int
tokens.edges.weight | float
tokens.edges.usual | float | weight | as in `findings` of `run`
tokens.edges.key_token | str
changes | str? | | the heads that are silenced and the edges that are cut, with --without and --cut
unchanged | object? | | what was written without the change
unchanged.text | str
unchanged.ended | bool
difference | object or null | | the first place where both texts differ; null if they don't, and without a change
difference.place | int | | from 0, the first written token
difference.tokens | [str] | `[2]` | the token written as it is, and the one with the change
difference.probabilities | [[float]] | `[2][2]` | of both tokens as it is, then with the change
"""
