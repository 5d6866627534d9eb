"""A tokenizer of transformers in the place of one of `tokenizers`."""

from typing import Any

from attncli.base.errors import RequestError
from attncli.models.transformers_peer import quiet
from attncli.text.pieces import Pieces, with_words, word_numbers
from attncli.text.shown import Notation, Unknown


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

    def token_to_id(self, token: str) -> int | None:
        return self.tokenizer.get_vocab().get(token)

    def get_vocab(self) -> dict[str, int]:
        vocabulary: dict[str, int] = self.tokenizer.get_vocab()
        return vocabulary

    def encode(self, text: str, pair: str | None = None) -> Any:
        texts = {"text_target": text} if self.target else {"text": text, "text_pair": pair}
        with quiet():
            cut = self.tokenizer(**texts, truncation=self.longest is not None, max_length=self.longest)
        if cut.encodings is None:
            if pair is not None:
                raise RequestError("this model's tokenizer does not say what belongs to which text: leave --pair out")
            return pieces(self.tokenizer, cut.input_ids)
        return with_words(cut.encodings[0])


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
