"""What has to be said of a record that shows stretches of a long text, or some of its tokens, or has sinks."""

import numpy as np

from attncli.base.arrays import Bools, Doubles
from attncli.record import AttentionRecord

SINKS = "heads have sinks, so rows sum to less than 1, and the rest of the weight goes to no token"
ZOOM = "--tokens 0-255 shows some one by one"


def notes(record: AttentionRecord) -> list[str]:
    """Return a sentence on sinks, one on the tokens that were chosen, and one on stretches; none where all is usual."""
    part, note = record.part, sinks_note(record)
    sinks = [] if note is None else [note]
    if part is None:
        return sinks
    chosen = f"tokens {part.chosen} of {part.tokens}, counted from 0 anew{given(record)}"
    said = [*sinks, *([chosen] if part.chosen else [])]
    if part.stretched:
        said.append(
            f"{part.units} {part.unit} are shown as {len(record.tokens)} stretches of {part.size}: weights to one add "
            f"up, from one are averaged; {ZOOM}"
        )
    return said


def given(record: AttentionRecord) -> str:
    """How much of the weight of some tokens they give each other; of norms there is no such share."""
    if record.key_tokens is not None or record.measure != "weight":
        return ""
    rows = record.weights.sum(axis=-1, dtype=np.float64)
    attending = max(int((rows > 0).sum()), 1)
    return f": they give each other {rows.sum() / attending:.0%} of their weight"


def sinks_note(record: AttentionRecord) -> str | None:
    """Return how much of its heads' weight goes to sinks; None if they have none, or what is shown is no weight.

    Of some tokens of a text, rows don't tell.
    """
    if not record.sinks or record.measure != "weight":
        return None
    if record.part is not None and record.part.chosen:
        return SINKS
    sums: Doubles = record.weights.sum(axis=-1, dtype=np.float64)  # [layer, head, query]
    may: Bools = np.asarray(record.masks.any(axis=2))  # [layer, query]
    attending = np.broadcast_to(may[:, None], sums.shape)
    if not attending.any():
        return SINKS
    return f"{SINKS}: {1 - np.mean(sums, where=attending):.0%} of it, on average"
