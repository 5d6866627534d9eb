"""What stands in `right_*.py`: right attention in many styles, each of which `attncli check` must find right.

That they are right is shown in `test_right_functions.py` and `test_right_modules.py` with torch alone.
"""

from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent


class Right(NamedTuple):
    """`name` in `file`, and the options of the command that it can't be checked without."""

    file: str
    name: str
    options: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        return HERE / self.file


RIGHT = (
    *(
        Right("right_functions.py", name)
        for name in (
            "plain",
            "annotated",
            "with_torch_einsum",
            "tokens_before_heads",
            "keys_third",
            "batched",
            "batched_added",
            "one_matrix",
            "in_loops",
            "online_softmax",
            "by_logsumexp",
            "fused_kernel",
            "fused_kernel_of_tokens_before_heads",
            "flex",
            "weights_first",
            "as_dict",
            "blocked",
            "added",
            "key_padding",
            "broadcast_padding",
            "valid_lengths",
            "two_masks",
            "scaled_on_both_sides",
            "softmax_by_hand",
            "causal",
            "causal_or_not",
            "grouped",
            "a_head_at_a_time",
            "backward_by_hand",
            "DotProduct",
        )
    ),
    *(
        Right("right_numpy.py", name)
        for name in (
            "matrices",
            "with_mask",
            "with_einsum",
            "one_query_at_a_time",
            "causal_matrices",
            "NumpyAttention",
            "NumpyHead",
        )
    ),
    *(
        Right("right_separate.py", name)
        for name in (
            "MultiHeadAttention",
            "ProjAttention",
            "EncoderSelfAttention",
            "DimHeadAttention",
            "CrossAttention",
            "ListOfLinears",
            "LinearQ",
            "QLinear",
            "FullyConnected",
            "Projections",
            "UnifyHeads",
            "ValuesFirst",
            "Interleaved",
            "GroupedQuery",
            "MultiQuery",
        )
    ),
    *(
        Right("right_fused.py", name)
        for name in (
            "ThreeHeadsDim",
            "HeadsThreeDim",
            "HeadsDimThree",
            "InProjection",
            "CausalSelfAttention",
            "CausalOfContext",
            "CausalColumns",
            "Inherits",
            "Wraps",
            "MultiheadAttention",
            "make_attention",
        )
    ),
    *(
        Right("right_heads.py", name)
        for name in (
            "MatricesBehind",
            "MatricesBefore",
            "HeadMatrices",
            "HeadByHead",
            "SelfAttention",
            "OneHeadOfMatrix",
            "TokenFirst",
            "RearrangeLayers",
        )
    ),
)
