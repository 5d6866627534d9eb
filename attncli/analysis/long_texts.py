"""What has to be said of a record that shows stretches of a long text, or some of its tokens."""

import numpy as np

from attncli.record import AttentionRecord

ZOOM = "--tokens 0-255 shows some one by one"


def notes(record: AttentionRecord) -> list[str]:
    """A sentence on the tokens that were chosen, and one on stretches; none where every token is there."""
    part = record.part
    if part is None:
        return []
    said = [f"tokens {part.chosen} of {part.tokens}, counted from 0 anew{given(record)}"] if part.chosen else []
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
