"""Tokens from what other programs say of them: a tokenizer's output, or nothing but the pieces' names."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from attncli.text.shown import BYTE_SPACE, SPACED
from attncli.text.tokens import Tokens, tokens_of
from attncli.text.words import CONTINUED

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
