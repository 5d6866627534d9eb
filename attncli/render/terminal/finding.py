"""Heads by what they give from one token to another, or by a figure, as a table; made of what `find --json` prints."""

from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from attncli.analysis.finding import SINK as LEAST_SINK
from attncli.base.printable import printable, visible
from attncli.record.captions import model_shown
from attncli.report.canvas import Canvas
from attncli.report.terminal import Prose, plain_table, title

USUAL = (
    "usual: between words the head's mean at that distance, or what the other words give that key if that is more; "
    "else what the other tokens give it"
)
SINK = (
    "sinks: special tokens, the first token of a model that only looks back, and keys that get at least "
    f"{LEAST_SINK} of the other tokens' weight on average"
)


def finding_view(document: dict[str, Any], top: int, canvas: Canvas) -> list[RenderableType]:
    """What was looked for, and a row for each of the first `top` heads."""
    heads = document["heads"]
    parts = [model_shown(document["model"]), *about(document)]
    shown = f"{min(top, len(heads))} of {len(heads)} heads"
    if "from" not in document:
        return [title([*parts, shown], canvas), figure_table(document, heads[:top])]
    table = edge_table(document, heads[:top]) if "query" in heads[0] else mean_table(document, heads[:top])
    said = [USUAL, SINK] if any(one["sinks"] for one in heads[:top]) else [USUAL]
    return [title([*parts, shown], canvas), table, *map(Prose, said)]


def about(document: dict[str, Any]) -> list[str]:
    """From where to where, and in how many texts."""
    ends = [printable(f'"{document["from"]}" to "{document["to"]}"')] if "from" in document else []
    measure = [] if document["measure"] == "weight" else [document["measure"]]
    texts = [] if document["of"] == 1 else [f"{document['texts']} of {document['of']} texts"]
    tokens = [f"{len(document['tokens'])} tokens"] if "tokens" in document else []
    return [*ends, f"by {document['by']}", *measure, f"mask {document['mask']}", *texts, *tokens]


def edge_table(document: dict[str, Any], heads: list[dict[str, Any]]) -> Table:
    """Of one text: from which token to which."""
    table = plain_table("head", "weight", "usual", "query", "key", "sink", names=["query", "key", "sink"])
    for one in heads:
        ends = (f"{one[side]['index']} {visible(one[side]['shown'])}" for side in ("query", "key"))
        table.add_row(name(one), *figures(one), *map(Text, ends), "a sink" if one["sinks"] else "")
    return table


def mean_table(document: dict[str, Any], heads: list[dict[str, Any]]) -> Table:
    """Of several texts: the means, and in how many of them it is a sink."""
    table = plain_table("head", "weight", "usual", "texts", "to a sink", goes=["texts"])
    for one in heads:
        table.add_row(name(one), *figures(one), str(one["texts"]), str(one["sinks"] or ""))
    return table


def figure_table(document: dict[str, Any], heads: list[dict[str, Any]]) -> Table:
    """By a figure of statistics, with the spread between texts and what pattern the head is of."""
    table = plain_table("head", document["by"], "spread", "label", names=["label"])
    for one in heads:
        table.add_row(name(one), f"{one['value']:.3f}", f"{one['spread']:.3f}", one["label"])
    return table


def name(head: dict[str, Any]) -> str:
    return f"{head['layer']}.{head['head']}"


def figures(head: dict[str, Any]) -> tuple[str, str]:
    return f"{head['weight']:.3f}", f"{head['usual']:.3f}"
