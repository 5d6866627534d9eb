"""Windows of texts, made for tests, and their sums."""

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
