"""A subject in this process: inspected, made and run."""

import inspect
import types
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attncli.base.errors import RequestError
from attncli.checks.theirs.subjects.failing import in_a_line, in_words
from attncli.checks.theirs.subjects.inspecting import (
    called,
    name_of,
    numbers_of,
    parameters,
    source_of,
    speaks,
    weights_of,
)
from attncli.checks.theirs.subjects.subject import PAST, Answer, Call, Description, Made, Weight


class Here:
    """`thing`: a function, a class, an object that is called, or a function without parameters that makes one."""

    def __init__(self, thing: Any) -> None:
        if inspect.isfunction(thing) and not inspect.signature(thing).parameters:
            thing = made_by(thing, {})
        if not callable(thing) and not hasattr(thing, "forward"):
            raise RequestError(f"{name_of(thing)} is no function, class or module, but {type(thing).__name__}")
        self.thing = thing
        self.instance = None if inspect.isclass(thing) else thing
        self.file = source_of(thing if inspect.isclass(thing) or inspect.isroutine(thing) else type(thing))[2]
        self.filled: dict[str, Tensor] = {}
        self.dtype: torch.dtype | None = None

    def describe(self) -> Description:
        thing = self.thing
        kind = "class" if inspect.isclass(thing) else "function" if inspect.isroutine(thing) else "thing"
        told = thing if kind != "thing" else type(thing)
        source, first, file = source_of(told)
        return Description(
            name_of(thing),
            kind,
            parameters(called(thing)),
            parameters(thing) if kind == "class" else (),
            speaks(told),
            source,
            first,
            file,
        )

    @cached_property
    def file(self) -> str:
        """Where it stands."""
        return self.describe().file

    def make(self, arguments: dict[str, Any]) -> Made:
        if inspect.isclass(self.thing):
            self.instance = made_by(self.thing, {name: config(value) for name, value in arguments.items()})
            self.filled, self.dtype = {}, None
        if isinstance(self.instance, nn.Module):
            self.instance.eval()
        weights = {name: Weight(tuple(array.shape), owner) for name, array, owner in weights_of(self.instance)}
        return Made(weights, numbers_of(self.instance))

    def fill(self, weights: dict[str, Tensor]) -> None:
        self.filled |= weights
        with torch.no_grad():
            for name, array, _ in weights_of(self.instance):
                if name in weights:
                    array[...] = weights[name].to(array) if isinstance(array, Tensor) else weights[name].numpy()

    def convert(self, dtype: torch.dtype) -> None:
        """A module, which is filled again, since half precision has rounded what was in it."""
        if isinstance(self.instance, nn.Module) and dtype != self.dtype:
            self.instance.to(dtype)
            self.fill(self.filled)
            self.dtype = dtype

    def call(self, call: Call) -> Answer:
        dtype = getattr(torch, call.dtype)
        self.convert(dtype)
        numpy = speaks(self.thing if inspect.isroutine(self.thing) else type(self.instance)) == "numpy"
        past = None
        for one in call.earlier:
            made = self.instance(
                *[past if x is PAST else x for x in one.arguments],
                **{n: past if x is PAST else x for n, x in one.keywords.items()},
            )
            past = past_of(made)
        call = call._replace(
            arguments=tuple(past if x is PAST else x for x in call.arguments),
            keywords={n: past if x is PAST else x for n, x in call.keywords.items()},
        )
        places: list[Tensor] = []
        arguments = [given(one, dtype, call.strided, places) for one in call.arguments]
        keywords = {name: given(one, dtype, call.strided, places) for name, one in call.keywords.items()}
        learned = [one for one in places if one.is_floating_point() and call.cotangent is not None]
        for one in learned:
            one.requires_grad_()
        before = [one.detach().clone() for one in places]
        run: Any = self.instance if callable(self.instance) else getattr(self.instance, "forward", None)
        try:
            if numpy:
                arguments = [as_numpy(one) for one in arguments]
                keywords = {name: as_numpy(one) for name, one in keywords.items()}
            with nullcontext() if call.dropout else NoDropout():
                made = run(*arguments, **keywords)
            outputs = tuple(arrays_in(made))
            gradients = None if call.cotangent is None else gradient(outputs, learned, call.cotangent)
        except (Exception, SystemExit) as error:  # noqa: BLE001  (it is somebody's code)
            told, at = in_a_line(error, self.file)
            return Answer(error=told, at=at)
        changed = any(not torch.equal(one.detach(), was) for one, was in zip(places, before, strict=True))
        return Answer(tuple(one.detach() for one in outputs), gradients, changed)


def past_of(made: Any) -> Any:
    """Return what a call gave beside its output: a cache."""
    if isinstance(made, dict):
        return next((value for name, value in made.items() if "past" in name or "cache" in name), None)
    return made[-1] if isinstance(made, list | tuple) and len(made) > 1 else None


def made_by(maker: Any, arguments: dict[str, Any]) -> Any:
    try:
        return maker(**arguments)
    except (Exception, SystemExit) as error:
        said = in_words(error, source_of(maker)[2])
        raise RequestError(f"{name_of(maker)} can't be made: {said}") from error


class Config(types.SimpleNamespace):
    """What a constructor that takes a config reads."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the config has no {name}: --give config.{name}=VALUE")

    def get(self, name: str, default: Any = None) -> Any:
        return getattr(self, name, default)

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


def config(value: Any) -> Any:
    return Config(**value) if isinstance(value, dict) else value


def given(value: Any, dtype: torch.dtype, strided: bool, places: list[Tensor]) -> Any:
    """As the subject gets it, a copy; it is kept in `places`."""
    if not isinstance(value, Tensor):
        return value
    made = value.to(dtype) if value.is_floating_point() else value
    made = made.mT.contiguous().mT if strided and made.dim() > 1 else made.clone()
    places.append(made)
    return made


def as_numpy(value: Any) -> Any:
    return value.detach().numpy() if isinstance(value, Tensor) else value


def arrays_in(made: Any) -> Iterator[Tensor]:
    """Everything that is an array of real numbers, in its order."""
    if isinstance(made, Tensor):
        if not made.is_complex():
            yield made.to_dense() if made.layout != torch.strided else made
    elif isinstance(made, dict):
        for value in made.values():
            yield from arrays_in(value)
    elif isinstance(made, list | tuple):
        for value in made:
            yield from arrays_in(value)
    elif hasattr(made, "__array__"):
        yield torch.from_numpy(np.array(made))
    elif hasattr(made, "__dict__"):
        yield from arrays_in(vars(made))


def gradient(outputs: tuple[Tensor, ...], of: list[Tensor], cotangent: Tensor) -> tuple[Tensor, ...]:
    """Of Σ output · cotangent, the output being the first of the cotangent's shape; 0 of what it doesn't depend on."""
    output = next((one for one in outputs if one.shape == cotangent.shape), None)
    if output is None or not output.requires_grad:
        return ()
    found = torch.autograd.grad((output * cotangent.to(output)).sum(), of, allow_unused=True)
    return tuple(torch.zeros_like(x) if one is None else one for one, x in zip(found, of, strict=True))


class NoDropout(TorchFunctionMode):
    """All of torch's dropout does nothing, that of its fused kernel too."""

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
