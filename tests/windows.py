"""Windows of texts, made for tests, and their sums."""

from collections.abc import Iterable

import numpy as np

from attncli.base.arrays import Doubles
from attncli.corpus.reducer import Reducer
from attncli.corpus.sums import LINEAR, Sums
from attncli.models.model import Model
from attncli.text.windows import TextWindow, windows


def corpus(model: Model, texts: list[str], stride: int | None = None) -> list[TextWindow]:
    """The windows of these texts."""
    return [one for number, text in enumerate(texts) for one in windows(number, text, model.tokenizer, stride)]


def sums_of(reducer: Reducer, cut: Iterable[TextWindow]) -> Sums:
    """The sums over these windows."""
    for found in reducer.count(cut):
        last = found
    return last


def text_sums(queries: int, limit: float | Doubles, totals: Doubles, alike: Doubles | None = None) -> Sums:
    """The sums of one text, from those over its queries; limit: one number, or one per layer."""
    uniform = np.zeros((len(totals), len(LINEAR))) if alike is None else alike
    limits, all_of_them = np.broadcast_to(limit, len(totals)), np.full(len(totals), queries)
    return Sums.of_part(queries, totals, limits, uniform, all_of_them).of_text()
