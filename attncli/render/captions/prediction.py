"""What is said of a prediction: the labels, words or spans that a model answers with, and how sure it is."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from attncli.base.printable import printable, visible
from attncli.record import AttentionRecord
from attncli.record.parts import LIKELY, NOTHING, Answer, Said
from attncli.text.tokens import text_between, word_groups

SOME = 4  # labels of a text that are named
WORDS = 12  # words with a label that are named
NAMELESS = "LABEL_0"  # what transformers calls the one label of a regression that nobody named


def prediction_lines(record: AttentionRecord) -> list[str]:
    """One, or one for every [MASK]; none where the record has no prediction."""
    said = record.prediction
    if said is None:
        return []
    what = "prediction" if said.output == said.kind else f"prediction, {printable(said.output)}"
    return [f"{what}: {line}" for line in answers(said, record)]


def answers(said: Said, record: AttentionRecord) -> Iterator[str]:
    """What it answers, a line each."""
    match said.kind:
        case "words":
            for place, words in groupby(said.answers, lambda answer: answer.start):
                mask = "" if place is None else f"{visible(record.tokens.shown[place])} {place} is "
                yield mask + ", ".join(map(sure, words))
        case "next":
            yield "next " + ", ".join(map(sure, said.answers))
        case "tokens":
            yield labelled(said, record)
        case "span":
            yield from (f'"{printable(one.label)}"{percent(one)}' for one in said.answers[:1])
        case _:
            yield labels(said)


def labels(said: Said) -> str:
    """Of a text: "entailment 97.1%, neutral 2.0%"; of labels that have to do with no other those that are likely."""
    chosen = said.answers if said.single else [one for one in said.answers if is_meant(one)]
    if not chosen:
        return f"none of {len(said.answers)} labels has {LIKELY:.0%}"
    return some([sure(one) for one in chosen], SOME)


def labelled(said: Said, record: AttentionRecord) -> str:
    """The words with a label: "Berlin B-LOC 99.1%". A word has the label of its first piece."""
    ends = {group[0]: group[-1] + 1 for group in word_groups(record.tokens)}
    found = [
        f"{printable(text_between(record.tokens, one.start, ends[one.start]))} {sure(one)}"
        for one in said.answers
        if one.start in ends and (one.label != NOTHING if said.single else is_meant(one))
    ]
    return some(found, WORDS) if found else "no token has a label"


def is_meant(answer: Answer) -> bool:
    """Whether a label that has to do with no other is said of the text; a number of a regression is."""
    return answer.probability is None or answer.probability >= LIKELY


def some(named: Sequence[str], most: int) -> str:
    """The first of many, and how many more there are."""
    more = len(named) - most
    return ", ".join(named[:most]) + (f" and {more} more" if more > 0 else "")


def sure(answer: Answer) -> str:
    """A label with its probability; a regression's number."""
    if answer.probability is None:
        return f"{'' if answer.label == NAMELESS else f'{visible(answer.label)} '}{answer.logit:.4g}"
    return f"{visible(answer.label)}{percent(answer)}"


def percent(answer: Answer) -> str:
    return "" if answer.probability is None else f" {answer.probability:.1%}"
