"""What a picture of a record says above it: what it is of, and what was left out."""

from collections.abc import Sequence

from attncli.record import AttentionRecord
from attncli.record.selection import number_list
from attncli.render.figures.options import What
from attncli.render.figures.texts import NO_BREAK, cut

LONGEST_NAME = 40  # characters of a model's name


def describe(record: AttentionRecord, what: What = What()) -> str:
    """Model, what is unusual of it, layer, head, mask; a line may break between them only."""
    heads = numbered("head", record.heads)
    parts = [
        short_name(record.model.shown),
        *record.unusual,
        numbered("layer", record.layers),
        f"mean of {heads}" if what.mean else heads,
        f"mask {record.mask_name}",
        *(["words"] if what.words else []),
    ]
    return " · ".join(part.replace(" ", NO_BREAK) for part in parts)


def numbered(what: str, numbers: Sequence[int]) -> str:
    """head 3, heads 0-11."""
    return f"{what}{'s' if len(numbers) > 1 else ''} {number_list(numbers)}"


def short_name(name: str) -> str:
    """A model's name, without the folders that lead to it where it is long."""
    if len(name) > LONGEST_NAME:
        name = name.rstrip("/\\").replace("\\", "/").rpartition("/")[2]
    return cut(name, LONGEST_NAME)


def left_out(record: AttentionRecord, what: What) -> str:
    """What a picture of some of the tokens says; nothing where all are there."""
    parts = []
    sides = [record.tokens] if record.key_tokens is None else [record.tokens, record.key_tokens]
    flagged = [pair for tokens in sides for pair in zip(tokens.text, tokens.special, strict=True)]
    names = [] if what.special else [token for token, flag in flagged if flag]
    if names:
        parts.append(f"without {', '.join(cut(name, LONGEST_NAME) for name in dict.fromkeys(names))}")
    if what.segments != "all" and any(1 in tokens.segments for tokens in sides):
        first, second = ("the first text" if letter == "A" else "the second text" for letter in what.segments.upper())
        parts.append(f"from {first} to {second}" if first != second else f"within {first}")
    if not parts:
        return ""
    return ", ".join(parts) + ("" if record.measure == "norm" else ": rows no longer sum to 1")
