"""Silence heads: those that may feed induction, and all heads of a kind compared with as many random ones."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from attncli.analysis.kinds import FEEDS, Judged, Measure
from attncli.base.arrays import Doubles
from attncli.base.errors import RequestError
from attncli.features.kinds.measuring import Advance, Draws, Needle, sample_tokens
from attncli.models.devices import InTorch
from attncli.models.engine import Engine
from attncli.models.generation import next_output
from attncli.record.selection import Request
from attncli.text.tokens import Tokens

Head = tuple[int, int]  # (layer, head)
FED = 6  # draws on which a head before induction heads is silenced
RANDOM = 3  # sets of random heads
ASKED = 4  # draws, texts and needles on which an output is measured


def feeding(
    model: Engine, draws: Draws, previous: Sequence[Head], induction: Sequence[Head], seed: int, advance: Advance
) -> Measure:
    """Return by how much the score of the induction heads drops without a head that looks at the previous token.

    It is a share of the score. The null is another head of the same layer, drawn at random. previous: heads in layers
    before the last of the induction heads.
    """
    request = Request(layers=sorted({layer for layer, _ in induction}))

    def score(*silenced: Head) -> Doubles:
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
    return Measure.of("without the head", samples, nulls, FEEDS, len(previous))


# --- does it matter? ------------------------------------------------------------------------------------

Measured = Callable[[Engine], float]


@dataclass(frozen=True)
class Matter:
    """The effect of silencing the heads of a kind on an output, and that of each of several sets of other heads.

    output: in words, with its unit. heads: how many are silenced, the clearest ones: no more than there are others.
    random: empty where there are no others.
    """

    output: str
    heads: int
    effect: float
    random: Sequence[float]


def outputs_for(model: InTorch, draws: Draws | None, found: Sequence[Needle]) -> dict[str, tuple[str, Measured]]:
    """Return the output that each kind is about, by its name, in words and as a function; "" is any other kind."""
    texts = sample_tokens(model)[:ASKED]
    try:
        next_output(model)
    except RequestError:  # it writes nothing
        before = _last(model, texts)
        return {
            "": (
                "distance that the last vectors move, as a share of their lengths",
                lambda one: _moved(before, _last(one, texts)),
            )
        }
    made: dict[str, tuple[str, Measured]] = {
        "": ("loss on texts, in nats", lambda one: _loss(one, [(text, range(1, len(text))) for text in texts]))
    }
    if draws is not None:
        repeats = [(text, draws.second[1:]) for text in draws.repeated[:ASKED]]
        about = "loss on what is repeated, in nats", lambda one: _loss(one, repeats)
        made |= dict.fromkeys(("induction", "feeds induction", "duplicate"), about)
    if found:
        some = [
            (model.tokenizer.extend(one.text, one.copied[-1:]), range(one.asked + 1, len(one.text) + 1))
            for one in found[:ASKED]
        ]
        made["retrieval"] = "loss on what is copied from the needle, in nats", lambda one: _loss(one, some)
    return made


def _loss(model: Engine, texts: Sequence[tuple[Tokens, Sequence[int]]]) -> float:
    """Return the mean loss at some places of texts: -ln of the probability of the token there, given those before."""
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


def _last(model: Engine, texts: Sequence[Tokens]) -> list[torch.Tensor]:
    with torch.inference_mode():
        return [one.double() for one in model.last_hidden(texts)]


def _moved(before: Sequence[torch.Tensor], after: Sequence[torch.Tensor]) -> float:
    """Return the mean over tokens of ‖x' - x‖ / ‖x‖."""
    pairs = zip(before, after, strict=True)
    return float(torch.cat([(new - old).norm(dim=-1) / old.norm(dim=-1) for old, new in pairs]).mean())


def matters(
    model: InTorch, judged: Judged, output: tuple[str, Measured], before: float, seed: int, advance: Advance
) -> Matter:
    """Silence the heads of a kind, and RANDOM sets of as many other heads. before: the output without a change.

    Where there are fewer others, all of these are silenced, and as many of the clearest heads of the kind.
    """
    name, measure = output

    def effect(some: Sequence[Head]) -> float:
        advance()
        return measure(model.silencing([*model.silenced_heads, *some])) - before

    others = [one for one in itertools.product(range(model.layers), range(model.heads)) if one not in judged.heads]
    heads = judged.heads[: len(others) or None]
    draw = np.random.default_rng(seed)
    count = min(RANDOM, math.comb(len(others), len(heads)))  # of others: 0 where there are none
    sets = [draw.permutation(len(others))[: len(heads)] for _ in range(count)]
    random = [effect([others[place] for place in some]) for some in sets]
    return Matter(name, len(heads), effect(heads), random)
