"""The laws of masks and positions, measured on a model and a text.

Each runs the model twice and compares the vectors of every layer. What must be the same is the same to
rounding; the tolerance is that of `attncli compare` for hidden states.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attncli.analysis.masking import leak_to_padding
from attncli.checks.tolerance import TOLERANCES
from attncli.models.model import Model
from attncli.record import Request
from attncli.text.tokens import Tokens


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


def check_laws(model: Model, tokens: Tokens, padded: Tokens) -> list[Law]:
    """All laws, on one text: as it is, and with [PAD] appended."""
    return [
        padding_changes_nothing(model, tokens, padded),
        forgotten_padding_mask(model, tokens, padded),
        prefix_is_independent(model, tokens),
        order_needs_positions(model, tokens),
    ]


def padding_changes_nothing(model: Model, tokens: Tokens, padded: Tokens) -> Law:
    """Under the padding mask, appending [PAD] changes no real token's vector."""
    return law(
        model,
        "padding",
        "appending [PAD] under the padding mask changes no real token's vector",
        deviation_by_padding(model, tokens, padded, "padding"),
    )


def forgotten_padding_mask(model: Model, tokens: Tokens, padded: Tokens) -> Law:
    """Without the padding mask it does: the mistake that people make most.

    `holds` is None where no change was seen: that is odd, and no law is broken.
    """
    statement = "forgetting the padding mask changes them"
    deviation = deviation_by_padding(model, tokens, padded, "none")
    if deviation is None:
        return law(model, "forgotten padding mask", statement, None)
    leaks = leak_to_padding(next(model.attend_tokens([padded], Request(mask="none"))))
    return Law(
        "forgotten padding mask",
        statement,
        deviation,
        True if deviation > tolerance(model) else None,
        "weight that leaks to [PAD], by layer " + ", ".join(f"{layer}: {leak:.3f}" for layer, leak in leaks.items()),
        leaks,
    )


def deviation_by_padding(model: Model, tokens: Tokens, padded: Tokens, mask: str) -> float | None:
    """How far real tokens' vectors are from those of the text without [PAD], the padded one under this mask.

    None where there is no [PAD].
    """
    if len(padded) == len(tokens):
        return None
    return largest_difference(vectors(model, tokens, "padding"), vectors(model, padded, mask))


def prefix_is_independent(model: Model, tokens: Tokens) -> Law:
    """Under the causal mask, a prefix's vectors do not depend on what follows (every third of the text)."""
    whole = vectors(model, tokens, "causal")
    lengths = sorted({max(1, len(tokens) * part // 3) for part in (1, 2)})
    deviation = max(
        largest_difference(vectors(model, first_tokens(tokens, length), "causal"), whole) for length in lengths
    )
    return law(
        model,
        "causal",
        "under the causal mask a prefix's vectors do not depend on what follows",
        deviation,
        f"prefixes of {' and '.join(map(str, lengths))} tokens",
    )


def order_needs_positions(model: Model, tokens: Tokens, seed: int = 0) -> Law:
    """Without positions in the input, self-attention commutes with a permutation of the tokens.

    `holds` is None for a network whose layers have rules of their own: a window goes by the order of the tokens.
    """
    statement = "without positions in the input, permuting the tokens permutes the vectors and does no more"
    if any(model.config.rules):
        return Law("permutation", statement, None, None, "a layer's window goes by the order of the tokens")
    order = torch.randperm(len(tokens), generator=torch.Generator().manual_seed(seed)).tolist()
    straight = vectors(model, tokens, "none", positions=False)
    shuffled = vectors(model, tokens.take(order), "none", positions=False)
    deviation = largest_difference([state[order] for state in straight], shuffled)
    return law(
        model,
        "permutation",
        statement,
        deviation,
    )


def law(model: Model, name: str, statement: str, deviation: float | None, note: str = "") -> Law:
    """A law that asks for no deviation beyond rounding."""
    if deviation is None:
        return Law(name, statement, None, None, "no room for [PAD]: the text fills all positions")
    return Law(name, statement, deviation, deviation <= tolerance(model), note)


def tolerance(model: Model) -> float:
    return TOLERANCES[model.dtype_name].hidden


def vectors(model: Model, tokens: Tokens, mask: str, positions: bool = True) -> list[Tensor]:
    """`[token, hidden_size]` after the embeddings and after every layer."""
    return model.hidden_states(tokens, mask, positions)


def largest_difference(some: Sequence[Tensor], more: Sequence[Tensor]) -> float:
    """Over all layers, and the tokens that the first has. Infinite where one has a NaN."""
    differences = [(few.double() - many[: len(few)].double()).abs().max() for few, many in zip(some, more, strict=True)]
    return float(torch.stack(differences).nan_to_num(nan=torch.inf).max())


def first_tokens(tokens: Tokens, length: int) -> Tokens:
    return tokens.take(range(length))


def pad_some(model: Model, tokens: Tokens, pad_to: int | None, some: int = 4) -> Tokens:
    """[PAD] up to `pad_to` tokens; without it, as many as `some` if the model has room for them.

    Raises RequestError when `pad_to` is out of range.
    """
    if pad_to is None:
        pad_to = min(len(tokens) + some, model.tokenizer.max_tokens)
    return model.tokenizer.pad(tokens, pad_to)
