"""The page as one file: the template with style, script, description and chunks in their places.

Nothing in a record can become markup or script: words are JSON in which "<" is written as an escape, numbers are
base64, and the page's policy lets no script run but its own, and nothing be requested from anywhere.
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attncli.analysis.shares import row_shares
from attncli.base.files import check_suffix, write_whole
from attncli.base.printable import printable
from attncli.record import AttentionRecord
from attncli.render.page.advice import of_record
from attncli.render.page.kept import Kept
from attncli.render.page.modules import FOLDER, script
from attncli.render.page.payload import VECTORS, payload
from attncli.render.page.start import Start

SUFFIXES = (".html", ".htm")
FRAME_HEIGHT = 640  # pixels

PLACE = re.compile(r"\{\{ (\w+) \}\}")


def page(
    records: AttentionRecord | Sequence[AttentionRecord],
    start: Start = Start(),
    title: str | None = None,
    kept: Kept | None = None,
    advice: str | None = None,
) -> str:
    """One HTML document with all heads of these records. The same records give the same document.

    Several records: a menu of texts; neighbours of the same text under different masks: a switch of masks.
    Norms are drawn as shares of their rows.

    start: how the page opens; all of it can be changed there.
    title: the document's; by default the model and the first text.
    kept: what the page holds of their weights, where that is not all; it says so.
    advice: what it says of a head whose q and k it has not (`attncli.render.page.advice`).

    Raises RequestError when there is no record, they are of different models, layers or heads, or `start` asks for
    what is not there.
    """
    records = [records] if isinstance(records, AttentionRecord) else records
    description, chunks = content(records, start, kept, advice)
    if title is None:
        title = f"{description['model']['name']}: {description['texts'][0]['title']}"
    return assembled(["template.html"], ["style.css"], script(), title, description, chunks)


def content(
    records: Sequence[AttentionRecord], start: Start, kept: Kept | None, advice: str | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """What a page of them holds: its description, and its chunks by name. Raises RequestError as `page` does."""
    records = [row_shares(one) for one in records]
    state = start.state(records[0] if records else None)
    if records:
        state["opening"] = kept.opening() if kept is not None else start.opening(records[0])
    description, chunks = payload(records, state, kept)
    description["advice"] = of_record(records[0]) if advice is None else advice
    return description, chunks


def assembled(
    bodies: Sequence[str],
    styles: Sequence[str],
    code: str,
    title: str,
    description: dict[str, Any],
    chunks: Mapping[str, str],
    allowed: str | None = None,
    more: str = "",
) -> str:
    """A page of these bodies, styles and script, which holds this description and these chunks, and nothing else.

    allowed: the policy, where that is not `policy`; more: an element beside the chunks.
    """
    style = style_of(styles)
    places = {
        "policy": policy(style, code) if allowed is None else allowed,
        "title": html.escape(printable(title)),
        "style": style,
        "body": "".join((FOLDER / name).read_text(encoding="utf-8") for name in bodies),
        "script": code,
        "page": as_json(description),
        "chunks": more
        + "\n".join(
            f'<script type="application/octet-stream" id="{name}">{text}</script>' for name, text in chunks.items()
        ),
    }
    return filled("frame.html", places)


def style_of(names: Sequence[str]) -> str:
    """These sheets, one after the other."""
    return "".join((FOLDER / name).read_text(encoding="utf-8") for name in names)


def filled(name: str, places: Mapping[str, str]) -> str:
    """The template of this name with everything in its place."""
    template = (FOLDER / name).read_text(encoding="utf-8")
    return PLACE.sub(lambda place: places[place[1]], template)


def save_page(document: str, path: str | Path) -> None:
    """Save a page as .html. Whole or not at all. Raises RequestError for another suffix or an unwritable place."""
    path = Path(path)
    check_suffix(path, SUFFIXES, "a page")
    write_whole(path, lambda file: file.write_text(document, encoding="utf-8", newline="\n"))


def vectors_size(document: str) -> int:
    """The characters that q and k take of a page."""
    return sum(len(chunk[1]) for chunk in re.finditer(rf'id="{VECTORS}\d+">([^<]*)', document))


def frame(document: str, height: int = FRAME_HEIGHT) -> str:
    """A page inside another one, such as a notebook's: in a frame of its own, which reaches nothing around it."""
    return (
        f'<iframe sandbox="allow-scripts allow-downloads" srcdoc="{html.escape(document)}" title="attention" '
        f'style="width: 100%; height: {height}px; border: 1px solid #8884"></iframe>'
    )


def policy(style: str, code: str) -> str:
    """A content security policy that allows this style, this script if there is one, and nothing else: no request of
    any kind.
    """
    scripts = f"script-src '{digest(code)}'; " if code else ""
    return f"default-src 'none'; {scripts}style-src '{digest(style)}'; base-uri 'none'; form-action 'none'"


def digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def as_json(description: dict[str, Any]) -> str:
    """JSON in ASCII, and without the characters that could end the element it stands in."""
    text = json.dumps(description, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
