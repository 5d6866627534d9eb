import torch


def decode(q, k, v):
    """[batch, head, token, dim], a query at a time."""
    outputs = []
    for i in range(q.shape[2]):
        past = slice(0, i + 1)
        scores = torch.einsum("bhd,bhjd->bhj", q[:, :, i], k[:, :, past]) / q.shape[-1] ** 0.5
        outputs.append(torch.einsum("bhj,bhjd->bhd", scores.softmax(-1), v[:, :, past]))
    return torch.stack(outputs, dim=2)
