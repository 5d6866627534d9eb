"""Windows of texts, made for tests."""

from attncli.corpus import Window, windows
from attncli.models.model import Model


def corpus(model: Model, texts: list[str], stride: int | None = None) -> list[list[Window]]:
    """The windows of each text, as a corpus of these texts has them."""
    return [windows(number, text, model.tokenizer, stride) for number, text in enumerate(texts)]
