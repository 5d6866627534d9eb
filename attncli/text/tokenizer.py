"""Tokenize texts: str -> Tokens with ids, strings, segments, word numbers and character offsets, using `tokenizers`."""

import re
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attncli.base.errors import Notice, RequestError, quiet_panics
from attncli.base.printable import first_line, quoted, shorten
from attncli.base.untrusted import check_regular, parse_json, read_regular
from attncli.text.tokens import (
    Notation,
    NothingKept,
    Pieces,
    Tokens,
    Unreadable,
    check_text,
    followed,
    tokens_of,
    word_numbers,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend


LONGEST = 2**22  # characters of a text whose tokens are all needed; the tokens take about 100 times its memory
ENOUGH = 2**16, 128  # characters, in total and per token, that suffice for the first tokens of a text
FOLLOWING = 2**11  # characters after a token that can change it

REPLACING = re.compile("mask|unk|extra_id|unused", re.IGNORECASE)  # in the names of special tokens that replace words

# Tokenizers that first split a text into words with a dictionary, and its name.
CUTTERS = {"RoFormerTokenizer": "rjieba", "BertJapaneseTokenizer": "a Japanese dictionary"}


def between(tokens: Tokens) -> range:
    """Return the positions between the special tokens at both ends; none if all tokens are special."""
    if all(tokens.special):
        return range(0)
    return range(tokens.special.index(False), len(tokens) - tokens.special[::-1].index(False))


class Names(Sequence[str]):
    """The tokens of a vocabulary by id; "" for an id without a token. Each is looked up on use."""

    def __init__(self, backend: "Backend", size: int) -> None:
        self.backend = backend
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(self.size))]
        if not -self.size <= number < self.size:
            raise IndexError(number)
        return self.backend.id_to_token(int(number) % self.size) or ""


class Tokenizer:
    """A checkpoint's tokenizer: `encode(text, pair, pad_to)` returns `Tokens`.

    pad_id: the id of [PAD]; None if there is none, so that padding is impossible. notation: how its vocabulary writes
    pieces, if the backend does not show it. name: its name in messages. pads_left: [PAD] precedes the text. pad_note: a
    Notice on the choice of [PAD], given when a text is padded for the first time.
    """

    def __init__(
        self,
        backend: "Backend",
        max_tokens: int,
        vocab_size: int,
        pad_id: int | None,
        notation: Notation | None = None,
        name: str = "the tokenizer",
        pads_left: bool = False,
        pad_note: str | None = None,
    ) -> None:
        backend.no_truncation()  # a published file truncates and pads every text to 128 tokens
        backend.no_padding()
        self.backend = backend
        self.max_tokens = max_tokens
        self.vocab_size = vocab_size
        self.pad_id = pad_id
        self.notation = Notation.of(backend) if notation is None else notation
        self.name = name
        self.pads_left = pads_left
        self.pad_note = pad_note
        self.pad_token = "[PAD]" if pad_id is None else backend.id_to_token(pad_id) or "[PAD]"

    def encode(self, text: str, pair: str | None = None, pad_to: int | None = None) -> Tokens:
        """Tokenize a text or a pair of texts.

        If there are more tokens than the model has positions, only the first are kept, with a Notice. In a pair, the
        longer text is truncated first. A Notice names special tokens that a text contains. pad_to: add [PAD] up to this
        number of tokens.

        Raises RequestError if a text is empty or not text, or `pad_to` is out of range.
        """
        whole = (text,) if pair is None else (text, pair)
        for part in whole:
            check_text(part)
        if (longest := max(map(len, whole))) > LONGEST and ENOUGH[1] * self.max_tokens > LONGEST:
            raise too_long(longest)
        texts = tuple(part[: max(ENOUGH[0], ENOUGH[1] * self.max_tokens)] for part in whole)
        known = texts == whole  # else the total number of tokens is unknown
        encoding = self.encoding(*texts)
        total = len(encoding)
        if total > self.max_tokens:
            texts = cut_texts(texts, encoding, self.max_tokens)
            encoding = self.encoding(*texts, most=self.max_tokens)
        tokens = tokens_of(encoding, self.notation, *texts)
        if total > self.max_tokens or not known:
            of = f" of {total} tokens" if known else f" tokens: {left_out(tokens, whole):,} characters are dropped"
            warnings.warn(f"kept the first {len(tokens)}{of}", Notice, stacklevel=2)
        self.check(tokens, text)
        tokens = self.mark_special(tokens)
        return tokens if pad_to is None else self.pad(tokens, pad_to)

    def mark_special(self, tokens: Tokens) -> Tokens:
        """Mark special tokens that a text spells out, such as "[SEP]", as special, with a Notice.

        Tokens that replace a word, such as [MASK], stay words. So do all special tokens of a text without other tokens.
        """
        written = [
            not flag and number in self.special_ids and REPLACING.search(self.backend.id_to_token(number) or "") is None
            for flag, number in zip(tokens.special, tokens.ids, strict=True)
        ]
        special = [flag or found for flag, found in zip(tokens.special, written, strict=True)]
        if not any(written) or all(special):
            return tokens
        names = dict.fromkeys(quoted(name) for name, found in zip(tokens.text, written, strict=True) if found)
        what = "is a special token of this model, not a word"
        what = what if len(names) == 1 else "are special tokens of this model, not words"
        warnings.warn(f"{', '.join(names)} in the text {what}", Notice, stacklevel=3)
        return replace(tokens, special=special)

    def encode_marked(self, text: str) -> Tokens:
        """Tokenize a text that spells out its special tokens, as in a chat, without adding others.

        Raises RequestError if it is longer than the model's positions, and as `encode` does.
        """
        check_text(text)
        encoding = self.encoding(text, marked=True)
        if len(encoding) > self.max_tokens:
            raise RequestError(
                f"the text has {len(encoding)} tokens, but the model reads at most {self.max_tokens}: shorten it"
            )
        tokens = tokens_of(encoding, self.notation, text)
        special = [flag or number in self.special_ids for flag, number in zip(tokens.special, tokens.ids, strict=True)]
        self.check(tokens, text)
        return replace(tokens, special=special)

    def encode_each(
        self, inputs: Iterable[tuple[str, str | None]], pad_to: int | None, marked: bool = False
    ) -> Iterator[Tokens]:
        """Yield the tokens of each text, or pair. marked: its special tokens are written out, as in a chat.

        Raises RequestError as `encode` does.
        """
        for text, pair in inputs:
            if marked:
                tokens = self.encode_marked(text)
                yield tokens if pad_to is None else self.pad(tokens, pad_to)
            else:
                yield self.encode(text, pair, pad_to)

    def read(self, text: str) -> Tokens:
        """Return all tokens of a text. Raises Unreadable if it is too long or this tokenizer keeps nothing of it."""
        check_text(text)
        if len(text) > LONGEST:
            raise too_long(len(text))
        tokens = self.tokenize(text)
        self.check(tokens, text)
        return tokens

    def tokenize(self, text: str) -> Tokens:
        """Return all tokens of a text, unchecked. Raises Unreadable as `encoding` does."""
        return tokens_of(self.encoding(text), self.notation, text)

    def encoding(self, *texts: str, most: int | None = None, marked: bool = False) -> Any:
        """Return the backend's encoding of a text or pair: all tokens, or at most `most`.

        Only this method calls the backend. marked: add no special tokens, since the text contains them.

        Raises Unreadable if the backend rejects the text or crashes on it.
        """
        try:
            with quiet_panics():
                if most is not None:
                    self.backend.enable_truncation(most)
                second = texts[1] if len(texts) > 1 else None
                return self.backend.encode(texts[0], second, **({"add_special_tokens": False} if marked else {}))
        except (RequestError, MemoryError):
            raise
        except Exception as error:
            what = f"{quoted(texts[0])} ({shorten(first_line(error), 100)})"
            raise Unreadable(f"{self.name} fails on the text {what}: change the text or use another model") from error
        finally:
            self.backend.no_truncation()

    def check(self, tokens: Tokens, text: str) -> None:
        """Raises NothingKept if no tokens remain, and RequestError if the tokenizer belongs to another model."""
        if all(tokens.special):
            raise NothingKept(f"the text {quoted(text)} has no characters that the tokenizer keeps: change it")
        if max(tokens.ids) >= self.vocab_size:
            raise RequestError(
                f"the tokenizer returns token id {max(tokens.ids)}, but the model's vocabulary has "
                f"{self.vocab_size}: this tokenizer belongs to another model"
            )

    def extend(self, tokens: Tokens, ids: Sequence[int]) -> Tokens:
        """Return a text's tokens followed by generated tokens with these ids. Offsets are unknown."""
        names = [self.backend.id_to_token(number) or f"<{number}>" for number in ids]
        special = [number in self.special_ids for number in ids]
        texts = [None if flag else 0 for flag in special]
        pieces = Pieces(
            tokens=names,
            ids=list(ids),
            type_ids=[0] * len(names),
            sequence_ids=texts,
            special_tokens_mask=[int(flag) for flag in special],
            word_ids=word_numbers(names, texts),
            offsets=[(0, 0)] * len(names),
        )
        return followed(tokens, pieces, self.notation, self.backend)

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Return the ids of special tokens, such as the end-of-text token."""
        added = self.backend.get_added_tokens_decoder()
        return frozenset(number for number, token in added.items() if token.special)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, without special tokens."""
        text: str = self.backend.decode(list(ids), skip_special_tokens=True)
        return text

    def pad(self, tokens: Tokens, length: int) -> Tokens:
        """Add [PAD] up to `length` tokens, after the text or, if `pads_left`, before it.

        Raises RequestError if the text is longer, `length` exceeds the model's positions, or there is no [PAD].
        """
        if self.pad_id is None:
            raise RequestError("this model has no padding token: omit --pad-to")
        if not len(tokens) <= length <= self.max_tokens:
            raise RequestError(
                f"can't pad to {length} tokens: the text has {len(tokens)}, and the model reads at most "
                f"{self.max_tokens}"
            )
        if self.pad_note is not None:
            warnings.warn(self.pad_note, Notice, stacklevel=2)
            self.pad_note = None
        more = length - len(tokens)
        pads = Tokens(
            text=[self.pad_token] * more,
            ids=[self.pad_id] * more,
            segments=[0] * more,
            words=[None] * more,
            offsets=[(0, 0)] * more,
            special=[True] * more,
            padding=[True] * more,
            shown=[self.pad_token] * more,
            written=[""] * more,
        )
        return pads.joined(tokens) if self.pads_left else tokens.joined(pads)

    def pad_some(self, tokens: Tokens, length: int | None = None) -> Tokens:
        """Add [PAD] up to `length` tokens; without it, at most 4 of them, if there is [PAD] and room for it.

        Raises RequestError as `pad` does.
        """
        if length is not None:
            return self.pad(tokens, length)
        return tokens if self.pad_id is None else self.pad(tokens, min(len(tokens) + 4, self.max_tokens))

    @classmethod
    def from_directory(
        cls,
        directory: Path,
        max_tokens: int,
        vocab_size: int,
        pad_id: int | None,
        last_resort: Callable[[Path], Any],
        kind: str | None = None,
        pads_left: bool = False,
    ) -> "Tokenizer":
        """Load a tokenizer from tokenizer.json, else vocab.txt, else vocab.json + merges.txt, else by `last_resort`.

        kind, pads_left and pad_id: the tokenizer's class, and the side and the id of [PAD], if no file of the tokenizer
        names them. Raises RequestError if there is no such file, one is garbled, or the tokenizer needs more than these
        files.
        """
        name = f"the tokenizer in {directory}"
        try:
            with quiet_panics():
                kind = tokenizer_class(directory) or kind
                if kind in CUTTERS:
                    raise RequestError(
                        f"{name} splits words with {CUTTERS[kind]}, which attncli does not support: "
                        "add --engine transformers"
                    )
                backend = read_backend(directory, kind) or last_resort(directory)
                places = padding_places(directory, backend, kind)
                padding, note = choose_padding([*places, ("the model's configuration", pad_id)], backend, vocab_size)
                side = tokenizer_settings(directory).get("padding_side", (backend.padding or {}).get("direction"))
                pads_left = pads_left if side is None else str(side).lower() == "left"
                return cls(backend, max_tokens, vocab_size, padding, name=name, pads_left=pads_left, pad_note=note)
        except (RequestError, MemoryError):
            raise
        except Exception as error:
            raise RequestError(f"{name} can't be read: {first_line(error)}") from error


def too_long(characters: int) -> Unreadable:
    return Unreadable(f"the text has {characters:,} characters, more than the limit of {LONGEST:,}: shorten it")


def cut_texts(texts: Sequence[str], encoding: Any, most: int) -> tuple[str, ...]:
    """Shorten each text as far as possible without changing its first tokens.

    The longer text stays the longer one. For a truncated pair, the library builds every combination of both texts'
    remainders, which is slow.
    """
    places = list(zip(encoding.offsets, encoding.sequence_ids, strict=True))
    ends = [[end for (_, end), of in places if of == part] for part in range(len(texts))]
    kept = list(texts)
    for part in sorted(range(len(texts)), key=lambda part: len(ends[part])):
        if len(ends[part]) > most:
            kept[part] = texts[part][: ends[part][most - 1] + FOLLOWING]
            most = bisect_right(ends[part], len(kept[part])) + 1
    return tuple(kept)


def left_out(tokens: Tokens, texts: Sequence[str]) -> int:
    """Return the number of characters of these texts after the last token."""
    last = [0] * len(texts)
    for segment, (_, end) in zip(tokens.segments, tokens.offsets, strict=True):
        last[segment] = max(last[segment], end)
    return sum(map(len, texts)) - sum(last)


def read_backend(directory: Path, kind: str | None = None) -> "Backend | None":
    """Load the tokenizer that a checkpoint's files describe; return None if they describe none. kind: its class."""
    from tokenizers import Tokenizer as Backend

    whole = directory / "tokenizer.json"
    if whole.exists():
        check_regular(whole)
        return Backend.from_file(str(whole))
    if (directory / "vocab.txt").exists():
        return wordpiece(directory)
    if (directory / "vocab.json").exists() and (directory / "merges.txt").exists():
        return byte_pairs(directory, kind)
    return None


def wordpiece(directory: Path) -> "Backend":
    """Build BERT's tokenizer from vocab.txt (Devlin et al. 2019; Wu et al. 2016)."""
    from tokenizers import BertWordPieceTokenizer

    settings = tokenizer_settings(directory)
    check_regular(directory / "vocab.txt")
    built = BertWordPieceTokenizer.from_file(
        str(directory / "vocab.txt"),
        lowercase=settings.get("do_lower_case", True),
        strip_accents=settings.get("strip_accents"),
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
    )
    return built._tokenizer


def byte_pairs(directory: Path, kind: str | None = None) -> "Backend":
    """Build GPT-2's tokenizer from vocab.json and merges.txt, or RoBERTa's (Liu et al. 2019, section 4.4).

    With BERT's special tokens in the vocabulary it is the tokenizer of the first DeBERTa (He et al. 2021), whose pairs
    look like BERT's. (transformers 5 puts two [SEP] between the texts, unlike the training of the published networks.)
    kind: its class. GPT-2's puts no special tokens around a text.
    """
    from tokenizers import ByteLevelBPETokenizer
    from tokenizers.processors import BertProcessing, RobertaProcessing

    settings = tokenizer_settings(directory)
    spaced = bool(settings.get("add_prefix_space", False))
    files = directory / "vocab.json", directory / "merges.txt"
    for file in files:
        check_regular(file)
    built = ByteLevelBPETokenizer.from_file(*map(str, files), add_prefix_space=spaced)
    if kind == "GPT2Tokenizer":
        built.add_special_tokens([name for name in ("<|endoftext|>",) if built.token_to_id(name) is not None])
        return built._tokenizer
    marks = {name: built.token_to_id(name) for name in ("[CLS]", "[SEP]")}
    if None not in marks.values():
        built.add_special_tokens(["[PAD]", *marks, "[UNK]", "[MASK]"])
        built._tokenizer.post_processor = BertProcessing(("[SEP]", marks["[SEP]"]), ("[CLS]", marks["[CLS]"]))
        return built._tokenizer
    ends = {name: built.token_to_id(name) for name in ("<s>", "</s>")}
    if None in ends.values():
        raise RequestError(f"{directory / 'vocab.json'} contains neither <s> and </s> nor [CLS] and [SEP]")
    built.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    built._tokenizer.post_processor = RobertaProcessing(
        ("</s>", ends["</s>"]), ("<s>", ends["<s>"]), trim_offsets=True, add_prefix_space=spaced
    )
    return built._tokenizer


def byte_tokenizer(pad_id: int | None) -> "Backend":
    """Build a tokenizer without files: one token per byte, between [CLS] and [SEP].

    For architectures whose vocabulary is not on this machine and whose weights are random anyway.
    """
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, pre_tokenizers, processors
    from tokenizers.models import BPE

    tokens = ["[UNK]", "[CLS]", "[SEP]", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    vocab = {token: number + (pad_id is not None and number >= pad_id) for number, token in enumerate(tokens)}
    if pad_id is not None:
        vocab["[PAD]"] = pad_id
    backend = Backend(BPE(vocab=vocab, merges=[], unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.BertProcessing(("[SEP]", vocab["[SEP]"]), ("[CLS]", vocab["[CLS]"]))
    return backend


def tokenizer_class(directory: Path) -> str | None:
    """Return the class of the tokenizer, without "Fast"; None if no file names it."""
    named = tokenizer_settings(directory).get("tokenizer_class")
    return None if named is None else str(named).removesuffix("Fast")


# Padding tokens that transformers' classes have if no file names one.
USUAL_PADDING = {"GPTNeoXTokenizer": "<|padding|>", "Qwen2Tokenizer": "<|endoftext|>", "GemmaTokenizer": "<pad>"}


def padding_places(directory: Path, backend: "Backend", kind: str | None) -> list[tuple[str, int | None]]:
    """Return the files that name a padding token, with its id, in the order in which transformers reads them.

    If tokenizer_config.json lists added tokens, transformers ignores special_tokens_map.json. A pad_token of null in
    the first of the two excludes what the tokenizer's other files name. kind: its class, which may have a padding
    token.
    """
    stated = {"tokenizer_config.json": tokenizer_settings(directory)}
    if "added_tokens_decoder" not in stated["tokenizer_config.json"]:
        stated = {"special_tokens_map.json": read_settings(directory / "special_tokens_map.json"), **stated}
    named = [(file, found["pad_token"]) for file, found in stated.items() if "pad_token" in found]
    if not named:
        in_file = ("tokenizer.json", (backend.padding or {}).get("pad_token"))
        named = [("the tokenizer's class", USUAL_PADDING[kind]) if kind in USUAL_PADDING else in_file]
    elif named[0][1] is None:
        named = []
    contents = [(file, token.get("content") if isinstance(token, dict) else token) for file, token in named]
    added = added_tokens(directory)
    places = [
        (file, added.get(token) if (number := backend.token_to_id(token)) is None else number)
        for file, token in contents
        if isinstance(token, str)
    ]
    file = "generation_config.json"
    return [*places, (file, read_settings(directory / file).get("pad_token_id"))]


def added_tokens(directory: Path) -> dict[str, int]:
    """Return the ids of the tokens that added_tokens.json and tokenizer_config.json add to the vocabulary."""
    found = read_settings(directory / "added_tokens.json")
    listed = tokenizer_settings(directory).get("added_tokens_decoder")
    for number, token in listed.items() if isinstance(listed, dict) else ():
        content = token.get("content") if isinstance(token, dict) else None
        if isinstance(content, str) and number.isdecimal():
            found[content] = int(number)
    return found


def choose_padding(
    places: Sequence[tuple[str, int | None]], backend: "Backend", vocab_size: int
) -> tuple[int | None, str | None]:
    """Return the first of these padding tokens that is in the vocabulary, and a sentence if another one differs."""
    found = [(place, number) for place, number in places if type(number) is int and 0 <= number < vocab_size]
    if not found:
        return None, None
    (place, number), *others = found
    other = next((one for one in others if one[1] != number), None)
    if other is None:
        return number, None
    first, second = (f"{quoted(backend.id_to_token(one) or '')} (id {one})" for one in (number, other[1]))
    return number, f"padding with {first} from {place}, as transformers does; {other[0]} names {second}"


def tokenizer_settings(directory: Path) -> dict[str, Any]:
    """Return the content of tokenizer_config.json; empty if there is no such file."""
    return read_settings(directory / "tokenizer_config.json")


def read_settings(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file; empty if there is no such file. Raises RequestError if it is not an object."""
    if not path.exists():
        return {}
    settings = parse_json(read_regular(path))
    if not isinstance(settings, dict):
        raise RequestError(f"{path} is not a JSON object")
    return settings
