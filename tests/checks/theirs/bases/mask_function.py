import torch


def causal_mask(size):
    """[query, key], True where a query may look."""
    return torch.tril(torch.ones(size, size)).bool()
