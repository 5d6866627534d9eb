"""The first so many texts of a corpus, and a share of them by chance."""

import gzip
import io
import os

import pytest
from corpora import FORMS, pieces

from attncli import RequestError
from attncli.corpus.files import BadFile
from attncli.corpus.finding import find_inputs
from attncli.corpus.texts import TextFormat, end_of
from attncli.corpus.treebank import TreebankFormat

TEXTS = [f"text number {number}" for number in range(4000)]


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(TEXTS))
    return path


def sample(path, share, seed=0):
    return [line.text for line in TextFormat(sample=share, seed=seed).texts(pieces(path))]


@pytest.mark.parametrize("share", [0.01, 0.3, 1])
def test_a_sample_has_about_that_share_and_is_of_its_seed(corpus, share):
    some = sample(corpus, share)
    assert abs(len(some) - 4000 * share) <= 4 * (4000 * share * (1 - share)) ** 0.5
    assert some == sample(corpus, share)
    assert (some == sample(corpus, share, seed=1)) == (share == 1)


def test_a_sample_is_the_same_whether_the_file_is_compressed_or_goes_on(corpus, tmp_path):
    some = sample(corpus, 0.2)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(corpus.read_bytes()))
    assert sample(tmp_path / "a.txt.gz", 0.2) == some
    with corpus.open("a") as file:
        file.write("\nand more" * 99)
    assert sample(corpus, 0.2)[: len(some)] == some


@pytest.mark.parametrize("share", [0, -0.1, 1.5, float("nan")])
@pytest.mark.parametrize("reading", [TextFormat, TreebankFormat])
def test_what_is_no_share_is_refused(reading, share):
    with pytest.raises(RequestError, match=rf"--sample {share:g}: a share of the texts, above 0 and up to 1"):
        reading(sample=share)


def test_a_text_in_no_alphabet_at_all_can_be_drawn(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "\\ud800"}\n')
    assert [text.encode("utf-8", "surrogatepass") for text in sample(tmp_path / "a.jsonl", 1)] == [b"\xed\xa0\x80"]


# --- where a plan ends ----------------------------------------------------------------------------------------


def test_it_ends_after_the_last_text_that_is_asked_for(corpus, tmp_path):
    (tmp_path / "a.parquet").write_bytes(FORMS["a.parquet"](TEXTS[:5]))
    inputs = find_inputs([str(tmp_path / "a.parquet"), str(corpus)])
    assert end_of(TextFormat(), inputs) is None
    assert end_of(TextFormat(limit=5), inputs) == (0, 5)
    assert end_of(TextFormat(limit=6), inputs) == (1, 1)
    assert end_of(TextFormat(limit=7), inputs) == (1, 1 + len("text number 0\n"))
    assert end_of(TextFormat(limit=4005), inputs) is not None
    assert end_of(TextFormat(limit=4006), inputs) is None


def test_a_bad_line_is_no_text_and_is_told_of_by_who_reads(tmp_path, recwarn):
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\n\xff\ntwo\n")
    inputs = find_inputs([str(path)])
    assert end_of(TextFormat(limit=2, skip_bad=True), inputs) == (0, 7)
    assert not recwarn.list
    with pytest.raises(RequestError, match="line 2"):
        end_of(TextFormat(limit=2), inputs)


def test_a_bad_file_has_no_text(corpus, tmp_path):
    path = tmp_path / "bad.txt.gz"
    path.write_bytes(gzip.compress(corpus.read_bytes())[:-10])
    inputs = find_inputs([str(path), str(corpus)])
    with pytest.raises(BadFile):
        end_of(TextFormat(limit=4001), inputs)
    assert end_of(TextFormat(limit=2, skip_bad=True), inputs) == (0, 15)
    assert end_of(TextFormat(limit=4000, skip_bad=True), inputs) == (1, corpus.stat().st_size - len(TEXTS[-1]) + 1)
    assert end_of(TextFormat(limit=4001, skip_bad=True), inputs) is None
    assert end_of(TextFormat(limit=4001, skip_bad=True), [*inputs, inputs[1]]) == (2, 1)


def test_stdin_ends_where_it_is_read_and_stands_alone(corpus, monkeypatch):
    reader, writer = os.pipe()
    os.close(writer)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(os.fdopen(reader, "rb")))
    assert end_of(TextFormat(limit=2), find_inputs(["-"])) is None
    assert end_of(TextFormat(limit=2), find_inputs([str(corpus), "-"])) == (0, 15)
    with pytest.raises(RequestError, match="stdin can be read once: name it alone"):
        end_of(TextFormat(limit=2), find_inputs(["-", str(corpus)]))
