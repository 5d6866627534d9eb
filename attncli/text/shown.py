"""How a reader sees tokens: as the text that they stand for, where the vocabulary writes it in its own way.

byte-level BPE  "ĠgrÃ¼ÃŁt" is " grüßt"; where a character is cut over several tokens, each shows it and says which part
                of it the token is: "🙂[1/2]", "🙂[2/2]"
SentencePiece   "▁the" is " the"; its bytes are "<0xE4>" already
unknown tokens  "[UNK]" is "[UNK:猫]", with the characters that the vocabulary has no token for

WordPiece's "##s" is left, which is how it is usually written, and so are special tokens.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from attncli.base.panics import quiet_panics
from attncli.base.printable import shorten

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

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
