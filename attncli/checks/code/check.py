"""Check somebody's attention: find out how it is called, examine it, and name its mistakes."""

import linecache
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import Parameter
from typing import Any

from attncli.attention.mistakes import MISTAKES
from attncli.attention.mistakes.known import DROPOUT
from attncli.base import choices
from attncli.base.choices import check_instance, check_optional_text
from attncli.base.errors import RequestError
from attncli.checks.code.calling import BY_HEADS, describe_encodings, difference
from attncli.checks.code.examination import GIVES_ZERO, NOWHERE, Examination
from attncli.checks.code.fitting import FilledSubject, Fit, definitions, diagnose, runs_once
from attncli.checks.code.names import MASKS, ModuleSizes, NeedsAdapterError, Options, adapter, role_of
from attncli.checks.code.result import CheckResult, Finding, diagnosis_of
from attncli.checks.code.subject import Subject, is_number, is_variadic
from attncli.checks.code.transplant import RealLayers, check_with_layer
from attncli.checks.machine import one_thread


def check(
    thing: Any,
    layout: str | None = None,
    means: choices.MaskMeans | None = None,
    map: Mapping[str, str] | None = None,
    give: Mapping[str, Any] | None = None,
    nowhere: choices.Nowhere = "any",
) -> CheckResult:
    """Check a function of (query, key, value[, mask]), a module or its class against the formula.

        assert (result := attncli.check(MyAttention)).right, result

    `Options` explains the other arguments.

    Raises RequestError if it can't be checked, with a remedy; TypeError for arguments of other types.
    """
    check_optional_text("layout", layout)
    for name, given in (("map", map), ("give", give)):
        if given is not None:
            check_instance(name, given, Mapping, "give a dictionary with the names of parameters")
    return check_subject(Subject(thing), Options(layout, means, map or {}, give or {}, nowhere))


def check_subject(subject: Subject, options: Options, layers: RealLayers | None = None) -> CheckResult:
    """Check a subject on one thread. layers: return a real layer, whose weights are put into it at last."""
    choices.check("nowhere", options.nowhere, choices.Nowhere)
    if options.means is not None:
        choices.check("meaning of a mask", options.means, choices.MaskMeans)
    try:
        with one_thread():
            return check_attention(subject, options, layers)
    except NeedsAdapterError as error:
        raise RequestError(f"{error}, or by an adapter at the end of the file\n{adapter(subject)}") from error


def check_attention(subject: Subject, options: Options, layers: RealLayers | None) -> CheckResult:
    attention = FilledSubject(subject, options, ModuleSizes())
    tried = attention.trials()
    first = tried[0][0]
    second = attention.run(first.form, first.reading, first.inputs, first.dtype).returned
    if second.error is not None:
        runs_once(second)
    arrays = zip(first.returned.arrays, second.arrays, strict=False)
    random = len(first.returned.arrays) != len(second.arrays) or any(difference(*both) != 0 for both in arrays)
    if random:
        attention.dropout = False
        tried = attention.trials()
    unmasked = attention.fit(tried)
    fit = attention.fit_masks(unmasked)
    examination = Examination(attention, fit, options.nowhere)
    checks = [*examination.checks(), *check_name(subject, examination)]
    note = "it draws something anew each time, in eval too"
    checks.append(Finding("the same twice", False, note=note) if random else examination.check_twice())
    implied = attention.implied(fit.reading)
    if implied:
        checks.append(Finding("its weights", False, note="there is no W_V"))
    smallest = examination.smallest() if any(check.holds is False for check in checks) else ""
    checks += check_one_head(examination)  # after which the subject has one head
    maps = None
    if layers is not None:
        more, maps = check_with_layer(attention, fit, layers)
        checks += more
    is_wrong = any(check.holds is False for check in checks)
    unchecked = tuple(one.name for one in subject.parameters if is_never_given(one, attention, fit))
    if attention.roles.masks and not fit.accepted and not is_wrong:
        named = ", ".join(name for name, role in attention.roles.places if role in MASKS)
        raise NeedsAdapterError(f"no form of its mask ({named}) is understood: give its meaning by --mask-means")
    mistakes = [*implied, *(one for one in MISTAKES if random and one.name == DROPOUT)]
    if is_wrong and (unmasked.known or unmasked.mistakes):
        mistakes += [one for one in diagnose(fit, examination.trials, options.nowhere != "any") if one not in mistakes]
    return CheckResult(
        subject.name,
        tuple(checks),
        tuple(describe_conventions(fit, checks)),
        tuple(diagnosis_of(one, subject) for one in mistakes),
        "" if mistakes else smallest,
        unchecked,
        find_hint(attention, unmasked, fit, bool(mistakes)) if is_wrong else "",
        maps,
    )


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


def is_never_given(parameter: Parameter, attention: FilledSubject, fit: Fit) -> bool:
    """Return whether no trial gives this parameter. Dropout, and the size of a window or softcap, do not count."""
    role = dict(attention.roles.places).get(parameter.name)
    if role is not None:
        return role in MASKS and role not in fit.accepted
    guessed = role_of(parameter.name)
    is_read = guessed == "dropout" or (guessed in ("window", "softcap") and is_number(parameter.default))
    return not is_read and not is_variadic(parameter)


def check_one_head(examination: Examination) -> list[Finding]:
    """Examine a class with one head, if its constructor takes a number of heads."""
    subject, name = examination.attention.subject, "one head"
    if not any(role_of(one.name) == "heads" for one in subject.constructor):
        return []
    try:
        attention = FilledSubject(subject, examination.attention.options, ModuleSizes(heads=1, key_heads=1))
        attention.dropout = examination.attention.dropout
        tried, fit = attention.trials(), examination.fit
        # Where nothing explains several heads, one head needs no search.
        fit = attention.fit(tried) if fit.known else replace(fit, reading=tried[0][0].reading)
    except RequestError as error:
        return [Finding(name, None, note=f"it can't be made so: {error}")]
    formula = fit.formula if fit.known else examination.fit.formula
    other = Examination(attention, replace(examination.fit, reading=fit.reading, formula=formula), examination.nowhere)
    check = other.compare(name, other.draw())
    examination.trials += other.trials
    return [check]


def describe_conventions(fit: Fit, checks: Sequence[Finding]) -> list[str]:
    """Describe how it is called, and where it is right in another way than the formula here."""
    layout = fit.form.layout
    lines = [*fit.conventions, f"arrays are [{', '.join(layout.name.split())}]"]
    lines += [fit.reading.note] if fit.reading is not None and fit.reading.note else []
    masks = [describe_encodings(role, encodings) for role, encodings in fit.accepted.items()]
    lines += [mask.replace("query, key", "key, query") if layout.columns else mask for mask in masks]
    notes = [check.note for check in checks if check.name == NOWHERE and check.holds and check.note != GIVES_ZERO]
    return [*lines, *(f"{NOWHERE}: {note} (--nowhere zero makes that wrong)" for note in notes)]


def find_hint(attention: FilledSubject, unmasked: Fit, fit: Fit, is_named: bool) -> str:
    """Return the option with which it may be right: other meanings of its mask, or arrays of fewer dimensions."""
    if unmasked.known and not unmasked.mistakes:
        return "" if fit.known or is_named else "its mask is not understood: --mask-means says what it means"
    if attention.options.layout is not None or fit.reading is not None:
        return ""
    for layout in reversed(BY_HEADS):
        fewer = layout.batch + layout.heads < fit.form.layout.batch + fit.form.layout.heads
        if fewer and attention.is_right(layout.name):
            dimensions = ", ".join(layout.name.split())
            return f"it is right where it is called with [{dimensions}]: --layout '{layout.name}'"
    return ""
