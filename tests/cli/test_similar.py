"""attncli similar: two texts, a file of them, words, files, and what is refused."""

import csv
import json

import pytest

from attncli import similar as library_similar

A, B = "The cat sat on the mat.", "A cat is sitting on a rug."
THREE = f"{A}\n{B}\nIt rains.\n"


@pytest.fixture
def lines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines.txt").write_text(THREE, encoding="utf-8")
    return "lines.txt"


def test_it_prints_what_the_library_gives(attncli, minilm):
    document = json.loads(attncli("similar", "--json", "--device", "cpu", A, B).out)
    assert document == library_similar(minilm, A, B).document()
    assert sum(map(sum, document["contributions"])) == pytest.approx(document["cosine"], abs=1e-12)


def test_the_sum_the_cosine_and_what_is_credited_stand_there(attncli):
    result = attncli("similar", A, B)
    assert "sum of all cells 0.729630, cosine 0.729630, difference " in result.out
    assert "contextual" in result.out and "2 cat   2 cat            +0.0409" in result.out
    assert "similar --inputs" in result.err or not result.err  # what to type next is for a terminal


def test_without_texts_two_samples(attncli):
    result = attncli("similar")
    assert result.code == 0 and f'"{A}" and "{B}"' in result.err


@pytest.mark.slow
def test_that_a_text_is_cut_is_said_once(attncli):
    result = attncli("similar", "--json", "the cat " * 200, "A cat.")
    assert result.err.count("kept the first 256 of 402 tokens") == 1


def test_words(attncli):
    document = json.loads(attncli("similar", "--json", "--words", "unbelievable cats", "Cats are catlike.").out)
    assert document["tokens"] == ["[CLS]", "unbelievable", "cats", "[SEP]"]
    assert sum(map(sum, document["contributions"])) == pytest.approx(document["cosine"], abs=1e-12)


def test_a_file_has_a_matrix_of_which_one_cell_is_taken_apart(attncli, lines):
    matrix = json.loads(attncli("similar", "--json", "-f", lines).out)
    assert matrix["texts"] == THREE.splitlines()
    apart = json.loads(attncli("similar", "--json", "-f", lines, "--apart", "0,2").out)
    assert apart["cosine"] == pytest.approx(matrix["cosines"][0][2], abs=1e-6)
    assert apart["key_tokens"] == ["[CLS]", "it", "rains", ".", "[SEP]"]


def test_tables_have_a_row_a_pair(attncli, lines, tmp_path):
    document = json.loads(attncli("similar", "--json", "-o", "pairs.csv", A, B).out)
    with (tmp_path / "pairs.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(document["tokens"]) * len(document["key_tokens"])
    for row in rows:
        index, key = int(row["index"]), int(row["key_index"])
        assert (row["token"], row["key_token"]) == (document["tokens"][index], document["key_tokens"][key])
        assert float(row["contribution"]) == document["contributions"][index][key]
    attncli("similar", "-o", "texts.csv", "-f", lines)
    with (tmp_path / "texts.csv").open(encoding="utf-8") as file:
        assert [(row["text"], row["other"]) for row in csv.DictReader(file)][1:4] == [
            ("0", "1"),
            ("0", "2"),
            ("1", "0"),
        ]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([A], "of two texts"),
        ([A, B, "-f", "lines.txt"], "both texts and --file"),
        ([A, B, "--apart", "0,1"], "--apart has no effect without -f"),
        (["-f", "lines.txt", "--apart", "0,3"], "text 3"),
        (["-f", "lines.txt", "--apart", "1"], "two texts are taken apart"),
        (["-f", "lines.txt", "--inputs"], "--inputs has no effect on a matrix of cosines"),
        ([A, B, "--steps", "8"], "--steps has no effect without --inputs"),
        ([A, B, "--inputs", "--steps", "10"], "a multiple of 4"),
        ([A, " "], "empty"),
    ],
)
def test_what_is_refused(attncli, lines, arguments, why):
    result = attncli("similar", *arguments)
    assert (result.code, result.out) == (2, "")
    [line] = result.err.splitlines()
    assert why in line and len(line) <= 320


def test_a_checkpoint_without_embeddings(attncli, tiny):
    result = attncli("similar", "-m", tiny("bert"), A, B)
    assert result.code == 2 and "add --pool mean, or --pool last (the last token)" in result.err
    result = attncli("similar", "-m", tiny("bert"), A, B, "--pool", "last")
    assert result.code == 0 and "last-token pooling" in result.out
