"""What a page asks for, as JSON: read, held to a table, and made into what a session is asked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attncli.base import choices, schema
from attncli.base.untrusted import parse_json
from attncli.live.server.site import Site
from attncli.record.request import Input

LONGEST_NAME = 64  # characters of what a page calls itself
MOST = 10**6  # no text has so many tokens, no model so many heads


@dataclass(frozen=True)
class Wish:
    """What is looked at. whose: the page that asks; model: as the session calls it.

    head: (layer, head) whose q and k are looked at; None: nobody's. fresh: whether the page has nothing of this model
    yet, so that it has to be told where to begin.
    """

    whose: str
    model: str
    text: Input
    head: tuple[int, int] | None
    fresh: bool


@dataclass(frozen=True)
class Saving:
    """What is on the screen: how a page of it opens, and which mask comes first."""

    wish: Wish
    state: Mapping[str, Any]


def fields_of(site: Site) -> dict[str, schema.Check]:
    whole = schema.whole(0, MOST)
    return {
        "whose": schema.text(LONGEST_NAME),
        "model": schema.one_of(site.names),
        "text": schema.text(None),
        "pair": schema.maybe(schema.text(None)),
        "head": schema.maybe(schema.each(whole, 2)),
        "fresh": schema.flag(),
    }


def state_fields(site: Site) -> dict[str, schema.Check]:
    whole = schema.whole(0, MOST)
    return {
        "view": schema.one_of(choices.names(choices.PageView)),
        "mask": schema.one_of([mask for mask in site.masks if mask] or choices.names(choices.Mask)),
        "layer": whole,
        "head": whole,
        "token": schema.maybe(whole),
        "segments": schema.one_of(("all", "AA", "AB", "BA", "BB")),
        "special": schema.flag(),
        "words": schema.flag(),
        "threshold": schema.real(),
    }


def wish_of(body: bytes, site: Site) -> Wish:
    """What to look at. Raises ValueError for what is no JSON, or not held to the table."""
    asked = parse_json(body)
    schema.fields(fields_of(site))(asked, "it")
    return read(asked, site)


def saving_of(body: bytes, site: Site) -> Saving:
    """What to save. Raises ValueError as `wish_of` does."""
    asked = parse_json(body)
    schema.fields({**fields_of(site), "state": schema.fields(state_fields(site))})(asked, "it")
    return Saving(read(asked, site), asked["state"])


def read(asked: Mapping[str, Any], site: Site) -> Wish:
    head = None if asked["head"] is None else (asked["head"][0], asked["head"][1])
    text = Input(asked["text"], asked["pair"] or None)
    return Wish(asked["whose"], site.names[asked["model"]], text, head, asked["fresh"])
