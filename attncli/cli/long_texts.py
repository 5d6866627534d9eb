"""How commands show long texts: some of the tokens (--tokens), or stretches of them; and what they say of it."""

from typing import TYPE_CHECKING

from attncli.cli import output

if TYPE_CHECKING:
    from attncli.record import AttentionRecord


def only(record: "AttentionRecord", tokens: str | None) -> "AttentionRecord":
    """The tokens that --tokens names; all where it is not given. Raises RequestError for tokens that are not there."""
    if tokens is None:
        return record
    from attncli.analysis.long_texts import some_tokens, some_tokens_note

    shown = some_tokens(record, tokens)
    output.say(f"attncli: {some_tokens_note(record, shown, tokens)}")
    return shown


def readable(record: "AttentionRecord") -> "AttentionRecord":
    """What a terminal or a page can show token by token: of a long text its stretches."""
    from attncli.analysis.long_texts import in_stretches, stretches_note

    shown = in_stretches(record)
    if shown is not record:
        output.say(f"attncli: {stretches_note(record, shown)}")
    return shown
