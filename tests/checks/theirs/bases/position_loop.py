import math

import torch


def sinusoids(length, d_model):
    table = torch.zeros(length, d_model)
    for position in range(length):
        for i in range(0, d_model, 2):
            angle = position / 10000 ** (i / d_model)
            table[position, i] = math.sin(angle)
            table[position, i + 1] = math.cos(angle)
    return table


def embed(x):
    """x [batch, token, d_model], with sines and cosines."""
    table = sinusoids(x.shape[1], x.shape[2])
    return x + table
