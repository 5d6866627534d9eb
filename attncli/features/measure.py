"""A measure: a function that answers a question. Its parameters are the options of a command, its docstring the help.

    @measure(AskedOptions, saved_as="effects")
    def cut(model: options.Model = None, text: options.Text = None, *, top: ... = None, **asked: ...) -> Result:

The command line, its help and its completion are made of the signature. What shows the result is in its class.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from attncli.base.errors import RequestError
from attncli.base.files import DOCUMENTS, PAGE, PICTURES
from attncli.features.options import Option

F = TypeVar("F", bound=Callable[..., Any])


class Parameter(NamedTuple):
    """An option of a command: the type of its value, what the command line shows of it, and its default."""

    kind: Any
    option: Option
    default: Any


class Measure(NamedTuple):
    """What a command needs to know of a measure.

    help: the text above its options. parameters: its options by name. saves: the suffixes of
    its files. saved_as: what an error calls the content of such a file. output: the file that its command writes
    without -o. several: whether -o may be given several times. passes_on: whether all that follows its first argument
    belongs to that, as to a program.
    """

    function: Callable[..., Any]
    help: str
    parameters: Mapping[str, Parameter]
    saves: tuple[str, ...] = (*PICTURES, PAGE, *DOCUMENTS)
    saved_as: str = "a report"
    json: bool = True
    output: str | None = None
    several: bool = False
    passes_on: bool = False


def measure(shared: Any = None, **settings: Any) -> Callable[[F], F]:
    """Make a function a measure.

    shared: a TypedDict of the options that it takes as keywords, beside those in its signature. settings: of `Measure`.
    `help` shows each parameter's line of the command's help in place of the command's examples.
    """

    def mark(function: F) -> F:
        given = inspect.signature(function).parameters.values()
        own = [one for one in given if one.kind is not one.VAR_KEYWORD]
        hints = {one.name: one.annotation for one in own}
        more = {} if shared is None else get_type_hints(shared, include_extras=True)
        defaults = {one.name: one.default for one in own}
        parameters = {}
        first = {one.name: hints[one.name] for one in own if one.kind is not one.KEYWORD_ONLY}
        for name, hint in (first | more | hints).items():  # the shared ones before its own that only keywords set
            if get_origin(hint) is Annotated:
                kind, option, *_ = get_args(hint)
                default = inspect.Parameter.empty if option.needed else defaults.get(name)
                parameters[name] = Parameter(option.kind or kind, option, default)
        shown = [one.replace(annotation=one.empty) for one in own if one.name in parameters]
        shown += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in more]
        made: Any = function
        made.__signature__ = inspect.signature(function).replace(parameters=shown)
        about, _, _ = inspect.cleandoc(function.__doc__ or "").partition("\b")
        lines = (f"{name}: {one.option.help}" for name, one in parameters.items())
        made.measure = Measure(function, function.__doc__ or "", parameters, **settings)
        function.__doc__ = about + "\n".join(lines)
        return function

    return mark


class NoEffectError(RequestError):
    """A parameter that was given has no effect, and `why` says why."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name} has no effect {why}: leave it out")
        self.name, self.why = name, why


def no_effect(why: str, **given: Any) -> None:
    """Raises NoEffectError for the first of these parameters that was given: that is not None or False."""
    for name, value in given.items():
        if value is not None and value is not False:
            raise NoEffectError(name, why)
