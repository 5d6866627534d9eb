"""Statistics over texts and files: what they are of, interrupted, resumed, refused."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from windows import corpus, sums_of

from attncli import RequestError, load_model
from attncli.corpus.reducer import CountedHeads, Reducer, corpus_statistics, count_files
from attncli.corpus.running import Workplace
from attncli.corpus.shards import Folder
from attncli.corpus.sums import Counting
from attncli.corpus.texts import TextFormat

TEXTS = ["The cat sat on the mat.", "No.", "The dog, the cat and the mouse did not sit.", "It is too big."] * 3


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(TEXTS))
    return str(path)


def test_the_function_gives_the_figures_and_says_what_they_are_of(minilm):
    found = corpus_statistics(minilm, iter(TEXTS), mask="causal", measure="norm", words=True)
    sums = sums_of(Reducer(minilm, Counting("causal", measure="norm", words=True)), corpus(minilm, TEXTS))
    assert np.array_equal(found.figures, sums.figures) and np.array_equal(found.spread, sums.spread)
    assert (found.texts, found.tokens) == (len(TEXTS), sums.queries)
    assert (found.mask, found.measure, found.words, found.partial) == ("causal", "share of norm", True, False)


@pytest.mark.parametrize(
    ("texts", "says"), [([], "no text in the corpus"), (["a cat", " "], "text 1: the text is empty")]
)
def test_a_corpus_with_nothing_in_it_is_refused(minilm, texts, says):
    with pytest.raises(RequestError, match=says):
        corpus_statistics(minilm, texts)


@pytest.mark.parametrize("asked", [{}, {"mask": "causal", "words": True}, {"measure": "norm"}])
def test_texts_of_a_file_are_texts(minilm, file, asked):
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


@pytest.mark.parametrize(
    "asked", [{"counting": Counting("causal")}, {"counting": Counting(words=True)}, {"reading": TextFormat(limit=2)}]
)
def test_a_folder_of_another_request_changes_nothing(minilm, file, tmp_path, asked):
    where = Workplace(state=str(tmp_path / "state"))
    count_files(minilm, [file], TextFormat(limit=1), where=where)
    found = count_files(minilm, [file], **{"reading": TextFormat(limit=1), **asked}, where=where)
    assert found.document() == count_files(minilm, [file], **{"reading": TextFormat(limit=1), **asked}).document()


# --- the sums of a shard in a file -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def counted(minilm):
    """The work, and sums of a few texts."""
    counting = Counting()
    return CountedHeads.of(minilm, counting), sums_of(Reducer(minilm, counting), corpus(minilm, TEXTS[:4]))


def test_sums_come_back_to_the_last_bit(counted, tmp_path):
    (work, sums), folder = counted, Folder(str(tmp_path))
    folder.write("a.npz", work, sums)
    back = folder.read("a.npz", work)
    assert (back.texts, back.queries) == (sums.texts, sums.queries)
    assert all(np.array_equal(getattr(back, name), getattr(sums, name)) for name in vars(sums))


def test_work_that_is_sent_away_is_small_and_asks_for_the_same(counted):
    work, _ = counted
    content = pickle.dumps(replace(work, model=None))
    sent = pickle.loads(content)
    assert len(content) < 5000
    assert sent.digest == work.digest and sent.nothing().totals.shape == work.nothing().totals.shape


def test_another_model_in_its_place_is_told(counted, tiny):
    work, _ = counted
    moved = replace(work, model=None, opening=replace(work.opening, name=str(tiny())))
    with pytest.raises(RequestError, match="is a different model on this machine"):
        moved.begin(1)
