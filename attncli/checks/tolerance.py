"""How far two correct programs may be apart: what rounding explains, by dtype."""

from typing import NamedTuple


class Tolerance(NamedTuple):
    """The largest absolute difference that rounding explains, of a weight and of a number in a vector."""

    weights: float
    hidden: float


# Two correct programs that round at different places differ about as much as either differs from the exact
# numbers. Measured with minilm on 67 texts of 3 to 512 tokens: in bfloat16 transformers' weights are up to 0.12
# from its own in float32, and its hidden states 0.09; ours are up to 0.12 and 0.12 from its own in bfloat16. In
# float16, which has 3 bits more, all of it is an eighth. (With random weights: 0.02 and 0.12.) So the half
# precisions get twice that, STEPS steps of the dtype at 1, and for hidden states, which run to 10 and above, twice
# more. That finds gross mistakes only: small ones show in float32 and float64.
STEPS = 32
TOLERANCES = {
    "float64": Tolerance(1e-10, 1e-10),
    "float32": Tolerance(1e-5, 1e-4),
    "float16": Tolerance(STEPS * 2**-10, 2 * STEPS * 2**-10),
    "bfloat16": Tolerance(STEPS * 2**-7, 2 * STEPS * 2**-7),
}
