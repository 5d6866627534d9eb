"""Is somebody's mask function right? Under which convention, or which mistake it has."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from attncli.attention.mistakes import Mistake
from attncli.attention.mistakes.of_masks import HEADS_MIXED, MISTAKES_OF_FORM, NO_NUMBER, TOO_SMALL, WRONG_SIGN
from attncli.checks.theirs.calling import making
from attncli.checks.theirs.calling.forms import Encoding
from attncli.checks.theirs.found import Check, Diagnosed, Found, Wanted
from attncli.checks.theirs.idle import refuse_names
from attncli.checks.theirs.masks.fitting import KINDS, Fit, first_cases, fitted, padded, readings
from attncli.checks.theirs.masks.ways import HEADS_FIRST, PADDING, TOKENS, Case, Way
from attncli.checks.theirs.subjects.subject import Answer, Subject
from attncli.checks.theirs.telling import diagnosed, why

SMALL = -1000.0  # scores of trained networks reach some tens; BERT itself adds -10,000


def check_mask(subject: Subject, wanted: Wanted) -> Found:
    """Checks a function, or a module, that gives a mask: causal, padding, or both in one.

    It may be made of lengths, of tokens, of which tokens are real; what True, 1 or a number that is added stands for,
    and which dimensions there are, is found out and named. Raises RequestError where it can't be called, or gives no
    mask.
    """
    description = subject.describe()
    refuse_names(wanted.map, [one.name for one in description.call])
    subject.make(making.arguments(description, making.Sizes(), wanted.give))
    tried = list(readings(subject, description, wanted))
    fit = fitted(tried, description, wanted)
    answers = [subject.call(fit.way.call(case)) for case in first_cases(fit.way)]
    of_form = form_wrong(fit, [answer.outputs[0] for answer in answers])
    made = [*checks(subject, fit), Check("its dimensions and numbers", not of_form)]
    number = answers[0].outputs[0]
    wrong = any(check.holds is False for check in made)
    return Found(
        description.name,
        description.file,
        KINDS[fit.kind],
        tuple(made),
        (described(number, fit), *fit.conventions, *taken(fit)),
        tuple(with_other(diagnosed(one, description), fit) for one in (*fit.mistakes, *of_form)),
        smallest(subject, fit) if wrong and not fit.known else "",
    )


# --- whether it is right --------------------------------------------------------------------------------


def form_wrong(fit: Fit, outputs: Sequence[Tensor]) -> tuple[Mistake, ...]:
    """What is wrong with its dimensions, and with the numbers of a mask that is added."""
    names = [HEADS_MIXED] * (fit.shape == HEADS_FIRST)
    if fit.means == "added":
        numbers = torch.cat([output.double().flatten() for output in outputs])
        forbidden = numbers[(numbers != 0) & ~numbers.isnan()]
        names += [NO_NUMBER] * bool(numbers.isnan().any())
        if len(forbidden) and float(forbidden.max()) > SMALL:
            names.append(WRONG_SIGN if float(forbidden.max()) > 1 else TOO_SMALL)
    return tuple(one for one in MISTAKES_OF_FORM if one.name in names)


def checks(subject: Subject, fit: Fit) -> Iterator[Check]:
    """Against attncli's own masks, and what holds of every mask."""
    dtypes = set()
    first = subject.call(fit.way.call(first_cases(fit.way)[0]))
    for name, case in cases(fit.way):
        answer = subject.call(fit.way.call(case))
        dtypes |= {one.dtype for one in answer.outputs}
        differs = fit.differs(answer, case)
        yield Check(name, differs == 0.0, differs, why(answer) if differs is None else "")
    yield Check("one dtype for all lengths", len(dtypes) == 1)
    again = subject.call(fit.way.call(first_cases(fit.way)[0]))
    yield Check("the same twice", same(again, first))
    yield Check("inputs are not changed", not (first.changed or again.changed))
    if fit.kind != "causal" and not (fit.way.takes("lengths") and not fit.way.takes("key length")):
        yield each_by_itself(subject, fit, first)


def cases(way: Way) -> Iterator[tuple[str, Case]]:
    first, second = first_cases(way)
    if way.crosses or way.has_two_lengths:
        yield "unequal lengths", Case(first.real, 5)
    yield "texts of 7 tokens", first._replace(queries=7)
    yield "texts of 6 tokens", second._replace(queries=6)
    for name, tokens in (("one token", 1), ("two tokens", 2), ("a long text", 130)):
        yield name, Case(padded(tokens, tokens), tokens)
    if way.takes(*TOKENS, *PADDING, "lengths"):
        yield "no [PAD]", Case(padded(5, 5, 5, 5), 5)
    if way.tells_padding and not way.takes("lengths"):
        yield "[PAD] within a text", Case(torch.tensor([[True] * 5, [True, False, True, False, True]]), 5)


def same(first: Answer, second: Answer) -> bool:
    return len(first.outputs) == len(second.outputs) and all(
        torch.equal(one.double().nan_to_num(7.0), other.double().nan_to_num(7.0))
        for one, other in zip(first.outputs, second.outputs, strict=True)
    )


def each_by_itself(subject: Subject, fit: Fit, answer: Answer) -> Check:
    case, together = first_cases(fit.way)[0], None
    together = fit.read(answer, case)
    alone = []
    for text in case.real:
        one = Case(text[None], case.queries)
        alone.append(fit.read(subject.call(fit.way.call(one)), one))
    parts = [one for one in alone if one is not None]
    holds = together is not None and len(parts) == len(alone) and torch.equal(torch.cat(parts), together)
    return Check("each text by itself", holds, float(not holds))


# --- in words -------------------------------------------------------------------------------------------


def with_other(one: Diagnosed, fit: Fit) -> Diagnosed:
    """With the other mistake that gives the same numbers, if there is one."""
    if fit.other is None:
        return one
    means, mistake = fit.other
    return one._replace(
        remedy=f"{one.remedy}. If True means {means} here, it is {KINDS[fit.kind]} {mistake.says}: --mask-means {means}"
    )


def described(output: Tensor, fit: Fit) -> str:
    """Its dimensions, and what its numbers mean."""
    number = output.double().nan_to_num(0.0, posinf=torch.inf, neginf=-torch.inf)
    dtype = "bool" if output.dtype == torch.bool else "float" if output.is_floating_point() else "int"
    encoding = str(Encoding(fit.shape, fit.means, dtype))
    if fit.means != "added":
        return encoding
    added = number[number != 0]
    return encoding.replace("-inf", f"{float(added[0]):g}") if len(added) else encoding


def taken(fit: Fit) -> Iterator[str]:
    """What is taken for granted of what it is given."""
    way = fit.way
    if way.takes("[PAD] as True"):
        yield "it takes True at [PAD]"
    if way.takes("tokens, token first", "vectors, token first"):
        yield "it takes [token, batch]"
    if fit.kind != "causal" and way.takes("tokens") and not way.takes("pad"):
        yield f"[PAD] is token {way.pad}"


def smallest(subject: Subject, fit: Fit) -> str:
    """The shortest text on which it differs, and both masks."""
    for tokens in range(1, 8):
        case = Case(padded(tokens, max(tokens - 1, 1)), tokens)
        theirs = fit.read(subject.call(fit.way.call(case)), case)
        ours = fit.right(fit.kind, case.real, tokens)
        if theirs is not None and not torch.equal(theirs, ours):
            return f"of {tokens} tokens it allows {theirs[0].int().tolist()}, and should allow {ours[0].int().tolist()}"
    return ""
