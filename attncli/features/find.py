"""Find the heads that look from one token to another.

Every head has its strongest weight from QUERY to KEY, in one text or as the mean over many. Beside it stands its usual
weight (`attncli.analysis.edges`), because a head that always looks at the token before is strong everywhere. `--by`
orders heads by that weight, by its distance above the usual one, or by a figure of `stats`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any

from attncli.analysis.edges import ANY, SINK, Edge, Rank, Usual, places, ranking, strongest_edges
from attncli.analysis.patterns import row_shares
from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.files import DOCUMENTS
from attncli.base.printable import quoted, visible
from attncli.base.progress import Progress, counted, silent
from attncli.features import options
from attncli.features.feature import as_function
from attncli.features.inputs import SAVED, RecordFeature, SavedRecords, chosen_layers, notify_about, notify_sinks
from attncli.features.options import SELECTION, argument, option
from attncli.record import AttentionRecord
from attncli.record.display import model_shown
from attncli.record.grouping import merge_words
from attncli.record.selection import Heads, Request, Selection, select_pieces, select_token
from attncli.report import Column, NextCommand, Part, Report, Table, TextLine

if TYPE_CHECKING:
    from attncli.corpus.statistics import Statistics

FIGURES = choices.names(choices.Figure)


@dataclass(eq=False)
class _Ends:
    """The ends of the edge, which stand before the text."""

    query: Annotated[str | None, argument("QUERY", "The token or word that looks; * is any.")] = None
    key: Annotated[str | None, argument("KEY", "The token or word that is looked at; * is any.")] = None


@dataclass(eq=False)
class Find(RecordFeature, _Ends):
    """Find the heads that look from one token to another.

    Lists each head's largest weight from QUERY to KEY, or its mean over several texts (-f). Beside it stands the usual
    weight: the head's mean at that distance, or what other words give that key. The table marks sinks.

    \b
    Examples:
      attncli find it trophy
      attncli find '*' cat "The cat sat on the mat."
      attncli find --by content "Anna gave me her book, which I liked."
      attncli find --by previous -f sample_inputs/negation.txt
    """

    group = "Look"
    saves = DOCUMENTS
    saved_as = "the list of heads"

    by: Annotated[
        choices.By,
        option(
            SELECTION,
            "--by",
            metavar="NAME",
            help="weight, content (above the usual), or without QUERY and KEY a figure of stats.",
        ),
    ] = "weight"
    top: Annotated[int, options.top("List the first N heads.")] = 10
    mask: options.MaskOption = None

    def __post_init__(self) -> None:
        if self.key is None and self.text is None:  # a single argument is the text
            self.text, self.query = self.query, None

    def report(self, progress: Progress = silent) -> Report:
        if self.by in FIGURES:
            self.refuse(f"with --by {self.by}, which is a figure of a head and of no two tokens", "key")
        elif self.by == "weight" and self.key is None:
            raise RequestError(
                'find needs two tokens, as in: attncli find it trophy "TEXT"; or --by content or a figure'
            )
        if self.saved is not None and self.text is not None:
            self.refuse(SAVED, "text", "query")
        source = self.source(self.mask)
        if self.by in FIGURES:
            if isinstance(source, SavedRecords):
                from attncli.corpus.statistics import record_statistics

                statistics = record_statistics(source.loaded)
            else:
                from attncli.corpus.reducer import corpus_statistics

                why = f"with --by {self.by}, which is counted over texts as stats has it"
                self.refuse(why, "pair", "pad_to", "which", "target")
                notify_sinks(source.engine, None, self.measure)
                texts = (one.text for one in source.inputs)
                statistics = corpus_statistics(source.engine, texts, self.mask, measure=self.measure)
            document = _by_figure(statistics, self.by, chosen_layers(self, "all"), self.head or "all")
        else:
            records = counted(map(notify_about, source.records()), len(source), "texts", progress)
            document = find_edges(records, source.usual, self.query or ANY, self.key or ANY, self.by == "content")
        return _report(document, self.text, self.top)


# --- what is computed -----------------------------------------------------------------------------------


def find_edges(
    records: Iterable[AttentionRecord],
    usual: Callable[[bool], Usual | None],
    query: str = ANY,
    key: str = ANY,
    content: bool = False,
) -> dict[str, Any]:
    """Rank the heads of a model by their weights from one token to another, over texts, as a document.

    query, key: names as `select_token` has them, or ANY. content: only edges between two different words count.
    usual: returns the usual weights over other texts, between tokens or (True) between words; None where there are
    none.

    Raises RequestError when no text has both tokens.
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
        raise RequestError("there is no text to look in")
    if not any(found):
        raise RequestError(_why_nowhere(last, query, key, count))
    return {
        "model": last.model.document(),
        "from": query,
        "to": key,
        "by": "content" if content else "weight",
        "mask": last.mask_name,
        "measure": last.measure,
        "texts": len(found),
        "of": count,
        **({"tokens": last.tokens.text} if count == 1 else {}),
        "heads": [_head_entry(rank, last if count == 1 else None) for rank in ranking(found, content)],
    }


def _has_both(record: AttentionRecord, query: str, key: str) -> bool:
    return bool(places(query, record.tokens) and places(key, record.keys))


def _head_entry(rank: Rank, record: AttentionRecord | None) -> dict[str, Any]:
    """Return a head's entry in a document; for one text, with the tokens of its edge."""
    entry: dict[str, Any] = {name: getattr(rank, name) for name in ("layer", "head", "weight", "usual")}
    entry |= {"texts": len(rank.edges), "sinks": rank.sinks}
    if record is not None:
        [edge] = rank.edges
        for name, place, tokens in (("query", edge.query, record.tokens), ("key", edge.key, record.keys)):
            entry[name] = {"index": place, "token": tokens.text[place], "shown": tokens.shown[place]}
    return entry


def _why_nowhere(record: AttentionRecord, query: str, key: str, texts: int) -> str:
    """Return why no head was found."""
    if texts > 1:
        return f"in none of {texts} texts does the mask allow any token {quoted(query)} to look at a {quoted(key)}"
    for name, tokens in ((query, record.tokens), (key, record.keys)):
        if not places(name, tokens):
            select_token(name, tokens)  # raises with the names of similar tokens
    return f"the mask {record.mask_name} does not allow {quoted(query)} to look at {quoted(key)} in this text"


def _by_figure(statistics: "Statistics", name: str, layers: Selection, heads: Heads) -> dict[str, Any]:
    """Order the heads by a figure of statistics, the largest first, as a document.

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


# --- the report -----------------------------------------------------------------------------------------

USUAL = (
    "usual: between words, the larger of the head's mean at that distance and the mean that the other words give that "
    "key; otherwise the mean that the other tokens give it"
)
SINKS_ARE = (
    "sinks: special tokens, the first token of a model that only looks back, and keys that get at least "
    f"{SINK} of the other tokens' weight on average"
)


def _report(document: dict[str, Any], text: str | None, top: int) -> Report:
    """Report the first `top` heads as a table."""
    heads = document["heads"][:top]
    if "from" not in document:
        columns = [Column("head"), Column(document["by"]), Column("spread"), Column("label", "name")]
        rows = [[_name(one), f"{one['value']:.3f}", f"{one['spread']:.3f}", one["label"]] for one in heads]
        parts: list[Part] = [Table(columns, rows)]
    else:
        table = _edges_table(heads)
        sinks = [TextLine(SINKS_ARE)] if any(one["sinks"] for one in heads) else []
        parts = [table, TextLine(USUAL), *sinks]
    ends = [f'"{document["from"]}" to "{document["to"]}"'] if "from" in document else []
    measure = [] if document["measure"] == "weight" else [document["measure"]]
    texts = [] if document["of"] == 1 else [f"{document['texts']} of {document['of']} texts"]
    tokens = [f"{len(document['tokens'])} tokens"] if "tokens" in document else []
    count = f"{len(heads)} of {len(document['heads'])} heads"
    by, mask = f"by {document['by']}", f"mask {document['mask']}"
    return Report(
        [model_shown(document["model"]), *ends, by, *measure, mask, *texts, *tokens, count],
        parts,
        lambda: document,
        itemgetter("heads"),
        next=NextCommand("run", {"layer": heads[0]["layer"], "head": heads[0]["head"], "text": text}),
    )


def _edges_table(heads: Sequence[Mapping[str, Any]]) -> Table:
    """Return the heads of one text with the tokens of their edges; of several, in how many a sink gets the weight."""
    columns = [Column("head"), Column("weight"), Column("usual")]
    alone = "query" in heads[0]
    columns += [Column(name, "name") for name in ("query", "key", "sink")] if alone else []
    columns += [] if alone else [Column("texts", leaves=1), Column("to a sink")]
    rows = []
    for one in heads:
        if alone:
            ends = (f"{one[side]['index']} {visible(one[side]['shown'])}" for side in ("query", "key"))
            more = [*ends, "a sink" if one["sinks"] else ""]
        else:
            more = [str(one["texts"]), str(one["sinks"] or "")]
        rows.append([_name(one), f"{one['weight']:.3f}", f"{one['usual']:.3f}", *more])
    return Table(columns, rows)


def _name(head: Mapping[str, Any]) -> str:
    return f"{head['layer']}.{head['head']}"


find = as_function(Find)


# The fields of its document (`attncli.features.document`).
FIELDS = """
### find

model | model
from | str? | | QUERY; missing for a statistic
to | str? | | KEY; missing for a statistic
by | str | | weight, content, or a statistic of `stats`
mask | MaskName
measure | str | | weight, or share of norm
texts | int | | number of texts with both tokens; for a statistic all texts
of | int | | number of texts in all
tokens | [str]? | `[query]` | if there is one text
heads | [head] | | all heads, best first
heads.weight | float? | share of the weight | from QUERY to KEY: the largest per text, mean over texts
heads.usual | float? | share of the weight | the usual weight there
heads.texts | int? | | number of texts in which the mask allows the edge
heads.sinks | int? | | number of texts in which KEY is a sink: a special token, the first token of a causal model,
    or a key with a mean weight of at least 0.3 from the other tokens
heads.query | place? | | the query's place, if there is one text
heads.key | place? | | the key's place, likewise
heads.value | float? | as in `stats` | the statistic
heads.spread | float? | as in `stats` | its spread between texts
heads.label | str? | | as in `stats`, for a statistic

`.csv`: a row per entry of `heads`.
"""
