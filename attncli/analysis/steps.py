"""One row of one head from beginning to end, every number on the way.

    score_j  = q · k_j                    scaled_j = score_j / √d_k
    raised_j = exp(scaled_j - m), m the largest scaled score that the mask allows; 0 where it hides the key
    weight_j = raised_j / Σ_l raised_l    output   = Σ_j weight_j v_j

(Vaswani et al. 2017, equation 1. Subtracting m changes no weight, and keeps exp from overflowing.)
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from attncli.base.arrays import Bools, Doubles, Floats
from attncli.record import AttentionRecord

BY_KEY = ("allowed", "score", "scaled", "raised", "weight", "computed")
BY_VALUE = ("value_norm", "contribution")  # by key too, where values are known


@dataclass(frozen=True)
class RowSteps:
    """The steps of one query; arrays are by key `[key]`, computed in float64 from the head's own vectors.

    What is made of values is None where they are not known.

    score, scaled, raised: as in the formulas above; largest is m, total the sum of raised.
    weight: the head's own, as the model computed it; computed: raised / total, which differs from it by rounding.
    value_norm: |v_j|; contribution: |weight_j v_j|, how much a token brings to the output (Kobayashi et al. 2020,
    equation 3, without the output projection). output: Σ_j weight_j v_j `[head_dim]`.
    """

    allowed: Bools
    score: Doubles
    scaled: Doubles
    largest: float
    raised: Doubles
    total: float
    weight: Floats
    computed: Doubles
    value_norm: Doubles | None
    contribution: Doubles | None
    output: Doubles | None


def row_steps(query: Floats, key: Floats, value: Floats | None, allowed: Bools, weight: Floats) -> RowSteps:
    """The steps from q `[head_dim]`, k and v `[key, head_dim]`, what may be attended to and the weights `[key]`.

    Where nothing may be attended to all weights and the output are 0.
    """
    score = key.astype(np.float64) @ query.astype(np.float64)
    scaled = score / np.sqrt(len(query))
    largest = float(scaled[allowed].max()) if allowed.any() else 0.0
    raised = np.where(allowed, np.exp(np.where(allowed, scaled - largest, 0.0)), 0.0)
    total = float(raised.sum())
    values = None if value is None else value.astype(np.float64)
    weighted = None if values is None else weight.astype(np.float64)[:, None] * values  # [key, head_dim]
    return RowSteps(
        allowed=allowed,
        score=score,
        scaled=scaled,
        largest=largest,
        raised=raised,
        total=total,
        weight=weight,
        computed=raised / total if total else raised,
        value_norm=None if values is None else np.linalg.norm(values, axis=-1),
        contribution=None if weighted is None else np.linalg.norm(weighted, axis=-1),
        output=None if weighted is None else weighted.sum(axis=0),
    )


def document(record: AttentionRecord, x: Floats | None, value: Floats | None, query: int) -> dict[str, Any]:
    """What `explain --json` prints: a query's row of the one head of a record, key by key.

    The record holds the head's queries and keys too (`vectors`). x: what goes into its layer, `[token, hidden_size]`;
    value: the head's values `[token, head_dim]`; query: the place of the token whose row it is. A saved record has
    neither x nor values: then what is made of them is not in the document.
    """
    [layer], [head] = record.layers, record.heads
    assert record.vectors is not None
    queries, keys = record.vectors.of(layer, head)
    steps = row_steps(queries[query], keys, value, record.mask_of(layer)[query], record.map(layer, head)[query])
    columns = {name: getattr(steps, name).tolist() for name in (*BY_KEY, *(BY_VALUE if value is not None else ()))}
    columns["k"] = keys.tolist()
    if value is not None:
        columns["v"] = value.tolist()
    made: dict[str, Any] = {
        "model": asdict(record.model),
        "layer": layer,
        "head": head,
        **({} if record.kind == "encoder" else {"kind": record.kind}),
        "mask": record.mask_name,
        "tokens": record.tokens.text,
        "query": {
            "index": query,
            "token": record.tokens.text[query],
            "shown": record.tokens.shown[query],
            **({} if x is None else {"x": x[query].tolist()}),
            "q": queries[query].tolist(),
        },
        "keys": [
            {
                "index": key,
                "token": token,
                "shown": record.keys.shown[key],
                **{name: column[key] for name, column in columns.items()},
            }
            for key, token in enumerate(record.keys.text)
        ],
        "largest": steps.largest,
        "total": steps.total,
    }
    if steps.output is not None:
        made |= {"output": steps.output.tolist(), "output_norm": float((steps.output**2).sum() ** 0.5)}
    return made
