"""Maps between words, from maps between their pieces."""

from attncli.record import AttentionRecord
from attncli.record.grouping import grouped
from attncli.record.request import Grouping


def merge_words(record: AttentionRecord) -> AttentionRecord:
    """The record between words instead of pieces; its tokens are words.

    Weights to the pieces of a word add up, weights from them are averaged (Clark et al. 2019, section 4.1), so
    that rows still sum to 1. In a layer a word may attend to a word when any of its pieces may to any. Queries and
    keys (`vectors`) are of pieces only and are left out.
    """
    return grouped(record, Grouping(words=True))
