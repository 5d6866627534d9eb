"""A measure: a function that answers a question. Its parameters are the options of a command, its docstring the help.

    @measure(AskedOptions, saved_as="effects")
    def cut(model: options.Model = None, text: options.Text = None, *, top: ... = None, **asked: ...) -> Result:

The command line, its help and its completion are made from the signature. The class of the result shows it.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import wraps
from typing import Annotated, Any, NamedTuple, TypeVar, cast, get_args, get_origin, get_type_hints

from attncli.base.errors import RequestError
from attncli.base.files import DOCUMENTS, PAGE, PICTURES
from attncli.features.options import Option

F = TypeVar("F", bound=Callable[..., Any])
_OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][\w-]*")


class Parameter(NamedTuple):
    """An option of a command: the type of its value, its help and names, and its default."""

    kind: Any
    option: Option
    default: Any


class Measure(NamedTuple):
    """A measure with the settings of its command.

    help: the text above its options. parameters: its options by name. saves: the suffixes of its files. saved_as: the
    name of a file's content in errors. output: the file that its command writes without -o. passes_on: whether
    everything after the first argument belongs to it, as for a program.
    """

    function: Callable[..., Any]
    help: str
    parameters: Mapping[str, Parameter]
    saves: tuple[str, ...] = (*PICTURES, PAGE, *DOCUMENTS)
    saved_as: str = "a report"
    json: bool = True
    output: str | None = None
    passes_on: bool = False


def measure(shared: Any = None, **settings: Any) -> Callable[[F], F]:
    """Make a function a measure.

    shared: a TypedDict of the options that it takes as keywords, in addition to its signature. settings: fields of
    `Measure`. Python's `help` shows the help of each parameter in place of the command's examples, and
    names options as Python does.
    """

    def mark(function: F) -> F:
        given = inspect.signature(function).parameters.values()
        own = [one for one in given if one.kind is not one.VAR_KEYWORD]
        hints = {one.name: one.annotation for one in own}
        more = {} if shared is None else get_type_hints(shared, include_extras=True)
        defaults = {one.name: one.default for one in own}
        parameters = {}
        first = {one.name: hints[one.name] for one in own if one.kind is not one.KEYWORD_ONLY}
        for name, hint in (first | more | hints).items():  # shared options come before its own keyword-only ones
            if get_origin(hint) is Annotated:
                kind, option, *_ = get_args(hint)
                default = inspect.Parameter.empty if option.needed else defaults.get(name)
                parameters[name] = Parameter(option.kind or kind, option, default)
        shown = [one.replace(annotation=one.empty) for one in own if one.name in parameters]
        shown += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in more]

        @wraps(function)
        def made(*values: Any, **options: Any) -> Any:
            for name in options.keys() - parameters.keys() - defaults.keys():
                near = get_close_matches(name, parameters, 1)
                advice = f": did you mean {near[0]}?" if near else ""
                raise TypeError(f"{function.__name__} has no parameter {name}{advice}")
            return function(*values, **options)

        measured: Any = made
        measured.__signature__ = inspect.signature(function).replace(parameters=shown)
        about, _, _ = inspect.cleandoc(function.__doc__ or "").partition("\b")
        lines = (f"{name}: {one.option.help}" for name, one in parameters.items())
        measured.measure = Measure(function, function.__doc__ or "", parameters, **settings)
        in_python = {option: name for name, one in parameters.items() for option in one.option.names}
        measured.__doc__ = _OPTION.sub(
            lambda one: f"`{in_python[one[0]]}`" if one[0] in in_python else one[0], about + "\n".join(lines)
        )
        return cast("F", measured)

    return mark


class NoEffectError(RequestError):
    """A given parameter has no effect; `why` gives the reason."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name} has no effect {why}: omit it")
        self.name, self.why = name, why


def no_effect(why: str, **given: Any) -> None:
    """Raises NoEffectError for the first of these parameters that was given: that is not None or False."""
    for name, value in given.items():
        if value is not None and value is not False:
            raise NoEffectError(name, why)
