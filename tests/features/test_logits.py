"""What heads write: find --by logit, explain --logit and run --lens as a person types them."""

import csv
import json

import numpy as np
import pytest
from checkpoints import language_head, make_checkpoint

from attncli import ablate, explain, find, load_model, run
from attncli.base.errors import RequestError

TEXT = "the cat sat on the big cat"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A small random Llama, whose heads share keys and values."""
    return load_model(str(make_checkpoint(tmp_path_factory.mktemp("llama"), "llama", "ForCausalLM")), device="cpu")


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = make_checkpoint(tmp_path_factory.mktemp("bert"), "bert", language_head("bert"))
    return load_model(str(folder), device="cpu")


# --- find -----------------------------------------------------------------------------------------------


def test_heads_are_ranked_by_what_they_add_beside_what_silencing_does(model):
    for more in ({}, {"target": "cat"}, {"target": "cat", "at": "2"}):
        found = find(model, text=TEXT, by="logit", **more).document()
        effects = ablate(model, TEXT, ask="logit", **more).document()
        by_head = {(one["layer"], one["head"]): one["effect"] for one in effects["effects"]}
        assert found["output"] == effects["output"] and len(found["heads"]) == len(by_head) == 16
        adds = [one["adds"] for one in found["heads"]]
        assert adds == sorted(adds, reverse=True) and min(adds) < 0 < max(adds)
        for one in found["heads"]:
            assert one["effect"] == pytest.approx(by_head[one["layer"], one["head"]], abs=1e-5)


def test_the_target_is_the_likeliest_token_at_the_last_position(model):
    found = find(model, text=TEXT, by="logit").document()
    logits = model.predict(TEXT).values[-1]
    assert found["output"]["value"] == pytest.approx(float(logits.max()), abs=1e-5)
    assert found["tokens"] == model.tokenizer.encode(TEXT).text


def test_some_heads_and_silenced_ones(model):
    every = {(one["layer"], one["head"]): one for one in find(model, text=TEXT, by="logit").document()["heads"]}
    some = find(model, text=TEXT, by="logit", layer="2-3", head=1).document()["heads"]
    assert {(one["layer"], one["head"]) for one in some} == {(2, 1), (3, 1)}
    assert all(one["adds"] == every[one["layer"], one["head"]]["adds"] for one in some)
    gone = find(model.without("3.1"), text=TEXT, by="logit", head="3.1").document()["heads"]
    assert [(one["adds"], one["effect"]) for one in gone] == [(0, 0)]


def test_the_table_names_both_columns_and_their_units(model):
    shown = str(find(model, text=TEXT, by="logit", target="cat", top=3))
    lines = shown.splitlines()
    assert "logit of ␣cat at token 13 (␣cat)" in lines[0] and "3 of 16 heads" in lines[0]
    assert (
        "adds to the logit   effect of silencing it" in shown and "logit without the head minus logit with it" in shown
    )
    rows = [line.split() for line in lines if line[1:4].replace(".", "").isdigit()]
    first = find(model, text=TEXT, by="logit", target="cat").document()["heads"][:3]
    assert [row[0] for row in rows] == [f"{one['layer']}.{one['head']}" for one in first]
    assert [float(row[1]) for row in rows] == pytest.approx([one["adds"] for one in first], rel=6e-3)
    assert [float(row[2]) for row in rows] == pytest.approx([one["effect"] for one in first], rel=6e-3)


def test_the_terminal_measures_the_heads_that_it_lists(model):
    """Each effect takes a run: a document has those of all heads."""
    found = find(model, text=TEXT, by="logit", top=3)
    assert not found.known
    shown = str(found)
    assert list(found.known) == list(found.adds)[:3]
    assert len(found.document()["heads"]) == len(found.known) == 16 and str(found) == shown


def test_a_csv_has_a_row_a_head(model, tmp_path):
    found = find(model, text=TEXT, by="logit")
    found.save(tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(int(row["layer"]), int(row["head"]), float(row["adds"]), float(row["effect"])) for row in rows] == [
        (one["layer"], one["head"], one["adds"], one["effect"]) for one in found.document()["heads"]
    ]


def test_words_at_mask(bert):
    found = find(bert, text="the cat [MASK] on it", by="logit").document()
    assert " at token 3 ([MASK])" in found["output"]["about"]


@pytest.mark.parametrize(
    "given, said",
    [
        ({"query": "cat", "key": "sat"}, "key has no effect with --by logit, which ranks whole heads"),
        ({"measure": "norm"}, "measure has no effect with --by logit, which uses no weights"),
        ({"pad_to": 20}, "pad_to has no effect with --by logit"),
        ({"unit": "word"}, "unit has no effect with --by logit, which works on tokens"),
        ({"target": "the cat"}, "'the cat' is 2 tokens"),
        ({"which": "cross"}, "--which is for encoder-decoders"),
        ({"by": "content", "at": "2"}, "at has no effect without --by logit"),
    ],
)
def test_what_find_refuses(model, given, said):
    with pytest.raises(RequestError, match=said):
        find(model, **{"text": TEXT, "by": "logit", **given})


def test_a_record_and_several_texts_have_no_logit(model, tmp_path):
    with pytest.raises(RequestError, match="a saved record has no logits: --by logit needs a model and a text"):
        find(model.attend(TEXT), by="logit")
    (tmp_path / "two.txt").write_text("the cat\nthe mat\n", encoding="utf-8")
    with pytest.raises(RequestError, match="one text is needed, but 2 are given"):
        find(model, file=str(tmp_path / "two.txt"), by="logit")


def test_an_escape_sequence_in_a_token_stays_text(model, attncli):
    result = attncli("find", "-m", str(model.place.path), "--by", "logit", "the \x1b[31mcat", "--at", "1")
    assert result.code == 0 and "\x1b" not in result.out


# --- explain --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"target": "cat"}], ids=["likeliest", "target"])
def test_keys_sum_to_what_the_head_adds(model, more):
    found = find(model, text=TEXT, by="logit", **more).document()
    for one in found["heads"][::3]:
        row = explain(model, TEXT, layer=one["layer"], head=one["head"], logit=True, **more).document()
        assert row["query"]["index"] == len(row["tokens"]) - 1
        assert row["logit"]["adds"] == pytest.approx(one["adds"], abs=1e-5)
        assert sum(key["adds"] for key in row["keys"]) == pytest.approx(row["logit"]["adds"])
        assert {name: row["logit"][name] for name in found["output"]} == found["output"]


def test_a_hidden_key_adds_nothing_and_each_key_adds_its_value(model):
    """W_O, the RMSNorm with its scale, and the row of the token, multiplied out by hand."""
    row = explain(model, TEXT, layer=3, head=1, query="2", logit=True).document()
    assert row["query"]["index"] == 2 and row["logit"]["about"].endswith("at token 2 (␣cat)")
    assert [key["adds"] for key in row["keys"] if not key["allowed"]] == [0.0] * (len(row["tokens"]) - 3)
    network, seen = model.network, {}
    hook = network.final_norm.register_forward_pre_hook(lambda _, inputs: seen.update(x=inputs[0].double()[2]))
    logits = model.predict(TEXT).values
    hook.remove()
    projection = network.layer(3).output_by_head()[:, 1].double().numpy()
    x = seen["x"].numpy()
    scale = network.final_norm.weight.double().numpy() / np.sqrt((x**2).mean() + network.final_norm.eps)
    unembedding = model.outputs()["next"].network.scores.weight[int(logits[2].argmax())].double().numpy()
    for key in row["keys"]:
        expected = (key["weight"] * projection @ np.array(key["v"]) * scale) @ unembedding
        assert key["adds"] == pytest.approx(expected, abs=1e-5)


def test_the_table_and_its_sentence(model):
    shown = str(explain(model, TEXT, layer=3, head=1, logit=True, target="cat"))
    document = explain(model, TEXT, layer=3, head=1, logit=True, target="cat").document()
    assert "adds to the logit of ␣cat" in shown
    assert f"the head adds {document['logit']['adds']:+.3f} of it directly" in " ".join(shown.split())
    assert "adds to the logit" not in str(explain(model, TEXT, layer=3, head=1))


def test_the_query_of_explain_is_as_before_without_logit(model):
    assert explain(model, TEXT).document()["query"]["index"] == 1
    assert "adds" not in explain(model, TEXT).document()["keys"][0]


def test_explain_at_mask_and_what_it_refuses(bert, model):
    row = explain(bert, "the cat [MASK] on it", layer=3, head=2, logit=True).document()
    assert row["query"]["token"] == "[MASK]"
    found = find(bert, text="the cat [MASK] on it", by="logit", head="3.2").document()
    assert row["logit"]["adds"] == pytest.approx(found["heads"][0]["adds"], abs=1e-5)
    with pytest.raises(RequestError, match="has 0: write one, or name a token with --query"):
        explain(bert, TEXT, logit=True)
    with pytest.raises(RequestError, match="logit has no effect with --from or a record"):
        explain(model.attend(TEXT, vectors="all"), logit=True)
    with pytest.raises(RequestError, match="pad_to has no effect with --logit"):
        explain(model, TEXT, logit=True, pad_to=20)
    with pytest.raises(RequestError, match="--target is for encoder-decoders"):
        explain(model, TEXT, target="cat")


@pytest.mark.slow
def test_a_head_of_smollm2_copies_the_name_of_a_country_to_its_capital(smollm2):
    """Head 23.4 adds more to Paris than any other, and all of it comes from France."""
    text = "The capital of France is"
    found = find(smollm2, text=text, by="logit").document()
    best = found["heads"][0]
    assert "␣Paris" in found["output"]["about"] and (best["layer"], best["head"]) == (23, 4)
    assert best["adds"] > 2 and best["effect"] < -3
    row = explain(smollm2, text, layer=23, head=4, logit=True).document()
    assert row["keys"][3]["shown"] == " France" and row["keys"][3]["adds"] > 0.98 * best["adds"]


# --- run --lens -----------------------------------------------------------------------------------------


def test_a_lens_ends_with_what_the_model_predicts(model):
    found = run(model, TEXT, lens=True).document()
    lens, place = found["lens"], len(found["lens"]["tokens"]) - 1
    assert found["records"] == [] and lens["query"]["index"] == place
    assert [one["layer"] for one in lens["layers"]] == [None, 0, 1, 2, 3]
    chances = model.predict(TEXT).probabilities[place]
    last = [one["probability"] for one in lens["layers"][-1]["likeliest"]]
    assert last == pytest.approx(sorted(map(float, chances), reverse=True)[:5], abs=1e-5)
    names = model.outputs()["next"].labels
    assert lens["layers"][-1]["likeliest"][0]["token"] == names[int(chances.argmax())]


def test_the_lens_of_another_token_and_of_some_layers(model):
    found = run(model, TEXT, lens=True, query="cat#1", layer="-1").document()["lens"]
    assert found["query"] == {"index": 2, "token": "Ġcat", "shown": " cat"}
    assert [one["layer"] for one in found["layers"]] == [3]
    whole = run(model, TEXT, lens=True, query="2").document()["lens"]
    assert whole["layers"][-1] == found["layers"][0]


def test_a_lens_says_what_it_is(model, bert, attncli, tmp_path):
    shown = attncli("run", "-m", str(model.place.path), "--lens", TEXT)
    assert shown.code == 0 and "the final norm and the output head, applied early" in " ".join(shown.out.split())
    assert [line.split()[0] for line in shown.out.splitlines() if line.startswith((" emb", " layer"))] == [
        "embeddings", *["layer"] * 4,
    ]  # fmt: skip
    printed = json.loads(attncli("run", "-m", str(model.place.path), "--lens", TEXT, "--json").out)
    assert printed["lens"] == run(model, TEXT, lens=True).document()["lens"]
    run(model, TEXT, lens=True).save(tmp_path / "a.csv")
    assert len((tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()) == 1 + 5 * 5
    at_mask = run(bert, "the [MASK] sat", lens=True).document()["lens"]
    assert at_mask["query"]["token"] == "[MASK]"


@pytest.mark.parametrize(
    "given, said",
    [
        ({"head": 1}, "head has no effect with --lens, which shows no maps"),
        ({"words": True}, "words has no effect with --lens"),
        ({"measure": "norm"}, "measure has no effect with --lens"),
        ({"target": "cat"}, "target has no effect with --lens"),
        ({"query": "dog"}, "no token 'dog'"),
        ({"layer": 9}, "layer 9 is out of range"),
    ],
)
def test_what_a_lens_refuses(model, given, said):
    with pytest.raises(RequestError, match=said):
        run(model, **{"text": TEXT, "lens": True, **given})


def test_a_lens_needs_a_model_that_predicts_tokens(minilm, model):
    with pytest.raises(RequestError, match="minilm predicts no tokens"):
        run(minilm, TEXT, lens=True)
    with pytest.raises(RequestError, match="a saved record has no vectors: --lens needs a model and a text"):
        run(model.attend(TEXT), lens=True)
