"""Describe what every head does in general, over a corpus of any size.

The statistics of a head are means over all tokens (`attncli.corpus.sums`): entropy, distance, and the shares of its
weight on patterns such as the previous token. A head's label is the pattern with the largest share. The corpus is read
in shards (`attncli.corpus`), which other machines can count, and which are kept if a folder is given.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from attncli.analysis.patterns import BROAD, BROAD_BELOW, PATTERNS, SPREAD
from attncli.base import choices
from attncli.base.arrays import titled
from attncli.base.errors import RequestError
from attncli.base.files import DOCUMENTS, PICTURES
from attncli.corpus.statistics import CLEARLY, Statistics, load_statistics, record_statistics
from attncli.corpus.statistics import StatsDocument as StatsDocument
from attncli.corpus.sums import Counting
from attncli.corpus.texts import TextFormat
from attncli.features import corpora, options
from attncli.features.inputs import SAVED, STDIN, check_part, notify_sinks, open_model, stdin_is_piped
from attncli.features.measure import measure, no_effect
from attncli.features.options import OUTPUT, TEXT, argument, choice, option
from attncli.record import AttentionRecord
from attncli.record.display import model_name
from attncli.report import Column, HeadGrid, NextCommand, Panel, Report, Result, Table, TextLine
from attncli.report.atlas import OPEN_ENDED, Atlas

if TYPE_CHECKING:
    from attncli.base.typed import Unpack

NONE = "none"
LEGEND = (
    f"clearest head: it gives the pattern at least {BROAD_BELOW:g} of its weight, more than any other pattern, and "
    f"{CLEARLY} times the uniform share (of a head that attends to all tokens equally). {NONE}: no head does; the "
    "largest share of any head is in brackets. So labelled: the number of heads whose largest share is this one, and "
    f"at least {BROAD_BELOW:g}."
)


class _CountedOptions(TypedDict, total=False):
    mask: options.MaskOption
    measure: options.MeasureOption
    engine: options.EngineOption
    without: options.Without


class StatsOptions(_CountedOptions, corpora.CorpusOptions, total=False):
    """The options of statistics over a corpus: what to compute, the workers, and how the model computes."""


@measure(StatsOptions, saves=(*DOCUMENTS, *PICTURES), saved_as="the result")
def stats(
    model: options.ModelOrSaved = None,
    files: Annotated[
        str | Sequence[str] | None,
        argument("FILES", "Files, folders, globs, URLs; - is stdin.", kind=list[str] | None),
    ] = None,
    *,
    paragraphs: Annotated[
        bool, option(TEXT, "--paragraphs", rare=True, help="Texts are separated by empty lines.")
    ] = False,
    field: corpora.FieldOption = None,
    skip_bad: corpora.SkipBad = False,
    limit: corpora.Limit = None,
    sample: corpora.SampleOption = None,
    stride: Annotated[
        int | None,
        option(
            TEXT,
            "--stride",
            rare=True,
            metavar="N",
            help="Tokens from one window to the next, in texts longer than the model reads.",
            show_default="no overlap",
        ),
    ] = None,
    words: options.Words = False,
    by: Annotated[
        choices.Figure, choice(OUTPUT, choices.Figure, "--by", help="Colour heads by ", not_saved=DOCUMENTS)
    ] = "entropy",
    saved: Annotated[
        Path | None,
        option(TEXT, "--from", metavar="PATH", help="Saved statistics, or a saved record; no model is run."),
    ] = None,
    state: corpora.State = None,
    which: options.OwnWhich = None,
    **given: "Unpack[StatsOptions]",
) -> "StatsResult":
    """Describe every head over a corpus.

    The statistics are entropy, strongest weight, distance, and the weight on the token itself, the previous, next and
    first one, [CLS] (cls), [SEP] (separator), punctuation, and the same word elsewhere (same_word). They are means over
    all tokens; same_word is over tokens that see their word elsewhere. Clark et al. 2019 take means over documents, and
    only . and , as punctuation. A table shows the clearest head of each pattern. Ctrl-C shows the numbers so far.

    \b
    Examples:
      attncli stats sample_inputs/coreference.txt sample_inputs/agreement.txt
      attncli stats --by previous -o atlas.pdf sample_inputs/paragraph.txt
      echo '{"text": "The cat sat."}' | attncli stats --field text --json -
    """
    choices.check("figure", by, choices.Figure)
    reading: dict[str, Any] = {
        "paragraphs": paragraphs,
        "field": field,
        "skip_bad": skip_bad,
        "limit": limit,
        "sample": sample,
    }
    counted: dict[str, Any] = {"files": files, **reading, "stride": stride, "state": state, "which": which, **given}
    if isinstance(model, AttentionRecord):
        no_effect("on a record", saved=saved, **counted)
        return StatsResult(record_statistics([model], words), by, saved=True)
    if saved is not None:
        found = _load(Path(saved))
        no_effect(SAVED, model=model, **counted)
        if isinstance(found, Statistics):
            no_effect(SAVED, words=words)
            return StatsResult(found, by, saved=True)
        return StatsResult(record_statistics(found, words), by, saved=True)
    where = corpora.workplace_of(state, given)
    if not files and not stdin_is_piped():
        raise RequestError("no corpus given: name files with one text per line, or pipe texts in")
    how = {name: counted.get(name) for name in ("device", "dtype", "engine", "without")}
    opened = check_part(open_model(model, **how).in_torch(), which)
    counting = Counting(given.get("mask"), given.get("measure") or "weight", words, which)
    from attncli.corpus.reducer import count_files

    notify_sinks(opened, which, counting.measure)
    names = corpora.file_names(files) or [STDIN]
    with corpora.show_counts() as show:
        statistics = count_files(opened, names, TextFormat(**reading), stride, counting, where, show)
    return StatsResult(statistics, by)


def _load(path: Path) -> "Statistics | Sequence[AttentionRecord]":
    """Load statistics, or records. Raises RequestError if the file holds neither."""
    from attncli.record.loading import load_records

    if path.suffix.lower() != ".json":
        return load_records(path)
    try:
        return load_statistics(path)
    except RequestError as error:
        try:
            return load_records(path)
        except RequestError:
            raise error from None  # it is not a record either


# --- the result -----------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class StatsResult(Result):
    """The statistics of all heads. by: the statistic that colours them. saved: whether they come from a saved file."""

    statistics: Statistics
    by: choices.Figure = "entropy"
    saved: bool = False

    def __repr__(self) -> str:
        return titled(self, self.statistics.model.full_name, *self.statistics.parts)

    def document(self) -> StatsDocument:
        """Return what --json prints."""
        return self.statistics.document()

    def report(self) -> Report:
        """Show all heads coloured by one statistic, and the clearest head of each pattern."""
        statistics, by = self.statistics, self.by
        atlas = Atlas(statistics, by)
        layers, heads = range(statistics.model.layers), range(statistics.model.heads)
        if by == "entropy":
            low, high = statistics.entropy_limit.min(), statistics.entropy_limit.max()
            uniform = f"{high:.2f}" if low == high else f"{low:.2f} to {high:.2f} (depending on the layer's window)"
            caption = f"entropy in nats: 0 attends to one token, {uniform} to all tokens equally"
        elif by == "distance":
            caption = f"distance in tokens: up to {atlas.top:.1f}"
        else:
            caption = f"{by.replace('_', ' ')}, share of the weight: 0 to 1"
        panel = Panel("", statistics.figure(by), caption)
        grid = HeadGrid([panel], layers, heads, by, most=atlas.top, linear=by in OPEN_ENDED)
        strongest = max(statistics.heads, key=lambda head: head.figures["strongest" if by == "entropy" else by])
        other = {"saved": None, "model": statistics.model.name, "mask": statistics.mask} if self.saved else {}
        return Report(
            [model_name(statistics.model.full_name), *statistics.parts],
            [
                grid,
                _clearest_table(statistics),
                TextLine(LEGEND),
                *([TextLine(SPREAD)] if statistics.texts > 1 else []),
            ],
            self.document,
            lambda _: statistics.rows(),
            picture=[atlas],
            partial=statistics.partial and not self.saved,
            next=NextCommand("run", {"layer": strongest.layer, "head": strongest.head, **other}),
        )


def _clearest_table(statistics: Statistics) -> Table:
    """Return, for each pattern, the head that does it most clearly, and how many heads have it as their label."""
    rows, several = [], statistics.texts > 1  # one text has no spread
    for pattern in PATTERNS:
        one, top = statistics.clearest(pattern), max(statistics.heads, key=lambda head: head.figures[pattern])
        uniform = statistics.uniform((one or top).layer, pattern)
        share = (one or top).figures[pattern]
        rows.append(
            [
                pattern.replace("_", " "),
                *((NONE, f"({share:.3f})") if one is None else (one.name, f"{share:.3f}")),
                f"{uniform:.3f}",
                *([] if not several else [""] if one is None else [f"{one.spread[pattern]:.3f}"]),
                "" if one is None else f"{one.figures['entropy']:.2f}",
                str(len(statistics.labelled(pattern))),
            ]
        )
    labelled = statistics.labelled(BROAD)
    broad = max(labelled, key=lambda head: head.figures["entropy"], default=None)
    head, entropy = (NONE, "") if broad is None else (broad.name, f"{broad.figures['entropy']:.2f}")
    rows.append([f"broad (all < {BROAD_BELOW:g})", head, *[""] * (3 if several else 2), entropy, str(len(labelled))])
    columns = [
        Column("pattern", "name"),
        Column("clearest head"),
        Column("share"),
        Column("uniform share", drop=4),
        *([Column("spread", drop=2)] if several else []),
        Column("entropy (nats)", drop=1),
        Column("so labelled", drop=3),
    ]
    return Table(columns, rows)
