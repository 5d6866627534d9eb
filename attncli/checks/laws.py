"""The laws of masks and positions, measured on a model and a text.

Each runs the model twice and compares the vectors of every layer. What must be the same is the same to
rounding; the tolerance is that of `attncli compare` for hidden states, and more where those are LARGE. What an engine
can't be asked for is not tested.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from attncli.analysis.masking import leak_to_padding
from attncli.base.errors import RequestError
from attncli.checks.tolerance import TOLERANCES
from attncli.models.engine import Engine
from attncli.models.model import Model
from attncli.record import Request
from attncli.text.tokens import Tokens

LARGE = 100.0  # an element of a vector; those of BERT reach 20, those of GPT-2 thousands


@dataclass(frozen=True)
class Law:
    """A law, the largest deviation from it found, and whether it holds.

    deviation: the largest absolute difference between two vectors' elements, over all layers and tokens.
    holds: None where it could not be put to the test; `note` says why.
    leaks: the share of real tokens' weight that goes to [PAD], by layer, where that is what the law is about.
    """

    name: str
    statement: str
    deviation: float | None
    holds: bool | None
    note: str = ""
    leaks: dict[int, float] | None = None


STATEMENTS = {
    "padding": "appending [PAD] under the padding mask changes no real token's vector",
    "forgotten padding mask": "forgetting the padding mask changes them",
    "causal": "under the causal mask a prefix's vectors do not depend on what follows",
    "permutation": "without positions in the input, permuting the tokens permutes the vectors and does no more",
}


class Moved(NamedTuple):
    """The largest absolute difference between two vectors' elements, and what rounding explains of it."""

    deviation: float
    tolerance: float


def check_laws(model: Engine, tokens: Tokens, padded: Tokens) -> list[Law]:
    """All laws, on one text: as it is, and with [PAD] appended."""
    return [
        padding_changes_nothing(model, tokens, padded),
        forgotten_padding_mask(model, tokens, padded),
        prefix_is_independent(model, tokens),
        order_needs_positions(model, tokens),
    ]


def not_tested(why: str) -> list[Law]:
    """All laws, where none can be put to the test."""
    return [Law(name, statement, None, None, why) for name, statement in STATEMENTS.items()]


def padding_changes_nothing(model: Engine, tokens: Tokens, padded: Tokens) -> Law:
    """Under the padding mask, appending [PAD] changes no real token's vector."""
    if len(padded) == len(tokens):
        return law("padding", None, no_padding(model))
    return law("padding", moved_by_padding(model, tokens, padded, "padding"))


def forgotten_padding_mask(model: Engine, tokens: Tokens, padded: Tokens) -> Law:
    """Without the padding mask it does: the mistake that people make most.

    `holds` is None where no change was seen: no law is broken. That is so of a decoder, and odd of an encoder.
    """
    name = "forgotten padding mask"
    if len(padded) == len(tokens):
        return law(name, None, no_padding(model))
    deviation, tolerance = moved_by_padding(model, tokens, padded, "none")
    if model.parts[0] == "decoder":
        return law(name, None, "no token of a decoder looks at the [PAD] behind it")
    request = Request(mask="none", which=model.to_itself(None))
    leaks = leak_to_padding(next(model.attend_tokens([padded], request)))
    return Law(
        name,
        STATEMENTS[name],
        deviation,
        True if deviation > tolerance else None,
        "weight that leaks to [PAD], by layer " + ", ".join(f"{layer}: {leak:.3f}" for layer, leak in leaks.items()),
        leaks,
    )


def no_padding(model: Engine) -> str:
    """Why a text has no [PAD]."""
    if model.tokenizer.pad_id is None:
        return "the tokenizer has no [PAD]"
    return "no room for [PAD]: the text fills all positions"


def moved_by_padding(model: Engine, tokens: Tokens, padded: Tokens, mask: str) -> Moved:
    """How far real tokens' vectors are from those of the text without [PAD], the padded one under this mask."""
    return moved(model, model.hidden_states(tokens), model.hidden_states(padded, mask))


def prefix_is_independent(model: Engine, tokens: Tokens) -> Law:
    """Under the causal mask, a prefix's vectors do not depend on what follows (every third of the text)."""
    try:
        whole = model.hidden_states(tokens, "causal")
    except RequestError as error:
        return law("causal", None, str(error))
    lengths = sorted({max(1, len(tokens) * part // 3) for part in (1, 2)})
    found = [moved(model, model.hidden_states(first_tokens(tokens, length), "causal"), whole) for length in lengths]
    return law("causal", max(found), f"prefixes of {' and '.join(map(str, lengths))} tokens")


def order_needs_positions(model: Engine, tokens: Tokens, seed: int = 0) -> Law:
    """Without positions in the input, self-attention commutes with a permutation of the tokens.

    `holds` is None for a network that has windows or a convolution, which go by the order of the tokens.
    """
    if isinstance(model, Model) and model.config.goes_by_order:
        return law("permutation", None, "a window or a convolution goes by the order of the tokens")
    order = torch.randperm(len(tokens), generator=torch.Generator().manual_seed(seed)).tolist()
    try:
        straight = model.hidden_states(tokens, "none", positions=False)
    except RequestError as error:
        return law("permutation", None, str(error))
    shuffled = model.hidden_states(tokens.take(order), "none", positions=False)
    return law("permutation", moved(model, [state[order] for state in straight], shuffled))


def law(name: str, found: Moved | None, note: str = "") -> Law:
    """A law that asks for no deviation beyond rounding; without one it was not tested."""
    if found is None:
        return Law(name, STATEMENTS[name], None, None, note)
    return Law(name, STATEMENTS[name], found.deviation, found.deviation <= found.tolerance, note)


def moved(model: Engine, some: Sequence[Tensor], more: Sequence[Tensor]) -> Moved:
    """Between the vectors `[token, hidden_size]` of every layer, of the tokens that the first has. Infinite where one
    has a NaN.
    """
    pairs = [(few.double(), many[: len(few)].double()) for few, many in zip(some, more, strict=True)]
    deviation = torch.stack([(few - many).abs().max() for few, many in pairs]).nan_to_num(nan=torch.inf).max()
    largest = torch.stack([few.abs().max() for few, _ in pairs]).nan_to_num(nan=1.0).max()
    return Moved(float(deviation), tolerance(model, float(largest)))


def tolerance(model: Engine, largest: float) -> float:
    """What rounding explains of a difference between vectors whose elements reach so far."""
    # In float64 transformers still computes the norms of Llama and the softmax of T5 in float32.
    single = model.name == "transformers" and model.dtype_name == "float64"
    return TOLERANCES["float32" if single else model.dtype_name].hidden * max(1.0, largest / LARGE)


def first_tokens(tokens: Tokens, length: int) -> Tokens:
    return tokens.take(range(length))


def pad_some(model: Engine, tokens: Tokens, pad_to: int | None, some: int = 4) -> Tokens:
    """[PAD] up to `pad_to` tokens; without it, as many as `some` if the model has them, and room for them.

    Raises RequestError when `pad_to` is out of range.
    """
    if pad_to is None:
        if model.tokenizer.pad_id is None:
            return tokens
        pad_to = min(len(tokens) + some, model.tokenizer.max_tokens)
    return model.tokenizer.pad(tokens, pad_to)
