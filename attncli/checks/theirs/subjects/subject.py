"""What somebody hands in, and the few things that may be asked of it: to say what it is, to be made, to be run."""

from typing import Any, NamedTuple, Protocol

from torch import Tensor


class Parameter(NamedTuple):
    """Of a function, a constructor or a forward. kind: "positional", "keyword" (only), "many" (*args, **kwargs)."""

    name: str
    kind: str
    required: bool
    default: Any = None


class Description(NamedTuple):
    """What inspection finds.

    kind: "function", "class", "thing" (an object that is called). call: of the function, or of forward; constructor: of
    a class. speaks: "torch" or "numpy", by the modules that its file has. source and first: its text, and the number of
    its first line in its file; file: that file's name.
    """

    name: str
    kind: str
    call: tuple[Parameter, ...]
    constructor: tuple[Parameter, ...] = ()
    speaks: str = "torch"
    source: str = ""
    first: int = 1
    file: str = ""


class Weight(NamedTuple):
    """Its shape, and what has it: "linear" (y = x Wᵀ), "conv1d" (y = x W), else the class's name; "" for none."""

    shape: tuple[int, ...]
    owner: str


class Made(NamedTuple):
    """What was made: its weights by name, and its whole numbers (of modules in it too, with dots)."""

    weights: dict[str, Weight]
    numbers: dict[str, int]


class Past:
    """Stands in the arguments of a call for what the call before it gave beside its output: a cache."""


PAST = Past()


class Call(NamedTuple):
    """One run. What is None in `arguments` is given as None.

    strided: tensors are no block in memory. dtype: of weights and inputs. cotangent: with it, gradients of
    Σ output · cotangent are asked for, of the inputs that are named in `wanted`. dropout: False switches all of it off. earlier: the calls
    that come before it, on the same copy.
    """

    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    dtype: str
    strided: bool = False
    cotangent: Tensor | None = None
    dropout: bool = True
    earlier: tuple["Call", ...] = ()


class Answer(NamedTuple):
    """What came out, in the order in which it stands there; or the error, in one line.

    gradients: of the arguments that are tensors of real numbers, in their order. changed: whether an input was. at: the
    line of the file where the error came from, or None.
    """

    outputs: tuple[Tensor, ...] = ()
    gradients: tuple[Tensor, ...] | None = None
    changed: bool = False
    error: str | None = None
    at: int | None = None


class Subject(Protocol):
    """Raises RequestError where it can't be asked at all: it is not there, has ended, or takes too long."""

    def describe(self) -> Description: ...

    def make(self, arguments: dict[str, Any]) -> Made:
        """With these arguments for its constructor; of a thing that is there already, without any."""

    def fill(self, weights: dict[str, Tensor]) -> None:
        """Its weights become these; those that are not named stay."""

    def call(self, call: Call) -> Answer: ...
