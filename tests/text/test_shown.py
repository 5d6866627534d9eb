"""Tokens of every kind of tokenizer, as a reader sees them."""

import pytest
import tokenizers
from hypothesis import assume, given
from hypothesis import strategies as st
from records import tokens
from tokenizing import texts

from attncli.base.errors import RequestError
from attncli.text.tokenizer import Tokenizer, byte_tokenizer
from attncli.text.tokens import BYTES, Notation, joined

LETTERS = {byte: letter for letter, byte in BYTES.items()}


def letters_of(data: bytes) -> str:
    return "".join(LETTERS[byte] for byte in data)


def of_text(encoded):
    """Return the shown tokens without those that the tokenizer added."""
    return [shown for shown, word in zip(encoded.shown, encoded.words, strict=True) if word is not None]


# --- byte-level -----------------------------------------------------------------------------------------


@given(text=texts)
def test_together_they_are_the_text(text, tiny_bytes):
    """Show the parts of a cut character together, each with its number."""
    shown = of_text(tiny_bytes.encode(text))
    assume("[1/" not in text)
    assert joined(shown) == text
    if not any("[1/" in token for token in shown):
        assert "".join(shown) == text


@given(text=texts, pad_id=st.integers(0, 400))
def test_a_token_a_byte_shows_every_character(text, pad_id):
    tokenizer = Tokenizer(byte_tokenizer(pad_id), 10_000, 512, pad_id)
    expected = [
        character if size == 1 else f"{character}[{part}/{size}]"
        for character in text
        for size in [len(character.encode())]
        for part in range(1, size + 1)
    ]
    tokens = tokenizer.encode(text)
    assert of_text(tokens) == expected and pad_id not in tokens.ids
    assert tokenizer.pad(tokens, len(tokens) + 2).ids[-2:] == [pad_id] * 2


@given(st.lists(st.binary(min_size=1, max_size=6), min_size=1, max_size=6))
def test_any_bytes_are_shown(pieces):
    """Bytes of no character are named, and none is lost."""
    notation = Notation(of_bytes=True)
    shown = notation.read([letters_of(piece) for piece in pieces], [False] * len(pieces))
    assert len(shown) == len(pieces) and all(shown)
    data = b"".join(pieces)
    try:
        whole = data.decode()
    except UnicodeDecodeError:
        assert "<0x" in "".join(shown)
    else:
        assume("[1/" not in whole)
        assert joined(shown) == whole


def test_by_hand(tiny_bytes):
    encoded = tiny_bytes.encode("é the cat\n<mask>")
    assert encoded.text == ["<s>", "Ã©", "Ġthe", "Ġcat", "Ċ", "<mask>", "</s>"]
    assert encoded.shown == ["<s>", "é", " the", " cat", "\n", "<mask>", "</s>"]
    assert tiny_bytes.encode("é", pad_to=5).shown[3:] == [tiny_bytes.pad_token] * 2


# --- SentencePiece --------------------------------------------------------------------------------------


def sentencepiece(byte_fallback: bool = False) -> Tokenizer:
    pieces = [("<unk>", 0.0), ("▁", -3.0), ("▁the", -1.0), ("a", -2.0), ("b", -2.0)]
    pieces += [(f"<0x{byte:02X}>", -9.0) for byte in range(256)] if byte_fallback else []
    backend = tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, 0, byte_fallback))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    backend.decoder = tokenizers.decoders.Metaspace()
    return Tokenizer(backend, 100, 400, 0)


def test_its_unknown_token_shows_its_characters_though_the_tokenizer_names_them():
    encoded = sentencepiece().encode("the 猫犬a")
    assert "猫犬" in "".join(encoded.text) and encoded.ids[2] == 0
    assert encoded.shown == [" the", " ", "<unk:猫犬>", "a"]


# --- WordPiece and unknown tokens -----------------------------------------------------------------------


@given(text=texts)
def test_wordpieces_are_left_as_they_are(text, both):
    for kind in ("minilm", "cased"):
        try:
            encoded = both[kind][0].encode(text)
        except RequestError:
            assume(False)
        pairs = zip(encoded.text, encoded.shown, strict=True)
        assert all(shown == piece or (piece == "[UNK]" and shown.startswith("[UNK:")) for piece, shown in pairs)


def test_an_unknown_token_shows_the_characters_it_stands_for(both):
    tokenizer = both["minilm"][0]
    encoded = tokenizer.encode("是 dog's [UNK] 🙂🙂🙂🙂🙂🙂🙂🙂🙂", "the 首!")
    expected = ["[CLS]", "[UNK:是]", "dog", "'", "s", "[UNK]", "[UNK:🙂🙂🙂🙂🙂🙂🙂…]", "[SEP]"]
    expected += ["the", "[UNK:首]", "!", "[SEP]"]
    assert encoded.shown == expected
    assert [text for text, shown in zip(encoded.text, expected, strict=True) if text != shown] == ["[UNK]"] * 3


# --- where nothing is known -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["BÃ¤r", "ĠgrÃ¼ÃŁt"], ["Bär", " grüßt"]),
        (["BÃ¤r"], ["BÃ¤r"]),  # which is a text too
        (["▁the", "ca", "▁"], [" the", "ca", " "]),
        (["the", "##s", "[UNK]"], ["the", "##s", "[UNK]"]),
        ([], []),
    ],
)
def test_pieces_alone_are_read_by_their_marks(pieces, shown):
    assert tokens(pieces, [0] * len(pieces)).shown == shown
