"""The SHA-256 of a model's weights: computed once, cached, and computed again when a file has changed."""

import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from attncli.models import hashes


@pytest.fixture
def memory(tmp_path, monkeypatch):
    """A memory of hashes of its own, and the list of files that were read to hash them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    read: list[Path] = []
    original = hashes.file_sha256
    monkeypatch.setattr(hashes, "file_sha256", lambda path: (read.append(path), original(path))[1])
    return read


def test_a_hash_is_computed_once_and_again_when_the_file_changes(memory, tmp_path):
    path = tmp_path / "weights"
    path.write_bytes(b"first")
    for _ in range(3):
        assert hashes.weights_sha256([path]) == hashlib.sha256(b"first").hexdigest()
    assert memory == [path]
    path.write_bytes(b"other")  # as long as before
    os.utime(path, ns=(0, time.time_ns() + 10**9))
    assert hashes.weights_sha256([path]) == hashlib.sha256(b"other").hexdigest()
    assert memory == [path, path]
    state = path.stat()
    path.rename(tmp_path / "before")
    path.write_bytes(b"third")  # another file of this size and time
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert hashes.weights_sha256([path]) == hashlib.sha256(b"third").hexdigest()


def test_shards_have_the_hash_of_their_list(memory, tmp_path):
    paths = [tmp_path / name for name in ("b", "a")]
    for path in paths:
        path.write_text(path.name)
    lines = "".join(f"{hashlib.sha256(name.encode()).hexdigest()}  {name}\n" for name in "ab")
    assert (
        hashes.weights_sha256(paths) == hashes.weights_sha256(paths[::-1]) == hashlib.sha256(lines.encode()).hexdigest()
    )
    assert len(memory) == 2
    same = tmp_path / "link to a"
    same.symlink_to(paths[1])  # as in the cache of the Hub, where files with the same content are one
    digest = hashlib.sha256(b"a").hexdigest()
    lines = f"{digest}  a\n{digest}  link to a\n"
    assert hashes.weights_sha256([paths[1], same]) == hashlib.sha256(lines.encode()).hexdigest()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"a": 1}', *("0" * 63, "F" * 64, "../" * 20)])
def test_a_memory_that_is_spoiled_is_forgotten(content, memory, tmp_path):
    """In each of its digests or as a whole."""
    path, cache_file = tmp_path / "weights", tmp_path / "cache" / "attncli" / "sha256.json"
    path.write_bytes(b"x")
    hashes.weights_sha256([path])
    digests = json.dumps(dict.fromkeys(json.loads(cache_file.read_text()), content))
    cache_file.write_text(digests if len(content) > 9 else content)
    assert hashes.weights_sha256([path]) == hashlib.sha256(b"x").hexdigest()
    assert list(json.loads(cache_file.read_text()).values()) == [hashlib.sha256(b"x").hexdigest()]


def test_a_memory_that_cannot_be_kept_is_no_error(memory, tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("a file where the directory should be")
    path = tmp_path / "weights"
    path.write_bytes(b"x")
    assert hashes.weights_sha256([path]) == hashes.weights_sha256([path])
    assert len(memory) == 2
