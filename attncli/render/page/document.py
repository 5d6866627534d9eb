"""The page as one file: the template with style, script, description and chunks in their places.

Nothing in a record can become markup or script: words are JSON in which "<" is written as an escape, numbers are
base64, and the page's policy lets no script run but its own, and nothing be requested from anywhere.
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attncli.analysis.filters import check_segments, kept
from attncli.analysis.shares import row_shares
from attncli.errors import RequestError
from attncli.files import check_suffix, write_whole
from attncli.printable import printable
from attncli.record import AttentionRecord
from attncli.render.page.modules import FOLDER, script
from attncli.render.page.payload import payload
from attncli.selection import select_token

SUFFIXES = (".html", ".htm")
FRAME_HEIGHT = 640  # pixels
VIEWS = ("heads", "model", "matrix", "neuron")

PLACE = re.compile(r"\{\{ (\w+) \}\}")


def page(
    records: AttentionRecord | Sequence[AttentionRecord],
    *,
    view: str = "heads",
    query: str | int | None = None,
    segments: str = "all",
    special: bool = True,
    words: bool = False,
    threshold: float = 0.0,
    title: str | None = None,
) -> str:
    """One HTML document with all heads of these records. The same records give the same document.

    Several records: a menu of texts; neighbours of the same text under different masks: a switch of masks.
    Norms are drawn as shares of their rows.
    The rest says how the page opens; all of it can be changed there.

    view: "heads", "model", "matrix" or "neuron".
    query: the token that is held, by its text ("it", "it#2") or its number.
    segments: "AB" shows from the first text to the second, and so on; "all".
    special: whether [CLS], [SEP] and [PAD] are shown; words: whether pieces are put together to words.
    threshold: weights below it are not drawn.
    title: the document's; by default the model and the first text.

    Raises RequestError when there is no record, they are of different models, layers or heads, or an argument
    asks for what is not there.
    """
    records = [row_shares(one) for one in ([records] if isinstance(records, AttentionRecord) else records)]
    start: dict[str, Any] = {
        "view": check_view(view),
        "segments": check_segments(segments),
        "special": special,
        "words": words,
        "threshold": check_threshold(threshold),
    }
    if records:
        kept(records[0].tokens, special, segments, records[0].keys)
    if records and query is not None:
        start["token"] = select_token(str(query), records[0].tokens.text)
    description, chunks = payload(records, start)
    if title is None:
        title = f"{description['model']['name']}: {description['texts'][0]['title']}"
    style = (FOLDER / "style.css").read_text(encoding="utf-8")
    places = {
        "policy": policy(style, script()),
        "title": html.escape(printable(title)),
        "style": style,
        "script": script(),
        "page": as_json(description),
        "chunks": "\n".join(
            f'<script type="application/octet-stream" id="{name}">{text}</script>' for name, text in chunks.items()
        ),
    }
    template = (FOLDER / "template.html").read_text(encoding="utf-8")
    return PLACE.sub(lambda place: places[place[1]], template)


def save_page(document: str, path: str | Path) -> None:
    """Save a page as .html. Whole or not at all. Raises RequestError for another suffix or an unwritable place."""
    path = Path(path)
    check_suffix(path, SUFFIXES, "a page")
    write_whole(path, lambda file: file.write_text(document, encoding="utf-8", newline="\n"))


def frame(document: str, height: int = FRAME_HEIGHT) -> str:
    """A page inside another one, such as a notebook's: in a frame of its own, which reaches nothing around it."""
    return (
        f'<iframe sandbox="allow-scripts allow-downloads" srcdoc="{html.escape(document)}" title="attention" '
        f'style="width: 100%; height: {height}px; border: 1px solid #8884"></iframe>'
    )


def policy(style: str, code: str) -> str:
    """A content security policy that allows this style, this script, and nothing else: no request of any kind."""
    return (
        f"default-src 'none'; script-src '{digest(code)}'; style-src '{digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def as_json(description: dict[str, Any]) -> str:
    """JSON in ASCII, and without the characters that could end the element it stands in."""
    text = json.dumps(description, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def check_view(view: str) -> str:
    if view not in VIEWS:
        raise RequestError(f"no view {view!r}: it is one of {', '.join(VIEWS)}")
    return view


def check_threshold(threshold: float) -> float:
    if not 0 <= threshold <= 1:
        raise RequestError(f"threshold {threshold:g} is out of range: weights are between 0 and 1")
    return threshold
