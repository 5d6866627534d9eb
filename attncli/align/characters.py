"""Text <-> numbers, a character a number: the input and the output of the networks."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

PAD, START, END, UNKNOWN = range(4)
SPECIAL = ("[PAD]", "[START]", "[END]", "[UNKNOWN]")


@dataclass(frozen=True)
class Alphabet:
    """The characters a network knows: numbers 0 to 3 are SPECIAL, then `characters` in their order."""

    characters: str

    def __len__(self) -> int:
        return len(SPECIAL) + len(self.characters)

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {character: number for number, character in enumerate(self.characters, start=len(SPECIAL))}

    def encode(self, text: str) -> list[int]:
        """Return the numbers of a text's characters, without start and end; UNKNOWN for unknown ones."""
        return [self.numbers.get(plain(character), UNKNOWN) for character in text]

    def name(self, number: int) -> str:
        """Return the character of a number, or the name of a special one."""
        return SPECIAL[number] if number < len(SPECIAL) else self.characters[number - len(SPECIAL)]


def plain(character: str) -> str:
    """Return a character in lower case and half width ("Ｍ" is "m"), which make no difference to a date."""
    simple = unicodedata.normalize("NFKC", character).lower()
    return simple if len(simple) == 1 else character


SOURCE = Alphabet(
    "0123456789abcdefghijklmnopqrstuvwxyz ,.-/'()〇零一二三四五六七八九十年月日号星期周礼拜公元廿卅號週天"
)
TARGET = Alphabet("0123456789-noe")
NONE = "none"  # what is written for a text that is no date


class Batch(NamedTuple):
    """Texts of several lengths in one tensor.

    source `[batch, key]`: numbers in SOURCE, each text with END, then PAD. real `[batch, key]`: 1 where there is no
    PAD, as `attention.padding_mask` takes it.
    """

    source: Tensor
    real: Tensor


def batch(texts: Sequence[str]) -> Batch:
    """Return texts as numbers, each with END and then PAD."""
    rows = [torch.tensor([*SOURCE.encode(text), END]) for text in texts]
    source = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
    return Batch(source, (source != PAD).long())


def targets(outputs: Sequence[str]) -> Tensor:
    """Return outputs as numbers `[batch, 1 + characters + 1]`: START, ISO date or NONE, END, then PAD."""
    rows = [torch.tensor([START, *TARGET.encode(output), END]) for output in outputs]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
