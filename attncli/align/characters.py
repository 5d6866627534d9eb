"""Convert texts to ids, one per character, and back: the input and the output of the networks."""

import unicodedata
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

PAD, START, END, UNKNOWN = range(4)
SPECIAL = ("[PAD]", "[START]", "[END]", "[UNKNOWN]")


class Alphabet:
    """The characters that a network knows, by number: SPECIAL, then `characters` in order."""

    def __init__(self, characters: str) -> None:
        self.characters = characters
        self.names = [*SPECIAL, *characters]
        self.numbers = {name: number for number, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def encode(self, text: str) -> list[int]:
        """Return the numbers of a text's characters, without start and end; UNKNOWN for unknown ones.

        Case and width are ignored: "Ｍ" is "m".
        """
        return [self.numbers.get(unicodedata.normalize("NFKC", one).lower(), UNKNOWN) for one in text]


SOURCE = Alphabet(
    "0123456789abcdefghijklmnopqrstuvwxyz ,.-/'()〇零一二三四五六七八九十年月日号星期周礼拜公元廿卅號週天"
)
TARGET = Alphabet("0123456789-noe")
NONE = "none"  # the output for a text that is not a date


def sources(texts: Sequence[str]) -> Tensor:
    """Return texts as numbers in SOURCE, `[batch, key]`: characters, END, then PAD."""
    return _padded([*SOURCE.encode(text), END] for text in texts)


def targets(outputs: Sequence[str]) -> Tensor:
    """Return outputs as numbers in TARGET, `[batch, 1 + characters + 1]`: START, ISO date or NONE, END, then PAD."""
    return _padded([START, *TARGET.encode(output), END] for output in outputs)


def _padded(rows: Iterable[list[int]]) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)
