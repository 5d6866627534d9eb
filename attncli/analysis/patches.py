"""What becomes of an output when heads give what they give on another text, as plain results.

    share = (patched - A) / (B - A)

A and B are what is asked of the two texts. 0: the patch changes nothing; 1: it makes the output of A that of B. It may
be below 0 or above 1, and shares don't add up: what one head brings another may take away.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from attncli.analysis.effects import Answer, numbered
from attncli.base.arrays import Doubles
from attncli.base.brief import titled
from attncli.record import ModelInfo
from attncli.text.tokens import Tokens


@dataclass(frozen=True)
class Patch:
    """Parts of B's run put into A's, each by itself.

    answer: what is asked, with A's value; other: B's. tokens, other_tokens: theirs, equally many.
    by: what is patched, one of `choices.Patched`; layers, heads: numbers in the model.
    effects: patched - A; by head `[layer, head]`, by layer `[layer, 1]`, by token `[layer, token]`.
    controls: `[draw, ...]`, the same with what heads give at tokens drawn from other texts.
    together: patched - A of all these heads of all these layers at once, at all tokens; together_controls: `[draw]`.
    itself: the same as `together` with A's own run, which is exactly 0.
    """

    model: ModelInfo
    answer: Answer
    other: float
    tokens: Tokens
    other_tokens: Tokens
    by: str
    layers: list[int]
    heads: list[int]
    effects: Doubles
    controls: Doubles
    together: float
    together_controls: Doubles
    itself: float

    def __repr__(self) -> str:
        outputs = f"{self.answer}, of the other text {self.other:.4g}"
        return titled(self, self.model.shown, f"by {self.by}", numbered(self.layers, self.heads), outputs)

    @property
    def difference(self) -> float:
        """B - A."""
        return self.other - self.answer.value

    @property
    def shares(self) -> Doubles:
        return self.effects / self.difference

    @property
    def control_shares(self) -> Doubles:
        """The mean over draws."""
        return self.controls.mean(axis=0) / self.difference

    def ranked(self) -> list[tuple[int, int]]:
        """The places in `effects`, that with the largest effect first."""
        order = np.argsort(-np.abs(self.effects), axis=None, kind="stable")
        return [
            (int(row), int(column)) for row, column in zip(*np.unravel_index(order, self.effects.shape), strict=True)
        ]

    def document(self) -> dict[str, Any]:
        """What --json prints."""
        shares, controls = self.shares, self.control_shares
        patches = [
            {
                **self.part(*place),
                "effect": float(self.effects[place]),
                "share": float(shares[place]),
                "control": float(controls[place]),
            }
            for place in np.ndindex(*self.effects.shape)
        ]
        return {
            "model": self.model.document(),
            "output": {**self.answer.document(), "other": self.other},
            "tokens": self.tokens.text,
            "other_tokens": self.other_tokens.text,
            "by": self.by,
            "layers": self.layers,
            "heads": self.heads,
            "patches": patches,
            "together": {
                "effect": self.together,
                "share": self.together / self.difference,
                "control": float(self.together_controls.mean()) / self.difference,
                "itself": self.itself,
            },
        }

    def part(self, row: int, column: int) -> dict[str, Any]:
        """What is patched at a place of `effects`, as it stands in a document."""
        part: dict[str, Any] = {"layer": self.layers[row]}
        if self.by == "head":
            part["head"] = self.heads[column]
        if self.by == "token":
            places = (self.tokens, self.other_tokens)
            names = ("token", "other_token")
            part["index"] = column
            part |= {name: tokens.text[column] for name, tokens in zip(names, places, strict=True)}
        return part
