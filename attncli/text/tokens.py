"""Tokens: a text, or a pair of texts, as a model sees it; as a reader sees it; and its words.

byte-level BPE  "ĠgrÃ¼ÃŁt" is " grüßt"; where a character is cut over several tokens, each shows it and says which part
                of it the token is: "🙂[1/2]", "🙂[2/2]"
SentencePiece   "▁the" is " the"; its bytes are "<0xE4>" already
unknown tokens  "[UNK]" is "[UNK:猫]", with the characters that the vocabulary has no token for

WordPiece's "##s" is left, which is how it is usually written, and so are special tokens.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from attncli.base.brief import Brief
from attncli.base.errors import RequestError, quiet_panics
from attncli.base.printable import shorten

if TYPE_CHECKING:
    from tokenizers import Encoding
    from tokenizers import Tokenizer as Backend


# --- how a reader sees tokens --------------------------------------------------------------------------


SPACED = "▁"  # SentencePiece: a space stands before this piece (Kudo and Richardson 2018)
BYTE_SPACE = "Ġ"  # byte-level BPE: the printable character that stands for the byte of a space
LONGEST_UNKNOWN = 8  # characters of an unknown token that are shown
NOWHERE = "\U0010fffd"  # a character for nobody's use, which no vocabulary has
MARKED = re.compile(r"([<\[]\w+):(.+)([>\]])", re.DOTALL)  # an unknown token with its characters
PARTS = re.compile(r"(.)\[1/([2-4])\](?:\1\[[2-4]/\2\])+", re.DOTALL)  # a cut character whose parts stand together


class Unknown(NamedTuple):
    """The token for what a vocabulary does not have."""

    id: int
    name: str

    def of(self, characters: str) -> str:
        """The token for these characters: "[UNK:猫]". The name alone for none, or where they are its name."""
        characters = characters.strip()
        if characters in ("", self.name):
            return self.name
        inside = f":{shorten(characters, LONGEST_UNKNOWN)}"
        return self.name[:-1] + inside + self.name[-1] if self.name[-1] in ">]" else f"[{self.name}{inside}]"


@dataclass(frozen=True)
class Notation:
    """How a vocabulary writes its pieces.

    of_bytes: a character of a piece stands for a byte (byte-level BPE). spaced: "▁" stands for a space.
    added: tokens that were added to the vocabulary, and are written as they are.
    """

    of_bytes: bool = False
    spaced: bool = False
    unknown: Unknown | None = None
    added: frozenset[str] = frozenset()

    @classmethod
    def of(cls, backend: "Backend") -> "Notation":
        """A tokenizer's, by what it cuts texts with and what it puts them together with again."""
        said = description(backend.pre_tokenizer) + description(backend.decoder)
        return cls(
            of_bytes='"ByteLevel"' in said,
            spaced=SPACED in said or json.dumps(SPACED) in said,
            unknown=unknown_of(backend),
            added=frozenset(token.content for token in backend.get_added_tokens_decoder().values()),
        )

    def read(self, pieces: Sequence[str], special: Sequence[bool]) -> list[str]:
        """The pieces of a text as a reader sees them; unknown tokens are not looked for."""
        if self.of_bytes:
            literal = [flag or piece in self.added for piece, flag in zip(pieces, special, strict=True)]
            return from_bytes(pieces, literal)
        if self.spaced:
            return [p if flag else p.replace(SPACED, " ") for p, flag in zip(pieces, special, strict=True)]
        return list(pieces)


def description(step: Any) -> str:
    """A tokenizer's step in its own words; nothing of none, or of one that is written in Python and can't be saved."""
    try:
        return "" if step is None else step.__getstate__().decode("utf-8")
    except Exception:  # noqa: BLE001 (the only kind that `tokenizers` raises)
        return ""


def unknown_of(backend: "Backend") -> Unknown | None:
    """A tokenizer's unknown token, or None where it has none. Found by trying: not every model says so."""
    try:
        with quiet_panics():
            found = backend.model.tokenize(NOWHERE)
    except Exception:  # noqa: BLE001 (as above: a model that needs an unknown token and has none)
        return None
    name = backend.id_to_token(found[0].id) if len(found) == 1 else None
    return Unknown(found[0].id, name) if name and name != NOWHERE else None


def characters(token: str) -> str:
    """A token as it is shown, without the mark of an unknown one: "猫" of "[UNK:猫]"."""
    marked = MARKED.fullmatch(token)
    return marked[2] if marked else token


def unknown_name(token: str) -> str | None:
    """What the model reads for an unknown token as it is shown, "[UNK]"; None of any other token."""
    marked = MARKED.fullmatch(token)
    return marked[1] + marked[3] if marked else None


def by_themselves(pieces: Sequence[str], special: Sequence[bool]) -> list[str]:
    """Pieces of a tokenizer that nothing is known of: it is byte-level if one begins with "Ġ"."""
    of_bytes = any(piece.startswith(BYTE_SPACE) for piece in pieces)
    return Notation(of_bytes=of_bytes, spaced=not of_bytes).read(pieces, special)


# --- pieces that are written in bytes ---------------------------------------------------------------------


def letters_of_bytes() -> dict[str, int]:
    """Byte-level BPE's characters and their bytes: what prints is itself, the rest follows from 256 on.

    (Radford et al. 2019; `bytes_to_unicode` in GPT-2's own code.)
    """
    printed = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printed]
    return {chr(byte): byte for byte in printed} | {chr(256 + place): byte for place, byte in enumerate(others)}


BYTES = letters_of_bytes()


def from_bytes(pieces: Sequence[str], literal: Sequence[bool]) -> list[str]:
    """The texts of pieces that are written in bytes, save the literal ones."""
    texts: list[str] = []
    cut: list[str] = []  # neighbours that each begin or end within a character
    for piece, flag in zip(pieces, literal, strict=True):
        text = piece if flag else whole(piece)
        if text is None:
            cut.append(piece)
            continue
        if cut:
            texts += parts(cut)
            cut = []
        texts.append(text)
    return texts + parts(cut)


@lru_cache(maxsize=2**16)
def whole(piece: str) -> str | None:
    """The text of a piece; None where it begins or ends within a character. What stands for no byte is itself."""
    try:
        return bytes(BYTES[letter] for letter in piece).decode("utf-8")
    except KeyError:
        return piece
    except UnicodeDecodeError:
        return None


def parts(pieces: Sequence[str]) -> list[str]:
    """The texts of neighbours that each begin or end within a character; a byte of no character is "<0xE4>"."""
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
    """The character that these bytes begin with; nothing where they begin with none."""
    for size in range(1, len(data) + 1):
        try:
            return data[:size].decode("utf-8")
        except UnicodeDecodeError:
            pass
    return ""


def joined(texts: Sequence[str]) -> str:
    """Tokens as one text: the parts of a character are the character again."""
    text = "".join(texts)
    return PARTS.sub(r"\1", text) if "[1/" in text else text


# --- tokens --------------------------------------------------------------------------------------------


class Unreadable(RequestError):  # noqa: N818  (it says what is the case)
    """A text that can't be made tokens of, though others can."""


class NothingKept(Unreadable):
    """A text in which a tokenizer finds nothing."""


@dataclass(frozen=True, repr=False)
class Tokens(Brief):
    """One text (or pair of texts) as the model sees it. All lists are one entry a token.

    text: the vocabulary's strings ("[CLS]", "the", "##s").
    ids: their numbers in the vocabulary.
    segments: 0 for the first text, 1 for the second.
    words: which word of its text the token is a piece of, counted from 0; None for special tokens.
    offsets: the characters [start, end) of its own text that it stands for; (0, 0) for special tokens.
    special: True for what the tokenizer added ([CLS], [SEP], [PAD]).
    padding: True for [PAD].
    shown: how a reader sees it (`attncli.text.tokens`): " grüßt" for "ĠgrÃ¼ÃŁt", "[UNK:猫]" for "[UNK]". Where none are
    given they are made of `text` alone.
    written: what its text says from where the token begins to where the next one does, so that together they are the
    text as it was written; "" of special tokens, and where it is not known.
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
            object.__setattr__(self, "shown", by_themselves(self.text, self.special))
        if not self.written:
            object.__setattr__(self, "written", [""] * len(self.text))

    def __len__(self) -> int:
        return len(self.text)

    @property
    def lists(self) -> dict[str, list[Any]]:
        """The fields by name, one entry a token each."""
        return {one.name: getattr(self, one.name) for one in fields(Tokens)}

    def take(self, places: Iterable[int]) -> "Tokens":
        """Those at these places, in this order."""
        chosen = list(places)
        return replace(self, **{name: [part[place] for place in chosen] for name, part in self.lists.items()})

    def then(self, *others: "Tokens") -> "Tokens":
        """These, and the others after them."""
        every = [tokens.lists for tokens in (self, *others)]
        return Tokens(**{name: [entry for one in every for entry in one[name]] for name in every[0]})

    @property
    def plain(self) -> "Tokens":
        """The tokens by themselves, without another half."""
        return self if type(self) is Tokens else Tokens(**self.lists)

    @property
    def spoken(self) -> "Tokens":
        """The tokens whose vectors come out of a network's last layer: of an encoder-decoder, its decoder's."""
        return self

    @property
    def sizes(self) -> tuple[int, int]:
        """How many tokens there are, and how many of the other half of an encoder-decoder."""
        return len(self), 0


@dataclass(frozen=True, repr=False)
class Read(Tokens):
    """What the encoder of an encoder-decoder reads, with what its decoder is fed.

    goal: the number of the token that the decoder is to write after each that it is fed.
    """

    fed: Tokens = field(kw_only=True)
    goal: list[int] = field(kw_only=True)

    @property
    def spoken(self) -> Tokens:
        return self.fed

    @property
    def sizes(self) -> tuple[int, int]:
        return len(self), len(self.fed)


@dataclass(frozen=True, repr=False)
class Fed(Tokens):
    """What the decoder of an encoder-decoder is fed, with what its encoder has read. goal: as of `Read`."""

    read: Tokens = field(kw_only=True)
    goal: list[int] = field(kw_only=True)

    @property
    def sizes(self) -> tuple[int, int]:
        return len(self), len(self.read)


def tokens_of(encoding: "Encoding", notation: Notation | None = None, *texts: str | None) -> Tokens:
    """What `tokenizers` found in a text, or a pair of texts, in this program's words.

    notation: of its vocabulary, and texts: what it was given, where these are known.
    """
    segments: list[int] = []
    for kind, part in zip(encoding.type_ids, encoding.sequence_ids, strict=True):
        # RoBERTa's tokenizer calls every token type 0; what a separator ends, it belongs to.
        segments.append(max(kind, part if part is not None else segments[-1] if segments else 0))
    special = [bool(flag) for flag in encoding.special_tokens_mask]
    shown = [] if notation is None else notation.read(encoding.tokens, special)
    if notation is not None and notation.unknown is not None and notation.unknown.id in encoding.ids:
        where = zip(encoding.ids, special, encoding.sequence_ids, encoding.offsets, strict=True)
        for place, (number, added, part, (start, end)) in enumerate(where):
            if number == notation.unknown.id and not added:
                source = texts[part] if part is not None and texts else None
                shown[place] = notation.unknown.of((source or "")[start:end])
    return Tokens(
        text=list(encoding.tokens),
        ids=list(encoding.ids),
        segments=segments,
        words=list(encoding.word_ids),
        offsets=list(encoding.offsets),
        special=special,
        padding=[False] * len(special),
        shown=shown,
        written=written(encoding, texts),
    )


def written(encoding: "Encoding", texts: Sequence[str | None]) -> list[str]:
    """What was written for each token of these texts: the first has what the tokenizer passed over before it, too."""
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
    """Raises NothingKept when a text is empty or only spaces, Unreadable when it is not valid Unicode."""
    if not text or text.isspace():
        raise NothingKept('the text is empty: give a sentence, as in attncli run "The cat sat."')
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Unreadable(f"the text is not valid UTF-8 at character {error.start}") from error


# --- words ---------------------------------------------------------------------------------------------


CONTINUED = "##"  # WordPiece: this piece goes on where the last one ended (Wu et al. 2016)


def word_groups(tokens: Tokens) -> list[list[int]]:
    """The tokens of each word, in order: neighbours with the same word number in the same segment.

    What the tokenizer added ([CLS], [SEP], [PAD]) stands alone.
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
    """Words as a reader knows them: what their pieces show, without the marks of the vocabulary."""
    spaced = any(token.startswith(" ") for token in tokens.shown)  # such a vocabulary has no mark for going on
    return [word_text([tokens.shown[place] for place in group], tokens.special[group[0]], spaced) for group in groups]


def word_text(pieces: Sequence[str], special: bool, spaced: bool) -> str:
    """One word of pieces as they are shown."""
    if not special and not spaced:
        pieces = [pieces[0], *(piece.removeprefix(CONTINUED) for piece in pieces[1:])]
    text = joined(pieces)
    return text if special else text.strip() or text


def text_between(tokens: Tokens, start: int, end: int) -> str:
    """What the tokens [start, end) stand for: their words, with a space between those that do not touch in the text."""
    part = tokens.take(range(start, end))
    groups = word_groups(part)
    text = ""
    for group, word in zip(groups, word_texts(part, groups), strict=True):
        touches = group[0] > 0 and part.offsets[group[0]][0] == part.offsets[group[0] - 1][1]
        apart = not touches or part.shown[group[0]].startswith(" ")
        text += f" {word}" if text and apart else word
    return text


def word_tokens(tokens: Tokens) -> Tokens:
    """The words of a text in place of its tokens; a word has the id of its first piece."""
    groups = word_groups(tokens)
    starts = [group[0] for group in groups]
    texts = word_texts(tokens, groups)
    return Tokens(
        text=texts,
        ids=[tokens.ids[start] for start in starts],
        segments=[tokens.segments[start] for start in starts],
        words=[tokens.words[start] for start in starts],
        offsets=[(tokens.offsets[group[0]][0], tokens.offsets[group[-1]][1]) for group in groups],
        special=[tokens.special[start] for start in starts],
        padding=[tokens.padding[start] for start in starts],
        shown=texts,
        written=["".join(tokens.written[place] for place in group) for group in groups],
    )


# --- tokens from other programs ------------------------------------------------------------------------


WORD_MARKS = (SPACED, BYTE_SPACE)
# How tokenizers call what they add to a text, in any case. What stands for a word (<mask>, <unk>) is none of these.
PADDING = {"[pad]", "<pad>", "<|pad|>", "<|padding|>", "<|finetune_right_pad_id|>"}
ADDED = {
    "[cls]", "[sep]", "[bos]", "[eos]", "[start]", "[end]", "<s>", "</s>", "<cls>", "<sep>", "<bos>", "<eos>",
    "<|endoftext|>", "<|startoftext|>", "<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|im_start|>",
    "<|im_end|>", "<|startoftranscript|>",
}  # fmt: skip
UNKNOWN_ID = -1


@dataclass(frozen=True)
class Pieces:
    """What an `Encoding` of `tokenizers` says, in its words, where there is none or it does not say all."""

    tokens: list[str]
    ids: list[int]
    type_ids: list[int]
    sequence_ids: list[int | None]
    special_tokens_mask: list[int]
    word_ids: list[int | None]
    offsets: list[tuple[int, int]]

    def __len__(self) -> int:
        return len(self.tokens)


def with_words(encoding: Any) -> Any:
    """The same, with words where the tokenizer cuts a text into none but marks them in its pieces (Llama)."""
    if len(set(encoding.word_ids) - {None}) > 1 or not any(token.startswith(SPACED) for token in encoding.tokens):
        return encoding
    said = {field.name: getattr(encoding, field.name) for field in fields(Pieces)}
    return Pieces(**{**said, "word_ids": word_numbers(encoding.tokens, encoding.sequence_ids)})


def word_numbers(tokens: Sequence[str], texts: Sequence[int | None]) -> list[int | None]:
    """Which word of its text a token is a piece of, by the marks in the pieces; None where `texts` says none.

    "▁" (sentencepiece) and "Ġ" (byte-level) begin a word; where neither is, all begin one but "##" (WordPiece).
    """
    marked = any(token.startswith(WORD_MARKS) for token in tokens)
    last: dict[int, int] = {}
    numbers: list[int | None] = []
    for token, text in zip(tokens, texts, strict=True):
        if text is not None:
            begins = token.startswith(WORD_MARKS) if marked else not token.startswith(CONTINUED)
            last[text] = last.get(text, -1) + (begins or text not in last)
        numbers.append(None if text is None else last[text])
    return numbers


def named_pieces(
    text: Sequence[str], segments: Sequence[int] | None = None, special: Sequence[bool] | None = None
) -> Tokens:
    """Tokens of which no more is known than how the vocabulary calls them.

    Special tokens and padding are told by their names ([CLS], <s>, <pad>, ...) unless `special` says which they are;
    words by the marks of their pieces (`word_numbers`). All are of the first text unless `segments` says otherwise.
    Numbers in the vocabulary are UNKNOWN_ID, offsets (0, 0).
    """
    segments = [0] * len(text) if segments is None else segments
    padding = [piece.lower() in PADDING for piece in text]
    if special is None:
        special = [piece.lower() in ADDED for piece in text]
    special = [flag or pad for flag, pad in zip(special, padding, strict=True)]
    of_text = [None if flag else segment for flag, segment in zip(special, segments, strict=True)]
    return Tokens(
        text=list(text),
        ids=[UNKNOWN_ID] * len(text),
        segments=list(segments),
        words=word_numbers(text, of_text),
        offsets=[(0, 0)] * len(text),
        special=special,
        padding=padding,
    )


def encoded(encoding: Any) -> Tokens:
    """Tokens from an `Encoding` of `tokenizers` that may have been padded: what it does not attend to is padding."""
    tokens = tokens_of(with_words(encoding))
    padding = [not seen for seen in encoding.attention_mask]
    segments = [0 if pad else segment for pad, segment in zip(padding, tokens.segments, strict=True)]
    return replace(tokens, padding=padding, segments=segments)
