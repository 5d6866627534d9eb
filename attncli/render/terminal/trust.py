"""How far maps explain an output, in the terminal: other weights, rankings beside random ones, and the verdict."""

from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from attncli.analysis.trust import MEASURES, Trust, percent
from attncli.base.printable import printable, visible
from attncli.render.captions.effects import answered
from attncli.render.captions.trust import WAYS, aopc_note, change_note, random_note, tau_note, weights_note
from attncli.report.canvas import Canvas
from attncli.report.captions import model_name
from attncli.report.terminal import FittedTable, Prose, plain_table, title

SHORT = {"comprehensiveness": "compr.", "sufficiency": "suff."}
NAMED = 3  # tokens that a ranking puts first
RANDOM = {"mean": "random, mean", "low": "random, 95% from", "high": "random, 95% to"}


def trust_view(found: Trust, canvas: Canvas) -> list[RenderableType]:
    """What is asked, a row a layer, a row a ranking, and the verdict."""
    document = found.document()
    size = f"{len(found.tokens)} tokens"
    return [
        title([model_name(found.model.shown), printable(answered(found.answer)), size], canvas),
        Text(),
        weights_table(found),
        Prose(weights_note(found)),
        Text(),
        rankings_table(found, document, canvas),
        *map(Prose, (change_note(found), aopc_note(found), tau_note(found), random_note(found))),
        Text(),
        Prose(document["verdict"], canvas.strong),
    ]


def weights_table(found: Trust) -> Table:
    table = plain_table("other weights in", "permuted", "from", "to", "uniform")
    for entry in found.shuffles.document():
        where = "all layers" if entry["layer"] is None else f"layer {entry['layer']}"
        sizes = (figure(size) for size in (entry["permuted"], *entry["interval"]))
        table.add_row(where, *sizes, f"{entry['uniform']:+.3g}")
    if (control := found.shuffles.control()) is not None:
        table.add_section()
        table.add_row("random order", *map(figure, (control["permuted"], *control["interval"])), "")
    return table


def rankings_table(found: Trust, document: dict[str, Any], canvas: Canvas) -> Table:
    """A row a method, and random rankings below."""
    taus = {f"tau {WAYS.get(name, name)}": name for name in found.taus}
    scores = {f"{SHORT[name]} {WAYS[one.way]}": (one.way, name) for one in found.erased for name in MEASURES}
    good = "random as good"
    table = plain_table(
        "tokens by",
        *scores,
        *taus,
        good,
        "first tokens",
        names=["first tokens"],
        goes=["first tokens", *reversed(taus)],
    )
    for entry in document["rankings"]:
        first = sorted(range(len(found.erasable)), key=lambda place: -entry["importance"][place])[:NAMED]
        tokens = [canvas.within(visible(found.tokens.shown[found.erasable[place]]), 10) for place in first]
        add(table, entry["by"], entry, scores, taus, percent(entry["as_good"]), " ".join(tokens))
    table.add_section()
    for name, label in RANDOM.items():
        add(table, label, document["random"][name], scores, taus, "", "")
    return table


def add(
    table: FittedTable,
    name: str,
    entry: dict[str, Any],
    scores: dict[str, tuple[str, str]],
    taus: dict[str, str],
    *rest: str,
) -> None:
    cells = [score(entry[way], measure) for way, measure in scores.values()]
    cells += [f"{entry['tau'][tau]:.2f}" if tau in entry["tau"] else "" for tau in taus.values()]
    table.add_row(name, *cells, *map(Text, rest))


def score(scores: dict[str, float], measure: str) -> str:
    """Raw, and normalised in %."""
    normal = scores.get(f"normalised_{measure}")
    return figure(scores[measure]) + ("" if normal is None else f" {normal:4.0%}")


def figure(number: float) -> str:
    """Three digits that matter."""
    return f"{number:.3f}" if abs(number) >= 0.1 or number == 0 else f"{number:.3g}"
