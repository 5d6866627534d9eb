"""attncli run: what the model says of the text, in the heading and in a saved record."""

import json

import pytest
import torch
from checkpoints import edit_config, make_checkpoint
from foreign_checkpoints import TEXT, make_foreign
from transformers import GPT2LMHeadModel

from attncli import load_model

LABELS = {0: "contradiction", 1: "entailment", 2: "neutral\x1b[31m"}


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return make_checkpoint(tmp_path_factory.mktemp("made"), "bert", "ForSequenceClassification", id2label=LABELS)


def test_run_names_the_label_and_its_probability_under_the_title(classifier, attncli):
    for more in (["--words", "--pair", "it sat"], ["-l", "1"], ["-l", "1", "-H", "0"]):
        result = attncli("run", "-m", classifier, "the unbelievable cat", *more)
        title, said, *_ = result.out.splitlines()
        assert result.code == 0 and "mask padding" in title
        assert said.startswith("prediction: ") and said.count("%") == 3 and r"neutral\x1b[31m" in said, more
        assert "\x1b" not in result.out


def test_json_has_it_and_a_saved_record_says_it_again(classifier, attncli, tmp_path):
    arguments = "run", "-m", classifier, "the cat", "--pair", "it sat"
    [record] = json.loads(attncli(*arguments, "--json").out)["records"]
    answers = record["prediction"]["answers"]
    assert sum(one["probability"] for one in answers) == pytest.approx(1) and len(answers) == 3
    first = attncli(*arguments, "-l", "-1").out.splitlines()[1]
    assert first.startswith(f"prediction: {answers[0]['label']} {answers[0]['probability']:.1%}".partition("\\")[0])
    for name in ("r.npz", "r.safetensors", "r.json"):
        assert attncli(*arguments, "-o", tmp_path / name).code == 0
        assert attncli("run", "--from", tmp_path / name, "-l", "-1").out.splitlines()[1] == first
    assert json.loads((tmp_path / "r.json").read_text())["records"][0]["prediction"] == record["prediction"]


def test_nothing_is_said_where_there_is_nothing(tiny, attncli, tmp_path):
    for model in (tiny("bert"), "minilm"):
        result = attncli("run", "-m", model, "the [MASK] cat", "-l", "0")
        assert result.code == 0 and "prediction" not in result.out + result.err
        assert "prediction" not in json.loads(attncli("run", "-m", model, "--json", "the cat").out)["records"][0]


def test_a_space_before_a_next_token_is_seen(attncli, foreign):
    """Otherwise two tokens look the same: " a" and "a"."""
    path = foreign("gpt2").place.path
    labels = load_model(str(path)).outputs()["next"].labels
    spaced = next(label for label in labels if label.startswith("Ġ") and len(label) > 2)
    shown = spaced.replace("Ġ", "␣")
    asked = ("ablate", "-m", path, "-l", "0", TEXT, "--target")
    first = attncli(*asked, shown)
    assert first.out.splitlines()[0].partition(" · ")[2].startswith(f"probability of {shown} at token ")
    assert attncli(*asked, shown.removeprefix("␣")).out == first.out
    [record] = json.loads(attncli("run", "-m", path, TEXT, "--json").out)["records"]
    values = load_model(str(path)).predict(TEXT).values[-1]
    best = [labels[place] for place in (-values).argsort()[:3]]
    begun = [answer["label"].startswith(" ") for answer in record["prediction"]["answers"]]
    assert begun == [label.startswith("Ġ") for label in best]


def test_a_head_that_does_not_fit_is_told_of_in_a_line(attncli, tmp_path):
    made = make_checkpoint(tmp_path / "made", "bert", "ForSequenceClassification", num_labels=3)
    edit_config(made, id2label={"0": "\x1b[31m"})
    result = attncli("run", "-m", made, "the cat")
    assert result.code == 0 and "prediction" not in result.out
    assert result.err.splitlines()[0].startswith("attncli: no prediction: ") and "[3, 32]" in result.err


@pytest.mark.parametrize("columns", ["40", "200"])
def test_a_decoder_s_heading_names_the_likeliest_next_tokens(attncli, tmp_path, monkeypatch, columns):
    """By the softmax of transformers' own logits at the last token."""
    made = make_foreign(tmp_path, "gpt2")
    monkeypatch.setenv("COLUMNS", columns)
    arguments = "run", "-m", made, TEXT, "-l", "0", "-H", "0"
    [record] = json.loads(attncli(*arguments, "--json").out)["records"]
    answers = record["prediction"]["answers"]
    with torch.inference_mode():
        ids = torch.tensor([load_model(str(made), "cpu").tokenizer.encode(TEXT).ids])
        shares = GPT2LMHeadModel.from_pretrained(made).eval()(ids).logits[0, -1].softmax(dim=-1)
    likeliest = shares.topk(3)
    assert [one["probability"] for one in answers] == pytest.approx(likeliest.values.tolist(), abs=1e-5)
    lines = attncli(*arguments).out.splitlines()
    line = next(line for line in lines if line.startswith("prediction: "))
    assert (line.startswith("prediction: next ") and line.count("%") == 3) or columns == "40"
    assert f"{answers[0]['probability']:.1%}" in " ".join(lines[:5])
