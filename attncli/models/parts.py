"""The parts of a model that have attention: encoder, decoder and cross."""

from typing import TYPE_CHECKING

from attncli.base.errors import RequestError

if TYPE_CHECKING:
    from attncli.models.engine import Engine

A_PART = {"encoder": "an encoder", "decoder": "a decoder"}


def error_of_one_part(engine: "Engine", option: str) -> RequestError:
    """Return the error for an option of encoder-decoders on an encoder or a decoder."""
    return RequestError(
        f"{option} is for encoder-decoders, but {engine.place.name} is {A_PART[engine.parts[0]]}: omit it"
    )


def self_attention_part(engine: "Engine", which: str | None) -> str | None:
    """Return `Request.which` for code about self-attention: by default the encoder of an encoder-decoder.

    Raises RequestError for cross-attention.
    """
    if len(engine.parts) == 1:
        return which
    if which == "cross":
        raise RequestError(
            "cross-attention is between two texts, but this needs self-attention: use --which encoder or decoder"
        )
    return which or engine.parts[0]


def self_attention_kind(engine: "Engine", which: str | None) -> str:
    """Return "encoder" or "decoder", the selected kind of self-attention. Raises RequestError for cross-attention."""
    return self_attention_part(engine, which) or engine.parts[0]


def mask_name(engine: "Engine", mask: str | None, which: str | None) -> str:
    """Return the name of the mask on self-attention; by default the one from the network's training."""
    if mask is not None:
        return mask
    return "causal" if self_attention_kind(engine, which) == "decoder" else "padding"
