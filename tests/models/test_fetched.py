"""A model's files by address: whole or not at all, once, and again when they have changed."""

import json
import os
import shutil
import sys
from pathlib import Path

import fsspec
import numpy as np
import pytest
from checkpoints import make_checkpoint
from fsspec.implementations.memory import MemoryFileSystem
from shell import in_process

from attncli import RequestError, load_model
from attncli.models import hub as fetched
from attncli.models.hub import NotOnThisMachine, fetch, locate, newest
from attncli.models.opening import Opening

ADDRESS = "memory://bucket/model"


@pytest.fixture
def store(tiny):
    """A store in this process's memory, with a model at ADDRESS."""
    files = fsspec.filesystem("memory")
    files.put(f"{tiny('bert')}/", "/bucket/model/", recursive=True)
    yield files
    files.rm("/", recursive=True)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "attncli" / "models"


@pytest.fixture
def got(monkeypatch):
    """The names of the files that were copied so far."""
    names, original = [], MemoryFileSystem.get_file

    def get_file(self, path, target, **more):
        names.append(path.removeprefix("/bucket/model/"))
        return original(self, path, target, **more)

    monkeypatch.setattr(MemoryFileSystem, "get_file", get_file)
    return names


def names_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def left_in(cache: Path) -> list[str]:
    """Return the files in the cache's folder for ADDRESS, hidden or not."""
    return [path.name for folder in cache.iterdir() for path in folder.iterdir()]


# --- what is fetched ------------------------------------------------------------------------------------


def test_a_model_by_address_is_the_one_of_the_directory(store, cache, tiny):
    model, same = load_model(ADDRESS, "cpu"), load_model(str(tiny("bert")), "cpu")
    assert (model.place.name, model.place.origin, model.sha256) == (ADDRESS, "address", same.sha256)
    assert model.place.path.is_relative_to(cache)
    np.testing.assert_array_equal(model.attend("the cat").weights, same.attend("the cat").weights)
    assert Opening.of(model).name == ADDRESS and Opening.of(model).open().info == model.info


def test_nothing_but_what_is_needed(store, tmp_path, tiny):
    plain = names_in(tiny("bert"))
    needed = {"modules.json", "1_Pooling/config.json"}
    beside = {"README.md", "modeling_evil.py", "pytorch_model.bin", "1_Pooling/evil.py", "onnx/config.json", ".hidden"}
    for name in needed | beside:
        store.pipe(f"/bucket/model/{name}", b"{}")
    assert names_in(fetch(ADDRESS, tmp_path)) == plain | needed


def test_shards_are_fetched_by_their_index(store, tmp_path, got):
    made = make_checkpoint(tmp_path / "made", "roberta", form="sharded")
    store.put(f"{made}/", "/bucket/sharded/", recursive=True)
    store.pipe("/bucket/sharded/model-of-another.safetensors", b"")
    path = fetch("memory://bucket/sharded", tmp_path / "cache")
    assert names_in(path) == names_in(made)
    np.testing.assert_array_equal(
        load_model(str(path), "cpu").attend("the cat").weights, load_model(str(made), "cpu").attend("the cat").weights
    )
    got.clear()
    assert fetch("memory://bucket/sharded", tmp_path / "cache") == path and not got
    shard = next(path.glob("model-0*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-1])  # a copy that somebody cut
    assert fetch("memory://bucket/sharded", tmp_path / "cache") == path
    assert shard.read_bytes() == (made / shard.name).read_bytes()


# --- once, and again ------------------------------------------------------------------------------------


def test_it_is_fetched_once_and_again_when_it_has_changed(store, tmp_path, got):
    first = fetch(ADDRESS, tmp_path)
    assert "model.safetensors" in got
    got.clear()
    assert fetch(f"{ADDRESS}/", tmp_path) == first and not got
    store.pipe("/bucket/model/README.md", b"other words")
    assert fetch(ADDRESS, tmp_path) == first and not got
    weights = store.cat("/bucket/model/model.safetensors")
    store.pipe("/bucket/model/model.safetensors", weights[:-1] + bytes([weights[-1] ^ 1]))
    second = fetch(ADDRESS, tmp_path)
    assert second != first and (second / "model.safetensors").stat().st_size == len(weights)
    assert (first / "model.safetensors").read_bytes() == weights != (second / "model.safetensors").read_bytes()
    os.utime(second, (0, 0))  # as of long ago: what counts is when it was last asked for
    assert fetch(ADDRESS, tmp_path) == second
    assert newest(ADDRESS, tmp_path) == second and newest("memory://bucket/other", tmp_path) is None


@pytest.mark.parametrize("breaks", ["raises", "comes short"])
def test_what_breaks_off_leaves_nothing(store, tmp_path, monkeypatch, breaks):
    def get_file(self, path, target, **_):
        content = self.cat(path)
        whole = not path.endswith("model.safetensors")
        Path(target).write_bytes(content if whole else content[: len(content) // 2])
        if not whole and breaks == "raises":
            raise ConnectionError("the line is dead\nand buried")

    with monkeypatch.context() as patched:
        patched.setattr(MemoryFileSystem, "get_file", get_file)
        said = "the line is dead$" if breaks == "raises" else r"received only \d+ bytes of .*model/model\.safetensors"
        with pytest.raises(RequestError, match=said):
            fetch(ADDRESS, tmp_path)
    assert left_in(tmp_path) == [] and newest(ADDRESS, tmp_path) is None
    assert (fetch(ADDRESS, tmp_path) / "model.safetensors").is_file()


def test_who_comes_second_uses_what_the_first_has_put_there(store, tmp_path, monkeypatch):
    paths, original = [], fetched.copy

    def copy(*others):
        monkeypatch.setattr(fetched, "copy", original)
        original(*others)
        paths.append(fetch(ADDRESS, tmp_path))  # another process, while this one has all and put nothing in its place
        (paths[0] / "mark").touch()

    monkeypatch.setattr(fetched, "copy", copy)
    assert [fetch(ADDRESS, tmp_path)] == paths and (paths[0] / "mark").exists()
    assert left_in(tmp_path) == [paths[0].name]


# --- what is no model -----------------------------------------------------------------------------------


def refused(address: str, folder: Path) -> str:
    with pytest.raises(RequestError) as caught:
        fetch(address, folder / "cache")
    assert "\n" not in str(caught.value) and "\x1b" not in str(caught.value)
    assert not list(folder.rglob("*.safetensors"))
    return str(caught.value)


@pytest.mark.parametrize("name", ["../../../evil", "/etc/passwd", "..\\evil.safetensors", "", "a/b.safetensors"])
def test_an_index_can_not_lead_out_of_the_folder(store, tmp_path, name):
    store.mv("/bucket/model/model.safetensors", "/bucket/evil")
    store.pipe("/bucket/model/model.safetensors.index.json", json.dumps({"weight_map": {"x": name}}).encode())
    assert f"{ADDRESS}/model.safetensors.index.json names {name!r}" in refused(ADDRESS, tmp_path)
    assert not list(tmp_path.rglob("evil"))


def test_a_listing_can_not_lead_out_of_the_folder(store, tmp_path, monkeypatch):
    """Nor do a hundred thousand other things in it matter."""
    original = MemoryFileSystem.ls

    def ls(self, path, **more):
        strange = ("../../vocab.txt", "/etc/merges.txt", "..", "", "spiece.model/../../spm.model/", "1_Pooling")
        beside = [*strange, *(f"{number}.txt" for number in range(100_000))]
        named = [{"name": name, "type": "file", "size": 3, "created": 1} for name in beside]
        return named + original(self, path, **more)

    monkeypatch.setattr(MemoryFileSystem, "ls", ls)
    assert "bucket/model/spm.model" in refused(ADDRESS, tmp_path)  # it says that there is one, and there is none
    assert names_in(tmp_path) == set()


def test_an_index_that_is_not_what_it_says(store, tmp_path):
    store.rm("/bucket/model/model.safetensors")
    assert f"{ADDRESS} has no weights that attncli can read" in refused(ADDRESS, tmp_path)
    store.pipe("/bucket/model/model.safetensors.index.json", b'{"weight_map": {"x": "gone.safetensors"}}')
    assert refused(ADDRESS, tmp_path) == f"{ADDRESS} lacks the shard 'gone.safetensors' that its index names"
    store.pipe("/bucket/model/model.safetensors.index.json", b"[")
    assert refused(ADDRESS, tmp_path).startswith(f"{ADDRESS}/model.safetensors.index.json is not an index of shards")


def test_a_folder_without_a_configuration(store, tmp_path):
    for address in ("memory://bucket", "memory://", "memory://not/there", "memory://b/\x1b[31m\n"):
        assert "has no config.json: name the folder" in refused(address, tmp_path)


def test_a_store_that_does_not_say_what_has_changed(store, tmp_path, monkeypatch):
    monkeypatch.setattr(fetched, "TAGS", ())
    assert "the store can't tell if /bucket/model/config.json has changed" in refused(ADDRESS, tmp_path)


@pytest.mark.parametrize("address", ["nosuch://a/b", "memory://a::memory://b"])
def test_what_is_no_address_is_refused_in_a_line(address, tmp_path):
    done = in_process(["run", "-m", address, "the cat"], tmp_path)
    assert done.code == 2 and done.text.startswith("attncli: error: ") and address in done.text
    assert done.text.count("\n") == 1


def test_a_scheme_whose_package_is_missing_says_which(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(RequestError, match="s3:// needs s3fs: pip install s3fs"):
        fetch("s3://a/b", tmp_path)


def test_a_cache_that_can_not_be_written_to(store, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RequestError, match=f"can't fetch {ADDRESS}: "):
        fetch(ADDRESS, tmp_path / "file")


# --- names ----------------------------------------------------------------------------------------------


def test_a_directory_by_its_address(tiny, monkeypatch):
    directory = tiny("bert")
    place = locate(f"file://{directory}")
    assert (place.name, place.path, place.origin) == (f"file://{directory}", directory, "directory")
    with pytest.raises(RequestError, match="no model 'file:///not/there'"):
        locate("file:///not/there")


def test_what_was_fetched_is_known_without_asking(store, cache):
    with pytest.raises(NotOnThisMachine, match=f"attncli run -m {ADDRESS} fetches it"):
        locate(ADDRESS, download=False)
    place = locate(ADDRESS)
    store.rm("/bucket", recursive=True)
    assert locate(ADDRESS, download=False) == place
    shutil.rmtree(place.path)
    with pytest.raises(NotOnThisMachine):
        locate(ADDRESS, download=False)


def test_a_repository_by_its_address_is_the_one_of_its_name(cache):
    with pytest.raises(NotOnThisMachine, match=r"model hf://some/model \(some/model\) is not on this machine"):
        locate("hf://some/model", download=False)
