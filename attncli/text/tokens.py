"""Tokens: a text or pair of texts as a model sees it, as a reader sees it, and as words.

byte-level BPE  "ĠgrÃ¼ÃŁt" is " grüßt"; if a character spans several tokens, each shows the character and its part of
it: "🙂[1/2]", "🙂[2/2]"
SentencePiece   "▁the" is " the"; its bytes are written "<0xE4>" already
unknown tokens  "[UNK]" is "[UNK:猫]", with the characters that the vocabulary has no token for

WordPiece's "##s" and special tokens are shown unchanged.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attncli.base.arrays import Brief, Ints
from attncli.base.errors import RequestError, quiet_panics
from attncli.base.printable import shorten

if TYPE_CHECKING:
    from tokenizers import Encoding
    from tokenizers import Tokenizer as Backend


# --- how a reader sees tokens --------------------------------------------------------------------------


SPACED = "▁"  # SentencePiece: a space precedes this piece (Kudo and Richardson 2018)
BYTE_SPACE = "Ġ"  # byte-level BPE: the printable character for the byte of a space
LONGEST_UNKNOWN = 8  # characters of an unknown token that are shown
NOWHERE = "\U0010fffd"  # a noncharacter, which no vocabulary contains
MARKED = re.compile(r"([<\[]\w+):(.+)([>\]])", re.DOTALL)  # an unknown token with its characters
PARTS = re.compile(r"(.)\[1/([2-4])\](?:\1\[[2-4]/\2\])+", re.DOTALL)  # all parts of a split character in a row


class Unknown(NamedTuple):
    """The token for text outside the vocabulary."""

    id: int
    name: str

    def of(self, characters: str) -> str:
        """Return the token for these characters, "[UNK:猫]", or the bare name if they are empty or equal to it."""
        characters = characters.strip()
        if characters in ("", self.name):
            return self.name
        inside = f":{shorten(characters, LONGEST_UNKNOWN)}"
        return self.name[:-1] + inside + self.name[-1] if self.name[-1] in ">]" else f"[{self.name}{inside}]"


@dataclass(frozen=True)
class Notation:
    """The way a vocabulary writes its pieces.

    of_bytes: each character of a piece stands for a byte (byte-level BPE). spaced: "▁" stands for a space. added:
    tokens added to the vocabulary, which are written unchanged.
    """

    of_bytes: bool = False
    spaced: bool = False
    unknown: Unknown | None = None
    added: frozenset[str] = frozenset()

    @classmethod
    def of(cls, backend: "Backend") -> "Notation":
        """Return a tokenizer's notation, found from its pre-tokenizer and its decoder."""
        steps = description(backend.pre_tokenizer) + description(backend.decoder)
        return cls(
            of_bytes='"ByteLevel"' in steps,
            spaced=SPACED in steps or json.dumps(SPACED) in steps,
            unknown=unknown_of(backend),
            added=frozenset(token.content for token in backend.get_added_tokens_decoder().values()),
        )

    def read(self, pieces: Sequence[str], special: Sequence[bool]) -> list[str]:
        """Return the pieces of a text as a reader sees them. Unknown tokens are not resolved."""
        if self.of_bytes:
            literal = [flag or piece in self.added for piece, flag in zip(pieces, special, strict=True)]
            return from_bytes(pieces, literal)
        if self.spaced:
            return [p if flag else p.replace(SPACED, " ") for p, flag in zip(pieces, special, strict=True)]
        return list(pieces)


def description(step: Any) -> str:
    """Serialize a tokenizer's step; return "" for None, or for a step in Python, which can't be saved."""
    try:
        return "" if step is None else step.__getstate__().decode("utf-8")
    except Exception:  # noqa: BLE001 (the only kind that `tokenizers` raises)
        return ""


def unknown_of(backend: "Backend") -> Unknown | None:
    """Return a tokenizer's unknown token, or None. It is found by trying, since not every model declares it."""
    try:
        with quiet_panics():
            found = backend.model.tokenize(NOWHERE)
    except Exception:  # noqa: BLE001 (as above: a model that needs an unknown token and has none)
        return None
    name = backend.id_to_token(found[0].id) if len(found) == 1 else None
    return Unknown(found[0].id, name) if name and name != NOWHERE else None


def characters(token: str) -> str:
    """Return a displayed token without the unknown token's name: "猫" for "[UNK:猫]"."""
    marked = MARKED.fullmatch(token)
    return marked[2] if marked else token


def unknown_name(token: str) -> str | None:
    """Return the model's name of a displayed unknown token, "[UNK]"; None for any other token."""
    marked = MARKED.fullmatch(token)
    return marked[1] + marked[3] if marked else None


def read_without_notation(pieces: Sequence[str], special: Sequence[bool]) -> list[str]:
    """Return pieces as a reader sees them, of a tokenizer that is not known: byte-level if a piece begins with "Ġ"."""
    of_bytes = any(piece.startswith(BYTE_SPACE) for piece in pieces)
    return Notation(of_bytes=of_bytes, spaced=not of_bytes).read(pieces, special)


# --- byte-level pieces ------------------------------------------------------------------------------------


# The byte of each character of byte-level BPE. Printable bytes are their own characters; the rest follow 255
# (Radford et al. 2019; `bytes_to_unicode` in GPT-2's own code).
_PRINTED = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
_OTHERS = sorted(set(range(256)) - set(_PRINTED))
BYTES = {chr(byte): byte for byte in _PRINTED} | {chr(256 + place): byte for place, byte in enumerate(_OTHERS)}


def from_bytes(pieces: Sequence[str], literal: Sequence[bool]) -> list[str]:
    """Return the texts of byte-level pieces. Literal pieces are returned unchanged."""
    texts: list[str] = []
    cut: list[str] = []  # adjacent pieces that begin or end inside a character
    for piece, flag in zip(pieces, literal, strict=True):
        text = piece if flag else decode_piece(piece)
        if text is None:
            cut.append(piece)
            continue
        if cut:
            texts += split_characters(cut)
            cut = []
        texts.append(text)
    return texts + split_characters(cut)


@lru_cache(maxsize=2**16)
def decode_piece(piece: str) -> str | None:
    """Return the text of a piece; None if it begins or ends inside a character.

    A piece with characters that stand for no byte is unchanged.
    """
    try:
        return bytes(BYTES[letter] for letter in piece).decode("utf-8")
    except KeyError:
        return piece
    except UnicodeDecodeError:
        return None


def split_characters(pieces: Sequence[str]) -> list[str]:
    """Return the texts of adjacent pieces that begin or end inside a character.

    A byte that belongs to no valid character is shown as "<0xE4>".
    """
    data = bytes(BYTES[letter] for piece in pieces for letter in piece)
    owners = [number for number, piece in enumerate(pieces) for _ in piece]
    texts = [""] * len(pieces)
    start = 0
    while start < len(data):
        character = first_character(data[start : start + 4])
        stop = start + (len(character.encode("utf-8")) or 1)
        over = list(dict.fromkeys(owners[start:stop]))
        for part, number in enumerate(over, start=1):
            mark = f"[{part}/{len(over)}]" if len(over) > 1 else ""
            texts[number] += (character or f"<0x{data[start]:02X}>") + mark
        start = stop
    return texts


def first_character(data: bytes) -> str:
    """Return the character at the beginning of these bytes; "" if there is none."""
    for size in range(1, len(data) + 1):
        try:
            return data[:size].decode("utf-8")
        except UnicodeDecodeError:
            pass
    return ""


def joined(texts: Sequence[str]) -> str:
    """Join tokens to one text. The parts of a split character become the character again."""
    text = "".join(texts)
    return PARTS.sub(r"\1", text) if "[1/" in text else text


# --- tokens --------------------------------------------------------------------------------------------


class Unreadable(RequestError):  # noqa: N818  (an adjective)
    """Raised for a text that this tokenizer can't tokenize, though it can tokenize others."""


class NothingKept(Unreadable):
    """Raised for a text that the tokenizer drops completely."""


@dataclass(frozen=True, repr=False)
class Tokens(Brief):
    """One text (or pair of texts) as the model sees it. All lists have one entry per token.

    text: the vocabulary's strings ("[CLS]", "the", "##s").
    ids: their numbers in the vocabulary.
    segments: 0 for the first text, 1 for the second.
    words: the number, from 0, of the token's word; None for special tokens.
    offsets: the characters [start, end) of its own text; (0, 0) for special tokens.
    special: True for tokens that the tokenizer added ([CLS], [SEP], [PAD]).
    padding: True for [PAD].
    shown: the token for a reader (`attncli.text.tokens`): " grüßt" for "ĠgrÃ¼ÃŁt", "[UNK:猫]" for "[UNK]". By default
    made from `text` alone.
    written: the text from the token's beginning to the next token's, so that together they are the original text; ""
    for special tokens, and if unknown.
    """

    text: list[str]
    ids: list[int]
    segments: list[int]
    words: list[int | None]
    offsets: list[tuple[int, int]]
    special: list[bool]
    padding: list[bool]
    shown: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.shown:
            object.__setattr__(self, "shown", read_without_notation(self.text, self.special))
        if not self.written:
            object.__setattr__(self, "written", [""] * len(self.text))

    def __len__(self) -> int:
        return len(self.text)

    @property
    def first(self) -> int:
        """Return the index of the first token that is not [PAD]."""
        return self.padding.index(False) if False in self.padding else 0

    @property
    def real(self) -> list[int]:
        """Return the indices of the tokens that are not [PAD]."""
        return [place for place, padding in enumerate(self.padding) if not padding]

    @property
    def positions(self) -> Ints:
        """Return the positions of the tokens: 0, 1, 2, ... from the first that is not [PAD], and 0 before it."""
        found: Ints = np.maximum(np.arange(len(self)) - self.first, 0)
        return found

    @property
    def lists(self) -> dict[str, list[Any]]:
        """Return the fields by name. Each has one entry per token."""
        return {one.name: getattr(self, one.name) for one in fields(Tokens)}

    def take(self, places: Iterable[int]) -> "Tokens":
        """Return the tokens at these indices, in this order."""
        chosen = list(places)
        return replace(self, **{name: [part[place] for place in chosen] for name, part in self.lists.items()})

    def joined(self, *others: "Tokens") -> "Tokens":
        """Return these tokens followed by the others."""
        every = [tokens.lists for tokens in (self, *others)]
        return Tokens(**{name: [entry for one in every for entry in one[name]] for name in every[0]})

    @property
    def plain(self) -> "Tokens":
        """Return the tokens without the other half of an encoder-decoder."""
        return self if type(self) is Tokens else Tokens(**self.lists)

    @property
    def output_tokens(self) -> "Tokens":
        """Return the tokens whose vectors the network's last layer outputs. In an encoder-decoder they are the
        decoder's.
        """
        return self

    @property
    def sizes(self) -> tuple[int, int]:
        """Return the number of tokens, and the number in the other half of an encoder-decoder."""
        return len(self), 0


@dataclass(frozen=True, repr=False)
class EncoderInput(Tokens):
    """The input of an encoder, together with the input of its decoder.

    labels: for each token of the decoder's input, the id of the next token.
    """

    decoder_input: Tokens = field(kw_only=True)
    labels: list[int] = field(kw_only=True)

    @property
    def output_tokens(self) -> Tokens:
        return self.decoder_input

    @property
    def sizes(self) -> tuple[int, int]:
        return len(self), len(self.decoder_input)


@dataclass(frozen=True, repr=False)
class DecoderInput(Tokens):
    """The input of a decoder, together with the input of its encoder. labels: as in `EncoderInput`."""

    encoder_input: Tokens = field(kw_only=True)
    labels: list[int] = field(kw_only=True)

    @property
    def sizes(self) -> tuple[int, int]:
        return len(self), len(self.encoder_input)


def tokens_of(encoding: "Encoding", notation: Notation | None = None, *texts: str | None) -> Tokens:
    """Convert the encoding of a text or a pair of texts from `tokenizers` to Tokens.

    notation: the notation of its vocabulary, and texts: the encoded texts, if known.
    """
    segments: list[int] = []
    for kind, part in zip(encoding.type_ids, encoding.sequence_ids, strict=True):
        # RoBERTa's tokenizer gives every token type 0. A separator belongs to the text that it ends.
        segments.append(max(kind, part if part is not None else segments[-1] if segments else 0))
    special = [bool(flag) for flag in encoding.special_tokens_mask]
    shown = [] if notation is None else notation.read(encoding.tokens, special)
    if notation is not None and notation.unknown is not None and notation.unknown.id in encoding.ids:
        where = zip(encoding.ids, special, encoding.sequence_ids, encoding.offsets, strict=True)
        for place, (number, added, part, (start, end)) in enumerate(where):
            if number == notation.unknown.id and not added:
                source = texts[part] if part is not None and texts else None
                shown[place] = notation.unknown.of((source or "")[start:end])
    tokens = Tokens(
        text=list(encoding.tokens),
        ids=list(encoding.ids),
        segments=segments,
        words=words_of(encoding),
        offsets=list(encoding.offsets),
        special=special,
        padding=[False] * len(special),
        shown=shown,
        written=original_texts(encoding, texts),
    )
    return join_white_space(tokens, frozenset() if notation is None else notation.added)


def original_texts(encoding: "Encoding", texts: Sequence[str | None]) -> list[str]:
    """Return the original text of each token. The first includes everything that the tokenizer skipped before it."""
    found = [""] * len(encoding)
    parts, offsets = encoding.sequence_ids, encoding.offsets
    for number, text in enumerate(texts):
        places = [place for place, part in enumerate(parts) if part == number]
        if text is None or not places:
            continue
        bounds = [0, *(offsets[place][0] for place in places[1:]), offsets[places[-1]][1]]
        for place, (start, end) in zip(places, pairwise(bounds), strict=True):
            found[place] = text[start:end]
    return found


def check_text(text: str) -> None:
    """Raises NothingKept if a text is empty or only spaces, and Unreadable if it is not valid Unicode."""
    if not text or text.isspace():
        raise NothingKept('the text is empty: give a sentence, as in attncli run "The cat sat."')
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Unreadable(f"the text is not valid UTF-8 at character {error.start}") from error


# --- words ---------------------------------------------------------------------------------------------


CONTINUED = "##"  # WordPiece: this piece continues the word (Wu et al. 2016)


def word_groups(tokens: Tokens) -> list[list[int]]:
    """Return the tokens of each word in order: neighbours with the same word number in the same segment.

    Each token that the tokenizer added ([CLS], [SEP], [PAD]) is a separate group.
    """
    groups: list[list[int]] = []
    last: tuple[int, int] | None = None
    for place, (segment, word) in enumerate(zip(tokens.segments, tokens.words, strict=True)):
        if word is not None and (segment, word) == last:
            groups[-1].append(place)
        else:
            groups.append([place])
        last = None if word is None else (segment, word)
    return groups


def word_texts(tokens: Tokens, groups: Sequence[list[int]]) -> list[str]:
    """Return words as text: their pieces joined, without the vocabulary's marks."""
    spaced = any(token.startswith(" ") for token in tokens.shown)  # then the vocabulary does not mark continuations
    texts = []
    for group in groups:
        pieces, special = [tokens.shown[place] for place in group], tokens.special[group[0]]
        if not special and not spaced:
            pieces[1:] = [piece.removeprefix(CONTINUED) for piece in pieces[1:]]
        text = joined(pieces)
        texts.append(text if special else text.strip() or text)
    return texts


def text_between(tokens: Tokens, start: int, end: int) -> str:
    """Return the words of the tokens [start, end), with spaces between words that are not adjacent in the text."""
    part = tokens.take(range(start, end))
    groups = word_groups(part)
    text = ""
    for group, word in zip(groups, word_texts(part, groups), strict=True):
        touches = group[0] > 0 and part.offsets[group[0]][0] == part.offsets[group[0] - 1][1]
        apart = not touches or part.shown[group[0]].startswith(" ")
        text += f" {word}" if text and apart else word
    return text


def word_tokens(tokens: Tokens) -> Tokens:
    """Merge the tokens of each word. A word has the id of its first piece."""
    groups = word_groups(tokens)
    texts = word_texts(tokens, groups)
    return replace(
        tokens.plain.take(group[0] for group in groups),
        text=texts,
        offsets=[(tokens.offsets[group[0]][0], tokens.offsets[group[-1]][1]) for group in groups],
        shown=texts,
        written=["".join(tokens.written[place] for place in group) for group in groups],
    )


# --- tokens from other programs ------------------------------------------------------------------------


WORD_MARKS = (SPACED, BYTE_SPACE)
# Names of the tokens that tokenizers add, in any case. Tokens that replace a word (<mask>, <unk>) are not listed.
PADDING = {"[pad]", "<pad>", "<|pad|>", "<|padding|>", "<|finetune_right_pad_id|>"}
ADDED = {
    "[cls]", "[sep]", "[bos]", "[eos]", "[start]", "[end]", "<s>", "</s>", "<cls>", "<sep>", "<bos>", "<eos>",
    "<|endoftext|>", "<|startoftext|>", "<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|im_start|>",
    "<|im_end|>", "<|startoftranscript|>",
}  # fmt: skip
UNKNOWN_ID = -1
ASCII_BYTE = re.compile("<0x([0-7][0-9A-F])>")  # as sentencepiece writes it


@dataclass(frozen=True)
class Pieces:
    """The fields of an `Encoding` of `tokenizers`, for texts without one or to complete one."""

    tokens: list[str]
    ids: list[int]
    type_ids: list[int]
    sequence_ids: list[int | None]
    special_tokens_mask: list[int]
    word_ids: list[int | None]
    offsets: list[tuple[int, int]]

    def __len__(self) -> int:
        return len(self.tokens)


def followed(tokens: Tokens, pieces: Any, notation: Notation, backend: Any) -> Tokens:
    """Return a text's tokens followed by generated `Pieces`, with the word boundaries of the complete text.

    backend: the tokenizer's.
    """
    if not len(pieces):
        return tokens
    new = tokens_of(pieces, notation)
    whole = tokens.joined(new)
    texts = [None if flag else 0 for flag in whole.special]
    cut = getattr(backend, "pre_tokenizer", None) if notation.of_bytes else None
    numbers: Sequence[int | None]
    if cut is None:
        numbers = word_numbers(whole.text, texts)
    else:
        alone = [flag or piece in notation.added for piece, flag in zip(whole.text, whole.special, strict=True)]
        numbers = byte_words(whole.text, alone, cut)
    start = len(tokens)
    while start and not tokens.special[start - 1] and is_white_space(tokens.shown[start - 1]):
        start -= 1  # it belongs to the word after it
    before, known = (
        max((number for number in some[:start] if number is not None), default=-1) for some in (numbers, tokens.words)
    )
    shift = known - before
    words = [
        None if number is None or text is None else number + shift for number, text in zip(numbers, texts, strict=True)
    ]
    return join_white_space(replace(whole, words=[*tokens.words[:start], *words[start:]]), notation.added)


def byte_words(pieces: Sequence[str], alone: Sequence[bool], pre_tokenizer: Any) -> list[int]:
    """Return the word number of each byte-level piece: that of the pre-tokenizer's word in which the piece begins.

    alone: pieces that belong to no word, such as special tokens.
    """
    numbers: list[int] = []
    apart = [flag or not set(piece) <= BYTES.keys() for piece, flag in zip(pieces, alone, strict=True)]
    for flag, group in groupby(zip(apart, pieces, strict=True), itemgetter(0)):
        run = [piece for _, piece in group]
        first = numbers[-1] + 1 if numbers else 0
        if flag:
            numbers += range(first, first + len(run))
            continue
        data = [bytes(BYTES[letter] for letter in piece) for piece in run]
        text = b"".join(data).decode("utf-8", "surrogateescape")
        ends = np.cumsum([len(letter.encode("utf-8", "surrogateescape")) for letter in text])
        begins = np.searchsorted(
            ends, np.cumsum([0, *map(len, data[:-1])]), side="right"
        )  # the first character of each piece
        words = pre_tokenizer.pre_tokenize_str(re.sub("[\ud800-\udfff]", "\ufffd", text))
        numbers += (first - 1 + np.searchsorted([start for _, (start, _) in words], begins, side="right")).tolist()
    return numbers


def words_of(encoding: Any) -> list[int | None]:
    """Return the word number of each token of an encoding. Llama's tokenizer marks words only in its pieces."""
    if not any(token.startswith(SPACED) for token in encoding.tokens):
        return list(encoding.word_ids)
    marked = word_numbers(encoding.tokens, encoding.sequence_ids)
    both = list(zip(encoding.sequence_ids, marked, encoding.word_ids, strict=True))
    last: dict[int, int] = {}
    numbers: list[int | None] = []
    for place, (text, mark, _) in enumerate(both):
        if text is not None and mark is not None:
            last[text] = last.get(text, -1) + (place == 0 or both[place] != both[place - 1])
        numbers.append(None if text is None else last[text])
    return numbers


def word_numbers(tokens: Sequence[str], texts: Sequence[int | None]) -> list[int | None]:
    """Return the word number of each token from the marks in the pieces; None where `texts` has None.

    "▁" (sentencepiece) and "Ġ" (byte-level) begin a word, and so do punctuation and what follows it. If no piece has a
    mark, every piece except "##" (WordPiece) begins one.
    """
    marked = any(token.startswith(WORD_MARKS) for token in tokens)
    shown = read_without_notation(tokens, [False] * len(tokens))
    last: dict[int, int] = {}
    numbers: list[int | None] = []
    apart = True  # separate from the previous piece
    for token, text, as_read in zip(tokens, texts, shown, strict=True):
        if text is None:
            numbers.append(None)
            apart = True
            continue
        no_word = is_no_word(as_read)
        begins = apart or no_word or token.startswith(WORD_MARKS) if marked else not token.startswith(CONTINUED)
        last[text] = last.get(text, -1) + (begins or text not in last)
        numbers.append(last[text])
        apart = no_word
    return numbers


def is_white_space(token: str) -> bool:
    """Return True for a displayed token that is only white space."""
    return _decode_ascii_byte(token).isspace()


def is_no_word(token: str) -> bool:
    """Return True for a displayed token that is only punctuation or white space."""
    return all(is_punctuation(one) or one.isspace() for one in _decode_ascii_byte(token))


def _decode_ascii_byte(token: str) -> str:
    """Return a displayed token, with an ASCII byte as its character: "," for "<0x2C>"."""
    byte = ASCII_BYTE.fullmatch(token) if token.startswith("<0x") else None
    return chr(int(byte[1], 16)) if byte else token


def is_punctuation(character: str) -> bool:
    """Return True for Unicode punctuation and every ASCII mark ("$", "+"), as BERT's tokenizer does (Devlin et al.
    2019).
    """
    if character.isascii():
        return not character.isalnum() and character.isprintable() and not character.isspace()
    return unicodedata.category(character).startswith("P")


def join_white_space(tokens: Tokens, added: frozenset[str] = frozenset()) -> Tokens:
    """Return tokens with white space assigned to the next word, or at the end of a text to the previous one.

    added: tokens that get no white space.
    """
    words = list(tokens.words)
    ends = [word is None or piece in added for word, piece in zip(words, tokens.text, strict=True)]
    blank = [not end and is_white_space(shown) for end, shown in zip(ends, tokens.shown, strict=True)]
    if not any(blank):
        return tokens
    for is_blank, group in groupby(range(len(words)), blank.__getitem__):
        if is_blank:
            first, *_ = run = list(group)
            for near in (run[-1] + 1, first - 1):
                same = 0 <= near < len(words) and not ends[near] and tokens.segments[near] == tokens.segments[first]
                if same:
                    words[first : run[-1] + 1] = [words[near]] * len(run)
                    break
    counted: dict[int, dict[int, int]] = {segment: {} for segment in tokens.segments}  # renumbered without gaps
    for place, (segment, word) in enumerate(zip(tokens.segments, words, strict=True)):
        words[place] = None if word is None else counted[segment].setdefault(word, len(counted[segment]))
    return replace(tokens, words=words)


def named_pieces(text: Sequence[str], segments: Sequence[int] | None = None) -> Tokens:
    """Build Tokens from the vocabulary's strings alone.

    Special tokens and padding are recognized by name ([CLS], <s>, <pad>, ...), words by the marks of their pieces
    (`word_numbers`). All tokens belong to the first text unless `segments` assigns them. Ids are UNKNOWN_ID and offsets
    (0, 0).
    """
    segments = [0] * len(text) if segments is None else segments
    padding = [piece.lower() in PADDING for piece in text]
    special = [piece.lower() in ADDED or pad for piece, pad in zip(text, padding, strict=True)]
    of_text = [None if flag else segment for flag, segment in zip(special, segments, strict=True)]
    tokens = Tokens(
        text=list(text),
        ids=[UNKNOWN_ID] * len(text),
        segments=list(segments),
        words=word_numbers(text, of_text),
        offsets=[(0, 0)] * len(text),
        special=special,
        padding=padding,
    )
    return join_white_space(tokens)


def encoded(encoding: Any) -> Tokens:
    """Convert an `Encoding` of `tokenizers` that may be padded: tokens outside its attention mask are padding."""
    tokens = tokens_of(encoding)
    padding = [not seen for seen in encoding.attention_mask]
    segments = [0 if pad else segment for pad, segment in zip(padding, tokens.segments, strict=True)]
    return replace(tokens, padding=padding, segments=segments)


MASK_TOKENS = ("[MASK]", "<mask>", "<|mask|>")  # names of the mask token in vocabularies


def mask_positions(tokens: Tokens) -> list[int]:
    """Return the positions of [MASK]."""
    return [place for place, token in enumerate(tokens.text) if token in MASK_TOKENS]
