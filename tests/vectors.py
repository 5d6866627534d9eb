"""Two texts, and whether the queries and keys that a record keeps make its maps."""

import numpy as np

TEXT = "The trophy does not fit in the suitcase because it is too big."
OTHER = "So I bought a larger one, and a smaller trophy."


def maps_again(record) -> list[np.ndarray]:
    """softmax(scale q k^T + terms) over the allowed keys, 0 without any, for every head whose vectors are there."""
    vectors, maps = record.vectors, []
    for place, (layer, head) in enumerate(vectors.heads):
        query, key = (part.astype(np.float64) for part in vectors.of(layer, head))
        scores = query @ key.T * vectors.scale[place] + sum(term[place] for term in vectors.terms.values())
        allowed = record.mask_of(layer)
        largest = scores.max(axis=-1, keepdims=True, where=allowed, initial=-1e9)
        exponents = np.exp(scores - largest, where=allowed, out=np.zeros_like(scores))
        maps.append(exponents / np.maximum(exponents.sum(axis=-1, keepdims=True), 1e-300))
    return maps


def vectors_make_the_maps(record, near: float = 1e-5) -> None:
    maps = [record.map(layer, head) for layer, head in record.vectors.heads]
    np.testing.assert_allclose(maps, maps_again(record), atol=near)
