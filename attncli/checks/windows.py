"""How far layers with a window let a token see; and measured on a text, that what lies beyond changes nothing.

k local layers on top of each other reach k times as far as one; a global layer reaches everything. Before each row of
local layers one token's vector is changed, and nothing else, and the network runs on: tokens further from it than the
layers reach must keep their vectors to rounding, and of those within some must not.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from attncli.checks.laws import Law, tolerance
from attncli.models.block import Block, Tap
from attncli.models.engine import Engine
from attncli.models.model import Model
from attncli.text.tokens import Tokens

NAME = "window"
STATEMENT = "a token further away than local layers reach together changes no vector after them"
CHANGED = 0  # the token: from the first on there is most room


@dataclass(frozen=True)
class Reach:
    """How many tokens to either side something of another token can come from; None: from everywhere.

    reach: through this layer. together: through it and the local layers right below it. whole: from the text itself,
    through all layers up to it. beyond, within: the largest change of a vector after this layer, of tokens further from
    the one that was changed than `together`, and of others; None where there is no such token, or no window.
    """

    layer: int
    reach: int | None
    together: int | None
    whole: int | None
    beyond: float | None = None
    within: float | None = None


@dataclass(frozen=True)
class Windows:
    """tokens: of the text. shortest: the tokens of a text in which the narrowest window hides anything."""

    layers: list[Reach]
    tokens: int
    shortest: int
    law: Law

    def document(self) -> dict[str, Any]:
        """A text's `window` in what `mask --json` prints."""
        return {
            "shortest": self.shortest,
            "hides": self.tokens >= self.shortest,
            "layers": [asdict(one) for one in self.layers],
        }


class Turned(Tap):
    """Turns what one token takes from one layer around, of all heads."""

    def __init__(self, layer: int, token: int) -> None:
        self.layer = layer
        self.token = token

    def output(self, block: Block, output: Tensor) -> Tensor:
        if block.layer == self.layer:
            output = output.clone()
            output[:, :, self.token] *= -1
        return output


def windows(engine: Engine, tokens: Tokens) -> Windows | None:
    """What windows do on a text without [PAD]; None where no layer has one, or the engine does not say.

    A vector before the first layer is changed by another token in its place.
    """
    if not isinstance(engine, Model):
        return None
    own = engine.config.reach
    narrow = [reach for reach in own if reach is not None]
    if not narrow:
        return None
    found = reaches(own)
    states = engine.hidden_states(tokens)
    for local, some in groupby(found, key=lambda one: one.reach is not None):
        row = list(some)
        if local:
            after = changed(engine, tokens, row[0].layer)
            for one in row:
                found[one.layer] = measured(one, states[one.layer + 1], after[one.layer + 1])
    return Windows(found, len(tokens), min(narrow) + 2, law_of(engine, found, states, min(narrow) + 2))


def reaches(own: Sequence[int | None]) -> list[Reach]:
    """Of every layer, from how far its windows let it see."""
    found: list[Reach] = []
    together: int | None = 0
    whole: int | None = 0
    for layer, reach in enumerate(own):
        together = None if reach is None else (together or 0) + reach
        whole = None if reach is None or whole is None else whole + reach
        found.append(Reach(layer, reach, together, whole))
    return found


def changed(model: Model, tokens: Tokens, layer: int) -> list[Tensor]:
    """All vectors, `[token, hidden_size]` after every layer, where the one of CHANGED is another before this layer."""
    if layer == 0:
        ids = list(tokens.ids)
        ids[CHANGED] = next((one for one in ids if one != ids[CHANGED]), 0)
        return model.hidden_states(replace(tokens, ids=ids))
    with torch.inference_mode():
        return list(model.walk(model.rows([tokens], "padding"), [Turned(layer - 1, CHANGED)]))


def measured(one: Reach, before: Tensor, after: Tensor) -> Reach:
    """With how far the vectors after its layer moved."""
    assert one.together is not None
    moved = (after.double() - before.double()).abs().amax(dim=-1).nan_to_num(nan=torch.inf)  # [token]
    places = torch.arange(len(moved), device=moved.device)
    far = (places - CHANGED).abs() > one.together
    near = ~far & (places != CHANGED)
    return replace(one, beyond=largest(moved[far]), within=largest(moved[near]))


def largest(moved: Tensor) -> float | None:
    """None where there are none."""
    return float(moved.max()) if len(moved) else None


def law_of(model: Model, found: Sequence[Reach], states: Sequence[Tensor], shortest: int) -> Law:
    """`holds` is None where the text is too short, or nothing was changed within reach either."""
    beyond = [one.beyond for one in found if one.beyond is not None]
    within = [one.within for one in found if one.beyond is not None and one.within is not None]
    count = len(states[0])
    if not beyond:
        return Law(NAME, STATEMENT, None, None, f"windows hide nothing of {count} tokens: {shortest} would be enough")
    most = tolerance(model, max(float(state.abs().max()) for state in states))
    control = max(within, default=0.0)
    note = f"within reach the largest change is {control:.1e}"
    holds = max(beyond) <= most
    return Law(NAME, STATEMENT, max(beyond), None if holds and control <= most else holds, note)
