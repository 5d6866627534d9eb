"""A Hub that stands on this machine, and `locate` asked in a process of its own."""

import hashlib
import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def run(code: str, timeout: float = 300, **environment: str) -> str:
    """Return the output of a new Python process, since huggingface_hub reads its environment when it is imported."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**kept, **environment}, capture_output=True, text=True, timeout=timeout
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


ASK = """
import json, sys
from attncli.base.errors import RequestError
from attncli.models.hub import NotOnThisMachine, locate
import huggingface_hub
try:
    place = locate({name!r})
    answer = dict(path=str(place.path), origin=place.origin, name=place.name)
except RequestError as error:
    answer = dict(error=str(error), kind=type(error).__name__)
print(json.dumps(answer))
"""


def ask(name: str, **environment: str) -> dict:
    """`locate` in a process with this environment."""
    return json.loads(run(ASK.format(name=name), **environment).splitlines()[-1])


class HubServer(ThreadingHTTPServer):
    """Serves the directories in `repos` as the Hub would, and keeps what it was asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), HubHandler)
        self.address = f"http://127.0.0.1:{self.server_address[1]}"
        self.repos: dict[str, Path] = {}
        self.requests: list[tuple[str, str, str | None]] = []  # method, path, Authorization
        self.breaks = False  # hangs up in the middle of a file of weights
        self.gated = False  # lists files, and gives none

    def fetched(self) -> set[str]:
        return {path.rpartition("/")[2] for method, path, _ in self.requests if method == "GET" and "/resolve/" in path}


class HubHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: HubServer

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        path = self.path.partition("?")[0]
        self.server.requests.append((self.command, path, self.headers.get("Authorization")))
        parts = path.removeprefix("/api/models").strip("/").split("/")
        directory = self.server.repos.get("/".join(parts[:2]))
        if directory is None:
            self.send(404, b'{"error": "Repository not found"}', {"X-Error-Code": "RepoNotFound"})
        elif parts[2:3] == ["resolve"] and self.server.gated:
            self.send(403, b"", {"X-Error-Code": "GatedRepo"})
        elif parts[2:3] == ["resolve"]:
            self.send_file(directory.joinpath(*parts[4:]))
        else:
            files = [
                {
                    "type": "file",
                    "path": file.relative_to(directory).as_posix(),
                    "size": file.stat().st_size,
                    "oid": digest(file),
                }
                for file in sorted(directory.rglob("*"))
                if file.is_file()
            ]
            about = {"id": "/".join(parts[:2]), "sha": COMMIT, "siblings": [{"rfilename": f["path"]} for f in files]}
            self.send(200, json.dumps(files if "tree" in parts else about).encode(), {})

    def send_file(self, file: Path) -> None:
        if not file.is_file():
            self.send(404, b"", {"X-Error-Code": "EntryNotFound"})
        else:
            self.send(200, file.read_bytes(), {"ETag": f'"{digest(file)}"', "X-Repo-Commit": COMMIT})

    def send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body)), "Content-Type": "application/json"}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.server.breaks and "model.safetensors" in self.path:
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
        else:
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def digest(file: Path) -> str:
    return hashlib.sha1(file.read_bytes()).hexdigest()
