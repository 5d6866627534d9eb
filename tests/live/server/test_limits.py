"""Many clients, slow ones and greedy ones: others are answered, and memory is bounded."""

import asyncio
import json
import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from serving import LOOK

from attncli.live.server import guard as limits

MOST_GROWTH = 150  # MB, of a process in which 1,000 clients ask at once


def head_of(served, body, path="/look"):
    lines = [f"POST {path} HTTP/1.1", f"Host: {served.host}", f"Origin: {served.origin}", f"Cookie: {served.cookie}"]
    return ("\r\n".join([*lines, f"Content-Length: {len(body)}", "Connection: close", "", ""])).encode()


def resident():
    """MB that this process has in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


PATIENCE = 120  # seconds: only what hangs takes so long


@pytest.mark.slow
def test_a_thousand_requests_at_once_take_bounded_memory(served):
    async def one(number):
        await asyncio.sleep(number / 5000)
        body = json.dumps({**LOOK, "whose": str(number), "text": f"number {number} " + "the cat sat " * 100}).encode()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.lock.port)
            writer.write(head_of(served, body) + body)
            answer = await asyncio.wait_for(reader.read(), 120)
            writer.close()
        except OSError:
            return "shut", 0
        return answer[9:12].decode() or "shut", len(answer)

    async def all_of_them():
        return await asyncio.gather(*(one(number) for number in range(1000)))

    served.look(text="the cat sat " * 100)
    before, most, ended = resident(), [0.0], threading.Event()

    def watch():
        while not ended.wait(0.05):
            most[0] = max(most[0], resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    with ThreadPoolExecutor() as threads:  # this thread may have a loop of the browser's
        found = threads.submit(lambda: asyncio.run(all_of_them())).result()
    ended.set()
    watcher.join()
    codes = Counter(code for code, _ in found)
    read_here = sum(size for _, size in found) / 1e6
    kept = served.site.session.kept / 1e6
    print(dict(codes), f"{before:.0f} MB, at most {most[0]:.0f} MB, answers {read_here:.0f} MB, kept {kept:.0f} MB")
    assert set(codes) <= {"200", "409", "503", "shut"} and codes["200"] >= 1
    assert most[0] - before < MOST_GROWTH + read_here + kept
    until_answered(served.look)  # the last ones may still be answered, to nobody


def until_answered(ask):
    """Ask until the answer is 200."""
    end = time.monotonic() + PATIENCE
    while True:
        with suppress(OSError):
            if ask()[0] == 200:
                return
        assert time.monotonic() < end
        time.sleep(0.1)


def until_closed(client):
    """Return what the other side sends before it shuts the connection, instead of waiting for it in vain."""
    said = b""
    with suppress(ConnectionError):
        while piece := client.recv(2**16):
            said += piece
    return said


@pytest.fixture
def hurried(monkeypatch):
    """Limits of a moment."""
    for name in ("HEAD", "BODY", "SENDING"):
        monkeypatch.setattr(limits, name, 0.3)


def connected(served):
    return socket.create_connection(("127.0.0.1", served.lock.port), timeout=PATIENCE)


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n", b"\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nA: "])
def test_a_head_that_does_not_come_is_not_waited_for(served, hurried, sent):
    with connected(served) as client:
        client.sendall(sent)
        until_closed(client)


@pytest.mark.slow
def test_a_head_that_comes_byte_by_byte_is_not_waited_for_either(served, hurried):
    with connected(served) as client, pytest.raises(ConnectionError):  # long before such a head is too long
        for byte in b"GET / HTTP/1.1\r\nHost: " + b"a" * 2000:
            client.send(bytes([byte]))
            time.sleep(0.05)


@pytest.mark.slow
def test_nor_is_the_second_of_a_connection(served, hurried):
    with connected(served) as client:
        client.sendall(f"GET /x HTTP/1.1\r\nHost: {served.host}\r\n\r\nGET / HTTP".encode())
        assert until_closed(client).startswith(b"HTTP/1.1 403")


def test_a_body_that_does_not_come_is_not_waited_for(served, hurried):
    with connected(served) as client:
        client.sendall(head_of(served, b"x" * 1000) + b"{")
        assert b" 408 " in until_closed(client)[:20]


def test_a_body_of_unknown_length_ends_where_it_is_too_long(served):
    head = head_of(served, b"").decode()
    lines = [line for line in head.split("\r\n") if not line.lower().startswith("content-length")]
    head = "\r\n".join([lines[0], "Transfer-Encoding: chunked", *lines[1:]])
    with connected(served) as client, suppress(ConnectionError):
        client.sendall(head.encode())
        for _ in range(2 * limits.LONGEST_BODY // 2**14):
            client.sendall(b"4000\r\n" + b"x" * 2**14 + b"\r\n")
        client.sendall(b"0\r\n\r\n")
        assert b" 413 " in until_closed(client)[:20]


@pytest.mark.slow
def test_a_client_that_takes_nothing_is_given_up(served, hurried):
    body = json.dumps({**LOOK, "text": "the cat sat on it " * 80, "whose": "slow"}).encode()
    clients = []
    for _ in range(3):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", served.lock.port))
        client.sendall(head_of(served, body) + body)
        clients.append(client)
        time.sleep(0.2)
    assert served.look()[0] in (200, 409)
    until_answered(served.look)
    for client in clients:
        client.close()


def test_whoever_asks_too_much_at_once_is_told_to_come_again(served, monkeypatch):
    monkeypatch.setattr(limits, "ANSWERS", 0)
    assert served.look() == (409, {"superseded": True})


def test_a_head_that_is_too_long_is_refused(served):
    with connected(served) as client, suppress(ConnectionError):
        for _ in range(40):
            client.sendall(b"GET / HTTP/1.1\r\nX-Long: " if _ == 0 else b"x" * 2**14)
        assert b" 400 " in until_closed(client)[:20]


def test_more_connections_than_may_be_open_are_shut(served, monkeypatch):
    monkeypatch.setattr(limits, "OPEN", 3)
    clients = [connected(served) for _ in range(8)]
    with pytest.raises(OSError):
        for _ in range(5):
            assert served.ask()[0] == 200
            raise OSError  # it was let in beside them: one of the first may have ended meanwhile
    for client in clients:
        client.close()
    until_answered(served.ask)
