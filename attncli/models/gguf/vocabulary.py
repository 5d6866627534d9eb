"""Build a tokenizer from the vocabulary in a .gguf file.

The file has tokens, merges or scores, and only the name of the rule that splits texts into words. Two kinds are read:
byte-level byte pairs as in GPT-2 (Radford et al. 2019), and sentencepiece's (Kudo and Richardson 2018). The rules below
are those of the published tokenizers, not llama.cpp's versions of them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attncli.base.errors import Panic, RequestError, quiet_panics
from attncli.base.printable import first_line, quoted
from attncli.models.gguf.file import GGUFFile, settings

if TYPE_CHECKING:
    from tokenizers import Tokenizer

NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4  # token types
SPACE = "\u2581"  # sentencepiece's
_PREFIX = "tokenizer.ggml."
SPECIAL = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
}


# --- splitting texts into words ---------------------------------------------------------------------------

_CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{%s}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True)
class Splitting:
    """The rules by which a byte-level tokenizer splits a text into words.

    pattern: of the words; None for GPT-2's. digits: every digit is a separate word. composed: characters are composed
    first (NFC). begins: by default a text begins with the begin token. whole: a word that is itself a token is not
    built from merges.
    """

    pattern: str | None = None
    digits: bool = False
    composed: bool = False
    begins: bool = False
    whole: bool = False


_DIGITS, _QWEN = Splitting(digits=True), Splitting(_CL100K % "1", composed=True)
_LLAMA3 = Splitting(_CL100K % "1,3", begins=True, whole=True)
SPLITTINGS = {
    "gpt-2": Splitting(),
    "mpt": Splitting(composed=True),  # GPT-NeoX's
    "olmo": Splitting(composed=True),
    "smollm": _DIGITS,
    "starcoder": _DIGITS,
    "qwen2": _QWEN,
    "deepseek-r1-qwen": _QWEN,
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "dbrx": Splitting(_CL100K % "1,3"),
}


# --- the tokenizer --------------------------------------------------------------------------------------


class Vocabulary:
    """The tokenizer of a file.

    tokens, types: its tokens and their types, in the order of their ids. special: the ids of special tokens, by
    transformers' names for them.

    Raises RequestError for a tokenizer that attncli does not know, or that is damaged.
    """

    def __init__(self, file: GGUFFile) -> None:
        self.file = file
        self.entries = settings(file.metadata, _PREFIX)
        self.kind = self.entries.get("model")
        if self.kind not in ("gpt2", "llama"):
            raise RequestError(
                f"{file.path} has a tokenizer of the kind {quoted(str(self.kind))}, which attncli does not read; "
                "it reads gpt2 and llama"
            )
        self.tokens = self._texts("tokens")
        if self.kind == "llama":  # Gemma's tokens of several spaces
            self.tokens = [SPACE * len(token) if not token.strip(" ") else token for token in self.tokens]
        self.types = self.entries.get("token_type", [NORMAL] * len(self.tokens))
        if not isinstance(self.types, list) or len(self.types) != len(self.tokens):
            raise self._refusal("different numbers of types and tokens")
        self.ids = {token: number for number, token in enumerate(self.tokens)}
        if len(self.ids) < len(self.tokens):
            raise self._refusal("two tokens with the same text")
        numbers = {name: self._id(entry) for name, entry in SPECIAL.items()}
        self.special = {name: number for name, number in numbers.items() if number is not None}

    def token_ids(self) -> dict[str, int]:
        """Return the entries of config.json about special tokens."""
        return {f"{name}_id": number for name, number in self.special.items() if name != "unk_token"}

    def ends(self) -> list[int]:
        """Return the tokens that end a model's output: the end of a text, and the end of a turn in a chat."""
        ends = [self._id(entry) for entry in ("eos_token_id", "eot_token_id")]
        return list(dict.fromkeys(number for number in ends if number is not None))

    def document(self) -> dict[str, Any]:
        """Return the content of tokenizer_config.json."""
        document: dict[str, Any] = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
            **{name: self.tokens[number] for name, number in self.special.items()},
        }
        template = self.file.metadata.get("tokenizer.chat_template")
        return {**document, "chat_template": template} if isinstance(template, str) else document

    def save(self, path: Path) -> None:
        """Write the tokenizer as tokenizer.json."""
        try:
            with quiet_panics():
                self._build().save(str(path))
        except (RequestError, MemoryError, OSError):
            raise
        except (Panic, Exception) as error:
            raise self._refusal(first_line(error)) from error

    def _build(self) -> "Tokenizer":
        from tokenizers import AddedToken, processors

        tokenizer, begins = self._byte_pairs() if self.kind == "gpt2" else (self._sentencepiece(), True)
        added = [
            AddedToken(token, normalized=False, special=of_type != USER_DEFINED)
            for token, of_type in zip(self.tokens, self.types, strict=True)
            if of_type in (CONTROL, USER_DEFINED) or (of_type == UNKNOWN and self.kind == "llama")
        ]
        tokenizer.add_tokens(added)
        ends = (("bos_token", "add_bos_token", begins), ("eos_token", "add_eos_token", False))
        first, last = (
            [self.tokens[self.special[name]]] if self._flag(flag, default) and name in self.special else []
            for name, flag, default in ends
        )
        if first or last:
            pair = [f"{name}:1" for name in (*first, "$B", *last)]
            tokenizer.post_processor = processors.TemplateProcessing(
                single=[*first, "$A", *last],
                pair=[*first, "$A", *last, *pair],
                special_tokens=[(name, self.ids[name]) for name in {*first, *last}],
            )
        return tokenizer

    def _byte_pairs(self) -> "tuple[Tokenizer, bool]":
        """Return a byte-level tokenizer, and whether a text begins with the begin token by default."""
        from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers
        from tokenizers.models import BPE

        name = self.entries.get("pre", "gpt-2" if self.file.metadata.get("general.architecture") == "gpt2" else None)
        splitting = SPLITTINGS.get(name) if isinstance(name, str) else None
        if splitting is None:
            raise RequestError(
                f"{self.file.path} splits texts into words by the rule {quoted(str(name))}, which attncli does not know"
            )
        tokenizer = Tokenizer(BPE(self.ids, self._merges(), ignore_merges=splitting.whole))
        if splitting.composed:
            tokenizer.normalizer = normalizers.NFC()
        parts: list[Any] = [pre_tokenizers.Digits(individual_digits=True)] if splitting.digits else []
        if splitting.pattern is not None:
            parts.append(pre_tokenizers.Split(Regex(splitting.pattern), "isolated"))
        parts.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=splitting.pattern is None))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(parts)
        tokenizer.decoder = decoders.ByteLevel()
        return tokenizer, splitting.begins

    def _sentencepiece(self) -> "Tokenizer":
        from tokenizers import Tokenizer, decoders, normalizers
        from tokenizers.models import BPE

        merges = self._merges() if "merges" in self.entries else self._merges_by_rank()
        unknown = self.special.get("unk_token")
        tokenizer = Tokenizer(
            BPE(
                self.ids,
                merges,
                unk_token=None if unknown is None else self.tokens[unknown],
                fuse_unk=True,
                byte_fallback=True,
            )
        )
        spaces = normalizers.Replace(" ", SPACE)
        back: list[Any] = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
        if self._flag("add_space_prefix", True):
            tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), spaces])
            back.append(decoders.Strip(" ", 1, 0))
        else:
            tokenizer.normalizer = spaces
        tokenizer.decoder = decoders.Sequence(back)
        return tokenizer

    def _merges_by_rank(self) -> list[tuple[str, str]]:
        """Return the merges of a sentencepiece model, which stores only the pieces that they form.

        Every split of a piece into two pieces is a merge. The piece with the smallest rank is formed first.
        """
        scores = self.entries.get("scores")
        gemma = str(self.file.metadata.get("general.architecture")).startswith("gemma")  # its scores are not its ranks
        if not gemma and (not isinstance(scores, list) or len(scores) != len(self.tokens)):
            raise self._refusal("no score for each token")
        ranks = {
            token: float(number) if gemma else -float(scores[number])  # type: ignore[index]
            for number, token in enumerate(self.tokens)
            if self.types[number] in (NORMAL, USER_DEFINED)
        }
        merges = [
            (ranks[piece], self.ids[piece[:cut]], self.ids[piece[cut:]], piece[:cut], piece[cut:])
            for piece in ranks
            for cut in range(1, len(piece))
            if piece[:cut] in ranks and piece[cut:] in ranks
        ]
        return [(left, right) for *_, left, right in sorted(merges)]

    def _merges(self) -> list[tuple[str, str]]:
        merges = [tuple(merge.split(" ")) for merge in self._texts("merges")]
        if any(len(merge) != 2 for merge in merges):
            raise self._refusal("a merge that does not have two tokens")
        return merges  # type: ignore[return-value]

    def _texts(self, name: str) -> list[str]:
        found = self.entries.get(name)
        if not isinstance(found, list) or not found or not isinstance(found[0], str):
            raise self._refusal(f"no {name}")
        return found

    def _id(self, name: str) -> int | None:
        found = self.entries.get(name)
        if found is None:
            return None
        if type(found) is not int or not 0 <= found < len(self.tokens):
            raise self._refusal(f"{name} {found!r}, which is not a token")
        return found

    def _flag(self, name: str, default: bool) -> bool:
        return bool(self.entries.get(name, default))

    def _refusal(self, what: str) -> RequestError:
        return RequestError(f"the tokenizer in {self.file.path} can't be read: it has {what}")
