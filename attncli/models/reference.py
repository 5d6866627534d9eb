"""The same checkpoint in transformers, to compare with. The one place that imports transformers."""

from pathlib import Path
from typing import Any

from attncli.errors import RequestError


def last_resort_tokenizer(directory: Path) -> Any:
    """A `tokenizers.Tokenizer` made by transformers, for files that this program has no reader of its own for
    (sentencepiece). Raises RequestError when there is nothing to make one of.
    """
    if not any(directory.glob("*.model")):
        raise RequestError(
            f"{directory} has no tokenizer: neither tokenizer.json, nor vocab.txt, nor vocab.json with merges.txt"
        )
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(directory), trust_remote_code=False).backend_tokenizer
