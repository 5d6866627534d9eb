"""One text under every mask: its maps, what the masks moved, and whether their laws hold on it."""

from dataclasses import asdict, dataclass
from typing import Any

from attncli.analysis.masking import MaskEffect, mask_effects
from attncli.base import choices
from attncli.checks.laws import Law, check_laws, pad_some
from attncli.models.model import Model
from attncli.record import AttentionRecord, Input, Request
from attncli.record.selection import Selection
from attncli.text.tokens import Tokens

UNMASKED: choices.Mask = "none"
COMPARED: tuple[choices.Mask, ...] = ("causal", "padding")  # beside no mask at all


@dataclass(frozen=True)
class Look:
    """What was found.

    records: by mask, without one first. effects: by each of the others what it did to a head, by (layer, head).
    """

    records: dict[str, AttentionRecord]
    effects: dict[str, dict[tuple[int, int], MaskEffect]]
    laws: list[Law]

    @property
    def tokens(self) -> Tokens:
        """Those of the text, with [PAD] behind them."""
        return self.records[UNMASKED].tokens

    @property
    def lawful(self) -> bool:
        """That no law was found broken, and no weight on forbidden positions."""
        clean = all(effect.forbidden == 0 for by_head in self.effects.values() for effect in by_head.values())
        return clean and all(law.holds is not False for law in self.laws)

    @property
    def most_moved(self) -> tuple[int, int]:
        """The head whose weight the causal mask moves most."""
        causal = self.effects["causal"]
        return max(causal, key=lambda head: causal[head].moved)

    def document(self) -> dict[str, Any]:
        """A text's entry in what `mask --json` prints."""
        return {
            "tokens": self.tokens.text,
            "heads": [
                {"layer": layer, "head": head, **{name: asdict(self.effects[name][layer, head]) for name in COMPARED}}
                for layer, head in self.effects["causal"]
            ],
            "laws": [asdict(law) for law in self.laws],
            "lawful": self.lawful,
        }


def look(
    model: Model, one: Input, layers: Selection = "all", heads: Selection = "all", pad_to: int | None = None
) -> Look:
    """Run a text under every mask, with [PAD] up to `pad_to` tokens; without that, as `pad_some` has it.

    Raises RequestError as the tokenizer, `pad_some` and `Model.attend_tokens` do.
    """
    tokens = model.tokenizer.encode(one.text, one.pair)
    padded = pad_some(model, tokens, pad_to)
    records: dict[str, AttentionRecord] = {
        name: next(model.attend_tokens([padded], Request(layers, heads, name))) for name in (UNMASKED, *COMPARED)
    }
    effects: dict[str, dict[tuple[int, int], MaskEffect]] = {
        name: mask_effects(records[name], records[UNMASKED]) for name in COMPARED
    }
    return Look(records, effects, check_laws(model, tokens, padded))
