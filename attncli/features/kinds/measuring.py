"""Measure what every head does: on random tokens from a seed, on texts, on a needle in a text, and when it is silenced.

Random tokens have no content, so a head reacts only to their positions and repeats.
"""

import copy
import itertools
import math
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from attncli.analysis.edges import first_is_sink
from attncli.analysis.kinds import (
    COPIES,
    DISTANCES,
    FEEDS,
    FEWEST,
    FINDS,
    IDLE,
    KINDS,
    MOVES,
    RETRIEVES,
    SHARE,
    Judged,
    KindMeasure,
    content_shift,
    exclude_labelled,
    mean_at,
    mean_received,
    offset_samples,
)
from attncli.analysis.patterns import summarise
from attncli.base.arrays import Array, Doubles, Ints
from attncli.base.errors import RequestError, no_notices
from attncli.base.progress import progress
from attncli.corpus.reducer import corpus_statistics
from attncli.corpus.running import Workplace
from attncli.corpus.statistics import Statistics
from attncli.corpus.treebank import TreeSentence, words_of
from attncli.corpus.usual import lines
from attncli.features.corpora import show_counts
from attncli.features.kinds import HeadKinds, SilencingEffect
from attncli.features.probe.counting import probe_treebank
from attncli.features.probe.tally import DIRECTIONS, FEWEST_LISTED, Tally, word_maps
from attncli.models.block import Block, Tap
from attncli.models.devices import InTorch
from attncli.models.engine import Engine, require_tapped
from attncli.models.generation import Sampling, next_output, prompt_tokens, write
from attncli.models.model import Model, own_network
from attncli.models.parts import self_attention_kind, self_attention_part
from attncli.models.taps import transformed_lengths
from attncli.models.transformers_engine import TransformersModel
from attncli.models.weights import Checkpoint, TensorFile
from attncli.record import AttentionRecord, Request
from attncli.text.samples import find_sample
from attncli.text.tokenizer import between
from attncli.text.tokens import Tokens, unknown_name

DRAWS, HALF = 12, 20  # sequences of random tokens, and the tokens of each that are repeated
LEAST_HALF = max(DISTANCES) + 2  # tokens of a half that fit all distances
_Advance = Callable[[], None]
T = TypeVar("T")
_Head = tuple[int, int]  # (layer, head)

# --- random tokens --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Draws:
    """Sequences of random tokens: the same half twice (`repeated`), and this half followed by another (`other`).

    first: the position of the first random token, after the tokens that the tokenizer adds. half: the number of tokens
    in a half.
    """

    repeated: Sequence[Tokens]
    other: Sequence[Tokens]
    first: int
    half: int

    @classmethod
    def of(cls, model: Engine, seed: int) -> "Draws":
        """Raises RequestError for a model with too few positions, or too small a vocabulary."""
        tokenizer = model.tokenizer
        frame = tokenizer.encode("a")
        places = between(frame)
        head, tail = frame.take(range(places.start)), frame.take(range(places.stop, len(frame)))
        ids = {*tokenizer.backend.get_vocab().values()} - tokenizer.special_ids
        ordinary = sorted(number for number in ids if number < tokenizer.vocab_size)
        half = min(HALF, (tokenizer.max_tokens - len(head) - len(tail)) // 2, len(ordinary) // 2)
        if half < LEAST_HALF:
            need = f"a text needs {2 * LEAST_HALF} different tokens, and {model.place.name} has room for"
            raise RequestError(f"{need} {max(2 * half, 0)}")

        def made(ids: Sequence[int]) -> Tokens:
            return tokenizer.extend(head, ids).joined(tail)

        draw = np.random.default_rng(seed)
        drawn = [draw.choice(ordinary, 2 * half, replace=False).tolist() for _ in range(DRAWS)]
        return cls([made(one[:half] * 2) for one in drawn], list(map(made, drawn)), len(head), half)

    @property
    def every(self) -> range:
        """The positions of all random tokens."""
        return range(self.first, self.first + 2 * self.half)

    @property
    def second(self) -> range:
        """The positions of the second half."""
        return self.every[self.half :]

    def prefix(self, weights: Array) -> Doubles:
        """Return the mean weight from the second half to the token after the same one in the first half."""
        return mean_at(weights, self.second[:-1], 1 - self.half)


def on_random_tokens(model: Engine, draws: Draws, advance: _Advance) -> dict[str, KindMeasure]:
    """Return the measures of kinds that show on random tokens, by the names of the kinds."""
    samples: dict[str, list[tuple[Doubles, Doubles]]] = {}
    profiles, maps = [], []
    inner = draws.every[max(DISTANCES) : -max(DISTANCES)]
    for repeated, other in zip(draws.repeated, draws.other, strict=True):
        again, once = model.attend_tokens([repeated, other])
        allowed = once.masks / np.maximum(once.masks.sum(axis=-1, keepdims=True), 1)
        chance = np.broadcast_to(allowed[:, None], once.weights.shape)  # uniform attention
        for name, shift in (("self", 0), ("previous", -1), ("next", 1)):
            pair = (mean_at(once.weights, draws.every[1:-1], shift), mean_at(chance, draws.every[1:-1], shift))
            samples.setdefault(name, []).append(pair)
        later = list(draws.every[1:])
        samples.setdefault("sink", []).append(
            (once.weights[:, :, later, 0].mean(axis=-1), chance[:, :, later, 0].mean(axis=-1))
        )
        samples.setdefault("duplicate", []).append(
            (mean_at(again.weights, draws.second, -draws.half), mean_at(once.weights, draws.second, -draws.half))
        )
        samples.setdefault("induction", []).append((draws.prefix(again.weights), draws.prefix(once.weights)))
        profiles.append([mean_at(once.weights, inner, shift) for shift in DISTANCES])
        maps.append(once.weights[:, :, list(draws.every)])
        advance()
    made = {}
    for name, pairs in samples.items():
        scores, nulls = map(np.array, zip(*pairs, strict=True))
        made[name] = KindMeasure.of("random tokens", scores, nulls, SHARE)
    scores, nulls = offset_samples(np.array(profiles))
    made["offset"] = KindMeasure.of("random tokens", scores, nulls, SHARE)
    content = content_shift(np.array(maps))
    made["content"] = KindMeasure.of("random tokens", content, np.zeros_like(content), MOVES)
    return made


SHUFFLES = 4  # random orders of the tokens of a text


def on_samples(
    model: InTorch, seed: int, advance: _Advance
) -> tuple[dict[str, KindMeasure], dict[str, dict[str, Doubles]]]:
    """Return the measures of the sample texts, and further numbers of every head, both by the names of kinds."""
    idle, values, lengths = [], [], []
    same: list[Doubles] = []  # a score and its null, each
    elsewhere: list[Doubles] = []
    draw = np.random.default_rng(seed)
    for tokens in sample_tokens(model):
        additions = Additions.of(model, tokens)
        idle.append(1 - additions.sizes())
        values.append(additions.value_length(np.zeros((model.layers, model.heads), dtype=np.int64)))
        [record] = model.attend_tokens([tokens])
        summaries = summarise(record)
        pairs = [(one.shares["same_word"], one.alike["same_word"]) for one in summaries.values()]
        if any(null for _, null in pairs):
            same.append(np.array(pairs).T.reshape(2, model.layers, model.heads))
        later = strongest_later(model, record, draw)
        if later is not None:
            elsewhere.append(np.array(later[:2]))
            lengths.append(additions.value_length(later[2]))
        advance()
    measures = {"idle": KindMeasure.of("sizes", np.array(idle), np.zeros_like(idle), IDLE)}
    beside = {"sink": {"first value": np.mean(values, axis=0)}}
    if len(lengths) >= FEWEST:
        beside["sink elsewhere"] = {"later value": np.mean(lengths, axis=0)}
    for name, samples in (("same word", same), ("sink elsewhere", elsewhere)):
        if len(samples) >= FEWEST:
            scores, nulls = np.array(samples).swapaxes(0, 1)
            measures[name] = KindMeasure.of("texts", scores, nulls, SHARE)
    return measures, beside


def strongest_later(
    model: Engine, record: AttentionRecord, draw: np.random.Generator
) -> tuple[Doubles, Doubles, Ints] | None:
    """Return the weight on the strongest token but the first, its null, and its place, `[layer, head]` each.

    The weight is the mean over the other queries. Even queries choose the token, and odd ones measure it. At least half
    of the queries must see it; return None if there is no such token. The null is its weight with all such tokens in
    random order, which is due to the token itself and not to its position.
    """
    masks = record.masks & ~np.eye(len(record.tokens), dtype=bool)
    able = np.flatnonzero((2 * masks.sum(axis=-2) >= len(record.tokens) - 1).all(axis=0))
    able = able[able > record.tokens.first]
    if not len(able):
        return None
    queries = np.arange(len(record.tokens))[:, None] % 2 == 0
    place = able[mean_received(record.weights, masks & queries)[..., able].argmax(axis=-1)]
    share = np.take_along_axis(mean_received(record.weights, masks & ~queries), place[..., None], axis=-1)[..., 0]
    nulls = []
    for _ in range(SHUFFLES):
        order = np.arange(len(record.tokens))
        order[able] = draw.permutation(able)
        [shuffled] = model.attend_tokens([model.ready(record.tokens.take(order))])
        now = order.argsort()[place]
        nulls.append(np.take_along_axis(mean_received(shuffled.weights, masks), now[..., None], axis=-1)[..., 0])
    return share, np.mean(nulls, axis=0), place


def sample_tokens(model: Engine) -> list[Tokens]:
    """Return the tokens of the sample texts, ready for the model (an encoder-decoder also needs an output text)."""
    with no_notices():  # if a sample text is cut
        return [model.ready(model.tokenizer.encode(text)) for text in lines()]


# --- what heads add -------------------------------------------------------------------------------------


class Additions(Tap):
    """Keeps what heads add to the tokens of one text: their outputs, output projections, and lengths of values.

    kept: by layer, `[head, query, head_dim]`, `[hidden_size, head, head_dim]`, `[head, key]`.
    """

    def __init__(self) -> None:
        self.kept: dict[int, tuple[Tensor, Tensor, Tensor]] = {}
        self.lengths: Tensor | None = None

    def begin(self, block: Block) -> Block:
        self.lengths = transformed_lengths(block)[0]
        return block

    def output(self, block: Block, output: Array) -> Array:
        assert self.lengths is not None
        self.kept[block.layer] = output[0].clone(), block.projection(), self.lengths
        return output

    @classmethod
    def of(cls, model: InTorch, tokens: Tokens) -> "Additions":
        made = cls()
        with torch.no_grad():
            model.last_hidden([tokens], taps=[made])
        return made

    def sizes(self) -> Doubles:
        """Return the mean norm of what each head adds, divided by the median over the heads of the model."""
        norms = [
            torch.einsum("hqd,ohd->hqo", *self.kept[layer][:2]).norm(dim=-1).mean(-1) for layer in sorted(self.kept)
        ]
        found = torch.stack(norms).double().cpu().numpy()
        return found / np.median(found)

    def value_length(self, place: Ints) -> Doubles:
        """Return the length of a token's transformed value, divided by the mean of the others'.

        place: of the token, by `[layer, head]`.
        """
        every = torch.stack([self.kept[layer][2] for layer in sorted(self.kept)]).double().cpu().numpy()
        one = np.take_along_axis(every, place[..., None], axis=-1)[..., 0]
        return one / ((every.sum(axis=-1) - one) / (every.shape[-1] - 1))


class Leaves(Tap):
    """Detaches the heads' outputs from their inputs, so that gradients end there. kept: the outputs by layer."""

    def __init__(self) -> None:
        self.kept: dict[int, Tensor] = {}

    def output(self, block: Block, output: Array) -> Array:
        self.kept[block.layer] = output.detach().requires_grad_()
        return self.kept[block.layer]


@contextmanager
def constant_parts(model: InTorch) -> Iterator[None]:
    """Block gradients in feed-forward parts, and pass them where heads' outputs are added, scaled or normalised."""
    if (own := own_network(model)) is not None:
        own.need(own.layers)
        parts: list[nn.Module] = [own.network.layer(number).feed_forward for number in range(own.layers)]
    else:
        theirs = cast("TransformersModel", model)
        after_heads = set(map(id, theirs.places.projections.values()))
        modules: Iterator[nn.Module] = theirs.network.modules()
        with_matrix = (one for one in modules if any(part.dim() > 1 for part in one.parameters(recurse=False)))
        parts = [one for one in with_matrix if id(one) not in after_heads]

    def detach(_module: nn.Module, _inputs: Any, output: Any) -> Any:
        return tuple(map(detached, output)) if isinstance(output, tuple) else detached(output)

    def detached(one: Any) -> Any:
        return one.detach() if isinstance(one, Tensor) else one

    hooks = [part.register_forward_hook(detach) for part in parts]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def direct_effects(
    model: InTorch, tokens: Tokens, places: Sequence[int], wanted: Sequence[Tensor], others: Tensor
) -> list[Doubles]:
    """Return each head's direct effect on logits, to first order, `[layer, head, place]`, for each tensor of ids.

    The effect is the derivative of the logit of the id minus the mean logit of `others`, with respect to the head's
    output at this position, times this output (Elhage et al. 2021). The direct path leads through W_O, the sums and
    norms of later layers and the final norm, by their Jacobians. Outputs of other heads and feed-forward parts are
    constant.

    Raises RequestError for a network that has no such path.
    """
    leaves = Leaves()
    with torch.enable_grad():
        with constant_parts(model):
            [last] = model.last_hidden([tokens], taps=[leaves])
        [logits] = next_output(model)([last[list(places)]], [tokens.take(places)])
        outputs = [leaves.kept[layer] for layer in sorted(leaves.kept)]
        found = []
        for ids in wanted:
            raised = logits.gather(1, ids[:, None])[:, 0] - logits[:, others].mean(dim=1)
            slopes = torch.autograd.grad(raised.sum(), outputs, retain_graph=True, allow_unused=True)
            if any(slope is None for slope in slopes):
                raise RequestError(
                    f"{model.place.name} changes the heads' outputs before W_O, so copying can't be measured"
                )
            effects = [
                (slope * output)[0, :, list(places)].sum(-1) for slope, output in zip(slopes, outputs, strict=True)
            ]
            found.append(torch.stack(effects).detach().double().cpu().numpy())
    return found


def copying(model: InTorch, draws: Draws, advance: _Advance) -> KindMeasure:
    """Return the share of tokens that a head copies: it directly raises the logit of what followed the same token.

    The logit is compared with the mean logit of the sequence's tokens. The null is the same for another token of the
    sequence.
    """
    samples = []
    places = list(draws.second[:-1])
    for tokens in draws.repeated:
        following = torch.tensor([tokens.ids[place + 1] for place in places], device=model.device)
        wanted = (following, following.roll(draws.half // 2))
        samples.append([(one > 0).mean(axis=-1) for one in direct_effects(model, tokens, places, wanted, following)])
        advance()
    made = np.array(samples)
    return KindMeasure.of("copying", made[:, 0], made[:, 1], COPIES)


# --- the needle -----------------------------------------------------------------------------------------

NEEDLES = (
    ("baker", "Anna", "key", "yellow teapot"),
    ("sailor", "Peter", "ring", "old piano"),
    ("teacher", "Maria", "letter", "green drawer"),
    ("farmer", "Tom", "map", "broken clock"),
    ("painter", "Clara", "coin", "wooden shoe"),
    ("driver", "Hugo", "ticket", "red umbrella"),
    ("nurse", "Ida", "photo", "blue vase"),
    ("doctor", "Leon", "diary", "iron stove"),
)
ANSWER = 8  # tokens of the model's answer about a needle
LEAST_COPIED = 10  # tokens that the model has to copy at least, over all needles
FURTHER = 2  # distance of the null's position from the copied token


@dataclass(frozen=True)
class Needle:
    """A text with a needle and the beginning of the model's answer: the tokens that it copies from the needle.

    text: all tokens except the last copied one. sources: for each copied token its positions in the needle. first_row:
    the position that predicts the first copied token.
    """

    text: Tokens
    copied: Sequence[int]
    sources: Sequence[Sequence[int]]
    first_row: int


def needles(model: InTorch, advance: _Advance) -> list[Needle]:
    """Let the model answer questions about needles. Raises RequestError if it does not copy them, or has too few
    positions.
    """
    next_output(model)
    sentences = [f"{one}." for one in find_sample("paragraph.txt").text.strip().split(". ")[:4]]
    found = []
    for number, (trade, name, thing, where) in enumerate(NEEDLES):
        needle, place = f"The {trade} {name} keeps the {thing} in the {where}.", 1 + number % len(sentences)
        text = " ".join([*sentences[:place], needle, *sentences[place:]])
        prompt = f"{text}\nQuestion: Where is the {thing} of {name}?\nAnswer: The {thing} of {name} is"
        room = model.tokenizer.max_tokens - len(model.tokenizer.tokenize(prompt))
        if room < ANSWER:
            raise RequestError(f"{model.place.name} has {model.tokenizer.max_tokens} positions, too few for a needle")
        tokens = prompt_tokens(model, prompt)
        begin = text.index(needle)
        inside = [at for at, (start, stop) in enumerate(tokens.offsets) if begin < stop <= begin + len(needle)]
        copied: list[int] = []
        for step in write(model, tokens, Sampling(max_tokens=ANSWER)):
            if step.token not in [tokens.ids[at] for at in inside]:
                break
            copied.append(step.token)
        if copied:
            sources = [[at for at in inside if tokens.ids[at] == one] for one in copied]
            found.append(Needle(model.tokenizer.extend(tokens, copied[:-1]), copied, sources, len(tokens) - 1))
        advance()
    count = sum(len(one.copied) for one in found)
    if count < LEAST_COPIED:
        raise RequestError(
            f"{model.place.name} copies {count} tokens of {len(NEEDLES)} needles, and {LEAST_COPIED} are needed"
        )
    return found


def retrieval(model: Engine, found: Sequence[Needle]) -> KindMeasure:
    """Return how often a head's strongest key is the copied token in the needle (Wu et al. 2024, section 2).

    The null is the position two tokens further on. The intervals are Wilson's, which treat tokens as independent.
    """
    hits, count = np.zeros((2, model.layers, model.heads), dtype=np.int64), 0
    for one in found:
        [record] = model.attend_tokens([one.text])
        for number, sources in enumerate(one.sources):
            strongest = record.weights[:, :, one.first_row + number].argmax(axis=-1)
            hits += [np.isin(strongest, np.array(sources) + shift) for shift in (0, FURTHER)]
            count += 1
    return KindMeasure.of_counts("needle", hits[0], count, hits[1] / count, RETRIEVES)


# --- annotated sentences --------------------------------------------------------------------------------

MENTIONS = "mentions.txt"


@dataclass(frozen=True)
class Mentions:
    """A sentence's tokens, and for each word the number of the person or thing it mentions, or None.

    units: for each word, its unit among the tokens.
    """

    tokens: Tokens
    entities: Sequence[int | None]
    units: Sequence[int]

    @classmethod
    def read(cls, line: str, model: Engine) -> "Mentions":
        """Read a line such as "The dog[1] saw a cat[2] and chased it[2]."."""
        text, numbers = re.sub(r"\[\d+\]", "", line), re.findall(r"(?:\w+|[^\w\s\[\]])(?:\[(\d+)\])?", line)
        spans = [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]
        words = [text[start:end] for start, end in spans]
        sentence = TreeSentence(words, [None] * len(words), [""] * len(words), text=text, spans=spans)
        found = words_of(model.tokenizer.tokenize(text), sentence)
        if found is None or len(found[0]) > model.tokenizer.max_tokens or any(map(unknown_name, found[0].text)):
            raise RequestError("its tokenizer does not know all words of the annotated sentences, which are English")
        entities = [int(number) if number else None for number in numbers]
        return cls(model.ready(found[0]), entities, found[1].units)

    def words_to_resolve(self, sink: bool) -> Iterator[tuple[int, list[int], list[int]]]:
        """Yield each word to resolve, the mentions before it, and two ranks of its entity.

        Its entity and at least one other were mentioned before. The ranks order the entities by their latest and by
        their first mention, for rules such as "the nearest". sink: omit the first word, because it is a sink.
        """
        for word, entity in enumerate(self.entities):
            before = [place for place in range(int(sink), word) if self.entities[place] is not None]
            nearest = list(dict.fromkeys(self.entities[place] for place in reversed(before)))
            first = list(dict.fromkeys(self.entities[place] for place in before))
            if entity is not None and entity in nearest and len(nearest) > 1:
                yield word, before, [nearest.index(entity), first.index(entity)]


def mentions(model: Engine) -> list[Mentions]:
    """Return the annotated sentences. Raises RequestError if the tokenizer does not know all their words."""
    return [Mentions.read(line, model) for line in find_sample(MENTIONS).text.splitlines()]


def coreference(model: Engine, sentences: Sequence[Mentions], advance: _Advance) -> KindMeasure:
    """Return how often the strongest mention before a word is of the same person or thing.

    After Clark et al. 2019, section 4.2. The null is the best rule that ignores words, such as always the nearest other
    mention, the second nearest, or the first. Score and null are over the same words and mentions. If the first word of
    a sentence is a sink (`word_maps`), as in a decoder, it is not counted as a mention.
    """
    hits, count, total = np.zeros((model.layers, model.heads), dtype=np.int64), 0, 0
    rules: Counter[tuple[int, int]] = Counter()
    for one in sentences:
        [record] = model.attend_tokens([one.tokens])
        maps, units = word_maps(record), np.array(one.units)
        total += len(list(one.words_to_resolve(sink=False)))
        for word, before, ranks in one.words_to_resolve(first_is_sink(record)):
            weights = maps[..., units[word], units[before]]
            strongest = np.array(before)[weights.argmax(axis=-1)]
            same = [place for place in before if one.entities[place] == one.entities[word]]
            hits += np.isin(strongest, same) & (weights.max(axis=-1) > 0)
            rules.update(enumerate(ranks))
            count += 1
        advance()
    null = np.full(hits.shape, max(rules.values()) / count)
    words = f"{count} words" if count == total else f"{count} of {total} words, without first words, which are sinks"
    return KindMeasure.of_counts(words, hits, count, null, FINDS)


def syntactic(found: Tally, shuffled: Tally) -> tuple[KindMeasure, dict[tuple[int, int], str]]:
    """Return how often a head finds the syntactic head of words in its best relation and direction, and this relation.

    The null is the best fixed distance of that relation. Raises RequestError if no relation has enough words.
    """
    relations = [name for name, count in found.counts.items() if count >= FEWEST_LISTED]
    if not relations:
        raise RequestError(f"the treebank has no relation with {FEWEST_LISTED} words")
    hits = np.stack([found.found_counts[name] for name in relations])  # [relation, layer, head, direction]
    counts = np.array([found.counts[name] for name in relations])
    null = np.array([found.offsets[name][found.best_offset(name)] for name in relations]) / counts
    above = hits / counts[:, None, None, None] - null[:, None, None, None]
    best, direction = np.divmod(np.moveaxis(above, 0, 2).reshape(*above.shape[1:3], -1).argmax(axis=-1), 2)
    layer, head = np.indices(best.shape)
    of = 2 * len(relations)
    chosen = hits[best, layer, head, direction]
    measure = KindMeasure.of_counts("treebank", chosen, counts[best], null[best], FINDS, of)
    floors = np.array([shuffled.found_counts[name].max() for name in relations]) / counts
    details = {
        (int(row), int(column)): f"{relations[best[row, column]]}, {DIRECTIONS[direction[row, column]]}"
        for row, column in zip(layer.ravel(), head.ravel(), strict=True)
    }
    return replace(measure, floor=floors[best]), details


# --- silencing heads -----------------------------------------------------------------------------------

FED = 6  # draws on which a head below induction heads is silenced
RANDOM = 3  # sets of random heads
MEASURED = 4  # draws, texts or needles on which an output is measured


def feeding(
    model: Engine, draws: Draws, previous: Sequence[_Head], induction: Sequence[_Head], seed: int, advance: _Advance
) -> KindMeasure:
    """Return the share of the induction heads' score that is lost without a head that looks at the previous token.

    The null is another head of the same layer, drawn at random. previous: heads in layers below the last induction
    head.
    """
    request = Request(layers=sorted({layer for layer, _ in induction}))

    def score(*silenced: _Head) -> Doubles:
        records = model.silencing([*model.silenced_heads, *silenced]).attend_tokens(draws.repeated[:FED], request)
        made = []
        for record in records:
            of_heads = draws.prefix(record.weights)
            made.append(np.mean([of_heads[record.layers.index(layer), head] for layer, head in induction]))
        return np.array(made)

    before, draw = score(), np.random.default_rng(seed)
    samples, nulls = np.full((2, FED, model.layers, model.heads), np.nan)
    for layer, head in previous:
        others = [one for one in range(model.heads) if (layer, one) not in [*previous, *induction]]
        samples[:, layer, head] = (before - score((layer, head))) / before
        nulls[:, layer, head] = (before - score((layer, int(draw.choice(others))))) / before if others else 0.0
        advance()
    return KindMeasure.of("without the head", samples, nulls, FEEDS, len(previous))


_Measurement = Callable[[Engine], float]


def outputs_for(model: InTorch, draws: Draws | None, found: Sequence[Needle]) -> dict[str, tuple[str, _Measurement]]:
    """Return the output to measure for each kind, as a name and a function; "" stands for all other kinds."""
    texts = sample_tokens(model)[:MEASURED]
    try:
        next_output(model)
    except RequestError:  # the model has no next-token output
        with torch.inference_mode():
            before = [x.double() for x in model.last_hidden(texts)]

        def distance(one: Engine) -> float:
            """Return the mean over tokens of ‖x' - x‖ / ‖x‖."""
            with torch.inference_mode():
                pairs = zip(before, one.last_hidden(texts), strict=True)
                return float(torch.cat([(new - x).norm(dim=-1) / x.norm(dim=-1) for x, new in pairs]).mean())

        return {"": ("distance that the last vectors move, as a share of their lengths", distance)}
    made: dict[str, tuple[str, _Measurement]] = {
        "": ("loss on texts, in nats", lambda one: _loss(one, [(text, range(1, len(text))) for text in texts]))
    }
    if draws is not None:
        repeats = [(text, draws.second[1:]) for text in draws.repeated[:MEASURED]]
        about = "loss on repeated tokens, in nats", lambda one: _loss(one, repeats)
        made |= dict.fromkeys(("induction", "feeds induction", "duplicate"), about)
    if found:
        some = [
            (model.tokenizer.extend(one.text, one.copied[-1:]), range(one.first_row + 1, len(one.text) + 1))
            for one in found[:MEASURED]
        ]
        made["retrieval"] = "loss on the tokens copied from the needle, in nats", lambda one: _loss(one, some)
    return made


def _loss(model: Engine, texts: Sequence[tuple[Tokens, Sequence[int]]]) -> float:
    """Return the mean loss at some positions of texts: -ln of the probability of the token, given those before."""
    assert isinstance(model, InTorch)
    tokens, places = [text for text, _ in texts], [list(some) for _, some in texts]
    with torch.inference_mode():
        rows = [[place - 1 for place in some] for some in places]
        logits = next_output(model)(model.last_hidden(tokens), tokens, rows)
        wanted = [torch.tensor([text.ids[place] for place in some], device=model.device) for text, some in texts]
        losses = [
            -one.double().log_softmax(dim=-1).gather(1, ids[:, None]) for one, ids in zip(logits, wanted, strict=True)
        ]
        return float(torch.cat(losses).mean())


# --- the same network with shuffled matrices ------------------------------------------------------------


class ShuffledFile:
    """The tensors of a file, with the entries of each matrix in random order."""

    def __init__(self, file: TensorFile, seed: int) -> None:
        self.file, self.seed = file, seed

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return dict(self.file.shapes())

    def read(self, name: str) -> Array:
        return shuffle_entries(self.file.read(name), name, self.seed)


def shuffle_entries(stored: Array, name: str, seed: int) -> Array:
    """Return a matrix with its entries in random order, seeded by its name and a seed. Vectors stay unchanged."""
    if len(stored.shape) < 2:
        return stored
    draw = torch.Generator().manual_seed(seed + zlib.crc32(name.encode()))
    order = torch.randperm(stored.numel(), generator=draw).to(stored.device)
    return stored.flatten()[order].view(stored.shape)


def shuffle_matrices(model: InTorch, seed: int) -> InTorch:
    """Return a copy of the model with the entries of each matrix in random order."""
    if (own := own_network(model)) is not None:
        checkpoint: Checkpoint = copy.copy(own.checkpoint)
        checkpoint.files = {name: (ShuffledFile(file, seed), ours) for name, (file, ours) in checkpoint.files.items()}
        return Model(own.place, own.config, own.tokenizer, checkpoint, own.sha256, own.device, own.dtype)
    theirs = cast("TransformersModel", model)
    network = copy.deepcopy(theirs.network)
    for name, parameter in network.named_parameters():
        parameter.copy_(shuffle_entries(parameter, name, seed))
    return TransformersModel(theirs.place, theirs.sha256, network, theirs.theirs).of_part(theirs.part)


# --- all kinds ------------------------------------------------------------------------------------------

SEED = 0  # of random tokens, shuffled matrices and random heads
ON_RANDOM = (
    "self", "previous", "next", "offset", "sink", "duplicate", "induction", "feeds induction", "content",
)  # kinds that random tokens show  # fmt: skip
ON_TEXTS = ("self", "previous", "next", "sink", "separator", "punctuation")


def measure_kinds(
    opened: Engine,
    statistics: Statistics,
    treebank: str | None = None,
    where: Workplace = Workplace(),
) -> HeadKinds:
    """Measure all kinds that the model can have.

    statistics: of texts, as in `stats`. treebank: the file for syntactic heads. where: the workers that count the
    treebank's sentences. In an encoder-decoder, the encoder is measured. Raises RequestError for a network that taps
    can't read.
    """
    model = require_tapped(opened, self_attention_part(opened, None))
    assert isinstance(model, InTorch)
    own = None
    if treebank is not None:  # first, so that an unreadable file ends the work early
        with show_counts("sentences", "words") as show:
            own = probe_treebank(model, [treebank], where=where, show=show).treebank
    why_not: dict[str, str] = {}

    def attempt(names: Sequence[str], make: Callable[[], T]) -> T | None:
        """Return what `make` returns; None, and note the reason for these kinds, if the model can't be measured."""
        try:
            return make()
        except RequestError as error:
            why_not.update(dict.fromkeys(names, str(error)))
            return None

    draws = attempt(ON_RANDOM, lambda: Draws.of(model, SEED))
    attempt(["induction", "feeds induction", "retrieval"], lambda: next_output(model))
    if statistics.texts < FEWEST:
        why_not.update(dict.fromkeys(ON_TEXTS, f"it needs {FEWEST} texts, and there are {statistics.texts}"))
    if model.usual_mask(None) == "causal":
        why_not["next"] = "a decoder does not see the next token"
    if not any(statistics.uniform(layer, "separator") for layer in range(model.layers)):
        why_not.setdefault("separator", "the tokenizer adds no token after the first")
    sentences = attempt(["coreference"], lambda: mentions(model)) or []
    measures, beside = _measure(model, statistics, draws, sentences, "induction" not in why_not)
    if "same word" not in measures:
        why_not["same word"] = "too few of the sample texts have a word twice"
    if "sink elsewhere" not in measures:
        why_not["sink elsewhere"] = "no token after the first is visible to half of the tokens"

    shuffled = shuffle_matrices(model, SEED)
    with no_notices():  # they would repeat those of the model itself
        floors, _ = _measure(shuffled, corpus_statistics(shuffled, lines()), draws, sentences, False)
    for name, some in measures.items():  # copying has no floor
        by_name = {one.name: one for one in floors.get(name, [])}
        measures[name] = [one.with_floor(by_name[one.name]) if one.name in by_name else one for one in some]
    for one in measures.get("content", []):
        assert one.floor is not None
        measures["content"] = [replace(one, null=one.floor)]

    details: dict[_Head, str] = {}
    if own is None or treebank is None:
        why_not["syntactic"] = "no treebank was given (--treebank FILE)"
    else:
        with no_notices():  # workers and saved sums use the unshuffled model
            floor = probe_treebank(shuffled, [treebank]).treebank
        if syntax := attempt(["syntactic"], lambda: syntactic(own.tally, floor.tally)):
            measures["syntactic"], details = [syntax[0]], syntax[1]
    found = None
    if "retrieval" not in why_not:
        with progress(len(NEEDLES), "needles") as advance:
            found = attempt(["retrieval"], lambda: needles(model, advance))
        if found:
            measures["retrieval"] = [retrieval(model, found)]

    def judge(name: str) -> Judged:
        if name in why_not:
            return Judged(KINDS[name], why_not=why_not[name])
        of_heads = details if name == "syntactic" else {}
        return Judged(KINDS[name], measures[name], beside=beside.get(name, {}), details=of_heads)

    if draws is not None and "feeds induction" not in why_not:
        previous, induction = (judge(name).heads for name in ("previous", "induction"))
        before = [one for one in previous if induction and one[0] < max(induction)[0]]
        if before:
            with progress(len(before), "previous heads") as advance:
                measures["feeds induction"] = [feeding(model, draws, before, induction, SEED, advance)]
        else:
            why_not["feeds induction"] = "no head with the label previous is below an induction head"
    judged = exclude_labelled(list(map(judge, KINDS)))
    about_treebank = []
    if own:
        if own.tally.skipped:
            about = f"{own.path}: {own.tally.sentences} of {own.tally.sentence_total} sentences are read"
            about_treebank.append(about)
        about_treebank += own.notes
    return HeadKinds(
        statistics.model,
        statistics.texts,
        statistics.tokens,
        statistics.partial,
        judged,
        _silencing_effects(model, judged, draws, found or []),
        [part for part in opened.parts if part != self_attention_kind(opened, None)],
        about_treebank,
    )


def _measure(
    model: InTorch,
    statistics: Statistics,
    draws: Draws | None,
    sentences: Sequence[Mentions],
    writes: bool,
) -> tuple[dict[str, list[KindMeasure]], dict[str, dict[str, Doubles]]]:
    """Return the measures and further numbers of every head, both by the names of kinds.

    writes: whether copying is measured, which needs logits.
    """
    with progress(len(lines()), "texts") as advance:
        on_some, beside = on_samples(model, SEED, advance)
    measures = {name: [one] for name, one in on_some.items()}
    if statistics.texts >= FEWEST:
        figures = {"sink": "first"} | {name: name for name in ("self", "previous", "next", "separator", "punctuation")}
        for kind, figure in figures.items():
            chance = np.array([[statistics.uniform(layer, figure) or 0.0] for layer in range(statistics.model.layers)])
            place = statistics.figure(figure), statistics.spread_of(figure)
            measures[kind] = [KindMeasure.of_texts("texts", *place, statistics.texts, chance, SHARE)]
    if draws is not None:
        with progress(len(draws.repeated), "random tokens") as advance:
            for name, one in on_random_tokens(model, draws, advance).items():
                measures.setdefault(name, []).append(one)
        if writes:
            with progress(len(draws.repeated), "copying") as advance:
                measures["induction"].append(copying(model, draws, advance))
            beside["induction"] = {"copying": measures["induction"][1].score}
    if sentences:
        with progress(len(sentences), "mentions") as advance:
            measures["coreference"] = [coreference(model, sentences, advance)]
    return measures, beside


def _silencing_effects(
    model: InTorch, judged: Sequence[Judged], draws: Draws | None, found: Sequence[Needle]
) -> dict[str, SilencingEffect]:
    """Measure what silencing the heads of each kind does, compared with random heads."""
    there = [one for one in judged if one.heads and one.kind.name != "content"]
    outputs = outputs_for(model, draws, found)
    before: dict[str, float] = {}
    made = {}
    with progress(len(there) * (1 + RANDOM), "silenced heads") as advance:
        for one in there:
            about, measure = outputs.get(one.kind.name, outputs[""])
            if about not in before:
                before[about] = measure(model)
            made[one.kind.name] = measure_silencing(model, one, (about, measure), before[about], SEED, advance)
    return made


def measure_silencing(
    model: InTorch, judged: Judged, output: tuple[str, _Measurement], before: float, seed: int, advance: _Advance
) -> SilencingEffect:
    """Silence the heads of a kind, and RANDOM sets of as many other heads. before: the output without a change.

    If there are fewer others, all of them are silenced, and of the kind only as many, the clearest ones.
    """
    name, measure = output

    def effect(some: Sequence[_Head]) -> float:
        advance()
        return measure(model.silencing([*model.silenced_heads, *some])) - before

    others = [one for one in itertools.product(range(model.layers), range(model.heads)) if one not in judged.heads]
    heads = judged.heads[: len(others) or None]
    draw = np.random.default_rng(seed)
    count = min(RANDOM, math.comb(len(others), len(heads)))  # number of sets: 0 without other heads
    sets = [draw.permutation(len(others))[: len(heads)] for _ in range(count)]
    random = [effect([others[place] for place in some]) for some in sets]
    return SilencingEffect(name, len(heads), effect(heads), random)
