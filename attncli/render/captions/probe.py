"""What is said of heads that find syntactic heads; made of what `probe --json` prints."""

from typing import Any

from attncli.base.printable import printable

NEVER = "-"  # a relation that is not in the treebank it is measured on
SAME = "and measured on the same ones: the best of many looks better than it is, most of all with few words"


def title(document: dict[str, Any]) -> str:
    """Which model, which treebank, on which one the figures are, and whether they are partial; two lines."""
    chosen, test = document["treebank"], document["test"]
    state = "PARTIAL · " if document["partial"] else ""
    kind = f" · {document['kind']} attention" if "kind" in document else ""
    which = f"{state}{printable(document['model']['name'])}{kind} · heads chosen on {sentences(chosen)}\n"
    return which + (SAME if test is None else f"measured on {sentences(test)}")


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


def percent(part: float | None) -> str:
    return NEVER if part is None else f"{100 * part:.1f}%"
