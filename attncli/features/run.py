"""Show what the attention heads of a model do to a text, or save it.

A large weight alone does not make a head interesting: a head that always looks at the previous token is strong
everywhere. So edges between words are compared with their usual weight (`attncli.analysis.edges`).
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

from attncli.base.errors import RequestError
from attncli.base.printable import printable
from attncli.base.progress import counted
from attncli.base.typed import NotRequired
from attncli.features import options
from attncli.features.inputs import SavedRecords, Texts, notify, notify_about, record_source
from attncli.features.measure import measure, no_effect
from attncli.features.options import OUTPUT, SELECTION, option
from attncli.record import AttentionRecord, save_records
from attncli.record.parts import KnownKinds, LensDocument, ModelDocument, RecordDocument
from attncli.record.record import LOADED, READ, SUFFIXES, check_record_count, document_text
from attncli.record.selection import Grouping, number_list
from attncli.report import MapAxis, Maps, NextCommand, Panel, Part, Report, Result, TextLine
from attncli.report.records import HeadMap, Overview, SmallMaps

if TYPE_CHECKING:
    from attncli.analysis.edges import Edge, Usual
    from attncli.base.typed import Unpack
    from attncli.features.lens import Lens

NAMED = 3  # the strongest keys


@measure(options.RecordOptions, saves=SUFFIXES, saved_as="a record")
def run(
    model: options.ModelOrSaved = None,
    text: options.PipedText = None,
    *,
    mask: options.MaskOption = None,
    vectors: Annotated[
        str | None,
        options.vectors("Also save q and k of these heads: 4.7, 4.0-3, 4.all or all.", only_saved=LOADED),
    ] = None,
    tokens: Annotated[str | None, options.some_tokens(not_saved=(*LOADED, ".csv"))] = None,
    words: options.Words = False,
    terms: options.TermsOption = False,
    lens: Annotated[
        bool,
        option(
            OUTPUT,
            "--lens",
            help="Show what each layer would predict, and no maps.",
            not_saved=LOADED,
        ),
    ] = False,
    query: Annotated[
        str | None,
        option(
            SELECTION,
            "--query",
            rare=True,
            metavar="TOKEN",
            help="Compute only these rows: LAST; 4000; 7,it#2. With --lens: the token that predicts.",
            show_default="all; --lens: the last one, or [MASK]",
        ),
    ] = None,
    kinds: Annotated[Path | None, options.kinds(only_shown=True)] = None,
    top_k: Annotated[
        int | None,
        option(
            OUTPUT,
            "--top-k",
            rare=True,
            metavar="N",
            min=1,
            help="Name the N strongest keys.",
            show_default="3",
            only_shown=True,
        ),
    ] = None,
    **given: "Unpack[options.RecordOptions]",
) -> "TextMaps | Lens":
    """Show what the attention heads of a model do to a text.

    Without a selection: the pattern of every head, and the heads worth a closer look on this text. With -l: the heads
    of that layer, each as a small map. With -H: that head as a large map, with its numbers; or several (3.1,1.8). With
    --terms: its scores, split into content and position. -o and --json save or print what is shown.

    \b
    Examples:
      attncli run "The trophy does not fit in the suitcase because it is too big."
      attncli run -l 3 -H 1 "The cat sat on the mat."
      attncli run -o maps.safetensors "The cat sat on the mat."
      attncli run -m smollm2 --lens "The capital of France is"
      echo "A text from a pipe." | attncli run --json -l 0 -H 0
    """
    layer, head, saved, unit = given.get("layer"), given.get("head"), given.get("saved"), given.get("unit")
    if lens:
        why = "with --lens, which shows no maps"
        no_effect(why, head=head, words=words, terms=terms, vectors=vectors, tokens=tokens, kinds=kinds, top_k=top_k)
        no_effect(why, measure=given.get("measure"), target=given.get("target"), unit=unit)
        from attncli.features.lens import lens_of

        return lens_of(record_source(model, text, mask, stdin=True, **given), layer, query)
    if vectors is not None and (words or unit not in (None, "token")):
        merging = "--words" if words else "--unit"
        raise RequestError(f"--vectors saves q and k of tokens, not of words: omit --vectors or {merging}")
    if terms:
        why = "with --terms, which shows the scores of tokens"
        no_effect(why, words=words, unit=unit, measure=given.get("measure"), tokens=tokens, query=query)
    opened = saved is None and not isinstance(model, AttentionRecord)
    if not opened:
        no_effect("on a saved record", vectors=vectors)
    if terms and head is None and opened:
        raise RequestError("--terms needs one head: choose it with -l and -H")
    layers = "-1" if (head is not None or terms) and opened else "all"  # a head without -l is in the last layer
    more = {"vectors": "all" if terms else vectors, "predict": True}
    grouping = Grouping(tokens, "word" if words else "token", queries=query)
    source = record_source(model, text, mask, layers, grouping, stdin=True, more=more, **given)
    overview = layer is None and head is None
    known = None
    if kinds is not None:
        from attncli.analysis.kinds import load_kinds

        known = load_kinds(kinds)
    return TextMaps(source, overview, head is not None, terms, words, top_k, given.get("file"), known)


# --- the result -----------------------------------------------------------------------------------------


class _FindingEntry(TypedDict):
    """The word-to-word edges at least 0.3 above their usual weight, in the layers of `records`.

    The head with the edge farthest above comes first. Missing with `-H` or `--terms`. With `--query` only its rows are
    compared.
    """

    text: Annotated[int, "number of the record, from 0"]
    layer: int
    head: int
    query: Annotated[int, "position of the token that attends, in `tokens`"]
    query_token: str
    key: Annotated[int, "position of the token that is attended to, in `key_tokens` or else `tokens`"]
    key_token: str
    weight: float
    usual: Annotated[
        float,
        "the larger of the head's mean at that distance in this text and sample texts, and the mean that other words "
        "give that key",
        "weight",
    ]


class RunDocument(TypedDict):
    """`.csv`: a row per cell: `text,layer,head,query,key,query_token,key_token,weight,hidden`. `text` is the number of
    the record. `hidden` is 1 if the layer's mask hides the key, so that its weight is 0. With
    `--lens` a row per layer and token: `layer,token,shown,probability`.
    """

    model: ModelDocument
    records: Annotated[
        list[RecordDocument], "one per text, in order; for an encoder-decoder the attention of `--which`"
    ]
    findings: NotRequired[list[_FindingEntry]]
    lens: NotRequired[LensDocument]


@dataclass(frozen=True, repr=False)
class TextMaps(Result):
    """The maps of texts. They are computed on demand, text by text: all heads of 512 tokens take hundreds of megabytes.

    overview: whether no layers and heads were chosen. of_heads: whether heads were. terms: whether to show the scores
    of the head. words: whether tokens are merged. top_k: the number of strongest keys to name. file: the file of the
    texts. kinds: the kinds of heads, to label them.
    """

    source: SavedRecords | Texts
    overview: bool
    of_heads: bool
    terms: bool
    words: bool
    top_k: int | None
    file: str | None = None
    kinds: KnownKinds | None = None

    def __repr__(self) -> str:
        return f"<TextMaps of {len(self.source)} text{'s' if len(self.source) > 1 else ''}>"

    @cached_property
    def _usual(self) -> "Usual | None":
        return self.source.usual(self.words)

    def records(self, together: bool = False, in_stretches: bool = False) -> Iterator[AttentionRecord]:
        """Compute the record of each text.

        together: whether the caller keeps all of them. in_stretches: whether to group long texts into stretches.
        """
        for record in self.source.records(together=together, stretches=in_stretches):
            notify_about(record)
            if self.kinds is not None:
                from attncli.analysis.kinds import with_kinds

                record = with_kinds(record, self.kinds)
            if self.terms:
                from attncli.record.display import with_terms

                record = with_terms(record)
            yield record

    def document(self) -> RunDocument:
        """Return what --json prints."""
        found: RunDocument = json.loads("".join(self._text()))
        return found

    def _text(self) -> Iterator[str]:
        """Yield what --json prints, map by map."""
        if self.of_heads or self.terms:
            yield from document_text(self.records(), self.terms)
            return
        findings: list[_FindingEntry] = []
        yield from document_text(self._searched(self.records(), findings), findings=findings)

    def _searched(self, records: Iterable[AttentionRecord], findings: list[_FindingEntry]) -> Iterator[AttentionRecord]:
        """Yield records, and add the strong edges of each to `findings`."""
        from attncli.analysis.patterns import row_shares

        for number, record in enumerate(records):
            shares = row_shares(record)
            for edge in (edge for edges in self._strong_edges(shares)[0] for edge in edges):
                findings.append(
                    {
                        "text": number,
                        "layer": edge.layer,
                        "head": edge.head,
                        "query": edge.query,
                        "query_token": shares.tokens.text[edge.query],
                        "key": edge.key,
                        "key_token": shares.keys.text[edge.key],
                        "weight": edge.weight,
                        "usual": edge.usual,
                    }
                )
            yield record

    def _strong_edges(self, record: AttentionRecord) -> "tuple[Sequence[Sequence[Edge]], Usual]":
        """Return the strong edges of every head that has any, and the texts of their usual weights."""
        from attncli.analysis.edges import Usual, edges
        from attncli.record.display import in_stretches

        over = Usual.with_text(record, None if in_stretches(record) else self._usual)
        return edges(record, over), over

    def report(self) -> Report:
        """Report all texts, for a document or a file; `reports` shows them.

        Saved records hold the usual weights of their heads, if the format can hold them and texts are not in stretches.
        The next command reads the file, if it can be read again.
        """
        return Report(
            [],
            [],
            self.document,
            pieces=self._text,
            files=dict.fromkeys(SUFFIXES, self._save),
            records=lambda: self.records(together=True),
            after_saving=lambda path: NextCommand("run", {"saved": path}, alone=True) if path.suffix in READ else None,
        )

    def _save(self, path: Path) -> None:
        """Save the records by suffix. Raises RequestError as `save_records` does."""
        from attncli.analysis.edges import with_usual
        from attncli.record.display import in_stretches

        if self.terms:
            raise RequestError("-o has no effect with --terms: use run --vectors L.H -o maps.safetensors")
        check_record_count(path, len(self.source))
        findings: list[_FindingEntry] | None = None
        records = self.records(together=True)
        if path.suffix.lower() == ".json" and not self.of_heads:
            records = self._searched(records, findings := [])
        every = list(counted(records, len(self.source), "texts"))
        if path.suffix.lower() in LOADED and not any(map(in_stretches, every)):
            every = [with_usual(record, self._usual) for record in every]
        save_records(every, path, findings)
        texts = f"{len(every)} texts, " if len(every) > 1 else ""
        notify(f"{path} has {texts}{every[0].choice}")

    def reports(self) -> Iterator[Report]:
        """Report text by text, as they are computed."""
        from attncli.analysis.patterns import row_shares
        from attncli.record.display import describe_prediction, is_long, title_of_record

        count, top_k = len(self.source), NAMED if self.top_k is None else self.top_k
        if count > 1 and isinstance(self.source, Texts):
            notify(f"{self.file or 'stdin'} has {count} lines, which are separate texts; --whole makes them one text")
        for record in self.records(in_stretches=not self.terms and not self.source.has_rows):
            prediction = [TextLine(line, "strong") for line in describe_prediction(record)]
            layers, heads = record.layers, record.heads
            one = len(layers) == len(heads) == 1
            of_head = f"layer {layers[0]} head {heads[0]}"
            following = None
            part: Part
            if self.terms:
                yield Report(title_of_record(record, of_head), [*prediction, *_terms(record)], dict)
                continue
            if self.overview or (len(layers) > 1 and not self.of_heads):
                no_effect("without a layer, because no keys are named: give one layer (-l)", top_k=self.top_k)
                no_effect("without a layer, because no head is described: give a layer (-l)", kinds=self.kinds)
                record = row_shares(record)
                found, over = self._strong_edges(record)
                shared = "" if record.model.key_heads is None else f" over {record.model.key_heads} key heads"
                every = f"{len(layers)} layers x {len(heads)} heads" if record.pairs is None else str(record.choice)
                title = title_of_record(record, f"{every}{shared}")
                part = Overview(record, title, found, over)
            elif one:
                if count == 1 and not self.source.has_rows:
                    look = {"style": "lines", "layer": layers[0], "head": heads[0]}
                    following = NextCommand("heatmap", look)
                    if is_long(record):
                        following = NextCommand("run", {"unit": "sentence"})
                record = row_shares(record)
                title = title_of_record(record, of_head)
                part = HeadMap(record, title, top_k)
            else:
                if count == 1 and len(heads) > 1:
                    from attncli.analysis.edges import by_content

                    telling = next(pair for pair in by_content(record) if pair[0] == layers[0])
                    following = NextCommand("run", dict(zip(("layer", "head"), telling, strict=True)))
                shown = f"layer{'s' if len(layers) > 1 else ''} {number_list(layers)}"
                record = row_shares(record)
                title = title_of_record(record, shown if record.pairs is None else str(record.choice))
                part = SmallMaps(record, title, top_k)
            yield Report(title, [*prediction, part], dict, next=following)


def _terms(record: AttentionRecord) -> list[Part]:
    """Return the score of one head and its terms, each as a signed map."""
    from attncli.record.display import SCORE, score_terms

    parts = {printable(name): values for name, values in score_terms(record).items()}
    tokens, keys = record.tokens, record.keys
    maps = Maps(
        [[Panel(name, values)] for name, values in parts.items()],
        MapAxis("queries", tokens.shown, range(len(tokens)), tokens.special),
        MapAxis("keys", keys.shown, range(len(keys)), keys.special),
        scale=SCORE,
        signed=True,
        apart=True,
    )
    equation = TextLine(f"{SCORE} = {' + '.join(name for name in parts if name != SCORE)}", caption=True)
    return [equation, maps]
