"""Tokenizers: texts that are too long, padded or refused, and the files that a tokenizer is read from."""

import json
import shutil
import warnings
from dataclasses import asdict

import pytest
from foreign_checkpoints import write_foreign_tokenizer
from hypothesis import given
from hypothesis import strategies as st
from tokenizing import KINDS, last_resort, ours
from transformers import GPT2Tokenizer

from attncli import Notice, RequestError
from attncli.text import tokenizer as module
from attncli.text.tokenizer import Tokenizer
from attncli.text.tokens import Unreadable
from attncli.text.windows import windows

# --- too long, and padded -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@given(words=st.integers(1, 40), more=st.none() | st.integers(1, 40), most=st.integers(6, 30))
def test_the_first_tokens_are_kept_and_a_notice_says_so(kind, words, more, most, directories, both):
    text, pair = " ".join(["cat"] * words), None if more is None else " ".join(["sat"] * more)
    tokenizer, theirs = ours(directories[kind], most), both[kind][1]
    whole = theirs(text, pair, truncation=False)["input_ids"]
    with warnings.catch_warnings(record=True) as notices:
        warnings.simplefilter("always")
        tokens = tokenizer.encode(text, pair)
    if len(whole) <= most:
        assert tokens.ids == whole and notices == []
        return
    assert tokens.ids == theirs(text, pair, truncation=True, max_length=most)["input_ids"]
    assert len(tokens) == most
    [notice] = notices
    assert notice.category is Notice and str(notice.message) == f"kept the first {most} of {len(whole)} tokens"
    if pair is None:
        assert tokens.ids[:-1] == whole[: most - 1] and tokens.ids[-1] == whole[-1]


@given(text=st.sampled_from(["the", "the cat sat on it"]), length=st.integers(-3, 30))
def test_padding_goes_up_to_the_length(text, length, directories):
    tokenizer = ours(directories["vocab.txt"], 20)
    plain = tokenizer.encode(text)
    if not len(plain) <= length <= 20:
        with pytest.raises(RequestError, match=rf"pad to {length} .*{len(plain)}.*20"):
            tokenizer.encode(text, pad_to=length)
        return
    padded, more = tokenizer.encode(text, pad_to=length), length - len(plain)
    pad = {"text": "[PAD]", "ids": 0, "segments": 0, "words": None, "offsets": (0, 0), "special": True, "padding": True}
    pad |= {"shown": pad["text"], "written": ""}
    assert asdict(padded) == {name: part + [pad[name]] * more for name, part in asdict(plain).items()}


# --- refused --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "why"),
    [
        *((space, "empty") for space in ("", "\n\t ", "\u3000", "\u2028")),
        *((half, "UTF-8 at character (0|8)") for half in ("\udfff\ud800", "the cat \udcff")),
        *((lost, "has no characters") for lost in ("\x1b\x07", "\u200b\u200b", "\ufeff")),
    ],
)
def test_a_text_without_a_token_is_refused(text, why, both):
    for kind in ("minilm", "vocab.txt") if "no characters" in why else both:
        with pytest.raises(RequestError, match=why):
            both[kind][0].encode(text)
    if why == "empty":
        with pytest.raises(RequestError, match=why):
            both["minilm"][0].encode("the cat", text)


def test_a_tokenizer_of_another_model_is_refused(directories):
    tokenizer = Tokenizer.from_directory(directories["minilm"], 512, 1000, 0, last_resort)
    with pytest.raises(RequestError, match=r"vocabulary has 1000.*another model"):
        tokenizer.encode("the cat")


@pytest.fixture
def broken(directories, tmp_path):
    """`broken(pre_tokenizer=...)`: a checkpoint's tokenizer with other steps."""

    def make(**steps):
        settings = json.loads((directories["minilm"] / "tokenizer.json").read_text(encoding="utf-8"))
        (tmp_path / "tokenizer.json").write_text(json.dumps({**settings, **steps}), encoding="utf-8")
        return tmp_path

    return make


BACKTRACKS = {"type": "Split", "pattern": {"Regex": "(x+x+)+y"}, "behavior": "Isolated", "invert": False}
NO_SUCH_TOKEN = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[X]", "type_id": 0}}], "pair": []}


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ({"pre_tokenizer": BACKTRACKS}, "retry-limit"),
        ({"pre_tokenizer": {"type": "FixedLength", "length": 0}}, "non-zero"),
        ({"post_processor": {**NO_SUCH_TOKEN, "special_tokens": {}}}, "no entry"),
        ({"model": {"type": "Unigram", "unk_id": None, "vocab": []}}, "unk_id"),
    ],
    ids=["pattern", "length", "template", "unigram"],
)
def test_where_the_library_breaks_down_on_a_text_it_is_one_line(steps, why, broken, capfd):
    tokenizer = ours(broken(**steps))
    for ask in (tokenizer.encode, lambda text: next(windows(0, text, tokenizer))):
        with pytest.raises(Unreadable, match=rf"^the tokenizer in .* fails on the text 'x.*{why}.*another model$"):
            ask("x" * 60)
    assert capfd.readouterr() == ("", "")


# --- files ----------------------------------------------------------------------------------------------


def test_the_order_of_preference(directories, tmp_path):
    """tokenizer.json, else vocab.txt, else vocab.json and merges.txt, else the last resort."""
    with pytest.raises(RequestError, match="no tokenizer at all"):
        ours(tmp_path)
    shutil.copy(directories["vocab.json"] / "vocab.json", tmp_path)
    with pytest.raises(RequestError, match="no tokenizer at all"):
        ours(tmp_path)
    shutil.copy(directories["vocab.json"] / "merges.txt", tmp_path)
    assert ours(tmp_path).encode("the cat").text == ["<s>", "the", "Ġcat", "</s>"]
    shutil.copy(directories["vocab.txt"] / "vocab.txt", tmp_path)
    assert ours(tmp_path).encode("The mat").text == ["[CLS]", "the", "m", "##a", "##t", "[SEP]"]
    shutil.copy(directories["minilm"] / "tokenizer.json", tmp_path)
    assert ours(tmp_path).encode("The mat").text == ["[CLS]", "the", "mat", "[SEP]"]


@pytest.mark.parametrize("text", ["the cat", " The\n\ncat's  42 é<|endoftext|>the", "the</s><s>"])
def test_gpt2_puts_no_special_tokens_around_a_text(tmp_path, text):
    """vocab.json and merges.txt alone do not say whether they are GPT-2's or RoBERTa's: the family does."""
    size = write_foreign_tokenizer(tmp_path, "gpt2")
    tokens = Tokenizer.from_directory(tmp_path, 40, size, None, last_resort, "GPT2Tokenizer").encode(text)
    theirs = GPT2Tokenizer.from_pretrained(tmp_path)
    assert tokens.ids == theirs(text)["input_ids"] and None not in tokens.words


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer.json", b""),
        ("tokenizer.json", b"{}"),
        ("vocab.txt", b"a\nb\n"),
        ("vocab.txt", b"\xff\xfe"),
        ("vocab.json", b"[]"),
        ("vocab.json", b'{"a": 0}'),
        ("merges.txt", b"no such tokens here"),
        ("tokenizer_config.json", b"[]"),
        ("tokenizer_config.json", b"[" * 100_000),
        ("tokenizer_config.json", b'{"do_lower_case": "yes"}'),
    ],
)
def test_a_garbled_file_is_a_refusal(name, content, directories, tmp_path):
    source = directories["vocab.json" if name in ("vocab.json", "merges.txt") else "vocab.txt"]
    shutil.copytree(source, tmp_path, dirs_exist_ok=True)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RequestError) as caught:
        ours(tmp_path)
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)


# --- a token a byte -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "second"), [(1000, 1000), (2000, 1000), (3, 2000)])
def test_of_a_long_pair_no_more_is_cut_than_is_kept(minilm, monkeypatch, first, second):
    """The library makes every combination of what it leaves out: hundreds of encodings here, gigabytes of others."""
    cut = minilm.tokenizer
    made, encoding = [], cut.encoding
    monkeypatch.setattr(cut, "encoding", lambda *texts, **most: made.append(encoding(*texts, **most)) or made[-1])
    pair = "the cat, which sat " * first, "Embeddings! " * second
    cut.backend.enable_truncation(512)
    expected = cut.backend.encode(*pair)
    cut.backend.no_truncation()
    total = 3 + 5 * (first + second)
    with pytest.warns(Notice, match=f"kept the first 512 of {total} tokens"):
        tokens = cut.encode(*pair)
    assert (tokens.ids, tokens.offsets, tokens.segments) == (expected.ids, expected.offsets, expected.type_ids)
    assert sum(len(one.overflowing) for one in made) < len(expected.overflowing) / 2


def test_of_a_very_long_text_no_more_is_read_than_its_first_tokens_need(both, monkeypatch):
    text = "the cat saw the mat, and " * 80
    words = Tokenizer(both["minilm"][0].backend, 16, 10**6, 0)
    with pytest.warns(Notice, match=r"^kept the first 16 of \d+ tokens$"):
        expected = words.encode(text)
    monkeypatch.setattr(module, "ENOUGH", (200, 20))
    left = len(text) - max(end for _, end in expected.offsets)
    with pytest.warns(Notice, match=f"^kept the first 16 tokens: {left:,} characters are dropped$"):
        assert words.encode(text) == expected
    monkeypatch.setattr(module, "LONGEST", 1000)
    for read in (words.read, Tokenizer(words.backend, 10**30, 10**6, 0).encode):
        with pytest.raises(Unreadable, match="has 2,000 characters, more than the limit of 1,000"):
            read(text)
