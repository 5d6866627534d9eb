"""A tokenizer of transformers in the place of one of `tokenizers`."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from attncli.base.errors import RequestError
from attncli.models.transformers_peer import quiet
from attncli.text.shown import Notation, Unknown

WORD_MARKS = ("▁", "Ġ")


class Backend:
    """A tokenizer of transformers in the place of one of `tokenizers`, as far as attncli's own uses that.

    target: cut what a decoder is to write, for which some have another vocabulary or other special tokens.
    """

    def __init__(self, tokenizer: Any, target: bool) -> None:
        self.tokenizer = tokenizer
        self.target = target
        self.longest: int | None = None

    def no_padding(self) -> None:
        """transformers never pads unasked."""

    def no_truncation(self) -> None:
        self.longest = None

    def enable_truncation(self, longest: int) -> None:
        self.longest = longest

    @property
    def notation(self) -> Notation:
        """How its vocabulary writes pieces; one that is not made of `tokenizers` says only some of it."""
        if self.tokenizer.is_fast:
            return Notation.of(self.tokenizer.backend_tokenizer)
        of_bytes, number = hasattr(self.tokenizer, "byte_decoder"), self.tokenizer.unk_token_id
        unknown = None if number is None else Unknown(number, self.tokenizer.unk_token)
        return Notation(of_bytes, not of_bytes, unknown, frozenset(self.tokenizer.get_added_vocab()))

    def id_to_token(self, number: int) -> str:
        return self.tokenizer.convert_ids_to_tokens(number)

    def encode(self, text: str, pair: str | None = None) -> Any:
        texts = {"text_target": text} if self.target else {"text": text, "text_pair": pair}
        with quiet():
            cut = self.tokenizer(**texts, truncation=self.longest is not None, max_length=self.longest)
        if cut.encodings is None:
            if pair is not None:
                raise RequestError("this model's tokenizer does not say what belongs to which text: leave --pair out")
            return pieces(self.tokenizer, cut.input_ids)
        return with_words(cut.encodings[0])


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


def pieces(tokenizer: Any, ids: list[int]) -> Any:
    """Of numbers alone, as from a decoder, or from a tokenizer that gives no more. Offsets are not known: (0, 0)."""
    special = [number in tokenizer.all_special_ids and number != tokenizer.unk_token_id for number in ids]
    tokens = [  # a network may have more numbers than its tokenizer has names for
        name or f"<{number}>" for name, number in zip(tokenizer.convert_ids_to_tokens(ids), ids, strict=True)
    ]
    texts = [None if flag else 0 for flag in special]
    return Pieces(
        tokens=tokens,
        ids=ids,
        type_ids=[0] * len(ids),
        sequence_ids=texts,
        special_tokens_mask=[int(flag) for flag in special],
        word_ids=word_numbers(tokens, texts),
        offsets=[(0, 0)] * len(ids),
    )


def with_words(encoding: Any) -> Any:
    """The same, with words where the tokenizer cuts a text into none but marks them in its pieces (Llama)."""
    if len(set(encoding.word_ids) - {None}) > 1 or not any(token.startswith("▁") for token in encoding.tokens):
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
            begins = token.startswith(WORD_MARKS) if marked else not token.startswith("##")
            last[text] = last.get(text, -1) + (begins or text not in last)
        numbers.append(None if text is None else last[text])
    return numbers
