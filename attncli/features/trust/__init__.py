"""Test whether attention explains one output of one text.

Weights are replaced by permuted and uniform ones, with the same tokens in random order as a control (`weights`). Tokens
are ranked by maps and by gradients (`rankings`). Rankings are scored by the change of the output when their first
tokens are deleted, and compared with random rankings (`erasing`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, TypedDict

import numpy as np

from attncli.analysis.significance import LEVEL
from attncli.base.arrays import Brief, Doubles, titled
from attncli.base.errors import RequestError
from attncli.base.files import DOCUMENTS, PICTURES
from attncli.base.printable import visible
from attncli.base.progress import progress
from attncli.base.typed import NotRequired
from attncli.effects.asking import Asking, MeasuredOutput, OutputDocument
from attncli.features import options
from attncli.features.inputs import AskedRun
from attncli.features.measure import measure
from attncli.features.options import MODEL, option
from attncli.models.parts import self_attention_part
from attncli.record import ModelInfo
from attncli.record.display import DIVIDED, model_name, token_count
from attncli.record.parts import ModelDocument
from attncli.record.selection import numbered_names
from attncli.report import Column, MapAxis, Maps, NextCommand, Panel, Part, Report, Result, Table, TextLine
from attncli.report.parts import signed, three_digits
from attncli.text.tokens import Tokens, word_groups, word_texts, word_tokens

if TYPE_CHECKING:
    from attncli.base.typed import Unpack
    from attncli.effects.question import Question


LEAST_TOKENS = 2  # tokens that a ranking needs


@measure(options.OwnAskedOptions, saves=(*PICTURES, *DOCUMENTS), saved_as="a measurement")
def trust(
    model: options.ModelOption = None,
    text: options.Text = None,
    *,
    file: options.File = None,
    whole: options.Whole = False,
    permutations: Annotated[
        int,
        option(MODEL, "--permutations", metavar="N", min=1, help="Permutations of the weights.", not_saved=PICTURES),
    ] = 100,
    rankings: Annotated[
        int,
        option(MODEL, "--rankings", metavar="N", min=120, help="Random rankings as a control.", not_saved=PICTURES),
    ] = 200,
    seed: Annotated[
        int,
        option(MODEL, "--seed", rare=True, metavar="N", min=0, help="The seed of all draws.", not_saved=PICTURES),
    ] = 0,
    **asked: "Unpack[options.OwnAskedOptions]",
) -> "TrustResult":
    """Test whether attention explains an output.

    Deletes each word and, as a control, as many other tokens. Replaces the weights by permuted ones, by uniform ones
    and, as a control, by permuted ones with the tokens in random order. Ranks tokens by attention, norms, rollout, ALTI
    and gradients, and deletes the top tokens of each ranking and of random rankings. The output is chosen as in ablate,
    with the probability of the likeliest label in place of a divergence. attncli/features/README.md explains the
    numbers.

    \b
    Examples:
      attncli trust "The cat sat on the mat." --similar-to "A cat is sitting on a rug."
      attncli trust -o trust.png "The cat sat on the mat."
    """
    from attncli.effects.question import make_question
    from attncli.features.trust import erasing as erase
    from attncli.features.trust.rankings import draw_rankings, importances, read_places
    from attncli.features.trust.weights import replace_weights
    from attncli.models.engine import require_tapped

    run = AskedRun.of(model, text, file, whole, **asked)
    one, asking = run.one_text(), run.asking
    engine = require_tapped(run.engine, self_attention_part(run.engine, asking.which))
    question = likeliest(make_question(engine, one, asking), asking)
    tokens = question.texts[0].tokens
    erasing = erase.Erasing(question)
    places = erasing.erasable
    if len(places) < LEAST_TOKENS:
        raise RequestError(
            f"a ranking needs {LEAST_TOKENS} tokens that can be deleted, and this text has {len(places)}: give a "
            "longer text"
        )
    words = erase.words(tokens, places)
    found = {name: values[places] for name, values in importances(question).items()}
    ranked = [*found.values(), *draw_rankings(len(places), rankings, seed)]
    orders = list(map(erase.order, ranked))
    with progress(2 * permutations + 3, "steps") as advance:
        weights = OtherWeights(*replace_weights(question, places, permutations, seed, advance))
        changes, controls = erase.leave_word_out(erasing, words, seed)
        advance()
        scores = dict(zip(MEASURES, erase.aopc(erasing, orders), strict=True))
        advance()
    return TrustResult(
        asking=asking,
        model=engine.info,
        answer=question.answer,
        tokens=tokens,
        read=read_places(question),
        erasable=places,
        words=words,
        sizes=erase.sizes(len(places)),
        weights=weights,
        importances=found,
        alone=erase.leave_one_out(erasing),
        word_changes=changes,
        word_controls=controls,
        most_erased=max(map(abs, erasing.known.values())),
        scores=scores,
        sinks=engine.has_sinks,
    )


def likeliest(question: "Question", asking: Asking) -> "Question":
    """Measure the probability of the predicted label, if a text has one prediction and `asking` names no kind."""
    from attncli.effects.question import Divergence, LabelQuestion
    from attncli.models.output import SIGMOID

    if asking.ask is not None or not isinstance(question, Divergence) or question.output.kind == "span":
        return question
    if question.places is not None and len(question.places) != 1:
        return question
    likely = question.before[..., 0] if question.output.function == SIGMOID else question.before
    place = None if question.places is None else question.places[0]
    return LabelQuestion(question.texts[0], question.output, "probability", int(likely.argmax()), place)


# --- results --------------------------------------------------------------------------------------------

HARDLY = 0.01  # share of the change from deleting tokens; weights that change less hardly matter
NOTHING = 1e-6  # change of a number that rounding explains
MEASURES = ("comprehensiveness", "sufficiency")


class _SizesEntry(TypedDict):
    median: Annotated[float, "", "in that unit"]
    interval: Annotated[list[float], "the range that holds 95% of the sizes", "`[2]`"]


class _WeightsEntry(TypedDict):
    """The change with other weights in all heads of all layers."""

    permuted: Annotated[_SizesEntry, "the size of the change if the weights of every row are permuted"]
    reordered: Annotated[_SizesEntry, "the control: the same with the tokens in a new random order each time"]
    uniform: Annotated[float, "the output with uniform weights minus the output without", "in that unit"]


class _WordEntry(TypedDict):
    """The words of the text that can be deleted, each with all of its tokens."""

    word: str
    places: Annotated[list[int], "positions of its tokens", "`[piece]`"]
    attention: Annotated[
        float, "the last layer's weight on its tokens, mean over heads and over `read`", "share of the weight"
    ]
    change: Annotated[float, "the change when the word is deleted", "in that unit"]
    others: Annotated[
        float | None, "the control: the mean change when as many other tokens are deleted", "in that unit"
    ]


class _RankingEntry(TypedDict):
    """Rankings of the tokens by methods that are used as explanations of the output."""

    by: Annotated[
        str,
        "attention, norms, rollout, ALTI, gradient x attention (not for a divergence or a distance), gradient x input "
        "(not for a divergence)",
    ]
    as_good: Annotated[
        float,
        "share of the random rankings whose comprehensiveness minus sufficiency is at least as large: (1 + their "
        "number) / (1 + all)",
        "share",
    ]
    beats: Annotated[bool, "true if `as_good` is at most `level`: the ranking then beats random rankings"]
    comprehensiveness: Annotated[
        float, "the mean change when the first tokens are deleted, over `sizes`", "in that unit"
    ]
    sufficiency: Annotated[float, "the same when all other tokens are deleted", "in that unit"]
    importance: Annotated[list[float], "the values that rank the tokens", "`[erasable]`"]


class _RandomEntry(TypedDict):
    """The random rankings."""

    rankings: Annotated[int, "how many were drawn"]
    comprehensiveness: Annotated[float, "their mean", "in that unit"]
    sufficiency: Annotated[float, "their mean", "in that unit"]


class TrustDocument(TypedDict):
    """`.csv`: a row per entry of `rankings`."""

    model: ModelDocument
    output: Annotated[OutputDocument, "for the whole text"]
    sinks: NotRequired[
        Annotated[bool, "true if heads have sinks: each row of the mean over heads is divided by its sum"]
    ]
    tokens: Annotated[list[str], "of the text; for two texts, of the first", "`[token]`"]
    read: Annotated[list[int], "positions of the tokens whose last vectors the output reads", "`[place]`"]
    erased: Annotated[list[int], "positions of the tokens that were ranked and deleted", "`[erasable]`"]
    sizes: Annotated[list[int], "how many tokens were deleted together", "`[size]`"]
    permutations: Annotated[int, "number of permutations of the weights"]
    weights: _WeightsEntry
    words: list[_WordEntry]
    alone: Annotated[list[float], "the change when each token is deleted alone", "`[erasable]`"]
    rankings: list[_RankingEntry]
    random: _RandomEntry
    level: Annotated[
        float, "a ranking with at most this `as_good` beats random: 0.05 divided by the number of rankings", "share"
    ]
    verdict: Annotated[str, "in words, from these numbers"]


@dataclass(frozen=True, repr=False)
class OtherWeights(Brief):
    """Effects of other weights in all heads of all layers.

    permuted: `[permutation]`. reordered: the control, the same with the tokens in a new random order each time.
    uniform: the effect of equal weights.
    """

    permuted: Doubles
    reordered: Doubles
    uniform: float

    def document(self) -> _WeightsEntry:
        """Return the entry of a document: sizes of changes, and the change by uniform weights."""
        ends = [LEVEL / 2, 1 - LEVEL / 2]
        permuted, reordered = (
            _SizesEntry(median=float(np.median(sizes)), interval=np.quantile(sizes, ends).tolist())
            for sizes in map(np.abs, (self.permuted, self.reordered))
        )
        return {"permuted": permuted, "reordered": reordered, "uniform": self.uniform}


@dataclass(frozen=True)
class TrustResult(Result):
    """Measurements of how far maps explain one output of one text.

    asking: the request for the output. answer: the output. tokens: of the text; read: positions of the tokens that the
    output reads; erasable: positions of the tokens that were ranked and deleted, `[token]` below; words: positions of
    the tokens of each word; sizes: numbers of tokens that were deleted together.
    alone: the change from deleting each token alone, `[token]`; word_changes: from deleting each word, word_controls:
    from deleting as many other tokens, `[word]`. most_erased: the largest change from deleting tokens.
    importances: by method, `[token]`; the rankings are these in their order, and then random ones, `[ranking]`.
    scores: of the rankings, by MEASURES, `[ranking]`.
    sinks: True if heads have sinks, so rows of maps were divided by their sums.
    """

    asking: Asking
    model: ModelInfo
    answer: MeasuredOutput
    tokens: Tokens
    read: Sequence[int]
    erasable: Sequence[int]
    words: Sequence[list[int]]
    sizes: Sequence[int]
    weights: OtherWeights
    importances: Mapping[str, Doubles]
    alone: Doubles
    word_changes: Doubles
    word_controls: Doubles
    most_erased: float
    scores: Mapping[str, Doubles]
    sinks: bool = False

    def __repr__(self) -> str:
        rankings = f"{len(self.importances)} rankings of {len(self.erasable)} tokens"
        return titled(self, self.model.full_name, rankings, str(self.answer))

    @property
    def gaps(self) -> Doubles:
        """Comprehensiveness minus sufficiency, `[ranking]`.

        It is large if the output depends on the first tokens of the ranking.
        """
        comprehensiveness, sufficiency = (self.scores[name] for name in MEASURES)
        return comprehensiveness - sufficiency

    @property
    def random(self) -> int:
        """The number of random rankings."""
        return len(self.gaps) - len(self.importances)

    @property
    def as_good(self) -> Doubles:
        """The share of random rankings with at least this gap, up to rounding, `[method]`: (1 + hits) / (1 + all).

        It is a p-value: a random ranking gets at most p with a probability of at most p.
        """
        count, gaps = len(self.importances), self.gaps
        hits = (gaps[count:] >= gaps[:count, None] - self.rounding).sum(axis=1)
        return (1 + hits) / (1 + self.random)

    def percent(self, share: float) -> str:
        """Return an `as_good` in %; "at most ..." for the smallest that this number of random rankings can give."""
        return f"at most {_percent(share)}" if share <= 1 / (1 + self.random) else _percent(share)

    @property
    def rounding(self) -> float:
        """The difference up to which changes of the output count as equal."""
        return NOTHING * max(1.0, abs(self.answer.value))

    @property
    def level(self) -> float:
        """The share below which a ranking beats random ones: 5% over all rankings of the table (Bonferroni)."""
        return LEVEL / len(self.importances)

    @property
    def better(self) -> list[str]:
        """The methods that beat random rankings."""
        return [name for name, share in zip(self.importances, self.as_good, strict=True) if share <= self.level]

    @property
    def chains(self) -> int:
        """The maximum number of distinct scores of rankings: one per chain of nested sets of first tokens."""
        kept = pairwise([0, *self.sizes])
        return math.prod(math.comb(len(self.erasable) - fewer, more - fewer) for fewer, more in kept)

    def word_entries(self) -> list[_WordEntry]:
        """Return the entries of a document for the words."""
        attention = dict(zip(self.erasable, self.importances["attention"].tolist(), strict=True))
        columns = (word_texts(self.tokens, self.words), self.words, self.word_changes, self.word_controls)
        return [
            {
                "word": name,
                "places": list(places),
                "attention": sum(attention[place] for place in places),
                "change": float(change),
                "others": None if math.isnan(other) else float(other),
            }
            for name, places, change, other in zip(*columns, strict=True)
        ]

    def document(self) -> TrustDocument:
        """Return what --json prints."""
        comprehensiveness, sufficiency = (self.scores[name] for name in MEASURES)
        rankings: list[_RankingEntry] = [
            {
                "by": name,
                "as_good": float(self.as_good[place]),
                "beats": name in self.better,
                "comprehensiveness": float(comprehensiveness[place]),
                "sufficiency": float(sufficiency[place]),
                "importance": importance.tolist(),
            }
            for place, (name, importance) in enumerate(self.importances.items())
        ]
        drawn = slice(len(rankings), None)
        document: TrustDocument = {
            "model": self.model.document(),
            "output": self.answer.document(),
            "tokens": self.tokens.text,
            "read": list(self.read),
            "erased": list(self.erasable),
            "sizes": list(self.sizes),
            "permutations": len(self.weights.permuted),
            "weights": self.weights.document(),
            "words": self.word_entries(),
            "alone": self.alone.tolist(),
            "rankings": rankings,
            "random": {
                "rankings": self.random,
                "comprehensiveness": float(comprehensiveness[drawn].mean()),
                "sufficiency": float(sufficiency[drawn].mean()),
            },
            "level": self.level,
            "verdict": verdict(self),
        }
        if self.sinks:
            document["sinks"] = True
        return document

    def report(self) -> Report:
        """Show words, a row per ranking, and the verdict with other weights; a picture has the rankings."""
        document = self.document()
        name, mask = model_name(self.model.full_name), f"mask {self.answer.mask}"
        asked = {name: getattr(self.asking, name) for name in ("similar_to", "ask", "target", "at", "task")}
        rows = {name.replace("gradient", "grad"): row for name, row in self.importances.items()}
        rows["deleted alone"] = np.abs(self.alone)
        tokens = [self.tokens.shown[place] for place in self.erasable]
        # Ranks are comparable between methods.
        behind = [np.less.outer(row, row).sum(axis=0) / (len(tokens) - 1) for row in rows.values()]
        ranks = Maps(
            [[Panel("", np.array(behind, np.float32))]],
            MapAxis("tokens by", list(rows)),
            MapAxis("token", tokens),
            scale="share of the other tokens ranked behind",
            most=1.0,
        )
        return Report(
            [name, str(self.answer), mask, token_count(self.tokens)],
            [
                *_words_parts(self),
                *_rankings_parts(self, document),
                TextLine(""),
                TextLine(document["verdict"], "strong"),
            ],
            lambda: document,
            itemgetter("rankings"),
            picture=[*([TextLine(DIVIDED, caption=True)] if self.sinks else []), ranks],
            next=NextCommand("ablate", asked),
        )


def verdict(found: TrustResult) -> str:
    """Return the verdict on this output of this text, in sentences."""
    kind, permuted, reordered = found.answer.kind, *map(np.abs, (found.weights.permuted, found.weights.reordered))
    uniform = abs(found.weights.uniform)
    by_weights = max(float(permuted.max()), uniform)
    if max(found.most_erased, by_weights) <= found.rounding:
        return f"Neither other weights nor deleted tokens change this {kind}: there is nothing to explain."
    interval = found.weights.document()["permuted"]["interval"]
    changes = (float(np.median(permuted)), *interval, float(np.median(reordered)), uniform, found.most_erased)
    sizes = ["0" if change < NOTHING else three_digits(change) for change in changes]
    sentences = [
        "Permuting all weights changes this {} by {} (median of {} draws; 95% are from {} to {}), and by {} with the "
        "tokens in random order too.".format(kind, sizes[0], len(permuted), *sizes[1:4]),
        "Uniform weights change it by {}. Of all deletions of tokens, the most effective one changes it by {}.".format(
            *sizes[4:]
        ),
        "The model was not trained with permuted or uniform weights.",
    ]
    if by_weights <= HARDLY * found.most_erased:
        sentences.append("Attention's weights hardly matter to this output.")
    shares, better = dict(zip(found.importances, found.as_good, strict=True)), found.better
    if found.chains <= round(1 / found.level):  # otherwise random rankings include the best order too often
        sentences.append(f"{len(found.erasable)} tokens are too few to tell a ranking from a random one.")
        return " ".join(sentences)
    named = {name: f"{name} ({found.percent(share)})" for name, share in shares.items()}
    rest = [name for name in shares if name not in better]
    if better:
        sentences.append(f"Rankings by {_join_names([named[name] for name in better])} beat random rankings.")
        sentences += [f"Rankings by {_join_names(rest)} do not."] if rest else []
    else:
        sentences.append(f"No ranking beats random rankings. The best is {named[min(shares, key=shares.__getitem__)]}.")
    return " ".join(sentences)


def _percent(share: float) -> str:
    """Return a share in %, and never 0.0% unless it is 0."""
    return f"{share:.1%}" if share >= 0.001 or share == 0 else f"{100 * share:.1g}%"


def _join_names(names: Sequence[str]) -> str:
    """ "a, b and c" """
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


# --- what is shown --------------------------------------------------------------------------------------

NAMED = 3  # tokens that a ranking puts first
LISTED = 10  # words in the terminal
CHANGE = {
    "divergence": "change of the prediction from the remaining tokens, in nats; 0 is no change",
    "distance": "distance that the last vectors of the remaining tokens move, as a share of their lengths",
}


def _words_parts(found: TrustResult) -> list[Part]:
    """Return a row per word, the largest change first, and an explanation of the columns."""
    groups, names = word_groups(found.tokens), numbered_names(word_tokens(found.tokens))
    name_at = {place: name for group, name in zip(groups, names, strict=True) for place in group}
    rows = []
    for one in sorted(found.word_entries(), key=lambda one: -abs(one["change"]))[:LISTED]:
        others = "" if one["others"] is None else signed(one["others"])
        rows.append([name_at[one["places"][0]], f"{one['attention']:.3f}", signed(one["change"]), others])
    kind, more = found.answer.kind, len(found.words) - LISTED
    change = f"{kind} of the full text minus {kind} without the word; above 0 if the word raises it"
    notes = [
        *([f"and {more} more word{'s' if more > 1 else ''} (--json has all)"] if more > 0 else []),
        f"deleted: the change if the word is deleted: {CHANGE.get(kind, change)}",
        "others: the mean change if as many other tokens are deleted. attention: the last layer's weight on the "
        "word, mean over heads and over the tokens that the output reads",
        *([DIVIDED] if found.sinks else []),
    ]
    columns = [Column("word", "name"), *map(Column, ("attention", "deleted", "others"))]
    return [Table(columns, rows), *map(TextLine, notes)]


def _rankings_parts(found: TrustResult, document: TrustDocument) -> list[Part]:
    """Return a row per method, above the mean of random rankings, and an explanation of the columns."""
    columns = [
        *map(Column, ("tokens by", "first deleted", "rest deleted", "random as good")),
        Column("first tokens", "name", drop=1),
    ]
    rows: list[list[str] | None] = []
    for entry in document["rankings"]:
        first = sorted(range(len(found.erasable)), key=lambda place: -entry["importance"][place])[:NAMED]
        tokens = " ".join(visible(found.tokens.shown[found.erasable[place]]) for place in first)
        scores = map(three_digits, (entry["comprehensiveness"], entry["sufficiency"]))
        rows.append([entry["by"], *scores, found.percent(entry["as_good"]), tokens])
    drawn = document["random"]
    scores = map(three_digits, (drawn["comprehensiveness"], drawn["sufficiency"]))
    rows += [None, ["random, mean", *scores, "", ""]]
    counts = ", ".join(map(str, found.sizes))
    notes = [
        f"first deleted: the mean change when the first {counts} of {len(found.erasable)} tokens are deleted; higher "
        "is better. rest deleted: the mean change when all other tokens are deleted; lower is better.",
        f"random as good: the share of {found.random} random rankings in which first deleted minus rest deleted is at "
        f"least as large. A ranking with at most {found.level:.1%} beats them (5% divided by the number of rankings).",
    ]
    least = 1 / (1 + found.random)
    if found.as_good.min() <= least:
        notes.append(
            f"at most {_percent(least)}: none of the random rankings is as good. {found.random} of them can give no "
            "smaller share; more (--rankings) would tell."
        )
    return [Table(columns, rows), *map(TextLine, notes)]
