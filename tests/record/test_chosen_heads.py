"""Heads of different layers in one record: what is chosen is shown, saved and written, and nothing else."""

import csv
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli import load_record, load_records
from attncli.base.errors import RequestError
from attncli.record.selection import choose_heads, select

LAYERS, HEADS = 6, 12  # of minilm
TEXT = "The cat sat on the mat."
CHOSEN = [(3, 1), (1, 8), (4, 7)]


def choose(layers, heads) -> list[tuple[int, int]]:
    sides = (lambda one: select(one, LAYERS, "layer")), (lambda one: select(one, HEADS, "head"))
    return choose_heads(layers, heads, *sides).each


@pytest.fixture(scope="session")
def whole(instant):
    return instant.attend(TEXT)


@pytest.fixture
def chosen(instant):
    return instant.attend(TEXT, heads="3.1,1.8,4.7")


@given(st.lists(st.tuples(st.integers(0, LAYERS - 1), st.integers(0, HEADS - 1)), min_size=1))
def test_every_notation_names_the_same_heads(pairs):
    wanted = set(pairs)
    names = [f"{layer}.{head}" for layer, head in pairs]
    from_the_end = [(layer - LAYERS, head - HEADS) for layer, head in pairs]
    for form in (names, ",".join(names), ", ".join(names), pairs, tuple(pairs), np.array(pairs), from_the_end):
        assert set(choose("all", form)) == wanted
        assert len(choose("all", form)) == len(wanted)


@pytest.mark.parametrize(
    ("layers", "heads", "means"),
    [
        (2, "0,3.1", [(2, 0), (3, 1)]),
        ("2,4", "0,3.1", [(2, 0), (4, 0), (3, 1)]),
        ("all", [(3, 1), 0], [(3, 1), *((layer, 0) for layer in range(LAYERS))]),
        (2, ["0-1", "3.1"], [(2, 0), (2, 1), (3, 1)]),
        ("all", "-1.-1,0.0", [(5, 11), (0, 0)]),
        ("all", "1.0-1,0-1.5", [(1, 0), (1, 1), (0, 5), (1, 5)]),
        (2, "0,2.0", [(2, 0)]),
        ([2], 0, [(2, 0)]),
    ],
)
def test_a_head_without_a_layer_is_of_the_chosen_layers(layers, heads, means):
    assert sorted(choose(layers, heads)) == sorted(set(means))


@pytest.mark.parametrize(
    ("layers", "heads", "says"),
    [
        (2, "3.1", "-l 2 has no effect, since every head names its layer"),
        ("all", "6.1", "layer 6 is out of range"),
        ("all", "3.1,1.x", "head 'x' is not a number"),
        ("all", "1.2.3", "head '2.3' is not a number.*3.1,1.8"),
        ("all", [3.1], r"heads \[3\.1\] are not numbers or pairs"),
        ("all", [(1, 2, 3)], r"heads \[\(1, 2, 3\)\] are not numbers or pairs"),
        ("all", [], "no head selected"),
        ("all", "3-1.0", "runs backwards"),
    ],
)
def test_what_names_no_head_is_refused(layers, heads, says):
    with pytest.raises(RequestError, match=says):
        choose(layers, heads)


@pytest.mark.parametrize(("engine", "heads"), [("instant", "3.1,1.8,4.7"), ("minilm", CHOSEN)])
def test_the_chosen_heads_have_the_maps_of_a_whole_run(engine, heads, request, whole):
    record = request.getfixturevalue(engine).attend(TEXT, heads=heads)
    assert record.each_head == CHOSEN
    assert (record.layers, record.heads) == ([1, 3, 4], [1, 7, 8])  # the contract: [layer, head, query, key]
    assert record.weights.shape == (3, 3, *whole.weights.shape[2:])
    for row, layer in enumerate(record.layers):
        for column, head in enumerate(record.heads):
            if (layer, head) in CHOSEN:
                np.testing.assert_allclose(record.map(layer, head), whole.map(layer, head), atol=1e-5)
            else:
                assert not record.weights[row, column].any()
                with pytest.raises(KeyError):
                    record.map(layer, head)
    assert "heads 3.1,1.8,4.7 of 6 layers x 12 heads" in repr(record)


def test_a_record_is_cut_to_heads_of_different_layers(whole, chosen):
    assert whole.select(heads="3.1,1.8,4.7").each_head == CHOSEN
    assert whole.select(layers=2, heads="0,3.1").each_head == [(2, 0), (3, 1)]
    assert chosen.select(layers=[1, 4]).each_head == [(1, 8), (4, 7)]
    assert chosen.select(heads=8).each_head == [(1, 8)] and chosen.select(heads=8).pairs is None
    assert chosen.select(heads="4.7,3.1").each_head == [(4, 7), (3, 1)]
    for layers, heads in ((1, 1), (None, "3.8"), (3, 7), (None, "1.8,3.8")):
        with pytest.raises(RequestError, match=r"is not in the record: it holds heads 3\.1,1\.8,4\.7"):
            chosen.select(layers, heads)


@pytest.mark.parametrize("suffix", ["npz", "safetensors", "json"])
def test_a_file_has_the_chosen_heads(chosen, suffix, tmp_path):
    chosen.save(tmp_path / f"some.{suffix}")
    loaded = load_record(tmp_path / f"some.{suffix}")
    assert loaded.each_head == CHOSEN and (loaded.layers, loaded.heads) == (chosen.layers, chosen.heads)
    assert np.array_equal(loaded.weights, chosen.weights) and np.array_equal(loaded.masks, chosen.masks)


def test_tables_have_the_chosen_heads_in_their_order(chosen, tmp_path):
    chosen.save(tmp_path / "some.csv")
    with (tmp_path / "some.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    heads = [(int(row["layer"]), int(row["head"])) for row in rows]
    assert list(dict.fromkeys(heads)) == CHOSEN and len(rows) == 3 * len(chosen.tokens) ** 2
    table = chosen.to_dataframe()
    assert list(zip(table["layer"], table["head"], strict=True)) == heads
    assert table["weight"].tolist() == pytest.approx([float(row["weight"]) for row in rows])
    assert [(one["layer"], one["head"]) for one in chosen.document()["attention"]] == CHOSEN


@pytest.mark.parametrize("pairs", [[[3, 1]], [[3, 1], [1, 8], [4, 7], [4, 7]], [[3, 1], [1, 8], [4, 9]]])
def test_a_file_whose_pairs_do_not_fit_is_refused(chosen, pairs, tmp_path):
    chosen.save(tmp_path / "some.npz")
    with np.load(tmp_path / "some.npz") as file:
        arrays = dict(file)
    labels = json.loads(str(arrays["labels"]))
    arrays["labels"] = np.array(json.dumps({**labels, "pairs": pairs}))
    np.savez(tmp_path / "wrong.npz", **arrays)
    with pytest.raises(RequestError, match="pairs"):
        load_records(tmp_path / "wrong.npz")


def test_a_document_of_heads_far_apart_takes_no_memory(chosen, tmp_path):
    """A million heads in a small file would be a rectangle of a million millions."""
    document = {"model": {**chosen.model.document(), "layers": 10**6, "heads": 10**6}, "records": [chosen.document()]}
    weights = document["records"][0]["attention"][0]["weights"]
    document["records"][0]["attention"] = [{"layer": one, "head": one, "weights": weights} for one in range(3000)]
    (tmp_path / "wide.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(RequestError, match="spread over 3000 layers of 3000 heads"):
        load_records(tmp_path / "wide.json")


def test_a_mean_is_over_the_chosen_heads_of_a_layer(instant, whole):
    from attncli.report.figure.record import What, heatmap

    figure = heatmap(instant.attend(TEXT, heads="3.1,3.2,1.8"), What(mean=True))
    drawn = [np.asarray(image.get_array()) for axes in figure.axes for image in axes.get_images()]
    wanted = [whole.map(1, 8), (whole.map(3, 1) + whole.map(3, 2)) / 2]
    np.testing.assert_allclose(drawn[:2], wanted, atol=1e-5)
