"""Treebanks through a model: every sentence once, wherever it stands and whoever counts, and what an interruption
leaves.
"""

from dataclasses import replace
from pathlib import Path

import corpora
import pytest
from treebanks import chain, conllu, plain, spaced

from attncli import Notice, RequestError
from attncli.corpus.running import Workplace
from attncli.corpus.treebank import TreebankFormat
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


@pytest.mark.parametrize("shard_bytes", [700, 5000])
def test_where_a_treebank_is_cut_changes_nothing(minilm, treebank, sentences, shard_bytes):
    odd = spaced(["\x01"], [None], ["root"])
    files = [treebank("a.conllu", [*sentences[:9], odd, chain(511), odd]), treebank("b.conllu", [chain(600), odd])]
    with pytest.warns(Notice) as whole:
        expected = probe_treebank(minilm, files)
    with pytest.warns(Notice) as told:
        found = probe_treebank(minilm, files, where=Workplace(shard_bytes=shard_bytes))
    assert plain(found.measured) == plain(expected.measured) and found.measured.skipped == 5
    assert [str(one.message) for one in told] == [str(one.message) for one in whole]


def test_a_share_of_the_sentences(minilm, treebank, sentences):
    files = [TREEBANK, treebank("a.conllu", sentences)]
    one, again = (probe_treebank(minilm, files, reading=TreebankFormat(sample=0.3)).measured for _ in range(2))
    assert plain(one) == plain(again) and 5 < one.sentence_total < 45
    with pytest.raises(RequestError, match=r"--sample 0\.0001 takes no sentence of .*conllu and 1 more"):
        probe_treebank(minilm, files, reading=TreebankFormat(sample=0.0001))


SENTENCES = [
    spaced(
        ["the", "cat", "sat", "on", "the", "mat"],
        [1, 2, None, 5, 5, 2],
        ["det", "nsubj", "root", "case", "det", "obl"],
        1,
    ),
    spaced(["a", "mat", "in", "the", "cat"], [1, None, 4, 4, 1], ["det", "root", "case", "det", "nmod"], 9),
]


@pytest.mark.parametrize("family", ["gpt2", "llama", "t5", "bart", "marian", "encoder-decoder"])
def test_what_transformers_runs_is_counted_by_its_records(foreign, treebank, family):
    """Words with spaces between them are the words of the treebank, whatever pieces they are cut into."""
    model = foreign(family)
    which = None if len(model.parts) == 1 else "encoder"
    info = model.of_part(which).info
    expected = Tally.nothing(info.layers, info.heads)
    for sentence in SENTENCES:
        record = model.attend(sentence.text, which=which)
        tokens = replace(record.tokens, words=spaced_words(record.tokens))
        assert set(tokens.words) - {None} == set(range(len(sentence)))
        expected = expected.plus(word_maps(replace(record, tokens=tokens)), sentence)
    found = probe_treebank(model, [treebank("a.conllu", SENTENCES)])
    assert plain(found.measured) == plain(expected) and (found.measured.sentences, found.measured.skipped) == (2, 0)
    assert (found.model, found.kind) == (info, which or model.parts[0])
    assert found.document().get("kind", "encoder") == found.kind


def spaced_words(tokens) -> list[int | None]:
    """Return each token's word. One begins at the first token, and where the vocabulary marks a space or lacks "##"."""
    words, last = [], -1
    marked = any(text[0] in "▁Ġ" for text in tokens.text)
    for text, special in zip(tokens.text, tokens.special, strict=True):
        last += not special and (last == -1 or (text[0] in "▁Ġ" if marked else not text.startswith("##")))
        words.append(None if special else last)
    return words
