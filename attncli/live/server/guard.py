"""Guard the server: restrict who may send requests, and how much.

A client needs the printed token, a page of this server as origin, and the server's host name. Bytes, seconds and
connections are limited.
"""

import asyncio
import ipaddress
import secrets
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

LONGEST_BODY = 2**18  # bytes: more than the longest text of any model here
BODY = 10.0  # seconds to receive a body
HEAD = 10.0  # seconds to receive a request's head, from its first byte or the start of the connection
SENDING = 15.0  # seconds: a client must receive some data within two such periods
CONNECTIONS = 256  # answered at the same time; further ones get an error
OPEN = 2 * CONNECTIONS  # open connections; further ones are closed immediately
TOO_LONG = f"more than {LONGEST_BODY:,} bytes of text: shorten it"
ANSWERS = 16  # texts computed or sent at the same time, since each takes memory


async def body_of(request: Request) -> bytes:
    """Return the request's body. Raises HTTPException if it is too long or too slow."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and (len(length) > 18 or int(length) > LONGEST_BODY):
        raise HTTPException(413, TOO_LONG)

    async def received() -> bytes:
        found = bytearray()
        async for piece in request.stream():
            found += piece
            if len(found) > LONGEST_BODY:
                raise HTTPException(413, TOO_LONG)
        return bytes(found)

    try:
        return await asyncio.wait_for(received(), BODY)
    except asyncio.TimeoutError as error:
        raise HTTPException(408, "too slow") from error


class Connection(H11Protocol):
    """uvicorn's connection with limits.

    It closes if a request's head takes longer than HEAD, if a client receives nothing for SENDING, or if there are more
    than OPEN connections.
    """

    head: asyncio.TimerHandle | None = None
    sending: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > OPEN:
            transport.abort()
            return
        self.wait_for_head()
        self.sending = self.loop.call_later(SENDING, self.look_at_sending, 0)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self.stop_waiting()
        if self.sending is not None:
            self.sending.cancel()
        super().connection_lost(exc)

    def wait_for_head(self) -> None:
        """Limit the time for a head that has begun. uvicorn limits the time between requests itself."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.stop_waiting()
        elif self.head is None and not self.transport.is_closing() and self.timeout_keep_alive_task is None:
            self.head = self.loop.call_later(HEAD, self.transport.abort)

    def stop_waiting(self) -> None:
        if self.head is not None:
            self.head.cancel()
            self.head = None

    def look_at_sending(self, before: int) -> None:
        """Close the connection if the client has received nothing since the last check."""
        waiting = self.transport.get_write_buffer_size()
        if waiting >= before > 0:
            self.transport.abort()
        else:
            self.sending = self.loop.call_later(SENDING, self.look_at_sending, waiting)


Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOCAL = ("127.0.0.1", "localhost", "[::1]")
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
POLICY = "Content-Security-Policy"
NOTHING = "default-src 'none'; frame-ancestors 'none'"  # the policy of responses that are not pages
WITHOUT = "open the address that attncli serve printed, with its token"


@dataclass(frozen=True)
class Lock:
    """The server's address and secrets. key: the cookie's value, which a browser gets in exchange for the token."""

    host: str
    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    key: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    @property
    def cookie(self) -> str:
        """Return the cookie's name. It contains the port, since all ports of a machine share cookies."""
        return f"attncli-{self.port}"

    @property
    def address(self) -> str:
        """Return the address to open. For a server that listens everywhere, it is on this machine."""
        host = "127.0.0.1" if is_everywhere(self.host) else self.host
        return f"http://{bracketed(host)}:{self.port}/?token={self.token}"

    def is_own(self, host: str) -> bool:
        """Return True if a request's Host is this server. A foreign name that resolves here (DNS rebinding) is not."""
        name, _, port = host.rpartition(":")
        if port != str(self.port) or not name:
            return False
        name = name.lower()
        if is_everywhere(self.host):  # any address of this machine, and addresses can't be rebound
            return is_address(name) or name in (*LOCAL, socket.gethostname().lower())
        return name == bracketed(self.host).lower() or (is_loopback(self.host) and name in LOCAL)


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def is_everywhere(host: str) -> bool:
    return host in ("0.0.0.0", "::", "")


def is_loopback(host: str) -> bool:
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)


class Guard:
    """Protects the app. Responds 421 to another host name, and 403 without the cookie or from another site's page."""

    def __init__(self, app: App, lock: Lock) -> None:
        self.app, self.lock = app, lock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def send_guarded(message: MutableMapping[str, Any]) -> None:
            """Add security headers to every response. A page's own policy is kept."""
            if message["type"] == "http.response.start":
                message.setdefault("headers", [])
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault(POLICY, NOTHING)
            await send(message)

        await (self.refusal(Request(scope)) or self.app)(scope, receive, send_guarded)

    def refusal(self, request: Request) -> App | None:
        """Return the app that rejects the request, or None to accept it.

        The token is exchanged for a cookie that scripts can't read, at the address without it.
        """
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or not self.lock.is_own(hosts[0]):
            return PlainTextResponse("the request is for another host", 421)
        token = request.query_params.get("token")
        if request.url.path == "/" and request.method == "GET" and token is not None:
            if not are_equal(token, self.lock.token):
                return PlainTextResponse(WITHOUT, 403)
            answer = RedirectResponse("/", 303)
            answer.set_cookie(self.lock.cookie, self.lock.key, httponly=True, samesite="strict")
            return answer
        if not are_equal(request.cookies.get(self.lock.cookie, ""), self.lock.key):
            return PlainTextResponse(WITHOUT, 403)
        origins = request.headers.getlist("origin")
        if request.method not in ("GET", "HEAD") and origins != [f"http://{hosts[0]}"]:
            return PlainTextResponse("the request comes from another site", 403)
        return None


def are_equal(given: str, expected: str) -> bool:
    """Return whether two secrets are equal, in constant time."""
    return secrets.compare_digest(given.encode("utf-8", "replace"), expected.encode("utf-8"))
