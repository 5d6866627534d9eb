"""A treebank through a model: every sentence once, in an order of chance, and what an interruption leaves."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attncli import Notice, RequestError
from attncli.analysis.probing import guesses
from attncli.analysis.tally import Tally, word_maps
from attncli.corpus.probing import Treebank, count, probe, with_maps
from attncli.text.trees import Sentence, words_of

TREEBANK = Path(__file__).parents[2] / "sample_inputs" / "treebank.conllu"


@pytest.fixture(scope="module")
def whole():
    return Treebank.read(str(TREEBANK))


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


def chain(words: int) -> Sentence:
    """A sentence whose words each hang on the one before."""
    return Sentence(["dog"] * words, [None, *range(words - 1)], ["root", *["dep"] * (words - 1)], 1)


def same(one: Tally, other: Tally) -> bool:
    return guesses(one, one) == guesses(other, other) and np.array_equal(one.tree_edges, other.tree_edges)


def test_a_treebank_is_counted_as_its_sentences_one_by_one(minilm, whole):
    expected = Tally.nothing(6, 12)
    for sentence in whole.sentences:
        record = minilm.attend(sentence.text)
        tokens = words_of(record.tokens, sentence)
        expected = expected.plus(word_maps(replace(record, tokens=tokens)), sentence)
    told = []
    found = probe(minilm, whole, advance=lambda: told.append(1))
    assert len(told) == found.treebank.tally.seen == 40 and not found.partial and found.test is None
    assert same(found.measured, expected)


def test_sentences_come_in_an_order_of_chance_that_is_always_the_same(minilm, whole):
    texts, again = ([sentence.text for _, sentence in with_maps(minilm, whole.sentences, {})] for _ in range(2))
    given = [sentence.text for sentence in whole.sentences]
    assert texts == again != given and sorted(texts) == sorted(given)
    assert texts != sorted(texts, key=len)


def test_heads_chosen_on_one_are_measured_on_the_other(minilm, whole):
    first, second = (Treebank(name, part) for name, part in (("a", whole.sentences[:20]), ("b", whole.sentences[20:])))
    both, alone = probe(minilm, first, second), probe(minilm, first)
    assert (both.treebank.path, both.test.path, both.test.tally.sentences) == ("a", "b", 20)
    assert [(row.relation, row.layer, row.head) for row in both.relations] == [
        (row.relation, row.layer, row.head) for row in alone.relations
    ]
    assert same(both.measured, probe(minilm, second).measured)
    twice = probe(minilm, first, first)
    assert twice.test.tally is twice.treebank.tally


def test_sentences_that_can_not_be_read_whole_are_skipped_and_counted(minilm):
    nothing = Sentence(["\x01"], [None], ["root"], 7)
    says = (
        r"^a\.conllu: skipped 3 of 4 sentences: 2 of more than the 512 tokens that the model reads "
        r"\(the first in line 1\), 1 with a word that the tokenizer has no token for \(line 7\)$"
    )
    with pytest.warns(Notice, match=says):
        found = count(minilm, Treebank("a.conllu", [chain(511), chain(3), nothing, chain(600)]))
    assert (found.sentences, found.skipped, found.word_count) == (1, 3, 3)
    for hopeless in ([chain(511)], [chain(1)]):
        with pytest.raises(RequestError, match=r"a\.conllu: in no sentence that the model can read"):
            probe(minilm, Treebank("a.conllu", hopeless))


def test_an_interruption_leaves_what_was_found_by_then(minilm, whole, interrupted):
    interrupted(12)
    with pytest.warns(Notice, match="^interrupted: these figures are PARTIAL, of 12 of 40 sentences$"):
        found = probe(minilm, whole)
    assert found.partial and found.measured.sentences == 12


@pytest.mark.slow
@pytest.mark.parametrize(("seen", "measured"), [(20, None), (40, None), (52, 12)])
def test_a_test_of_which_nothing_was_counted_is_left_out(minilm, whole, interrupted, seen, measured):
    interrupted(seen)
    with pytest.warns(Notice, match="PARTIAL"):
        found = probe(minilm, whole, Treebank("test", whole.sentences))
    assert found.partial and found.treebank.tally.sentences == min(seen, 40)
    assert (None if found.test is None else found.test.tally.sentences) == measured


def test_an_interruption_before_anything_was_counted_is_one(minilm, whole, interrupted):
    interrupted(0)
    with pytest.raises(KeyboardInterrupt):
        probe(minilm, whole)


def test_a_treebank_has_the_name_that_messages_give_it(monkeypatch):
    assert Treebank.read(str(TREEBANK), limit=2).path == str(TREEBANK)
    with TREEBANK.open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert Treebank.read("-", limit=2) == ("stdin", Treebank.read(str(TREEBANK), limit=2).sentences)


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
def test_what_transformers_runs_is_counted_by_its_records(foreign, family):
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
        found = probe(model, Treebank("a.conllu", SENTENCES), which=which)
        assert same(found.measured, expected) and (found.measured.sentences, found.measured.skipped) == (2, 0)
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
    treebank = Treebank("a.conllu", SENTENCES)
    for family, which, why in (
        ("t5", "cross", "cross-attention leads into another text"),
        ("gpt2", "encoder", "has no encoder attention"),
    ):
        with pytest.raises(RequestError, match=why):
            probe(foreign(family), treebank, which=which)
    with pytest.raises(RequestError, match="--which is for encoder-decoders"):
        probe(minilm, treebank, which="encoder")
