"""Text -> tokens, against the tokenizers that transformers makes of the same files."""

import itertools
import json
import shutil
import unicodedata
import warnings
from dataclasses import asdict
from pathlib import Path

import pytest
from checkpoints import byte_vocabulary, vocabulary, write_tokenizer
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attncli import Notice, RequestError
from attncli.base.printable import first_line, shorten
from attncli.models.hub import locate
from attncli.text.tokenizer import Tokenizer, byte_tokenizer, wordpiece

KINDS = ("minilm", "vocab.txt", "cased", "vocab.json", "tokenizer.json")

# Texts with what tokenizers stumble over: marks, spaces, other scripts, special tokens, half of a pair of emoji.
ODD = [
    "",
    " ",
    "  ",
    "\n",
    "\t",
    "\u00a0",
    "\u3000",
    "\u200b",
    "\u200d",
    "e\u0301",
    "É",
    "ß",
    "ﬁ",
    "中国",
    "🙂",
    "👩‍🔬",
    "é",
]
SPECIAL = ["[CLS]", "[SEP]", "[PAD]", "[MASK]", "[UNK]", "<s>", "</s>", "<pad>", "<mask>", "##a", "[unused1]"]
pieces = st.sampled_from(["the", "The", "cat", "unbelievable", "it's", "-", "!?", *ODD, *SPECIAL]) | st.text(max_size=6)
texts = st.lists(pieces, min_size=1, max_size=8).map(" ".join) | st.lists(pieces, min_size=1, max_size=5).map("".join)


def is_text(text: str) -> bool:
    return bool(text.strip()) and not any(unicodedata.category(character) == "Cs" for character in text)


texts = texts.filter(is_text)


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    made = {"minilm": locate("minilm").path}
    for kind, family in {
        "vocab.txt": "bert",
        "cased": "bert",
        "vocab.json": "roberta",
        "tokenizer.json": "distilbert",
    }.items():
        made[kind] = tmp_path_factory.mktemp("tokenizer")
        write_tokenizer(made[kind], family, 0 if family != "roberta" else 1)
    settings_file = made["cased"] / "tokenizer_config.json"
    settings_file.write_text(json.dumps({"do_lower_case": False, "tokenize_chinese_chars": False}))
    (made["tokenizer.json"] / "tokenizer.json").write_text(
        cut_and_padded((made["tokenizer.json"] / "tokenizer.json").read_text())
    )
    return made


def cut_and_padded(tokenizer: str) -> str:
    """The settings that the default model's own file carries, and more so."""
    cut = {"direction": "Right", "max_length": 7, "strategy": "LongestFirst", "stride": 0}
    pad = {"direction": "Right", "strategy": {"Fixed": 9}, "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    pad["pad_to_multiple_of"] = None
    return json.dumps({**json.loads(tokenizer), "truncation": cut, "padding": pad})


def ours(directory: Path, max_tokens: int = 512, pad_id: int = 0) -> Tokenizer:
    return Tokenizer.from_directory(directory, max_tokens, 30522, pad_id, last_resort)


def last_resort(directory: Path):
    raise RequestError("no tokenizer at all")


@pytest.fixture(scope="module")
def both(directories):
    """Of every kind: our tokenizer and transformers'."""
    from transformers import BertTokenizer, PreTrainedTokenizerFast, RobertaTokenizer

    classes = {"tokenizer.json": PreTrainedTokenizerFast, "vocab.json": RobertaTokenizer}
    return {
        kind: (ours(directory), classes.get(kind, BertTokenizer).from_pretrained(directory))
        for kind, directory in directories.items()
    }


# --- the same tokens ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@given(text=texts, pair=st.none() | texts)
@settings(max_examples=60)
def test_tokens_are_those_of_transformers(kind, text, pair, both):
    tokenizer, theirs = both[kind]
    every = {f"return_{what}": True for what in ("offsets_mapping", "special_tokens_mask", "token_type_ids")}
    expected = theirs(text, pair, truncation=False, **every)
    assume(not all(expected["special_tokens_mask"]))
    tokens = tokenizer.encode(text, pair)
    assert tokens.text == expected.tokens()
    assert tokens.ids == expected["input_ids"]
    assert tokens.words == expected.word_ids()
    assert tokens.offsets == [tuple(pair) for pair in expected["offset_mapping"]]
    assert tokens.special == [bool(flag) for flag in expected["special_tokens_mask"]]
    assert tokens.padding == [False] * len(tokens)
    of_a_text = [
        (segment, part)
        for segment, part in zip(tokens.segments, expected.sequence_ids(), strict=True)
        if part is not None
    ]
    assert all(segment == part for segment, part in of_a_text)
    if kind != "vocab.json":
        assert tokens.segments == expected["token_type_ids"]
    assert len({len(part) for part in asdict(tokens).values()}) == 1


@pytest.mark.parametrize("kind", KINDS)
@given(text=texts, pair=texts)
@settings(max_examples=40)
def test_segments_are_first_and_second(kind, text, pair, both):
    """Zeros, then ones; a separator belongs to the text that it ends."""
    try:
        tokens = both[kind][0].encode(text, pair)
    except RequestError:
        assume(False)
    assert tokens.segments == sorted(tokens.segments) and tokens.segments[0] == 0 and tokens.segments[-1] == 1
    first = [special for special, segment in zip(tokens.special, tokens.segments, strict=True) if segment == 0]
    assert first[-1]
    assert set(both[kind][0].encode(text + "x").segments) == {0}


@pytest.mark.parametrize("kind", KINDS)
@given(text=texts, pair=st.none() | texts)
@settings(max_examples=40)
def test_offsets_point_into_the_text(kind, text, pair, both):
    """Each token at the characters that it stands for: cut out and tokenized alone, they give it again."""
    tokenizer = both[kind][0]
    try:
        tokens = tokenizer.encode(text, pair)
    except RequestError:
        assume(False)
    for token, special, segment, (start, end) in zip(
        tokens.text, tokens.special, tokens.segments, tokens.offsets, strict=True
    ):
        source = pair if segment else text
        assert 0 <= start <= end <= len(source)
        if special:
            assert (start, end) == (0, 0)
        elif (
            kind in ("minilm", "vocab.txt", "tokenizer.json")
            and token.removeprefix("##").isascii()
            and token not in SPECIAL
        ):
            plain = unicodedata.normalize("NFD", source[start:end].lower())
            letters = "".join(character for character in plain if unicodedata.category(character)[0] not in "MC")
            assert token.removeprefix("##") == letters
    for part in {0, 1 if pair else 0}:
        starts = [
            start for (start, _), special, segment in zip(tokens.offsets, tokens.special, tokens.segments, strict=True)
            if segment == part and not special
        ]  # fmt: skip
        assert starts == sorted(starts)


def test_by_hand(both):
    tokens = both["minilm"][0].encode("The unbelievableness, Renée!", "Yes.")
    assert tokens.text[:9] == ["[CLS]", "the", "unbelievable", "##ness", ",", "renee", "!", "[SEP]", "yes"]
    assert tokens.words[:9] == [None, 0, 1, 1, 2, 3, 4, None, 0]
    assert tokens.offsets[:9] == [(0, 0), (0, 3), (4, 16), (16, 20), (20, 21), (22, 27), (27, 28), (0, 0), (0, 3)]
    assert tokens.segments == [0] * 8 + [1] * 3
    assert [n for n, special in enumerate(tokens.special) if special] == [0, 7, 10]


def test_a_special_token_that_the_user_typed_is_a_token_of_the_text(both):
    for tokenizer in (both["minilm"][0], both["vocab.txt"][0]):
        tokens = tokenizer.encode("a [MASK] b [PAD]")
        assert tokens.text == ["[CLS]", "a", "[MASK]", "b", "[PAD]", "[SEP]"]
        assert tokens.special == [True, False, False, False, False, True]
        assert not any(tokens.padding)


# --- too long, and padded -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@given(words=st.integers(1, 40), more=st.none() | st.integers(1, 40), most=st.integers(6, 30))
@settings(max_examples=40)
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


def test_cutting_one_text_does_not_cut_the_next(directories):
    tokenizer = ours(directories["vocab.txt"], 8)
    for text, pair in itertools.product(["the cat", "the cat " * 20], [None, "it", "it is " * 20]):
        with warnings.catch_warnings(record=True) as notices:
            warnings.simplefilter("always")
            found = tokenizer.encode(text, pair)
            assert found == ours(directories["vocab.txt"], 8).encode(text, pair)
        assert len(notices) in (0, 2)


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
    assert asdict(padded) == {name: part + [pad[name]] * more for name, part in asdict(plain).items()}


@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize("pad_id", [0, 1, 4, 9])
def test_padding_is_the_vocabularys(family, pad_id, tmp_path):
    write_tokenizer(tmp_path, family, pad_id)
    tokens = ours(tmp_path, pad_id=pad_id).encode("the", pad_to=9)
    token = "<pad>" if family == "roberta" else "[PAD]"
    assert (byte_vocabulary if family == "roberta" else vocabulary)(pad_id)[pad_id] == token
    assert (tokens.text[-1], tokens.ids[-1]) == (token, pad_id)


# --- refused --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", " ", "\n\t ", "\u3000", "\u2028", "\xa0"])
def test_nothing_but_space_is_refused(text, both):
    for tokenizer, _ in both.values():
        with pytest.raises(RequestError, match="empty"):
            tokenizer.encode(text)
        with pytest.raises(RequestError, match="empty"):
            tokenizer.encode("the cat", text)


@pytest.mark.parametrize("text", ["\ud800", "the cat \udcff", "\udfff\ud800"])
def test_half_a_character_is_refused(text, both):
    for tokenizer, _ in both.values():
        with pytest.raises(RequestError, match=r"UTF-8 at character (0|8)"):
            tokenizer.encode(text)


@pytest.mark.parametrize("text", ["\x00", "\x1b\x07", "\u200b\u200b", "\ufeff"])
def test_nothing_that_the_tokenizer_keeps_is_refused(text, both):
    for kind in ("minilm", "vocab.txt"):
        with pytest.raises(RequestError, match="nothing in it"):
            both[kind][0].encode(text)


def test_a_tokenizer_of_another_model_is_refused(directories):
    tokenizer = Tokenizer.from_directory(directories["minilm"], 512, 1000, 0, last_resort)
    with pytest.raises(RequestError, match=r"vocabulary has 1000.*another model"):
        tokenizer.encode("the cat")


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


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer.json", b""),
        ("tokenizer.json", b"{}"),
        ("tokenizer.json", b"\xff"),
        ("vocab.txt", b""),
        ("vocab.txt", b"a\nb\n"),
        ("vocab.txt", b"\xff\xfe"),
        ("vocab.json", b"[]"),
        ("vocab.json", b'{"a": 0}'),
        ("merges.txt", b"no such tokens here"),
        ("tokenizer_config.json", b"["),
        ("tokenizer_config.json", b"[]"),
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


def test_settings_reach_the_tokenizer(directories, tmp_path):
    shutil.copy(directories["vocab.txt"] / "vocab.txt", tmp_path)
    for keep_accents in (True, False):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"strip_accents": not keep_accents}))
        assert wordpiece(tmp_path).encode("é").tokens[1] == ("é" if keep_accents else "e")


# --- a token a byte -------------------------------------------------------------------------------------


@given(text=texts, pair=st.none() | texts, pad_id=st.integers(0, 400))
def test_bytes_need_no_vocabulary(text, pair, pad_id):
    tokenizer = Tokenizer(byte_tokenizer(pad_id), 10_000, 512, pad_id)
    tokens = tokenizer.encode(text, pair)
    for part, source in enumerate([text] if pair is None else [text, pair]):
        of_it = [n for n in range(len(tokens)) if tokens.segments[n] == part and not tokens.special[n]]
        assert len(of_it) == len(source.encode())
        assert tokenizer.backend.decode([tokens.ids[n] for n in of_it]) == source
    specials = [token for token, special in zip(tokens.text, tokens.special, strict=True) if special]
    assert specials == ["[CLS]", "[SEP]"] + (["[SEP]"] if pair else [])
    padded = tokenizer.pad(tokens, len(tokens) + 2)
    assert padded.text[-2:] == ["[PAD]"] * 2 and padded.ids[-2:] == [pad_id] * 2
    assert pad_id not in tokens.ids and "[UNK]" not in tokens.text


# --- words ----------------------------------------------------------------------------------------------


@given(text=st.text(), length=st.integers(1, 50))
def test_shorten(text, length):
    short = shorten(text, length)
    assert len(short) <= length and (short == text or (short[-1] == "…" and text.startswith(short[:-1])))


@given(message=st.text(max_size=400))
def test_the_first_line_of_an_error_is_one_short_line(message):
    line = first_line(ValueError(message))
    assert len(line.splitlines()) == 1 and 0 < len(line) <= 200
