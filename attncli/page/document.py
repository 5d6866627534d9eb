"""Assemble the page as one file: a template with style, script, description and chunks. Set how it opens.

Nothing in a record can become markup or script. Texts are JSON with "<" escaped, and numbers are base64. The content
security policy allows only the page's own script, and no requests.
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from attncli.analysis.patterns import row_shares
from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.files import check_suffix, write_whole
from attncli.base.printable import printable
from attncli.page.advice import MERGED, of_record
from attncli.page.payload import VECTORS, FullHeads, payload
from attncli.record import AttentionRecord
from attncli.record.display import in_stretches
from attncli.record.selection import check_segments, select_token, selected_places

# --- how a page opens ---------------------------------------------------------------------------------

MEAN = -1  # as a layer: the mean of all layers; as a head: the mean of all heads


@dataclass(frozen=True)
class Start:
    """The initial state of a page. Its values are checked as far as possible without a record.

    view: "heads", "model", "matrix" or "neuron". query: the held token, by its text ("it", "it#2") or its number.
    segments: "AB" shows the weights from the first text to the second, and so on; or "all". special: whether [CLS],
    [SEP] and [PAD] are shown. words: whether pieces are merged into words. threshold: smaller weights are not drawn.
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

        Raises RequestError if the record has no such token or segment, or if no token would be selected.
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
        """Return the selection if the URL has no hash: one head, and the query that makes it stand out.

        findings: of the record, as the page lists them (`attncli.page.payload.findings_entry`). Without findings,
        return the first head of the last layer. Raises RequestError if the record does not have the head.
        """
        if self.head is None and findings:
            layer, head, query, *_ = findings[0]
            token = {"token": query} if self.query is None else {}
            return {"layer": layer, "head": head, "heads": [head], **token}
        layer, head = self.head or (record.layers[-1], record.heads_of(record.layers[-1])[0])
        if layer not in (MEAN, *record.layers) or head not in (MEAN, *record.heads):
            raise RequestError(f"head {layer}.{head} is not in this record, which has {record.choice}")
        return {"layer": layer, "head": head, "heads": [head]}


# --- scripts ------------------------------------------------------------------------------------------

FOLDER = Path(__file__).parent
MAIN = "main"

IMPORT = re.compile(r'^import (?P<names>\{[^}]*\}|\* as \w+) from "\./(?P<module>\w+)\.js";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:const|let|function|class) (?P<name>\w+))", re.MULTILINE)


@cache
def script(main: str = MAIN) -> str:
    """Return the module `main` and all that it imports, each module after its own imports."""
    done: dict[str, str] = {}
    add(main, done)
    return '"use strict";\n' + "\n".join(done.values())


def add(name: str, done: dict[str, str]) -> None:
    """Append module `name` to `done`, after the modules that it imports. Imports become constants."""
    source = (FOLDER / f"{name}.js").read_text(encoding="utf-8")
    for match in IMPORT.finditer(source):
        if match["module"] not in done:
            add(match["module"], done)
    names = ", ".join(match["name"] for match in EXPORT.finditer(source))
    body = IMPORT.sub(
        lambda match: f"const {match['names'].removeprefix('* as ')} = ${match['module']};", EXPORT.sub("", source)
    )
    done[name] = f"const ${name} = (() => {{\n{body}\nreturn {{ {names} }};\n}})();"


# --- the document -------------------------------------------------------------------------------------

SUFFIXES = (".html", ".htm")
FRAME_HEIGHT = 640  # pixels

PLACE = re.compile(r"\{\{ (\w+) \}\}")


def page(
    records: AttentionRecord | Sequence[AttentionRecord],
    start: Start = Start(),
    title: str | None = None,
    kept: FullHeads | None = None,
    advice: str | None = None,
) -> str:
    """Return one HTML document with all heads of these records. The same records give the same document.

    Several texts get a menu. Consecutive records of one text under different masks get a switch of masks. Norms are
    drawn as shares of their rows.

    start: how the page opens; users can change all of it in the page. title: the document's title; by default the model
    and the first text. kept: the heads whose full maps the page stores, if not all; the page says so. advice: how to
    get q and k of a head that has none (`attncli.page.advice`).

    Raises RequestError without records, for records of different models, layers or heads, and if `start` names
    something that the records lack.
    """
    records = [records] if isinstance(records, AttentionRecord) else records
    description, chunks = content(records, start, kept, advice)
    if title is None:
        title = f"{description['model']['name']}: {description['texts'][0]['title']}"
    return assemble(["template.html"], ["style.css"], script(), title, description, chunks)


def content(
    records: Sequence[AttentionRecord], start: Start, kept: FullHeads | None, advice: str | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the description of a page, and its chunks by name. Raises RequestError as `page` does."""
    records = [row_shares(one) for one in records]
    state = start.state(records[0] if records else None)
    description, chunks = payload(records, state, kept)
    found = description["texts"][0]["masks"][0]["findings"]
    findings = found["heads"] if "steps" not in found else [step["edge"] for step in found["steps"] if step["edge"]]
    state["opening"] = start.opening(records[0], findings) if kept is None else kept.opening()
    merged = all(map(in_stretches, records))
    description["advice"] = MERGED if merged else of_record(records[0]) if advice is None else advice
    return description, chunks


def assemble(
    bodies: Sequence[str],
    styles: Sequence[str],
    code: str,
    title: str,
    description: dict[str, Any],
    chunks: Mapping[str, str],
    allowed: str | None = None,
    more: str = "",
) -> str:
    """Return a page with these bodies, styles, script, description and chunks.

    allowed: its content security policy; by default `policy`. more: a further element before the chunks.
    """
    style = style_of(styles)
    template = (FOLDER / "frame.html").read_text(encoding="utf-8")
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
    return PLACE.sub(lambda place: places[place[1]], template)


def style_of(names: Sequence[str]) -> str:
    """Return these style sheets, one after the other."""
    return "".join((FOLDER / name).read_text(encoding="utf-8") for name in names)


def save_page(document: str, path: str | Path) -> None:
    """Save a page as .html; the file appears whole or not at all. Raises RequestError for another suffix or place."""
    path = Path(path)
    check_suffix(path, SUFFIXES, "a page")
    write_whole(path, lambda file: file.write_text(document, encoding="utf-8", newline="\n"))


def vectors_size(document: str) -> int:
    """Return the number of characters that q and k take in a page."""
    return sum(len(chunk[1]) for chunk in re.finditer(rf'id="{VECTORS}\d+">([^<]*)', document))


def frame(document: str, height: int = FRAME_HEIGHT) -> str:
    """Return a page in a frame, for a notebook. The frame can't access the notebook."""
    return (
        f'<iframe sandbox="allow-scripts allow-downloads" srcdoc="{html.escape(document)}" title="attention" '
        f'style="width: 100%; height: {height}px; border: 1px solid #8884"></iframe>'
    )


def policy(style: str, code: str) -> str:
    """Return a content security policy that allows this style, this script if any, and no request of any kind."""
    scripts = f"script-src '{digest(code)}'; " if code else ""
    return f"default-src 'none'; {scripts}style-src '{digest(style)}'; base-uri 'none'; form-action 'none'"


def digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def as_json(description: dict[str, Any]) -> str:
    """Return ASCII JSON without characters that could end the element around it."""
    text = json.dumps(description, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


# --- the live page ------------------------------------------------------------------------------------

LIVE_MAIN = "liveMain"
LIVE_BODIES = ("live.html", "template.html")
LIVE_STYLES = ("style.css", "live.css")


@dataclass(frozen=True)
class LivePage:
    """A live page. policy: the content security policy for the response's header, which also forbids frames."""

    text: str
    policy: str


def live_page(records: Sequence[AttentionRecord], start: Start, advice: str, live: dict[str, Any]) -> LivePage:
    """Return the page of `view` with a text field. It sends requests only to its own server.

    It adds live.html, live.css and liveMain.js. live: the description of its server, `{model, models, texts, unit}`.

    Raises RequestError as `page` does.
    """
    description, chunks = content(records, start, None, advice)
    code = script(LIVE_MAIN)
    allowed = f"{policy(style_of(LIVE_STYLES), code)}; connect-src 'self'"
    settings = f'<script type="application/json" id="live">{as_json(live)}</script>'
    title = f"{description['model']['name']}: {description['texts'][0]['title']}"
    text = assemble(LIVE_BODIES, LIVE_STYLES, code, title, description, chunks, allowed, settings)
    return LivePage(text, f"{allowed}; frame-ancestors 'none'")
