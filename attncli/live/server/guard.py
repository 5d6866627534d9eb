"""Guard the server: restrict who may send requests, and how much.

A client needs the printed token, a page of this server as origin, and the server's host name. Bytes and connections are
limited.
"""

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

LONGEST_BODY = 2**18  # bytes: more than the longest text of any model here
CONNECTIONS = 64  # answered at the same time; further ones get an error
TOO_LONG = f"more than {LONGEST_BODY:,} bytes of text: shorten it"


async def body_of(request: Request) -> bytes:
    """Return the request's body. Raises HTTPException if it is too long."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and (len(length) > 18 or int(length) > LONGEST_BODY):
        raise HTTPException(413, TOO_LONG)
    found = bytearray()
    async for piece in request.stream():
        found += piece
        if len(found) > LONGEST_BODY:
            raise HTTPException(413, TOO_LONG)
    return bytes(found)


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
