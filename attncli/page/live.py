"""The page with a field to type in, which asks the server that it is from, and nobody else (`attncli.live.server`).

It is the page of `view` with live.html above it, live.css after its style and liveMain.js around its modules; it begins
with the records that a page begins with, and is told of others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attncli.page.document import as_json, assembled, content, policy, script, style_of
from attncli.page.start import Start
from attncli.record import AttentionRecord

MAIN = "liveMain"
BODIES = ("live.html", "template.html")
STYLES = ("style.css", "live.css")


@dataclass(frozen=True)
class LivePage:
    """A live page. policy: the part of its policy that a server has to send: who may have the page in a frame."""

    text: str
    policy: str


def live_page(records: Sequence[AttentionRecord], start: Start, advice: str, live: dict[str, Any]) -> LivePage:
    """Return the live page of these records. live: the facts about its server, `{model, models, texts}`.

    Raises RequestError as `page` does.
    """
    description, chunks = content(records, start, None, advice)
    code = script(MAIN)
    allowed = f"{policy(style_of(STYLES), code)}; connect-src 'self'"
    settings = f'<script type="application/json" id="live">{as_json(live)}</script>'
    title = f"{description['model']['name']}: {description['texts'][0]['title']}"
    text = assembled(BODIES, STYLES, code, title, description, chunks, allowed, settings)
    return LivePage(text, f"{allowed}; frame-ancestors 'none'")
