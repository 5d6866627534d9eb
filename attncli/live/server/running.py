"""Run the server: its socket, its first page, and its end."""

import asyncio
import errno
import socket
from collections.abc import Iterator
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING

from attncli.base.errors import RequestError, install_hint
from attncli.live.server.app import Site
from attncli.live.session import Watch, freeze_objects

if TYPE_CHECKING:
    from uvicorn import Server

    from attncli.live.server.guard import Lock

BACKLOG = 128  # connections that the system queues
LONGEST_HEAD = 2**14  # bytes of a request's head
ENDING = 2  # seconds for responses to finish at the end


def check_installed() -> None:
    """Raises RequestError if the server's packages are not installed."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise RequestError(f"attncli serve needs starlette and uvicorn: {install_hint('live')}") from error


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 selects a free port. Raises RequestError if none is available."""
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
            raise RequestError(f"port {port} is in use: use another --port, or omit it to find a free one") from error
        if error.errno == errno.EACCES:
            raise RequestError(f"port {port} may not be used: use one of at least 1024, or omit --port") from error
        raise RequestError(f"can't listen on {host}, port {port}: {error.strerror or error}") from error
    return found


def serve(site: Site, listening: socket.socket, host: str) -> Iterator[str]:
    """Yield the address with its token once the server answers. Then answer until Ctrl-C, which is not an error.

    Raises RequestError if the first text can't be displayed.
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
                Thread(target=site.session.wake, args=(site.session.models[0],), daemon=True).start()
            loop.run_until_complete(serving)
    finally:
        loop.close()
        site.close()


async def until_started(server: "Server", serving: "asyncio.Task[None]") -> None:
    """Wait until the server answers, or has ended."""
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)


def server_of(site: Site, lock: "Lock") -> "Server":
    """Build the server, its page, and a warmed-up model. Raises RequestError as `serve` does."""
    import uvicorn

    from attncli.live.server import app as answers
    from attncli.live.server import guard as limits
    from attncli.page import Start
    from attncli.page.document import live_page

    shown, model = next(iter(site.names.items()))
    first = answers.PageRequest("", model, site.texts[0], None, True)
    records = answers.records_of(site, first, Watch())
    texts = [{"text": one.text, "pair": one.pair} for one in site.texts]
    live = {"model": shown, "models": list(site.names), "texts": texts, "unit": site.request.grouping.unit}
    page = live_page(records, Start(words=site.words), answers.choose_advice(site, first, records[0]), live)
    warm(site)
    return uvicorn.Server(
        uvicorn.Config(
            answers.make_app(site, page, lock),
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


def warm(site: Site) -> None:
    """Do all one-time work, including q and k, in the model's thread before a user waits for it."""
    from attncli.live.server import app as answers
    from attncli.live.server.app import PageRequest

    model = site.session.models[0]
    first = site.session.engine(model).of_part(None).select_layers("all")[0]
    page_request = PageRequest("", model, site.texts[0], (first, 0), False)
    site.workers[model].ask(lambda watch: answers.answer(site, page_request, watch)).result()
    freeze_objects()
