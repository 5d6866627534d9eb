"""Position vectors, which are added to the input, since attention itself ignores the order of tokens."""

import torch
from torch import Tensor, nn


class LearnedPositions(nn.Module):
    """One learned vector per position, as in BERT (Devlin et al. 2019, section 3; Gehring et al. 2017).

    `embedding` is the class of the table, for example one filled from a checkpoint.
    """

    def __init__(self, positions: int, d_model: int, embedding: type[nn.Embedding] = nn.Embedding) -> None:
        super().__init__()
        self.table = embedding(positions, d_model)

    def forward(self, positions: Tensor) -> Tensor:
        """Position numbers `[..., token]` (int) -> vectors `[..., token, d_model]`."""
        vectors: Tensor = self.table(positions)
        return vectors


class SinusoidalPositions(nn.Module):
    """PE(pos, 2i) = sin(pos / 10000^(2i / d_model)),  PE(pos, 2i + 1) = cos(the same).

    Vaswani et al. 2017, section 3.5. Nothing is learned, and there is no last position.

    Raises ValueError if `d_model` is odd: sine and cosine come in pairs.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        if d_model % 2 != 0:
            raise ValueError(f"sine and cosine come in pairs: d_model {d_model} is odd")
        self.d_model = d_model

    def forward(self, positions: Tensor) -> Tensor:
        """Position numbers `[..., token]` -> vectors `[..., token, d_model]` in torch's default dtype."""
        # In double precision, whatever the module's dtype: at position 500 the rounding error of an angle in
        # float32 already affects its sine.
        pair = torch.arange(0, self.d_model, 2, dtype=torch.float64, device=positions.device)
        frequencies = 10000.0 ** (-pair / self.d_model)
        angles = positions[..., None].double() * frequencies  # [..., token, d_model / 2]
        pairs = torch.stack([angles.sin(), angles.cos()], dim=-1)  # [..., token, d_model / 2, 2]
        return pairs.flatten(-2).to(torch.get_default_dtype())
