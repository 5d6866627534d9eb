"""Translate dates to ISO dates with a trained network, and keep the attention weights."""

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date as day

import torch

from attncli.align.characters import END, NONE, SOURCE, SPECIAL, START, TARGET, UNKNOWN, sources
from attncli.align.networks import AlignNetwork
from attncli.base.arrays import Floats
from attncli.base.errors import Notice, RequestError

FIRST, LAST = day(1950, 1, 1), day(2049, 12, 31)
LONGEST = 64  # characters of a text; the longest in training has 48
LIMIT = 16  # the maximum of generated characters, including the end token: a date takes 11
# The probability below which the model is unsure. On the validation set, about 1 in 50 correct dates are below it, and
# half of the dates generated for texts that are not dates.
LOW = 0.7


def is_day(output: str) -> bool:
    """Return whether a text is YYYY-MM-DD and an existing day of any year."""
    try:
        return day.fromisoformat(output).isoformat() == output
    except ValueError:
        return False


def is_date(output: str) -> bool:
    """Return whether a text is YYYY-MM-DD and a day from FIRST to LAST."""
    return is_day(output) and FIRST <= day.fromisoformat(output) <= LAST


@dataclass(frozen=True)
class Alignment:
    """A translation and its attention.

    characters: those of the text, and [END]. emitted: the output, with [END] unless it reached LIMIT. probabilities: of
    each output character, given the previous ones. maps: as in `Decoded`, of this text, in float32. In the decoder's
    map, query i is the character from which emitted[i] was predicted: emitted[i - 1], or [START] for the first.
    """

    text: str
    characters: list[str]
    emitted: list[str]
    probabilities: list[float]
    maps: dict[str, Floats]

    @property
    def output(self) -> str:
        """The output without [END]."""
        return "".join(self.emitted).removesuffix(SPECIAL[END])

    @property
    def probability(self) -> float:
        """The probability of the output, including [END]."""
        return math.prod(self.probabilities)

    @property
    def date(self) -> str | None:
        """The output if it is a day of 1950 to 2049; None otherwise."""
        return self.output if is_date(self.output) else None

    @property
    def doubt(self) -> str | None:
        """The reason to doubt the output, as a sentence; None without one."""
        if self.emitted[-1] != SPECIAL[END]:
            return f"the output does not end within {LIMIT} characters"
        if self.output == NONE:
            return f"the model finds no date from {FIRST.year} to {LAST.year} in it"
        if not is_day(self.output):
            return f"{self.output!r} is not an existing date"
        if not is_date(self.output):
            return f"{self.output} is not from {FIRST.year} to {LAST.year}"
        if self.probability < LOW:
            return f"the model is unsure (probability {self.probability:.2g}): the text may not be a date that it knows"
        return None


@torch.no_grad()
def translate(network: AlignNetwork, texts: Sequence[str]) -> Iterator[Alignment]:
    """Translate each text by greedy decoding: append the likeliest next character until END, or until LIMIT characters.

    Every step runs the whole network, since a date is short. Raises RequestError for a text that is empty or longer
    than LONGEST, before translating any. A Notice lists characters that training did not contain: the network can't
    distinguish them.
    """
    texts = [text.strip() for text in texts]
    for text in texts:
        if not 0 < len(text) <= LONGEST:
            wanted = f"a date has 1 to {LONGEST} characters, not {len(text)}"
            raise RequestError(f"{wanted}: give one such as '3 March 2021'")
        unknown = [one for one, number in zip(text, SOURCE.encode(text), strict=True) if number == UNKNOWN]
        if unknown:
            names = ", ".join(map(repr, dict.fromkeys(unknown)))
            warnings.warn(f"characters unknown to the model, which it can't distinguish: {names}", Notice, stacklevel=2)
    for text in texts:
        written = [START]
        probabilities: list[float] = []
        while written[-1] != END and len(probabilities) < LIMIT:
            decoded = network(sources([text]), torch.tensor([written]))
            probability, number = decoded.logits[0, -1].softmax(dim=-1).max(dim=-1)
            written.append(int(number))
            probabilities.append(float(probability))
        emitted = [TARGET.names[number] for number in written[1:]]
        maps = {kind: weights[0].float().numpy().copy() for kind, weights in decoded.maps.items()}
        yield Alignment(text, [*text, SPECIAL[END]], emitted, probabilities, maps)
