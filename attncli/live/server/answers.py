"""From what is looked at to what the page is told: the records of the session, described as `view` describes them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from operator import lt
from typing import TYPE_CHECKING, Any

import orjson

from attncli.analysis.shares import row_shares
from attncli.analysis.telling import telling_head
from attncli.live.newest import Watch
from attncli.live.server.asking import Saving, Wish
from attncli.live.server.site import Site
from attncli.live.session import Asked
from attncli.models.tapped import SHORT
from attncli.record import AttentionRecord
from attncli.render.page import Start, advice, document
from attncli.render.page.payload import plain_payload

if TYPE_CHECKING:
    from attncli.models.engine import Engine

ALL_OF_SHORT = 1  # of `Asked.vectors`: heads of short texts have theirs whatever it is

numbers = count(1)  # of answers, so that their chunks have names of their own


@dataclass(frozen=True)
class Answer:
    """What is sent: one line of JSON, `{"page", "chunks"}`, and after it the bytes of the chunks in that order."""

    line: bytes
    parts: Sequence[bytes]


def answer(site: Site, wish: Wish, watch: Watch) -> Answer:
    """Raises RequestError as `Session.records` does, SupersededError when the watch does."""
    records = records_of(site, wish, watch)
    start = {"opening": opening(site, wish, records[0])} if wish.fresh else {}
    description, chunks = plain_payload(records, start, f"{next(numbers)}-")
    description["advice"] = advised(site, wish, records[0])
    description["texts"][0]["note"] = "; ".join(
        filter(None, [description["texts"][0]["note"], left_out(site, wish, records[0])])
    )
    names = {name: len(data) for name, data in chunks.items()}
    return Answer(orjson.dumps({"page": description, "chunks": names}) + b"\n", list(chunks.values()))


def records_of(site: Site, wish: Wish, watch: Watch) -> list[AttentionRecord]:
    """A record a mask, as the page shows them: with q and k of all heads of a short text, or of the head looked at.

    Raises RequestError as `answer` does.
    """
    asked = Asked(wish.model, wish.text, site.request, site.masks)
    if wish.head is None or not has_vectors(site, wish):
        found = site.session.records(asked, watch)
    else:
        found = with_vectors(site, asked, wish.head, watch)
    return [row_shares(site.shown(record)) for record in found]


def with_vectors(site: Site, asked: Asked, head: tuple[int, int], watch: Watch) -> list[AttentionRecord]:
    [tokens] = site.session.engine(asked.model).tokenize([asked.text], None)
    if len(tokens) <= SHORT:
        found = site.session.records(replace(asked, vectors=ALL_OF_SHORT), watch)
        if found[0].vectors is not None and head in found[0].vectors.heads:
            return found
    of_one = replace(asked.request, vectors=f"{head[0]}.{head[1]}")
    return site.session.records(replace(asked, request=of_one), watch)


def has_vectors(site: Site, wish: Wish) -> bool:
    """Whether there are any: norms have none, nor has another engine."""
    return site.request.measure == "weight" and can_be_tapped(site.session.engine(wish.model))


def can_be_tapped(engine: "Engine") -> bool:
    from attncli.models.tapped import tapped

    return tapped(engine) is not None


def opening(site: Site, wish: Wish, record: AttentionRecord) -> dict[str, Any]:
    """The head that `run` puts first on this text: where `view` opens too."""
    asked = Asked(wish.model, wish.text, site.request, site.masks)
    stretched = record.part is not None and record.part.stretched
    usual = None if stretched else site.session.usual(asked)
    layer, head = telling_head(record, site.session.telling(record, usual))
    return {"layer": layer, "head": head, "heads": [head]}


def left_out(site: Site, wish: Wish, record: AttentionRecord) -> str:
    """That there is more of the text than the model takes, where that is so; "" where it is not."""
    engine, tokens = site.session.engine(wish.model), record.tokens
    if not can_be_tapped(engine) or record.part is not None or len(tokens) < engine.tokenizer.max_tokens:
        return ""
    reached = [0, 0]
    for segment, (_, end) in zip(tokens.segments, tokens.offsets, strict=True):
        reached[segment] = max(reached[segment], end)
    ends = [len(one.rstrip()) for one in (wish.text.text, wish.text.pair or "")]
    return f"only the first {len(tokens)} tokens: this model takes no more" if any(map(lt, reached, ends)) else ""


def advised(site: Site, wish: Wish, record: AttentionRecord, otherwise: str = advice.LIVE) -> str:
    """What is said of a head whose q and k are not there; otherwise: where they could be."""
    if record.measure != "weight":
        return advice.NORMS
    return otherwise if can_be_tapped(site.session.engine(wish.model)) else advice.OTHER_ENGINE


def saved(site: Site, saving: Saving, watch: Watch) -> bytes:
    """The offline page of what is on the screen, which opens as the screen is.

    Raises RequestError as `answer` does, and for a state that the text has not.
    """
    state, head = saving.state, (saving.state["layer"], saving.state["head"])
    wish = replace(saving.wish, head=head)
    records = records_of(site, wish, watch)
    records.sort(key=lambda record: record.mask_name != state["mask"])  # the others stay in their order
    start = Start(
        state["view"],
        state["token"],
        state["segments"],
        state["special"],
        state["words"],
        state["threshold"],
        head,
    )
    return document.page(records, start, advice=advised(site, wish, records[0], advice.VIEW)).encode("utf-8")
