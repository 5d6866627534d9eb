"""Write text with a decoder, token by token.

    tokens ──► walk ──► last vector ──► next token ──┐
                 ▲                                    │
                 └── the new token alone, with the keys and values of all before it

A new token needs the past only through attention. So a tap caches the keys and values of every layer, and puts them
before those of the new token (`KeysAndValues`). Networks of transformers read the whole text again at each step.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from attncli.base.errors import RequestError
from attncli.models.block import Block, Tap
from attncli.models.checkpoint_files import CONFIG_FILE, GENERATION_FILE, Place
from attncli.models.config import read_config
from attncli.models.devices import InTorch
from attncli.models.model import Model
from attncli.models.output import Output
from attncli.models.taken import read_by
from attncli.models.transformers_engine import TransformersModel
from attncli.record import AttentionRecord
from attncli.record.display import in_stretches
from attncli.record.grouping import axes_of, first_unit
from attncli.record.parts import Answer, PredictionSummary
from attncli.record.selection import TOKENS, Grouping
from attncli.text.tokenizer import Tokenizer
from attncli.text.tokens import Tokens

LIKELY = 5  # next tokens whose probabilities are kept for each step


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen: the most likely one, or a draw from the smallest set whose probabilities sum to top_p.

    temperature: a divisor of the logits before a draw. Source of top_p: Holtzman et al. 2020, section 3.1.
    """

    max_tokens: int = 50
    sample: bool = False
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int = 0


class Step(NamedTuple):
    """One step of writing: the token chosen, its probability, and the most likely ones with theirs, the best first.

    Probabilities are the model's own, before temperature and top_p. ends: the token ends the text.
    """

    token: int
    probability: float
    likely: list[tuple[int, float]]
    ends: bool


class KeysAndValues(Tap):
    """Caches keys and values of every layer, and puts them before those of the new tokens.

    most: the number of tokens that fit. kept: the number of tokens that have passed all layers. by_layer: keys and
    values `[text, head, most, head_dim]`.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.kept = 0
        self.by_layer: dict[int, tuple[Tensor, Tensor]] = {}

    def begin(self, block: Block) -> Block:
        new = slice(self.kept, self.kept + block.key.shape[2])
        if block.layer not in self.by_layer:
            shapes = [(*one.shape[:2], self.most, one.shape[-1]) for one in (block.key, block.value)]
            self.by_layer[block.layer] = block.key.new_empty(shapes[0]), block.value.new_empty(shapes[1])
        keys, values = self.by_layer[block.layer]
        keys[:, :, new], values[:, :, new] = block.key, block.value
        return block._replace(
            key=keys[:, :, : new.stop], value=values[:, :, : new.stop], queries=new, keys=slice(0, new.stop)
        )


def write(
    model: InTorch,
    tokens: Tokens,
    sampling: Sampling = Sampling(),
    taps: Sequence[Tap] = (),
    written: Sequence[int] = (),
) -> Iterator[Step]:
    """Continue a text: yield each step until the end token, `max_tokens` or the model's last position.

    tokens: the text; for an encoder-decoder, the encoder's text alone. taps: read or change the blocks of every step;
    queries and keys of a block are counted from the beginning of the text. written: ids that already follow the text.

    Raises RequestError if the model predicts no next token, or its numbers are not finite.
    """
    output = next_output(model)
    ends, draw = end_tokens(model.place), torch.Generator().manual_seed(sampling.seed)
    new: Sequence[int] = written
    if isinstance(model, TransformersModel):
        room = model.fed.max_tokens - 1 if model.paired else model.tokenizer.max_tokens - len(tokens)
        room -= len(written)
        logits_after = _read_again(model, tokens, output, taps)
    else:
        assert isinstance(model, Model)
        new = [*tokens.ids, *written]
        room = model.tokenizer.max_tokens - len(new)
        logits_after = _with_cache(model, tokens, output, len(new) + min(sampling.max_tokens, room), taps)
    if room < 1:
        raise RequestError(f"the text fills all positions of {model.place.name}: shorten it")
    most = min(sampling.max_tokens, room)
    for _ in range(most):
        with torch.inference_mode():
            logits = logits_after(new).cpu().double()
            if not bool(logits.isfinite().all()):
                raise RequestError(f"the logits of {model.place.name} are not finite: use another --dtype")
            probabilities = logits.softmax(dim=-1)
            token = choose(logits, sampling, draw)
            best = probabilities.topk(min(LIKELY, len(probabilities)))
        likely = list(zip(best.indices.tolist(), best.values.tolist(), strict=True))
        step = Step(token, float(probabilities[token]), likely, token in ends)
        yield step
        if step.ends:
            return
        new = [token]


def prompt_tokens(model: InTorch, text: str, pair: str | None = None) -> Tokens:
    """Return the tokens of a text to continue: for a decoder, without the special token that ends a text."""
    tokens = model.tokenizer.encode(text, pair)
    last = len(tokens) - 1
    added = tokens.special[last] and tokens.words[last] is None  # not part of the text itself
    return tokens.take(range(last)) if model.part == "decoder" and added and last > 0 else tokens


def next_output(model: InTorch) -> Output:
    """Return the output that predicts the next token. Raises RequestError if there is none."""
    output = model.outputs().get("next")
    if output is None or model.part == "encoder":
        why = model.available_outputs.refused.get("next", "it predicts no next token")
        raise RequestError(f"{model.place.name} writes no text: {why}. Use a decoder, such as -m smollm2")
    return output


def end_tokens(place: Place) -> set[int]:
    """Return the ids that end a text: `eos_token_id` of generation_config.json, otherwise of config.json."""
    for name in (GENERATION_FILE, CONFIG_FILE):
        path = place.path / name
        stated: Any = read_config(path).get("eos_token_id") if path.is_file() else None
        found = {one for one in (stated if isinstance(stated, list) else [stated]) if type(one) is int}
        if found:
            return found
    return set()


def choose(logits: Tensor, sampling: Sampling, draw: torch.Generator) -> int:
    """Return the most likely token, or one drawn by `Sampling`. logits: float64 `[token of the vocabulary]`."""
    if not sampling.sample:
        return int(logits.argmax())
    probabilities, order = (logits / sampling.temperature).softmax(dim=-1).sort(descending=True)
    before = probabilities.cumsum(dim=-1) - probabilities  # the sum of all more likely ones
    kept = probabilities.masked_fill(before >= sampling.top_p, 0.0)
    kept[0] = probabilities[0]  # the likeliest, however small top_p is
    return int(order[torch.multinomial(kept, 1, generator=draw)])


def _with_cache(
    model: Model, tokens: Tokens, output: Output, most: int, taps: Sequence[Tap]
) -> Callable[[Sequence[int]], Tensor]:
    """Return a function from new ids to the logits after the last of them, which keeps `most` keys and values."""
    kept = KeysAndValues(most)
    model.need(model.layers)

    def logits_after(new: Sequence[int]) -> Tensor:
        rows = model.rows_after(new, kept.kept)
        *_, last = model.walk(rows, [kept, *taps])
        kept.kept += len(new)
        [[logits]] = output([last[len(new) - 1 : len(new)]], [tokens.take([0])])
        return logits

    return logits_after


def _read_again(
    model: TransformersModel, tokens: Tokens, output: Output, taps: Sequence[Tap]
) -> Callable[[Sequence[int]], Tensor]:
    """Return a function from new ids to the logits after the last of them, which reads the whole text again."""
    written: list[int] = []

    def logits_after(new: Sequence[int]) -> Tensor:
        written.extend(new)
        text = extend(model, tokens, written)
        [hidden] = model.last_hidden([text], taps=taps)
        [[logits]] = output([hidden], [text], [[len(text.output_tokens) - 1]])
        return logits

    return logits_after


def extend(model: InTorch, tokens: Tokens, ids: Sequence[int]) -> Tokens:
    """Return a text's tokens followed by written ones. In an encoder-decoder these are the decoder's."""
    return model.extend(tokens, ids) if isinstance(model, TransformersModel) else model.tokenizer.extend(tokens, ids)


def read_steps(model: InTorch, tokens: Tokens, ids: Sequence[int], mask: str | None = None) -> list[Step]:
    """Return the steps in which the model would write these ids after a text, from one pass over the whole."""
    ends = end_tokens(model.place)
    rows = next_probabilities(model, tokens, ids, mask)[:-1]
    best = rows.topk(min(LIKELY, rows.shape[-1]))
    likely = [list(zip(*pair, strict=True)) for pair in zip(best.indices.tolist(), best.values.tolist(), strict=True)]
    return [Step(one, float(row[one]), some, one in ends) for one, row, some in zip(ids, rows, likely, strict=True)]


def next_probabilities(
    model: InTorch, tokens: Tokens, written: Sequence[int], mask: str | None = None, taps: Sequence[Tap] = ()
) -> Tensor:
    """Return the probability of each token of the vocabulary after a text, and after each token written since.

    The result is float64 `[1 + written, token of the vocabulary]`.
    """
    text = extend(model, tokens, written)
    output, count = next_output(model), len(text.output_tokens)
    with torch.inference_mode():
        [hidden] = model.last_hidden([text], mask, taps)
        [logits] = output([hidden], [text], [list(range(count - len(written) - 1, count))])
        return logits.cpu().double().softmax(dim=-1)


def with_steps(
    model: InTorch, record: AttentionRecord, text: Tokens, steps: Sequence[Step], grouping: Grouping = TOKENS
) -> AttentionRecord:
    """Return the record of a text that ends in written tokens, with the most likely tokens at every step.

    text: all its tokens (`extend`). grouping: of the record. If units are stretches of many tokens, the record stays
    unchanged.
    """
    if in_stretches(record):
        return record
    groups, start = axes_of(grouping, text.plain, read_by(text, model.part)).queries.groups, len(text) - len(steps)
    names, notation, ends = model.tokenizer.backend.id_to_token, writer(model).notation, {one[-1] for one in groups}
    answers = []
    for place, step in enumerate(steps, start - 1):
        for token, probability in step.likely if place in ends else []:  # inside a word the next piece is not shown
            [word] = notation.read([names(token) or f"<{token}>"], [False])
            answers.append(Answer(word, float(np.log(max(probability, 1e-38))), probability, place, place + 1))
    prediction = PredictionSummary("next", "next", True, answers)
    return replace(record, written=first_unit(groups, start), prediction=prediction.between(groups))


def writer(model: InTorch) -> Tokenizer:
    """Return the tokenizer of a model's output."""
    return model.fed if isinstance(model, TransformersModel) and model.paired else model.tokenizer
