import math

import torch
from torch import nn


class PositionalEncoding(nn.Module):
    """x [batch, token, d_model] with sines and cosines added."""

    def __init__(self, d_model, max_len=128, dropout=0.0):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, d_model)
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.pe[: x.size(1)]
        return self.dropout(x)
