"""A subject in a process of its own: what it does there can't harm this one, and what it answers is not believed."""

from collections.abc import Callable
from types import TracebackType
from typing import Any

from torch import Tensor

from attncli.base import schema
from attncli.base.errors import RequestError
from attncli.base.printable import printable, shorten
from attncli.checks.theirs.subjects import wire
from attncli.checks.theirs.subjects.failing import NO_ROOM
from attncli.checks.theirs.subjects.process import Process
from attncli.checks.theirs.subjects.subject import Answer, Call, Description, Made, Parameter, Weight

LINE = 300  # characters of an error
MANY = 10_000  # weights, parameters, outputs: more than anything has
SOURCE = 1_000_000  # characters


def tensor(value: Any, what: str) -> None:
    if not isinstance(value, Tensor):
        schema.refuse(value, what, "a tensor")


def number(value: Any, what: str) -> None:
    if type(value) is not int:
        schema.refuse(value, what, "a whole number")


def name(value: Any, what: str) -> None:
    schema.name()(value, what)
    if printable(value) != value:
        schema.refuse(value, what, "a name that can be shown")


def few(inner: schema.Check) -> schema.Check:
    """A list, as long as one may be."""

    def check(value: Any, what: str) -> None:
        schema.each(inner)(value, what)
        if len(value) > MANY:
            raise ValueError(f"{what} has {len(value)}")

    return check


def named(inner: schema.Check) -> schema.Check:
    """A dict by names."""

    def check(value: Any, what: str) -> None:
        if type(value) is not dict or len(value) > MANY:
            schema.refuse(value, what, "an object")
        for one, inside in value.items():
            name(one, f"a name in {what}")
            inner(inside, f"{what}: {one}")

    return check


def default(value: Any, what: str) -> None:
    if type(value) not in (bool, int, float, str, type(None)):
        schema.refuse(value, what, "a plain value")


PARAMETER = schema.fields(
    {
        "name": name,
        "kind": schema.one_of(("positional", "keyword", "many")),
        "required": schema.flag(),
        "default": default,
    }
)
DESCRIPTION = schema.fields(
    {
        "name": name,
        "kind": schema.one_of(("function", "class", "thing")),
        "call": few(PARAMETER),
        "constructor": few(PARAMETER),
        "speaks": schema.one_of(("torch", "numpy")),
        "source": schema.name(SOURCE),
        "first": schema.whole(1),
        "file": schema.name(),
    }
)
MADE = schema.fields(
    {
        "weights": named(schema.fields({"shape": schema.each(schema.whole()), "owner": name})),
        "numbers": named(number),
    }
)
ANSWER = schema.fields(
    {
        "outputs": few(tensor),
        "gradients": schema.maybe(few(tensor)),
        "changed": schema.flag(),
        "error": schema.maybe(schema.name()),
        "at": schema.maybe(schema.whole(1)),
    }
)


def nothing(value: Any, what: str) -> None:
    if value is not None:
        schema.refuse(value, what, "nothing")


class Apart:
    """What is opened in `process`, which ends with this. advance: is called whenever it has answered."""

    def __init__(self, process: Process, advance: Callable[[], None] = lambda: None) -> None:
        self.process = process
        self.advance = advance

    def __enter__(self) -> "Apart":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.process.close()

    def describe(self) -> Description:
        told = self.ask("describe", None, DESCRIPTION, "it is opened")
        lists = {of: tuple(Parameter(**one) for one in told[of]) for of in ("call", "constructor")}
        return Description(**told | lists)

    def make(self, arguments: dict[str, Any]) -> Made:
        told = self.ask("make", arguments, MADE, "it is made")
        weights = {of: Weight(tuple(one["shape"]), one["owner"]) for of, one in told["weights"].items()}
        return Made(weights, told["numbers"])

    def fill(self, weights: dict[str, Tensor]) -> None:
        self.ask("fill", weights, nothing, "its weights are set")

    def call(self, call: Call) -> Answer:
        told = self.ask("call", call, ANSWER, "it is called")
        gradients = None if told["gradients"] is None else tuple(told["gradients"])
        if told["error"] is not None and NO_ROOM in told["error"]:  # the next call would fill it once more
            raise RequestError(self.line(f"{self.process.what} stops: {told['error']}", LINE))
        error = None if told["error"] is None else self.line(told["error"], 200)
        return Answer(tuple(told["outputs"]), gradients, told["changed"], error, told["at"])

    def ask(self, verb: str, given: Any, check: schema.Check, doing: str) -> Any:
        """Raises RequestError for what it refuses, and for an answer that is none."""
        answer = self.process.ask(wire.pack({"verb": verb, "with": given}), doing)
        self.advance()
        try:
            told = wire.unpack(answer)
            schema.fields({}, {"answer": check, "refused": schema.name(None)})(told, "it")
            if len(told) != 1:
                raise ValueError("no answer")
        except ValueError as error:
            raise RequestError(self.process.no_answer(error, doing)) from error
        if "refused" in told:
            raise RequestError(self.line(told["refused"], LINE))
        return told["answer"]

    def line(self, said: str, longest: int) -> str:
        """One, harmless, and what may be done about memory."""
        room = f"it takes more than {self.process.gigabytes:g} GB of memory: --memory-limit GB gives it more"
        return shorten(printable(said.replace(NO_ROOM, room)), longest)
