"""Open, inspect, make and run what somebody hands in, in this process."""

import copy
import importlib
import inspect
import os
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode

from attncli.base.errors import RequestError
from attncli.base.printable import printable, quoted, shorten
from attncli.base.untrusted import read_regular
from attncli.checks.code.failing import NO_ROOM, in_a_line, in_words, shown

MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
ARRAYS = {"numpy", "jax", "tensorflow"}
DEEP = 3  # levels of attributes in which the weights of an object are looked for
LISTED = 120  # characters of the names that a message offers
SAYS_WHAT = "FILE.py:NAME says what to check"
MISSING = object()


class Parameter(NamedTuple):
    """A parameter of a function, constructor or forward. kind: "positional", "keyword" (only), "many" (*args)."""

    name: str
    kind: str
    required: bool
    default: Any = None


class Description(NamedTuple):
    """The result of an inspection.

    kind: "function", "class" or "thing" (an object that is called). call: the parameters of the function or of forward;
    constructor: those of a class. speaks: "torch" or "numpy". source: its text, which begins on line `first` of `file`.
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
    """A weight's shape, and its owner: "linear" (y = x Wᵀ), "conv1d" (y = x W), another class's name, or ""."""

    shape: tuple[int, ...]
    owner: str


class Made(NamedTuple):
    """The weights of what was made, by name, and its whole numbers. Names in submodules have dots."""

    weights: dict[str, Weight]
    numbers: dict[str, int]


class Past:
    """Stands in the arguments of a call for what the call before gave beside its output: a cache."""


PAST = Past()


class Call(NamedTuple):
    """One run.

    strided: give tensors that are not contiguous. dtype: of weights and inputs. cotangent: with it, return gradients of
    Σ output · cotangent. dropout: False switches all dropout off.
    """

    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    dtype: str
    strided: bool = False
    cotangent: Tensor | None = None
    dropout: bool = True
    earlier: "tuple[Call, ...]" = ()


class Answer(NamedTuple):
    """The arrays that came out, in their order; or the error, in one line.

    gradients: one for each real tensor among the arguments. changed: whether it changed an input. at: the line of the
    file that the error came from, or None.
    """

    outputs: tuple[Tensor, ...] = ()
    gradients: tuple[Tensor, ...] | None = None
    changed: bool = False
    error: str | None = None
    at: int | None = None


# --- the subject ----------------------------------------------------------------------------------------


class Subject:
    """A function, a class, an object that is called, or a function without parameters that makes one of these.

    Every call runs on a fresh copy of what was made, so nothing that the code does to itself lasts. The object that is
    handed in is only copied. tell: is called before its code runs, with "made" or "called".

    Raises RequestError for what can't be called, made or copied.
    """

    def __init__(self, thing: Any, tell: Callable[[str], None] = lambda doing: None) -> None:
        if inspect.isfunction(thing) and not inspect.signature(thing).parameters:
            thing = made_by(thing, {})
        if not callable(thing) and not hasattr(thing, "forward"):
            raise RequestError(f"{name_of(thing)} is no function, class or module, but {type(thing).__name__}")
        self.thing = thing
        self.tell = tell
        self.settings = settings()
        self.description = described(thing)
        self.arguments: dict[str, Any] = {}
        self.filled: dict[str, Tensor] = {}
        self.ready: dict[torch.dtype, Any] = {}  # a copy in each dtype that was asked for, which never runs
        self.made = None if inspect.isclass(thing) else self.copied(thing)

    def describe(self) -> Description:
        return self.description

    def make(self, arguments: dict[str, Any]) -> Made:
        """Make an instance of the class with these arguments. Of an object or a function, forget what was filled."""
        self.tell("made")
        self.filled = {}
        if inspect.isclass(self.thing):
            self.arguments = arguments
            self.made = self.build()
        return self.look()

    def fill(self, weights: dict[str, Tensor]) -> None:
        """Set these weights. The others stay."""
        self.filled |= weights
        self.ready.clear()

    def call(self, call: Call) -> Answer:
        return self.run(call)[0]

    def settle(self, call: Call) -> Made:
        """Run once, so that parameters exist that the first forward makes. Return the weights that are there then.

        Change nothing where the call gives an error or makes no parameter.
        """
        answer, instance = self.run(call)
        if answer.error is None and weights_in(instance).keys() - weights_in(self.made).keys():
            self.made = instance
        return self.look()

    def look(self) -> Made:
        self.ready.clear()
        if isinstance(self.made, nn.Module):
            self.made.eval()
        return Made(weights_in(self.made), numbers_of(self.made))

    def run(self, call: Call) -> tuple[Answer, Any]:
        """Run on a fresh copy. Return the answer and the copy."""
        self.tell("called")
        dtype, numpy = getattr(torch, call.dtype), self.description.speaks == "numpy"
        instance, past = None, None
        try:
            instance = self.fresh(dtype)
            run: Callable[..., Any] = instance if callable(instance) else instance.forward
            gradients_too = nullcontext() if call.cotangent is not None else torch.no_grad()
            with self.their_settings(), gradients_too, nullcontext() if call.dropout else NoDropout():
                for one in (*call.earlier, call):
                    places: list[Tensor] = []
                    take = partial(given, dtype=dtype, strided=call.strided, numpy=numpy, places=places, past=past)
                    arguments, keywords = [*map(take, one.arguments)], {x: take(y) for x, y in one.keywords.items()}
                    before = [one.clone() for one in places]
                    learned = [one for one in places if one.is_floating_point() and call.cotangent is not None]
                    for tensor in learned:
                        tensor.requires_grad_()
                    made = run(*arguments, **keywords)
                    past = cache_of(made)
                outputs = tuple(arrays_in(made))
                gradients = None if call.cotangent is None else gradient(outputs, learned, call.cotangent)
            changed = any(not torch.equal(one.detach(), was) for one, was in zip(places, before, strict=True))
            return Answer(tuple(one.detach() for one in outputs), gradients, changed), instance
        except RequestError:
            raise
        except (Exception, SystemExit) as error:
            message, at = in_a_line(error, self.description.file)
            if message == NO_ROOM:  # the next call would need as much
                raise RequestError(f"{self.description.name} stops: {NO_ROOM}") from error
            return Answer(error=message, at=at), instance

    def fresh(self, dtype: torch.dtype) -> Any:
        """Return a copy of what was made, in this dtype and with the weights that it was given."""
        if dtype not in self.ready:
            made = self.copied(self.made)
            if isinstance(made, nn.Module):
                made._apply(lambda tensor: converted(tensor, dtype))
            with torch.no_grad():
                for name, array, _ in weights_of(made):
                    if name in self.filled:
                        weight = self.filled[name]
                        array[...] = weight.to(array) if isinstance(array, Tensor) else weight.numpy()
            self.ready[dtype] = made
        return self.copied(self.ready[dtype])

    def copied(self, made: Any) -> Any:
        """Return a deep copy. Where there is none, make another instance and give it the tensors of this one."""
        try:
            return copy.deepcopy(made, kept(made))
        except Exception as error:
            if not inspect.isclass(self.thing):
                what = "hand in its class, or a function without parameters that makes it"
                said = in_words(error, self.description.file)
                raise RequestError(f"{name_of(made)} can't be copied ({said}): {what}") from error
        there = dict(tensors_of(made))
        other = self.build()
        with torch.no_grad():
            for name, array in tensors_of(other):
                if isinstance(array, Tensor):
                    array.data = there[name].detach().clone()
                else:
                    array[...] = there[name]
        return other

    def build(self) -> Any:
        with self.their_settings(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # so that another instance is the same
            made = made_by(self.thing, {name: config(value) for name, value in self.arguments.items()})
        return made.eval() if isinstance(made, nn.Module) else made

    @contextmanager
    def their_settings(self) -> Iterator[None]:
        """Let their code run under torch's settings as it left them, and ours under our own."""
        ours = settings()
        set_settings(self.settings)
        try:
            yield
        finally:
            self.settings = settings()
            set_settings(ours)


def settings() -> tuple[torch.dtype, bool]:
    """Return what code may set for the whole process, and a formula depends on."""
    return torch.get_default_dtype(), torch.is_grad_enabled()


def set_settings(values: tuple[torch.dtype, bool]) -> None:
    torch.set_default_dtype(values[0])
    torch.set_grad_enabled(values[1])


def made_by(maker: Any, arguments: dict[str, Any]) -> Any:
    try:
        return maker(**arguments)
    except (Exception, SystemExit) as error:
        said = in_words(error, source_of(maker)[2])
        raise RequestError(f"{name_of(maker)} can't be made: {said}") from error


class Config(types.SimpleNamespace):
    """The config that some constructors take."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the config has no {name}: --give config.{name}=VALUE")

    def get(self, name: str, default: Any = None) -> Any:
        return getattr(self, name, default)

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


def config(value: Any) -> Any:
    return Config(**value) if isinstance(value, dict) else value


def kept(thing: Any) -> dict[int, Any]:
    """Return deepcopy's memo for attributes that it can't copy: Python modules, and tensors that have a graph."""
    holders = thing.modules() if isinstance(thing, nn.Module) else [getattr(thing, "__self__", thing)]
    memo: dict[int, Any] = {}
    for holder in holders:
        for value in list(getattr(holder, "__dict__", {}).values()):
            for one in value.values() if type(value) is dict else value if type(value) in (list, tuple) else [value]:
                if isinstance(one, types.ModuleType):
                    memo[id(one)] = one
                elif isinstance(one, Tensor) and not one.is_leaf:
                    memo[id(one)] = one.detach().clone()
    return memo


def converted(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert a parameter or buffer. A complex one stays complex, which Module.to would make real."""
    if tensor.is_complex():
        dtype = torch.complex128 if dtype == torch.float64 else torch.complex64
    return tensor.to("cpu", dtype if tensor.is_floating_point() or tensor.is_complex() else None)


def given(value: Any, dtype: torch.dtype, strided: bool, numpy: bool, places: list[Tensor], past: Any = None) -> Any:
    """Return a copy of an argument as the code gets it; `past` in place of PAST. Keep it in `places`."""
    if not isinstance(value, Tensor):
        return past if value is PAST else value
    made = value.to(dtype) if value.is_floating_point() else value
    made = made.mT.contiguous().mT if strided and made.dim() > 1 else made.clone()
    places.append(made)
    return made.numpy() if numpy else made


def cache_of(made: Any) -> Any:
    """Return what a call gave beside its output: the last of several, or what is called a cache; None without one."""
    if isinstance(made, dict):
        return next((value for name, value in made.items() if "past" in name or "cache" in name), None)
    return made[-1] if isinstance(made, list | tuple) and len(made) > 1 else None


def arrays_in(made: Any) -> Iterator[Tensor]:
    """Yield every array of real numbers, in its order."""
    if isinstance(made, Tensor):
        if not made.is_complex():
            yield (made.to_dense() if made.layout != torch.strided else made).cpu()
    elif isinstance(made, dict | list | tuple):
        for value in made.values() if isinstance(made, dict) else made:
            yield from arrays_in(value)
    elif hasattr(made, "__array__"):
        yield torch.from_numpy(np.array(made))
    elif hasattr(made, "__dict__"):
        yield from arrays_in(vars(made))


def gradient(outputs: tuple[Tensor, ...], of: list[Tensor], cotangent: Tensor) -> tuple[Tensor, ...]:
    """Differentiate Σ output · cotangent, for the first output of its shape. Unused inputs get 0."""
    output = next((one for one in outputs if one.shape == cotangent.shape), None)
    if output is None or not output.requires_grad:
        return ()
    found = torch.autograd.grad((output * cotangent.to(output)).sum(), of, allow_unused=True)
    return tuple(torch.zeros_like(x) if one is None else one for one, x in zip(found, of, strict=True))


class NoDropout(TorchFunctionMode):
    """Switches all of torch's dropout off, also in its fused kernel."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if name in ("dropout", "dropout_", "alpha_dropout", "feature_dropout", "dropout1d", "dropout2d", "dropout3d"):
            return args[0] if args else kwargs["input"]
        if name == "scaled_dot_product_attention":
            args, kwargs = (
                args[:4] + (0.0,) * (len(args) > 4) + args[5:],
                kwargs | ({} if len(args) > 4 else {"dropout_p": 0.0}),
            )
        return func(*args, **kwargs)


# --- inspecting -----------------------------------------------------------------------------------------


def described(thing: Any) -> Description:
    kind = "class" if inspect.isclass(thing) else "function" if inspect.isroutine(thing) else "thing"
    code = thing if kind != "thing" else type(thing)
    constructor = parameters(thing) if kind == "class" else ()
    return Description(name_of(thing), kind, parameters(called(thing)), constructor, speaks(code), *source_of(code))


def name_of(thing: Any) -> str:
    return printable(str(getattr(thing, "__name__", type(thing).__name__)))


def called(thing: Any) -> Any:
    """Return the function that has the parameters of a call: a module's forward."""
    if inspect.isroutine(thing):
        return thing
    cls = thing if inspect.isclass(thing) else type(thing)
    forward = issubclass(cls, nn.Module) or "__call__" not in dir(cls)
    return types.MethodType(getattr(cls, "forward" if forward else "__call__"), object())  # bound, so without self


def parameters(function: Any) -> tuple[Parameter, ...]:
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(
        Parameter(
            one.name,
            "many" if one.kind in MANY else "keyword" if one.kind == one.KEYWORD_ONLY else "positional",
            one.default is one.empty,
            one.default if type(one.default) in (bool, int, float, str) else None,
        )
        for one in found
    )


def source_of(thing: Any) -> tuple[str, int, str]:
    """Return its text, the number of its first line, and its file; all empty where nobody wrote it down."""
    try:
        lines, first = inspect.getsourcelines(thing)
        return "".join(lines), max(first, 1), inspect.getsourcefile(thing) or ""
    except (OSError, TypeError):
        return "", 1, ""


def speaks(thing: Any) -> str:
    """Return "torch" or "numpy", by the libraries that a function names, else by those that its file imports."""
    there = dict(getattr(thing, "__globals__", None) or vars(inspect.getmodule(thing) or types))
    names = getattr(getattr(thing, "__code__", None), "co_names", ())
    for some in ([there[name] for name in names if name in there], list(there.values())):
        modules = (
            one.__name__ if isinstance(one, types.ModuleType) else getattr(one, "__module__", "") for one in some
        )
        libraries = {str(name).partition(".")[0] for name in modules}
        if "torch" in libraries or libraries & ARRAYS:
            return "torch" if "torch" in libraries else "numpy"
    return "torch"


def weights_of(thing: Any, part: bool = False) -> Iterator[tuple[str, Any, str]]:
    """Yield name, array and owner of each weight that exists. part: `thing` is a layer of the subject."""
    if isinstance(thing, nn.Module):
        owners = dict(thing.named_modules())
        for name, parameter in thing.named_parameters():
            owner = owners[name.rpartition(".")[0]]
            kind = "linear" if isinstance(owner, nn.Linear) else type(owner).__name__.lower()
            own = (owner is thing and not part) or "ParameterList" in type(owner).__name__
            if not is_lazy(parameter):
                yield name, parameter.data, "" if own else kind
    elif not inspect.isroutine(thing):
        yield from arrays_of(thing, "", DEEP)


def arrays_of(thing: Any, prefix: str, deep: int) -> Iterator[tuple[str, Any, str]]:
    """Yield the real arrays among an object's attributes, and in their lists and objects."""
    inside = dict(enumerate(thing)) if isinstance(thing, list | tuple) else thing
    for name, value in (inside if isinstance(inside, dict) else getattr(inside, "__dict__", {})).items():
        path = f"{prefix}{name}"
        if isinstance(value, nn.Module):
            yield from ((f"{path}.{inner}", array, owner) for inner, array, owner in weights_of(value, part=True))
        elif isinstance(value, np.ndarray | Tensor):
            real = value.is_floating_point() if isinstance(value, Tensor) else np.issubdtype(value.dtype, np.floating)
            if real and value.ndim:
                yield path, value, ""
        elif isinstance(value, type | types.ModuleType):
            continue
        elif deep and (isinstance(value, list | tuple | dict) or hasattr(value, "__dict__")):
            yield from arrays_of(value, f"{path}.", deep - 1)


def tensors_of(made: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parameters and buffers of a module, or the arrays of another object."""
    if isinstance(made, nn.Module):
        yield from made.named_parameters()
        yield from made.named_buffers()
    else:
        yield from ((name, array) for name, array, _ in weights_of(made))


def weights_in(made: Any) -> dict[str, Weight]:
    return {name: Weight(tuple(array.shape), owner) for name, array, owner in weights_of(made)}


def numbers_of(thing: Any) -> dict[str, int]:
    """Return the whole numbers among the attributes of an object and its submodules."""
    inside = list(thing.named_modules()) if isinstance(thing, nn.Module) else [("", thing)]
    return {
        f"{path}.{name}" if path else name: value
        for path, one in inside
        for name, value in getattr(one, "__dict__", {}).items()
        if type(value) is int
    }


# --- opening --------------------------------------------------------------------------------------------


def opened(what: str) -> Any:
    """Return what "file.py:Name" or "package.module:Name" names. Without a name, return the only function or class.

    The file runs in this process as a program of its own would: its folder comes first in sys.path, and sys.argv has
    only its name. Its __name__ is the file's, not "__main__".

    Raises RequestError where there is no such file or name, or it can't be run.
    """
    place, name = split(what)
    is_module = not place.endswith(".py") and all(part.isidentifier() for part in place.split("."))
    module = from_module(place) if is_module else from_file(place)
    name = name or only(module, place)
    thing: Any = module
    for part in name.split("."):
        with running(f"{place}:{name}", module.__file__ or ""):
            thing = getattr(thing, part, MISSING)
        if thing is MISSING:
            there = shorten(", ".join(candidates(module)) or "no function and no class of its own", LISTED)
            raise RequestError(f"{shown(place)} has no {quoted(name)}: it has {there}")
    if not callable(thing):
        raise RequestError(f"{shown(what)} is no function, class or module, but of type {type(thing).__name__}")
    return thing


def split(what: str) -> tuple[str, str]:
    """Split "file.py:Name" into ("file.py", "Name"). The name is "" where there is none."""
    place, colon, name = what.rpartition(":")
    named = colon and "/" not in name and os.sep not in name  # C:\file.py has none
    return (place, name) if named else (what, "")


def only(module: types.ModuleType, place: str) -> str:
    own = candidates(module)
    if not own:
        raise RequestError(f"{shown(place)} has no functions and classes of its own: {SAYS_WHAT}")
    if len(own) > 1:
        others, place = shorten(", ".join(own[1:]), LISTED), shown(place)
        raise RequestError(f"{place} has {len(own)} functions and classes: {place}:{own[0]}, or {others}?")
    return own[0]


def candidates(module: types.ModuleType) -> list[str]:
    """Return the names of the public functions and classes that this module defines."""
    return [
        printable(name)
        for name, value in list(vars(module).items())
        if (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__
        and not name.startswith("_")
    ]


def from_file(place: str) -> types.ModuleType:
    path = Path(place).absolute()
    try:
        source = read_regular(path)
    except (OSError, ValueError) as error:  # ValueError: the name has a NUL
        why = getattr(error, "strerror", None) or error
        raise RequestError(f"{quoted(place)} can't be read ({why}): {SAYS_WHAT}") from error
    name = path.stem
    while name in sys.modules:  # a file called random.py must not replace Python's
        name += "_"
    loader = SourceFileLoader(name, str(path))
    spec = spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = sys.modules[name] = module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    sys.argv[:] = [place]
    with running(place, str(path)):  # not by the loader, which would leave a file beside theirs
        exec(loader.source_to_code(source, str(path)), vars(module))
    return module


def from_module(place: str) -> types.ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    sys.argv[:] = [place]
    with running(place, ""):
        try:
            spec = find_spec(place)
        except ModuleNotFoundError:
            spec = None
    if spec is None:
        raise RequestError(f"no module {quoted(place)} is in this folder or installed; a file is FILE.py:NAME")
    with running(place, spec.origin or ""):
        return importlib.import_module(place)


@contextmanager
def running(what: str, file: str) -> Iterator[None]:
    """Turn whatever their code raises into a RequestError."""
    try:
        yield
    except BaseException as error:
        verb = "read" if isinstance(error, SyntaxError) else "run"
        raise RequestError(f"{shown(what)} can't be {verb}: {in_words(error, file)}") from error
