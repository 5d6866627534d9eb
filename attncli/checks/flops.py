"""How many floating-point operations an encoder takes."""

from attncli.models.config import ModelConfig


def encoder_flops(config: ModelConfig, texts: int, tokens: int, layers: int, map_heads: int = 0) -> int:
    """Floating-point operations in an encoder's matrix products; one multiply-add is two.

    With n = texts x tokens rows of width d, t tokens a text, and m = intermediate_size, a whole layer takes

        query, key, value and output projections   4 x 2 n d d
        scores and weighted sum                    2 x 2 n t d
        feed-forward, up and down                  2 x 2 n d m, or 3 x 2 n d m where it is gated

    After `layers` whole layers, the maps of `map_heads` heads of the next one take 2 x 2 n d (h e) for their
    queries and keys and 2 n t (h e) for their scores, with h heads of e numbers each: where the last maps
    asked for are made, nothing else is computed. ELECTRA's widening of its token vectors is counted; softmax,
    LayerNorm and the like, about a hundredth of all, are not.
    """
    rows, width = texts * tokens, config.hidden_size
    wide = (6 if config.gated else 4) * rows * width * config.intermediate_size
    layer = 8 * rows * width * width + 4 * rows * tokens * width + wide
    mapped = map_heads * config.head_dim
    maps = 4 * rows * width * mapped + 2 * rows * tokens * mapped
    widening = 2 * rows * config.embedding_size * width if config.widens else 0
    return widening + layers * layer + maps
