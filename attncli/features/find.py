"""Find the heads that look from one token to another.

Shows each head's strongest weight from QUERY to KEY, in one text or as the mean over many, and its usual weight
(`attncli.analysis.edges`), because a head that always looks at the previous token is strong everywhere. `--by` orders
heads by the weight, by how far it is above the usual one, by what they add to a logit (`attncli.effects.logits`), or by
a statistic of `stats`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, TypedDict

from attncli.analysis.edges import ANY, SINK, Edge, Rank, Usual, places, ranking, strongest_edges
from attncli.analysis.patterns import SPREAD, row_shares
from attncli.base import choices
from attncli.base.arrays import titled
from attncli.base.errors import RequestError
from attncli.base.files import DOCUMENTS
from attncli.base.printable import quoted, visible
from attncli.base.progress import counted
from attncli.base.typed import NotRequired
from attncli.effects.asking import OutputDocument
from attncli.features import options
from attncli.features.inputs import SavedRecords, notify_about, notify_sinks, record_source
from attncli.features.measure import measure, no_effect
from attncli.features.options import SELECTION, argument, option
from attncli.record import AttentionRecord
from attncli.record.display import model_shown
from attncli.record.grouping import merge_words
from attncli.record.parts import ModelDocument, PlaceDocument
from attncli.record.selection import Heads, Request, Selection, select_pieces, select_token
from attncli.report import Column, NextCommand, Part, Report, Result, Table, TextLine

if TYPE_CHECKING:
    from attncli.base.typed import Unpack
    from attncli.corpus.statistics import Statistics
    from attncli.features.logit_heads import LogitHeads

FIGURES = choices.names(choices.Figure)
LISTED = 10  # heads in the terminal


@measure(options.RecordOptions, saves=DOCUMENTS, saved_as="the list of heads")
def find(
    model: options.ModelOrSaved = None,
    query: Annotated[str | None, argument("QUERY", "The token or word that looks; * is any.")] = None,
    key: Annotated[str | None, argument("KEY", "The token or word that is looked at; * is any.")] = None,
    text: options.Text = None,
    *,
    by: Annotated[
        choices.By,
        option(
            SELECTION,
            "--by",
            metavar="NAME",
            help='weight or content (weight above usual); without QUERY and KEY: logit or a statistic of "stats".',
        ),
    ] = "weight",
    at: Annotated[
        str | None,
        option(
            SELECTION,
            "--at",
            rare=True,
            metavar="TOKEN",
            help="With --by logit: predict after this token, or in place of [MASK].",
            show_default="the last one, or [MASK]",
        ),
    ] = None,
    top: Annotated[int, options.top("List the first N heads.")] = LISTED,
    mask: options.MaskOption = None,
    **given: "Unpack[options.RecordOptions]",
) -> "FoundHeads | LogitHeads":
    """Find the heads that look from one token to another.

    Lists each head's largest weight from QUERY to KEY, and its usual weight. --by logit: what each head adds to the
    next token's logit, and the effect of silencing it.

    \b
    Examples:
      attncli find it trophy
      attncli find --by content "Anna gave me her book, which I liked."
      attncli find -m smollm2 --by logit "The capital of France is"
    """
    if key is None and text is None:  # a single argument is the text
        query, text = None, query
    if by in FIGURES or by == "logit":
        no_effect(f"with --by {by}, which ranks whole heads", key=key)
    elif by == "weight" and key is None:
        raise RequestError(
            'find needs QUERY and KEY, as in attncli find it trophy "TEXT"; or choose another ranking with --by'
        )
    if by in FIGURES:
        no_effect(
            f"with --by {by}, which is counted over tokens",
            **{name: given.get(name) for name in ("unit", "part", "chat")},
        )
    source = record_source(model, text, mask, **given)
    if by == "logit":
        from attncli.features.logit_heads import logit_heads

        no_effect("with --by logit, which works on tokens", unit=given.get("unit"))
        return logit_heads(source, text, at, top)
    no_effect("without --by logit", at=at)
    if by not in FIGURES:
        records = counted(map(notify_about, source.records()), len(source), "texts")
        document = find_edges(records, source.usual, query or ANY, key or ANY, by == "content")
        return FoundHeads(document, text, top)
    if isinstance(source, SavedRecords):
        from attncli.corpus.statistics import record_statistics

        statistics = record_statistics(source.loaded)
    else:
        from attncli.corpus.reducer import corpus_statistics

        why = f"with --by {by}, which is counted over texts as in stats"
        no_effect(why, **{name: given.get(name) for name in ("pair", "pad_to", "which", "target")})
        measured = source.request.measure
        notify_sinks(source.engine, None, measured)
        statistics = corpus_statistics(source.engine, (one.text for one in source.inputs), mask, measure=measured)
    layer, head = given.get("layer"), given.get("head")
    document = _by_figure(statistics, by, "all" if layer is None else layer, "all" if head is None else head)
    return FoundHeads(document, text, top)


# --- what is computed -----------------------------------------------------------------------------------


def find_edges(
    records: Iterable[AttentionRecord],
    usual: Callable[[bool], Usual | None],
    query: str = ANY,
    key: str = ANY,
    content: bool = False,
) -> "FindDocument":
    """Rank the heads of a model by their weights from one token to another, over texts, as a document.

    query, key: names as `select_token` takes them, or ANY. content: only edges between two different words count.
    usual: returns the usual weights over other texts, between tokens or (True) between words, or None.

    Raises RequestError if no text has both tokens.
    """
    over: dict[bool, Usual | None] = {}
    found: list[list[tuple[Edge, bool]]] = []
    count, last = 0, None
    for record in map(row_shares, records):
        count += 1
        words = not _has_both(record, query, key)  # a name may be a word of several tokens
        one = merge_words(record) if words else record
        if words and not _has_both(one, query, key):
            last = last or record
            continue
        if words not in over:
            over[words] = usual(words)
            for name, tokens in ((query, record.tokens), (key, record.keys)):
                if words and name != ANY:
                    select_pieces(name, tokens)  # names them in a Notice
        found.append(strongest_edges(one, Usual.with_text(one, over[words]), query, key, content))
        last = one
    if last is None:
        raise RequestError("there is no text to search: give TEXT or -f FILE")
    if not any(found):
        raise RequestError(_why_no_head(last, query, key, count))
    document: FindDocument = {
        "model": last.model.document(),
        "from": query,
        "to": key,
        "by": "content" if content else "weight",
        "mask": last.mask_name,
        "measure": last.measure,
        "texts": len(found),
        "of": count,
        "heads": [_head_entry(rank, last if count == 1 else None) for rank in ranking(found, content)],
    }
    if count == 1:
        document["tokens"] = last.tokens.text
    return document


def _has_both(record: AttentionRecord, query: str, key: str) -> bool:
    return bool(places(query, record.tokens) and places(key, record.keys))


def _head_entry(rank: Rank, record: AttentionRecord | None) -> "_HeadEntry":
    """Return a head's entry in a document; for one text, with the tokens of its edge."""
    entry: _HeadEntry = {
        "layer": rank.layer,
        "head": rank.head,
        "weight": rank.weight,
        "usual": rank.usual,
        "texts": len(rank.edges),
        "sinks": rank.sinks,
    }
    if record is not None:
        [edge] = rank.edges
        for name, place, tokens in (("query", edge.query, record.tokens), ("key", edge.key, record.keys)):
            entry[name] = {"index": place, "token": tokens.text[place], "shown": tokens.shown[place]}  # type: ignore[literal-required]
    return entry


def _why_no_head(record: AttentionRecord, query: str, key: str, texts: int) -> str:
    """Return why no head was found."""
    if texts > 1:
        return f"none of the {texts} texts has a token {quoted(query)} that the mask allows to look at {quoted(key)}"
    for name, tokens in ((query, record.tokens), (key, record.keys)):
        if not places(name, tokens):
            select_token(name, tokens)  # raises with the names of similar tokens
    return f"the mask {record.mask_name} does not allow {quoted(query)} to look at {quoted(key)} in this text"


def _by_figure(statistics: "Statistics", name: str, layers: Selection, heads: Heads) -> "FindDocument":
    """Order the heads by a statistic, the largest first, as a document.

    Raises RequestError for layers or heads that the model does not have.
    """
    model = statistics.model
    chosen = Request(layers, heads).choose_in(model.layers, model.heads).each
    found = [one for one in statistics.heads if (one.layer, one.head) in chosen]
    return {
        "model": model.document(),
        "by": name,
        "mask": statistics.mask,
        "measure": statistics.measure,
        "texts": statistics.texts,
        "of": statistics.texts,
        "heads": [
            {
                "layer": one.layer,
                "head": one.head,
                "label": one.label,
                "value": one.figures[name],
                "spread": one.spread[name],
            }
            for one in sorted(found, key=lambda one: -one.figures[name])
        ],
    }


# --- the result -----------------------------------------------------------------------------------------

USUAL = (
    "usual: between words, the larger of the head's mean at that distance and the mean that the other words give that "
    "key; otherwise the mean that the other tokens give it"
)
SINKS_ARE = (
    "sinks: special tokens, the first token of a causal model, and keys that get at least "
    f"{SINK} of the other tokens' weight on average"
)


class _HeadEntry(TypedDict):
    """All heads, best first."""

    layer: Annotated[int, "layer number in the model"]
    head: Annotated[int, "head number in its layer"]
    weight: NotRequired[
        Annotated[float, "from QUERY to KEY: the largest per text, mean over texts", "share of the weight"]
    ]
    usual: NotRequired[Annotated[float, "the usual weight there", "share of the weight"]]
    texts: NotRequired[Annotated[int, "number of texts in which the mask allows the edge"]]
    sinks: NotRequired[
        Annotated[
            int,
            "number of texts in which KEY is a sink: a special token, the first token of a causal model, or a key with "
            "a mean weight of at least 0.3 from the other tokens",
        ]
    ]
    query: NotRequired[Annotated[PlaceDocument, "the query's place, if there is one text"]]
    key: NotRequired[Annotated[PlaceDocument, "the key's place, if there is one text"]]
    value: NotRequired[Annotated[float, "the statistic", "as in `stats`"]]
    spread: NotRequired[Annotated[float, "its spread between texts", "as in `stats`"]]
    label: NotRequired[Annotated[str, "as in `stats`, for a statistic"]]
    adds: NotRequired[Annotated[float, "what the head adds to the logit directly", "logit"]]
    effect: NotRequired[Annotated[float, "the logit without the head minus the logit with it", "logit"]]


FindDocument = TypedDict(
    "FindDocument",
    {
        "model": ModelDocument,
        "from": NotRequired[Annotated[str, "QUERY; missing for a logit and a statistic"]],
        "to": NotRequired[Annotated[str, "KEY; missing for a logit and a statistic"]],
        "by": Annotated[str, "weight, content, logit, or a statistic of `stats`"],
        "output": NotRequired[OutputDocument],
        "mask": Annotated[str, choices.one_of(choices.MaskName)],
        "measure": Annotated[str, "weight, or share of norm"],
        "texts": Annotated[int, "number of texts with both tokens; for a statistic all texts"],
        "of": Annotated[int, "number of texts in all"],
        "tokens": NotRequired[Annotated[list[str], "if there is one text", "`[query]`"]],
        "heads": list[_HeadEntry],
    },
)
FindDocument.__doc__ = "`.csv`: a row per entry of `heads`."


@dataclass(frozen=True, repr=False)
class FoundHeads(Result):
    """Heads ordered by their weight from one token to another, or by a statistic.

    found: all of them. text: the text, if it was given. listed: the number of heads that the terminal lists.
    """

    found: FindDocument
    text: str | None = None
    listed: int = LISTED

    def __repr__(self) -> str:
        """<FoundHeads of minilm: 72 heads, by weight>"""
        count = f"{len(self.found['heads'])} heads"
        return titled(self, model_shown(self.found["model"]), count, f"by {self.found['by']}")

    def document(self) -> FindDocument:
        """Return what --json prints."""
        return self.found

    def report(self) -> Report:
        """Show the first heads as a table."""
        found, heads = self.found, self.found["heads"][: self.listed]
        if "from" not in found:
            unit = {"entropy": " (nats)", "distance": " (tokens)"}.get(found["by"], "")
            columns = [Column("head"), Column(found["by"].replace("_", " ") + unit), Column("pattern", "name")]
            rows = [[_name(one), f"{one['value']:.3f}", one["label"].replace("_", " ")] for one in heads]
            parts: list[Part] = [Table(columns, rows)]
            if found["texts"] > 1:
                columns.insert(2, Column("spread"))
                for row, one in zip(rows, heads, strict=True):
                    row.insert(2, f"{one['spread']:.3f}")
                parts.append(TextLine(SPREAD))
            ends = []
        else:
            columns, rows = [Column("head"), Column("weight"), Column("usual")], []
            alone = "query" in heads[0]
            columns += [Column(name, "name") for name in ("query", "key", "sink")] if alone else []
            columns += [] if alone else [Column("texts", drop=1), Column("to a sink")]
            for one in heads:
                if alone:
                    tokens = (f"{place['index']} {visible(place['shown'])}" for place in (one["query"], one["key"]))
                    more = [*tokens, "a sink" if one["sinks"] else ""]
                else:
                    more = [str(one["texts"]), str(one["sinks"] or "")]
                rows.append([_name(one), f"{one['weight']:.3f}", f"{one['usual']:.3f}", *more])
            sinks = [TextLine(SINKS_ARE)] if any(one["sinks"] for one in heads) else []
            parts = [Table(columns, rows), TextLine(USUAL), *sinks]
            ends = [f'"{found["from"]}" to "{found["to"]}"']
        measured = [] if found["measure"] == "weight" else [found["measure"]]
        texts = [] if found["of"] == 1 else [f"{found['texts']} of {found['of']} texts"]
        size = [f"{len(found['tokens'])} tokens"] if "tokens" in found else []
        count = f"{len(heads)} of {len(found['heads'])} heads"
        title = [model_shown(found["model"]), *ends, f"by {found['by']}", *measured, f"mask {found['mask']}"]
        return Report(
            [*title, *texts, *size, count],
            parts,
            self.document,
            itemgetter("heads"),
            next=NextCommand("run", {"layer": heads[0]["layer"], "head": heads[0]["head"], "text": self.text}),
        )


def _name(head: _HeadEntry) -> str:
    return f"{head['layer']}.{head['head']}"
