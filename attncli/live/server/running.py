"""The server itself: its socket, its first page, and its end."""

import asyncio
import errno
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from attncli.base.errors import RequestError, install_hint
from attncli.live.server.app import Site
from attncli.live.session import Watch, settle

if TYPE_CHECKING:
    from uvicorn import Server

    from attncli.live.server.guard import Lock
    from attncli.page.live import LivePage

BACKLOG = 128  # connections that the system keeps until they are taken
LONGEST_HEAD = 2**14  # bytes of a request's head
ENDING = 2  # seconds that answers have to end in


def check_installed() -> None:
    """Raises RequestError where what the server is made of is not there."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise RequestError(f"attncli serve needs starlette and uvicorn: {install_hint('live')}") from error


def bind(host: str, port: int) -> socket.socket:
    """A socket that nobody else has; port 0: any that is free. Raises RequestError when there is none."""
    try:
        [(family, kind, protocol, _, address), *_] = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        found = socket.socket(family, kind, protocol)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise RequestError(
                f"port {port} is in use: give another --port, or none, and a free one is found"
            ) from error
        if error.errno == errno.EACCES:
            raise RequestError(f"port {port} may not be used: give one from 1024 on, or none") from error
        raise RequestError(f"can't listen on {host}, port {port}: {error.strerror or error}") from error
    return found


def serve(site: Site, listening: socket.socket, host: str) -> Iterator[str]:
    """Yield the address, token and all, as soon as the server answers; then answer until Ctrl-C, an orderly end.

    Raises RequestError when the first text can't be shown.
    """
    from attncli.live.server.guard import Lock

    lock = Lock(host, listening.getsockname()[1])
    server = server_of(site, lock)
    loop = asyncio.new_event_loop()
    try:
        with suppress(KeyboardInterrupt):
            serving = loop.create_task(server.serve([listening]))
            loop.run_until_complete(until_started(server, serving))
            if server.started:
                yield lock.address
            loop.run_until_complete(serving)
    finally:
        loop.close()
        site.close()


async def until_started(server: "Server", serving: "asyncio.Task[None]") -> None:
    """Wait until the server answers, or has ended."""
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)


def server_of(site: Site, lock: "Lock") -> "Server":
    """The server, with its page made and its model warm. Raises RequestError as `serve` does."""
    import uvicorn

    from attncli.live.server import guard as limits
    from attncli.live.server.app import make_app

    page = first_page(site)
    warm(site)
    return uvicorn.Server(
        uvicorn.Config(
            make_app(site, page, lock),
            http=limits.Connection,
            ws="none",
            loop="asyncio",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            limit_concurrency=limits.CONNECTIONS,
            backlog=BACKLOG,
            h11_max_incomplete_event_size=LONGEST_HEAD,
            timeout_graceful_shutdown=ENDING,
        )
    )


def first_page(site: Site) -> "LivePage":
    """The page as it is opened, with the first text. Raises RequestError as `Session.records` does."""
    from attncli.live.server import app as answers
    from attncli.live.server.app import Wish
    from attncli.page import Start
    from attncli.page.live import live_page

    shown, model = next(iter(site.names.items()))
    wish = Wish("", model, site.texts[0], None, True)
    records = answers.records_of(site, wish, Watch())
    opening = answers.opening(site, wish, records[0])
    texts = [{"text": one.text, "pair": one.pair} for one in site.texts]
    live = {"model": shown, "models": list(site.names), "texts": texts}
    start = Start(head=(opening["layer"], opening["head"]))
    return live_page(records, start, answers.advised(site, wish, records[0]), live)


def warm(site: Site) -> None:
    """What is done once is done before somebody waits for it: with q and k, in the thread that will do it again."""
    from attncli.live.server import app as answers
    from attncli.live.server.app import Wish
    from attncli.models.tapped import tapped

    model = site.session.models[0]
    part = tapped(site.session.engine(model))
    first = 0 if part is None else part.select_layers("all")[0]
    wish = Wish("", model, site.texts[0], (first, 0), False)
    site.workers[model].ask(lambda watch: answers.answer(site, wish, watch)).result()
    settle()
