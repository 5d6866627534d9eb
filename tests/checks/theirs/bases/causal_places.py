import torch
from torch import nn


class MaskedSelfAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.q_proj, self.k_proj = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.v_proj, self.o_proj = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def forward(self, x):
        q, k, v = (proj(x).unflatten(-1, (self.n_heads, -1)) for proj in (self.q_proj, self.k_proj, self.v_proj))
        scores = torch.einsum("bihd,bjhd->bhij", q, k) / q.shape[-1] ** 0.5
        places = torch.arange(x.shape[1])
        hidden = places[None, :] > places[:, None]
        weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        return self.o_proj(torch.einsum("bhij,bjhd->bihd", weights, v).flatten(2))
