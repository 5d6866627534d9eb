"""How important each token of a text is, by maps and by gradients: what is said to explain an output.

The tokens that the output reads are those whose last vectors it is made of: [CLS], a [MASK], or all, where they are
pooled. By maps a token is as important as the mean of its column over the rows of these tokens, of the maps

- attention: the mean over heads of the last layer's weights
- norms: the same of norms, ‖α f(x)‖ (Kobayashi et al. 2020), rows made to sum to 1
- rollout: of all layers (Abnar and Zuidema 2020; `attncli.analysis.rollout`)
- gradient x attention: R of Chefer et al. 2021 (`relevance`)
- ALTI: of all layers (Ferrando et al. 2022; `mixing`)

and by gradient x input as `relevance` has it. None of the maps but gradient x attention knows what is asked.
"""

import numpy as np
import torch

from attncli.analysis.rollout import mean_maps, residual_steps, rollout
from attncli.base.arrays import Doubles
from attncli.base.errors import RequestError
from attncli.effects.copies import Unchanged
from attncli.effects.questions import Question
from attncli.effects.trust.mixing import alti
from attncli.effects.trust.relevance import input_slopes, slopes
from attncli.models.network import Network
from attncli.record import AttentionRecord, Request

GRADIENT = "gradient x input"
NEGLIGIBLE = 1e-6  # of a number: what rounding does to it


def importances(asked: Question) -> dict[str, Doubles]:
    """By method, `[token]` of the question's first text; a method that can't be asked of this number is left out."""
    text, rows = asked.texts[0], read(asked)
    found = {name: made_of[rows].mean(axis=0) for name, made_of in by_maps(text).items()}
    return found | by_gradients(asked, rows)


def read(asked: Question) -> list[int]:
    """The places of the first text's tokens whose last vectors the number is made of: it changes when they are 0."""
    text, *others = asked.texts
    count = len(text.tokens)
    if text.tokens.spoken is not text.tokens:  # a decoder reads all vectors of an encoder
        return list(range(count))
    together, least = max(1, text.model.batch_tokens // count), NEGLIGIBLE * max(1, abs(asked.value))
    found = []
    with torch.inference_mode():
        for start in range(0, count, together):
            some = range(start, min(start + together, count))
            copies = text.last.repeat(len(some), 1, 1)
            copies[range(len(some)), some] = 0
            moved = (asked([copies, *(other.last for other in others)]) - asked.value).abs()
            found += [place for place, by in zip(some, moved, strict=True) if by > least]
    return found or list(range(count))


def by_maps(text: Unchanged) -> dict[str, Doubles]:
    """By method what a token of the last layer is made of, `[token, input token]`."""
    layers = text.model.select_layers("all")
    weights = record_of(text, layers, "weight")
    try:
        norms = record_of(text, layers[-1:], "norm")
    except RequestError:  # in some networks of transformers something is done to heads before the output projection
        norms = None
    found = {"attention": mean_maps(weights)[-1]}
    if norms is not None:
        found["norms"] = mean_maps(norms)[-1]
    if len(layers) == text.model.layers:
        found["rollout"] = rollout(residual_steps(weights))[-1]
    if isinstance(text.model.network, Network):  # whose norms and residual connections are known
        found["ALTI"] = alti(text)[-1]
    return found


def record_of(text: Unchanged, layers: list[int], measure: str) -> AttentionRecord:
    [record] = text.model.attend_tokens([text.tokens], Request(layers, "all", text.mask, measure=measure))
    return record


def by_gradients(asked: Question, rows: list[int]) -> dict[str, Doubles]:
    """A divergence is flat where nothing is changed, and says nothing; a distance has slopes, but no gradient."""
    if asked.kind == "divergence":
        return {}
    if asked.kind == "distance":
        return {GRADIENT: input_slopes(asked.texts[0])}
    found = slopes(asked)
    return {"gradient x attention": found.relevance[rows].mean(axis=0), GRADIENT: found.inputs}


def drawn(count: int, rankings: int, seed: int) -> Doubles:
    """Random importances of so many tokens, `[ranking, token]`, no two of a ranking alike."""
    generator = np.random.default_rng(seed)
    return generator.permuted(np.tile(np.arange(count, dtype=np.float64), (rankings, 1)), axis=1)
