"""A server in a thread of this process, as `attncli serve` starts it, and clients of it."""

import asyncio
import http.client
import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass

from attncli.live.server.app import Site
from attncli.live.server.guard import Lock
from attncli.live.server.running import bind, server_of

TEXT = "The cat sat on the mat."
LOOK = {"whose": "a test", "model": "minilm", "text": TEXT, "pair": None, "head": None, "fresh": False, "without": [],
        "written": [], "write": False}  # fmt: skip
STATE = {
    "view": "matrix",
    "mask": "padding",
    "layer": 2,
    "head": 5,
    "token": 3,
    "segments": "all",
    "special": True,
    "words": False,
    "threshold": 0.0,
}


@dataclass
class Served:
    """A server that answers. origin: what its pages are from; cookie: what lets them in."""

    site: Site
    lock: Lock

    @property
    def host(self):
        return f"127.0.0.1:{self.lock.port}"

    @property
    def origin(self):
        return f"http://{self.host}"

    @property
    def cookie(self):
        return f"{self.lock.cookie}={self.lock.key}"

    def ask(self, method="GET", path="/", body=None, **headers):
        """Status, headers by their names in lower case, and body. A header that is None is not sent."""
        usual = {"Host": self.host, "Cookie": self.cookie}
        if method == "POST":
            usual["Origin"] = self.origin
        client = http.client.HTTPConnection("127.0.0.1", self.lock.port, timeout=300)
        client.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in {**usual, **headers}.items():
            if value is not None:
                client.putheader(name, value)
        if body is not None and "Content-Length" not in headers:
            client.putheader("Content-Length", str(len(body)))
        client.endheaders(body)
        response = client.getresponse()
        answer = response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
        client.close()
        return answer

    def look(self, **changes):
        """Status, and the description with its chunks by name, or what is said instead."""
        status, _, body = self.ask("POST", "/look", json.dumps({**LOOK, **changes}).encode())
        return status, read(body)

    def save(self, state=None, **changes):
        """Status and body."""
        asked = {**LOOK, **changes, "state": {**STATE, **(state or {})}}
        status, _, body = self.ask("POST", "/page", json.dumps(asked).encode())
        return status, body.decode("utf-8")


def read(body):
    """Return an answer's description and the bytes of its chunks; or its last line, if it has none."""
    while True:
        line, _, body = body.partition(b"\n")
        said = json.loads(line)
        if "page" in said:
            chunks = {}
            for name, size in said["chunks"].items():
                chunks[name], body = body[:size], body[size:]
            assert body == b""
            return said["page"], chunks
        if not body:
            return said


@contextmanager
def serving(site):
    """The server of a site, on a port of its own."""
    listening = bind("127.0.0.1", 0)
    lock = Lock("127.0.0.1", listening.getsockname()[1])
    server = server_of(site, lock)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])), daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.01)
    yield Served(site, lock)
    server.should_exit = True
    thread.join(10)
    site.close()
