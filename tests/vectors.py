"""Two texts, and whether the queries and keys that a record keeps make its maps."""

import numpy as np

TEXT = "The trophy does not fit in the suitcase because it is too big."
OTHER = "So I bought a larger one, and a smaller trophy."


def maps_again(record) -> list[np.ndarray]:
    """softmax(q k^T / sqrt(head_dim)) over the allowed keys, for every head whose vectors are there."""
    maps = []
    for layer, head in record.vectors.heads:
        query, key = (part.astype(np.float64) for part in record.vectors.of(layer, head))
        scores = np.where(record.mask, query @ key.T / np.sqrt(query.shape[-1]), -np.inf)
        exponents = np.exp(scores - scores.max(axis=-1, keepdims=True))
        maps.append(exponents / exponents.sum(axis=-1, keepdims=True))
    return maps


def vectors_make_the_maps(record, near: float = 1e-5) -> None:
    maps = [record.map(layer, head) for layer, head in record.vectors.heads]
    np.testing.assert_allclose(maps, maps_again(record), atol=near)
