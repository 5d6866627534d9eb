"""Find out which part of a prompt an answer rests on.

Attention says where the rows that wrote the answer looked, and not whether it mattered. So each part's share of their
attention stands beside its effect: how much less likely the answer is where every later token can't see the part. And
the effect stands beside that of random spans of the same length from the rest of the prompt (`attncli.effects.answer`).

    share  = weight on the part / weight on all tokens but the sink, mean over heads, layers and rows
    effect = mean over the answer's tokens of log p - log p without the part, in nats a token
"""

from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypedDict, cast

import numpy as np

from attncli.base import choices
from attncli.base.arrays import Doubles, titled
from attncli.base.errors import RequestError
from attncli.base.files import PICTURES
from attncli.base.printable import printable, quoted, shorten
from attncli.base.progress import progress
from attncli.base.typed import NotRequired
from attncli.effects.asking import Asking, OutputDocument, describe_output
from attncli.features import options
from attncli.features.cut import RankCorrelation, rank_correlation
from attncli.features.inputs import check_options, default_model, open_tappable, opening_of, read_prompt
from attncli.features.measure import measure, no_effect
from attncli.features.options import MODEL, OUTPUT, TEXT, choice, option
from attncli.record import Request
from attncli.record.display import model_name
from attncli.record.parts import ModelDocument, ModelInfo
from attncli.report import Column, Part, Report, Result, Table, TextLine
from attncli.report.parts import BarBlock, BarRow, signed
from attncli.report.prompt import AnswerPiece, PromptAndAnswer, PromptPiece
from attncli.report.shares import ShareBars
from attncli.text.units import REST, PartedText, sentences, unit_tokens

if TYPE_CHECKING:
    from attncli.base.typed import Unpack
    from attncli.effects.answer import Answer, MeasuredText
    from attncli.effects.asking import MeasuredOutput
    from attncli.effects.question import Question
    from attncli.models.devices import InTorch
    from attncli.text.tokens import Tokens

SAMPLE = """<doc id="1"> The tram to the harbour leaves every twelve minutes. </doc>
<doc id="2"> The museum of clocks in Velden opens at ten and is closed on Mondays. </doc>
<doc id="3"> Bicycles may be left behind the old mill, free of charge. </doc>
Question: When does the museum of clocks open? Answer: The museum of clocks opens at"""
DRAWS = 8  # random spans beside each part
PAIRED = 12  # parts, at most, of which pairs are tried
NAMED_HEADS = 3
BEGINNING = 40  # characters of a part in a table


@measure(options.ComputeOptions, saved_as="sources")
def sources(
    model: options.ModelOption = None,
    text: Annotated[str | None, options.argument("TEXT", "The prompt; tags around its parts name them.")] = None,
    *,
    file: Annotated[
        str | None, option(TEXT, "--file", "-f", metavar="PATH", help="The prompt is in this file; - is stdin.")
    ] = None,
    part: options.PartFiles = None,
    chat: options.Chat = False,
    answer: Annotated[
        str | None,
        option(TEXT, "--answer", metavar="TEXT", help="The answer.", show_default="what the model writes"),
    ] = None,
    max_tokens: Annotated[
        int | None, option(MODEL, "--max-tokens", metavar="N", min=1, help="Write at most N tokens.", show_default="40")
    ] = None,
    target: options.Label = None,
    similar_to: options.SimilarTo = None,
    each: Annotated[
        choices.AnswerUnit | None,
        choice(OUTPUT, choices.AnswerUnit, "--each", help="Also for each unit of the answer: ", not_saved=PICTURES),
    ] = None,
    remove: Annotated[
        bool,
        option(OUTPUT, "--remove", help="Also the effect of leaving the part out of the text.", not_saved=PICTURES),
    ] = False,
    draws: Annotated[
        int, option(OUTPUT, "--draws", rare=True, metavar="N", min=0, max=1000, help="Random spans beside each part.")
    ] = DRAWS,
    **how: "Unpack[options.ComputeOptions]",
) -> "AnswerSources":
    """Find out which part of a prompt an answer rests on.

    For each part: its share of the attention that wrote the answer, beside the share that its length would give; and
    its effect, by how many nats a token the answer is less likely where no later token sees the part, beside random
    spans of that length. Parts are in tags; without tags each sentence is a part. With an encoder, --target or
    --similar-to, the output that ablate measures stands in place of the answer.

    \b
    Examples:
      attncli sources
      attncli sources "The cat is grey. The dog is brown. The cat is" --max-tokens 1
      attncli sources -f sample_inputs/prompt.txt --answer ten -o sources.html
      attncli sources --chat sample_inputs/chat.json --each sentence
    """
    check_options(how, options.ComputeOptions)
    if answer is not None:
        no_effect("with --answer, which is not written by the model", max_tokens=max_tokens)
    opening = opening_of(default_model("smollm2") if model is None else model, **how)
    opened = cast("InTorch", open_tappable(opening, None))
    if len(opened.parts) > 1:
        raise RequestError(f"sources is for decoders and encoders, and {opened.place.name} has both: take -m smollm2")
    if target is not None or similar_to is not None or opened.part == "encoder":
        why = "where an output is measured and no answer is written"
        no_effect(why, answer=answer, max_tokens=max_tokens, each=each, remove=remove, chat=chat)
        parted = read_prompt(text, file, file is not None, part, sample=SAMPLE)
        from attncli.effects.answer import MeasuredText

        question = _question_of(opened, parted.text, target, similar_to)
        unit = _AnswerUnit(describe_output(question.answer), [0])
        return _measured(MeasuredText(question), parted, [unit], remove, draws)
    from attncli.effects.answer import Answer
    from attncli.models.generation import Manner, next_output, prompt_tokens, write

    next_output(opened)  # refuses a model that writes no text
    if chat:
        no_effect("with --chat, whose messages are its parts", part=part)
        parted, answer = _chat_of(opened, text, file, answer)
        prompt = opened.tokenizer.encode_marked(parted.text)
    else:
        parted = read_prompt(text, file, file is not None, part, sample=SAMPLE)
        prompt = prompt_tokens(opened, parted.text)
    if answer is None:
        with progress(max_tokens or 40, "tokens") as advance:
            ids = []
            for step in write(opened, prompt, Manner(max_tokens or 40)):
                advance()
                if not step.ends:
                    ids.append(step.token)
        if not ids:
            raise RequestError("the model writes nothing after this prompt: give the answer with --answer")
    else:
        ids = _ids_of(opened, parted.text, prompt, answer)
    asked = Answer(opened, prompt, ids)
    groups = _answer_units(opened, ids, each)
    return _measured(asked, parted, groups, remove, draws)


def _question_of(model: "InTorch", text: str, target: str | None, similar_to: str | None) -> "Question":
    """Return the output that is measured, with the maps of the text. Raises RequestError as `make_question` does."""
    from attncli.effects.question import make_question

    return make_question(model, text, Asking(target=target, similar_to=similar_to), request=Request())


def _chat_of(model: "InTorch", text: str | None, file: str | None, answer: str | None) -> tuple[PartedText, str | None]:
    """Return the prompt of a chat in the model's template, and the answer: the last message, if it is an assistant's.

    Raises RequestError for a file that is no chat, and as `read_prompt` does.
    """
    from attncli.models.chat import chat_text, read_chat

    folder, name = model.place.path, text or file or ""
    if not name.endswith(".json"):
        return read_prompt(text, file, file is not None, chat=folder, sample=SAMPLE), answer
    chat = read_chat(Path(name))
    last = chat.messages[-1]
    if answer is None and last["role"] == "assistant" and len(chat.messages) > 1 and last["content"]:
        chat, answer = chat._replace(messages=chat.messages[:-1]), last["content"]
    return chat_text(folder, chat), answer


def _ids_of(model: "InTorch", text: str, prompt: "Tokens", answer: str) -> list[int]:
    """Return the ids of an answer that follows a prompt. Raises RequestError for an empty one."""
    from attncli.models.generation import prompt_tokens

    if not answer.strip():
        raise RequestError(f"there is no token in the answer {quoted(answer)}")
    apart = "" if not text or text[-1].isspace() or answer[:1].isspace() else " "
    whole = prompt_tokens(model, text + apart + answer)
    if whole.ids[: len(prompt)] == prompt.ids:
        ids = whole.ids[len(prompt) :]
    else:  # the prompt's last token would be another one
        alone = model.tokenizer.encode(answer)
        ids = [one for one, special in zip(alone.ids, alone.special, strict=True) if not special]
    most = model.tokenizer.max_tokens
    if len(prompt) + len(ids) > most or (not ids and len(prompt) == most):
        raise RequestError(f"the prompt and the answer have more than the {most} tokens of this model: shorten them")
    return ids


class _AnswerUnit(NamedTuple):
    """A unit of the answer: its text, and the places of its tokens among the answer's."""

    text: str
    places: list[int]


def _answer_units(model: "InTorch", ids: Sequence[int], each: str | None) -> list[_AnswerUnit]:
    """Return the answer as a whole, then each unit that was asked for."""
    from attncli.models.generation import writer

    decode = writer(model).decode
    whole = decode(ids)
    pieces = [_AnswerUnit(whole, list(range(len(ids))))]
    if each is None:
        return pieces
    ends = [len(decode(ids[: place + 1])) for place in range(len(ids))]
    if each == "token":
        return [*pieces, *(_AnswerUnit(decode([one]), [place]) for place, one in enumerate(ids))]
    for start, end in sentences(whole):
        within = [place for place, stop in enumerate(ends) if start < stop <= end]
        pieces += [_AnswerUnit(whole[start:end], within)] if within else []
    return pieces


class _Source(NamedTuple):
    """A part of the prompt: its name, its text, and its tokens."""

    name: str
    text: str
    places: list[int]


def _sources_of(parted: PartedText, prompt: "Tokens", sinks: Set[int]) -> list[_Source]:
    """Return the parts of a prompt, and the rest; without parts its sentences. Sinks are in none."""
    runs = [(one.start, one.end) for one in parted.runs]
    of_parts = [
        (part.name, [run for run in runs if part.start <= run[0] < part.end]) for part in parted.parts
    ]  # a run has the white space after it
    rest = [(one.start, one.end) for one in parted.runs if one.name == parted.rest]
    if not parted.parts:
        of_parts = [(str(number), [one]) for number, one in enumerate(sentences(parted.text), 1)]
    elif rest:
        of_parts.append((parted.rest, rest))
    found = []
    for name, some in of_parts:
        places = sorted({place for one in unit_tokens(prompt, some) for place in one} - sinks)
        found.append(_Source(name, " ".join(parted.text[start:end].strip() for start, end in some), places))
    if parted.parts and rest:  # special tokens of a template are in none of its words
        others = frozenset(sinks).union(*(one.places for one in found[:-1]))
        found[-1] = found[-1]._replace(places=[place for place in range(len(prompt)) if place not in others])
    return found


def _measured(
    asked: "Answer | MeasuredText", parted: PartedText, groups: list[_AnswerUnit], remove: bool, draws: int
) -> "AnswerSources":
    """Measure shares, effects and controls. Ctrl-C keeps what is there."""
    parts = _sources_of(parted, asked.prompt, asked.sinks)
    heard = [one for one in parts if one.places]
    if not heard:
        raise RequestError("there is no part in this prompt: write a text, or put tags around its parts")
    count = len(asked.tokens)
    units = np.zeros((count, len(parts) + 1))
    for number, one in enumerate(parts):
        units[one.places, number] = 1
    units[:, -1] = [place not in asked.sinks for place in range(count)]
    weights = asked.weights_on(units)
    seen = 1 / (asked.visible + len(asked.sinks))  # of uniform attention, on each token
    shares = np.empty((len(groups), len(parts)))
    lengths = np.empty_like(shares)
    for number, group in enumerate(groups):
        by_head = weights[:, :, group.places].mean(axis=2)  # [layer, head, part]
        shares[number] = by_head[..., :-1].sum(axis=(0, 1)) / by_head[..., -1].sum()
        every = (seen * asked.visible)[group.places].sum()
        lengths[number] = [len(one.places) * seen[group.places].sum() / every for one in parts]
    of_answer = weights.mean(axis=2)[..., :-1]
    heads = []
    for number in range(len(parts)):
        order = np.argsort(-of_answer[..., number], axis=None)[:NAMED_HEADS]
        places = [np.unravel_index(one, of_answer.shape[:2]) for one in order]
        heads.append([(int(layer), int(head), float(of_answer[layer, head, number])) for layer, head in places])
    effects = np.full((len(groups), len(parts)), np.nan)
    controls = np.full((len(parts), draws), np.nan)
    removed = np.full(len(parts), np.nan) if remove else None
    pairs: list[PairEffect] = []
    partial = True
    spans = [list(_random_spans(asked.prompt, one.places, draws, asked.sinks)) for one in parts]
    total = len(heard) * (2 if remove else 1) + sum(map(len, spans))
    with suppress(KeyboardInterrupt), progress(total, "cuts") as advance:
        for number, one in enumerate(parts):
            if not one.places:
                continue
            lost = asked.plain - asked.without(one.places)
            effects[:, number] = [lost[group.places].mean() for group in groups]
            advance()
        for number, some in enumerate(spans):
            for draw, span in enumerate(some):
                controls[number, draw] = (asked.plain - asked.without(span)).mean()
                advance()
        if removed is not None:
            for number, one in enumerate(parts):
                if one.places:
                    removed[number] = _effect_of_removing(cast("Answer", asked), one.places)
                    advance()
        pairs = _pairs(asked, parts, effects[0], controls, draws, parted.rest)
        partial = False
    info = asked.model.info
    return AnswerSources(
        info,
        groups,
        float(asked.plain.mean()),
        asked.output,
        count,
        parted,
        parts,
        shares,
        lengths,
        effects,
        controls,
        heads,
        removed,
        pairs,
        partial,
    )


def _random_spans(
    prompt: "Tokens", places: Sequence[int], draws: int, sinks: Set[int] = frozenset([0])
) -> Iterator[list[int]]:
    """Draw spans of as many neighbouring tokens from the rest of the prompt; none where it has no room for one."""
    taken, size = {*sinks, *places}, len(places)
    starts = (
        [start for start in range(1, len(prompt) - size + 1) if taken.isdisjoint(range(start, start + size))]
        if size
        else []
    )
    for start in sorted(np.random.default_rng(0).permutation(starts)[:draws].tolist()):
        yield list(range(start, start + size))


def _effect_of_removing(asked: "Answer", places: Sequence[int]) -> float:
    """Return how much less likely the answer is without these tokens in the text, in nats a token."""
    from attncli.effects.answer import Answer

    gone = set(places)
    shorter = asked.prompt.take([place for place in range(len(asked.prompt)) if place not in gone])
    return float((asked.plain - Answer(asked.model, shorter, asked.ids).plain).mean())


class PairEffect(NamedTuple):
    """Two parts, by their places, that are hidden together: the effect, and the largest of random spans."""

    first: int
    second: int
    effect: float
    most: float


def _pairs(
    asked: "Answer | MeasuredText",
    parts: Sequence[_Source],
    effects: Doubles,
    controls: Doubles,
    draws: int,
    rest: str = REST,
) -> list[PairEffect]:
    """Hide parts two at a time where no part alone does more than random spans: they can stand in for each other."""
    there = [number for number, one in enumerate(parts) if one.places and one.name != rest]
    alone = any(effects[number] > np.nanmax(controls[number], initial=0.0) for number in there)
    if alone or not 2 <= len(there) <= PAIRED or not draws:
        return []
    found = []
    two = list(combinations(there, 2))
    with progress(len(two), "pairs") as advance:
        for first, second in two:
            places = sorted({*parts[first].places, *parts[second].places})
            effect = float((asked.plain - asked.without(places)).mean())
            spans = list(_random_spans(asked.prompt, places, draws, asked.sinks))
            most = max((float((asked.plain - asked.without(one)).mean()) for one in spans), default=np.nan)
            if effect > np.nanmax([most, *controls[[first, second]].ravel(), 0.0]):
                found.append(PairEffect(first, second, effect, most))
            advance()
    return sorted(found, key=lambda one: -one.effect)


# --- the result -----------------------------------------------------------------------------------------

OF_OUTPUT = (
    "share: of the attention of the tokens that the output reads, without what goes to special tokens; length: the "
    "share that the part's length would give",
    "effect: by how much the output falls (or moves, if it is a distance) if no other token sees the part; random: the "
    "same for spans of that length from the rest of the text",
)
MEANING = (
    "share: of the attention of the rows that wrote the answer, without what goes to the first token, a sink; length: "
    "the share that the part's length would give",
    "effect: by how many nats a token the answer is less likely if no later token sees the part; random: the same for "
    "spans of that length from the rest of the prompt",
)


class _ControlEntry(TypedDict):
    """Random spans of as many tokens from the rest of the prompt; null if it has no room for one."""

    mean: Annotated[float, "", "nats a token"]
    low: Annotated[float, "the smallest", "nats a token"]
    high: Annotated[float, "the largest", "nats a token"]
    count: Annotated[int, "how many"]


class _HeadWeight(TypedDict):
    """The three heads with the most weight there."""

    layer: int
    head: int
    weight: Annotated[float, "of the rows that wrote the answer, mean", "share of the weight"]


class _PartEntry(TypedDict):
    """The parts of the prompt, in order; without tags its sentences."""

    part: Annotated[str, "its name; (rest) is what is in no part"]
    text: str
    tokens: Annotated[int, "how many, without the first of the prompt"]
    share: Annotated[float, "of the attention that wrote the answer", "share of the weight on all but the first token"]
    length_share: Annotated[float, "the share that its length alone would give", "likewise"]
    effect: Annotated[
        float | None, "by how much less likely the answer is where no later token sees the part", "nats a token"
    ]
    control: _ControlEntry | None
    removed: NotRequired[
        Annotated[float | None, "the same with the part left out of the text (`--remove`)", "nats a token"]
    ]
    heads: list[_HeadWeight]


class _UnitEntry(TypedDict):
    """With `--each`: the units of the answer."""

    text: str
    shares: Annotated[list[float], "of the attention that wrote the unit", "`[part]`"]
    effects: Annotated[list[float | None], "on the unit", "`[part]` of nats a token"]


class _PairEntry(TypedDict):
    """Pairs of parts that matter together, where no part does alone."""

    parts: Annotated[list[str], "their names", "`[2]`"]
    effect: Annotated[float, "with both hidden", "nats a token"]
    high: Annotated[float | None, "the largest effect of a random span of as many tokens", "nats a token"]


class _AnswerEntry(TypedDict):
    text: str
    tokens: Annotated[int, "how many"]
    log_probability: Annotated[float, "mean over its tokens", "nats a token"]


class _AgreementEntry(TypedDict):
    """The rank correlation (Spearman's) of shares and effects over the parts; null for fewer than 3."""

    rho: Annotated[float, "", "-1 to 1"]
    low: Annotated[float, "lower end of 19 of 20 correlations with freely permuted effects", "-1 to 1"]
    high: Annotated[float, "its upper end", "-1 to 1"]
    count: Annotated[int, "number of parts"]


class SourcesDocument(TypedDict):
    """`.csv`: a row per entry of `parts`."""

    model: ModelDocument
    partial: Annotated[bool, "true if it was interrupted: what is missing is null"]
    answer: NotRequired[Annotated[_AnswerEntry, "what the model wrote, or `--answer`"]]
    output: NotRequired[Annotated[OutputDocument, "what is measured in its place, with an encoder or `--target`"]]
    parts: list[_PartEntry]
    agreement: _AgreementEntry | None
    pairs: list[_PairEntry]
    units: NotRequired[list[_UnitEntry]]
    verdict: Annotated[str, "in a sentence"]


@dataclass(frozen=True, repr=False)
class AnswerSources(Result):
    """The sources of an answer. The arrays have the answer as a whole first, then its units.

    value: the log-probability of the answer, mean over its tokens; or the output's. output: what is measured, if it is
    no answer. tokens: of the prompt and the answer. shares, lengths,
    effects: `[unit, part]`. controls: `[part, draw]`. heads: by part (layer, head, weight). removed: `[part]`.
    """

    model: ModelInfo
    answer: list[_AnswerUnit]
    value: float
    output: "MeasuredOutput | None"
    tokens: int
    prompt: PartedText
    parts: list[_Source]
    shares: Doubles
    lengths: Doubles
    effects: Doubles
    controls: Doubles
    heads: list[list[tuple[int, int, float]]]
    removed: Doubles | None
    pairs: list[PairEffect]
    partial: bool

    def __repr__(self) -> str:
        return titled(self, self.model.full_name, f"{len(self.parts)} parts", self.verdict)

    @property
    def _unit(self) -> str:
        """The unit of effects, as it follows a number."""
        return " nats a token" if self.output is None else ""

    @property
    def _meaning(self) -> tuple[str, str]:
        return MEANING if self.output is None else OF_OUTPUT

    @property
    def _subject(self) -> str:
        return "the answer" if self.output is None else self.output.about

    @property
    def agreement(self) -> RankCorrelation | None:
        """Spearman's rank correlation of shares and effects."""
        known = ~np.isnan(self.effects[0])
        return rank_correlation(self.shares[0][known], self.effects[0][known])

    @property
    def verdict(self) -> str:
        """Say which named part the answer rests on, beside its control; or that none alone does more than chance."""
        named = [one.name != self.prompt.rest or len(self.parts) == 1 for one in self.parts]
        effects = np.where(np.isnan(self.effects[0]) | ~np.array(named), -np.inf, self.effects[0])
        best = int(effects.argmax())
        drawn = self._drawn(best)
        if not np.isfinite(effects[best]):
            return "no effect was measured"
        if len(drawn) == 0:
            return f"hiding {self.parts[best].name} costs {effects[best]:.2f}{self._unit}; there is no control"
        beside = f"{len(drawn)} random spans of that length {drawn.min():.2f} to {drawn.max():.2f}"
        if effects[best] > max(drawn.max(), 0.0):
            return (
                f"{self._subject} rests on {self.parts[best].name} (effect {effects[best]:.2f}{self._unit}; {beside})"
            )
        if self.pairs:
            pair = self.pairs[0]
            names = f"{self.parts[pair.first].name} and {self.parts[pair.second].name}"
            return (
                f"no part alone does more than random spans, and {names} together do (effect {pair.effect:.2f} nats a "
                f"token; random spans up to {pair.most:.2f}): they can stand in for each other"
            )
        return (
            f"no part alone does more than random spans of its length: {self.parts[best].name} has the largest effect, "
            f"{effects[best]:.2f}{self._unit}; {beside}"
        )

    def document(self) -> SourcesDocument:
        """Return what --json prints."""
        entries: list[_PartEntry] = []
        for number, one in enumerate(self.parts):
            drawn = self._drawn(number)
            control: _ControlEntry | None = None
            if len(drawn):
                spread = {"mean": float(drawn.mean()), "low": float(drawn.min()), "high": float(drawn.max())}
                control = cast("_ControlEntry", {**spread, "count": len(drawn)})
            entry: _PartEntry = {
                "part": one.name,
                "text": one.text,
                "tokens": len(one.places),
                "share": float(self.shares[0, number]),
                "length_share": float(self.lengths[0, number]),
                "effect": _known(self.effects[0, number]),
                "control": control,
                "heads": [
                    {"layer": layer, "head": head, "weight": weight} for layer, head, weight in self.heads[number]
                ],
            }
            if self.removed is not None:
                entry["removed"] = _known(self.removed[number])
            entries.append(entry)
        found, names = self.agreement, [one.name for one in self.parts]
        whole = self.answer[0]
        measured: SourcesDocument = {
            "model": self.model.document(),
            "partial": self.partial,
            "parts": entries,
            "agreement": None if found is None else cast("_AgreementEntry", dict(vars(found))),
            "pairs": [
                {"parts": [names[one.first], names[one.second]], "effect": one.effect, "high": _known(one.most)}
                for one in self.pairs
            ],
            "verdict": self.verdict,
        }
        document = measured
        if self.output is None:
            answer: _AnswerEntry = {"text": whole.text, "tokens": len(whole.places), "log_probability": self.value}
            document["answer"] = answer
        else:
            document["output"] = self.output.document()
        if len(self.answer) > 1:
            document["units"] = [
                {
                    "text": one.text,
                    "shares": self.shares[number].tolist(),
                    "effects": [_known(effect) for effect in self.effects[number]],
                }
                for number, one in enumerate(self.answer[1:], 1)
            ]
        return document

    def report(self) -> Report:
        """Show the prompt shaded by effect, the parts with shares, effects and controls, and the verdict."""
        rows = []
        for number, one in enumerate(self.parts):
            begins = shorten(" ".join(one.text.split()), BEGINNING)
            named = one.name if one.name == self.prompt.rest else f"{one.name}: {begins}"
            rows.append([named, *self._cells(number)])
        columns = [
            Column("part", "name"),
            Column("tokens", leaves=3),
            Column("share"),
            Column("length"),
            Column("effect"),
            Column("random: mean", leaves=2),
            Column("least", leaves=4),
            Column("most"),
            *([Column("left out")] if self.removed is not None else []),
            Column("heads", "name", leaves=1),
        ]
        units: list[Part] = []
        if len(self.answer) > 1:
            names = [one.name for one in self.parts]
            of_units = [
                [
                    shorten(printable(one.text.strip()) or "␣", BEGINNING),
                    names[int(self.shares[number].argmax())],
                    f"{self.shares[number].max():.2f}",
                    names[int(np.nan_to_num(self.effects[number], nan=-np.inf).argmax())],
                    signed(float(np.nanmax(self.effects[number], initial=-np.inf))),
                ]
                for number, one in enumerate(self.answer[1:], 1)
            ]
            columns_of_units = [
                Column("of the answer", "name"), Column("most attention", "name"), Column("share"),
                Column("largest effect", "name"), Column("effect"),
            ]  # fmt: skip
            units = [Table(columns_of_units, of_units)]
        whole = self.answer[0]
        verdicts = [self.verdict, *self._about_ranks()]
        return Report(
            [
                model_name(self.model.full_name),
                f"{len(self.parts)} parts",
                f"{self.tokens} tokens",
                *(["PARTIAL"] if self.partial else []),
            ],
            [
                self._prompt(verdicts),
                TextLine(f"{'answer' if self.output is None else 'output'}: {whole.text.strip()}", "strong"),
                Table(columns, rows),
                *units,
                *(TextLine(one, caption=True) for one in self._meaning),
                *(TextLine(one, "strong") for one in verdicts),
            ],
            self.document,
            lambda document: document["parts"],
            picture=lambda: [self._bars()],
        )

    def _prompt(self, verdicts: Sequence[str]) -> PromptAndAnswer:
        """Show the prompt with its parts shaded, beside the answer."""
        places = {one.name: number for number, one in enumerate(self.parts)}
        if self.prompt.parts:
            pieces = [PromptPiece(places[one.name], self.prompt.text[one.start : one.end]) for one in self.prompt.runs]
        else:
            pieces = [PromptPiece(number, f"{one.text} ") for number, one in enumerate(self.parts)]
        answer = [
            AnswerPiece(one.text, self.shares[number].tolist(), [_known(effect) for effect in self.effects[number]])
            for number, one in enumerate(self.answer)
        ]
        facts = []
        for number, one in enumerate(self.parts):
            tokens, share, length, effect, mean, least, most, *_, heads = self._cells(number)
            facts.append(
                [
                    f"{one.name}: {tokens} tokens, {share} of the attention ({length} by its length).",
                    f"Effect {effect}{self._unit}; random spans {mean}, from {least} to {most}.",
                    f"Most weight: heads {heads}.",
                ]
            )
        names = [one.name for one in self.parts]
        title = [model_name(self.model.full_name), "sources of an answer"]
        return PromptAndAnswer(title, names, pieces, answer, facts, verdicts, self._meaning)

    def _drawn(self, number: int) -> Doubles:
        """Return the effects of a part's random spans."""
        some = self.controls[number]
        return some[~np.isnan(some)]

    def _cells(self, number: int) -> list[str]:
        drawn = self._drawn(number)
        effect = self.effects[0, number]
        random = [signed(float(one)) for one in (drawn.mean(), drawn.min(), drawn.max())] if len(drawn) else ["-"] * 3
        removed = [] if self.removed is None else [signed(float(self.removed[number]))]
        return [
            str(len(self.parts[number].places)),
            f"{self.shares[0, number]:.2f}",
            f"{self.lengths[0, number]:.2f}",
            signed(float(effect)) if effect == effect else "-",
            *random,
            *removed,
            " ".join(f"{layer}.{head}" for layer, head, _ in self.heads[number]),
        ]

    def _about_ranks(self) -> list[str]:
        """Say whether attention ranks the parts as effects do."""
        found = self.agreement
        if found is None:
            return []
        names = [one.name for one in self.parts]
        first = names[int(self.shares[0].argmax())]
        second = names[int(np.nan_to_num(self.effects[0], nan=-np.inf).argmax())]
        same = f"attention and effects rank {first} first"
        apart = f"attention ranks {first} first, effects {second}"
        return [
            f"{same if first == second else apart}: Spearman {found.rho:+.2f} over {found.count} parts (permuted "
            f"effects: {found.low:+.2f} to {found.high:+.2f})"
        ]

    def _bars(self) -> ShareBars:
        """Draw a bar per part, its effect, with a mark at the largest of its random spans."""
        largest = max(float(np.nanmax([*self.effects[0], *self.controls.ravel()], initial=0.0)), 1e-9)
        rows = []
        for number, one in enumerate(self.parts):
            drawn = self._drawn(number)
            effect, cells = self.effects[0, number], self._cells(number)
            bar = max(0.0, float(effect)) / largest if effect == effect else None
            mark = max(0.0, float(drawn.max())) / largest if len(drawn) else None
            rows.append(BarRow(one.name, bar, mark, [cells[3], cells[6], cells[1], cells[2]]))
        return ShareBars(
            [BarBlock("part", ["effect", "random, most", "share", "length"], rows)],
            about=("bar", "mark", "faint", "faint"),
            leaving=(3, 2, 1),
            notes=[
                f"bar: effect{self._unit and f' in{self._unit}'}; mark: the largest of random spans of that length",
                self.verdict,
            ],
            title=[
                model_name(self.model.full_name),
                f"{self._subject}: {shorten(self.answer[0].text.strip(), BEGINNING)}",
            ],
            most=largest,
        )


def _known(number: float) -> float | None:
    return None if np.isnan(number) else float(number)
