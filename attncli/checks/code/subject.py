"""Open, inspect, make and call somebody's code, in this process."""

import copy
import importlib
import inspect
import linecache
import os
import sys
import trace
import traceback
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from inspect import Parameter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode

from attncli.base.errors import RequestError
from attncli.base.printable import printable, quoted, shorten, shorten_start
from attncli.base.untrusted import read_regular

ARRAYS = {"numpy", "jax", "tensorflow"}
DROPOUTS = {"dropout", "dropout_", "alpha_dropout", "feature_dropout", "dropout1d", "dropout2d", "dropout3d"}
DEEP = 3  # levels of attributes that are searched for the weights of an object
LISTED = 120  # characters of the names that a message offers
MESSAGE = 160  # characters of an error's message
USAGE = "FILE.py:NAME says what to check"
OUT_OF_MEMORY = "it takes more memory than it may have"
MISSING = object()
PAST = object()  # stands for the cache that the previous call returned


class Weight(NamedTuple):
    """The shape of a weight, and its owner: "linear" (y = x Wᵀ), "conv1d" (y = x W), another class's name, or ""."""

    shape: tuple[int, ...]
    owner: str


class CodeCall(NamedTuple):
    """The arguments of a call.

    dtype: of weights and inputs. strided: pass tensors that are not contiguous. cotangent: with it, return the
    gradients of Σ output · cotangent. dropout: False switches all dropout off. training: put a module into its training
    mode. earlier: calls made before this one.
    """

    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    dtype: str
    strided: bool = False
    cotangent: Tensor | None = None
    dropout: bool = True
    training: bool = False
    earlier: "tuple[CodeCall, ...]" = ()


class Returned(NamedTuple):
    """The arrays that a call returned, in order, or its error in one line.

    gradients: one for each real tensor among the arguments. changed: an input was changed in place. line: the line of
    the file that raised the error.
    """

    arrays: tuple[Tensor, ...] = ()
    gradients: tuple[Tensor, ...] | None = None
    changed: bool = False
    error: str | None = None
    line: int | None = None

    def describe(self) -> str:
        """Return the error and its line, or the shapes of the arrays."""
        if self.error is not None:
            return self.error + ("" if self.line is None else f" (line {self.line})")
        return ", ".join(str(list(one.shape)) for one in self.arrays) or "nothing"


class Subject:
    """A function, a class, a callable object, or a function without parameters that makes one of these.

    Every call runs on a fresh copy, so nothing that the code does to itself lasts. report: is called with "made" or
    "called" before the code runs, and with "examined" after it. library: "torch" or "numpy".
    source: the text, which begins on line `first` of `file`. weights: by name; names in submodules have dots. numbers:
    those among its attributes.

    Raises RequestError if it can't be called, made or copied.
    """

    def __init__(self, thing: Any, report: Callable[[str], None] = lambda step: None) -> None:
        if inspect.isfunction(thing) and not inspect.signature(thing).parameters:
            thing = construct(thing, {})
        if not callable(thing) and not hasattr(thing, "forward"):
            raise RequestError(f"{name_of(thing)} is not a function, class or module, but {type(thing).__name__}")
        self.thing = thing
        self.report = report
        self.settings = torch_settings()
        self.name = name_of(thing)
        self.kind = "class" if inspect.isclass(thing) else "function" if inspect.isroutine(thing) else "object"
        code, called = type(thing) if self.kind == "object" else thing, thing
        if self.kind != "function":  # the forward of a module, bound
            if not {"forward", "__call__"} & {*dir(code)}:
                raise RequestError(f"{self.name} has neither forward nor __call__, so it is no attention")
            has_forward = issubclass(code, nn.Module) or "__call__" not in dir(code)
            called = types.MethodType(getattr(code, "forward" if has_forward else "__call__"), object())
        self.parameters = parameters_of(called)
        self.constructor = parameters_of(thing) if self.kind == "class" else ()
        self.library = library_of(code)
        self.source, self.first, self.file = source_of(code)
        self.filled: dict[str, Tensor] = {}
        self.ready: dict[torch.dtype, Any] = {}  # a copy in each dtype, which never runs
        self.weights: dict[str, Weight] = {}
        self.numbers: dict[str, float] = {}
        self.set_instance(None if self.kind == "class" else self.copy(thing))

    def make(self, arguments: dict[str, Any]) -> None:
        """Make an instance of the class. Forget the weights that were filled in."""
        self.report("made")
        self.filled = {}
        if self.kind == "class":
            with self.their_settings(), torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                configs = {name: Config(value) for name, value in arguments.items() if isinstance(value, dict)}
                self.instance = construct(self.thing, {**arguments, **configs})
        self.set_instance(self.instance)
        self.report("examined")

    def set_instance(self, instance: Any) -> None:
        self.instance = instance.eval() if isinstance(instance, nn.Module) else instance
        self.ready.clear()
        self.weights = {name: Weight(tuple(array.shape), owner) for name, array, owner in weights_of(instance)}
        self.numbers = numbers_of(instance)

    def fill(self, weights: dict[str, Tensor]) -> None:
        """Set these weights and keep the others."""
        self.filled |= weights
        self.ready.clear()

    def bind(self, shapes: dict[str, tuple[int, ...]], sizes: dict[str, Any]) -> None:
        """Turn a function of vectors, weights and sizes into one of vectors, with weights and sizes bound."""
        zeros = np.zeros if self.library == "numpy" else torch.zeros
        first, *left = [one for one in self.parameters if one.name not in {*shapes, *sizes}]
        self.parameters = (first, *(one.replace(kind=Parameter.KEYWORD_ONLY) for one in left))
        self.set_instance(partial(self.thing, **{name: zeros(shape) for name, shape in shapes.items()}, **sizes))

    def lines_run(self, call: CodeCall) -> str:
        """Return the lines of the files in the subject's folder that this call runs, without comments."""
        folder = str(Path(self.file).parent) if self.file else "-"
        tracer = trace.Trace(trace=False)
        tracer.runfunc(self.run, call)
        places = [place for place in tracer.results().counts if place[0].startswith(folder)]
        own = [place for place in places if ("site-packages" in place[0]) == ("site-packages" in folder)]
        return "".join(linecache.getline(*place).partition("#")[0] + "\n" for place in own)

    def call(self, call: CodeCall) -> Returned:
        return self.run(call)[0]

    def settle(self, call: CodeCall) -> None:
        """Call once and keep the parameters that the first forward makes. Ignore a call that fails."""
        returned, instance = self.run(call)
        if returned.error is None and {name for name, *_ in weights_of(instance)} - self.weights.keys():
            self.set_instance(instance)

    def run(self, call: CodeCall) -> tuple[Returned, Any]:
        """Run on a fresh copy. Return what the call returned, and the copy."""
        self.report("called")
        dtype, instance, past = getattr(torch, call.dtype), None, None
        try:
            instance = self.fresh(dtype)
            if call.training and isinstance(instance, nn.Module):
                instance.train()
            function: Callable[..., Any] = instance if callable(instance) else instance.forward
            gradient_mode = nullcontext() if call.cotangent is not None else torch.no_grad()
            with self.their_settings(), gradient_mode, nullcontext() if call.dropout else NoDropout():
                for one in (*call.earlier, call):
                    tensors: list[Tensor] = []
                    copy_argument = partial(self.copy_argument, call=call, tensors=tensors, past=past)
                    arguments = [copy_argument(value) for value in one.arguments]
                    keywords = {name: copy_argument(value) for name, value in one.keywords.items()}
                    before = [tensor.clone() for tensor in tensors]
                    learned = [x for x in tensors if x.is_floating_point() and call.cotangent is not None]
                    for tensor in learned:
                        tensor.requires_grad_()
                    result = function(*arguments, **keywords)
                    past = cache_in(result)
                arrays = tuple(arrays_in(result))
                gradients: tuple[Tensor, ...] | None = None
                if call.cotangent is not None:  # of the first array of that shape; unused inputs get 0
                    output = next((one for one in arrays if one.shape == call.cotangent.shape), None)
                    gradients = ()
                    if output is not None and output.requires_grad:
                        total = (output * call.cotangent.to(output)).sum()
                        gradients = torch.autograd.grad(total, learned, materialize_grads=True)
            changed = any(not torch.equal(x.detach(), old) for x, old in zip(tensors, before, strict=True))
            return Returned(tuple(one.detach() for one in arrays), gradients, changed), instance
        except RequestError:
            raise
        except (Exception, SystemExit) as error:
            message, line = message_of(error), line_of(error, self.file)
            if message == OUT_OF_MEMORY:  # the next call would need as much
                raise RequestError(f"{self.name} stops: {OUT_OF_MEMORY}") from error
            return Returned(error=message, line=line), instance
        finally:
            self.report("examined")

    def copy_argument(self, value: Any, call: CodeCall, tensors: list[Tensor], past: Any) -> Any:
        """Copy a tensor in the call's dtype and layout, and append the copy to `tensors`. Replace PAST by the cache."""
        if not isinstance(value, Tensor):
            return past if value is PAST else value
        made = value.to(getattr(torch, call.dtype)) if value.is_floating_point() else value
        made = made.mT.contiguous().mT if call.strided and made.dim() > 1 else made.clone()
        tensors.append(made)
        return made.numpy() if self.library == "numpy" else made

    def fresh(self, dtype: torch.dtype) -> Any:
        """Return a copy of the instance in this dtype, with the weights that were filled in."""
        if dtype not in self.ready:
            made = self.copy(self.instance)
            if isinstance(made, nn.Module):
                made._apply(lambda tensor: convert(tensor, dtype))
            with torch.no_grad():
                for name, array, _ in weights_of(made):
                    if name in self.filled:
                        weight = self.filled[name]
                        array[...] = weight.to(array) if isinstance(array, Tensor) else weight.numpy()
            self.ready[dtype] = made
        return self.copy(self.ready[dtype])

    def copy(self, instance: Any) -> Any:
        """Return a deep copy."""
        try:
            with DetachedCopies():
                return copy.deepcopy(instance)
        except Exception as error:
            reason = describe_error(error, self.file)
            remedy = "check its class, or a function without parameters that makes it anew"
            raise RequestError(f"{self.name} can't be copied ({reason}): {remedy}") from error

    @contextmanager
    def their_settings(self) -> Iterator[None]:
        """Run their code uncompiled, with the torch settings that it left; then restore ours."""
        ours = torch_settings()
        set_torch_settings(self.settings)
        compiles = "torch._dynamo" in sys.modules  # flex attention compiles anew for every input size
        try:
            with torch.compiler.set_stance("force_eager") if compiles else nullcontext():
                yield
        finally:
            self.settings = torch_settings()
            set_torch_settings(ours)


def torch_settings() -> tuple[torch.dtype, bool]:
    return torch.get_default_dtype(), torch.is_grad_enabled()


def set_torch_settings(values: tuple[torch.dtype, bool]) -> None:
    torch.set_default_dtype(values[0])
    torch.set_grad_enabled(values[1])


def construct(maker: Any, arguments: dict[str, Any]) -> Any:
    try:
        return maker(**arguments)
    except (Exception, SystemExit) as error:
        reason = describe_error(error, source_of(maker)[2])
        raise RequestError(f"{name_of(maker)} can't be made: {reason}") from error


class Config(dict[str, Any]):
    """The config that some constructors take: with attributes, items, or `get`."""

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(f"the config has no {name}")
        return self[name]


def convert(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert a parameter or buffer. A complex one stays complex; `Module.to` would make it real."""
    if tensor.is_complex():
        dtype = torch.complex128 if dtype == torch.float64 else torch.complex64
    return tensor.to("cpu", dtype if tensor.is_floating_point() or tensor.is_complex() else None)


def cache_in(result: Any) -> Any:
    """Return the cache in a result, or None.

    In a dict, it is the value named past or cache; in a tuple, the last value that is not an array, or else the last.
    """
    if isinstance(result, dict):
        named = ((name, value) for name, value in result.items() if isinstance(name, str))
        return next((value for name, value in named if "past" in name or "cache" in name), None)
    if not isinstance(result, list | tuple) or len(result) < 2:
        return None
    return next((one for one in reversed(result) if not (one is None or hasattr(one, "shape"))), result[-1])


def arrays_in(result: Any) -> Iterator[Tensor]:
    """Yield every array of real numbers, in order."""
    if isinstance(result, Tensor):
        if not result.is_complex():
            yield (result.to_dense() if result.layout != torch.strided else result).cpu()
    elif isinstance(result, dict | list | tuple):
        for value in result.values() if isinstance(result, dict) else result:
            yield from arrays_in(value)
    elif hasattr(result, "__array__"):
        yield torch.from_numpy(np.array(result))
    elif hasattr(result, "__dict__"):
        yield from arrays_in(vars(result))


class DetachedCopies(TorchFunctionMode):
    """Lets deepcopy copy tensors that have a graph, without it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.__deepcopy__ and not args[0].is_leaf:
            return args[1].setdefault(id(args[0]), args[0].detach().clone())
        return func(*args, **(kwargs or {}))


class NoDropout(TorchFunctionMode):
    """Switches all of torch's dropout off, also in its fused kernel."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if name in DROPOUTS:
            return args[0] if args else kwargs["input"]
        if name == "multi_head_attention_forward" and len(args) > 10:
            args = (*args[:10], 0.0, *args[11:])
        elif name == "scaled_dot_product_attention" and len(args) > 4:
            args = (*args[:4], 0.0, *args[5:])
        elif name == "scaled_dot_product_attention":
            kwargs = kwargs | {"dropout_p": 0.0}
        return func(*args, **kwargs)


# --- errors of somebody's code ----------------------------------------------------------------------------


def describe_error(error: BaseException, file: str) -> str:
    """Return "ValueError: it is odd (line 4)"."""
    line = line_of(error, file)
    return message_of(error) + ("" if line is None else f" (line {line})")


def line_of(error: BaseException, file: str) -> int | None:
    """Return the last line of this file that the error passed through."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno for frame in reversed(frames) if file and frame.filename == file), None)


def message_of(error: BaseException) -> str:
    """Return the type of the error and the first line of its message."""
    try:
        text = str(error.msg if isinstance(error, SyntaxError) else error).strip().partition("\n")[0]
    except BaseException:  # noqa: BLE001  (__str__ is somebody's code)
        text = ""
    if isinstance(error, MemoryError) or "can't allocate memory" in text:  # torch raises a RuntimeError
        return OUT_OF_MEMORY
    if isinstance(error, SystemExit):
        return shorten(printable(f"it calls sys.exit({'' if error.code is None else text})"), MESSAGE)
    if type(error) is KeyError:
        text = f"no {text}"
    return shorten(printable(type(error).__name__ + (f": {text}" if text else "")), MESSAGE)


# --- inspecting -------------------------------------------------------------------------------------------


def name_of(thing: Any) -> str:
    return printable(str(getattr(thing, "__name__", type(thing).__name__)))


def parameters_of(function: Any) -> tuple[Parameter, ...]:
    try:
        return tuple(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return ()


def is_variadic(parameter: Parameter) -> bool:
    return parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)


def is_required(parameter: Parameter) -> bool:
    return parameter.default is parameter.empty and not is_variadic(parameter)


def source_of(thing: Any) -> tuple[str, int, str]:
    """Return the source, the number of its first line, and its file. All are empty for code without a file."""
    try:
        lines, first = inspect.getsourcelines(thing)
        return "".join(lines), max(first, 1), inspect.getsourcefile(thing) or ""
    except (OSError, TypeError):
        return "", 1, ""


def library_of(thing: Any) -> str:
    """Return "torch" or "numpy", by the libraries that a function uses, or else those that its file imports."""
    known = dict(getattr(thing, "__globals__", None) or vars(inspect.getmodule(thing) or types))
    names = getattr(getattr(thing, "__code__", None), "co_names", ())
    for values in ([known[name] for name in names if name in known], list(known.values())):
        modules = [x.__name__ if isinstance(x, types.ModuleType) else getattr(x, "__module__", "") for x in values]
        libraries = {str(name).partition(".")[0] for name in modules}
        if "torch" in libraries or libraries & ARRAYS:
            return "torch" if "torch" in libraries else "numpy"
    return "torch"


def weights_of(instance: Any, inside: bool = False) -> Iterator[tuple[str, Any, str]]:
    """Yield the name, array and owner of each weight. inside: the instance is a layer of the subject."""
    if isinstance(instance, nn.Module):
        owners = dict(instance.named_modules(remove_duplicate=False))
        every = instance.named_parameters(remove_duplicate=False)
        for name, parameter in {id(parameter): (name, parameter) for name, parameter in every}.values():
            owner = owners[name.rpartition(".")[0]]  # by the last name: an adapter adds its names after the others
            raw = (owner is instance and not inside) or isinstance(owner, nn.ParameterList)
            if not is_lazy(parameter):
                yield name, parameter.data, "" if raw else type(owner).__name__.lower()
    elif not inspect.isroutine(instance):
        yield from arrays_of(instance, "", DEEP)


def arrays_of(holder: Any, prefix: str, deep: int) -> Iterator[tuple[str, Any, str]]:
    """Yield the real arrays among the attributes of an object, and in their lists and objects."""
    for name, value in attributes_of(holder).items():
        path = f"{prefix}{name}"
        if isinstance(value, nn.Module):
            yield from ((f"{path}.{inner}", array, owner) for inner, array, owner in weights_of(value, inside=True))
        elif isinstance(value, np.ndarray | Tensor):
            if value.ndim and torch.as_tensor(value).is_floating_point():
                yield path, value, ""
        elif deep and not isinstance(value, type | types.ModuleType):
            yield from arrays_of(value, f"{path}.", deep - 1)


def attributes_of(holder: Any) -> dict[Any, Any]:
    """Return the attributes of an object, the elements of a list or dictionary, or what a partial function holds."""
    if isinstance(holder, list | tuple):
        return dict(enumerate(holder))
    holder = holder.keywords if isinstance(holder, partial) else holder
    return holder if isinstance(holder, dict) else getattr(holder, "__dict__", {})


def is_number(value: Any) -> bool:
    return type(value) in (int, float)


def numbers_of(instance: Any) -> dict[str, float]:
    """Return the numbers among the attributes of an object and its submodules."""
    holders = list(instance.named_modules()) if isinstance(instance, nn.Module) else [("", instance)]
    return {
        f"{path}.{name}" if path else name: value
        for path, holder in holders
        for name, value in attributes_of(holder).items()
        if is_number(value)
    }


# --- opening ----------------------------------------------------------------------------------------------


def open_code(what: str) -> Any:
    """Return the object named by "file.py:Name" or "package.module:Name", or the only function or class there.

    The file runs in this process as a program of its own would: its folder comes first in sys.path, and sys.argv has
    only its name. Its __name__ is the file's, not "__main__".

    Raises RequestError if there is no such file or name, or it can't be run.
    """
    place, colon, name = what.rpartition(":")
    if not colon or "/" in name or os.sep in name:  # C:\file.py names no function
        place, name = what, ""
    is_module = not place.endswith(".py") and all(part.isidentifier() for part in place.split("."))
    module = import_module(place) if is_module else run_file(place)
    names = [name] if name else own_names(module)
    if not names:
        raise RequestError(f"{shorten_start(place)} defines no public function or class: {USAGE}")
    if len(names) > 1:
        short, others = shorten_start(place), shorten(", ".join(names[1:]), LISTED)
        raise RequestError(f"{short} defines {len(names)} functions and classes: check {short}:{names[0]}, or {others}")
    [name] = names
    thing: Any = module
    for part in name.split("."):
        with running(f"{place}:{name}", module.__file__ or ""):
            thing = getattr(thing, part, MISSING)
        if thing is MISSING:
            others = shorten(", ".join(own_names(module)) or "no function and no class of its own", LISTED)
            raise RequestError(f"{shorten_start(place)} has no {quoted(name)}: it has {others}")
    if not callable(thing):
        raise RequestError(
            f"{shorten_start(what)} is not a function, class or module, but of type {type(thing).__name__}"
        )
    return thing


def own_names(module: types.ModuleType) -> list[str]:
    """Return the names of the public functions and classes that this module defines."""
    return [
        printable(name)
        for name, value in list(vars(module).items())
        if (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__
        and not name.startswith("_")
    ]


def run_file(place: str) -> types.ModuleType:
    path = Path(place).absolute()
    try:
        source = read_regular(path)
    except (OSError, ValueError) as error:  # ValueError: the name has a NUL
        reason = getattr(error, "strerror", None) or error
        raise RequestError(f"{quoted(place)} can't be read ({reason}): {USAGE}") from error
    name = path.stem
    while name in sys.modules:  # a file called random.py must not replace Python's
        name += "_"
    loader = SourceFileLoader(name, str(path))
    spec = spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = sys.modules[name] = module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    sys.argv[:] = [place]
    with running(place, str(path)):  # not by the loader, which would write a .pyc file
        exec(loader.source_to_code(source, str(path)), vars(module))
    return module


def import_module(place: str) -> types.ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    sys.argv[:] = [place]
    spec = None
    with running(place, ""), suppress(ModuleNotFoundError):
        spec = find_spec(place)
    if spec is None:
        raise RequestError(f"no module {quoted(place)} is in this folder or installed; write a file as FILE.py:NAME")
    with running(place, spec.origin or ""):
        return importlib.import_module(place)


@contextmanager
def running(what: str, file: str) -> Iterator[None]:
    """Turn whatever their code raises into a RequestError."""
    try:
        yield
    except BaseException as error:
        verb = "read" if isinstance(error, SyntaxError) else "run"
        raise RequestError(f"{shorten_start(what)} can't be {verb}: {describe_error(error, file)}") from error
