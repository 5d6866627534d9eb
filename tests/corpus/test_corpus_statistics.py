"""Statistics over texts and files: what they are of, interrupted, resumed, refused."""

from dataclasses import replace

import pytest

from attncli import RequestError, load_model
from attncli.corpus.reducer import CountedHeads, corpus_statistics, count_files
from attncli.corpus.running import Workplace
from attncli.corpus.sums import Counting
from attncli.corpus.texts import TextFormat

TEXTS = ["The cat sat on the mat.", "No.", "The dog, the cat and the mouse did not sit.", "It is too big."] * 3


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(TEXTS))
    return str(path)


@pytest.mark.parametrize(
    ("texts", "says"), [([], "no text in the corpus"), (["a cat", " "], "text 1: the text is empty")]
)
def test_a_corpus_with_nothing_in_it_is_refused(minilm, texts, says):
    with pytest.raises(RequestError, match=says):
        corpus_statistics(minilm, texts)


def test_texts_of_a_file_are_texts(minilm, file):
    asked = {"mask": "causal", "measure": "norm", "words": True}
    found, expected = count_files(minilm, [file], counting=Counting(**asked)), corpus_statistics(minilm, TEXTS, **asked)
    assert found.document() == expected.document()


def test_a_stride_and_a_reading_are_those_of_the_windows(tiny, file):
    model = load_model(str(tiny()), device="cpu")
    whole = " ".join(TEXTS)
    found = count_files(model, [file], TextFormat(paragraphs=True), 3)
    assert found.document() == corpus_statistics(model, [whole], stride=3).document()
    assert found.texts == 1


def test_a_run_goes_on_from_the_shards_that_are_there_to_the_same_bits_and_shows_how_far_it_is(minilm, file, tmp_path):
    where = Workplace(state=str(tmp_path / "state"), shard_bytes=100)
    seen, again = [], []
    first = count_files(minilm, [file], where=where, show=seen.append)
    assert [one.seen.texts for one in seen] == sorted(one.seen.texts for one in seen)
    assert (seen[-1].seen.texts, seen[-1].shards) == (12, 3) and seen[-1].before.texts == 0
    next((tmp_path / "state").iterdir()).unlink()
    assert count_files(minilm, [file], where=where, show=again.append).document() == first.document()
    assert count_files(minilm, [file], where=replace(where, state=None)).document() == first.document()
    assert 0 < again[-1].before.texts < 12 == again[-1].seen.texts


def test_a_folder_of_another_request_changes_nothing(minilm, file, tmp_path):
    where = Workplace(state=str(tmp_path / "state"))
    for asked in ({}, {"counting": Counting("causal")}, {"counting": Counting(words=True)}, {"stride": 9}):
        kept, fresh = (count_files(minilm, [file], where=one, **asked) for one in (where, Workplace()))
        assert kept.document() == fresh.document()


def test_another_model_in_its_place_is_told(minilm, tiny):
    work = CountedHeads.of(minilm)
    moved = replace(work, model=None, opening=replace(work.opening, name=str(tiny())))
    with pytest.raises(RequestError, match="is a different model on this machine"):
        moved.begin(1)
