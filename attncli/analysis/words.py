"""Words put together from their pieces: tokens -> words, and maps between words."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from attncli.record import AttentionRecord, Floats
from attncli.text import Tokens

CONTINUED = "##"  # WordPiece: this piece goes on where the last one ended (Wu et al. 2016)
SPACED = "▁"  # SentencePiece: a space stands before this piece (Kudo and Richardson 2018)
BYTE_SPACE = "Ġ"  # byte-level BPE: the printable character that stands for the byte of a space (Radford et al. 2019)


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
    """Words as a reader knows them: their pieces without the marks of the vocabulary."""
    of_bytes = any(token.startswith(BYTE_SPACE) for token in tokens.text)
    return [word_text([tokens.text[place] for place in group], tokens.special[group[0]], of_bytes) for group in groups]


def word_text(pieces: Sequence[str], special: bool, of_bytes: bool) -> str:
    """One word; `of_bytes`: the characters of its pieces stand for bytes."""
    if special:
        return "".join(pieces)
    if of_bytes:
        return decode_bytes("".join(pieces)).strip() or "".join(pieces)
    joined = pieces[0] + "".join(piece.removeprefix(CONTINUED) for piece in pieces[1:])
    return joined.removeprefix(SPACED) or joined


def decode_bytes(text: str) -> str:
    """Byte-level BPE's characters, one a byte, as the text they encode; what is no UTF-8 becomes "�"."""
    alphabet = byte_alphabet()
    return b"".join(
        bytes([alphabet[character]]) if character in alphabet else character.encode("utf-8") for character in text
    ).decode("utf-8", errors="replace")


@cache
def byte_alphabet() -> dict[str, int]:
    """Which byte each character of a byte-level vocabulary stands for.

    Printable bytes stand for themselves, the others are numbered from 256 on (Radford et al. 2019).
    """
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + place): byte for place, byte in enumerate(others)}


def merge_words(record: AttentionRecord) -> AttentionRecord:
    """The record between words instead of pieces; its tokens are words.

    Weights to the pieces of a word add up, weights from them are averaged (Clark et al. 2019, section 4.1), so
    that rows still sum to 1. A word may attend to a word when any of its pieces may to any. Queries and keys
    (`vectors`) are of pieces only and are left out.
    """
    queries, keys = word_groups(record.tokens), word_groups(record.keys)
    rows, columns = [group[0] for group in queries], [group[0] for group in keys]
    sizes = np.array([len(group) for group in queries], dtype=np.float32)
    to_words = np.add.reduceat(record.weights, columns, axis=-1)
    weights: Floats = (np.add.reduceat(to_words, rows, axis=-2) / sizes[:, None]).astype(np.float32)
    some = np.logical_or.reduceat(np.logical_or.reduceat(record.mask, columns, axis=-1), rows, axis=-2)
    return replace(
        record,
        weights=weights,
        tokens=word_tokens(record.tokens),
        key_tokens=None if record.key_tokens is None else word_tokens(record.key_tokens),
        mask=some,
        vectors=None,
    )


def word_tokens(tokens: Tokens) -> Tokens:
    """The words of a text in place of its tokens; a word has the id of its first piece."""
    groups = word_groups(tokens)
    starts = [group[0] for group in groups]
    return Tokens(
        text=word_texts(tokens, groups),
        ids=[tokens.ids[start] for start in starts],
        segments=[tokens.segments[start] for start in starts],
        words=[tokens.words[start] for start in starts],
        offsets=[(tokens.offsets[group[0]][0], tokens.offsets[group[-1]][1]) for group in groups],
        special=[tokens.special[start] for start in starts],
        padding=[tokens.padding[start] for start in starts],
    )
