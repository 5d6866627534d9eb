"""The tokens of models from elsewhere: their words, their segments, and how many there are."""

import pytest
from foreign_checkpoints import POSITIONS, TEXT, attend

from attncli.base.errors import Notice, RequestError
from attncli.models.transformers_network import word_numbers


def test_words_come_from_the_tokenizer_or_from_the_marks_in_its_pieces(foreign):
    for family in ("gpt2", "llama", "t5", "marian"):  # Llama's finds no words, Marian's doesn't say
        tokens = attend(foreign(family), which=foreign(family).parts[0]).tokens
        words = [
            "".join(token for token, word in zip(tokens.text, tokens.words, strict=True) if word == number)
            for number in range(6)
        ]
        assert [word.strip("▁Ġ") for word in words] == TEXT.split(), family
        assert [word is None for word in tokens.words] == tokens.special
    assert attend(foreign("gpt2"), "catthe").tokens.words == [0] * 3  # no mark at all


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (["▁a", "b", "▁c", "d"], [0, 0, 1, 1]),
        (["a", "Ġb", "c"], [0, 1, 1]),
        (["a", "##b", "c", "##d"], [0, 0, 1, 1]),
        (["a", "b"], [0, 1]),
    ],
)
def test_where_a_word_begins(tokens, words):
    assert word_numbers(tokens, [0] * len(tokens)) == words
    assert word_numbers([*tokens, "</s>"], [*[0] * len(tokens), None]) == [*words, None]
    assert word_numbers([*tokens, *tokens], [*[0] * len(tokens), *[1] * len(tokens)]) == [*words, *words]


def test_the_start_token_is_special_and_no_padding(foreign):
    """T5 starts with <pad>, and sees it."""
    record = attend(foreign("t5"), target="a mat")
    assert record.tokens.text == ["<pad>", "▁a", "▁mat"]
    assert record.tokens.special == [True, False, False]
    assert record.tokens.words == [None, 0, 1]
    assert not any(record.tokens.padding)


def test_what_a_reader_sees_of_every_kind(foreign):
    gpt2 = attend(foreign("gpt2"), "é the cat 🙂").tokens
    assert gpt2.shown == ["é", " the", " cat", " ", *(f"🙂[{part}/4]" for part in range(1, 5))]
    llama = attend(foreign("llama"), "cat é").tokens
    assert "".join(llama.shown[1:]).lstrip() == "cat <0xC3><0xA9>"
    t5 = attend(foreign("t5"), "the 猫 cat", target="on 猫").tokens, attend(foreign("t5"), "the 猫 cat").keys
    assert [tokens.shown for tokens in t5] == [
        ["<pad>", " on", " ", "<unk:猫>"],
        [" the", " ", "<unk:猫>", " cat", "</s>"],
    ]
    bart = attend(foreign("bart"), "é the", target="é 🙂")
    assert bart.keys.shown[1:3] == ["é", " the"]
    assert bart.tokens.shown == ["</s>", "<s>", "é", " ", *(f"🙂[{part}/4]" for part in range(1, 5))]
    marian = attend(foreign("marian"), "the cat", which="encoder").tokens
    assert marian.shown == [piece.replace("▁", " ") for piece in marian.text] != marian.text


def test_a_pair_is_two_segments(foreign):
    record = attend(foreign("t5"), "the cat", "a mat", which="encoder")
    assert record.tokens.text == ["▁the", "▁cat", "</s>", "▁a", "▁mat", "</s>"]
    assert record.tokens.segments == [0, 0, 0, 1, 1, 1]
    with pytest.raises(RequestError, match="omit --pair"):
        attend(foreign("marian"), "the cat", "a mat")


def test_a_long_text_is_cut_with_a_notice(foreign):
    for family, part in (("gpt2", "decoder"), ("marian", "encoder")):
        with pytest.warns(Notice, match=rf"kept the first {POSITIONS} of \d+ tokens"):
            record = attend(foreign(family), "the cat " * 50, which=part)
        assert len(record.tokens) == POSITIONS
    with pytest.warns(Notice, match=rf"kept the first {POSITIONS} of \d+ tokens"):
        assert len(attend(foreign("bart"), target="the cat " * 50).tokens) == POSITIONS
    assert len(attend(foreign("t5"), "the cat " * 50, which="encoder").tokens) == 101


def test_a_token_that_the_tokenizer_has_no_name_for(foreign):
    record = attend(foreign("t5", more_numbers=200))
    names = len(foreign("t5").theirs)
    nameless = [place for place, number in enumerate(record.tokens.ids) if number >= names]
    assert nameless
    assert all(record.tokens.text[place] == f"<{record.tokens.ids[place]}>" for place in nameless)


def test_a_character_outside_the_vocabulary_is_a_word_and_no_written_out_special_token(foreign, recwarn):
    tokens = foreign("t5").attend("the cat 猫 sat", which="encoder").tokens
    assert any("猫" in shown for shown in tokens.shown)
    assert [one for one, special in zip(tokens.shown, tokens.special, strict=True) if special] == ["</s>"]
    assert not [one for one in recwarn if "special token" in str(one.message)]
