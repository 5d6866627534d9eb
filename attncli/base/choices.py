"""The names that options accept. `--help`, shell completion, checks and registries read them from here.

The function of each name documents its meaning. A test compares these names with the registries of functions.
"""

from typing import Any, Literal, get_args

from attncli.base.errors import RequestError
from attncli.base.printable import quoted

Mask = Literal["padding", "causal", "none"]
Measure = Literal["weight", "norm"]
Kind = Literal["encoder", "decoder", "cross"]
Itself = Literal["encoder", "decoder"]  # self-attention
Engine = Literal["auto", "attncli", "transformers"]
Device = Literal["auto", "cpu", "cuda", "mps"]
Dtype = Literal["float32", "float64", "bfloat16", "float16"]
Style = Literal["matrix", "lines"]
Scale = Literal["head", "shared", "root"]
PageView = Literal["heads", "model", "matrix", "neuron"]
Method = Literal["raw", "rollout", "flow"]
Figure = Literal[
    "entropy", "strongest", "distance", "self", "previous", "next", "first", "cls", "separator", "punctuation",
    "same_word",
]  # fmt: skip
By = Literal["weight", "content", Figure]
Design = Literal[
    "rotary", "rotary-interleaved", "rotary-partial", "relative", "alibi", "disentangled", "window", "causal-window",
    "grouped", "multi-query",
]  # fmt: skip
Attention = Literal["additive", "dot", "general", "concat", "transformer"]
Against = Literal["transformers", "torch"]
Weights = Literal["auto", "pretrained", "random"]
Asked = Literal["cosine", "logit", "probability", "log-probability", "divergence", "distance"]
Way = Literal["zero", "mean", "resample"]
Patched = Literal["head", "layer", "token"]
MaskMeans = Literal["allowed", "forbidden", "added"]
Pool = Literal["mean", "last"]
Nowhere = Literal["any", "zero-or-nan", "zero", "nan"]
Output = Literal["classes", "tokens", "span", "words", "embedding", "next"]


def names(choice: Any) -> tuple[str, ...]:
    """Return the names of a choice in order. The first is the default."""
    return get_args(choice)


def check(what: str, name: str, choice: Any) -> None:
    """Raises RequestError, listing the valid names, unless `name` is one of them: "no mask 'x'"."""
    if name not in names(choice):
        raise RequestError(f"no {what} {quoted(name)}: it is one of {', '.join(names(choice))}")


def several(what: str, written: str, choice: Any) -> list[str]:
    """Split "none,causal" into its names without duplicates. Raises RequestError as `check` does."""
    chosen = list(dict.fromkeys(name.strip() for name in written.split(",")))
    for name in chosen:
        check(what, name, choice)
    return chosen
