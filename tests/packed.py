"""Read the description and the weights of a page as its script does."""

import base64
import json
import re
import zlib

import numpy as np


def page_data(document):
    """Return the description in a page."""
    return json.loads(re.search(r'id="page">(.*?)</script>', document, re.DOTALL)[1])


def unpacked(text):
    """Return the bytes of a chunk."""
    return zlib.decompress(base64.b64decode(text))


def read_layer(data, shape, levels):
    """Return the weights `[head, query, key]` in a layer's bytes."""
    heads, queries, keys = shape
    tops, rest = np.frombuffer(data[: 4 * heads], "<f4"), np.frombuffer(data[4 * heads :], np.uint8)
    count = -(-levels.bit_length() // 8)
    planes = rest.reshape(count, heads, keys, queries).astype(np.float64)
    numbers = sum(plane * 256.0**place for place, plane in enumerate(planes)).swapaxes(1, 2)
    return (numbers * (tops[:, None, None] / levels)).astype(np.float32)


def unpack_layer(text, shape, levels):
    """Return the weights `[head, query, key]` in a layer's text."""
    return read_layer(unpacked(text), shape, levels)
