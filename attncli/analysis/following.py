"""What the tokens of some layers are made of, in input tokens: by the weights, by rollout and by attention flow."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np

from attncli.analysis.flow import flow_shares, maximum_flows
from attncli.analysis.rollout import mean_maps, residual_steps, rollout, shares_record
from attncli.base import choices
from attncli.base.arrays import Bools, Doubles, Floats
from attncli.record import AttentionRecord
from attncli.record.cells import drawn
from attncli.record.selection import Selection


class Way(NamedTuple):
    """What a method goes by: a record and its `residual_steps`, from which layers and queries, and what to call after
    every query where that takes long.
    """

    record: AttentionRecord
    steps: Doubles
    layers: list[int]
    queries: list[int]
    advance: Callable[[], None]


@dataclass(frozen=True)
class Followed:
    """What was found by following a record's attention down.

    layers: numbers of layers; queries: places of tokens.
    shares: by method, `[layer, query, input token]`; of raw, the token of the layer below. Rows sum to 1.
    flows: the maximum flows themselves, where flow is among the methods.
    """

    record: AttentionRecord
    layers: list[int]
    queries: list[int]
    shares: dict[str, Doubles]
    flows: Doubles | None = None

    def as_record(self) -> AttentionRecord:
        """The shares of the queries as one record (`shares_record`)."""
        return shares_record(self.record, self.layers, self.shares, self.queries)

    @property
    def masks(self) -> dict[str, Bools]:
        """By method, where a share can be, `[layer, query, input token]`: there is a path; of raw, a step."""
        paths = self.as_record().masks
        own = np.stack([self.record.mask_of(layer) for layer in self.layers])[:, self.queries]
        return {name: own if name == "raw" else paths for name in self.shares}

    def of(self, query: int) -> "Followed":
        """The same of one of the queries."""
        place = [self.queries.index(query)]
        shares = {name: rows[:, place] for name, rows in self.shares.items()}
        return replace(self, queries=[query], shares=shares, flows=None if self.flows is None else self.flows[:, place])

    def document(self, held: int | None = None) -> dict[str, Any]:
        """What `flow --json` prints: for every layer and query, or for the one `held`, a share of each input token.

        And the same shares as `as_record` has them, in the way of `run --json`.
        """
        if held is not None:
            return self.of(held).document()
        entry = self.as_record().document()
        for shown, method in zip(entry["attention"], cycle(self.shares)):
            shown["method"] = method
        rows = dict(self.shares) if self.flows is None else {**self.shares, "maximum_flow": self.flows}
        return {
            "model": self.record.model.document(),
            "measure": self.record.measure,
            "mask": self.record.mask_name,
            "heads": self.record.heads,
            "tokens": self.record.tokens.text,
            "layers": [
                {
                    "layer": layer,
                    "queries": [
                        {
                            "query": query,
                            "index": query,
                            "token": self.record.tokens.text[query],
                            **{name: values[number, place].tolist() for name, values in rows.items()},
                        }
                        for place, query in enumerate(self.queries)
                    ],
                }
                for number, layer in enumerate(self.layers)
            ],
            "records": [entry],
        }


def follow(
    record: AttentionRecord,
    layers: Selection | None = None,
    queries: Sequence[int] | None = None,
    methods: Iterable[str] = choices.names(choices.Method),
    advance: Callable[[], None] = lambda: None,
) -> Followed:
    """Follow a record's attention down to the input tokens, by some of METHODS (Abnar and Zuidema 2020).

    layers: from which layers, by their numbers; by default the last that the record holds. queries: from which
    tokens; by default all. With flow, which takes longest, `advance` is called after every query of every layer.

    Raises RequestError for a method that there is not or a layer that the record does not hold, and as
    `residual_steps` and `maximum_flows` do.
    """
    methods = list(dict.fromkeys(methods))
    for method in methods:
        choices.check("method", method, choices.Method)
    chosen = layers_followed(record, layers)
    wanted = list(range(len(record.tokens))) if queries is None else list(queries)
    way = Way(record, residual_steps(record), chosen, wanted, advance)
    found = {name: METHODS[name](way) for name in methods}
    shares = {name: flow_shares(rows) if name == "flow" else rows for name, rows in found.items()}
    return Followed(record, chosen, wanted, shares, found.get("flow"))


def layers_followed(record: AttentionRecord, layers: Selection | None) -> list[int]:
    """The layers meant: the last one of the record by default. Raises RequestError as `AttentionRecord.chosen` does."""
    if layers is None:
        return [max(record.layers)]
    return record.chosen("layer", layers, record.layers, record.model.layers)


def raw(way: Way) -> Doubles:
    """Mean weights to the tokens of the layer below: nothing is followed."""
    return mean_maps(way.record.select(layers=way.layers))[:, way.queries]


def rolled_out(way: Way) -> Doubles:
    """All paths added up."""
    return rollout(way.steps)[way.layers][:, way.queries]


def flows(way: Way) -> Doubles:
    """The most that can flow, weights being capacities."""
    return np.stack([maximum_flows(way.steps, layer, way.queries, way.advance) for layer in way.layers])


# By name: what gives the rows `[layer, query, input token]`.
METHODS: dict[str, Callable[[Way], Doubles]] = {"raw": raw, "rollout": rolled_out, "flow": flows}


def followed_maps(found: "Followed") -> dict[str, Floats]:
    """Return the shares as maps that are drawn, by method; what no path leads to is hidden."""
    return {name: drawn(rows.astype(np.float32), found.masks[name]) for name, rows in found.shares.items()}
