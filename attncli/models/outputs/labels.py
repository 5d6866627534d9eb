"""What a config.json says of the labels that a head gives: their names, and what makes probabilities of its logits."""

import reprlib
from collections.abc import Mapping
from typing import Any

from attncli.base.errors import RequestError
from attncli.base.schema import LONGEST_NAME, text
from attncli.models.families.heads import Head
from attncli.models.output import SIGMOID, SOFTMAX

MOST_LABELS = 10**6
FUNCTIONS = {"regression": None, "single_label_classification": SOFTMAX, "multi_label_classification": SIGMOID}


def labels_of(data: Mapping[str, Any]) -> list[str]:
    """`id2label`; without it LABEL_0, LABEL_1, ..., as many as `num_labels` says, else 2, as transformers takes them.

    Raises RequestError where labels have no names, or not each of them.
    """
    named = data.get("id2label")
    if named is None:
        count = data.get("num_labels", 2)
        if type(count) is not int or not 1 <= count <= MOST_LABELS:
            raise RequestError(f"num_labels is {reprlib.repr(count)}, not a whole number from 1 to {MOST_LABELS:,}")
        return [f"LABEL_{number}" for number in range(count)]
    numbers = [str(number) for number in range(len(named))] if isinstance(named, dict) else []
    if not numbers or set(named) != set(numbers):
        raise RequestError("id2label has not a name for each of the labels 0, 1, 2, ...")
    for number in numbers:
        try:
            text(LONGEST_NAME)(named[number], f"label {number}")
        except ValueError as error:
            raise RequestError(f"id2label: {error}") from error
    return [named[number] for number in numbers]


def function_of(data: Mapping[str, Any], head: Head, count: int) -> str | None:
    """What makes probabilities of so many logits. Raises RequestError for a `problem_type` that there is not.

    As in transformers, of one label a regression is made unless `problem_type` says otherwise, and of several one is
    right.
    """
    if head.kind != "classes":
        return SIGMOID if count == 1 else SOFTMAX
    stated = data.get("problem_type")
    if stated is None or head.labels is not None:
        return None if count == 1 else SOFTMAX
    if not isinstance(stated, str) or stated not in FUNCTIONS:
        raise RequestError(f"problem_type is {reprlib.repr(stated)}, not one of {', '.join(FUNCTIONS)}")
    return FUNCTIONS[stated]
