"""What is asked where: the page at /, a text at /look, and the page of what is on the screen, to be kept, at /page."""

from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from attncli.live.newest import Watch
from attncli.live.server import answers, limits
from attncli.live.server.asking import Wish, saving_of, wish_of
from attncli.live.server.guard import POLICY, Guard, Lock, Receive, Scope, Send
from attncli.live.server.site import Site
from attncli.live.server.waiting import BUSY, PATIENCE, Working, lines, pieces, told
from attncli.render.page.live import LivePage

BYTES = "application/octet-stream"


class Answers:
    """The routes."""

    def __init__(self, site: Site, page: LivePage) -> None:
        self.site, self.page = site, page
        self.answered = 0  # at once

    async def show(self, request: Request) -> Response:
        """The page."""
        return Response(self.page.text, media_type="text/html", headers={POLICY: self.page.policy})

    async def look(self, request: Request) -> Response:
        """A text: lines of JSON, of which the last is followed by bytes (`answers.Answer`)."""
        return await self.answer(request, wish_of, partial(answers.answer, self.site), BYTES)

    async def save(self, request: Request) -> Response:
        """The page of what is on the screen."""
        return await self.answer(request, saving_of, partial(answers.saved, self.site), "text/html")

    async def answer(
        self,
        request: Request,
        read: Callable[[bytes, Site], Any],
        work: Callable[[Any, Watch], Any],
        kind: str,
    ) -> Response:
        """400: it is not what a page asks; 409: something newer was asked; 422: it can't be met, and why."""
        body = await limits.body_of(request)
        try:
            asked = read(body, self.site)
        except ValueError as error:
            return JSONResponse({"error": f"asked for otherwise than a page does: {error}"}, 400)
        if self.answered >= limits.ANSWERS:
            return JSONResponse({BUSY: True}, 409)
        wish = asked if isinstance(asked, Wish) else asked.wish
        self.answered += 1
        working = Working(self.site.workers[wish.model], lambda watch: work(asked, watch), wish.whose)
        return Counted(self, working, kind)


class Counted(Response):
    """What a thread makes, as it is sent: in pieces, to a client that takes them, and counted until it is gone."""

    def __init__(self, owner: Answers, working: Working, kind: str) -> None:
        super().__init__(media_type=kind)
        self.owner, self.working, self.kind = owner, working, kind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self.made(scope, receive, send)
        finally:
            self.working.drop()
            self.owner.answered -= 1

    async def made(self, scope: Scope, receive: Receive, send: Send) -> None:
        streams = self.kind == BYTES
        if not await self.working.wait(PATIENCE if streams else None):
            await StreamingResponse(lines(self.working, self.owner.site), media_type=BYTES)(scope, receive, send)
            return
        error = self.working.future.exception()
        if error is not None:
            status, said = told(error, self.owner.site)
            await JSONResponse(said, status)(scope, receive, send)
            return
        made = self.working.future.result()
        parts = [made] if isinstance(made, bytes) else pieces(made)
        if len(parts) == 1:
            await Response(parts[0], media_type=self.kind)(scope, receive, send)
        else:
            await StreamingResponse(aiter_of(parts), media_type=self.kind)(scope, receive, send)


async def aiter_of(parts: list[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def refused(request: Request, error: Exception) -> Response:
    """What Starlette refuses, and what nobody foresaw, in as few words."""
    status = getattr(error, "status_code", 500)
    said = getattr(error, "detail", "") if status < 500 else "a mistake in attncli"
    return JSONResponse({"error": said}, status)


def make_app(site: Site, page: LivePage, lock: Lock) -> Guard:
    """The whole of it, behind its guard."""
    routes = Answers(site, page)
    handlers: Mapping[Any, Any] = {Exception: refused, 404: refused, 405: refused, 408: refused, 413: refused}
    app = Starlette(
        routes=[
            Route("/", routes.show, methods=["GET"]),
            Route("/look", routes.look, methods=["POST"]),
            Route("/page", routes.save, methods=["POST"]),
        ],
        exception_handlers=handlers,
    )
    return Guard(app, lock)
