"""attncli explain."""

import json
from dataclasses import replace

import numpy as np
import pytest
from heads import heads, made_up
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle
from pictures import check_nothing_overlaps, picture_texts
from records import record_of as made_record

from attncli import explain, record_of
from attncli.features.explain import (
    HIDDEN,
    ExplainedRow,
    explain_row,
)
from attncli.record import Vectors
from attncli.record.display import HEAD_COLOURS
from attncli.report import Cell, Table
from attncli.report.figure import figure_of
from attncli.report.figure.row import HIDDEN_BAR, MOST_ROWS
from attncli.report.paper import Paper

TEXT = "The trophy does not fit in the suitcase because it is too big."
WHERE = ("-l", "3", "-H", "1")
STEPS = ("score", "scaled", "raised", "weight", "value_norm", "contribution")


# --- a saved record ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(minilm, tmp_path_factory):
    path = tmp_path_factory.mktemp("explain") / "v.safetensors"
    minilm.attend(TEXT, layers="2-4", vectors="3.1,2.5").save(path)
    return path


@pytest.mark.slow
def test_a_saved_record_is_followed_as_far_as_q_and_k_lead(attncli, saved, tmp_path):
    whole = json.loads(attncli("explain", TEXT, *WHERE, "--query", "it", "--json").out)
    part = json.loads(attncli("explain", "--from", saved, *WHERE, "--query", "it", "--json").out)
    assert part["query"]["q"] == pytest.approx(whole["query"]["q"], abs=1e-5) and "x" not in part["query"]
    for some, every in zip(part["keys"], whole["keys"], strict=True):
        assert set(every) - set(some) == {"v", "value_norm", "contribution"}
        for name in set(some) - {"token"}:
            assert some[name] == pytest.approx(every[name], abs=1e-4), name
    table = attncli("explain", "--from", saved, *WHERE, "--query", "it").out
    assert "0.614" in table and "|v|" not in table and "output" not in table
    for source, values in (([TEXT], True), (["--from", saved], False)):
        result = attncli("explain", *source, *WHERE, "--query", "it", "-o", tmp_path / "row.svg")
        drawn = (tmp_path / "row.svg").read_text(encoding="utf-8")
        assert result.code == 0 and "trophy" in drawn and "0.614" in drawn and ("|v|" in drawn) == values


def test_without_a_selection_the_last_head_that_has_q_and_k(attncli, saved):
    assert "layer 3 head 1" in attncli("explain", "--from", saved).out
    assert "layer 2 head 5" in attncli("explain", "--from", saved, "-l", "2").out
    assert "layer 2 head 5" in attncli("explain", "--from", saved, "-H", "5").out


def test_what_a_saved_record_does_not_hold(refused, saved, minilm, tmp_path):
    assert "no q and k of head 4.1" in (line := refused("explain", "--from", saved, "-l", "4", "-H", "1"))
    assert "attncli run --vectors 4.1 -o maps.safetensors TEXT" in line
    assert "layer 9 is out of range" in refused("explain", "--from", saved, "-l", "9")
    assert "--mask has no effect with --from" in refused("explain", "--from", saved, "--mask", "causal")
    minilm.attend(TEXT, layers=3).save(tmp_path / "a.json")
    assert "no q and k of head 3.0" in refused("explain", "--from", tmp_path / "a.json")


def test_scores_that_are_more_than_q_and_k_are_told(attncli, tmp_path):
    """Add terms like the biases of T5, or ALiBi's."""
    query, key = np.random.default_rng(0).normal(size=(2, 1, 1, 4, 5))
    record_of(np.full((1, 1, 4, 4), 0.25), ["a", "b", "c", "d"], vectors=(query, key)).save(tmp_path / "a.npz")
    result = attncli("explain", "--from", tmp_path / "a.npz")
    assert result.code == 0 and "adds something to the scores" in result.err


# --- a network that transformers runs ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "which", "headings"),
    [
        ("gpt_oss", (), ()),
        ("t5", ("--which", "encoder"), ("+ position",)),
        pytest.param("opt", (), (), marks=pytest.mark.slow),
        pytest.param("bart", ("--target", "a cat"), (), marks=pytest.mark.slow),
    ],
)
def test_a_network_of_transformers_starts_from_q_k_and_v(attncli, foreign, tmp_path, family, which, headings):
    model = foreign(family).place.path
    where = ["-m", model, "-l", "1", "-H", "1", *which, "the cat sat"]
    explained = json.loads(attncli("explain", *where, "--json").out)
    ran = json.loads(attncli("run", *where, "--json").out)["records"][0]
    row = ran["attention"][0]["weights"][1]
    assert np.array_equal(np.float32([key["weight"] for key in explained["keys"]]), np.float32(row))
    assert [key["token"] for key in explained["keys"]] == ran.get("key_tokens", ran["tokens"])
    assert "x" not in explained["query"] and "output" in explained
    shown = attncli("explain", *where).out
    assert "the inputs of its projections are unknown" in shown
    assert all(heading in shown for heading in headings)
    assert ("sink" in shown) == ("sink" in explained) == (family == "gpt_oss")
    drawn = tmp_path / "row.svg"
    assert attncli("explain", *where, "-o", drawn).code == 0
    assert f"{max(row):.3f}" in drawn.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("family", "phrases"),
    [
        ("gpt2", ("q = W_Q x + b_Q = ",)),
        ("llama", ("/ s_i · 30^(-2i/6) (s_i from",)),
        ("gemma2", ("+ softcap", "/ √9 ")),
        ("qwen3", ("q = norm(W_Q x + b_Q) = ", "heads 0-1 share their keys and values")),
        ("olmo2", ("q = norm(W_Q x) = ",)),
    ],
)
def test_a_decoder_of_our_own_starts_from_x(attncli, tiny, family, phrases):
    """A rotation keeps the length of a vector, so queries are normalised before it."""
    where = ["-m", tiny(family), "-l", "1", "-H", "1", "the cat sat"]
    explained = json.loads(attncli("explain", *where, "--json").out)
    query = explained["query"]
    row = json.loads(attncli("run", *where, "--json").out)["records"][0]["attention"][0]["weights"][query["index"]]
    assert np.array_equal(np.float32([key["weight"] for key in explained["keys"]]), np.float32(row))
    assert len(query["x"]) == 32 and ("normed" in query) == (family in ("qwen3", "olmo2"))
    for vectors, name in ((query, "q"), *((key, "k") for key in explained["keys"])):
        assert np.linalg.norm(vectors.get("before", vectors[name])) == pytest.approx(np.linalg.norm(vectors[name]))
    shown = attncli("explain", *where).out
    assert "are unknown" not in shown and all(phrase in shown for phrase in phrases)


def test_a_saved_record_with_sinks_is_explained_as_the_model_is(attncli, foreign, tmp_path):
    model, path = foreign("gpt_oss").place.path, tmp_path / "a.safetensors"
    where = ["-l", "1", "-H", "1", "--query", "2"]
    attncli("run", "-m", model, "-l", "all", "--vectors", "1.1", "-o", path, "the cat sat")
    whole = json.loads(attncli("explain", "-m", model, *where, "the cat sat", "--json").out)
    read = attncli("explain", "--from", path, *where, "--json")
    assert json.loads(read.out)["sink"] == pytest.approx(whole["sink"]) and "differ" not in read.err


# --- the row --------------------------------------------------------------------------------------------


@given(heads(), st.data())
def test_the_steps_lead_to_the_weights_and_the_output(head, data):
    """By softmax written the plain way, in float64."""
    record, query = head.record, data.draw(st.integers(0, len(head.record.tokens) - 1))
    explained = json.loads(json.dumps(explain_row(record, query, head), allow_nan=False))
    keys = {name: np.array([key[name] for key in explained["keys"]]) for name in explained["keys"][0]}
    q, allowed, weights = head.query[query].astype(float), record.mask[query], record.map(0, 0)[query]
    np.testing.assert_allclose(keys["score"], head.key.astype(float) @ q)
    np.testing.assert_allclose(keys["scaled"], keys["score"] / len(q) ** 0.5)
    raised = np.exp(np.where(allowed, keys["scaled"] - keys["scaled"][allowed].max(), -np.inf))
    np.testing.assert_allclose(keys["raised"], raised, atol=1e-12)
    np.testing.assert_allclose(keys["computed"], raised / raised.sum(), atol=1e-12)
    np.testing.assert_allclose(keys["computed"], weights, atol=1e-5)
    assert keys["weight"].tolist() == weights.tolist() and keys["allowed"].tolist() == allowed.tolist()
    values = head.value.astype(float)
    np.testing.assert_allclose(explained["output"], weights.astype(float) @ values, atol=1e-12)
    np.testing.assert_allclose(keys["value_norm"], np.linalg.norm(values, axis=-1))
    np.testing.assert_allclose(keys["contribution"], keys["weight"] * keys["value_norm"], atol=1e-12)
    assert explained["output_norm"] == pytest.approx(np.linalg.norm(explained["output"]))
    assert keys["token"].tolist() == record.tokens.text and explained["query"]["token"] == record.tokens.text[query]
    assert explained["query"]["q"] == head.query[query].tolist() and explained["query"]["x"] == head.x[query].tolist()
    part = explain_row(record, query)
    assert set(explained) - set(part) == {"output", "output_norm"}
    for every, some in zip(explained["keys"], part["keys"], strict=True):
        assert every == {**some, **{name: every[name] for name in ("v", "value_norm", "contribution")}}


def test_keys_are_hidden_by_the_mask_of_the_heads_own_layer():
    masks = np.stack([np.tri(4, dtype=bool), np.tri(4, dtype=bool).T])
    vectors = Vectors([(0, 0), (1, 0)], *np.ones((2, 2, 4, 3), np.float32))
    record = replace(made_record(np.full((2, 1, 4, 4), 0.25), masks), vectors=vectors)
    for layer, expected in enumerate(([True, True, False, False], [False, True, True, True])):
        assert [row["allowed"] for row in explain_row(record.select(layer), 1)["keys"]] == expected


# --- its table and its picture --------------------------------------------------------------------------


def document(head, query):
    return explain_row(head.record, query, head)


def table_of(explained):
    """Return the table of a row, with cells as plain text."""
    [table] = [part for part in ExplainedRow(explained).report().parts if isinstance(part, Table)]
    rows = [row and [cell.text if isinstance(cell, Cell) else cell for cell in row] for row in table.rows]
    return replace(table, rows=rows)


def drawn_of(explained):
    report = ExplainedRow(explained).report()
    return figure_of(report.title, report.picture)


@pytest.mark.parametrize("logit", [False, True])
def test_a_rotated_row_fits_a_column_of_print(smollm2, logit):
    row = explain(smollm2, "The capital of France is", layer=23, head=4, logit=logit)
    drawn = figure_of(row.report().title, row.report().picture, Paper(8 / 2.54))
    check_nothing_overlaps(drawn)
    said = " ".join(picture_texts(drawn))
    assert drawn.get_size_inches()[0] == pytest.approx(8 / 2.54) and "no room for:" in said
    assert "= weight" in said and ("adds to" in said) == logit


@given(heads(), st.integers(0, 3))
def test_a_row_a_key_with_its_numbers_the_sums_and_the_strongest_keys(head, query):
    explained = document(head, query)
    keys = explained["keys"]
    *by_key, _, last = table_of(explained).rows
    for row, key in zip(by_key, keys, strict=True):
        name, score, scaled, raised, weight, norm, contribution = row
        assert name.split() == [str(key["index"]), key["token"]]
        assert [score, scaled, weight] == [f"{key[one]:.3f}" for one in ("score", "scaled", "weight")]
        assert [norm, contribution] == [f"{key[one]:.3f}" for one in ("value_norm", "contribution")]
        assert raised == (f"{key['raised']:.4f}" if key["allowed"] else HIDDEN)
    assert float(last[3]) == pytest.approx(sum(key["raised"] for key in keys), abs=1e-4)
    assert (last[4], last[6]) == ("1.000", f"|Σ| = {np.linalg.norm(explained['output']):.3f}")
    strongest = {by: max(range(len(keys)), key=lambda place: keys[place][by]) for by in ("weight", "contribution")}
    end = ExplainedRow(explained).report().parts[-1].text
    assert (
        f'most weight: {strongest["weight"]} "' in end and f'largest contribution: {strongest["contribution"]} "' in end
    )


def test_a_query_that_may_attend_to_nothing_says_so():
    explained = document(made_up(tokens=5, mask=np.tri(5, k=-1, dtype=bool)), 0)
    assert explained["total"] == 0 and not any(explained["output"])
    *by_key, _, last = table_of(explained).rows
    assert all(row[3] == HIDDEN and row[4] == row[6] == "0.000" for row in by_key)
    assert last[3:] == ["0.0000", "0.000", "", "|Σ| = 0.000"]
    drawn = picture_texts(drawn_of(explained))
    assert drawn.count("masked") == 5


def test_tokens_and_names_are_not_for_the_terminal_to_obey():
    explained = document(made_up(), 1)
    for place in (explained["query"], *explained["keys"]):
        place["shown"] = "\x1b[31m[bold]"
    explained["model"]["name"] = "\x1b[2J"
    shown = str(ExplainedRow(explained))
    assert "\x1b" not in shown and "  1 \\x1b[31m[bold]" in shown


@pytest.mark.slow
@settings(max_examples=15)
@given(heads(), st.integers(0, 3), st.text("Wi中 ", max_size=120), st.text("Wil中##", min_size=1, max_size=30))
def test_the_picture_has_every_cell_and_bars_as_long_as_their_numbers(head, query, name, token):
    """No word lies on another or leaves the picture."""
    explained = document(head, query)
    explained["model"]["name"], explained["keys"][0]["shown"] = name, token
    drawn = drawn_of(explained)
    check_nothing_overlaps(drawn)
    shown, table = picture_texts(drawn), table_of(explained)
    assert {line for one in table.columns[1:] for line in one.name.replace(" = ", "\n= ").split("\n")} <= set(shown)
    for row in filter(None, table.rows):
        assert set(filter(None, row[1:])) <= set(shown)
    inks = [to_rgb(colour) for colour in (*HEAD_COLOURS, HIDDEN_BAR)]
    patches = [one for one in drawn.axes[0].patches if isinstance(one, Rectangle)]
    bars = [one for one in patches if any(np.allclose(one.get_facecolor()[:3], ink) for ink in inks)]
    lengths = np.array([one.get_width() for one in bars]).reshape(len(STEPS), len(head.x))
    for step, found in zip(STEPS, lengths, strict=True):
        numbers = np.array([key[step] for key in explained["keys"]])
        np.testing.assert_allclose(found * np.abs(numbers).max(), numbers * np.abs(found).max(), atol=1e-6)


@pytest.mark.slow
def test_of_many_keys_the_strongest_are_drawn_in_the_order_of_the_text():
    explained = document(made_up(tokens=90), 0)
    shown = picture_texts(drawn_of(explained))
    strongest = sorted(explained["keys"], key=lambda key: -key["weight"])[:MOST_ROWS]
    share = sum(key["weight"] for key in strongest)
    labels = [f"{key['index']} {key['shown']}" for key in sorted(strongest, key=lambda key: key["index"])]
    assert [text for text in shown if text in set(labels)] == labels
    assert f"the 60 of 90 keys with the largest weights, together {share:.3f}" in shown
    assert not any(line.startswith("the 60 of") for line in picture_texts(drawn_of(document(made_up(tokens=60), 0))))
