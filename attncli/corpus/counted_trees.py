"""What heads find in the sentences of a shard of a treebank: the work of `attncli.corpus.probing`."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch

from attncli.analysis.spanning_trees import Ints
from attncli.analysis.tally import DIRECTIONS, Skipped, Tally, check_tally, tally
from attncli.base.schema import LARGEST, each, fields, name, text, whole
from attncli.corpus.of_model import MOST_THREADS, OfModel, asked_of, pool
from attncli.corpus.sentences import read
from attncli.corpus.shards import Arrays, Counts, Seen, Shard
from attncli.corpus.treebank import TreebankReading
from attncli.models.engine import Engine
from attncli.models.model import Model
from attncli.models.network import lay_out
from attncli.models.opening import Opening
from attncli.models.tapped import check_every_layer

# What a file says of a tally, beside its arrays. Those of `found_at` are one, in the order of the distances.
DISTANCE = fields({"relation": text(), "offset": whole(-LARGEST), "count": whole(1)})
SKIPPED = fields({"why": text(), "count": whole(1), "file": name(), "line": whole(1)})
COUNTS = ("sentences", "word_count", "edges", "chain_edges")
TALLY = fields({**dict.fromkeys(COUNTS, whole()), "distances": each(DISTANCE), "skips": each(SKIPPED)})


@dataclass(frozen=True)
class CountedTrees(OfModel[Tally]):
    """What heads find in the sentences of a shard.

    layers, heads: how many there are. threads: cores that share what can't be computed side by side.
    """

    reading: TreebankReading
    which: str | None
    layers: int
    heads: int
    threads: int

    @classmethod
    def of(cls, model: Engine, reading: TreebankReading, which: str | None) -> "CountedTrees":
        """which: as `Engine.to_itself` has it."""
        check_every_layer(model, which, "probe")
        info = model.info_of(which)
        asked = {**asked_of("probe", model, which), **reading.asked}
        threads = min(MOST_THREADS, torch.get_num_threads())
        return cls(Opening.of(model), asked, reading, which, info.layers, info.heads, threads, model=model)

    @property
    def fixed(self) -> Mapping[str, int]:
        return {"threads": self.threads}

    def at(self, fixed: Mapping[str, int] | None, size: int) -> "CountedTrees":
        return self if fixed is None else replace(self, threads=fixed["threads"])

    def begin(self, cores: int | None) -> Counts[Tally]:
        model = self.opened()
        if isinstance(model, Model):
            model.need(self.layers)  # now, as several threads are going to use it
            lay_out(model.network)  # and not after some shards, which would then depend on those before them

        def counts(shard: Shard) -> Iterator[Tally]:
            placed = (
                (piece.input.name, sentence) for piece in shard.pieces for sentence in self.reading.sentences([piece])
            )
            with pool(cores or torch.get_num_threads(), self.threads) as each:
                yield from tally(read(model, placed, self.which, each), self.nothing())

        return counts

    def nothing(self) -> Tally:
        return Tally.nothing(self.layers, self.heads)

    def seen(self, total: Tally) -> Seen:
        return Seen(total.seen, total.word_count)

    def saved(self, total: Tally) -> tuple[dict[str, Any], Arrays]:
        about = {
            **{name: getattr(total, name) for name in COUNTS},
            "distances": [
                {"relation": relation, "offset": offset, "count": total.offsets[relation][offset]}
                for relation, offset in total.found_at
            ],
            "skips": [{"why": why, **asdict(skipped)} for why, skipped in total.skips.items()],
        }
        shapes = self.shapes(len(total.found_at))
        found = np.array(list(total.found_at.values()), dtype=np.int64).reshape(shapes["found_at"])
        return about, {"found_at": found, "tree_edges": total.tree_edges, "layer_edges": total.layer_edges}

    def loaded(self, about: dict[str, Any], arrays: Arrays) -> Tally:
        TALLY(about, "it")
        if {name: array.shape for name, array in arrays.items()} != self.shapes(len(about["distances"])):
            raise ValueError("its shapes are another model's")
        if any(array.dtype != np.int64 for array in arrays.values()):
            raise ValueError("its counts are no whole numbers")
        offsets: dict[str, Counter[int]] = {}
        found_at: dict[tuple[str, int], Ints] = {}
        for one, found in zip(about["distances"], arrays["found_at"], strict=True):
            offsets.setdefault(one["relation"], Counter())[one["offset"]] = one["count"]
            found_at[one["relation"], one["offset"]] = found
        skips = {one["why"]: Skipped(one["count"], one["file"], one["line"]) for one in about["skips"]}
        if len(found_at) != len(about["distances"]) or len(skips) != len(about["skips"]):
            raise ValueError("it says something twice")
        total = Tally(
            **{name: about[name] for name in COUNTS},
            offsets=offsets,
            found_at=found_at,
            tree_edges=arrays["tree_edges"],
            layer_edges=arrays["layer_edges"],
            skips=skips,
        )
        check_tally(total)
        return total

    def shapes(self, distances: int) -> dict[str, tuple[int, ...]]:
        """Of the arrays of a tally."""
        heads = (self.layers, self.heads)
        return {"found_at": (distances, *heads, len(DIRECTIONS)), "tree_edges": heads, "layer_edges": heads[:1]}
