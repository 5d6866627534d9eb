"""attncli compare: what it prints, how it ends, and when it takes random weights."""

import json
import re

import pytest
import torch
from foreign_checkpoints import make_foreign
from slow import slow_except

from attncli import RequestError, load_model
from attncli.features.compare import _layers, _ways, compare
from attncli.features.compare.ways import WAYS, WAYS_OF_EAGER
from attncli.models import transformers_peer as reference
from attncli.report import Cell, TextLine
from attncli.report.terminal import text_of

TEXT = "The cat sat on the mat."


def document(result):
    return json.loads(result.out)


def test_the_default_model_is_what_transformers_says_it_is(attncli):
    result = attncli("compare", TEXT)
    assert result.code == 0 and result.err == ""
    lines = result.out.splitlines()
    assert lines[0] == "minilm compared with transformers: the largest differences"
    assert lines[1] == "float32, mask padding, 1 text, 9 tokens"
    assert [line.split()[0] for line in lines if line.strip().endswith("100%")] == list("012345")
    assert all(any(line.startswith(f" {name} ") for line in lines) for name in WAYS)
    ways = f"{len(WAYS) - 1} other code paths agree too (1 does not apply)"  # it predicts no token
    within = r"the same: weights within \de-05, hidden states within \de-05; "
    assert re.fullmatch(within + re.escape(ways), lines[-1])
    assert not any("hides small mistakes" in line for line in lines)
    assert "\x1b" not in result.out


@pytest.fixture
def small(tiny):
    """The options that name a small BERT, which is compared in a tenth of minilm's time."""
    return "-m", tiny(max_position_embeddings=90)


def test_json(attncli, small):
    result = attncli("compare", "--json", "--dtype", "float64", "-l", "0,-1", *small, TEXT)
    assert result.code == 0 and result.err == ""
    found = document(result)
    assert found["model"] == document(attncli("run", "--json", "-l", "0", "-H", "0", *small, TEXT))["model"]
    assert found["weights"] == "pretrained" and found["against"] == "transformers"
    assert all(1e-14 < allowed < 1e-11 for allowed in found["tolerance"].values())
    assert [layer["layer"] for layer in found["layers"]] == [0, 3]
    assert all(layer["weights"] <= layer["weights_allowed"] and layer["agreement"] == 1 for layer in found["layers"])
    assert found["embeddings"] <= found["embeddings_allowed"] and found["same"] is True
    assert [way["way"] for way in found["ways"]] == list(WAYS)
    assert all(way["same"] for way in found["ways"])


@pytest.mark.parametrize("against", ["transformers", "torch"])
def test_masks_padding_pairs(attncli, small, against):
    options = (*small, "--mask", "causal", "--against", against, "--pad-to", "30", "--pair", "it is too big")
    found = document(attncli("compare", "--json", *options, TEXT))
    assert (found["mask"], found["against"], found["tokens"]) == ("causal", against, 30)
    real = len(
        document(attncli("run", "--json", *small, "-l", "0", "--pair", "it is too big", TEXT))["records"][0]["tokens"]
    )
    assert found["queries"] == (30 if against == "torch" else real)
    assert found["same"] is True
    assert (found["embeddings"] is None) == (against == "torch")


def test_against_torch(attncli):
    lines = attncli("compare", "--against", "torch", "-l", "2", TEXT).out.splitlines()
    assert lines[0] == "minilm compared with torch.nn.MultiheadAttention: the largest differences"
    assert "attention output" in lines[3]
    assert re.fullmatch(r"the same: weights within \de-06, attention outputs within \de-0[56]", lines[-1])


def test_a_saved_comparison_tells_its_verdict(attncli, small, tmp_path):
    saved = attncli("compare", *small, "--against", "torch", TEXT, "-o", tmp_path / "found.json")
    assert saved.err.startswith("attncli: the same: weights within ") and saved.out == f"{tmp_path / 'found.json'}\n"


def test_the_function_takes_an_open_model(small, tmp_path):
    model = load_model(small[1])
    found = compare(model, TEXT, layer=2, against="torch")
    assert [layer["layer"] for layer in found.document()["layers"]] == [2]
    found.save(tmp_path / "found.csv")
    with pytest.raises(RequestError, match="weights has no effect on an open model"):
        compare(model, TEXT, weights="random")


def test_a_line_that_scripts_look_for_does_not_fold():
    text = "a word " * 40 + "and the last"
    assert text_of([], [TextLine(text, folds=False)]) == f"{text}\n"
    assert len(text_of([], [TextLine(text)]).splitlines()) > 1


def test_the_tables_mark_what_is_past_its_tolerance():
    common = {"hidden_allowed": 1e-4, "rounding": None}
    layers = [
        {"layer": 4, "weights": 2e-5, "hidden": 5e-5, "agreement": 0.9996, "weights_allowed": 1e-5, **common},
        {"layer": 5, "weights": None, "hidden": 2e-4, "agreement": 1.0, "weights_allowed": 1e-3, **common},
    ]
    told = {"vectors": "hidden states", "embeddings": 0.0, "embeddings_allowed": 1e-4, "layers": layers}
    assert marked(_layers(told)) == ["2.0e-05", "NaN", "2.0e-04"]
    assert [row[3] for row in _layers(told).rows[1:]] == ["99.9%", "100%"]  # only all of it is 100%
    rounding = {"weights": 0.62, "hidden": 2.6, "allowed": 2.5, "scale": 0.02, "scale_allowed": 0.014}
    for one, rounded in zip(layers, (rounding, {**rounding, "weights": None, "scale_allowed": None}), strict=True):
        one |= {"weights": 1e-6, "hidden": 1e-6, "rounding": rounded}
    assert marked(_layers(told)) == ["2.60x", "+2.0%", "NaN", "2.60x"]
    ways = [
        {"way": "norms", "of": "[bold]", "difference": 3e-3, "allowed": 1e-4, "same": False, "note": ""},
        {"way": "sums", "of": "stats", "difference": None, "allowed": 1e-4, "same": False, "note": "too large"},
        {"way": "tokens", "of": "theirs", "difference": None, "allowed": 0.0, "same": True, "note": "no\x1b[31m files"},
    ]
    assert marked(_ways(ways)) == ["3.0e-03", "NaN"]
    lines = [" ".join(line.split()) for line in text_of([], [_ways(ways)]).splitlines()]
    assert "norms [bold] 3.0e-03 1e-04" in lines
    assert "tokens theirs: no\\x1b[31m files not compared none" in lines


def marked(table):
    return [cell.text for row in table.rows for cell in row if isinstance(cell, Cell) and cell.style == "wrong"]


# --- no ---------------------------------------------------------------------------------------------------


@pytest.fixture
def wrong_in_layer_3(monkeypatch):
    """transformers gets the checkpoint with one row of one matrix changed."""
    load = reference.load_reference

    def load_wrong(*arguments):
        loaded = load(*arguments)
        with torch.no_grad():
            loaded.network.encoder.layer[3].attention.self.key.weight[7] += 1
        return loaded

    monkeypatch.setattr(reference, "load_reference", load_wrong)


@pytest.mark.usefixtures("wrong_in_layer_3")
def test_a_difference_ends_with_1_and_is_named(attncli, small):
    result = attncli("compare", *small, TEXT)
    assert result.code == 1
    assert result.out.splitlines()[-1].startswith("NOT the same: layer 3 weights differ by ")
    assert "--dtype float64" not in result.err  # so much is no rounding
    assert attncli("compare", *small, "-l", "0-2", TEXT).code == 0


def test_float64_is_advised_where_it_can_tell_and_nowhere_else(attncli, small, monkeypatch):
    """A difference that is a few times what rounding explains may be rounding still, and one in float64 is none."""
    run = reference.Reference.run

    def off(self, tokens, mask):
        weights, hidden = run(self, tokens, mask)
        return weights, [*hidden[:-1], hidden[-1] * (1 + 1e-4)]

    monkeypatch.setattr(reference.Reference, "run", off)
    result = attncli("compare", *small, TEXT)
    assert result.code == 1 and "attncli: this may be rounding: try --dtype float64" in result.err
    result = attncli("compare", "--dtype", "float64", *small, TEXT)
    assert result.code == 1 and "--dtype float64" not in result.err


def test_half_precision_says_what_it_cannot_see(attncli, small):
    result = attncli("compare", "--dtype", "bfloat16", "--pad-to", "90", *small, " ".join([TEXT] * 9))
    assert result.code == 0
    _, title, *_, unseen, verdict = result.out.splitlines()
    assert re.search(r"90 tokens \(\d+ rows of \[PAD\] omitted; --dtype float64 compares them\)$", title)
    assert re.fullmatch(
        r"bfloat16 hides small mistakes: a change in the scale of scores shows only from \d\.\d% on; "
        r"other code paths show only gross mistakes\. --dtype float32 finds smaller ones\.",
        unseen,
    )
    assert re.match(r"the same: errors of weights are at most \d\.\d\d times transformers' own, of hidden ", verdict)


# --- random weights ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_alias_that_can_not_be_had_is_compared_on_random_weights_and_says_so(attncli):
    result = attncli("compare", "-m", "electra-small", TEXT)
    assert result.code == 0
    [notice] = result.err.splitlines()
    assert "RANDOM WEIGHTS (seed 0) in electra-small's architecture" in notice and "can't be downloaded" in notice
    assert result.out.startswith("electra-small's architecture with RANDOM WEIGHTS (seed 0) compared with transformers")
    found = document(attncli("compare", "-m", "electra-small", "--json", "--against", "torch", TEXT))
    assert found["weights"] == "random" and found["same"] is True
    assert (found["model"]["name"], found["model"]["path"], found["model"]["sha256"]) == ("electra-small", None, None)


def test_random_weights_can_be_asked_for(attncli, tiny):
    result = attncli("compare", "--json", "--weights", "random", "-m", tiny("roberta"), "the cat")
    assert document(result)["weights"] == "random" and document(result)["same"] is True
    assert "as requested" in result.err


def test_pretrained_or_nothing(attncli, refused):
    line = refused("compare", "-m", "electra-small", "--weights", "pretrained", TEXT)
    assert "not on this machine" in line and "or a filled cache" in line
    found = document(attncli("compare", "--json", "--weights", "pretrained", "--against", "torch", "-l", "0", TEXT))
    assert found["weights"] == "pretrained"


def test_only_a_known_architecture_gets_random_weights(refused, tmp_path):
    assert "not on this machine" in refused("compare", "-m", "some/repository", TEXT)
    assert "did you mean bert-base" in refused("compare", "-m", "bert-bas", TEXT)
    assert "config.json" in refused("compare", "-m", tmp_path, TEXT)


def test_a_directory_without_weights_is_an_error_unless_random_ones_are_asked_for(attncli, refused, tiny, tmp_path):
    config = tmp_path / "config.json"
    config.write_text((tiny("bert") / "config.json").read_text().replace('"vocab_size": ', '"vocab_size": 9'))
    assert "no weights" in refused("compare", "-m", tmp_path, "the cat")
    assert document(attncli("compare", "--json", "--weights", "random", "-m", tmp_path, "the cat"))["same"] is True


# --- bad requests -----------------------------------------------------------------------------------------


def test_where_transformers_gives_nan_is_refused(refused, tiny):
    """In float64, ModernBERT's softmax in float32 of a window of nothing but [PAD] is NaN; other masks are compared."""
    line = refused("compare", "-m", tiny("modernbert"), "--dtype", "float64", "--pad-to", "30", "the cat sat")
    assert "transformers itself gives NaN in 7 rows of real tokens (mask padding, float64)" in line


# --- networks that transformers runs ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """`theirs(family)` -> a directory with a small random checkpoint."""
    return lambda family: make_foreign(tmp_path_factory.mktemp(family), family)


def test_our_place_in_a_network_of_transformers(attncli, theirs):
    path = theirs("opt")
    result = attncli("compare", "-m", path, "-l", "0,2", TEXT)
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0].endswith("compared with transformers' own eager attention: the largest differences")
    assert lines[1].startswith("float32, mask causal, 1 text")
    assert [line.split()[0] for line in lines if line.strip().endswith("100%")] == ["0", "2"]
    assert all(any(line.startswith(f" {name} ") for line in lines) for name in WAYS_OF_EAGER)
    assert re.search(
        r"^the same: weights within .*, attention outputs within .*; 5 other code paths agree too$", lines[-1]
    )


@pytest.mark.parametrize("part", slow_except(["encoder", "decoder", "cross"], ["cross"]))
def test_a_part_of_an_encoder_decoder(attncli, theirs, part):
    result = attncli(
        "compare", "--json", "-m", theirs("bart"), "--which", part, "--pad-to", "30", "--target", "a cat", TEXT
    )
    found = document(result)
    assert result.code == 0 and found["same"] and found["vectors"] == "attention outputs"
    assert found["embeddings"] is None
    assert len(found["layers"]) == (3 if part == "encoder" else 2)
    assert [way["way"] for way in found["ways"]] == list(WAYS_OF_EAGER)


def test_what_can_not_be_compared_there_is_refused(refused, theirs):
    opt = theirs("opt")
    assert "--against has no effect" in refused("compare", "-q", "-m", opt, "--against", "torch", TEXT)
    assert "is a decoder: omit it" in refused("compare", "-q", "-m", opt, "--which", "decoder", TEXT)
    assert "is a decoder: omit it" in refused("compare", "-q", "-m", opt, "--target", "a cat", TEXT)
