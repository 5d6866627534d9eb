"""attncli explain."""

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest
from heads import heads, made_up
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from pictures import check_nothing_overlaps, said
from records import record_of as made_record

import attncli as package
from attncli import record_of
from attncli.features.explain import (
    BAND,
    BAR,
    BY_KEY,
    BY_VALUE,
    HIDDEN,
    HIDDEN_BAR,
    MOST_ROWS,
    explain_row,
    row_report,
    row_steps,
)
from attncli.record import Vectors
from attncli.report import Table
from attncli.report.figure import figure_of

TEXT = "The trophy does not fit in the suitcase because it is too big."
WHERE = ("-l", "3", "-H", "1")
STEPS = ("score", "scaled", "raised", "weight", "value_norm", "contribution")


@pytest.mark.slow
@pytest.mark.parametrize("mask", ["padding", "causal", "none"])
@pytest.mark.parametrize("query", ["it", "0", "[SEP]", "the#2"])
def test_it_says_what_run_says_to_the_last_digit(attncli, mask, query):
    options = [TEXT, *WHERE, "--mask", mask, "--pad-to", "18"]
    explained = json.loads(attncli("explain", *options, "--query", query, "--json").out)
    ran = json.loads(attncli("run", *options, "--json").out)["records"][0]
    row = ran["attention"][0]["weights"][explained["query"]["index"]]
    assert np.array_equal(np.float32([key["weight"] for key in explained["keys"]]), np.float32(row))
    assert [key["token"] for key in explained["keys"]] == ran["tokens"]
    shown = attncli("explain", *options, "--query", query).out
    table = [line.split() for line in shown.splitlines() if line[:4].strip().isdigit()]
    assert [line[5] for line in table] == [f"{weight:.3f}" for weight in row]


def test_every_step_follows_from_the_one_before(attncli):
    explained = json.loads(attncli("explain", TEXT, *WHERE, "--query", "it", "--json").out)
    q = explained["query"]["q"]
    for key in explained["keys"]:
        assert key["score"] == pytest.approx(sum(a * b for a, b in zip(q, key["k"], strict=True)), abs=1e-9)
        assert key["scaled"] == pytest.approx(key["score"] / len(q) ** 0.5)
        assert key["raised"] / explained["total"] == pytest.approx(key["weight"], abs=1e-6)
        assert key["contribution"] == pytest.approx(key["weight"] * key["value_norm"], abs=1e-9)
    for place, total in enumerate(explained["output"]):
        assert total == pytest.approx(sum(key["weight"] * key["v"][place] for key in explained["keys"]), abs=1e-9)
    assert len(explained["query"]["x"]) == 384 and len(q) == 32
    assert explained["query"]["token"] == "it" and explained["query"]["index"] == 10


def test_masked_keys_are_named_so(attncli):
    shown = attncli("explain", "The cat sat.", "--query", "cat", "--mask", "causal").out
    assert [line.split()[1] for line in shown.splitlines() if "masked" in line] == ["sat", ".", "[SEP]"]
    shown = attncli("explain", "The cat sat.", "--query", "cat", "--pad-to", "8").out
    assert shown.count("masked") == 2


def test_a_query_that_may_attend_to_nothing(attncli, tiny):
    """[PAD] under the padding mask still looks at real tokens; nothing is attended to only without any."""
    explained = json.loads(attncli("explain", "cat", "--query", "[PAD]", "--pad-to", "5", "--json").out)
    assert [key["allowed"] for key in explained["keys"]] == [True, True, True, False, False]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--query", "zebra"), "no token 'zebra' in the text"),
        (("--query", "the#3"), "'the' occurs 2 times"),
        (("--query", "99"), "token 99 is out of range: tokens are 0 to 15"),
        (("-l", "0,1"), "one layer is needed, not 2"),
        (("-H", "all"), "one head is needed, not 12"),
        (("-l", "6"), "layer 6 is out of range"),
        (("--mask", "x"), "no mask 'x'"),
        (("-o", "row.txt"), "the row is saved as"),
    ],
)
def test_what_can_not_be_explained(refused, options, line):
    assert line in refused("explain", TEXT, *options)


def test_a_picture(attncli, tmp_path):
    path = tmp_path / "row.svg"
    result = attncli("explain", TEXT, *WHERE, "--query", "it", "-o", path)
    assert (result.code, result.out.strip()) == (0, str(path))
    drawn = path.read_text(encoding="utf-8")
    assert "trophy" in drawn and "0.614" in drawn


# --- a saved record ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(minilm, tmp_path_factory):
    path = tmp_path_factory.mktemp("explain") / "v.safetensors"
    minilm.attend(TEXT, layers="2-4", vectors="3.1,2.5").save(path)
    return path


def test_a_saved_record_is_followed_as_far_as_q_and_k_lead(attncli, saved):
    whole = json.loads(attncli("explain", TEXT, *WHERE, "--query", "it", "--json").out)
    part = json.loads(attncli("explain", "--from", saved, *WHERE, "--query", "it", "--json").out)
    assert part["query"]["q"] == pytest.approx(whole["query"]["q"], abs=1e-5) and "x" not in part["query"]
    for some, every in zip(part["keys"], whole["keys"], strict=True):
        assert set(every) - set(some) == {"v", "value_norm", "contribution"}
        for name in set(some) - {"token"}:
            assert some[name] == pytest.approx(every[name], abs=1e-4), name
    table = attncli("explain", "--from", saved, *WHERE, "--query", "it").out
    assert "0.614" in table and "|v|" not in table and "output" not in table


def test_without_a_selection_the_last_head_that_has_q_and_k(attncli, saved):
    assert "layer 3 head 1" in attncli("explain", "--from", saved).out
    assert "layer 2 head 5" in attncli("explain", "--from", saved, "-l", "2").out
    assert "layer 2 head 5" in attncli("explain", "--from", saved, "-H", "5").out


def test_a_picture_of_a_saved_row(attncli, saved, tmp_path):
    attncli("explain", "--from", saved, "--query", "it", "-o", tmp_path / "row.svg")
    drawn = (tmp_path / "row.svg").read_text(encoding="utf-8")
    assert "0.614" in drawn and "|v|" not in drawn


def test_what_a_saved_record_does_not_hold(refused, saved, minilm, tmp_path):
    assert "no q and k of head 4.1" in (line := refused("explain", "--from", saved, "-l", "4", "-H", "1"))
    assert "attncli run -l all --vectors 4.1 -o maps.safetensors TEXT" in line
    assert "layer 9 is out of range" in refused("explain", "--from", saved, "-l", "9")
    assert "--mask has no effect with --from" in refused("explain", "--from", saved, "--mask", "causal")
    minilm.attend(TEXT, layers=3).save(tmp_path / "a.json")
    assert "no q and k of head 3.0" in refused("explain", "--from", tmp_path / "a.json")


def test_scores_that_are_more_than_q_and_k_are_told(attncli, tmp_path):
    """As with the biases of T5, or ALiBi's."""
    query, key = np.random.default_rng(0).normal(size=(2, 1, 1, 4, 5))
    record_of(np.full((1, 1, 4, 4), 0.25), ["a", "b", "c", "d"], vectors=(query, key)).save(tmp_path / "a.npz")
    result = attncli("explain", "--from", tmp_path / "a.npz")
    assert result.code == 0 and "something is added to the scores" in result.err


# --- a network that transformers runs ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "which", "headings"),
    [
        ("gpt2", (), ()),
        ("gemma2", (), ("+ softcap",)),
        ("gpt_oss", (), ()),
        ("t5", ("--which", "encoder"), ("+ position",)),
        ("bart", ("--target", "a cat"), ()),
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


def test_a_saved_record_with_sinks_is_explained_as_the_model_is(attncli, foreign, tmp_path):
    model, path = foreign("gpt_oss").place.path, tmp_path / "a.safetensors"
    where = ["-l", "1", "-H", "1", "--query", "2"]
    attncli("run", "-m", model, "-l", "all", "--vectors", "1.1", "-o", path, "the cat sat")
    whole = json.loads(attncli("explain", "-m", model, *where, "the cat sat", "--json").out)
    read = attncli("explain", "--from", path, *where, "--json")
    assert json.loads(read.out)["sink"] == pytest.approx(whole["sink"]) and "differ" not in read.err


def test_a_target_is_for_what_writes_one(refused, foreign):
    said = refused("explain", "-q", "-m", foreign("gpt2").place.path, "--target", "a cat", "the cat")
    assert "is one decoder, which writes nothing: omit --target" in said
    assert "--target" in refused("explain", "--target", "a cat", TEXT)


def test_as_a_function(attncli):
    report = package.explain(TEXT, layer="3", head="1", query="it")
    assert report.document() == json.loads(attncli("explain", TEXT, *WHERE, "--query", "it", "--json").out)


# --- the row, its table and its picture -----------------------------------------------------------------


def document(head, query):
    """Return what `explain --json` prints."""
    return explain_row(head.record, query, head.x, head.value)


def table_of(explained):
    [table] = [part for part in row_report(explained).parts if isinstance(part, Table)]
    return table


def drawn_of(explained):
    report = row_report(explained)
    return figure_of(report.title, report.picture)


@given(heads(), st.integers(0, 3))
def test_a_row_a_key_with_its_numbers_at_three_digits_and_the_sums(head, query):
    explained = document(head, query)
    *by_key, _, last = table_of(explained).rows
    for row, key in zip(by_key, explained["keys"], strict=True):
        name, score, scaled, raised, weight, norm, contribution = row
        assert name.split() == [str(key["index"]), key["token"]]
        assert [score, scaled, weight] == [f"{key[one]:.3f}" for one in ("score", "scaled", "weight")]
        assert [norm, contribution] == [f"{key[one]:.3f}" for one in ("value_norm", "contribution")]
        assert raised == (f"{key['raised']:.4f}" if key["allowed"] else HIDDEN)
    assert float(last[3]) == pytest.approx(sum(key["raised"] for key in explained["keys"]), abs=1e-4)
    assert (last[4], last[6]) == ("1.000", f"|Σ| = {np.linalg.norm(explained['output']):.3f}")


def test_a_query_that_may_attend_to_nothing_says_so():
    explained = document(made_up(tokens=5, mask=np.tri(5, k=-1, dtype=bool)), 0)
    *by_key, _, last = table_of(explained).rows
    assert all(row[3] == HIDDEN and row[4] == row[6] == "0.000" for row in by_key)
    assert last[3:] == ["0.0000", "0.000", "", "|Σ| = 0.000"]
    assert "may attend to nothing" in str(row_report(explained))


def test_without_values_the_table_ends_with_the_weights():
    head = made_up()
    explained = explain_row(head.record, 1)
    table, full = table_of(explained), table_of(document(head, 1))
    assert [row and row[:5] for row in table.rows] == [row and row[:5] for row in full.rows]
    shown = str(row_report(explained))
    assert len(table.columns) == 5 and "x = " not in shown and "q = (" in shown
    assert "most weight: " in shown and "brings" not in shown


@given(heads(), st.integers(0, 3))
def test_the_end_names_the_strongest_by_weight_and_by_what_it_brings(head, query):
    explained = document(head, query)
    keys = explained["keys"]
    heaviest = max(range(len(keys)), key=lambda place: keys[place]["weight"])
    longest = max(range(len(keys)), key=lambda place: keys[place]["contribution"])
    last = row_report(explained).parts[-1].text
    assert f'most weight: {heaviest} "' in last and f'brings most: {longest} "' in last


def test_the_beginning_says_which_row_it_is_and_where_the_query_comes_from():
    head = made_up()
    report = row_report(document(head, 2))
    assert " · ".join(report.title) == 'made-up · layer 0 head 0 · mask padding · query 2 "##s"'
    x, q = (part.text for part in report.parts[:2])
    assert x.startswith(f"x = ({head.x[2][0]:.3f}, ") and x.endswith(f"[{len(head.x[2])}], the attention's input")
    assert q.startswith(f"q = W_Q x + b_Q = ({head.query[2][0]:.3f}, ")
    shared = explain_row(head.record, 2, head.x, head.value, group=range(6, 9))
    assert shared["group"] == [6, 7, 8] and "heads 6-8 share their keys and values" in str(row_report(shared))
    assert "share" not in str(report)


@pytest.mark.parametrize(("largest", "heading"), [(2.5, "exp(· - 2.50)"), (-0.18, "exp(· + 0.18)")])
def test_a_negative_number_is_taken_away_as_a_plus(largest, heading):
    assert heading in str(row_report({**document(made_up(), 1), "largest": largest}))


def test_tokens_and_names_are_not_for_the_terminal_to_obey():
    explained = document(made_up(), 1)
    for place in (explained["query"], *explained["keys"]):
        place["shown"] = "\x1b[31m[bold]"
    explained["model"]["name"] = "\x1b[2J"
    shown = str(row_report(explained))
    assert "\x1b" not in shown and "  1 \\x1b[31m[bold]" in shown


def bars(drawn, keys):
    """The lengths of the bars, signed: step -> by key."""
    found = [one for one in drawn.axes[0].patches if isinstance(one, Rectangle) and np.isclose(one.get_height(), BAR)]
    lengths = np.array([one.get_width() for one in found]).reshape(len(STEPS), keys)
    return dict(zip(STEPS, lengths, strict=True))


@pytest.mark.slow
@settings(max_examples=15)
@given(heads(), st.integers(0, 3))
def test_bars_are_as_long_as_their_numbers(head, query):
    explained = document(head, query)
    lengths = bars(drawn_of(explained), len(head.x))
    for step, found in lengths.items():
        numbers = np.array([key[step] for key in explained["keys"]])
        np.testing.assert_allclose(found * np.abs(numbers).max(), numbers * np.abs(found).max(), atol=1e-6)


@pytest.mark.slow
@settings(max_examples=15)
@given(heads(), st.integers(0, 3))
def test_it_says_what_the_terminal_says(head, query):
    explained = document(head, query)
    shown = said(drawn_of(explained))
    table = table_of(explained)
    for cell in (one.name for one in table.columns[1:]):
        assert cell in shown
    for row in filter(None, table.rows):
        assert set(filter(None, row[1:])) <= set(shown)
    for key in explained["keys"]:
        assert f"{key['index']} {key['token']}" in shown


@pytest.mark.slow
@settings(max_examples=15)
@given(heads(), st.integers(0, 3), st.text("Wi中 ", max_size=120), st.text("Wil中##", min_size=1, max_size=30))
def test_no_word_lies_on_another_or_leaves_the_picture(head, query, name, token):
    explained = document(head, query)
    explained["model"]["name"] = name
    explained["keys"][0]["shown"] = token
    drawn = drawn_of(explained)
    check_nothing_overlaps(drawn)


def test_masked_keys_are_faint_and_say_so():
    explained = document(made_up(tokens=6, mask=np.tri(6, dtype=bool)), 3)
    drawn = drawn_of(explained)
    assert said(drawn).count("masked") == 2
    grey = [one for one in drawn.axes[0].patches if one.get_facecolor()[:3] == pytest.approx(to_rgb(HIDDEN_BAR))]
    assert len(grey) == 2 * len(STEPS)


def test_a_query_that_may_attend_to_nothing_can_be_drawn():
    explained = document(made_up(tokens=5, mask=np.tri(5, k=-1, dtype=bool)), 0)
    shown = said(drawn_of(explained))
    assert shown.count("masked") == 5 and any("may attend to nothing" in line for line in shown)


def test_the_querys_own_row_stands_out():
    drawn = drawn_of(document(made_up(), 4))
    [band] = [one for one in drawn.axes[0].patches if one.get_facecolor()[:3] == pytest.approx(to_rgb(BAND))]
    [label] = [text for text in drawn.findobj(Text) if text.get_text().startswith("4 ")]
    assert band.get_y() < label.get_position()[1] < band.get_y() + band.get_height()


@pytest.mark.slow
def test_of_many_keys_the_strongest_are_drawn_in_the_order_of_the_text():
    explained = document(made_up(tokens=90), 0)
    shown = said(drawn_of(explained))
    strongest = sorted(explained["keys"], key=lambda key: -key["weight"])[:MOST_ROWS]
    share = sum(key["weight"] for key in strongest)
    labels = [f"{key['index']} {key['shown']}" for key in sorted(strongest, key=lambda key: key["index"])]
    assert [text for text in shown if text in set(labels)] == labels
    assert f"the 60 of 90 keys that have the largest weights, together {share:.3f}; sums are of all" in shown
    assert not any(line.startswith("the 60 of") for line in said(drawn_of(document(made_up(tokens=60), 0))))


def test_text_is_text_and_bytes_are_the_same(tmp_path):
    explained = document(made_up(), 1)
    explained["keys"][2]["shown"] = "</text><script>&"
    for name in ("one.svg", "two.svg"):
        row_report(explained).save(tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    root = ElementTree.parse(tmp_path / "one.svg").getroot()
    shown = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert f"2 {'</text><script>&'}" in shown
    assert f"{explained['keys'][1]['weight']:.3f}" in shown


# --- the arithmetic -------------------------------------------------------------------------------------


@st.composite
def query_rows(draw):
    keys, size = draw(st.integers(1, 9)), draw(st.integers(1, 6))
    numbers = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from([0.1, 1.0, 30.0]))
    query, key, value = (numbers.standard_normal(shape, dtype=np.float32) for shape in [size, (keys, size), (keys, 3)])
    allowed = numbers.random(keys) < draw(st.sampled_from([0.0, 0.5, 1.0]))
    return scale * query, key, value, allowed


def weights_of(query, key, allowed):
    """Softmax written the plain way, in float64, with exp that may not overflow here."""
    scaled = [float(np.dot(query.astype(float), one)) / len(query) ** 0.5 for one in key.astype(float)]
    raised = [np.exp(one) if may else 0.0 for one, may in zip(scaled, allowed, strict=True)]
    return np.float32([one / sum(raised) if sum(raised) else 0.0 for one in raised])


@given(query_rows())
def test_the_steps_lead_to_the_weights_and_the_output(row):
    query, key, value, allowed = row
    weight = weights_of(query, key, allowed)
    steps = row_steps(query, key, value, allowed, weight)
    np.testing.assert_allclose(steps.computed, weight, atol=1e-6)
    np.testing.assert_allclose(steps.scaled * len(query) ** 0.5, steps.score)
    assert steps.total == pytest.approx(steps.raised.sum())
    assert (steps.raised <= 1).all() and (steps.raised[~allowed] == 0).all()
    assert steps.raised.max() == (1 if allowed.any() else 0)
    np.testing.assert_allclose(steps.output, weight.astype(float) @ value.astype(float), atol=1e-12)
    np.testing.assert_allclose(steps.contribution, weight * steps.value_norm, rtol=1e-5)


def test_by_hand():
    query = np.float32([2, 0])
    key = np.float32([[1, 5], [0, 3], [9, 9]])
    value = np.float32([[3, 4], [0, 1], [7, 7]])
    steps = row_steps(query, key, value, np.array([True, True, False]), np.float32([0.8, 0.2, 0]))
    assert steps.score.tolist() == [2, 0, 18]
    assert steps.scaled == pytest.approx([2**0.5, 0, 18 / 2**0.5])
    assert steps.largest == pytest.approx(2**0.5)
    assert steps.raised == pytest.approx([1, np.exp(-(2**0.5)), 0])
    assert steps.computed == pytest.approx([0.804429, 0.195571, 0], abs=1e-6)
    assert steps.value_norm == pytest.approx([5, 1, 98**0.5])
    assert steps.contribution == pytest.approx([4, 0.2, 0])
    assert steps.output == pytest.approx([2.4, 3.4])


def test_where_nothing_may_be_attended_to_everything_is_nothing():
    steps = row_steps(
        *np.ones((1, 4), np.float32),
        np.ones((3, 4), np.float32),
        np.ones((3, 2), np.float32),
        np.zeros(3, bool),
        np.zeros(3, np.float32),
    )
    assert steps.total == 0 and steps.computed.tolist() == [0, 0, 0] and steps.output.tolist() == [0, 0]


@given(heads(), st.data())
def test_the_document_has_the_steps_of_a_head_s_row_key_by_key(head, data):
    record = head.record
    query = data.draw(st.integers(0, len(record.tokens) - 1))
    made = json.loads(json.dumps(explain_row(record, query, head.x, head.value), allow_nan=False))
    steps = row_steps(head.query[query], head.key, head.value, record.mask[query], record.map(0, 0)[query])
    for name in BY_KEY:
        assert [row[name] for row in made["keys"]] == getattr(steps, name).tolist()
    assert [row["token"] for row in made["keys"]] == record.tokens.text
    assert (made["layer"], made["head"], made["query"]["token"]) == (0, 0, record.tokens.text[query])
    assert made["query"]["q"] == head.query[query].tolist() and made["query"]["x"] == head.x[query].tolist()
    assert [row["v"] for row in made["keys"]] == head.value.tolist()
    assert made["output_norm"] == pytest.approx(np.linalg.norm(made["output"]))


def test_keys_are_hidden_by_the_mask_of_the_heads_own_layer():
    masks = np.stack([np.tri(4, dtype=bool), np.tri(4, dtype=bool).T])
    numbers = np.random.default_rng(0).normal(size=(2, 2, 4, 3)).astype(np.float32)
    vectors = Vectors([(0, 0), (1, 0)], *numbers)
    record = replace(made_record(np.full((2, 1, 4, 4), 0.25), masks), vectors=vectors)
    for layer, expected in enumerate(([True, True, False, False], [False, True, True, True])):
        made = explain_row(record.select(layer), 1, np.ones((4, 5), np.float32), numbers[0, 0])
        assert [row["allowed"] for row in made["keys"]] == expected


@given(heads(), st.data())
def test_without_values_all_that_is_made_of_q_and_k_is_the_same(head, data):
    record = head.record
    query = data.draw(st.integers(0, len(record.tokens) - 1))
    whole, part = explain_row(record, query, head.x, head.value), explain_row(record, query)
    assert set(whole) - set(part) == {"output", "output_norm"} and set(whole["query"]) - set(part["query"]) == {"x"}
    for every, some in zip(whole["keys"], part["keys"], strict=True):
        assert set(every) - set(some) == {"v", *BY_VALUE}
        assert some == {name: value for name, value in every.items() if name in some}


def test_a_cross_attention_says_so():
    record = replace(made_record(np.full((4, 4), 0.25)), vectors=Vectors([(0, 0)], *np.ones((2, 1, 4, 3), np.float32)))
    assert "kind" not in explain_row(record, 0)
    cross = replace(record, kind="cross", key_tokens=record.tokens)
    assert explain_row(cross, 0)["kind"] == "cross"
