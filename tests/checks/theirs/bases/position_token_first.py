import torch
from torch import nn


class SinusoidalPositions(nn.Module):
    """x [token, batch, d_model] with sines and cosines added."""

    def __init__(self, d_model):
        super().__init__()
        self.d_model = d_model

    def forward(self, x):
        rates = 10000.0 ** (-torch.arange(0, self.d_model, 2, dtype=x.dtype) / self.d_model)
        angles = torch.arange(x.shape[0], dtype=x.dtype)[:, None] * rates
        positions = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        return x + positions[:, None, :]
