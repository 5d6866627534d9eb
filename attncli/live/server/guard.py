"""Who is let in: whoever has the token that was printed, from a page of this server, by this server's own name."""

import ipaddress
import secrets
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl

from starlette.responses import PlainTextResponse, RedirectResponse

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
NOTHING = "default-src 'none'; frame-ancestors 'none'"  # the policy of what is no page
WITHOUT = "open the address that attncli serve printed, with its token"


@dataclass(frozen=True)
class Lock:
    """Where this server is, and what opens it. key: what a browser keeps once the token was shown."""

    host: str
    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    key: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    @property
    def cookie(self) -> str:
        """Its name: cookies of all ports of a machine lie together."""
        return f"attncli-{self.port}"

    @property
    def address(self) -> str:
        """What to open; of a server that listens everywhere, on this machine."""
        host = "127.0.0.1" if is_everywhere(self.host) else self.host
        return f"http://{bracketed(host)}:{self.port}/?token={self.token}"

    def is_own(self, host: str) -> bool:
        """Whether a request's Host is this server. A foreign name that leads here (DNS rebinding) is not."""
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
    """Stands before the app. 421: by another name; 403: without the cookie, or from another site's page."""

    def __init__(self, app: App, lock: Lock) -> None:
        self.app, self.lock = app, lock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        inside = self.refusal(scope) or self.app
        await inside(scope, receive, with_headers(send))

    def refusal(self, scope: Scope) -> App | None:
        """What is answered instead of what was asked for; None: let in."""
        hosts = values(scope, b"host")
        if len(hosts) != 1 or not self.lock.is_own(hosts[0]):
            return PlainTextResponse("another host is asked for than is here", 421)
        if scope["path"] == "/" and scope["method"] == "GET" and b"token=" in scope["query_string"]:
            return self.exchange(scope)
        if not self.has_key(scope):
            return PlainTextResponse(WITHOUT, 403)
        if scope["method"] not in ("GET", "HEAD") and values(scope, b"origin") != [f"http://{hosts[0]}"]:
            return PlainTextResponse("asked for by another site", 403)
        return None

    def exchange(self, scope: Scope) -> App:
        """The token for a cookie that scripts can't read, and an address without it."""
        given = dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("token", "")
        if not same(given, self.lock.token):
            return PlainTextResponse(WITHOUT, 403)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(self.lock.cookie, self.lock.key, httponly=True, samesite="strict")
        return answer

    def has_key(self, scope: Scope) -> bool:
        for line in values(scope, b"cookie"):
            try:
                found = SimpleCookie(line).get(self.lock.cookie)
            except CookieError:
                continue
            if found is not None and same(found.value, self.lock.key):
                return True
        return False


def same(given: str, expected: str) -> bool:
    return secrets.compare_digest(given.encode("utf-8", "replace"), expected.encode("utf-8"))


def values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for one, value in scope["headers"] if one == name]


def with_headers(send: Send) -> Send:
    """Every answer says what a browser may not do with it; a page's own policy stands."""

    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            there = {name.lower() for name, _ in message.get("headers", [])}
            more = HEADERS | ({} if POLICY.lower().encode() in there else {POLICY: NOTHING})
            encoded = [(name.lower().encode(), value.encode()) for name, value in more.items()]
            message = {**message, "headers": [*message.get("headers", []), *encoded]}
        await send(message)

    return sent
