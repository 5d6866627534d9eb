"""What is said of two records beside each other."""

from textwrap import shorten

from attncli.analysis.difference import Difference
from attncli.base.printable import printable, visible
from attncli.record import AttentionRecord
from attncli.report.captions import model_name, record_size
from attncli.text.tokens import Tokens

MEANING = "moved: how much weight must move to make one map the other (total variation), mean over tokens; 0 to 1"
BEGINNING = 70  # characters of a text


def about(record: AttentionRecord) -> list[str]:
    """What is unusual of it, the mask, how many tokens, and how the text begins."""
    text = [token for token, special in zip(record.tokens.shown, record.tokens.special, strict=True) if not special]
    return [
        *record.unusual,
        f"mask {record.mask_name}",
        record_size(record),
        printable(shorten(" ".join(text), BEGINNING, placeholder=" ...")),
    ]


def told_apart(found: Difference) -> tuple[str, str]:
    """What each of the two is called where they differ in one way: by model, mask, measure, or how the text begins."""
    first, second = found.first, found.second
    for one, other in (
        (model_name(first.model.shown), model_name(second.model.shown)),
        (f"mask {first.mask_name}", f"mask {second.mask_name}"),
        (first.measure, second.measure),
    ):
        if one != other:
            return printable(one), printable(other)
    return about(first)[-1], about(second)[-1]


def token_pairs(found: Difference) -> tuple[list[str], list[str]]:
    """The queries and the keys: "cat", or "cat / dog" where the two have different tokens in one place."""
    return paired(found.first.tokens, found.second.tokens), paired(found.first.keys, found.second.keys)


def paired(first: Tokens, second: Tokens) -> list[str]:
    both = zip(map(visible, first.shown), map(visible, second.shown), strict=True)
    return [one if one == other else f"{one} / {other}" for one, other in both]
