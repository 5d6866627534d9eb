"""The encoder's linear layers and embeddings. Their values come from a checkpoint: none are drawn.

The linear layers are torch's own, with oneDNN's matrix product where that is there.

Nearly all of an encoder's time is spent in them. For float32 on a CPU torch takes MKL, which reaches about half
of oneDNN's rate on processors that are not Intel's (measured: 126 ms against 63 ms for 4096 x 768 x 3072 on an
AMD EPYC 9005, and the same 2 x from 1 token to 4096). Both come with torch; the numbers agree to the last bits.
oneDNN also applies an activation before the product leaves the cache.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# torch.compile uses the same operator for what it freezes; it has no gradient.
ONEDNN_LINEAR = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if torch.backends.mkldnn.is_available() else None
ONEDNN_PACK = getattr(torch.ops.mkldnn, "_reorder_linear_weight", None) if ONEDNN_LINEAR is not None else None

NO_ACTIVATION = "none"
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    NO_ACTIVATION: lambda x: x,
    "gelu": F.gelu,
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_pytorch_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
    "swish": F.silu,
    "tanh": torch.tanh,
}  # by their names in config.json
ONEDNN_NAMES = {NO_ACTIVATION: ("none", None), "gelu": ("gelu", "none")}  # those that it applies: name and algorithm
ROWS = 64  # of a product, about: the layout for one number of them serves the others too


class Linear(nn.Linear):
    """y = f(x W^T + b), `[..., in]` -> `[..., out]`. In inference mode, in float32 on a CPU, by oneDNN.

    f: the activation of this name, by default none.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: torch.device | None = None,
        activation: str = NO_ACTIVATION,
    ) -> None:
        super().__init__(in_features, out_features, bias, device)
        self.activation = activation
        self.packed: Tensor | None = None

    def pack(self) -> None:
        """Lay the weight out as oneDNN wants it, which it does anew for every product else: a quarter of the time of
        one with few rows. It takes the weight's memory once more, and the weight must not change from then on.
        """
        if ONEDNN_PACK is not None and self.weight.dtype == torch.float32 and self.weight.device.type == "cpu":
            with torch.inference_mode():
                self.packed = ONEDNN_PACK(self.weight, ROWS)

    def reset_parameters(self) -> None:
        pass

    def forward(self, input: Tensor) -> Tensor:
        function = FUNCTIONS[self.activation]
        if (
            ONEDNN_LINEAR is None
            or not torch.is_inference_mode_enabled()
            or input.dtype != torch.float32
            or input.device.type != "cpu"
        ):
            return function(F.linear(input, self.weight, self.bias))
        weight = self.weight if self.packed is None else self.packed
        if self.activation in ONEDNN_NAMES:
            name, algorithm = ONEDNN_NAMES[self.activation]
            product: Tensor = ONEDNN_LINEAR(input, weight, self.bias, name, [], algorithm)
            return product
        return function(ONEDNN_LINEAR(input, weight, self.bias, "none", [], None))


def lay_out(module: nn.Module) -> None:
    """Every linear layer in it, unless that has happened."""
    for part in module.modules():
        if isinstance(part, Linear) and part.packed is None:
            part.pack()


class Convolution(nn.Conv1d):
    """Over each token and as many to either side, `[text, size, token]` -> the same shape; tokens: an odd number."""

    def __init__(self, size: int, tokens: int, groups: int) -> None:
        super().__init__(size, size, tokens, padding=(tokens - 1) // 2, groups=groups)

    def reset_parameters(self) -> None:
        pass


class Embedding(nn.Embedding):
    """A table of vectors, `[...]` of row numbers -> `[..., embedding_dim]`."""

    def reset_parameters(self) -> None:
        pass
