"""What is said of effects: of which output, in which unit, and which way is up."""

from attncli.analysis.effects import Answer

WAYS = {
    "zero": "zero: the head gives 0",
    "mean": "mean: it gives its mean over tokens of other texts",
    "resample": "resample: it gives what it gives at tokens drawn from other texts",
}
UP = {
    "cosine": "effect: cosine without the head minus cosine with it; below 0 the head makes the two texts more alike",
    "logit": "effect: logit without the head minus logit with it; below 0 the head speaks for it",
    "probability": "effect: probability without the head minus probability with it; below 0 the head speaks for it",
    "divergence": "effect: nats by which the prediction changes without the head; 0 is no change",
    "distance": "effect: how far the last vectors move without the head, as a share of their lengths; 0 is no move",
}
IMPORTANCE = "importance: |slope of the output by the head's gate|, mean over texts (Michel et al. 2019)"
INTERVAL = "from, to: of 20 such intervals of the mean 19 hold it (bootstrap over texts)"


def answered(answer: Answer) -> str:
    """What is asked, and what it is without any change; a divergence and a distance are 0 then."""
    if answer.kind in ("divergence", "distance"):
        return answer.about
    return f"{answer.about} {answer.value:.4f}"
