"""Whether somebody's layer of an encoder or a decoder is right, and if not, which mistake it is."""

from dataclasses import replace

from attncli.attention.mistakes import MISTAKES, Mistake
from attncli.attention.mistakes.known import DROPOUT
from attncli.attention.mistakes.of_layers import LAYER_MISTAKES
from attncli.checks.theirs.calling.forms import in_words
from attncli.checks.theirs.found import Found, Wanted
from attncli.checks.theirs.layers.asking import Asked, fit_masks
from attncli.checks.theirs.layers.examination import LayerExamination
from attncli.checks.theirs.layers.fitting import ITSELF, LayerFit, causal, explained_by
from attncli.checks.theirs.subjects.subject import Subject
from attncli.checks.theirs.telling import diagnosed


def check_layer(subject: Subject, wanted: Wanted) -> Found:
    """Raises RequestError when it can't be checked: it can't be made, or run, or its parts can't be told."""
    asked = Asked(subject, wanted)
    fit = fit_masks(asked, should_be_causal(asked.fit()))
    of = LayerExamination(asked, fit)
    checks = (*of.shapes(), *of.masks(), of.gradients(), *of.laws(), *of.precisions(), *of.answers())
    mistakes: tuple[Mistake, ...] = ()
    if any(check.holds is False for check in checks):
        random = checks[-1].holds is False
        mistakes = (*(one for one in MISTAKES if random and one.name == DROPOUT), *diagnose(fit, of))
    return Found(
        asked.described.name,
        asked.described.file,
        "a decoder layer" if asked.decoder else "an encoder layer",
        checks,
        conventions_of(fit),
        tuple(diagnosed(one, asked.described) for one in mistakes),
        "" if mistakes or all(check.holds is not False for check in checks) else of.smallest(),
    )


def should_be_causal(fit: LayerFit) -> LayerFit:
    """A decoder's layer that takes no mask for its text has to hide the future itself."""
    if not fit.decoder or ITSELF in fit.conventions or "mask" in fit.form.masks:
        return fit
    mistake = next(one for one in LAYER_MISTAKES if one.name == "not causal")
    formula = replace(fit.formula, masks=causal)
    return replace(fit.with_mistake(mistake, fit.variant), formula=formula)


def diagnose(fit: LayerFit, of: LayerExamination) -> tuple[Mistake, ...]:
    """The mistakes that explain every answer; none where nothing does."""
    if not fit.known:
        return ()
    if all(trial.fits(fit.variant, fit.reading) for trial in of.trials):
        return fit.mistakes
    more = explained_by(fit, of.trials)
    return () if more is None else more.mistakes


def conventions_of(fit: LayerFit) -> tuple[str, ...]:
    """In words."""
    names = {role: name for name, role, _ in fit.form.places}
    masks = [told for role, understood in fit.accepted.items() for told in in_words(names[role], understood)]
    return (*fit.conventions, f"arrays are [{', '.join(fit.form.layout.name.split())}]", *masks)
