"""What is said of effects: of which output, in which unit, and which way is up."""

from attncli.analysis.effects import Answer

WAYS = {
    "zero": "zero: the head gives 0",
    "mean": "mean: it gives its mean over tokens of other texts",
    "resample": "resample: it gives what it gives at tokens drawn from other texts",
}
UP = {
    "cosine": "effect: cosine without {0} minus cosine with it; below 0 {0} makes the two texts more alike",
    "logit": "effect: logit without {0} minus logit with it; below 0 {0} speaks for it",
    "probability": "effect: probability without {0} minus probability with it; below 0 {0} speaks for it",
    "log-probability": "effect: log P without {0} minus log P with it, in nats; below 0 {0} speaks for it",
    "divergence": "effect: nats by which the prediction changes without {0}; 0 is no change",
    "distance": "effect: how far the last vectors move without {0}, as a share of their lengths; 0 is no move",
}
IMPORTANCE = "importance: |slope of the output by the head's gate|, mean over texts (Michel et al. 2019)"
INTERVAL = (
    "from, to: an interval for the mean over all texts like these (Student's t); about 19 of 20 such intervals hold "
    "it, fewer where few texts have the largest effects by far"
)
NO_INTERVAL = "no interval of the mean: it needs at least 3 texts"


def which_way(kind: str, what: str = "the head") -> str:
    """What an effect on an output of this kind is, and which way is up; `what` is what the output goes without."""
    return UP[kind].format(what)


def answered(answer: Answer) -> str:
    """What is asked, and what it is without any change; a divergence and a distance are 0 then."""
    if answer.kind in ("divergence", "distance"):
        return answer.about
    return f"{answer.about} {answer.value:.4f}"


def signed(effect: float) -> str:
    """Return an effect with its sign and three digits that matter."""
    return f"{effect:+.3g}" if abs(effect) < 0.1 else f"{effect:+.3f}"
