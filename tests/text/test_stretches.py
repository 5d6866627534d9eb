"""A long text in pieces: the tokens are those of the whole, whatever the tokenizer."""

from functools import cache

import pytest
import tokenizers
from foreign_checkpoints import write_foreign_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers
from tokenizing import texts

from attncli import RequestError
from attncli.text import tokenizer as module
from attncli.text.tokenizer import Tokenizer, between, byte_tokenizer, stretches
from attncli.text.tokens import Tokens, Unreadable, tokens_of

KINDS = ("minilm", "vocab.txt", "cased", "vocab.json", "t5", "llama", "gpt2", "unigram", "bytes", "stripped")
LETTERS = "abcdefghijklmnopqrstuvwxyz.,!?'0123456789中国é🙂"


@pytest.fixture(scope="module")
def tokenizer(directories, tmp_path_factory):
    """`tokenizer(kind)`: with room for 16 tokens."""
    from transformers import AutoTokenizer, GPT2Tokenizer, LlamaTokenizer

    @cache
    def make(kind: str) -> Tokenizer:
        if kind in directories:
            return Tokenizer.from_directory(directories[kind], 16, 10**6, 0, None)
        directory = tmp_path_factory.mktemp(kind)
        if kind == "t5":  # Unigram, after spaces that are marked (Metaspace)
            write_foreign_tokenizer(directory, kind)
            backend = AutoTokenizer.from_pretrained(directory).backend_tokenizer
        elif kind == "llama":  # pairs in a text that is not split at all, with bytes for what it does not know
            write_foreign_tokenizer(directory, kind)
            backend = LlamaTokenizer.from_pretrained(directory).backend_tokenizer
        elif kind == "gpt2":  # pairs of bytes, nothing at the ends
            write_foreign_tokenizer(directory, kind)
            backend = GPT2Tokenizer.from_pretrained(directory).backend_tokenizer
        elif kind == "bytes":
            backend = byte_tokenizer(0)
        else:
            backend = with_all_letters(kind)
        return Tokenizer(backend, 16, 10**6, 0)

    return make


def with_all_letters(kind: str) -> tokenizers.Tokenizer:
    """Unigram over a text that is not split; and one that takes spaces off at the ends of a text and adds one."""
    pieces = [("<unk>", 0.0), ("▁", -3.0), ("▁the", -1.0), ("cat▁", -1.5), ("aa", -2.5), ("aaa", -3.0)]
    backend = tokenizers.Tokenizer(models.Unigram([*pieces, *((letter, -4.0) for letter in LETTERS)], 0))
    if kind == "unigram":
        backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        backend.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Strip()])
        backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
        backend.add_tokens([tokenizers.AddedToken("<mask>", lstrip=True, rstrip=True)])
    backend.decoder = decoders.Metaspace()
    return backend


def at_once(tokenizer: Tokenizer, text: str) -> Tokens:
    return tokens_of(tokenizer.encoding(text), tokenizer.notation, text)


def joined(parts: list[Tokens]) -> Tokens:
    """The stretches as one."""
    last = parts[-1]
    inner = [part.take(between(part)) for part in parts]
    head = parts[0].take(range(between(parts[0]).start))
    return head.joined(*inner, last.take(range(between(last).stop, len(last))))


# A quarter of what is in two pieces is more than the 100 characters that a word of WordPiece has at the most.
PIECE, OVERLAP = 600, 480


def make_short(patch: pytest.MonkeyPatch, longest: int) -> None:
    for name, value in {"PIECE": PIECE, "OVERLAP": OVERLAP, "LONGEST": longest}.items():
        patch.setattr(module, name, value)


@pytest.fixture
def short(monkeypatch):
    make_short(monkeypatch, PIECE * 4**3)


PARTS = st.lists(texts | st.text(LETTERS, max_size=40) | st.just("the cat aaaaaaa <mask> "), min_size=4, max_size=60)


@pytest.mark.parametrize("kind", KINDS)
@given(parts=PARTS, between_parts=st.sampled_from([" ", "  ", "\n", "", " the "]))
@settings(max_examples=10)
def test_tokens_are_those_of_the_whole(kind, parts, between_parts, tokenizer):
    text, cutter = between_parts.join(parts * 3), tokenizer(kind)
    with pytest.MonkeyPatch.context() as patch:
        make_short(patch, 10**6)
        found = list(stretches(text, lambda piece: at_once(cutter, piece)))
    assert joined(found) == at_once(cutter, text)
    ends = [part.take(range(between(part).start)) for part in found]
    assert all(end == ends[0] for end in ends)


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_of_words_is_cut_and_no_piece_is_longer_than_it_need_be(kind, tokenizer, short):
    text, given = "the cat saw the mat, and " * 200, []
    cutter = tokenizer(kind)

    def cut(piece: str) -> Tokens:
        given.append(len(piece))
        return at_once(cutter, piece)

    found = list(stretches(text, cut))
    assert joined(found) == at_once(cutter, text)
    assert max(given) == PIECE and len(found) > 10


def test_a_word_without_an_end_makes_pieces_longer_up_to_a_limit(tokenizer, short):
    words = tokenizer("minilm")
    long = f"the cat {'x' * 5000} sat " * 3
    assert joined(list(words.stretches(long))) == at_once(words, long)
    with pytest.raises(Unreadable, match=r"from character 0 on .* 38,400 characters .*spaces"):
        list(words.stretches("x" * 40_000))
    following = words.stretches("the cat sat " * 100 + "x" * 40_000)
    assert next(following).text[1] == "the"
    with pytest.raises(Unreadable, match=r"from character \d\d\d on "):
        list(following)


def test_where_two_pieces_disagree_the_first_is_made_longer(short):
    """Cut a run of x by its last character, which only one of the pieces has."""
    backend = byte_tokenizer(0)
    runs = pre_tokenizers.Split(tokenizers.Regex("x+(?=y)|x"), "isolated")
    backend.pre_tokenizer = pre_tokenizers.Sequence([runs, pre_tokenizers.ByteLevel(False, use_regex=False)])
    words, text = Tokenizer(backend, 16, 10**6, 0), "the cat " * 60 + "x" * 400 + "y" + " the cat" * 60
    found = joined(list(words.stretches(text)))
    assert found.words == at_once(words, text).words and len(set(found.words)) == 4


# --- the first tokens of a long text --------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_tokens_are_kept_and_how_much_is_left_out_is_said(kind, tokenizer, monkeypatch):
    words, text = tokenizer(kind), "the cat saw the mat, and " * 80
    with pytest.warns(UserWarning, match=r"^kept the first 16 of \d+ tokens$"):
        expected = words.encode(text)
    make_short(monkeypatch, 10**6)
    left = len(text) - max(end for _, end in expected.offsets)
    with pytest.warns(UserWarning, match=f"^kept the first 16 tokens: {left:,} characters are left out$"):
        assert words.encode(text) == expected


def test_a_model_that_reads_everything_is_not_given_everything(tokenizer, short):
    words = tokenizer("minilm")
    endless = Tokenizer(words.backend, 10**30, 10**6, 0)
    assert endless.encode("the cat " * 500) == at_once(words, "the cat " * 500)
    with pytest.raises(RequestError, match=r"has 48,000 characters, more than the limit of 38,400"):
        endless.encode("the cat " * 6000)
