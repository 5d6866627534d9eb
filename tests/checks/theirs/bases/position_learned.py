import torch
from torch import nn


class LearnedPositions(nn.Module):
    """x [batch, token, d_model] with a learned vector for each position added."""

    def __init__(self, d_model, max_len=128):
        super().__init__()
        self.position_embeddings = nn.Embedding(max_len, d_model)

    def forward(self, x):
        positions = self.position_embeddings(torch.arange(x.size(1)))
        return x + positions
