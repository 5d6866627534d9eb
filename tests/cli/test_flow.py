"""attncli flow."""

import json
import re

import numpy as np
import pytest
from foreign_checkpoints import make_foreign

from attncli import load_record

TEXT = "The cat sat on the mat."


def asked(attncli, *arguments):
    return json.loads(attncli("flow", TEXT, "--json", *arguments).out)


def test_json_is_what_the_definitions_say_of_the_model_s_maps(attncli, minilm):
    found = asked(attncli, "-l", "0,2")
    mean = minilm.attend(TEXT).weights.mean(axis=1, dtype=np.float64)
    steps = 0.5 * mean + 0.5 * np.eye(mean.shape[-1])
    rolled = {0: steps[0], 2: steps[2] @ steps[1] @ steps[0]}
    assert [layer["layer"] for layer in found["layers"]] == [0, 2]
    for layer in found["layers"]:
        rows = {name: [row[name] for row in layer["queries"]] for name in ("raw", "rollout", "flow", "maximum_flow")}
        np.testing.assert_allclose(rows["raw"], mean[layer["layer"]], atol=1e-6)
        np.testing.assert_allclose(rows["rollout"], rolled[layer["layer"]], atol=1e-6)
        flows = np.array(rows["maximum_flow"])
        np.testing.assert_allclose(rows["flow"], flows / flows.sum(axis=1, keepdims=True))
        np.testing.assert_array_equal([row["token"] for row in layer["queries"]], found["tokens"])
    np.testing.assert_allclose([row["flow"] for row in found["layers"][0]["queries"]], rolled[0], atol=1e-6)


def test_the_last_layer_is_meant_where_none_is_named(attncli):
    assert asked(attncli, "--method", "rollout") == asked(attncli, "--method", "rollout", "-l", "-1")


@pytest.mark.parametrize("extra", [(), ("-o", "flow.npz")])
def test_one_query_is_its_row_of_all(attncli, tmp_path, monkeypatch, extra):
    monkeypatch.chdir(tmp_path)
    [layer] = asked(attncli, "-l", "3")["layers"]
    [alone] = asked(attncli, "-l", "3", "--query", "mat", *extra)["layers"]
    assert alone["queries"] == [layer["queries"][6]]


def test_the_terminal_shows_the_numbers_of_json(attncli):
    [layer] = asked(attncli, "-l", "4", "--query", "cat")["layers"]
    [row] = layer["queries"]
    lines = attncli("flow", TEXT, "-l", "4", "--query", "cat").out.splitlines()
    table = [line.split() for line in lines if line[:4].strip().isdigit()]
    for key, line in enumerate(table):
        assert line[2:] == [f"{row[name][key]:.3f}" for name in ("raw", "rollout", "flow")]
    assert len(table) == 9 and any('token 2 "cat"' in line for line in lines)


def test_methods_come_in_the_order_asked_for_and_no_other(attncli):
    [layer] = asked(attncli, "--method", "rollout,raw")["layers"]
    assert list(layer["queries"][0]) == ["query", "index", "token", "rollout", "raw"]


def test_words_are_put_together_before_paths_are_followed(attncli):
    text = "The embeddings vanished."
    words = json.loads(attncli("flow", text, "--json", "--words", "--method", "rollout").out)
    assert words["tokens"] == ["[CLS]", "the", "embeddings", "vanished", ".", "[SEP]"]
    for row in words["layers"][0]["queries"]:
        assert sum(row["rollout"]) == pytest.approx(1)


def test_norms_are_followed_as_shares_of_their_rows(attncli, minilm):
    found = asked(attncli, "--measure", "norm", "--method", "raw", "-l", "1")
    brought = minilm.attend(TEXT, measure="norm").map
    mean = np.mean([brought(1, head) for head in range(12)], axis=0, dtype=np.float64)
    raw = [row["raw"] for row in found["layers"][0]["queries"]]
    np.testing.assert_allclose(raw, mean / mean.sum(axis=1, keepdims=True), atol=1e-6)
    assert found["measure"] == "norm"


@pytest.mark.slow
def test_a_record_is_drawn_and_a_saved_one_is_followed(attncli, tmp_path):
    whole, kept, picture = (tmp_path / name for name in ("maps.npz", "flow.safetensors", "flow.png"))
    attncli("run", TEXT, "-l", "all", "-o", str(whole))
    followed = json.loads(attncli("flow", "--from", str(whole), "--json", "-l", "2", "-o", str(kept)).out)
    assert followed == asked(attncli, "-l", "2")
    record = load_record(kept)
    assert (record.model.name, record.layers, record.heads) == ("minilm (raw, rollout, flow)", [2], [0, 1, 2])
    for head, name in enumerate(("raw", "rollout", "flow")):
        rows = [row[name] for row in followed["layers"][0]["queries"]]
        np.testing.assert_allclose(record.map(2, head), rows, atol=1e-6)
    assert attncli("heatmap", "--from", str(kept), "-o", str(picture)).code == 0 and picture.stat().st_size > 0
    assert attncli("view", "--from", str(kept), "-o", str(tmp_path / "flow.html")).code == 0


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_it_is_drawn(attncli, tmp_path, suffix):
    path = tmp_path / f"flow{suffix}"
    done = attncli("flow", TEXT, "-l", "0,1", "--query", "cat", "--method", "raw,rollout", "-o", str(path))
    assert done.out == f"{path}\n" and path.stat().st_size > 1000


def test_padding_and_masks_leave_rows_that_sum_to_1(attncli):
    for mask in ("padding", "causal", "none"):
        [layer] = asked(attncli, "--mask", mask, "--pad-to", "11", "--method", "rollout,flow")["layers"]
        for row in layer["queries"]:
            assert sum(row["rollout"]) == pytest.approx(1) and sum(row["flow"]) == pytest.approx(1)
            if mask == "causal":
                assert not any(row["flow"][row["query"] + 1 :])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--method", "rollin"), "no method 'rollin'"),
        (("--measure", "length"), "no measure 'length': it is one of weight, norm"),
        (("-l", "6"), "layer 6 is out of range"),
        (("--query", "dog"), "no token 'dog' in the text"),
        (("-o", "flow.txt"), "what is followed is saved as"),
    ],
)
def test_what_can_t_be_met_is_refused(refused, arguments, says):
    assert says in refused("flow", TEXT, *arguments)


DOES = {"flow": "follow", "heatmap": "draw", "explain": "explain", "mechanisms": "measure"}


@pytest.mark.parametrize("command", DOES)
@pytest.mark.parametrize("suffix", [".safetensors", ".json", ".csv", ".svg"])
def test_of_several_texts_it_says_what_it_does_and_speaks_of_pictures_where_one_is_asked_for(
    refused, tmp_path, command, suffix
):
    path = tmp_path / "texts.txt"
    path.write_text("a cat\na mat\n", encoding="utf-8")
    line = refused(command, "-f", path, "-l", "all" if command == "flow" else "0", "-o", tmp_path / f"x{suffix}")
    if "is saved as" not in line:
        assert f"the one to {DOES[command]} as TEXT" in line
        assert suffix == ".svg" or not re.search("picture|draw|page", line)


def test_models_of_transformers_are_followed_but_not_into_another_text(attncli, refused, tmp_path):
    model = ("--engine", "transformers", "-m", str(make_foreign(tmp_path, "bart")))
    decoded = json.loads(attncli("flow", TEXT, "--json", *model, "--which", "decoder", "--target", "a cat").out)
    for row in decoded["layers"][0]["queries"]:
        assert sum(row["rollout"]) == pytest.approx(1) and not any(row["rollout"][row["query"] + 1 :])
    assert "take --which encoder or decoder" in refused("flow", TEXT, *model, "--target", "a cat")


def test_a_record_without_the_way_down_is_refused(attncli, refused, tmp_path):
    path = tmp_path / "last.npz"
    attncli("run", TEXT, "-o", str(path))
    assert "needs all from 0 on: save it with -l all" in refused("flow", "--from", str(path))
    assert "--measure has no effect with --from" in refused("flow", "--from", str(path), "--measure", "norm")
    assert "--mask has no effect with --from" in refused("flow", "--from", str(path), "--mask", "causal")
