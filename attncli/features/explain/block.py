"""Follow one token's vector through one block: attention, residual, norm, feed-forward, residual, norm.

A station is the vector after a step. Post-norm (Vaswani et al. 2017, section 5.4) and pre-norm differ in the places of
the norms: `Layer.stations` of `attncli.models.network` has both. The control is the mean over the text's other tokens.
"""

from typing import Any

import numpy as np
import torch
from torch import nn

from attncli.base.arrays import Doubles
from attncli.base.errors import RequestError
from attncli.models.engine import Engine
from attncli.models.model import Model
from attncli.models.taps import Outputs
from attncli.record import AttentionRecord


def explain_block(model: Engine, record: AttentionRecord, query: int) -> list[dict[str, Any]]:
    """Return the stations of a query's vector in the layer of a record of one head.

    Per station: "vector"; "length"; "cosine" with x, the block's input; "share" of what was added, its length divided
    by that of the vector it is added to. The same of the other real tokens, as means: "others".

    Raises RequestError for a network that transformers runs, whose steps are not known.
    """
    model = model.awake()
    if not isinstance(model, Model):
        raise RequestError(
            "--block needs the steps of a layer, which are not known where transformers runs the network"
        )
    [layer], [head] = record.layers, record.heads
    stations = stations_of(model, record, layer, head)
    others = [place for place in record.tokens.real if place != query]
    found, x, stream = [], stations[0][1], stations[0][1]
    for name, vectors, into in stations:
        figures = {"length": _lengths(vectors), "cosine": _cosines(vectors, x)}
        if into == "added":
            figures["share"] = _lengths(vectors) / np.maximum(_lengths(stream), np.finfo(float).tiny)
        elif into == "stream":
            stream = vectors
        found.append(
            {
                "name": name,
                "kind": into,
                "vector": vectors[query].tolist(),
                **{name: float(values[query]) for name, values in figures.items()},
                "others": {name: float(values[others].mean()) for name, values in figures.items()} if others else None,
            }
        )
    return found


def stations_of(model: Model, record: AttentionRecord, layer: int, head: int) -> list[tuple[str, Doubles, str]]:
    """Return every station of a layer, with the vectors of all tokens `[token, hidden_size]`, and its kind.

    Kinds: "stream", what goes on; "added", what is added to it; "read", what attention or feed-forward read of it;
    "part", what the head alone gives to the attention's output.
    """
    outputs = Outputs()
    model.need(model.layers)
    with torch.inference_mode():
        rows = model.rows([record.tokens], record.mask_name)
        states = list(model.walk(rows, [outputs]))
        x, after, of_layer = states[layer], states[layer + 1], model.network.layer(layer)
        heads = outputs.kept[layer][0]  # [head, token, head_dim]
        joined = heads.transpose(0, 1).flatten(1)
        part = heads[head] @ of_layer.output_by_head()[:, head].T
        found = [("x", x, "stream")]
        if of_layer.norm_first:
            found.append(("norm", of_layer.before(x), "read"))
        attention, *more = of_layer.stations(x, joined)
        found.append(attention)
        if isinstance(of_layer.attention_output_norm, nn.Identity):  # else no head's part is added as it is
            found.append((f"head {head}", part, "part"))
        found += more
        if not torch.equal(after, found[-1][1]):  # a convolution beside the first layer, or the network's last norm
            found.append(("end of the layer", after, "stream"))
        return [(name, vectors.double().cpu().numpy(), kind) for name, vectors, kind in found]


def _lengths(vectors: Doubles) -> Doubles:
    """Return the length of each vector, `[token]`."""
    lengths: Doubles = np.linalg.norm(vectors, axis=-1)
    return lengths


def _cosines(vectors: Doubles, others: Doubles) -> Doubles:
    """Return the cosine of each vector with the other of its token, `[token]`; 0 for a vector of length 0."""
    product = _lengths(vectors) * _lengths(others)
    cosines: Doubles = (vectors * others).sum(axis=-1) / np.maximum(product, np.finfo(float).tiny)
    return cosines
