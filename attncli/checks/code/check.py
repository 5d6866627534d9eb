"""Check a user's attention: find out how it is called, examine it, and name its mistakes."""

import linecache
import re
from collections.abc import Sequence
from inspect import Parameter
from typing import Any

import torch

from attncli.attention.mistakes import MISTAKES, Mistake
from attncli.attention.mistakes.known import DROPOUT
from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.checks.code.calling import describe_encodings, difference
from attncli.checks.code.examination import GIVES_ZERO, NOWHERE, WITH_CACHE, Examination
from attncli.checks.code.fitting import UNUSED, FilledSubject, Fit, definitions, diagnose, refuse_second_call
from attncli.checks.code.names import MASKS, ModuleSizes, NeedsAdapterError, adapter, role_of
from attncli.checks.code.result import CheckResult, Finding, diagnosis_of
from attncli.checks.code.subject import CodeCall, Subject, is_number, is_variadic
from attncli.checks.code.transplant import RealLayers, check_with_layer
from attncli.checks.machine import one_thread

FAST = re.compile(
    "flash|fast|sdpa|fused|kernel|efficient|optimi|chunk|torch", re.IGNORECASE
)  # flags that select a kernel, not an output


def check(thing: Any, nowhere: choices.Nowhere = "any") -> CheckResult:
    """Check a function of (query, key, value[, mask]), a module or its class against the formula of attention.

        assert (result := attncli.check(MyAttention)).right, str(result)

    nowhere: the output that fully masked rows may have.

    Raises RequestError if it can't be checked, with a remedy.
    """
    return check_subject(Subject(thing), nowhere)


def check_subject(subject: Subject, nowhere: choices.Nowhere, layers: RealLayers | None = None) -> CheckResult:
    """Check a subject on one thread. layers: returns a layer of a model, whose weights the subject is also run with."""
    choices.check("nowhere", nowhere, choices.Nowhere)
    try:
        with one_thread():
            return check_attention(subject, nowhere, layers)
    except RequestError as error:
        if (advice := advise_for_model(subject)) is not None:
            raise RequestError(advice) from error
        if not isinstance(error, NeedsAdapterError):
            raise
        written = adapter(subject, error.of_weights)
        if subject.name == "Adapter" and "..." not in written:
            raise
        raise RequestError(f"{error}: paste an adapter below the code and check it\n{written}") from error


def advise_for_model(subject: Subject) -> str | None:
    """Return how to check a whole model, which reads ids; None for anything else."""
    modules = subject.instance.modules() if isinstance(subject.instance, torch.nn.Module) else ()
    embedding = next((one for one in modules if isinstance(one, torch.nn.Embedding)), None)
    if embedding is None:
        return None
    ids = torch.arange(6).reshape(2, 3) % embedding.num_embeddings
    returned = subject.call(CodeCall((ids,), {}, "float32"))
    if not any(one.shape[:2] == ids.shape and one.dim() == 3 for one in returned.arrays):
        return None
    masks = [one.name for one in subject.parameters[1:] if role_of(one.name) in ("mask", "padding")]
    call = f", call=lambda ids, real: model(ids, {masks[0]}=real)" if masks else ""
    return (
        f"{subject.name} is a whole model, which is checked in a test: model = {subject.name}(...).eval(); "
        f"attncli.testing.assert_no_leak(model, vocab_size={embedding.num_embeddings}{call})"
    )


def check_attention(subject: Subject, nowhere: choices.Nowhere, layers: RealLayers | None) -> CheckResult:
    attention = FilledSubject(subject, ModuleSizes(), nowhere)
    tried = attention.trials()
    first = tried[0][0]
    second = attention.run(first.form, first.reading, first.inputs, first.dtype).returned
    if second.error is not None:
        refuse_second_call(second)
    arrays = zip(first.returned.arrays, second.arrays, strict=False)
    random = len(first.returned.arrays) != len(second.arrays) or any(difference(*both) != 0 for both in arrays)
    if random:
        attention.dropout = False
        tried = attention.trials()
    unmasked = attention.fit(tried)
    fit = attention.fit_masks(unmasked)
    examination = Examination(attention, fit)
    checks = [*examination.checks(), *check_name(subject, examination)]
    note = "its output is random, even in eval mode"
    checks.append(Finding("deterministic", False, note=note) if random else examination.check_twice())
    implied = [*attention.implied(fit.reading), *unmasked.unused]
    checks += [
        Finding("its weights" if not one.says.startswith("that has") else "its parts", False, note=one.says)
        for one in implied
    ]
    smallest = examination.smallest() if any(check.holds is False for check in checks) else ""
    unclear: list[str] = []
    if all(check.holds is not False or check.name == WITH_CACHE for check in checks) and not random:
        more, others, unclear = check_variants(examination)
        checks, implied = [*checks, *more], [*implied, *others]
    maps = None
    if layers is not None:
        more, maps = check_with_layer(attention, fit, layers)
        checks += more
    is_wrong = any(check.holds is False for check in checks)
    unchecked = tuple(
        one.name for one in subject.parameters if is_never_given(one, attention, fit, checks) or one.name in unclear
    )
    if attention.roles.masks and not fit.accepted and not is_wrong:
        named = ", ".join(name for name, role in attention.roles.places if role in MASKS)
        raise NeedsAdapterError(f"its mask ({named}) has no known form, such as bool [query, key]")
    mistakes = [*implied, *(one for one in MISTAKES if random and one.name == DROPOUT)]
    if is_wrong and (unmasked.known or unmasked.mistakes):
        found = diagnose(fit, attention, examination.trials, nowhere != "any")
        mistakes += [one for one in (*examination.of_steps, *found) if one not in mistakes]
    return CheckResult(
        subject.name,
        tuple(checks),
        tuple(describe_conventions(fit, checks, attention.made)),
        tuple(diagnosis_of(one, subject) for one in mistakes),
        "" if mistakes else smallest,
        unchecked,
        tuple(attention.zeroed),
        maps,
    )


def check_variants(examination: Examination) -> tuple[list[Finding], list[Mistake], list[str]]:
    """Check every other way to call it. Return the checks, the mistakes, and the flags of unknown meaning."""
    checks: list[Finding] = []
    mistakes: list[Mistake] = []
    unclear: list[str] = []
    flags = {name for name, role in examination.roles.places if role in ("flag", "scale") and not FAST.search(name)}
    scales = {name for name, role in examination.roles.places if role == "scale"}
    for name, other in examination.variants():
        check = examination.check_variant(name, other)
        idle = (
            check.holds is False
            and name.split()[-1] in scales
            and all(one.fits(examination.fit.formula) for one in other.trials)
        )
        if idle:
            says = f"that has the parameter {name.split()[-1]}, which changes nothing"
            mistakes.append(Mistake(UNUSED, says, "", "multiply the scores by it, or remove it", "scale", ()))
        elif check.holds is False and (unknown := [flag for flag in flags if flag in re.split(r"\W+", name)]):
            unclear += unknown
            continue
        checks.append(check)
        if check.holds is False and not mistakes:
            remedy = "return the same output with any flags, and in training mode if dropout is 0"
            mistakes = [Mistake("another output", f"whose output differs {name}", "", remedy, "flag", ())]
            if check.note == "deterministic":
                mistakes += [one for one in MISTAKES if one.name == DROPOUT]
            else:
                mistakes += diagnose(other.fit, other.attention, other.trials, other.nowhere != "any")
    return checks, mistakes, unclear


def check_name(subject: Subject, examination: Examination) -> list[Finding]:
    """Check that code with causal in its name hides the future, unless a flag or a mask decides that."""
    nodes = definitions("".join(linecache.getlines(subject.file)))
    names = [subject.name]
    for name in names:
        bases = [getattr(base, "id", None) for base in getattr(nodes.get(name), "bases", ())]
        names += [base for base in bases if base in nodes and base not in names]
    named = re.search("causal|masked_?self", " ".join(names), re.IGNORECASE)
    if named is None or examination.roles.has("causal", "mask"):
        return []
    return [Finding("hides the future, as its name says", examination.causal)]


def is_never_given(parameter: Parameter, attention: FilledSubject, fit: Fit, checks: Sequence[Finding]) -> bool:
    """Return whether no trial gives this parameter. Dropout, and the size of a window or softcap, do not count."""
    role = dict(attention.roles.places).get(parameter.name)
    if parameter.name in dict(attention.roles.of_query):
        return not any(one.name.startswith(f"{parameter.name} hides") and one.holds is not None for one in checks)
    if role is not None:
        return role in MASKS and role not in fit.accepted
    guessed = role_of(parameter.name)
    is_read = guessed == "dropout" or (guessed in ("window", "softcap") and is_number(parameter.default))
    return not is_read and not is_variadic(parameter)


def describe_conventions(fit: Fit, checks: Sequence[Finding], made: dict[str, Any]) -> list[str]:
    """Describe how the code is called, and which conventions it has that differ from attncli's.

    made: the window and the softcap with which it was made.
    """
    layout = fit.form.layout
    lines = [*fit.conventions, f"arrays are [{', '.join(layout.name.split())}]"]
    lines += (
        ["if the batch came first, texts would attend to each other"] if layout.name == "token batch d_model" else []
    )
    lines += [fit.reading.note] if fit.reading is not None and fit.reading.note else []
    masks = [describe_encodings(role, encodings) for role, encodings in fit.accepted.items()]
    lines += [mask.replace("query, key", "key, query") if layout.columns else mask for mask in masks]
    lines += [f"made with {name}={value}" for name, value in made.items()]
    notes = [check.note for check in checks if check.name == NOWHERE and check.holds and check.note != GIVES_ZERO]
    return [*lines, *(f"{NOWHERE}: {note} (wrong with --nowhere zero)" for note in notes)]
