"""The server: the page at /, results of a text at /look, a page to save at /page, sources of a token at /sources.

A request is JSON, checked by a schema. The response contains the session's records in the encoding of `view`. If
computing them takes long, lines with the completed share precede them.
"""

import asyncio
import re
import traceback
import warnings
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import chain, count
from operator import lt
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from attncli.analysis.edges import with_usual
from attncli.analysis.patterns import row_shares
from attncli.base import choices, schema
from attncli.base.errors import RequestError
from attncli.base.printable import printable
from attncli.base.untrusted import parse_json
from attncli.live.server import guard
from attncli.live.server.guard import POLICY, Guard, Lock, Receive, Scope, Send
from attncli.live.session import WRITES, Session, SessionRequest, SupersededError, Watch, Worker
from attncli.models.engine import SHORT
from attncli.page import MEAN, Start, advice, document
from attncli.page.document import LivePage
from attncli.page.payload import plain_payload
from attncli.record import AttentionRecord
from attncli.record.display import in_stretches
from attncli.record.grouping import LONG
from attncli.record.selection import Grouping, Input, Request, heads_list

# --- models and texts ----------------------------------------------------------------------------------


WHOLE_TEXT = Request(grouping=Grouping(stretches=True))  # the request of `view`
PATH = re.compile(r"(?:^|[\s'\"(])(?:~?/|[A-Za-z]:[/\\]|\\\\)\w")  # a file's path in a sentence


@dataclass(frozen=True)
class Site:
    """The configuration of the server.

    texts: the first is displayed initially, the others are in the menu. request: the request for every text under each
    mask. words: whether the page opens with words. names: the session's models by their names in the browser. A
    directory's name there is its last part.
    """

    session: Session
    texts: Sequence[Input]
    request: Request = WHOLE_TEXT
    masks: tuple[str | None, ...] = (None,)
    words: bool = False
    names: dict[str, str] = field(init=False)
    workers: dict[str, Worker] = field(init=False)

    def __post_init__(self) -> None:
        shown: dict[str, str] = {}
        for model in self.session.models:
            name = name_of(model)
            others = (f"{name} ({number})" for number in count(2))
            shown[next(one for one in chain([name], others) if one not in shown)] = model
        object.__setattr__(self, "names", shown)
        object.__setattr__(self, "workers", {model: Worker() for model in self.session.models})

    def hide_model_path(self, record: AttentionRecord) -> AttentionRecord:
        """Return the record without the path of its model."""
        shown = next((shown for shown, model in self.names.items() if model == record.model.name), None)
        name = name_of(record.model.name) if shown is None else shown
        return replace(record, model=replace(record.model, name=name, path=""))

    def hide_paths(self, message: str) -> str:
        """Return an error message without paths of this machine."""
        for shown, model in self.names.items():
            message = message.replace(model, shown)
        return "the request failed: the server's terminal may show why" if PATH.search(message) else message

    def close(self) -> None:
        """Cancel all work."""
        for worker in self.workers.values():
            worker.close()


def name_of(model: str) -> str:
    """Return a model's name for the browser: the last part of a directory or an address."""
    address = urlsplit(model)
    if address.scheme and address.netloc:
        parts = [part for part in (address.netloc, *address.path.split("/")) if part]
        return printable(parts[-1])
    apart = Path(model).is_absolute() or model.startswith((".", "~")) or model.count("/") > 1 or Path(model).is_dir()
    return printable(Path(model).expanduser().absolute().name or "model") if apart else printable(model)


# --- requests ------------------------------------------------------------------------------------------


LONGEST_NAME = 64  # characters of a page's id
MOST = 10**6  # more than the tokens of any text and the heads of any model


@dataclass(frozen=True)
class PageRequest:
    """A page's request for a text. whose: the page's id. model: its name in the session.

    head: the (layer, head) whose q and k are displayed, or None. fresh: the page has no results of this model yet, so
    the response must contain the head to start with. without: silenced heads. written: ids that the model wrote after
    the text. write: let it continue. state: the view and the first mask of a page to save; None otherwise. token: the
    token whose sources are requested; None otherwise.
    """

    whose: str
    model: str
    text: Input
    head: tuple[int, int] | None
    fresh: bool
    without: tuple[tuple[int, int], ...] = ()
    written: tuple[int, ...] = ()
    write: bool = False
    state: Mapping[str, Any] | None = None
    token: int | None = None


def fields_of(site: Site) -> dict[str, schema.FieldCheck]:
    whole = schema.integer(0, MOST)
    return {
        "whose": schema.text(LONGEST_NAME),
        "model": schema.one_of(site.names),
        "text": schema.text(None),
        "pair": schema.maybe(schema.text(None)),
        "head": schema.maybe(schema.list_of(whole, 2)),
        "fresh": schema.flag(),
        "without": schema.list_of(schema.list_of(whole, 2)),
        "written": schema.list_of(whole),
        "write": schema.flag(),
    }


def state_fields(site: Site) -> dict[str, schema.FieldCheck]:
    whole = schema.integer(0, MOST)
    return {
        "view": schema.one_of(choices.names(choices.PageView)),
        "mask": schema.one_of([mask for mask in site.masks if mask] or choices.names(choices.MaskName)),
        "layer": schema.integer(MEAN, MOST),
        "head": schema.integer(MEAN, MOST),
        "token": schema.maybe(whole),
        "segments": schema.one_of(("all", "AA", "AB", "BA", "BB")),
        "special": schema.flag(),
        "words": schema.flag(),
        "threshold": schema.real(),
    }


def parse_request(body: bytes, site: Site, more: str = "") -> PageRequest:
    """Parse a request. more: the name of its additional field: "state" for a page to save, "token" for sources.

    Raises ValueError if it is not JSON or violates the schema.
    """
    asked = parse_json(body)
    further = {"state": schema.fields(state_fields(site)), "token": schema.integer(0, MOST)}
    schema.fields({**fields_of(site), **{name: check for name, check in further.items() if name == more}})(asked, "it")
    head = None if asked["head"] is None else (asked["head"][0], asked["head"][1])
    text = Input(asked["text"], asked["pair"] or None)
    without = tuple((layer, number) for layer, number in asked["without"])
    model, written = site.names[asked["model"]], tuple(asked["written"])
    state, token = asked.get("state"), asked.get("token")
    return PageRequest(
        asked["whose"], model, text, head, asked["fresh"], without, written, asked["write"], state, token
    )


# --- answers -------------------------------------------------------------------------------------------


ALL_OF_SHORT = 1  # for `SessionRequest.vectors`: short texts include all heads for any value

numbers = count(1)  # numbers of answers, for unique names of their chunks


def answer(site: Site, page_request: PageRequest, watch: Watch) -> bytes:
    """Compute a response: one line of JSON, `{"page", "chunks"}`, then the bytes of the chunks in that order.

    Raises RequestError as `Session.records` does, and SupersededError as the watch does.
    """
    if page_request.write:
        page_request = replace(
            page_request,
            written=site.session.write(replace(request_of(site, page_request), masks=(None,)), WRITES, watch),
        )
    records = records_of(site, page_request, watch)
    description, chunks = plain_payload(records, {}, f"{next(numbers)}-")
    if page_request.fresh:
        findings = description["texts"][0]["masks"][0]["findings"]["heads"]
        description["start"] = {"opening": Start().opening(records[0], findings)}
    description["advice"] = choose_advice(site, page_request, records[0])
    if page_request.written:
        description["texts"][0]["written"] = page_request.written
    description["texts"][0]["note"] = "; ".join(
        filter(None, [description["texts"][0]["note"], describe_truncation(site, page_request, records[0])])
    )
    names = {name: len(data) for name, data in chunks.items()}
    return b"".join([orjson.dumps({"page": description, "chunks": names}), b"\n", *chunks.values()])


def sources(site: Site, page_request: PageRequest, watch: Watch) -> bytes:
    """Compute what a token rests on, as JSON. Raises RequestError as `Session.sources` does."""
    assert page_request.token is not None
    unit = site.request.grouping.unit
    if unit != "token":
        raise RequestError(f"only tokens have sources, and this page shows {unit}s: omit --unit")
    asked = replace(request_of(site, page_request), masks=(None,))
    if len(site.session.text(asked)) > LONG:  # the page has stretches of tokens
        raise RequestError(
            f"the page shows sources only in texts of at most {LONG} tokens: use attncli sources for longer texts"
        )
    found = site.session.sources(asked, page_request.token, watch)
    units = [
        {"text": name, "effect": effect, "share": share, "length": length}
        for name, effect, share, length in zip(
            found.names, found.effects.tolist(), found.shares.tolist(), found.lengths.tolist(), strict=True
        )
    ]
    return orjson.dumps({"token": found.text.shown[found.place], "units": units, "notes": found.notes})


def records_of(site: Site, page_request: PageRequest, watch: Watch) -> list[AttentionRecord]:
    """Return one record per mask, with q and k of all heads of a short text, or of the selected head.

    Raises RequestError as `answer` does.
    """
    asked, head = request_of(site, page_request), page_request.head
    # Norms and units of several words have no q and k.
    if head is None or site.request.measure != "weight" or site.request.grouping.long_units:
        found = site.session.records(asked, watch)
    else:
        found = []
        [tokens] = site.session.engine(asked.model).tokenizer.encode_each([asked.text], None)
        if len(tokens) + len(asked.written) <= SHORT:
            found = site.session.records(replace(asked, vectors=ALL_OF_SHORT), watch)
        if not found or found[0].vectors is None or head not in found[0].vectors.heads:
            of_one = replace(asked.request, vectors=f"{head[0]}.{head[1]}")
            found = site.session.records(replace(asked, request=of_one), watch)
    records = [row_shares(site.hide_model_path(record)) for record in found]
    if in_stretches(records[0]):  # usual weights are those between words
        return records
    usual = (site.session.usual(replace(asked, masks=(mask,))) for mask in site.masks)
    return [with_usual(record, over) for record, over in zip(records, usual, strict=True)]


def request_of(site: Site, page_request: PageRequest) -> SessionRequest:
    """Return the request to the session."""
    without = heads_list(page_request.without)
    return SessionRequest(
        page_request.model, page_request.text, site.request, site.masks, without, written=page_request.written
    )


def describe_truncation(site: Site, page_request: PageRequest, record: AttentionRecord) -> str:
    """Return a note if the text exceeds the model's limit, else ""."""
    engine, tokens = site.session.engine(page_request.model), record.tokens
    count = len(tokens) if record.part is None else record.part.tokens
    if count < engine.tokenizer.max_tokens:
        return ""
    reached = [0, 0]
    for segment, (_, end) in zip(tokens.segments, tokens.offsets, strict=True):
        reached[segment] = max(reached[segment], end)
    ends = [len(one.rstrip()) for one in (page_request.text.text, page_request.text.pair or "")]
    return f"only the first {count} tokens: this model takes no more" if any(map(lt, reached, ends)) else ""


def choose_advice(site: Site, page_request: PageRequest, record: AttentionRecord, otherwise: str = advice.LIVE) -> str:
    """Return the advice for a head without q and k. otherwise: the advice if they could be included."""
    if in_stretches(record):
        return advice.MERGED
    return otherwise if record.measure == "weight" else advice.NORMS


def offline_page(site: Site, page_request: PageRequest, watch: Watch) -> bytes:
    """Return the current view as an offline page that opens in the same state.

    Raises RequestError as `answer` does, and for a state that does not fit the text.
    """
    state = page_request.state
    assert state is not None
    head = state["layer"], state["head"]
    records = records_of(site, page_request if MEAN in head else replace(page_request, head=head), watch)
    records.sort(key=lambda record: record.mask_name != state["mask"])  # the others keep their order
    start = Start(
        state["view"],
        state["token"],
        state["segments"],
        state["special"],
        state["words"],
        state["threshold"],
        head,
    )
    return document.page(records, start, advice=choose_advice(site, page_request, records[0], advice.VIEW)).encode(
        "utf-8"
    )


# --- waiting -------------------------------------------------------------------------------------------


PATIENCE = 0.3  # seconds until progress is reported
STEP = 0.1  # seconds between reports of progress
PIECE = 2**18  # bytes sent in one piece
BUSY = "superseded"
MISTAKE = "the request failed because of a bug in attncli"


class ServerTask:
    """A task in the queue of a model's thread, and its progress."""

    def __init__(self, worker: Worker, work: Callable[[Watch], Any], whose: str) -> None:
        self.share = 0.0
        self.watch = Watch(self.tell)
        self.future: Future[Any] = worker.ask(work, whose, self.watch)
        self.done = asyncio.wrap_future(self.future)
        self.done.add_done_callback(lambda one: one.cancelled() or one.exception())  # reported elsewhere

    def tell(self, share: float) -> None:
        self.share = share

    async def wait(self, seconds: float | None) -> bool:
        """Wait at most `seconds` (None: without limit). Return True if the task has finished or failed."""
        done, _ = await asyncio.wait([self.done], timeout=seconds)
        return bool(done)

    def drop(self) -> None:
        """Cancel the task."""
        self.watch.cancelled.set()
        self.future.cancel()


def describe_failure(error: BaseException, site: Site) -> tuple[int, dict[str, Any]]:
    """Return the status and content of the response to a failed request."""
    if isinstance(error, SupersededError):
        return 409, {BUSY: True}
    if isinstance(error, RequestError):
        return 422, {"error": site.hide_paths(str(error))}
    if isinstance(error, MemoryError):
        return 422, {"error": "not enough memory: use a shorter text"}
    warnings.warn("".join(traceback.format_exception(error)), RuntimeWarning, stacklevel=2)  # displayed with --debug
    return 500, {"error": MISTAKE}


async def progress_lines(working: ServerTask, site: Site) -> AsyncIterator[bytes]:
    """Yield lines of progress, then the response or the error, since the status has already been sent."""
    try:
        while not await working.wait(STEP):
            yield orjson.dumps({"share": round(working.share, 3)}) + b"\n"
        error = working.future.exception()
        if error is None:
            made = working.future.result()
            for start in range(0, len(made), PIECE):
                yield made[start : start + PIECE]
        else:
            yield orjson.dumps(describe_failure(error, site)[1]) + b"\n"
    finally:
        working.drop()


# --- the app -------------------------------------------------------------------------------------------


BYTES = "application/octet-stream"


class Handlers:
    """The handlers of the routes."""

    def __init__(self, site: Site, page: LivePage) -> None:
        self.site, self.page = site, page
        self.answered = 0  # requests in progress

    async def show(self, request: HttpRequest) -> Response:
        """Respond with the page."""
        return Response(self.page.text, media_type="text/html", headers={POLICY: self.page.policy})

    async def look(self, request: HttpRequest) -> Response:
        """Respond with a text's results: lines of JSON, then bytes."""
        return await self.answer(request, "", answer, BYTES)

    async def save(self, request: HttpRequest) -> Response:
        """Respond with the current view as an offline page."""
        return await self.answer(request, "state", offline_page, "text/html")

    async def sources(self, request: HttpRequest) -> Response:
        """Respond with what a token rests on."""
        return await self.answer(request, "token", sources, "application/json")

    async def answer(
        self, request: HttpRequest, more: str, work: Callable[[Site, PageRequest, Watch], bytes], kind: str
    ) -> Response:
        """Respond with 400 to an invalid request, 409 if a newer one replaced it, and 422 if it failed."""
        body = await guard.body_of(request)
        try:
            page_request = parse_request(body, self.site, more)
        except ValueError as error:
            return JSONResponse({"error": f"invalid request: {error}"}, 400)
        if self.answered >= guard.ANSWERS:
            return JSONResponse({BUSY: True}, 409)
        self.answered += 1
        working = ServerTask(
            self.site.workers[page_request.model],
            lambda watch: work(self.site, page_request, watch),
            page_request.whose,
        )
        return CountedResponse(self, working, kind)


class CountedResponse(Response):
    """A response that is sent in pieces while a thread computes it, and counted until it ends."""

    def __init__(self, owner: Handlers, working: ServerTask, kind: str) -> None:
        super().__init__(media_type=kind)
        self.owner, self.working, self.kind = owner, working, kind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        site, working, streams = self.owner.site, self.working, self.kind == BYTES
        try:
            done = await working.wait(PATIENCE if streams else None)
            error = working.future.exception() if done else None
            if error is not None:
                status, body = describe_failure(error, site)
                response: Response = JSONResponse(body, status)
            elif not done or (streams and len(working.future.result()) > PIECE):
                response = StreamingResponse(progress_lines(working, site), media_type=BYTES)
            else:
                response = Response(working.future.result(), media_type=self.kind)
            await response(scope, receive, send)
        finally:
            working.drop()
            self.owner.answered -= 1


async def error_response(request: HttpRequest, error: Exception) -> Response:
    """Respond to Starlette's errors and to unexpected ones in few words."""
    status = getattr(error, "status_code", 500)
    message = getattr(error, "detail", "") if status < 500 else "a bug in attncli"
    return JSONResponse({"error": message}, status)


def make_app(site: Site, page: LivePage, lock: Lock) -> Guard:
    """Build the app behind its guard."""
    routes = Handlers(site, page)
    handlers: Mapping[Any, Any] = dict.fromkeys((Exception, 404, 405, 408, 413), error_response)
    app = Starlette(
        routes=[
            Route("/", routes.show, methods=["GET"]),
            Route("/look", routes.look, methods=["POST"]),
            Route("/page", routes.save, methods=["POST"]),
            Route("/sources", routes.sources, methods=["POST"]),
        ],
        exception_handlers=handlers,
    )
    return Guard(app, lock)
