"""Check which files of a directory are a model."""

import json

import pytest

from attncli.base.errors import RequestError
from attncli.models.checkpoint_files import WEIGHT_FILES, weight_files


def index(directory, names, file="model.safetensors.index.json"):
    path = directory / file
    path.write_text(json.dumps({"weight_map": {f"tensor {n}": name for n, name in enumerate(names)}}))
    return path


def test_shards_are_those_of_the_index_each_once(tmp_path):
    for name in ("b.safetensors", "a.safetensors", "other.safetensors"):
        (tmp_path / name).touch()
    index(tmp_path, ["b.safetensors", "a.safetensors", "b.safetensors"])
    assert weight_files(tmp_path) == [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]


def test_safetensors_come_before_pickles_and_whole_files_before_shards(tmp_path):
    (tmp_path / "a.bin").touch()
    for name in reversed(WEIGHT_FILES):
        if name.endswith(".json"):
            index(tmp_path, ["a.bin"], name)
            assert weight_files(tmp_path) == [tmp_path / "a.bin"]
        else:
            (tmp_path / name).touch()
            assert weight_files(tmp_path) == [tmp_path / name]


def test_no_weights_says_what_was_looked_for(tmp_path):
    (tmp_path / "weights.h5").touch()
    (tmp_path / "model.safetensors").mkdir()
    with pytest.raises(RequestError, match=r"no weights.*model\.safetensors.*pytorch_model\.bin"):
        weight_files(tmp_path)


@pytest.mark.parametrize("name", ["../evil.bin", "/etc/passwd", "sub/a.bin", "..", ".", "", "..\\evil.bin", 3, None])
def test_a_shard_may_not_lead_out_of_the_directory(name, tmp_path):
    inside = tmp_path / "model"
    (inside / "sub").mkdir(parents=True)
    for place in (tmp_path / "evil.bin", inside / "sub" / "a.bin", inside / "..\\evil.bin"):
        place.touch()
    index(inside, [name])
    with pytest.raises(RequestError, match=r"index\.json names .*own directory$"):
        weight_files(inside)


MAPS = ["{}", "[]", "3", '{"a": []}']


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b"\xff", b"[" * 100_000, *(f'{{"weight_map": {one}}}'.encode() for one in MAPS)],
)
def test_a_garbled_index_is_named(content, tmp_path):
    path = tmp_path / "model.safetensors.index.json"
    path.write_bytes(content)
    with pytest.raises(RequestError, match=r"model\.safetensors\.index\.json"):
        weight_files(tmp_path)


def test_a_missing_shard_is_named(tmp_path):
    (tmp_path / "a.safetensors").touch()
    index(tmp_path, ["a.safetensors", "a\0b"])
    with pytest.raises(RequestError, match="lacks the shard"):
        weight_files(tmp_path)
    index(tmp_path, ["a.safetensors", "b.safetensors"])
    with pytest.raises(RequestError, match=r"lacks the shard 'b\.safetensors'"):
        weight_files(tmp_path)
