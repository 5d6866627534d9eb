import numpy as np


def encode(length, d_model):
    angles = np.arange(length)[:, None] / 10000 ** (2 * (np.arange(d_model)[None, :] // 2) / d_model)
    return np.where(np.arange(d_model) % 2 == 0, np.sin(angles), np.cos(angles))


def add_positions(x):
    """x [batch, token, d_model]"""
    x = x + encode(x.shape[1], x.shape[2])
    return x
