"""What a task's head is made of and where its tensors lie, as a family says it: plain data.

`attncli.models.outputs` builds heads of it. Names are those of modules in a checkpoint, without the prefix of its body.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from attncli.base.choices import Output
from attncli.models.families.values import Values

FIRST, MEAN, LATE, EACH = "first", "mean", "late", "each"


class Dense(NamedTuple):
    """f(x W + b). activation: by its name in config.json; size: of what comes out, a field of `ModelConfig`."""

    name: str
    activation: str
    size: str = "hidden_size"
    bias: bool = True


class Norm(NamedTuple):
    """LayerNorm, with the network's own epsilon. published: its name in other checkpoints (`Family.published`)."""

    name: str
    bias: bool = True
    published: str | None = None


class Scores(NamedTuple):
    """x W + b, the last step: a number for each label.

    biases: where b lies, by the names of tensors of which the first that is there is taken; by default beside W. Empty
    where there is none. tied: whether W is the table of the tokens' vectors, where it has no tensor of its own.
    """

    name: str
    biases: tuple[str, ...] | None = None
    tied: bool = False


@dataclass(frozen=True)
class Head:
    """What reads a task's answer off the last hidden states.

    reads: of which vector, the FIRST token's, the MEAN of all but [PAD], or EACH token's; LATE: the mean is taken of
    what becomes of all but [PAD]. parts: what happens to it before its scores. architecture: how the class ends that
    config.json names under `architectures` where these tensors are for the task; alone: whether their names say so too.
    labels: where the task has its own.
    """

    kind: Output
    reads: str
    parts: tuple[Dense | Norm, ...]
    scores: Scores
    architecture: str
    alone: bool = False
    labels: tuple[str, ...] | None = None


Heads = Mapping[str, Head]


def no_heads(values: Values) -> Heads:
    """A family of which nothing is known but its encoder."""
    return {}


def classes(*parts: Dense | Norm, scores: str = "classifier", reads: str = FIRST) -> Head:
    """Of a text, or of a pair of texts."""
    return Head("classes", reads, parts, Scores(scores), "ForSequenceClassification")


def tokens(*parts: Dense | Norm) -> Head:
    """Labels of each token."""
    return Head("tokens", EACH, parts, Scores("classifier"), "ForTokenClassification")


def span(*parts: Dense | Norm, scores: str = "qa_outputs") -> Head:
    """Where in the second text the answer to the first begins and ends."""
    return Head("span", EACH, parts, Scores(scores), "ForQuestionAnswering", labels=("start", "end"))


def words(*parts: Dense | Norm, scores: Scores) -> Head:
    """Which token of the vocabulary stands behind [MASK]."""
    return Head("words", EACH, parts, scores, "ForMaskedLM", alone=True)


def tied(name: str, *biases: str) -> Scores:
    """Scores of the vocabulary, from the tokens' own vectors where there are no others."""
    return Scores(name, (f"{name}.bias", *biases), tied=True)
