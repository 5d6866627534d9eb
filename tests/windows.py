"""Windows of texts, made for tests, and their sums."""

import numpy as np

from attncli.base.arrays import Doubles
from attncli.corpus.reducer import Reducer
from attncli.corpus.sums import Sums
from attncli.models.model import Model
from attncli.text.windows import Window, windows


def corpus(model: Model, texts: list[str], stride: int | None = None) -> list[list[Window]]:
    """The windows of each text, as a corpus of these texts has them."""
    return [list(windows(number, text, model.tokenizer, stride)) for number, text in enumerate(texts)]


def sums_of(reducer: Reducer, texts: list[list[Window]]) -> Sums:
    """The sums over these texts."""
    *_, last = reducer.count(texts)
    return last


def text_sums(queries: int, limit: float | Doubles, totals: Doubles, alike: Doubles | None = None) -> Sums:
    """The sums of one text, from those over its queries; limit: one number, or one per layer."""
    return Sums.of_part(queries, np.broadcast_to(limit, len(totals)), totals, None, alike).of_text()
