"""Numbers of a record as text."""

import numpy as np

from attncli.base.arrays import Floats


def decimals(numbers: Floats) -> str:
    """JSON of an array of float32, each number in the fewest digits that read back as the same float32: 0.1.

    Raises ValueError for NaN and infinity, which JSON has not.
    """
    import orjson

    if not np.isfinite(numbers).all():
        raise ValueError("NaN and infinity are not JSON")
    return orjson.dumps(np.ascontiguousarray(numbers), option=orjson.OPT_SERIALIZE_NUMPY).decode("ascii")
