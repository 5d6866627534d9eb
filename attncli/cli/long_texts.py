"""What commands say of records that show stretches of long texts, or some of their tokens (--tokens), or have sinks."""

from typing import TYPE_CHECKING

from attncli.cli import output

if TYPE_CHECKING:
    from attncli.models.engine import Engine
    from attncli.record import AttentionRecord


def told(record: "AttentionRecord") -> "AttentionRecord":
    """The same record, once what has to be said of it was said."""
    from attncli.record.captions import notes

    for note in notes(record):
        output.say(f"attncli: {note}")
    return record


def tell_sinks(engine: "Engine", which: str | None, measure: str) -> None:
    """Say that statistics are of less than all weight, if heads of the part that is counted have sinks."""
    from attncli.models.tapped import tapped
    from attncli.record.captions import SINKS

    part = tapped(engine, engine.to_itself(which))
    if part is not None and part.has_sinks and measure == "weight":
        output.say(f"attncli: {SINKS}; figures are of what goes to tokens")


def in_stretches(record: "AttentionRecord") -> bool:
    """Whether it shows stretches of tokens and no tokens."""
    return record.part is not None and record.part.stretched
