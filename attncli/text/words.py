"""Words put together from their pieces: which tokens are of one word, and how a reader spells it."""

from collections.abc import Sequence

from attncli.text.tokens import Tokens

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
    """Byte-level BPE's characters, one a byte, as the text they encode; what is no UTF-8 becomes "�".

    A character that stands for no byte stands for itself.
    """
    from tokenizers.decoders import ByteLevel  # here: few texts need it

    decoded: str = ByteLevel().decode(list(text))  # one by one, so that a strange one does not keep the rest as it is
    return decoded


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
