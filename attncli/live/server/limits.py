"""How much of this program a client may take: bytes, seconds, connections."""

import asyncio
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from uvicorn.protocols.http.h11_impl import H11Protocol

LONGEST_BODY = 2**18  # bytes: of the longest text that a model here takes, with room
BODY = 10.0  # seconds for a body to come
HEAD = 10.0  # seconds for the head of a request to come, from its first byte or the connection's begin
SENDING = 15.0  # seconds, in two of which a client has to take something of what it is sent
CONNECTIONS = 256  # that are answered at once; of more each is told so
OPEN = 2 * CONNECTIONS  # connections, from which on others are shut at once
TOO_LONG = f"more than {LONGEST_BODY:,} bytes of text: give less of it"
ANSWERS = 16  # texts that are waited for or sent at once: each takes some memory


async def body_of(request: Request) -> bytes:
    """What was sent. Raises HTTPException for too much, or where it takes too long."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and (len(length) > 18 or int(length) > LONGEST_BODY):
        raise HTTPException(413, TOO_LONG)
    try:
        return await asyncio.wait_for(received(request), BODY)
    except asyncio.TimeoutError as error:
        raise HTTPException(408, "too slow") from error


async def received(request: Request) -> bytes:
    found = bytearray()
    async for piece in request.stream():
        found += piece
        if len(found) > LONGEST_BODY:
            raise HTTPException(413, TOO_LONG)
    return bytes(found)


class Connection(H11Protocol):
    """uvicorn's, which waits no longer than HEAD for a request's head, and than SENDING for a client that takes nothing
    of what it is sent, and of which no more than OPEN are there.
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
        """Between two requests uvicorn itself waits, and gives up; here, once one has begun."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.stop_waiting()
        elif self.head is None and not self.transport.is_closing() and self.timeout_keep_alive_task is None:
            self.head = self.loop.call_later(HEAD, self.transport.abort)

    def stop_waiting(self) -> None:
        if self.head is not None:
            self.head.cancel()
            self.head = None

    def look_at_sending(self, before: int) -> None:
        """Where no less is to be sent than `before`, nothing was taken since."""
        waiting = self.transport.get_write_buffer_size()
        if waiting >= before > 0:
            self.transport.abort()
        else:
            self.sending = self.loop.call_later(SENDING, self.look_at_sending, waiting)
