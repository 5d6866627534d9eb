"""How many floating-point operations an encoder takes."""

from attncli.models.config import ModelConfig
from attncli.models.families.family import Disentangling


def encoder_flops(config: ModelConfig, texts: int, tokens: int, layers: int, map_heads: int = 0) -> int:
    """Floating-point operations in an encoder's matrix products; one multiply-add is two.

    With n = texts x tokens rows of width d, t tokens a text, and m = intermediate_size, a whole layer takes

        query and output projections               2 x 2 n d d
        key and value projections                  2 x 2 n d (k e), of k key heads
        scores and weighted sum                    2 x 2 n t d
        feed-forward, up and down                  2 x 2 n d m, or 3 x 2 n d m where it is gated
        each disentangled term                     2 n (2 t - 1) d, of all offsets from a token to the others

    After `layers` whole layers, the maps of `map_heads` heads of the next one, the first ones, take 2 x 2 n d (h e) for
    their queries and keys and 2 n t (h e) for their scores (and terms), with h heads of e numbers each, and less where
    these share k' keys, 2 n d (h + k') e: where the last maps asked for are made, nothing else is computed. ELECTRA's
    widening of its token vectors is counted; softmax, norms and the like, about a hundredth of all, are not; nor is
    what depends on no text and is made once.
    """
    rows, width = texts * tokens, config.hidden_size
    wide = (6 if config.gated else 4) * rows * width * config.intermediate_size
    keys = config.key_heads * config.head_dim
    layer = 4 * rows * width * (width + keys) + 4 * rows * tokens * width + wide
    mapped = map_heads * config.head_dim
    mapped_keys = keys_of(config, map_heads) * config.head_dim
    maps = 2 * rows * width * (mapped + mapped_keys) + 2 * rows * tokens * mapped
    terms = sum(2 * rows * (2 * tokens - 1) * width * terms_of(config, number) for number in range(layers))
    if map_heads:
        terms += 2 * rows * (2 * tokens - 1) * mapped * terms_of(config, layers)
    widening = 2 * rows * config.embedding_size * width if config.widens else 0
    return widening + layers * layer + maps + terms


def keys_of(config: ModelConfig, heads: int) -> int:
    """How many key heads so many heads, the first ones, look at."""
    return -(-heads * config.key_heads // config.heads)


def terms_of(config: ModelConfig, layer: int) -> int:
    """How many terms of a layer's scores are products of their own."""
    positions = config.positions[layer]
    return len(positions.kinds) if isinstance(positions, Disentangling) else 0
