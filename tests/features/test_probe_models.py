"""Treebanks through a model: every sentence once, wherever it stands and whoever counts, and what an interruption
leaves.
"""

from dataclasses import replace
from pathlib import Path

import corpora
import pytest
from treebanks import chain, conllu, plain

from attncli import Notice, RequestError
from attncli.corpus.running import Where
from attncli.corpus.treebank import Sentence, TreebankReading, words_of
from attncli.features.probe.counting import probe_treebank
from attncli.features.probe.tally import Tally, word_maps

TREEBANK = str(Path(__file__).parents[2] / "sample_inputs" / "treebank.conllu")


@pytest.fixture(scope="module")
def sentences():
    return corpora.sentences(TREEBANK)


@pytest.fixture
def treebank(tmp_path):
    """`treebank("a.conllu", sentences)` -> where they are."""

    def write(name, sentences):
        path = tmp_path / name
        path.write_text(conllu(sentences), encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def interrupted(monkeypatch):
    """`interrupted(12)`: a KeyboardInterrupt after so many sentences."""
    plus = Tally.plus

    def after(sentences: int) -> None:
        seen = []

        def counted(self, maps, sentence):
            if len(seen) == sentences:
                raise KeyboardInterrupt
            seen.append(sentence)
            return plus(self, maps, sentence)

        monkeypatch.setattr(Tally, "plus", counted)

    return after


@pytest.mark.slow
def test_a_treebank_is_counted_as_its_sentences_one_by_one(minilm, sentences):
    expected = Tally.nothing(6, 12)
    for sentence in sentences:
        record = minilm.attend(sentence.text)
        tokens = words_of(record.tokens, sentence)
        expected = expected.plus(word_maps(replace(record, tokens=tokens)), sentence)
    told = []
    found = probe_treebank(minilm, [TREEBANK], show=told.append)
    assert told[-1].seen == (40, 380) and (told[-1].shards, told[-1].of) == (1, 1)
    assert not found.partial and found.test is None
    assert plain(found.measured) == plain(expected)


@pytest.mark.slow
def test_heads_chosen_on_one_are_measured_on_the_other(minilm, sentences, treebank):
    first, second = treebank("a.conllu", sentences[:20]), treebank("b.conllu", sentences[20:])
    both, alone = probe_treebank(minilm, [first], [second]), probe_treebank(minilm, [first])
    assert (both.treebank.path, both.test.path, both.test.tally.sentences) == (first, second, 20)
    assert [(row.relation, row.layer, row.head) for row in both.relations] == [
        (row.relation, row.layer, row.head) for row in alone.relations
    ]
    assert plain(both.measured) == plain(probe_treebank(minilm, [second]).measured)
    twice = probe_treebank(minilm, [first], [first])
    assert twice.test.tally is twice.treebank.tally


@pytest.mark.slow
def test_several_files_are_one_treebank_and_sums_of_each_are_kept_apart(minilm, sentences, treebank, tmp_path):
    files = [treebank(f"{number}.conllu", sentences[number::4]) for number in range(4)]
    whole, state = probe_treebank(minilm, [TREEBANK]), tmp_path / "state"
    for _ in range(2):
        found = probe_treebank(minilm, files[:2], files[2:], where=Where(state=str(state), shard_bytes=1000))
        assert (found.treebank.path, found.test.path) == (f"{files[0]} and 1 more", f"{files[2]} and 1 more")
        assert plain(found.treebank.tally + found.test.tally) == plain(whole.measured)
    kept = [{path.name for path in folder.iterdir()} for folder in (state, state / "test")]
    assert all(len(names) > 4 for names in kept) and not kept[0] & kept[1] - {"plan.json", "lock"}
    assert plain(probe_treebank(minilm, files).measured) == plain(whole.measured)


@pytest.mark.parametrize("shard_bytes", [700, 5000])
def test_where_a_treebank_is_cut_changes_nothing(minilm, treebank, sentences, shard_bytes):
    odd = Sentence(["\x01"], [None], ["root"], 1)
    files = [treebank("a.conllu", [*sentences[:9], odd, chain(511), odd]), treebank("b.conllu", [chain(600), odd])]
    with pytest.warns(Notice) as whole:
        expected = probe_treebank(minilm, files)
    with pytest.warns(Notice) as told:
        found = probe_treebank(minilm, files, where=Where(shard_bytes=shard_bytes))
    assert plain(found.measured) == plain(expected.measured) and found.measured.skipped == 5
    assert [str(one.message) for one in told] == [str(one.message) for one in whole]


@pytest.mark.slow
def test_who_counts_changes_nothing(minilm):
    whole = probe_treebank(minilm, [TREEBANK]).document()
    for workers in (1, 2, 3):
        assert probe_treebank(minilm, [TREEBANK], where=Where(workers=workers, shard_bytes=3000)).document() == whole


def test_sentences_that_can_not_be_read_whole_are_skipped_and_counted(minilm, treebank):
    nothing = Sentence(["\x01"], [None], ["root"], 7)
    path = treebank("a.conllu", [chain(511), chain(3), nothing, chain(600)])
    says = (
        r"/a\.conllu: skipped 3 of 4 sentences: 2 of more than the 512 tokens that the model reads "
        r"\(the first in line 1\), 1 with a word that the tokenizer has no token for \(line 517\)$"
    )
    with pytest.warns(Notice, match=says):
        found = probe_treebank(minilm, [path]).measured
    assert (found.sentences, found.skipped, found.word_count) == (1, 3, 3)
    other = treebank("b.conllu", [chain(4)])
    with pytest.warns(
        Notice, match=r"b\.conllu and 1 more: skipped 3 .*the first in .*/a\.conllu, line 1\), 1 .*a\.con"
    ):
        probe_treebank(minilm, [other, path])
    for hopeless in ([chain(511)], [chain(1)]):
        with pytest.raises(RequestError, match=r"a\.conllu: in no sentence that the model can read"):
            probe_treebank(minilm, [treebank("a.conllu", hopeless)])


def test_a_share_of_the_sentences(minilm, treebank, sentences):
    files = [TREEBANK, treebank("a.conllu", sentences)]
    found = [
        probe_treebank(minilm, files, reading=TreebankReading(sample=0.3, seed=seed)).measured for seed in (0, 0, 1)
    ]
    assert plain(found[0]) == plain(found[1]) != plain(found[2]) and 5 < found[0].seen < 45
    with pytest.raises(RequestError, match=r"--sample 0\.0001 takes no sentence of .*conllu and 1 more"):
        probe_treebank(minilm, files, reading=TreebankReading(sample=0.0001))


def test_an_interruption_leaves_what_was_found_by_then(minilm, interrupted):
    interrupted(12)
    with pytest.warns(Notice, match="^interrupted: these figures are PARTIAL, of 12 sentences$"):
        found = probe_treebank(minilm, [TREEBANK])
    assert found.partial and found.measured.sentences == 12


@pytest.mark.slow
@pytest.mark.parametrize(("seen", "measured"), [(20, None), (40, None), (52, 12)])
def test_a_test_of_which_nothing_was_counted_is_left_out(minilm, sentences, treebank, interrupted, seen, measured):
    interrupted(seen)
    with pytest.warns(Notice, match="PARTIAL"):
        found = probe_treebank(minilm, [TREEBANK], [treebank("a.conllu", sentences)])
    assert found.partial and found.treebank.tally.sentences == min(seen, 40)
    assert (None if found.test is None else found.test.tally.sentences) == measured


def test_an_interruption_before_anything_was_counted_is_one(minilm, interrupted):
    interrupted(0)
    with pytest.raises(KeyboardInterrupt):
        probe_treebank(minilm, [TREEBANK])


def test_an_interrupted_treebank_is_gone_on_with(minilm, interrupted, monkeypatch, tmp_path):
    where, whole = Where(state=str(tmp_path / "state"), shard_bytes=4000), probe_treebank(minilm, [TREEBANK])
    interrupted(25)
    with pytest.warns(Notice, match="PARTIAL, of 25 sentences; the same command goes on from here"):
        probe_treebank(minilm, [TREEBANK], where=where)
    monkeypatch.undo()
    told = []
    assert plain(probe_treebank(minilm, [TREEBANK], where=where, show=told.append).measured) == plain(whole.measured)
    assert 0 < told[0].before.texts < 25


SENTENCES = [
    Sentence(
        ["the", "cat", "sat", "on", "the", "mat"],
        [1, 2, None, 5, 5, 2],
        ["det", "nsubj", "root", "case", "det", "obl"],
        1,
    ),
    Sentence(["a", "mat", "in", "the", "cat"], [1, None, 4, 4, 1], ["det", "root", "case", "det", "nmod"], 9),
]


@pytest.mark.parametrize("family", ["gpt2", "llama", "t5", "bart", "marian", "encoder-decoder"])
def test_what_transformers_runs_is_counted_by_its_records(foreign, treebank, family):
    """Words with spaces between them are the words of the treebank, whatever pieces they are cut into."""
    model = foreign(family)
    for which in [None] if len(model.parts) == 1 else ["encoder", "decoder"]:
        info = model.info_of(which)
        expected = Tally.nothing(info.layers, info.heads)
        for sentence in SENTENCES:
            more = {"target": sentence.text} if which == "decoder" else {}
            record = model.attend(sentence.text, which=which, **more)
            tokens = replace(record.tokens, words=spaced_words(record.tokens))
            assert set(tokens.words) - {None} == set(range(len(sentence)))
            expected = expected.plus(word_maps(replace(record, tokens=tokens)), sentence)
        found = probe_treebank(model, [treebank("a.conllu", SENTENCES)], which=which)
        assert plain(found.measured) == plain(expected) and (found.measured.sentences, found.measured.skipped) == (2, 0)
        assert (found.model, found.kind) == (info, which or model.parts[0])
        assert found.document().get("kind", "encoder") == found.kind


def spaced_words(tokens) -> list[int | None]:
    """Which word a token is of: one begins at the first token, and where the vocabulary marks a space, or no "##"."""
    words, last = [], -1
    marked = any(text[0] in "▁Ġ" for text in tokens.text)
    for text, special in zip(tokens.text, tokens.special, strict=True):
        last += not special and (last == -1 or (text[0] in "▁Ġ" if marked else not text.startswith("##")))
        words.append(None if special else last)
    return words


def test_a_part_that_can_not_be_probed(foreign, minilm):
    for family, which, why in (
        ("t5", "cross", "cross-attention is between two texts"),
        ("gpt2", "encoder", "has no encoder attention"),
    ):
        with pytest.raises(RequestError, match=why):
            probe_treebank(foreign(family), [TREEBANK], which=which)
    with pytest.raises(RequestError, match="--which is for encoder-decoders"):
        probe_treebank(minilm, [TREEBANK], which="encoder")
