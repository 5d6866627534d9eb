"""Somebody's attention: found out how it is called, tried on inputs of every kind, and diagnosed."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from attncli.attention.mistakes import MISTAKES
from attncli.attention.mistakes.known import DROPOUT
from attncli.base.errors import RequestError
from attncli.checks.code.failing import OR_ADAPTER
from attncli.checks.code.subject import Description, Parameter, Subject
from attncli.checks.theirs.attention.asking import bases_of, make
from attncli.checks.theirs.attention.diagnosis import diagnose
from attncli.checks.theirs.attention.examination import GIVES_ZERO, NOWHERE, Examination
from attncli.checks.theirs.attention.fitting import Asked, Fit
from attncli.checks.theirs.attention.gradients import check_gradients
from attncli.checks.theirs.attention.laws import check_laws
from attncli.checks.theirs.attention.smallest import smallest_of
from attncli.checks.theirs.attention.transplant import RealLayer, check_with_layer, mask_for
from attncli.checks.theirs.attention.trial import Trial, runs_once
from attncli.checks.theirs.calling.forms import BY_HEADS, in_words
from attncli.checks.theirs.calling.making import Sizes
from attncli.checks.theirs.calling.roles import role_of
from attncli.checks.theirs.comparing import difference
from attncli.checks.theirs.found import Check, Found, Wanted
from attncli.checks.theirs.telling import diagnosed

RealLayers = Callable[[str], RealLayer]  # of a mask


def check_attention(subject: Subject, wanted: Wanted, real: RealLayers | None = None) -> Found:
    """real: gives the layer whose weights are put into it at last, under a mask.

    Raises RequestError when it can't be checked: it can't be made, or run, or what is what can't be told.
    """
    description = subject.describe()
    asked = make(subject, description, wanted, Sizes())
    tried = asked.trials()
    random = draws_anew(asked, tried[0][0])
    if random:
        asked.dropout = False  # from here on it is run without
        tried = asked.trials()
    unmasked = asked.fit(tried)
    fit = asked.fit_masks(unmasked)
    of = Examination(asked, fit, wanted.nowhere)
    checks = [
        *of.shapes(),
        *of.masks(),
        *as_named(description, of),
        *of.precisions(),
        *check_gradients(of),
        *check_laws(of),
        of.weights(),
        *of.answers(random),
        *of.its_weights(),
    ]
    checks += with_one_head(of, subject, description, wanted)
    maps = None
    if real is not None:
        more, maps = check_with_layer(subject, description, wanted, fit, real(mask_for(fit)), asked.dropout)
        checks += more
    wrong = any(check.holds is False for check in checks)
    mistakes = diagnose(fit, of.trials) if wrong else ()
    known = {*of.implied, *((DROPOUT,) if random else ())}
    mistakes = (*(one for one in MISTAKES if one.name in known and one not in mistakes), *mistakes)
    return Found(
        description.name,
        description.file,
        "attention",
        tuple(checks),
        conventions_of(fit, checks),
        tuple(diagnosed(one, description) for one in mistakes),
        smallest_of(of) if wrong and not mistakes else "",
        tuple(one.name for one in description.call if is_never_given(one, asked)),
        hint_of(asked, unmasked, fit) if wrong else "",
        maps,
    )


def as_named(description: Description, of: Examination) -> list[Check]:
    """Check that code with causal in its name hides the future, unless a flag or a mask decides that."""
    named = re.search("causal|masked_?self", " ".join(bases_of(description)), re.IGNORECASE)
    if named is None or of.asked.roles.has("causal", "mask"):
        return []
    return [Check("hides the future, as its name says", of.causal)]


def is_never_given(one: Parameter, asked: Asked) -> bool:
    """Return whether no trial gave this parameter of the call. Dropout does not count: it is 0 by default."""
    return one.kind != "many" and role_of(one.name) != "dropout" and one.name not in dict(asked.roles.places)


def draws_anew(asked: Asked, trial: Trial) -> bool:
    """Whether the subject gives something else each time. Raises RequestError when it runs once alone."""
    first, second = trial.answer, asked.ask(trial.form, trial.inputs, trial.dtype)
    if second.error is not None:
        raise RequestError(runs_once(second))
    same = len(first.outputs) == len(second.outputs)
    pairs = zip(first.outputs, second.outputs, strict=False)
    return not same or any(difference(one, other) != 0 for one, other in pairs)


def with_one_head(of: Examination, subject: Subject, description: Description, wanted: Wanted) -> list[Check]:
    """The same with one head, of what is told how many there are."""
    if description.kind != "class" or not any(role_of(one.name) == "heads" for one in description.constructor):
        return []
    name = "one head"
    try:
        asked = make(subject, description, wanted, Sizes(heads=1, key_heads=1))
        asked.dropout = of.asked.dropout
        fit = asked.fit(asked.trials())
    except RequestError as error:
        return [Check(name, None, note=f"it can't be made so: {error}")]
    formula = fit.formula if fit.known else of.fit.formula
    other = Examination(asked, replace(of.fit, reading=fit.reading, formula=formula), wanted.nowhere)
    check = other.compare(name, other.draw())
    of.trials += other.trials
    return [check]


def conventions_of(fit: Fit, checks: Sequence[Check]) -> tuple[str, ...]:
    """In words: what was found out of how it is called, and where it is right in another way than the formula here."""
    said = [*fit.conventions, f"arrays are [{', '.join(fit.form.layout.name.split())}]"]
    said += [fit.reading.note] if fit.reading is not None and fit.reading.note else []
    for role, encodings in fit.accepted.items():
        said += in_words(role, encodings)
    nowhere = next((check for check in checks if check.name == NOWHERE and check.holds), None)
    if nowhere is not None and nowhere.note != GIVES_ZERO:
        said.append(f"{NOWHERE}: {nowhere.note} (--nowhere zero makes that wrong)")
    return tuple(said)


def hint_of(asked: Asked, unmasked: Fit, fit: Fit) -> str:
    """What is wrong may be right in arrays of fewer dimensions, where a function can't tell one from the other; or its
    mask may mean something else.
    """
    if unmasked.known and not unmasked.mistakes:
        return "" if fit.known else f"its mask is not understood; if it means something else{OR_ADAPTER}"
    if asked.layout is not None or fit.reading is not None:
        return ""
    for layout in reversed(BY_HEADS):
        if layout.batch + layout.heads < fit.form.layout.batch + fit.form.layout.heads:
            asked.layout = layout.name
            if asked.is_right():
                return (
                    f"it is right where it is called with [{', '.join(layout.name.split())}]: --layout '{layout.name}'"
                )
    return ""
