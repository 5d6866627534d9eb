"""One text under every mask: its maps, what the masks moved, and whether their laws hold on it."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from attncli.analysis.masking import MaskEffect, mask_effects
from attncli.attention import MASKS, self_mask
from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.checks.laws import Law, check_laws, not_tested, pad_some
from attncli.checks.windows import Windows, windows
from attncli.models.engine import Engine
from attncli.record import AttentionRecord, Input, Request
from attncli.text.tokens import Tokens

EVERYTHING = Request()
UNMASKED: choices.Mask = "none"
COMPARED: tuple[choices.Mask, ...] = ("causal", "padding")  # beside no mask at all


@dataclass(frozen=True)
class Look:
    """What was found.

    records: by mask, without one first, if there is one. effects: by each of the others what it did to a head, by
    (layer, head). missing: masks that are not among them, and why. windows: of layers that have some.
    """

    records: dict[str, AttentionRecord]
    effects: dict[str, dict[tuple[int, int], MaskEffect]]
    laws: list[Law]
    missing: dict[str, str]
    windows: Windows | None = None

    @property
    def tokens(self) -> Tokens:
        """Those of the text, with [PAD] behind them."""
        return next(iter(self.records.values())).tokens

    @property
    def lawful(self) -> bool:
        """That no law was found broken, and no weight on forbidden positions."""
        clean = all(effect.forbidden == 0 for by_head in self.effects.values() for effect in by_head.values())
        return clean and all(law.holds is not False for law in self.laws)

    @property
    def missing_by_reason(self) -> dict[str, str]:
        """Why some masks are not shown, and which ones: "unmasked, padding"."""
        found: dict[str, list[str]] = {}
        for name, why in self.missing.items():
            found.setdefault(why, []).append("unmasked" if name == UNMASKED else name)
        return {why: ", ".join(names) for why, names in found.items()}

    @property
    def heads(self) -> list[tuple[int, int]]:
        """All (layer, head) that were looked at."""
        return list(next(iter(self.effects.values())))

    @property
    def most_moved(self) -> tuple[int, int]:
        """The head whose weight the first of the masks, which is the causal one, moves most."""
        first = next(iter(self.effects.values()))
        return max(first, key=lambda head: first[head].moved or 0.0)

    def document(self) -> dict[str, Any]:
        """A text's entry in what `mask --json` prints."""
        return {
            "tokens": self.tokens.text,
            "heads": [
                {"layer": layer, "head": head, **{name: asdict(by[layer, head]) for name, by in self.effects.items()}}
                for layer, head in self.heads
            ],
            **({} if self.windows is None else {"window": self.windows.document()}),
            "laws": [asdict(law) for law in self.laws],
            "lawful": self.lawful,
        }


def look(engine: Engine, one: Input, request: Request = EVERYTHING) -> Look:
    """Run a text under every mask, with [PAD] up to `request.pad_to` tokens; without that, as `pad_some` has it.

    Of a decoder there is one map, under the mask that is built into it; what the engine does not put on is `missing`.

    Raises RequestError as the tokenizer, `pad_some` and the engine do, also where the maps would not fit into memory;
    for cross-attention; and for a target, or [PAD], that has no effect.
    """
    request, kind = replace(request, which=engine.to_itself(request.which)), engine.kind(request.which)
    engine.check(request)
    writes = kind == "decoder" and len(engine.parts) > 1
    if request.pad_to is not None and writes:
        raise RequestError("no token of a decoder looks at the [PAD] that the encoder reads: leave --pad-to out")
    tokens = engine.tokenizer.encode(one.text, one.pair)
    padded = tokens if writes else pad_some(engine, tokens, request.pad_to)
    without = missing(engine, kind)
    shown = [name for name in (UNMASKED, *COMPARED) if name not in without]
    [padded] = engine.fitting([[padded]], request, copies=len(shown) - 1)
    records: dict[str, AttentionRecord] = {name: under(engine, padded, replace(request, mask=name)) for name in shown}
    unmasked = records.get(UNMASKED)
    effects: dict[str, dict[tuple[int, int], MaskEffect]] = {
        name: mask_effects(record, unmasked) for name, record in records.items() if name != UNMASKED
    }
    laws = not_tested("the laws are of what reads a text") if writes else check_laws(engine, tokens, padded)
    found = None if writes else windows(engine, tokens)
    return Look(records, effects, [*laws, *([found.law] if found else [])], without, found)


def missing(engine: Engine, kind: str) -> dict[str, str]:
    """The masks under which a part of a model is not shown, and why."""
    every = {name: engine.why_not(name, kind) for name in (UNMASKED, *COMPARED)}
    return {name: why for name, why in every.items() if why is not None}


def under(engine: Engine, tokens: Tokens, request: Request) -> AttentionRecord:
    """The record of a text under a mask, with the mask that the name means, whatever the engine makes of it."""
    [record] = engine.attend_tokens([tokens], request)
    real = torch.tensor([[not padding for padding in record.tokens.padding]])
    meant = self_mask(real, *MASKS[record.mask_name])[0, 0].numpy()
    return replace(record, masks=record.masks & meant)
