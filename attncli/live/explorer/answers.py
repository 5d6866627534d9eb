"""What the explorer draws: made beside the screen, so that drawing has nothing to compute."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from attncli.analysis.difference import Difference, difference
from attncli.analysis.patterns import HeadSummary, summarise
from attncli.analysis.shares import row_shares
from attncli.analysis.telling import Edge, Usual, telling_head
from attncli.live.explorer.look import Look
from attncli.live.newest import Watch
from attncli.live.session import Session
from attncli.record import AttentionRecord
from attncli.record.request import Input
from attncli.render.captions.prediction import prediction_lines


@dataclass(frozen=True)
class Answer:
    """A record with everything that is shown of it.

    record: weights, or norms as shares of their rows; telling: the strong edges of the heads that stand out, the first
    head first; found: beside what it is compared with; said: what the model says of the text.
    """

    look: Look
    record: AttentionRecord
    summaries: Mapping[tuple[int, int], HeadSummary]
    telling: Sequence[Sequence[Edge]]
    found: Difference | None
    said: Sequence[str]

    @property
    def first(self) -> tuple[int, int]:
        """The head that `run` names first."""
        return telling_head(self.record, self.telling)

    @property
    def order(self) -> list[tuple[int, int]]:
        """The heads that are worth a look: those that differ most, or those that stand out on this text."""
        if self.found is not None:
            return self.found.heads()
        return [(edges[0].layer, edges[0].head) for edges in self.telling]

    def edge(self, layer: int, head: int, query: int, key: int) -> Edge | None:
        """A cell's strong edge, if it is one."""
        cell = layer, head, query, key
        every = (edge for edges in self.telling for edge in edges)
        return next((one for one in every if (one.layer, one.head, one.query, one.key) == cell), None)


def answer(
    session: Session, look: Look, before: Input | None, pad_to: int | None, over: Usual | None, watch: Watch
) -> Answer:
    """before: the text that a look against "before" is compared with; over: what is usual, where that is known already.

    Raises RequestError as `Session.record` and `difference` do; SupersededError.
    """
    record = row_shares(session.record(look.asked(pad_to), watch))
    found = None
    if look.against == "whole" and look.without:
        whole = session.record(replace(look, without=()).asked(pad_to), watch)
        found = difference(whole, record)
    elif look.against == "before" and before is not None:
        found = difference(session.record(replace(look, text=before).asked(pad_to), watch), record)
    return Answer(
        look, record, summarise(record), session.telling(record, over), found, tuple(prediction_lines(record))
    )
