"""The names that options accept, and checks of the arguments that callers pass.

`--help`, shell completion, checks and registries all use these names. The function behind each name documents it. A
test compares the names with the registries of functions.
"""

from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Literal, get_args

from attncli.base.errors import RequestError
from attncli.base.printable import quoted, shorten

# --- names -------------------------------------------------------------------------------------------

MaskName = Literal["padding", "causal", "none"]
MeasureName = Literal["weight", "norm"]
KindName = Literal["encoder", "decoder", "cross"]
Itself = Literal["encoder", "decoder"]  # self-attention
EngineName = Literal["auto", "attncli", "transformers", "instant"]
DeviceName = Literal["auto", "cpu", "cuda", "mps"]
DtypeName = Literal["float32", "float64", "bfloat16", "float16"]
Style = Literal["matrix", "lines"]
Scale = Literal["head", "shared", "root"]
UnitName = Literal["token", "word", "line", "sentence", "part"]
LiveUnit = Literal["token", "word", "line", "sentence"]  # of a text that is typed, which has no named parts
PageView = Literal["heads", "model", "matrix", "neuron"]
Method = Literal["raw", "rollout", "flow"]
Figure = Literal[
    "entropy", "strongest", "distance", "self", "previous", "next", "first", "cls", "separator", "punctuation",
    "same_word",
]  # fmt: skip
By = Literal["weight", "content", "logit", Figure]
DesignName = Literal[
    "rotary", "rotary-interleaved", "rotary-partial", "relative", "alibi", "disentangled", "window", "causal-window",
    "grouped", "multi-query",
]  # fmt: skip
AttentionName = Literal["additive", "dot", "general", "concat", "transformer"]
Against = Literal["transformers", "torch"]
Weights = Literal["auto", "pretrained", "random"]
QuestionKind = Literal["cosine", "logit", "probability", "log-probability", "divergence", "distance"]
Way = Literal["zero", "mean", "resample"]
Patched = Literal["head", "layer", "token"]
Pool = Literal["mean", "last"]
AnswerUnit = Literal["sentence", "token"]
Nowhere = Literal["any", "zero-or-nan", "zero", "nan"]
OutputName = Literal["classes", "tokens", "span", "words", "embedding", "next"]


def names(choice: Any) -> tuple[str, ...]:
    """Return the names of a choice in order. The first is the default."""
    return get_args(choice)


def one_of(choice: Any) -> str:
    """Return the names of a choice in words: "padding, causal or none"."""
    *others, last = names(choice)
    return f"{', '.join(others)} or {last}"


def check(what: str, name: str, choice: Any) -> None:
    """Raises RequestError, listing the valid names, unless `name` is one of them: "no mask 'x'"."""
    if name not in names(choice):
        raise RequestError(f"no {what} {quoted(name)}: use one of {', '.join(names(choice))}")


def several(what: str, written: str | Sequence[str], choice: Any) -> list[Any]:
    """Return the names in "none,causal", or in a list, without duplicates.

    Raises RequestError as `check` does, and TypeError for what is neither.
    """
    if not isinstance(written, Sequence):
        every = ", ".join(names(choice))
        raise TypeError(f"{what} is {describe(written)}: give one of {every}, or several with commas")
    each = [name.strip() for name in written.split(",")] if isinstance(written, str) else written
    chosen = list(dict.fromkeys(each))
    for name in chosen:
        check(what, name, choice)
    return chosen


# --- values of a wrong type --------------------------------------------------------------------------


def check_text(name: str, given: object, hint: str = "give a str") -> None:
    """Raises TypeError unless `given` is a str."""
    if not isinstance(given, str):
        raise TypeError(f"{name} is one text, not {describe(given)}: {hint}")


def check_optional_text(name: str, given: object) -> None:
    """Raises TypeError unless `given` is a str or None."""
    if given is not None:
        check_text(name, given, "give a str, or None")


def check_texts(name: str, given: Iterable[object], hint: str = "put it into a list") -> None:
    """Raises TypeError for a single text or a value that is not iterable. `each_text` checks the items."""
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise TypeError(f"{name} is a list of texts, not {describe(given)}: {hint}")


def each_text(given: Iterable[str]) -> Iterator[str]:
    """Yield the texts. Raises TypeError for the first that is not a str."""
    for number, text in enumerate(given):
        check_text(f"texts[{number}]", text)
        yield text


def check_instance(name: str, given: object, wanted: type, hint: str) -> None:
    """Raises TypeError unless `given` is an instance of `wanted`."""
    if not isinstance(given, wanted):
        raise TypeError(f"{name} is {describe(given)}: {hint}")


def describe(given: object) -> str:
    """Describe a value: "the str 'mean'", "the int 3", "a list of 2", "None"."""
    if given is None:
        return "None"
    kind = type(given).__name__
    if isinstance(given, str):
        return f"the str {quoted(given)}"
    if isinstance(given, (bool, int, float, complex)):
        return f"the {kind} {shorten(repr(given))}"
    article = "an" if kind[0].lower() in "aeiou" else "a"
    return f"{article} {kind} of {len(given)}" if isinstance(given, Sized) else f"{article} {kind}"
