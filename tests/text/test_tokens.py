"""Text -> tokens, against the tokenizers that transformers makes of the same files."""

import warnings
from dataclasses import asdict
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tokenizing import KINDS, texts

from attncli import Notice


@pytest.mark.parametrize("kind", KINDS)
@given(text=texts, pair=st.none() | texts)
@settings(max_examples=30)
def test_what_was_written_is_the_text_up_to_the_end_of_its_last_token(kind, text, pair, both):
    tokenizer, _ = both[kind]
    parts = tokenizer.backend.encode(text, pair)
    assume(not all(parts.special_tokens_mask))
    tokens = tokenizer.encode(text, pair)
    for number, one in enumerate([text] if pair is None else [text, pair]):
        places = [place for place, part in enumerate(parts.sequence_ids) if part == number]
        written = "".join(tokens.written[place] for place in places)
        assert written == (one[: tokens.offsets[places[-1]][1]] if places else "")
    assert not any(written for written, part in zip(tokens.written, parts.sequence_ids, strict=True) if part is None)


@pytest.mark.parametrize("kind", KINDS)
@given(text=texts, pair=st.none() | texts)
@settings(max_examples=60)
def test_tokens_are_those_of_transformers(kind, text, pair, both):
    tokenizer, theirs = both[kind]
    every = {f"return_{what}": True for what in ("offsets_mapping", "special_tokens_mask", "token_type_ids")}
    expected = theirs(text, pair, truncation=False, **every)
    marks = {number for number, token in theirs.added_tokens_decoder.items() if token.special}
    marks -= {theirs.convert_tokens_to_ids(name) for name in ("[MASK]", "[UNK]", "<mask>", "<unk>")}
    special = [
        bool(flag) or number in marks
        for flag, number in zip(expected["special_tokens_mask"], expected["input_ids"], strict=True)
    ]
    assume(not all(special))
    tokens = tokenizer.encode(text, pair)
    assert tokens.text == expected.tokens()
    assert tokens.ids == expected["input_ids"]
    same = [word for word, shown in zip(expected.word_ids(), tokens.shown, strict=True) if not shown.isspace()]
    ours = [word for word, shown in zip(tokens.words, tokens.shown, strict=True) if not shown.isspace()]
    assert [one is None for one in ours] == [one is None for one in same]
    assert [one == other for one, other in pairwise(ours)] == [one == other for one, other in pairwise(same)]
    assert tokens.offsets == [tuple(pair) for pair in expected["offset_mapping"]]
    assert tokens.special == special
    assert tokens.padding == [False] * len(tokens)
    parts = expected.sequence_ids()
    assert all(part in (None, segment) for segment, part in zip(tokens.segments, parts, strict=True))
    if kind != "vocab.json":
        assert tokens.segments == expected["token_type_ids"]
    assert len({len(part) for part in asdict(tokens).values()}) == 1


@pytest.mark.parametrize(
    ("text", "special", "said"),
    [
        ("a [MASK] b [PAD]", {4}, "'[PAD]' in the text is a special token of this model, not a word"),
        ("a [SEP] b [CLS]", {2, 4}, "'[SEP]', '[CLS]' in the text are special tokens of this model, not words"),
        ("a [MASK] b [UNK] \u1234", set(), None),
        ("[SEP]", set(), None),
    ],
)
def test_a_special_token_that_the_user_typed_is_no_word(both, text, special, said):
    """[MASK] and [UNK] stand for a word. A text of nothing but special tokens keeps them as words."""
    for tokenizer in (both["minilm"][0], both["vocab.txt"][0]):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tokens = tokenizer.encode(text)
        assert {place for place in range(1, len(tokens) - 1) if tokens.special[place]} == special
        assert not any(tokens.padding) and None not in tokens.words[1:-1]
        assert [str(one.message) for one in caught if one.category is Notice] == ([] if said is None else [said])
