"""The state in which a page opens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.record import AttentionRecord
from attncli.record.selection import check_segments, number_list, select_token, selected_places

MEAN = -1  # as a layer: the mean of all layers; as a head: the mean of all heads


@dataclass(frozen=True)
class Start:
    """The first state of a page. It is checked as far as possible before there is a record.

    view: "heads", "model", "matrix" or "neuron". query: the token that is held, by its text ("it", "it#2") or its
    number. segments: "AB" shows from the first text to the second, and so on; or "all". special: whether [CLS], [SEP]
    and [PAD] are shown. words: whether pieces are put together to words. threshold: weights below it are not drawn.
    head: (layer, head), each of which may be MEAN; by default the head that stands out most, with the query of its
    strongest edge.

    Raises RequestError for an unknown or impossible value.
    """

    view: str = "heads"
    query: str | int | None = None
    segments: str = "all"
    special: bool = True
    words: bool = False
    threshold: float = 0.0
    head: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        choices.check("view", self.view, choices.PageView)
        check_segments(self.segments)
        if not 0 <= self.threshold <= 1:
            raise RequestError(f"threshold {self.threshold:g} is out of range: weights are between 0 and 1")

    def state(self, record: AttentionRecord | None) -> dict[str, Any]:
        """Return the state of the page's script (state.js), for the first of its records.

        Raises RequestError when the record has no such token or segment, or nothing would be left of it.
        """
        found: dict[str, Any] = {
            "view": self.view,
            "segments": check_segments(self.segments),
            "special": self.special,
            "words": self.words,
            "threshold": self.threshold,
        }
        if record is not None:
            selected_places(record.tokens, self.special, self.segments, record.keys)
            if self.query is not None:
                found["token"] = select_token(str(self.query), record.tokens)
        return found

    def opening(self, record: AttentionRecord, findings: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """Return the state where an address says nothing: one head, and the query that makes it stand out.

        findings: of the record, as the page lists them (`attncli.page.payload.findings_entry`). Where there are none it
        is the first head of the last layer. Raises RequestError when the record does not have the head.
        """
        if self.head is None and findings:
            layer, head, query, *_ = findings[0]
            token = {"token": query} if self.query is None else {}
            return {"layer": layer, "head": head, "heads": [head], **token}
        layer, head = self.head or (record.layers[-1], record.heads[0])
        if layer not in (MEAN, *record.layers) or head not in (MEAN, *record.heads):
            here = f"layers are {number_list(record.layers)}, heads {number_list(record.heads)}"
            raise RequestError(f"head {layer}.{head} is not in this record: {here}")
        return {"layer": layer, "head": head, "heads": [head]}
