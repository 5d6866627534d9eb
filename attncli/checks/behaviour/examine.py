"""Put the laws to a model on each of its backends."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from attncli.base.errors import RequestError
from attncli.base.printable import first_line
from attncli.checks.behaviour.laws import AGREE, LAWS, Finding, agree, passes
from attncli.checks.behaviour.report import Behaviour, Outcome
from attncli.checks.behaviour.subject import Subject
from attncli.checks.timing import one_thread

BACKENDS = ("eager", "sdpa", "flex_attention", "flash_attention_2")


def examine(
    name: str,
    kind: str,
    opened: Callable[[str], Subject],
    backends: Iterable[str] = BACKENDS,
    laws: Sequence[str] = (*LAWS, AGREE),
    advance: Callable[[str], None] = lambda _: None,
) -> Behaviour:
    """Put the laws to a model. opened: makes it with a backend, or raises RequestError: it is not available then.

    Raises RequestError when no backend can be run.
    """
    outcomes: list[Outcome] = []
    missing: dict[str, str] = {}
    first: tuple[str, Any] | None = None
    for backend in backends:
        advance(backend)
        with uncompiled(backend), one_thread():
            try:
                subject = opened(backend)
                subject.gradients = not backend.startswith("flex")  # it has none on a processor
                ran = passes(subject)
            except Exception as error:  # noqa: BLE001  (somebody else's code may raise anything)
                missing[backend] = first_line(error)
                continue
            dtype = str(subject.dtype).removeprefix("torch.")
            for law in laws:
                if law == AGREE:
                    finding = Finding(None, note="the first that runs") if first is None else agree(ran, first[1])
                    if first is not None and finding.holds is False:
                        finding = finding._replace(note=f"from {first[0]}{finding.note and f', {finding.note}'}")
                else:
                    finding = put(LAWS[law], subject)
                outcomes.append(Outcome(law, backend, *finding, dtype))
            first = first or (backend, ran)
    if not outcomes:
        raise RequestError(f"{name} can't be run: {next(iter(missing.values()), 'there is no backend')}")
    return Behaviour(name, kind, tuple(outcomes), missing)


def put(law: Callable[[Subject], Finding], subject: Subject) -> Finding:
    """Put one law to a subject; what the model refuses is not checked."""
    try:
        return law(subject)
    except Exception as error:  # noqa: BLE001  (as above)
        return Finding(None, note=f"the model fails: {type(error).__name__}: {first_line(error)}")


def uncompiled(backend: str) -> AbstractContextManager[Any]:
    """Run flex attention without compiling it, which takes seconds for each length."""
    return torch.compiler.set_stance("force_eager") if backend.startswith("flex") else nullcontext()
