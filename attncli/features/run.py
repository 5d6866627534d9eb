"""Show what the attention heads of a model do with a text, or save it.

A head's weight alone does not say that it is worth a look: a head that always looks at the previous token is strong
everywhere. So edges between words are compared with their usual weight (`attncli.analysis.edges`).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from attncli.base.errors import RequestError
from attncli.base.printable import printable
from attncli.base.progress import counted
from attncli.features import options
from attncli.features.feature import options_of
from attncli.features.inputs import RecordFeature, RecordSource, notify, notify_about
from attncli.features.options import OUTPUT, option
from attncli.record import AttentionRecord, save_records
from attncli.record.record import LOADED, READ, SUFFIXES, check_record_count, document_text
from attncli.record.selection import Grouping, number_list
from attncli.report import MapAxis, Maps, NextCommand, Panel, Part, Report, TextLine

if TYPE_CHECKING:
    from rich.console import RenderableType

    from attncli.analysis.edges import Edge, Usual
    from attncli.report.canvas import Canvas

LONGEST_SEARCHED = 512  # tokens of a text whose strong edges a document has
ENDLESS = 10_000  # columns of a large map in a pipe


@dataclass(eq=False)
class Run(RecordFeature):
    """Show what the attention heads of a model do with a text.

    Without a selection: the pattern of every head, and the heads worth a closer look on this text. With -l: the heads
    of that layer, each as a small map. With -H: that head as a large map, with its numbers; or several (3.1,1.8). With
    --terms: its scores, split into content and position, in models whose positions add to scores. What is shown is what
    -o and --json have.

    \b
    Examples:
      attncli run "The trophy does not fit in the suitcase because it is too big."
      attncli run -l 3 "The cat sat on the mat."
      attncli run -l 3 -H 1 "The cat sat on the mat."
      attncli run -o maps.safetensors "The cat sat on the mat."
      echo "A text from a pipe." | attncli run --json -l 0 -H 0
    """

    group = "Look"
    saves = SUFFIXES
    saved_as = "a record"

    text: options.PipedText = None
    mask: options.MaskOption = None
    vectors: Annotated[
        str | None, options.vectors("Save q and k of these heads too: 4.7, or 4.0-3, or 4.all, or all.")
    ] = None
    tokens: options.SomeTokens = None
    words: options.Words = False
    terms: options.TermsOption = False
    top_k: Annotated[
        int, option(OUTPUT, "--top-k", rare=True, metavar="N", min=1, help="Name the N strongest keys.", use="terminal")
    ] = 3

    def report(self) -> Report:
        """Report one text. Raises RequestError for several: `reports` yields a report for each."""
        [report] = self._reports(one=True)
        return report

    def reports(self) -> Iterator[Report]:
        """Yield a report per text; with --json or -o one of all texts."""
        return self._reports(one=False)

    def _reports(self, one: bool) -> Iterator[Report]:
        self._check()
        overview = self.layer is None and self.head is None and self.for_person
        grouping = Grouping(self.tokens, self.words, stretches=self.for_person and not self.terms)
        vectors = "all" if self.terms else self.vectors
        of_heads = (self.head is not None or self.terms) and self.saved is None  # without -l, of the last layer
        layers = "-1" if of_heads else "all"
        source = self.source(self.mask, layers, grouping, stdin=True, vectors=vectors, predict=True)
        if self.for_person and self.saved is None and len(source) > 1:
            notify(
                f"{self.file or 'stdin'} has {len(source)} lines, each a text of its own: --whole makes them one text"
            )
        if one and len(source) != 1:
            raise RequestError(f"there are {len(source)} texts and one is needed: reports() yields one for each")
        if self.path is not None:
            check_record_count(self.path, len(source))
        records: Iterable[AttentionRecord] = map(notify_about, source.records(together=self.path is not None))
        if self.terms:
            from attncli.record.display import with_terms

            records = map(with_terms, records)
        usual = cache(lambda: source.usual(self.words))
        if self.path is not None or not self.for_person:
            yield self._records_report(source, records, usual)
            return
        for record in records:
            if self.terms:
                yield _terms_report(record)
            elif overview or (len(record.layers) > 1 and self.head is None):
                self.refuse("where no keys are named: give one layer (-l)", "top_k")
                yield _overview_report(record, usual)
            elif len(record.layers) == len(record.heads) == 1:
                yield _head_report(record, self.top_k, len(source) == 1)
            else:
                yield _layers_report(record, self.top_k, len(source) == 1)

    def _records_report(
        self,
        source: RecordSource,
        records: Iterable[AttentionRecord],
        usual: "Callable[[], Usual | None]",
    ) -> "RecordReport":
        """Report all records, for a document or a file.

        Saved records hold the usual weights of their heads, if the file can hold them and they are of words. A file
        that can be read again is offered as the next thing to look at.
        """
        from attncli.analysis.edges import with_usual
        from attncli.record.display import in_stretches

        findings: list[dict[str, Any]] | None = None
        if self.head is None and not self.terms and (self.for_program or self.suffix == ".json"):
            findings = []
            records = _with_findings(records, usual, findings)
        next = None
        if self.path is not None:
            records = list(counted(records, len(source), "texts"))
            if self.suffix in LOADED and not any(map(in_stretches, records)):
                records = [with_usual(record, usual()) for record in records]
            if self.suffix in READ:
                others = dict.fromkeys(name for name in options_of(Run) if name != "saved")
                next = NextCommand("run", {**others, "saved": self.path})
        return _report(["records"], [], records, self.terms, next, findings)

    def _check(self) -> None:
        """Raises RequestError for options that have no effect together."""
        if self.vectors is not None and self.suffix not in LOADED:
            raise RequestError(f"--vectors is for a saved record: give -o with {' or '.join(LOADED)}")
        if self.vectors is not None and self.words:
            raise RequestError("q and k are of pieces, not of words: leave --vectors or --words out")
        if self.terms:
            self.refuse("with --terms, which shows weights between pieces", "words", "measure", "tokens")
            if self.head is None and self.saved is None:
                raise RequestError("--terms is of one head: choose it with -l and -H")
            if self.path is not None:
                raise RequestError("-o has no effect with --terms: run --vectors L.H -o maps.safetensors saves them")
        if self.path is not None:
            self.refuse("on a saved record, which has whole rows", "tokens")


# --- records --------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class RecordReport(Report):
    """The report of records, whose document is written map by map: all heads of 512 tokens take hundreds of MB.

    terms: whether the document holds the terms of the scores. findings: the strong edges of a first look.
    """

    records: Iterable[AttentionRecord] = ()
    terms: bool = False
    findings: Sequence[Mapping[str, Any]] | None = None

    def json(self) -> Iterator[str]:
        return document_text(self.records, self.terms, self.findings)

    def save(self, path: str | Path, **printed: Any) -> None:
        """Save the records by suffix. Raises RequestError as `save_records` does."""
        records = list(self.records)
        save_records(records, path, self.findings)
        texts = f"{len(records)} texts, " if len(records) > 1 else ""
        notify(f"{path} has {texts}{records[0].choice}")


def _report(
    title: Sequence[str],
    parts: Sequence[Part],
    records: Iterable[AttentionRecord],
    terms: bool = False,
    next: NextCommand | None = None,
    findings: Sequence[Mapping[str, Any]] | None = None,
) -> RecordReport:
    def document() -> dict[str, Any]:
        return json.loads("".join(document_text(records, terms, findings)))

    return RecordReport(title, parts, document, next=next, records=records, terms=terms, findings=findings)


# --- reports of a text ----------------------------------------------------------------------------------


def _text_report(
    part: "_Heads", next: NextCommand | None = None, findings: Sequence[Mapping[str, Any]] | None = None
) -> RecordReport:
    """Report a text: its title, the model's prediction, and some of its heads."""
    from attncli.record.display import describe_prediction

    prediction = [TextLine(line, "strong") for line in describe_prediction(part.record)]
    return _report(part.title, [*prediction, part], [part.record], next=next, findings=findings)


@dataclass(frozen=True)
class _Heads(Part):
    """Heads of a record, below a title and the model's prediction."""

    record: AttentionRecord
    title: Sequence[str]

    def below(self, canvas: "Canvas") -> "Canvas":
        """Return the part of a terminal below the title and the prediction."""
        from attncli.record.display import describe_prediction
        from attncli.report.terminal import fold

        if canvas.height is None:
            return canvas
        above = [" · ".join(self.title), *describe_prediction(self.record)]
        return replace(canvas, height=canvas.height - sum(len(list(fold(line, canvas.width))) for line in above))


def _overview_report(record: AttentionRecord, usual: "Callable[[], Usual | None]") -> RecordReport:
    """Report all heads, and those with edges far above their usual weight over sample texts."""
    from attncli.analysis.patterns import row_shares
    from attncli.record.display import title_of_record

    record = row_shares(record)
    found, over = _strong_edges(record, usual)
    shared = "" if record.model.key_heads is None else f" over {record.model.key_heads} key heads"
    every = f"{len(record.layers)} layers x {len(record.heads)} heads" if record.pairs is None else str(record.choice)
    title = title_of_record(record, f"{every}{shared}")
    return _text_report(_Overview(record, title, found, over), findings=_findings(0, record, found))


def _strong_edges(
    record: AttentionRecord, usual: "Callable[[], Usual | None]"
) -> "tuple[Sequence[Sequence[Edge]], Usual]":
    """Return the strong edges of every head that has any, and the texts of their usual weights."""
    from attncli.analysis.edges import Usual, edges
    from attncli.record.display import in_stretches

    over = Usual.with_text(record, None if in_stretches(record) else usual())
    return edges(record, over), over


def _with_findings(
    records: Iterable[AttentionRecord], usual: "Callable[[], Usual | None]", findings: list[dict[str, Any]]
) -> Iterator[AttentionRecord]:
    """Yield records, and add the strong edges of each to `findings`."""
    from attncli.analysis.patterns import row_shares

    for number, record in enumerate(records):
        if len(record.tokens) <= LONGEST_SEARCHED:
            shares = row_shares(record)
            findings += _findings(number, shares, _strong_edges(shares, usual)[0])
        yield record


def _findings(text: int, record: AttentionRecord, found: "Sequence[Sequence[Edge]]") -> list[dict[str, Any]]:
    """Return the strong edges of the record with this number as the document has them."""
    return [
        {
            "text": text,
            "layer": edge.layer,
            "head": edge.head,
            "query": edge.query,
            "query_token": record.tokens.text[edge.query],
            "key": edge.key,
            "key_token": record.keys.text[edge.key],
            "weight": edge.weight,
            "usual": edge.usual,
        }
        for edges in found
        for edge in edges
    ]


@dataclass(frozen=True)
class _Overview(_Heads):
    """All heads as glyphs, and those with strong edges.

    found: the strong edges of each such head. over: the texts of the usual weights.
    """

    found: "Sequence[Sequence[Edge]]"
    over: "Usual"

    def terminal(self, canvas: "Canvas") -> "list[RenderableType]":
        """Draw the heads; a terminal ends with a command that looks at the first head."""
        from attncli.analysis.edges import telling_head
        from attncli.report.heads import first_look

        layer, head = telling_head(self.record, self.found)
        command = None
        if canvas.height is not None and canvas.typed is not None:
            command = canvas.typed("run", {"layer": layer, "head": head})
        return [*first_look(self.record, self.found, self.over, self.below(canvas), command)]


def _layers_report(record: AttentionRecord, top_k: int, alone: bool) -> RecordReport:
    """Report heads as small maps. alone: whether it is the only text, so that a next command fits it."""
    from attncli.analysis.edges import by_content
    from attncli.analysis.patterns import row_shares
    from attncli.record.display import title_of_record

    shown = f"layer{'s' if len(record.layers) > 1 else ''} {number_list(record.layers)}"
    if record.pairs is not None:
        shown = str(record.choice)
    next = None
    if alone and len(record.heads) > 1:
        layer, head, *_ = (number for pair in by_content(record) if pair[0] == record.layers[0] for number in pair)
        next = NextCommand("run", {"layer": layer, "head": head})
    record = row_shares(record)
    return _text_report(SmallMaps(record, title_of_record(record, shown), top_k), next)


@dataclass(frozen=True)
class SmallMaps(_Heads):
    """Heads as small maps with their strongest keys."""

    top_k: int

    def terminal(self, canvas: "Canvas") -> "list[RenderableType]":
        from rich.text import Text

        from attncli.report.heads import small_maps

        return [*small_maps(self.record, canvas, self.top_k), Text()]


def _head_report(record: AttentionRecord, top_k: int, alone: bool) -> RecordReport:
    """Report one head as a large map."""
    from attncli.analysis.patterns import row_shares
    from attncli.record.display import title_of_record

    [layer], [head] = record.layers, record.heads
    lines = NextCommand("heatmap", {"style": "lines", "layer": layer, "head": head})
    record = row_shares(record)
    title = title_of_record(record, f"layer {layer} head {head}")
    return _text_report(HeadMap(record, title, top_k), lines if alone else None)


@dataclass(frozen=True)
class HeadMap(_Heads):
    """One head as a large map with the strongest keys of every query."""

    top_k: int

    def terminal(self, canvas: "Canvas") -> "list[RenderableType]":
        """Draw the map; a pipe gets all numbers."""
        from rich.text import Text

        from attncli.report.heads import one_head

        [layer], [head] = self.record.layers, self.record.heads
        room = self.below(canvas) if canvas.height is not None else replace(canvas, width=ENDLESS)
        return [*one_head(self.record, layer, head, room, self.top_k), Text()]


def _terms_report(record: AttentionRecord) -> RecordReport:
    """Report the score of one head and the terms that it is the sum of, each as a signed map."""
    from attncli.record.display import SCORE, describe_prediction, score_terms, title_of_record

    parts = {printable(name): values for name, values in score_terms(record).items()}
    [layer], [head] = record.layers, record.heads
    tokens, keys = record.tokens, record.keys
    maps = Maps(
        [[Panel(name, values)] for name, values in parts.items()],
        MapAxis("queries", tokens.shown, range(len(tokens)), tokens.special),
        MapAxis("keys", keys.shown, range(len(keys)), keys.special),
        scale=SCORE,
        signed=True,
        apart=True,
    )
    prediction = [TextLine(line, "strong") for line in describe_prediction(record)]
    equation = TextLine(f"{SCORE} = {' + '.join(name for name in parts if name != SCORE)}", caption=True)
    title = title_of_record(record, f"layer {layer} head {head}")
    return _report(title, [*prediction, equation, maps], [record], terms=True)


# The fields of its document (`attncli.features.document`).
FIELDS = """
### run

model | model
records | [record] | | one per text, in order; for an encoder-decoder the attention of `--which`
findings | [object]? | | the word-to-word edges at least 0.3 above their usual weight, of the layers in `records`. The
    head with the edge farthest above comes first. Missing with `-H` or `--terms`. A text of more than 512 tokens has
    none
findings.text | int | | number of the record, from 0
findings.layer | int
findings.head | int
findings.query | int | | position of the token that attends, in `tokens`
findings.query_token | str
findings.key | int | | position of the token that is attended to, in `key_tokens` or else `tokens`
findings.key_token | str
findings.weight | float
findings.usual | float | weight | the larger of the head's mean at that distance in this text and sample texts, and the
    mean that other words give that key

`.csv`: a row per cell: `text,layer,head,query,key,query_token,key_token,weight,hidden`. `text` is the number of the
record. `hidden` is 1 if the layer's mask hides the key, so that its weight is 0.
"""
