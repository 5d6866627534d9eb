"""What is said of heads that find syntactic heads; made of what `probe --json` prints."""

from pathlib import PurePath
from typing import Any

from attncli.analysis.luck import fewest_words
from attncli.base.printable import printable

FEW = "too few"  # of the words of a relation
NEVER = "-"  # a relation that is not in the treebank it is measured on
SAME = "and measured on the same ones: the best of many looks better than it is, most of all with few words"


def title(document: dict[str, Any], folders: bool = True) -> str:
    """Which model, which treebank, on which one the figures are, and whether they are partial; two lines.

    folders: whether those of the treebanks' files are named.
    """
    chosen, test = (
        one and {**one, "path": one["path"] if folders else PurePath(one["path"]).name}
        for one in (document["treebank"], document["test"])
    )
    state = "PARTIAL · " if document["partial"] else ""
    kind = f" · {document['kind']} attention" if "kind" in document else ""
    which = f"{state}{printable(document['model']['name'])}{kind} · heads chosen on {sentences(chosen)}\n"
    return which + (SAME if test is None else f"measured on {sentences(test)}")


def verdicts(document: dict[str, Any]) -> str:
    """What the interval and the verdicts mean; two lines."""
    of = document["candidates"]
    best, lucky = (
        ("", "luck") if of == 1 else (f", for the best of {of}", f"the best of {of} (heads x directions) by luck")
    )
    return (
        f"interval: where the accuracy on all such words may be, 95% (Wilson){best}\n"
        f"verdict: head if it finds more than the offset, as {lucky} would once in 20 at most (McNemar); unclear if "
        f"that may be luck; offset if that finds as many; {FEW} if the offset leaves fewer than {fewest_words(of)} "
        "words: even a head that found them all could be luck"
    )


def interval(row: dict[str, Any]) -> str:
    """In percent: 34-90%."""
    if row["interval"]["low"] is None:
        return NEVER
    low, high = row["interval"]["low"], row["interval"]["high"]
    return f"{100 * low:.0f}-{100 * high:.0f}%"


def end(document: dict[str, Any]) -> str:
    """What the trees are measured by, and what joining all neighbours would give."""
    trees = document["trees"]
    return (
        f"trees: maximum spanning trees' share of {trees['edges']} edges without punctuation (UUAS); "
        f"neighbours joined: {percent(trees['neighbours'])}"
    )


def sentences(treebank: dict[str, Any]) -> str:
    count = treebank["sentences"]
    return f"{count} {'sentence' if count == 1 else 'sentences'} of {printable(treebank['path'])}"


def head_name(row: dict[str, Any]) -> str:
    return f"{row['layer']}.{row['head']}"


def direction(row: dict[str, Any]) -> str:
    """Which of the two words attends to which: child → head."""
    return str(row["direction"].replace("->", " → "))


def percent(part: float | None) -> str:
    return NEVER if part is None else f"{100 * part:.1f}%"
