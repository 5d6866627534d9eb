"""Every command shows tokens as a reader sees them, and gives programs the vocabulary's own pieces."""

import csv
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

TEXT = "é the cat 🙂"
PIECES = ["<s>", "Ã©", "Ġthe", "Ġcat", "Ġ", "ð", "Ł", "Ļ", "Ĥ", "</s>"]
PARTS = [f"🙂[{part}/4]" for part in range(1, 5)]
LABELS = ["<s>", "é", "␣the", "␣cat", "␣", *PARTS, "</s>"]
CHINESE = Path(__file__).parents[2] / "sample_inputs" / "chinese.txt"


@pytest.fixture(scope="session")
def roberta(tiny):
    return ("-m", str(tiny("roberta")))


@pytest.mark.parametrize(
    "arguments",
    [("run", "-l", "0"), ("run", "-l", "0", "-H", "1"), ("flow",), ("mask", "-l", "0", "-H", "1"), ("explain",)],
    ids=" ".join,
)
def test_a_terminal_has_text(attncli, roberta, arguments):
    result = attncli(*arguments, *roberta, TEXT)
    assert result.code == 0
    assert all(label in result.out for label in LABELS)
    assert not any(piece in result.out for piece in PIECES[1:-1])


def test_programs_get_the_pieces(attncli, roberta, tmp_path):
    where = (*roberta, "-l", "0", "-H", "1")
    assert json.loads(attncli("run", *where, "--json", TEXT).out)["records"][0]["tokens"] == PIECES
    assert json.loads(attncli("flow", *roberta, "--json", TEXT).out)["tokens"] == PIECES
    attncli("run", *where, "-o", tmp_path / "maps.csv", TEXT)
    with (tmp_path / "maps.csv").open(encoding="utf-8", newline="") as file:
        assert {row["key_token"] for row in csv.DictReader(file)} == set(PIECES)
    explained = json.loads(attncli("explain", *where, "--query", "cat", "--json", TEXT).out)
    assert [key["token"] for key in explained["keys"]] == PIECES
    assert [key["shown"] for key in explained["keys"]] == [label.replace("␣", " ") for label in LABELS]
    assert (explained["query"]["token"], explained["query"]["shown"]) == ("Ġcat", " cat")


@pytest.mark.slow
@pytest.mark.parametrize("query", ["cat", " cat", "Ġcat", "␣cat", "CAT", "3"])
def test_a_token_is_found_however_it_is_written(attncli, roberta, query, tmp_path):
    assert 'query 3 " cat"' in attncli("explain", *roberta, "--query", query, TEXT).out
    assert 'token 3 " cat"' in attncli("flow", *roberta, "--query", query, TEXT).out
    assert attncli("heatmap", *roberta, "--query", query, "-o", tmp_path / "held.png", TEXT).code == 0
    attncli("view", *roberta, "--query", query, "-o", tmp_path / "held.html", TEXT)
    assert '"token":3' in (tmp_path / "held.html").read_text().replace(" ", "")


def test_a_picture_and_a_saved_record_have_text(attncli, roberta, tmp_path):
    attncli("run", *roberta, "-l", "0", "-H", "1", "-o", tmp_path / "maps.npz", TEXT)
    attncli("heatmap", "--from", tmp_path / "maps.npz", "-o", tmp_path / "maps.svg")
    root = ElementTree.parse(tmp_path / "maps.svg").getroot()
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert [texts.count(label) for label in LABELS] == [2, 2, 2, 2, 2, 2, 2, 2, 2, 2]


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("猫坐在垫子上", "4 of 6 Chinese tokens are unknown; -m bert-base-chinese knows Chinese"),
        ("北京大学在", None),
        ("a 猫 sat", None),
        ("the 🦉 sat", None),
    ],
)
def test_a_model_for_chinese_is_named_where_most_of_it_is_unknown(attncli, text, note):
    out = attncli("run", "-l", "0", "-H", "2", text).out
    assert ("bert-base-chinese" in out) == (note is not None) and (note or "") in out


def test_an_unknown_token_shows_its_characters_and_is_explained_once_a_text(attncli):
    out = attncli("run", "-f", CHINESE, "-l", "0", "-H", "2").out
    first, second = out.split("minilm")[1:]
    assert " 3 [UNK:是]" in first and " 7 [UNK:首]" in first and "[UNK:书]" in second
    assert (
        first.count("is not in the vocabulary, so the model reads [UNK]") == 1 == second.count("not in the vocabulary")
    )
    assert "not in the vocabulary" not in attncli("run", "-l", "0", "-H", "2", "The cat sat.").out
    assert 'query 3 "[UNK:是]"' in attncli("explain", "北京是中国的首都。", "--query", "是").out
    assert "[UNK:是]" in attncli("run", "--words", "-l", "0", "北京是中国的首都。").out
