"""Wrong attention: each mistake that `attncli check` knows, in five styles, as an edit of what is right in `bases/`."""

from checks.theirs.planted import Planted, base, source
from checks.theirs.planted_formula import FORMULA
from checks.theirs.planted_layers import LAYERS
from checks.theirs.planted_masks import MASKS

__all__ = ["NAME", "PAIRS", "PLANTED", "Planted", "base", "source"]

PLANTED = FORMULA + MASKS + LAYERS


def pair(style: str, first: str, second: str) -> tuple[Planted, Planted]:
    """Two mistakes in one program."""
    found = {planted.mistake: planted for planted in PLANTED if planted.style == style}
    return found[first], found[second]


PAIRS = (
    pair("separate", "no scale", "no W_O"),
    pair("separate", "no scale", "mask never used"),
    pair("separate", "scale by d_model", "heads joined in the wrong order"),
    pair("separate", "q and k swapped", "bias left out"),
    pair("einsums", "no scale", "softmax over queries"),
    pair("einsums", "transposed W", "heads joined in the wrong order"),
    pair("fused", "scale by d_model", "[PAD] hidden as query"),
    pair("function", "no scale", "q and k swapped"),
    pair("function", "no scale", "mask after softmax"),
    pair("arrays", "keys as values", "softmax over heads"),
    pair("arrays", "no scale", "mask multiplied"),
    pair("head_by_head", "keys as values", "no W_O"),
    pair("rearranged", "heads split by view", "heads joined in the wrong order"),
    pair("array_class", "values not projected", "no W_O"),
)

# What is handed in of the program of a style.
NAME = {
    "separate": "MultiHeadAttention",
    "einsums": "EinsumAttention",
    "fused": "FusedAttention",
    "function": "attention",
    "padded": "masked_attention",
    "arrays": "attention",
    "array_class": "NumpyAttention",
    "head_by_head": "HeadByHead",
    "rearranged": "Attention",
    "causal_buffer": "CausalSelfAttention",
    "causal_function": "causal_attention",
    "causal_arrays": "masked_attention",
    "causal_loop": "decode",
    "causal_places": "MaskedSelfAttention",
    "grouped_module": "GroupedQueryAttention",
    "grouped_function": "grouped_attention",
    "grouped_arrays": "grouped_query_attention",
    "grouped_loop": "GroupedHeads",
    "grouped_einsum": "attend_in_groups",
}
