"""One row of one head from beginning to end, every number on the way.

    score_j  = q · k_j                    scaled_j = score_j · scale, which is 1 / √d_k in most networks
    added_j  = scaled_j + terms_j         what positions add, where they add something
    raised_j = exp(added_j - m), m the largest added score that the mask allows; 0 where it hides the key
    weight_j = raised_j / Σ_l raised_l    output   = Σ_j weight_j v_j

A head's sink, if it has one, is a further score: m is at least that, and the sum has exp(sink - m) too.

(Vaswani et al. 2017, equation 1; Raffel et al. 2020, section 2.1; He et al. 2021, equation 4. Subtracting m changes no
weight, and keeps exp from overflowing.) Where positions turn q and k (Su et al. 2021), these are the turned ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from attncli.base.arrays import Bools, Doubles, Floats, Ints
from attncli.record import AttentionRecord

BY_KEY = ("allowed", "score", "scaled", "raised", "weight", "computed")
BY_VALUE = ("value_norm", "contribution")  # by key too, where values are known


class Beside(NamedTuple):
    """What a record does not say of where a head's scores come from.

    rotary: by what the vectors are turned, in the words of `attncli.attention.Rotary`; before: queries and keys before
    that, `[token, head_dim]` each. rows: of the table that terms are made of, by query and key `[query, key]`.
    group: the heads that have the same keys and values, where there are others than this one.
    """

    rotary: Mapping[str, Any] | None = None
    before: tuple[Floats, Floats] | None = None
    rows: Ints | None = None
    group: Sequence[int] = ()


@dataclass(frozen=True)
class RowSteps:
    """The steps of one query; arrays are by key `[key]`, computed in float64 from the head's own vectors.

    What is made of values is None where they are not known.

    score, scaled, terms (by name), added, raised: as in the formulas above; largest is m, total the sum of raised.
    sink: exp of the head's sink score less m, which is a part of the total and leads nowhere; 0 without a sink.
    weight: the head's own, as the model computed it; computed: raised / total, which differs from it by rounding.
    value_norm: |v_j|; contribution: |weight_j v_j|, how much a token brings to the output (Kobayashi et al. 2020,
    equation 3, without the output projection). output: Σ_j weight_j v_j `[head_dim]`.
    """

    allowed: Bools
    score: Doubles
    scale: float
    scaled: Doubles
    terms: dict[str, Doubles]
    added: Doubles
    largest: float
    raised: Doubles
    total: float
    weight: Floats
    computed: Doubles
    value_norm: Doubles | None
    contribution: Doubles | None
    output: Doubles | None
    sink: float = 0.0


@dataclass(frozen=True)
class Scoring:
    """How a query's scores are made of q · k_j: the scale, by default 1 / √d_k, and terms by name `[key]`.

    sink: the head's sink score; None if it has none.
    """

    scale: float | None = None
    terms: Mapping[str, Floats] = field(default_factory=dict)
    sink: float | None = None


def row_steps(
    query: Floats, key: Floats, value: Floats | None, allowed: Bools, weight: Floats, scoring: Scoring = Scoring()
) -> RowSteps:
    """The steps from q `[head_dim]`, k and v `[key, head_dim]`, what may be attended to and the weights `[key]`.

    Where nothing may be attended to all weights and the output are 0.
    """
    score = key.astype(np.float64) @ query.astype(np.float64)
    scale = float(len(query) ** -0.5 if scoring.scale is None else scoring.scale)
    scaled = score * scale
    terms = {name: term.astype(np.float64) for name, term in scoring.terms.items()}
    added = scaled + sum(terms.values())
    largest = float(added[allowed].max()) if allowed.any() else 0.0
    if scoring.sink is not None:
        largest = max(largest, scoring.sink) if allowed.any() else scoring.sink
    raised = np.where(allowed, np.exp(np.where(allowed, added - largest, 0.0)), 0.0)
    sink = 0.0 if scoring.sink is None else float(np.exp(scoring.sink - largest))
    total = float(raised.sum()) + sink
    values = None if value is None else value.astype(np.float64)
    weighted = None if values is None else weight.astype(np.float64)[:, None] * values  # [key, head_dim]
    return RowSteps(
        allowed=allowed,
        score=score,
        scale=scale,
        scaled=scaled,
        terms=terms,
        added=added,
        largest=largest,
        raised=raised,
        total=total,
        weight=weight,
        computed=raised / total if total else raised,
        value_norm=None if values is None else np.linalg.norm(values, axis=-1),
        contribution=None if weighted is None else np.linalg.norm(weighted, axis=-1),
        output=None if weighted is None else weighted.sum(axis=0),
        sink=sink,
    )


def document(
    record: AttentionRecord, x: Floats | None, value: Floats | None, query: int, beside: Beside = Beside()
) -> dict[str, Any]:
    """What `explain --json` prints: a query's row of the one head of a record, key by key.

    The record holds the head's queries and keys too (`vectors`). x: what its projections are given,
    `[token, hidden_size]`; value: the head's values `[token, head_dim]`; query: the place of the token whose row it is.
    A saved record has none of x, values and what is `beside`: then what is made of them is not in the document.
    """
    [layer], [head] = record.layers, record.heads
    vectors = record.vectors
    assert vectors is not None
    queries, keys = vectors.of(layer, head)
    place = vectors.place(layer, head)
    sink = vectors.sink(layer, head)
    terms = {name: term[place, query] for name, term in vectors.terms.items()}
    scoring = Scoring(float(vectors.scale[place]), terms, sink)
    weights, allowed = record.map(layer, head)[query], record.mask_of(layer)[query]
    steps = row_steps(queries[query], keys, value, allowed, weights, scoring)
    columns = {name: getattr(steps, name).tolist() for name in (*BY_KEY, *(BY_VALUE if value is not None else ()))}
    if steps.terms:
        by_name = {name: term.tolist() for name, term in steps.terms.items()}
        columns["terms"] = [dict(zip(by_name, of_key, strict=True)) for of_key in zip(*by_name.values(), strict=True)]
        columns["added"] = steps.added.tolist()
    if beside.rows is not None:
        columns["row"] = beside.rows[query].tolist()
    own = {} if x is None else {"x": x[query].tolist()}
    if beside.before is not None:
        before, keys_before = (part.astype(np.float64) for part in beside.before)
        own["before"] = before[query].tolist()
        columns["before"] = keys_before.tolist()
        columns["unturned"] = (keys_before @ before[query]).tolist()
    columns["k"] = keys.tolist()
    if value is not None:
        columns["v"] = value.tolist()
    made: dict[str, Any] = {
        "model": record.model.document(),
        "layer": layer,
        "head": head,
        **({} if record.kind == "encoder" else {"kind": record.kind}),
        "mask": record.mask_name,
        "tokens": record.tokens.text,
        "scale": steps.scale,
        **({"group": list(beside.group)} if beside.group else {}),
        **({} if beside.rotary is None else {"rotary": dict(beside.rotary)}),
        "query": {
            "index": query,
            "token": record.tokens.text[query],
            "shown": record.tokens.shown[query],
            **own,
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
        **({} if sink is None else {"sink": {"score": sink, "raised": steps.sink}}),
        "total": steps.total,
    }
    if steps.output is not None:
        made |= {"output": steps.output.tolist(), "output_norm": float((steps.output**2).sum() ** 0.5)}
    return made
