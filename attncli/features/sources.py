"""Find out which part of a prompt an answer rests on.

Attention shows where the positions that predicted the answer looked, not whether that mattered. So each part's share of
their attention is shown with its effect: how much less likely the answer is if no other token sees the part. The
effect is compared with that of random spans of the same length from the rest of the prompt (`attncli.effects.answer`).

    share  = weight on the part / weight on all tokens except the sink, mean over heads, layers and rows
    effect = mean over the answer's tokens of log p - log p without the part, in nats per token
"""

from collections.abc import Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
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
from attncli.effects.asking import RANDOM_SPANS, Asking, OutputDocument
from attncli.features import options
from attncli.features.cut import RankCorrelation, rank_correlation
from attncli.features.inputs import default_model, notify, open_tappable, opening_of, read_prompt
from attncli.features.measure import measure, no_effect
from attncli.features.options import MODEL, OUTPUT, TEXT, choice, option
from attncli.record import Request
from attncli.record.display import model_name
from attncli.record.parts import ModelDocument, ModelInfo
from attncli.report import Column, Part, Report, Result, Table, TextLine
from attncli.report.parts import BarBlock, BarRow, signed
from attncli.report.prompt import AnswerPiece, PromptAndAnswer, PromptPiece
from attncli.report.shares import ShareBars
from attncli.text.units import REST, PartedText, unit_tokens
from attncli.text.units import sentences as sentence_spans

if TYPE_CHECKING:
    from attncli.base.typed import Unpack
    from attncli.effects.answer import AnsweredPrompt, MeasuredText
    from attncli.effects.asking import MeasuredOutput
    from attncli.models.devices import InTorch
    from attncli.text.tokens import Tokens

SAMPLE = """<doc id="1"> The tram to the harbour leaves every twelve minutes. </doc>
<doc id="2"> The museum of clocks in Velden opens at ten and is closed on Mondays. </doc>
<doc id="3"> Bicycles may be left behind the old mill, free of charge. </doc>
Question: When does the museum of clocks open? Answer: The museum of clocks opens at"""
ROUNDING = 1e-4  # rounding in float32 is below this, so smaller effects count as none
PAIRED = 12  # pairs are tried for at most this many parts
NAMED_HEADS = 3
LONGEST_SENTENCE = 60  # characters of a sentence in a verdict
BEGINNING = 40  # characters of a part in a table


@measure(options.ComputeOptions, saved_as="sources")
def sources(
    model: Annotated[
        options.ModelOrName | None,
        options.model("Short name, Hub id or path.", kind=str | None, show_default="smollm2"),
    ] = None,
    text: Annotated[str | None, options.argument("TEXT", "The prompt; tags name its parts.")] = None,
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
        choice(OUTPUT, choices.AnswerUnit, "--each", help="Also show each unit of the answer: ", not_saved=PICTURES),
    ] = None,
    remove: Annotated[
        bool,
        option(
            OUTPUT,
            "--remove",
            rare=True,
            help="Also measure the effect of removing the part from the text.",
            not_saved=PICTURES,
        ),
    ] = False,
    sentences: Annotated[
        bool,
        option(
            OUTPUT,
            "--sentences",
            help="Also measure each sentence of the named part with the largest effect.",
            not_saved=PICTURES,
        ),
    ] = False,
    draws: Annotated[
        int,
        option(
            OUTPUT, "--draws", rare=True, metavar="N", min=0, max=1000, help="Random spans to compare with each part."
        ),
    ] = RANDOM_SPANS,
    **how: "Unpack[options.ComputeOptions]",
) -> "AnswerSources":
    """Find out which part of a prompt an answer rests on.

    Shows each part's share of the attention at the positions that predicted the answer, and its share of the length.
    Then shows its effect: how much less likely the answer is, in nats per token, if no other token sees the part.
    Random spans of the same length are the control. Parts are in tags; without tags each sentence is a part. Encoders
    write no answer, so an output is measured, chosen as in ablate. In decoders, --target and --similar-to measure an
    output too. For an encoder-decoder, --target is the answer.

    \b
    Examples:
      attncli sources
      attncli sources "The cat is grey. The dog is brown. The cat is" --max-tokens 1
      attncli sources -f sample_inputs/prompt.txt --answer ten -o sources.html
      attncli sources --chat sample_inputs/chat.json --each sentence
    """
    if answer is not None:
        no_effect("with --answer, because the model writes nothing", max_tokens=max_tokens)
    opening = opening_of(default_model("smollm2") if model is None else model, **how)
    opened = cast("InTorch", open_tappable(opening, None))
    is_encoder_decoder = len(opened.parts) > 1
    if is_encoder_decoder:  # --target is the answer
        no_effect("with an encoder-decoder, whose answer is measured", similar_to=similar_to)
        if target is not None:
            no_effect("with --target, which is the answer", answer=answer, max_tokens=max_tokens)
        answer, target = target if answer is None else answer, None
    if target is not None or similar_to is not None or opened.part == "encoder":
        why = "if an output is measured, because no answer is written"
        no_effect(why, answer=answer, max_tokens=max_tokens, each=each, remove=remove, chat=chat)
        parted = read_prompt(text, file, file is not None, part, sample=SAMPLE)
        from attncli.effects.answer import MeasuredText
        from attncli.effects.question import make_question

        question = make_question(opened, parted.text, Asking(target=target, similar_to=similar_to), request=Request())
        unit = _AnswerUnit(str(question.answer), [0])
        return _measure(MeasuredText(question), parted, [unit], remove, sentences, draws)
    from attncli.effects.answer import AnsweredPrompt, EncodedPrompt
    from attncli.models.generation import Sampling, next_output, prompt_tokens, write

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
            for step in write(opened, prompt, Sampling(max_tokens or 40)):
                advance()
                if not step.ends:
                    ids.append(step.token)
        if not ids:
            raise RequestError("the model writes nothing after this prompt: give an answer with --answer")
    else:
        ids = _ids_of(opened, parted.text, prompt, answer)
    measured = (EncodedPrompt if is_encoder_decoder else AnsweredPrompt)(opened, prompt, ids)
    groups = _answer_units(opened, ids, each)
    return _measure(measured, parted, groups, remove, sentences, draws)


def _chat_of(model: "InTorch", text: str | None, file: str | None, answer: str | None) -> tuple[PartedText, str | None]:
    """Return the prompt of a chat in the model's template, and the answer: the last message, if the assistant wrote it.

    Raises RequestError for a file that is not a chat, and as `read_prompt` does.
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
    """Return the ids of an answer that follows a prompt, or that the decoder of an encoder-decoder writes.

    Raises RequestError for an empty answer, and if it does not fit into the model with the prompt.
    """
    from attncli.models.generation import prompt_tokens, writer

    ids: list[int] = []
    if answer.strip() and model.part == "decoder":
        apart = "" if not text or text[-1].isspace() or answer[:1].isspace() else " "
        whole = prompt_tokens(model, text + apart + answer)
        if whole.ids[: len(prompt)] == prompt.ids:
            ids = whole.ids[len(prompt) :]
        else:  # tokenized together, the prompt's last token would change
            alone = model.tokenizer.encode(answer)
            ids = [one for one, special in zip(alone.ids, alone.special, strict=True) if not special]
        most = model.tokenizer.max_tokens
        if len(prompt) + len(ids) > most or (not ids and len(prompt) == most):
            raise RequestError(
                f"the prompt and the answer together exceed the {most} tokens of this model: shorten them"
            )
    elif answer.strip():
        alone = writer(model).encode(answer)
        ids = alone.ids[: max((place for place, added in enumerate(alone.special) if not added), default=-1) + 1]
    if not ids:
        raise RequestError(f"the answer {quoted(answer)} has no tokens: give another one")
    return ids


class _AnswerUnit(NamedTuple):
    """A unit of the answer: its text, and the positions of its tokens in the answer."""

    text: str
    places: list[int]


def _answer_units(model: "InTorch", ids: Sequence[int], each: str | None) -> list[_AnswerUnit]:
    """Return the answer as a whole, then its units, if requested."""
    from attncli.models.generation import writer

    decode = writer(model).decode
    whole = decode(ids)
    pieces = [_AnswerUnit(whole, list(range(len(ids))))]
    if each is None:
        return pieces
    ends = [len(decode(ids[: place + 1])) for place in range(len(ids))]
    if each == "token":
        return [*pieces, *(_AnswerUnit(decode([one]), [place]) for place, one in enumerate(ids))]
    for start, end in sentence_spans(whole):
        within = [place for place, stop in enumerate(ends) if start < stop <= end]
        pieces += [_AnswerUnit(whole[start:end], within)] if within else []
    return pieces


class _Source(NamedTuple):
    """A part of the prompt: its name, its text, and its tokens."""

    name: str
    text: str
    places: list[int]


def _sources_of(parted: PartedText, prompt: "Tokens", sinks: Set[int]) -> list[_Source]:
    """Return the parts of a prompt, and the rest; without parts its sentences. Sinks belong to none."""
    runs = [(one.start, one.end) for one in parted.runs]
    of_parts = [
        (part.name, [run for run in runs if part.start <= run[0] < part.end]) for part in parted.parts
    ]  # a run includes the white space after it
    rest = [(one.start, one.end) for one in parted.runs if one.name == parted.rest]
    if not parted.parts:
        of_parts = [(str(number), [one]) for number, one in enumerate(sentence_spans(parted.text), 1)]
    elif rest:
        of_parts.append((parted.rest, rest))
    found = []
    for name, some in of_parts:
        places = sorted({place for one in unit_tokens(prompt, some) for place in one} - sinks)
        found.append(_Source(name, " ".join(parted.text[start:end].strip() for start, end in some), places))
    if parted.parts and rest:  # the rest also takes the tokens of no word, such as a template's special tokens
        others = frozenset(sinks).union(*(one.places for one in found[:-1]))
        found[-1] = found[-1]._replace(places=[place for place in range(len(prompt)) if place not in others])
    return found


class _Sentence(NamedTuple):
    """A sentence: the index of its part, where it begins and ends in the prompt, and its tokens."""

    part: int
    start: int
    end: int
    places: list[int]


def _sentences_of(parted: PartedText, parts: Sequence[_Source], prompt: "Tokens") -> list[_Sentence]:
    """Return the sentences of all parts; none for a prompt without tags, whose sentences are its parts."""
    if not parted.parts:
        return []
    numbers = {one.name: number for number, one in enumerate(parts)}
    units = parted.units("sentence")
    tokens = unit_tokens(prompt, [(one.start, one.end) for one in units])
    return [
        _Sentence(numbers[one.name], one.start, one.end, sorted({*some} & {*parts[numbers[one.name]].places}))
        for one, some in zip(units, tokens, strict=True)
    ]


def _measure(
    measured: "AnsweredPrompt | MeasuredText",
    parted: PartedText,
    groups: list[_AnswerUnit],
    remove: bool,
    by_sentence: bool,
    draws: int,
) -> "AnswerSources":
    """Measure shares, effects and controls. Ctrl-C keeps the results so far."""
    from attncli.effects.answer import attention_shares, control_effects, effects_of

    parts = _sources_of(parted, measured.prompt, measured.sinks)
    with_tokens = [one for one in parts if one.places]
    if not with_tokens:
        raise RequestError("the prompt has no parts: give a text, or put tags around its parts")
    sentences = _sentences_of(parted, parts, measured.prompt)
    if not sentences:
        no_effect("in a prompt without tags, whose sentences are its parts", sentences=by_sentence)
    spans = [*(one.places for one in parts), *(one.places for one in sentences)]
    rows = [group.places for group in groups]
    shares, lengths, head_weights = attention_shares(measured, spans, rows)
    heads = []
    for number in range(len(parts)):
        order = np.argsort(-head_weights[..., number], axis=None)[:NAMED_HEADS]
        places = [np.unravel_index(one, head_weights.shape[:2]) for one in order]
        heads.append([(int(layer), int(head), float(head_weights[layer, head, number])) for layer, head in places])
    effects = np.full((len(groups), len(parts)), np.nan)
    controls = np.full((len(parts), draws), np.nan)
    removed = np.full(len(parts), np.nan) if remove else None
    sentence_effects = np.full((len(groups), len(sentences)), np.nan)
    sentence_control: list[float] = []
    pairs: list[PairEffect] = []
    partial = True
    wanted = [draws if one.name != parted.rest or len(parts) == 1 else 0 for one in parts]
    total = len(with_tokens) * (2 if remove else 1) + sum(wanted)
    with suppress(KeyboardInterrupt), progress(total, "cuts") as advance:
        for number, one in enumerate(parts):
            if not one.places:
                continue
            effects[:, number] = effects_of(measured, one.places, rows)
            advance()
        for number, one in enumerate(parts):
            drawn = control_effects(measured, one.places, wanted[number], effects[0, number])
            for draw, effect in enumerate(drawn):
                controls[number, draw] = effect
                advance()
            advance(wanted[number] - int(np.isfinite(controls[number]).sum()))
        if removed is not None:
            for number, one in enumerate(parts):
                if one.places:
                    removed[number] = _effect_of_removing(cast("AnsweredPrompt", measured), one.places)
                    advance()
        pairs = _pairs(measured, parts, effects[0], controls, draws, parted.rest)
        best = _best_part(parts, effects[0], parted.rest)
        within = [number for number, one in enumerate(sentences) if one.part == best and one.places]
        if by_sentence and len(within) > 1:
            with progress(len(within), "sentences") as advance:
                for number in within:
                    sentence_effects[:, number] = effects_of(measured, sentences[number].places, rows)
                    advance()
            first = max(within, key=lambda number: sentence_effects[0, number])
            sentence_control = list(
                control_effects(measured, sentences[first].places, draws, sentence_effects[0, first])
            )
        partial = False
    if partial:
        notify("interrupted: the effects are PARTIAL")
    info = measured.model.info
    return AnswerSources(
        info,
        groups,
        float(measured.plain.mean()),
        measured.output,
        measured.keys,
        parted,
        parts,
        shares[:, : len(parts)],
        lengths[:, : len(parts)],
        effects,
        controls,
        heads,
        removed,
        pairs,
        partial,
        sentences,
        shares[:, len(parts) :],
        sentence_effects,
        sentence_control,
    )


def _best_part(parts: Sequence[_Source], effects: Doubles, rest: str) -> int:
    """Return the index of the named part with the largest effect."""
    named = [one.name != rest or len(parts) == 1 for one in parts]
    return int(np.where(np.isnan(effects) | ~np.array(named), -np.inf, effects).argmax())


def _effect_of_removing(measured: "AnsweredPrompt", places: Sequence[int]) -> float:
    """Return how much less likely the answer is, in nats per token, if these tokens are removed from the text."""
    gone = set(places)
    shorter = measured.prompt.take([place for place in range(len(measured.prompt)) if place not in gone])
    return float((measured.plain - replace(measured, prompt=shorter).plain).mean())


class PairEffect(NamedTuple):
    """Two parts, by index, that are hidden together: their effect, and the largest effect of random spans."""

    first: int
    second: int
    effect: float
    most: float


def _pairs(
    measured: "AnsweredPrompt | MeasuredText",
    parts: Sequence[_Source],
    effects: Doubles,
    controls: Doubles,
    draws: int,
    rest: str = REST,
) -> list[PairEffect]:
    """Hide parts in pairs if no part alone has more effect than random spans: two parts may say the same.

    Return the pairs with more effect than random spans as long as both parts together, and as long as either.
    """
    from attncli.effects.answer import control_effects, effects_of

    named = [number for number, one in enumerate(parts) if one.places and one.name != rest]
    alone = any(effects[number] > np.nanmax(controls[number], initial=ROUNDING) for number in named)
    if alone or not 2 <= len(named) <= PAIRED or not draws:
        return []
    found = []
    two = list(combinations(named, 2))
    with progress(len(two), "pairs") as advance:
        for first, second in two:
            places = sorted({*parts[first].places, *parts[second].places})
            [effect] = effects_of(measured, places)
            most = max(control_effects(measured, places, draws, effect), default=np.nan)
            shorter = (control_effects(measured, parts[one].places, draws, effect) for one in (first, second))
            if effect > np.nanmax([ROUNDING, most]) and all(drawn < effect for some in shorter for drawn in some):
                found.append(PairEffect(first, second, effect, most))
            advance()
    return sorted(found, key=lambda one: -one.effect)


# --- the result -----------------------------------------------------------------------------------------

OF_OUTPUT = (
    "share of attention: at the tokens that the output reads, without the weight on special tokens",
    "effect: how much the output falls (or moves, if it is a distance) if no other token sees the part; random: the "
    "same for random spans of the same length from the rest of the text, drawn until one has as large an effect",
)
MEANING = (
    "share of attention: at the positions that predicted the answer, without the first token, which is a sink (or "
    "without special tokens of an encoder's text)",
    "effect: how much less likely the answer is, in nats per token, if no other token sees the part; random: the same "
    "for random spans of the same length from the rest of the prompt, drawn until one has as large an effect",
)


class _ControlEntry(TypedDict):
    """Random spans of as many tokens from the rest of the prompt; null if it has no room for one."""

    mean: Annotated[float, "", "nats per token"]
    low: Annotated[float, "the smallest", "nats per token"]
    high: Annotated[float, "the largest", "nats per token"]
    count: Annotated[int, "how many"]


class _HeadWeight(TypedDict):
    """The three heads with the most weight on the part."""

    layer: int
    head: int
    weight: Annotated[float, "mean over the positions that predicted the answer", "share of the weight"]


class _SentenceEntry(TypedDict):
    """The sentences of a part; none if the parts are sentences."""

    text: str
    tokens: Annotated[int, "how many"]
    share: Annotated[
        float,
        "at the positions that predicted the answer",
        "share of the weight, without that on the first token (encoder: on special tokens)",
    ]
    effect: Annotated[
        float | None,
        "as for parts; only with `--sentences`, in the named part with the largest effect",
        "nats per token",
    ]


class _PartEntry(TypedDict):
    """The parts of the prompt, in order; without tags its sentences."""

    part: Annotated[str, "its name; (rest) is everything outside parts"]
    text: str
    tokens: Annotated[int, "how many, without the first token of the prompt (encoder: without special tokens)"]
    share: Annotated[
        float,
        "at the positions that predicted the answer",
        "share of the weight, without that on the first token (encoder: on special tokens)",
    ]
    length_share: Annotated[float, "its share of the length", "share of the tokens"]
    effect: Annotated[
        float | None, "how much less likely the answer is if no other token sees the part", "nats per token"
    ]
    control: _ControlEntry | None
    removed: NotRequired[
        Annotated[float | None, "the same with the part removed from the text (`--remove`)", "nats per token"]
    ]
    heads: list[_HeadWeight]
    sentences: list[_SentenceEntry]


class _UnitEntry(TypedDict):
    """With `--each`: the units of the answer."""

    text: str
    shares: Annotated[list[float], "of the attention at the positions that predicted the unit", "`[part]`"]
    effects: Annotated[list[float | None], "on the unit", "`[part]` of nats per token"]


class _PairEntry(TypedDict):
    """Pairs of parts that matter together, if no part matters alone."""

    parts: Annotated[list[str], "their names", "`[2]`"]
    effect: Annotated[float, "with both hidden", "nats per token"]
    high: Annotated[float | None, "the largest effect of a random span of as many tokens", "nats per token"]


class _AnswerEntry(TypedDict):
    text: str
    tokens: Annotated[int, "how many"]
    log_probability: Annotated[float, "mean over its tokens", "nats per token"]


class _AgreementEntry(TypedDict):
    """The rank correlation (Spearman's) of shares and effects over the parts; null for fewer than 3."""

    rho: Annotated[float, "", "-1 to 1"]
    low: Annotated[float, "lower end of the range of 95% of correlations with permuted effects", "-1 to 1"]
    high: Annotated[float, "its upper end", "-1 to 1"]
    count: Annotated[int, "number of parts"]


class SourcesDocument(TypedDict):
    """`.csv`: a row per entry of `parts`."""

    model: ModelDocument
    partial: Annotated[bool, "true if it was interrupted: missing numbers are null"]
    answer: NotRequired[Annotated[_AnswerEntry, "what the model wrote, or `--answer`"]]
    output: NotRequired[Annotated[OutputDocument, "the output measured instead, with an encoder or `--target`"]]
    parts: list[_PartEntry]
    agreement: _AgreementEntry | None
    pairs: list[_PairEntry]
    units: NotRequired[list[_UnitEntry]]
    verdict: Annotated[str, "in a sentence"]


@dataclass(frozen=True, repr=False)
class AnswerSources(Result):
    """The sources of an answer. The arrays have the answer as a whole first, then its units.

    value: the log-probability of the answer, mean over its tokens; or the value of the output. output: the measured
    output, if it is not an answer. tokens: of the prompt and a decoder's answer. shares, lengths, effects: `[unit,
    part]`. controls: `[part, draw]`. heads: by part (layer, head, weight). removed: `[part]`. sentences: of all parts.
    sentence_shares: `[unit, sentence]`. sentence_effects: likewise, with --sentences, of the named part with the
    largest effect. sentence_control: effects of random spans as long as its sentence with the largest effect.
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
    sentences: list[_Sentence]
    sentence_shares: Doubles
    sentence_effects: Doubles
    sentence_control: list[float]

    def __repr__(self) -> str:
        return titled(self, self.model.full_name, f"{len(self.parts)} parts", self.verdict)

    @property
    def _unit(self) -> str:
        """The unit of effects, to follow a number."""
        return " nats per token" if self.output is None else ""

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
        """The named part that the answer rests on, with its control; or that no part alone beats chance."""
        effects, best = self.effects[0], _best_part(self.parts, self.effects[0], self.prompt.rest)
        drawn = self._drawn(best)
        if not np.isfinite(effects[best]):
            return "no effect was measured"
        if len(drawn) == 0:
            return f"hiding {self._named(best)} costs {effects[best]:.2f}{self._unit}; there is no control"
        control = f"{len(drawn)} random spans of the same length: {drawn.min():.2f} to {drawn.max():.2f}"
        if len(drawn) == 1:
            control = f"a random span of the same length: {drawn[0]:.2f}"
        if effects[best] > max(drawn.max(), ROUNDING):
            return (
                f"{self._subject} rests on {self._named(best)} (effect {effects[best]:.2f}{self._unit}; {control})"
                f"{self._about_sentences()}"
            )
        if self.pairs:
            pair = self.pairs[0]
            names = f"{self._named(pair.first)} and {self._named(pair.second)}"
            drawn_most = "no room for random spans" if np.isnan(pair.most) else f"random spans: up to {pair.most:.2f}"
            return (
                f"no part alone has more effect than random spans, but {names} together do (effect {pair.effect:.2f}"
                f"{self._unit}; {drawn_most}): either of them is enough"
            )
        return (
            f"no part alone has more effect than random spans of its length: {self._named(best)} has the largest, "
            f"{effects[best]:.2f}{self._unit}; {control}"
        )

    def _about_sentences(self) -> str:
        """Name the sentence that the answer mostly rests on, if its effect is above that of random spans."""
        effects = np.nan_to_num(self.sentence_effects[0], nan=-np.inf)
        if not len(self.sentence_control) or effects.max() <= max(ROUNDING, *self.sentence_control):
            return ""
        one = self.sentences[int(effects.argmax())]
        text = shorten(" ".join(self.prompt.text[one.start : one.end].split()), LONGEST_SENTENCE)
        control = (
            f"{len(self.sentence_control)} random spans of the same length: up to {max(self.sentence_control):.2f}"
        )
        return f', mostly on "{printable(text)}" ({effects.max():.2f}; {control})'

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
                "effect": _none_if_nan(self.effects[0, number]),
                "control": control,
                "heads": [
                    {"layer": layer, "head": head, "weight": weight} for layer, head, weight in self.heads[number]
                ],
                "sentences": [
                    {
                        "text": self.prompt.text[sentence.start : sentence.end],
                        "tokens": len(sentence.places),
                        "share": float(self.sentence_shares[0, place]),
                        "effect": _none_if_nan(self.sentence_effects[0, place]),
                    }
                    for place, sentence in enumerate(self.sentences)
                    if sentence.part == number
                ],
            }
            if self.removed is not None:
                entry["removed"] = _none_if_nan(self.removed[number])
            entries.append(entry)
        found, names = self.agreement, [one.name for one in self.parts]
        whole = self.answer[0]
        measured: SourcesDocument = {
            "model": self.model.document(),
            "partial": self.partial,
            "parts": entries,
            "agreement": None if found is None else cast("_AgreementEntry", dict(vars(found))),
            "pairs": [
                {"parts": [names[one.first], names[one.second]], "effect": one.effect, "high": _none_if_nan(one.most)}
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
                    "effects": [_none_if_nan(effect) for effect in self.effects[number]],
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
            Column("tokens", drop=3),
            Column("share of attention"),
            Column("share of length"),
            Column("effect"),
            Column("random: mean", drop=2),
            Column("random: least", drop=4),
            Column("random: most"),
            *([Column("effect if removed")] if self.removed is not None else []),
            Column("heads with most weight", "name", drop=1),
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
                Column("unit of the answer", "name"), Column("most attention", "name"), Column("its share"),
                Column("largest effect", "name"), Column("its effect"),
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
            partial=self.partial,
            verdict=self.verdict,
        )

    def _prompt(self, verdicts: Sequence[str]) -> PromptAndAnswer:
        """Return the prompt with its parts shaded, and the answer."""
        pieces = [
            PromptPiece(one.part, number, self.prompt.text[one.start : one.end])
            for number, one in enumerate(self.sentences)
        ] or [PromptPiece(number, None, f"{one.text} ") for number, one in enumerate(self.parts)]
        answer = [
            AnswerPiece(
                one.text,
                self.shares[number].tolist(),
                [_none_if_nan(effect) for effect in self.effects[number]],
                self.sentence_shares[number].tolist(),
                [_none_if_nan(effect) for effect in self.sentence_effects[number]],
            )
            for number, one in enumerate(self.answer)
        ]
        facts = []
        for number, one in enumerate(self.parts):
            tokens, share, length, effect, mean, least, most, *_, heads = self._cells(number)
            control = {0: "no random spans", 1: f"a random span {mean}"}.get(
                len(self._drawn(number)), f"random spans {mean}, from {least} to {most}"
            )
            facts.append(
                [
                    f"{one.name}: {tokens} tokens, {share} of the attention ({length} of the length).",
                    f"Effect {effect}{self._unit}; {control}.",
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
        random = [random[0], "", ""] if len(drawn) == 1 else random  # one span has no range
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
        """Compare the ranking of the parts by attention with that by effects."""
        found = self.agreement
        if found is None:
            return []
        first = self._named(int(self.shares[0].argmax()))
        second = self._named(int(np.nan_to_num(self.effects[0], nan=-np.inf).argmax()))
        same = f"{first} gets the most attention and has the largest effect"
        apart = f"{first} gets the most attention, {second} has the largest effect"
        return [
            f"{same if first == second else apart}. Rank correlation (Spearman) {found.rho:+.2f} over {found.count} "
            f"parts; permuted effects give {found.low:+.2f} to {found.high:+.2f}"
        ]

    def _named(self, number: int) -> str:
        """Return the name of a part in a sentence; "part 1" for a sentence of a prompt without tags."""
        name = self.parts[number].name
        return f"part {name}" if name.isdigit() else name

    def _bars(self) -> ShareBars:
        """Return a bar per part for its effect, with a mark at the largest of its random spans."""
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
            drop_order=(3, 2, 1),
            notes=[
                f"bar: effect{self._unit and f' in{self._unit}'}; mark: the largest of random spans of the same length",
                self.verdict,
            ],
            title=[
                model_name(self.model.full_name),
                f"{self._subject}: {shorten(self.answer[0].text.strip(), BEGINNING)}",
            ],
            most=largest,
        )


def _none_if_nan(number: float) -> float | None:
    return None if np.isnan(number) else float(number)
