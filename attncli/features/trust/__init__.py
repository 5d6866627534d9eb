"""Ask whether attention explains one output of one text.

Other weights are put in, permuted and uniform (`weights`). Tokens are ranked by maps and by gradients (`rankings`).
They are erased, and rankings are scored by the change of the output, compared with random rankings (`erasing`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from attncli.analysis.luck import LEVEL
from attncli.base.arrays import Brief, Doubles, titled
from attncli.base.errors import RequestError
from attncli.base.files import DOCUMENTS, PICTURES
from attncli.base.printable import visible
from attncli.base.progress import Progress, silent
from attncli.effects.asking import Asking, MeasuredOutput, describe_output, merge_asking, takes_fields
from attncli.features import options
from attncli.features.inputs import AskingFeature, check_one, read_inputs
from attncli.features.options import MODEL, option
from attncli.record import ModelInfo
from attncli.record.display import DIVIDED, model_name, token_count
from attncli.record.selection import numbered_names
from attncli.report import Column, MapAxis, Maps, NextCommand, Panel, Part, Report, Table, TextLine
from attncli.report.parts import signed, three_digits
from attncli.text.tokens import Tokens, word_groups, word_texts, word_tokens

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from attncli.effects.asking import AskingFields
    from attncli.effects.question import Question
    from attncli.models.engine import Engine


@dataclass(eq=False)
class Trust(AskingFeature):
    """Test whether attention explains an output.

    Each word is erased, compared with as many other tokens. Weights are replaced by permuted and by uniform ones.
    Tokens are ranked by attention, norms, rollout, ALTI and gradients. The first tokens of each ranking are erased, by
    [MASK] and by deletion, and compared with random rankings. The output is the one that ablate measures; without
    --target, that of the likeliest label. attncli/features/README.md explains the numbers.

    \b
    Examples:
      attncli trust "The cat sat on the mat." --similar-to "A cat is sitting on a rug."
      attncli trust -o trust.png "The cat sat on the mat."
    """

    saves = (*PICTURES, *DOCUMENTS)
    group = "Does it matter"
    saved_as = "a measurement"

    text: options.Text = None
    file: options.File = None
    whole: options.Whole = False
    permutations: Annotated[
        int, option(MODEL, "--permutations", metavar="N", min=1, help="Permutations of the weights.")
    ] = 100
    rankings: Annotated[
        int,
        option(MODEL, "--rankings", metavar="N", min=120, help="Random rankings as a control."),
    ] = 200
    seed: Annotated[int, option(MODEL, "--seed", rare=True, metavar="N", min=0, help="The seed of all draws.")] = 0
    which: options.OwnWhich = None

    def report(self, progress: Progress = silent) -> Report:
        if self.path is not None and self.path.suffix.lower() in PICTURES:
            why = "on a picture, which shows the rankings and nothing that is drawn at random"
            self.refuse(why, "permutations", "rankings", "seed")
        inputs = read_inputs(self.text, self.pair, self.file, whole=self.whole)
        check_one(len(inputs), "give the one to ask about as TEXT")
        found = trust(
            self.open_model(),
            inputs[0].text,
            self.asking,
            progress,
            permutations=self.permutations,
            rankings=self.rankings,
            seed=self.seed,
        )
        same = {name: getattr(self, name) for name in ("similar_to", "ask", "target", "at", "task")}
        return _report(found, NextCommand("ablate", same))


# --- results --------------------------------------------------------------------------------------------

HARDLY = 0.01  # share of the change from erasing tokens; other weights that change less hardly matter
NOTHING = 1e-6  # change of a number that rounding explains
MEASURES = ("comprehensiveness", "sufficiency")


@dataclass(frozen=True, repr=False)
class Shuffles(Brief):
    """Effects of other weights: in all heads of all layers together, then in all heads of each layer.

    layers: their numbers. permuted: `[1 + layer, permutation]`; uniform: `[1 + layer]`.
    """

    layers: Sequence[int]
    permuted: Doubles
    uniform: Doubles

    @property
    def medians(self) -> Doubles:
        """The median size of the effects of permuted weights, `[1 + layer]`."""
        return np.median(np.abs(self.permuted), axis=1)

    def document(self) -> list[dict[str, Any]]:
        """Return the entries of a document for all layers, and for each."""
        ends = np.quantile(np.abs(self.permuted), [LEVEL / 2, 1 - LEVEL / 2], axis=1).T
        rows = zip([None, *self.layers], self.medians, ends, self.uniform, strict=True)
        return [
            {"layer": layer, "permuted": float(median), "interval": interval.tolist(), "uniform": float(uniform)}
            for layer, median, interval, uniform in rows
        ]


@dataclass(frozen=True, repr=False)
class Erased(Brief):
    """The changes from erasing tokens in one way, and the scores of rankings.

    way: "mask" or "deletion". alone: the change from erasing each token by itself, `[token]`. words: each word, others:
    as many other tokens instead, `[word]`. aopc, by MEASURES: `[ranking]`.
    """

    way: str
    alone: Doubles
    words: Doubles
    others: Doubles
    aopc: Mapping[str, Doubles]


@dataclass(frozen=True)
class TrustResult:
    """Measurements of how far maps explain one output of one text.

    answer: the output. tokens: of the text; read: places of the tokens that the output reads; erasable: places of those
    that were ranked and erased, `[token]` below; words: places of those of each word; sizes: numbers of tokens that
    were erased together.
    importances: by method, `[token]`; the rankings are these in their order, and then random ones, `[ranking]`.
    sinks: heads have sinks, so that rows of maps were divided by their sums.
    """

    model: ModelInfo
    answer: MeasuredOutput
    tokens: Tokens
    read: Sequence[int]
    erasable: Sequence[int]
    words: Sequence[list[int]]
    sizes: Sequence[int]
    shuffles: Shuffles
    importances: Mapping[str, Doubles]
    erased: Sequence[Erased]
    sinks: bool = False

    def __repr__(self) -> str:
        rankings = f"{len(self.importances)} rankings of {len(self.erasable)} tokens"
        return titled(self, self.model.full_name, rankings, str(self.answer))

    @property
    def gaps(self) -> Doubles:
        """Comprehensiveness minus sufficiency, mean over the ways of erasing, `[ranking]`.

        It is large where the output depends on the first tokens of the ranking.
        """
        return np.mean([one.aopc[MEASURES[0]] - one.aopc[MEASURES[1]] for one in self.erased], axis=0)

    @property
    def random(self) -> int:
        """The number of random rankings."""
        return len(self.gaps) - len(self.importances)

    @property
    def as_good(self) -> Doubles:
        """The share of random rankings whose gap is as large, up to rounding, `[method]`: (1 + hits) / (1 + all).

        For a ranking that is random itself it is at most p with a probability of at most p.
        """
        count, gaps = len(self.importances), self.gaps
        hits = (gaps[count:] >= gaps[:count, None] - self.rounding).sum(axis=1)
        return (1 + hits) / (1 + self.random)

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
        """The number of orders that can score differently: chains of nested sets of tokens."""
        kept = pairwise([0, *self.sizes])
        return math.prod(math.comb(len(self.erasable) - fewer, more - fewer) for fewer, more in kept)

    @property
    def most_erased(self) -> float:
        """The largest change of the output from erasing tokens."""
        return max(
            float(np.abs(found).max()) for one in self.erased for found in (one.alone, one.words, *one.aopc.values())
        )

    def word_entries(self) -> list[dict[str, Any]]:
        """Return the entries of a document for the words."""
        attention = dict(zip(self.erasable, self.importances["attention"].tolist(), strict=True))
        entries = []
        for number, (name, places) in enumerate(zip(word_texts(self.tokens, self.words), self.words, strict=True)):
            others = {one.way: float(one.others[number]) for one in self.erased}
            entries.append(
                {
                    "word": name,
                    "places": list(places),
                    "attention": sum(attention[place] for place in places),
                    "change": {one.way: float(one.words[number]) for one in self.erased},
                    "others": None if any(map(math.isnan, others.values())) else others,
                }
            )
        return entries

    def document(self) -> dict[str, Any]:
        """Return the document of --json."""
        rankings = [
            {
                "by": name,
                "as_good": float(self.as_good[place]),
                "beats": name in self.better,
                **self.scores(place),
                "importance": importance.tolist(),
            }
            for place, (name, importance) in enumerate(self.importances.items())
        ]
        ends: dict[str, Callable[[Doubles], Any]] = {
            "low": partial(np.quantile, q=LEVEL / 2),
            "mean": np.mean,
            "high": partial(np.quantile, q=1 - LEVEL / 2),
        }
        drawn = slice(len(self.importances), None)
        return {
            "model": self.model.document(),
            "output": self.answer.document(),
            **({"sinks": True} if self.sinks else {}),
            "tokens": self.tokens.text,
            "read": list(self.read),
            "erased": list(self.erasable),
            "sizes": list(self.sizes),
            "permutations": self.shuffles.permuted.shape[1],
            "weights": self.shuffles.document(),
            "words": self.word_entries(),
            "alone": {one.way: one.alone.tolist() for one in self.erased},
            "rankings": rankings,
            "random": {
                "rankings": self.random,
                **{name: self.scores(drawn, summary) for name, summary in ends.items()},
            },
            "level": self.level,
            "verdict": verdict(self),
        }

    def scores(self, which: int | slice, summary: Callable[[Doubles], Any] = float) -> dict[str, Any]:
        """Return the scores of one ranking, or a summary of several."""
        scores: dict[str, Any] = {"gap": float(summary(self.gaps[which]))}
        for one in self.erased:
            scores[one.way] = {name: float(summary(found[which])) for name, found in one.aopc.items()}
        return scores


def verdict(found: TrustResult) -> str:
    """Return the verdict on this output of this text, in sentences."""
    kind, permuted, uniform = found.answer.kind, found.shuffles.medians, np.abs(found.shuffles.uniform)
    by_weights = float(max(permuted.max(), uniform.max()))  # in all layers or one
    if max(found.most_erased, by_weights) <= found.rounding:
        return f"Neither other weights nor erased tokens change this {kind}: there is nothing to explain."
    sizes = (
        "0" if change < NOTHING else three_digits(change) for change in (permuted[0], uniform[0], found.most_erased)
    )
    sentences = [
        "Permuting all weights changes this {} by {} (median), and uniform weights by {}. Erasing tokens changes it by "
        "up to {}.".format(kind, *sizes)
    ]
    if by_weights <= HARDLY * found.most_erased:
        sentences.append("Attention's weights hardly matter to this output.")
    shares, better = dict(zip(found.importances, found.as_good, strict=True)), found.better
    if found.chains <= round(1 / found.level):  # then the best order is among the random ones too often
        sentences.append(f"{len(found.erasable)} tokens are too few to tell a ranking from a random one.")
        return " ".join(sentences)
    sentences.append(
        f"A ranking beats random rankings if at most {found.level:.1%} of them are as good (5% over all {len(shares)})."
    )
    named = {name: f"{name} ({_percent(share)})" for name, share in shares.items()}
    rest = [name for name in shares if name not in better]
    if better:
        sentences.append(f"Rankings by {_join_names([named[name] for name in better])} do.")
        sentences += [f"Rankings by {_join_names(rest)} do not."] if rest else []
    else:
        sentences.append(f"None does. The best is {named[min(shares, key=shares.__getitem__)]}.")
    return " ".join(sentences)


def _percent(share: float) -> str:
    """Return a share in %, and never 0.0% where it is more than 0."""
    return f"{share:.1%}" if share >= 0.001 or share == 0 else f"{100 * share:.1g}%"


def _join_names(names: Sequence[str]) -> str:
    """ "a, b and c" """
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


# --- what is computed -----------------------------------------------------------------------------------

LEAST_TOKENS = 2  # that have an order


@takes_fields
def trust(
    model: "Engine",
    text: str,
    asking: Asking | None = None,
    progress: Progress = silent,
    *,
    permutations: int = 100,
    rankings: int = 200,
    seed: int = 0,
    **fields: "Unpack[AskingFields]",
) -> TrustResult:
    """Put other weights in, erase tokens, and compare rankings of them with random ones (`attncli/features/README.md`).

    Without a question, the output is the probability of the likeliest label, if the text has one prediction. With two
    texts (a cosine) both get other weights, and tokens of the first are ranked and erased.
    asking: the question, as an `Asking`; or its fields by name, as in similar_to="Another text." and target="it".
    permutations: of the weights; rankings: random ones; seed: of all draws. progress: advances with every layer with
    other weights, and every way of erasing.

    Raises RequestError as `make_question` does, and for a text with fewer than two tokens that can be erased.
    """
    from attncli.effects.question import make_question
    from attncli.features.trust import erasing as erase
    from attncli.features.trust.rankings import draw_rankings, find_read_places, importances
    from attncli.features.trust.weights import shuffled
    from attncli.models.engine import check_model, require_tapped

    asking = merge_asking(asking, fields)
    check_model(model)
    model = require_tapped(model, model.to_itself(asking.which))
    question = likeliest(make_question(model, text, asking), asking)
    tokens = question.texts[0].tokens
    erasings = [erase.Erasing(question, way) for way in erase.ways(model)]
    places = erasings[0].erasable
    if len(places) < LEAST_TOKENS:
        raise RequestError(
            f"a ranking needs {LEAST_TOKENS} tokens that can be erased, this text has {len(places)}: give a longer one"
        )
    words = erase.words(tokens, places)
    found = {name: values[places] for name, values in importances(question).items()}
    ranked = [*found.values(), *draw_rankings(len(places), rankings, seed)]
    orders = list(map(erase.order, ranked))
    layers = model.select_layers("all")
    with progress(1 + len(layers) + len(erasings), "steps") as advance:
        shuffles = Shuffles(layers, *shuffled(question, permutations, seed, advance))
        erased = []
        for one in erasings:
            alone, of_words = erase.leave_one_out(one), erase.leave_word_out(one, words, seed)
            scores = dict(zip(MEASURES, erase.aopc(one, orders), strict=True))
            erased.append(Erased(one.way, alone, *of_words, scores))
            advance()
    return TrustResult(
        model=model.info,
        answer=question.answer,
        tokens=tokens,
        read=find_read_places(question),
        erasable=places,
        words=words,
        sizes=erase.sizes(len(places)),
        shuffles=shuffles,
        importances=found,
        erased=erased,
        sinks=model.has_sinks,
    )


def likeliest(question: "Question", asking: Asking) -> "Question":
    """Ask for the probability of the predicted label, where a text has one prediction and `asking` names no kind."""
    from attncli.effects.question import Divergence, LabelQuestion
    from attncli.models.output import SIGMOID

    if asking.ask is not None or not isinstance(question, Divergence) or question.output.kind == "span":
        return question
    if question.places is not None and len(question.places) != 1:
        return question
    likely = question.before[..., 0] if question.output.function == SIGMOID else question.before
    place = None if question.places is None else question.places[0]
    return LabelQuestion(question.texts[0], question.output, "probability", int(likely.argmax()), place)


# --- the report -----------------------------------------------------------------------------------------

WAYS = {"mask": "[MASK]", "deletion": "deleted"}
SHORT = {"comprehensiveness": "compr.", "sufficiency": "suff."}
RANDOM = {"mean": "random, mean", "low": "random, 95% from", "high": "random, 95% to"}
NAMED = 3  # tokens that a ranking puts first
LISTED = 10  # words in the terminal
CHANGE = {
    "divergence": "how much the prediction from the remaining tokens changes, in nats; 0 is no change",
    "distance": "how far the last vectors of the remaining tokens move, as a share of their lengths",
}


def _report(found: TrustResult, next_command: NextCommand) -> Report:
    """Report other weights in a row per layer, a row per ranking, and the verdict; a picture has the rankings."""
    document = found.document()
    name, mask = model_name(found.model.full_name), f"mask {found.answer.mask}"
    return Report(
        [name, describe_output(found.answer), mask, token_count(found.tokens)],
        [
            *_words_parts(found),
            *_weights_parts(found),
            *_rankings_parts(found, document),
            TextLine(""),
            TextLine(document["verdict"], "strong"),
        ],
        lambda: document,
        itemgetter("rankings"),
        picture=[*([TextLine(DIVIDED, caption=True)] if found.sinks else []), _ranks_map(found)],
        next=next_command,
    )


def _words_parts(found: TrustResult) -> list[Part]:
    """Return a row per word, the largest change first, and what the columns mean."""
    groups, names = word_groups(found.tokens), numbered_names(word_tokens(found.tokens))
    name_at = {place: name for group, name in zip(groups, names, strict=True) for place in group}
    ways = [one.way for one in found.erased]
    columns = [Column("word", "name"), Column("attention")]
    for place, way in enumerate(ways):
        columns += [Column(WAYS[way]), Column("others", leaves=1 + place)]
    rows = []
    for one in sorted(found.word_entries(), key=lambda one: -abs(one["change"][ways[0]]))[:LISTED]:
        others = one["others"] or {}
        cells = [cell for way in ways for cell in (signed(one["change"][way]), signed(others[way]) if others else "")]
        rows.append([name_at[one["places"][0]], f"{one['attention']:.3f}", *cells])
    kind, more = found.answer.kind, len(found.words) - LISTED
    change = f"{kind} of the full text minus {kind} without the word; above 0, the word raises it"
    erased = " and ".join(WAYS[way] for way in ways)
    notes = [
        *([f"and {more} more words: --json has all"] if more > 0 else []),
        f"{erased}: the change when the word is erased: {CHANGE.get(kind, change)}",
        "others: the mean change when as many other tokens are erased. attention: the last layer's weight on the word, "
        "mean over heads and over the tokens that the output reads",
        *([DIVIDED] if found.sinks else []),
    ]
    return [Table(columns, rows), *map(TextLine, notes)]


def _weights_parts(found: TrustResult) -> list[Part]:
    """Return a row for all layers and a row per layer; and what the columns mean."""
    rows = []
    for entry in found.shuffles.document():
        where = "all layers" if entry["layer"] is None else f"layer {entry['layer']}"
        sizes = map(three_digits, (entry["permuted"], *entry["interval"]))
        rows.append([where, *sizes, signed(entry["uniform"])])
    count = found.shuffles.permuted.shape[1]
    note = (
        f"permuted: the size of the change when the weights of every row are permuted, as the median and the middle "
        f"95% of {count} draws. uniform: {found.answer.kind} with uniform weights minus {found.answer.kind} without. "
        "The model was not trained with such weights."
    )
    return [Table(list(map(Column, ["other weights in", "permuted", "from", "to", "uniform"])), rows), TextLine(note)]


def _rankings_parts(found: TrustResult, document: dict[str, Any]) -> list[Part]:
    """Return a row per method, below a summary of random rankings, and what the columns mean."""
    scores = {f"{SHORT[name]} {WAYS[one.way]}": (one.way, name) for one in found.erased for name in MEASURES}
    columns = [
        Column("tokens by"),
        *map(Column, scores),
        Column("random as good"),
        Column("first tokens", "name", leaves=1),
    ]

    def row(name: str, entry: dict[str, Any], *rest: str) -> list[str]:
        cells = [three_digits(entry[way][measure]) for way, measure in scores.values()]
        return [name, *cells, *rest]

    rows: list[list[str] | None] = []
    for entry in document["rankings"]:
        first = sorted(range(len(found.erasable)), key=lambda place: -entry["importance"][place])[:NAMED]
        tokens = " ".join(visible(found.tokens.shown[found.erasable[place]]) for place in first)
        rows.append(row(entry["by"], entry, _percent(entry["as_good"]), tokens))
    rows += [None, *(row(label, document["random"][name], "", "") for name, label in RANDOM.items())]
    counts = ", ".join(map(str, found.sizes))
    ways = " or ".join("[MASK]" if one.way == "mask" else one.way for one in found.erased)
    meaning = (
        f"compr.: the mean change when the first {counts} of {len(found.erasable)} tokens are erased (by {ways}); "
        "higher is better. suff.: the mean change when all other tokens are erased; lower is better."
    )
    notes = [
        meaning,
        f"random as good: the share of {found.random} random rankings whose compr. minus suff. (mean over the ways of "
        f"erasing) is at least as large. At most {found.level:.1%} beats random rankings (5% over all rankings here).",
    ]
    return [Table(columns, rows), *map(TextLine, notes)]


def _ranks_map(found: TrustResult) -> Maps:
    """Return a map of ranks, which methods have in common: a row per ranking, and rows for tokens erased alone."""
    alone = {f"alone, {WAYS[one.way]}": np.abs(one.alone) for one in found.erased}
    rows = {name.replace("gradient", "grad"): row for name, row in found.importances.items()} | alone
    tokens = [found.tokens.shown[place] for place in found.erasable]
    behind = [np.less.outer(row, row).sum(axis=0) / (len(tokens) - 1) for row in rows.values()]
    return Maps(
        [[Panel("", np.array(behind, np.float32))]],
        MapAxis("tokens by", list(rows)),
        MapAxis("token", tokens),
        scale="share of the other tokens ranked behind",
        most=1.0,
    )


# The fields of its document (`attncli.features.document`).
FIELDS = """
### trust

model | model
output | output | | for the whole text
sinks | bool? | | true if heads have sinks: each row of the mean over heads is divided by its sum
tokens | [str] | `[token]` | of the text; for two texts, of the first
read | [int] | `[place]` | positions of the tokens whose last vectors the output reads
erased | [int] | `[erasable]` | positions of the tokens that were ranked and erased
sizes | [int] | `[size]` | how many tokens were erased together
permutations | int | | number of permutations of the weights
weights | [object] | | other weights in all heads, in all layers or in one
weights.layer | int or null | | null for all layers together
weights.permuted | float | in that unit | median size of the change when the weights of every row are permuted
weights.interval | [float] | `[2]` | the range that holds 95% of these sizes
weights.uniform | float | in that unit | the output with uniform weights minus the output without
words | [object] | | the words of the text that can be erased, each with all of its tokens
words.word | str
words.places | [int] | `[piece]` | positions of its tokens
words.attention | float | share of the weight | the last layer's weight on its tokens, mean over heads and over `read`
words.change | {float} | in that unit | the change when the word is erased, by the way of erasing: mask, deletion
words.others | {float} or null | in that unit | the control: the mean change when as many other tokens are erased
alone | {[float]} | `[erasable]` | the change when each token is erased alone, by the way of erasing: mask, deletion
rankings | [scores] | | rankings of the tokens, by what is said to explain the output
rankings.by | str | | attention, norms, rollout, ALTI, gradient x attention (not for a divergence or a distance),
    gradient x input (not for a divergence)
rankings.as_good | float | share | share of the random rankings with at least this gap, (1 + those) / (1 + all)
rankings.beats | bool | | true if the share is at most `level`, which beats random rankings
rankings.importance | [float] | `[erasable]` | the values that rank the tokens
random | object | | the random rankings
random.rankings | int | | how many were drawn
random.low | scores | | 2.5% of them are lower, figure by figure
random.mean | scores
random.high | scores | | 2.5% are higher
level | float | share | a ranking with at most this `as_good` beats random: 0.05 divided by the number of rankings
verdict | str | | in words, from these figures

`.csv`: a row per entry of `rankings`.

### scores

The scores of a ranking of tokens (`trust`; defined in [features](../features/README.md)).

gap | float | in the output's unit | comprehensiveness minus sufficiency, mean over the ways of erasing
mask | {float}? | in the output's unit | comprehensiveness and sufficiency with [MASK] in place of tokens
deletion | {float} | in the output's unit | the same with tokens deleted
"""
