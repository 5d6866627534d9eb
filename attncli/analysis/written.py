"""Describe the tokens that a model wrote: each was chosen from the row of the token before it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from attncli.analysis.edges import Edge
from attncli.record import AttentionRecord


@dataclass(frozen=True)
class WrittenToken:
    """A token that a model wrote.

    query: the row that it was chosen from. likely: the most likely tokens there with their probabilities, the best
    first. probability: its own, if it is one of them. edges: of its row, those far above their usual weight, the
    farthest above first.
    """

    query: int
    likely: dict[str, float]
    probability: float | None
    edges: Sequence[Edge]

    @property
    def place(self) -> int:
        """Return its place in the text."""
        return self.query + 1


def written_tokens(record: AttentionRecord, found: Sequence[Sequence[Edge]]) -> list[WrittenToken]:
    """Return the tokens that the model wrote, in order. found: the strong edges of each head."""
    assert record.written is not None
    of_rows: dict[int, list[Edge]] = defaultdict(list)
    for of_head in found:
        for edge in of_head:
            of_rows[edge.query].append(edge)
    likely: dict[int, dict[str, float]] = defaultdict(dict)
    for answer in record.prediction.answers if record.prediction is not None else ():
        if answer.start is not None and answer.probability is not None:
            likely[answer.start].setdefault(answer.label, answer.probability)
    tokens = []
    for place in range(record.written, len(record.tokens)):
        query = place - 1
        probability = likely[query].get(record.tokens.shown[place])
        tokens.append(
            WrittenToken(query, likely[query], probability, sorted(of_rows[query], key=lambda edge: -edge.above))
        )
    return tokens
