"""Texts with what tokenizers stumble over, and this program's tokenizer of a directory."""

from pathlib import Path

from hypothesis import strategies as st

from attncli import RequestError
from attncli.text.tokenizer import Tokenizer

KINDS = ("minilm", "vocab.txt", "cased", "vocab.json", "tokenizer.json")

# Texts with what tokenizers stumble over: marks, spaces, other scripts, special tokens, half of a pair of emoji.
ODD = [*" \n\t\u00a0\u3000\u200b\u200dÉßﬁ🙂é", "", "  ", "e\u0301", "中国", "👩‍🔬"]
SPECIAL = ["[CLS]", "[SEP]", "[PAD]", "[MASK]", "[UNK]", "<s>", "</s>", "<pad>", "<mask>", "##a", "[unused1]"]
pieces = st.sampled_from(["the", "The", "cat", "unbelievable", "it's", "-", "!?", *ODD, *SPECIAL]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=6
)
joined = st.lists(pieces, min_size=1, max_size=8).map(" ".join) | st.lists(pieces, min_size=1, max_size=5).map("".join)
texts = joined.filter(str.strip)


def ours(directory: Path, max_tokens: int = 512, pad_id: int = 0) -> Tokenizer:
    return Tokenizer.from_directory(directory, max_tokens, 30522, pad_id, last_resort)


def last_resort(directory: Path):
    raise RequestError("no tokenizer at all")
