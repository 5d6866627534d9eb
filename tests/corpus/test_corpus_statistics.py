"""Statistics over texts and files: what they are of, interrupted, resumed, refused."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from windows import corpus, sums_of

from attncli import RequestError, load_model
from attncli.corpus.reducer import CountedHeads, Reducer, corpus_statistics, count_files
from attncli.corpus.running import Where
from attncli.corpus.statistics import document
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
    assert (found.texts, found.tokens, found.distances) == (len(TEXTS), sums.queries, None)
    assert (found.mask, found.measure, found.words, found.partial) == ("causal", "share of norm", True, False)


@pytest.mark.parametrize(
    ("texts", "says"), [([], "no text in the corpus"), (["a cat", " "], "text 1: the text is empty")]
)
def test_a_corpus_with_nothing_in_it_is_refused(minilm, texts, says):
    with pytest.raises(RequestError, match=says):
        corpus_statistics(minilm, texts)


@pytest.mark.parametrize("asked", [{}, {"mask": "causal", "words": True}, {"measure": "norm", "distances": True}])
def test_texts_of_a_file_are_texts(minilm, file, asked):
    found, expected = count_files(minilm, [file], counting=Counting(**asked)), corpus_statistics(minilm, TEXTS, **asked)
    assert document(found) == document(expected)


def test_a_stride_and_a_reading_are_those_of_the_windows(tiny, file):
    model = load_model(str(tiny()), device="cpu")
    whole = " ".join(TEXTS)
    found = count_files(model, [file], TextFormat(paragraphs=True), 3)
    assert document(found) == document(corpus_statistics(model, [whole], stride=3))
    assert found.texts == 1


def test_who_watches_sees_texts_and_shards_grow_from_those_that_were_there(minilm, file, tmp_path):
    where = Where(state=str(tmp_path / "state"), shard_bytes=100)
    seen, again = [], []
    count_files(minilm, [file], where=where, show=seen.append)
    assert [one.seen.texts for one in seen] == sorted(one.seen.texts for one in seen)
    assert (seen[-1].seen.texts, seen[-1].shards, seen[-1].of) == (12, 3, 3) and seen[-1].before.texts == 0
    next(iter(one for one in (tmp_path / "state").iterdir() if one.suffix != ".json")).unlink()
    count_files(minilm, [file], where=where, show=again.append)
    assert 0 < again[-1].before.texts < 12 == again[-1].seen.texts


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"counting": Counting("causal")}, "--mask"),
        ({"counting": Counting(words=True)}, "--words"),
        ({"stride": 3}, "--stride"),
        ({"reading": TextFormat(paragraphs=True)}, "--paragraphs"),
        ({"reading": TextFormat(limit=2)}, "--limit"),
    ],
)
def test_a_folder_of_another_request_is_nothing_to_go_on_from(minilm, file, tmp_path, asked, named):
    where = Where(state=str(tmp_path / "state"))
    count_files(minilm, [file], TextFormat(limit=1), where=where)
    with pytest.raises(RequestError, match=f"another {named}"):
        count_files(minilm, [file], **{"reading": TextFormat(limit=1), **asked}, where=where)


# --- the sums of a shard in a file -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def counted(minilm):
    """The work, and sums of a few texts."""
    reducer = Reducer(minilm, Counting(distances=True))
    return CountedHeads.of(reducer, TextFormat(), None), sums_of(reducer, corpus(minilm, TEXTS[:4]))


def test_sums_come_back_to_the_last_bit(counted):
    work, sums = counted
    back = work.unsealed(work.sealed(sums))
    assert (back.texts, back.queries) == (sums.texts, sums.queries)
    assert all(np.array_equal(getattr(back, name), getattr(sums, name)) for name in vars(sums))
    assert work.sealed(back) == work.sealed(sums)


@pytest.mark.parametrize(
    ("lie", "says"),
    [
        (lambda about, arrays: about.update(texts=-1), "texts is -1"),
        (lambda about, arrays: about.update(texts=10**6), "texts of"),
        (lambda about, arrays: about.pop("queries"), "no queries"),
        (lambda about, arrays: about.update(more=1), "does not know"),
        (lambda about, arrays: arrays.pop("means"), "another model's"),
        (lambda about, arrays: arrays.update(totals=arrays["totals"][:2]), "another model's"),
        (lambda about, arrays: arrays.update(totals=arrays["totals"].astype(np.float32)), "no doubles"),
        (lambda about, arrays: arrays.update(totals=-arrays["totals"]), "entropy is -"),
        (lambda about, arrays: arrays.update(squares=arrays["squares"] * np.nan), "squares of"),
        (lambda about, arrays: arrays.update(limit=arrays["limit"] * 100), "entropy_limit is"),
    ],
)
def test_sums_that_no_texts_have_are_refused(counted, lie, says):
    work, sums = counted
    about, arrays = work.saved(sums)
    about, arrays = dict(about), dict(arrays)
    lie(about, arrays)
    with pytest.raises(ValueError, match=says):
        work.loaded(about, arrays)


def test_work_that_is_sent_away_is_small_and_asks_for_the_same(counted):
    work, _ = counted
    sent = pickle.loads(pickle.dumps(work.without_model()))
    assert len(pickle.dumps(work.without_model())) < 5000
    assert sent.digest == work.digest and sent.nothing().totals.shape == work.nothing().totals.shape


def test_another_model_in_its_place_is_told(counted, tiny):
    work, _ = counted
    moved = replace(work.without_model(), opening=replace(work.opening, name=str(tiny())))
    with pytest.raises(RequestError, match="is a different model on this machine"):
        moved.begin(1)
