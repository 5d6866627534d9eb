"""What commands say of records that show stretches of long texts, or some of their tokens (--tokens)."""

from typing import TYPE_CHECKING

from attncli.cli import output

if TYPE_CHECKING:
    from attncli.record import AttentionRecord


def told(record: "AttentionRecord") -> "AttentionRecord":
    """The same record, once what has to be said of it was said."""
    from attncli.analysis.long_texts import notes

    for note in notes(record):
        output.say(f"attncli: {note}")
    return record


def in_stretches(record: "AttentionRecord") -> bool:
    """Whether it shows stretches of tokens and no tokens."""
    return record.part is not None and record.part.stretched
