"""Statistics over texts and files: what they are of, interrupted, resumed, refused."""

import numpy as np
import pytest
from windows import corpus, sums_of

from attncli import Notice, RequestError, load_model
from attncli.analysis.statistics import Counting
from attncli.analysis.statistics_files import document
from attncli.corpus.reading import Reading
from attncli.corpus.reducer import Reducer
from attncli.corpus.statistics import corpus_statistics, count_files

TEXTS = ["The cat sat on the mat.", "No.", "The dog, the cat and the mouse did not sit.", "It is too big."] * 3


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(TEXTS))
    return str(path)


@pytest.fixture
def interrupted(monkeypatch):
    """`interrupted(2)`: a KeyboardInterrupt after two batches, which are small."""
    whole = Reducer.count

    def after(batches: int) -> None:
        def count(self, texts, so_far):
            self.batch_tokens = 20
            for number, one in enumerate(whole(self, texts, so_far)):
                if number == batches:
                    raise KeyboardInterrupt
                yield one

        monkeypatch.setattr(Reducer, "count", count)

    return after


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
    found = count_files(model, [file], Reading(paragraphs=True), 3)
    assert document(found) == document(corpus_statistics(model, [whole], stride=3))
    assert found.texts == 1


def test_who_watches_sees_sums_grow_from_those_that_were_there(minilm, file, tmp_path):
    seen = []
    state = tmp_path / "state"
    count_files(minilm, [file], Reading(limit=5), resume=state, show=lambda sums: seen.append(sums.texts))
    assert seen[0] == 0 and seen == sorted(seen) and seen[-1] == 5
    again = []
    count_files(minilm, [file], resume=state, show=lambda sums: again.append(sums.texts))
    assert again[0] == 5 and again[-1] == 12


def test_an_interruption_leaves_what_there_is_and_says_so(minilm, file, interrupted):
    interrupted(2)
    with pytest.warns(Notice, match=r"interrupted: these figures are PARTIAL, of \d+ texts$"):
        found = count_files(minilm, [file])
    assert found.partial and 0 < found.texts < 12


def test_an_interruption_before_anything_was_counted_is_one(minilm, file, interrupted):
    interrupted(0)
    with pytest.raises(KeyboardInterrupt):
        count_files(minilm, [file])


def test_going_on_is_as_if_there_had_been_no_interruption(minilm, file, interrupted, tmp_path):
    expected = count_files(minilm, [file])
    state = tmp_path / "state"
    interrupted(3)
    with pytest.warns(Notice, match="PARTIAL, .*; the same command goes on from here"):
        partial = count_files(minilm, [file], resume=state)
    interrupted(1000)
    found = count_files(minilm, [file], resume=state)
    assert (partial.partial, found.partial) == (True, False)
    assert (found.texts, found.tokens) == (expected.texts, expected.tokens)
    assert np.allclose(found.figures, expected.figures, atol=1e-6)


@pytest.mark.parametrize("ending", [SystemExit(143), GeneratorExit(), RequestError("a line that is none")])
def test_whatever_ends_it_the_file_is_up_to_date(minilm, file, tmp_path, ending):
    state = tmp_path / "state"

    def show(sums):
        if sums.texts:
            raise ending

    with pytest.raises(type(ending)):
        count_files(minilm, [file], resume=state, show=show)
    seen = []
    count_files(minilm, [file], resume=state, show=lambda sums: seen.append(sums.texts))
    assert seen[0] > 0 and seen[-1] == len(TEXTS)


# --- another corpus ---------------------------------------------------------------------------------------


@pytest.fixture
def begun(tiny, file, tmp_path):
    """`begun(files, reading)` goes on with the first six texts of `file`, and says how many texts there are then."""
    model, state = load_model(str(tiny()), device="cpu"), tmp_path / "state"
    count_files(model, [file], Reading(limit=6), resume=state)
    return lambda files, reading=Reading(): count_files(model, [str(one) for one in files], reading, resume=state).texts


def test_a_corpus_may_grow_and_its_files_may_be_renamed_and_divided(begun, file, tmp_path):
    assert begun([file], Reading(limit=6)) == 6
    assert begun([file], Reading(limit=7)) == 7
    (tmp_path / "one.txt").write_text("\n\n".join(TEXTS[:4]) + "\n \n")
    (tmp_path / "two.txt").write_text("\r\n".join([*TEXTS[4:], "One more."]))
    assert begun([tmp_path / "one.txt", tmp_path / "two.txt"]) == len(TEXTS) + 1


def test_another_corpus_is_refused_and_its_state_stays(begun, file, tmp_path):
    state = (tmp_path / "state").read_bytes()
    (tmp_path / "other.txt").write_text("\n".join([*TEXTS[:5], "Something else.", *TEXTS[6:]]))
    with pytest.raises(RequestError, match=r"another corpus: some of the first 6 texts .*; put them back, or"):
        begun([tmp_path / "other.txt"])
    (tmp_path / "short.txt").write_text("\n".join(TEXTS[:3]))
    with pytest.raises(RequestError, match="it has read 6 texts, and here are 3;"):
        begun([tmp_path / "short.txt"])
    with pytest.raises(RequestError, match="some of the first 6 texts"):
        begun([tmp_path / "short.txt", file])
    with pytest.raises(RequestError, match=r"begun on 6 texts, .*: ask for --limit 6 or more, or name"):
        begun([file], Reading(limit=5))
    assert (tmp_path / "state").read_bytes() == state


def test_lines_that_are_passed_over_are_known_too(tiny, tmp_path):
    model, path = load_model(str(tiny()), device="cpu"), tmp_path / "bad.txt"
    path.write_bytes(b"the cat\n\x00\nthe mat\n\x00\n")
    reading = Reading(skip_bad=True)
    with pytest.warns(Notice, match="skipped"):
        assert count_files(model, [str(path)], reading, resume=tmp_path / "state").texts == 2
    path.write_bytes(path.read_bytes() + b"the dog\n")
    assert count_files(model, [str(path)], reading, resume=tmp_path / "state").texts == 3
    path.write_bytes(path.read_bytes().replace(b"\x00", b"now a text"))
    with pytest.raises(RequestError, match="another corpus"):
        count_files(model, [str(path)], reading, resume=tmp_path / "state")


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"counting": Counting("causal")}, "--mask"),
        ({"counting": Counting(words=True)}, "--words"),
        ({"stride": 3}, "--stride"),
        ({"reading": Reading(paragraphs=True)}, "--paragraphs"),
    ],
)
def test_a_file_of_another_request_is_nothing_to_go_on_from(minilm, file, tmp_path, asked, named):
    count_files(minilm, [file], Reading(limit=1), resume=tmp_path / "state")
    with pytest.raises(RequestError, match=f"another {named}"):
        count_files(minilm, [file], **asked, resume=tmp_path / "state")


def test_files_without_a_text_are_refused_by_name(minilm, tmp_path):
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(RequestError, match=r"no text in .*empty\.txt: put one text on a line"):
        count_files(minilm, [str(tmp_path / "empty.txt")])
