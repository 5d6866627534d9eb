"""What is said of one row of one head, step by step; made of what `explain --json` prints."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from attncli.base.printable import printable

FIRST = 6  # elements of a vector that are shown
HIDDEN = "masked"
UNKNOWN = (
    "transformers runs this network: the inputs of its projections are unknown, so this starts from its q, k and v"
)
ROUNDING = 1e-6  # of a scale


class Sink(NamedTuple):
    """A head's sink as it is written: its score, exp of that, and its share of the row."""

    score: str
    raised: str
    weight: str


class Step(NamedTuple):
    """A step on the way to the scores: its heading, and for each key its number and that as it is written."""

    heading: str
    values: list[float]
    texts: list[str]


def raised_heading(document: dict[str, Any]) -> str:
    """Return the heading of exp of the scores minus the largest one."""
    largest = document["largest"]
    return f"exp(· {'+' if largest < 0 else '-'} {abs(largest):.2f})"


def score_steps(document: dict[str, Any]) -> list[Step]:
    """From q·k to what softmax is given; q·k before the vectors are turned first, if they are."""
    keys = document["keys"]

    def step(heading: str, values: list[float], digits: int = 3) -> Step:
        return Step(heading, values, [f"{value:.{digits}f}" for value in values])

    before = [step("q·k not turned", [key["unturned"] for key in keys])] if "unturned" in keys[0] else []
    steps = [*before, step("q·k", [key["score"] for key in keys])]
    steps.append(step(scaled(document), [key["scaled"] for key in keys]))
    if "terms" not in keys[0]:
        return steps
    if "row" in keys[0]:
        steps.append(step("row of table", [key["row"] for key in keys], digits=0))
    steps += [step(f"+ {printable(name)}", [key["terms"][name] for key in keys]) for name in keys[0]["terms"]]
    return [*steps, step("= score", [key["added"] for key in keys])]


def scaled(document: dict[str, Any]) -> str:
    """What is done to q·k: divided by the root of the head's size, or of so many times it."""
    size = len(document["query"]["q"])
    divided = document["scale"] ** -2
    if abs(divided - size) < ROUNDING * size:
        return f"/ √{size}"
    times = round(divided / size)
    if times and abs(divided - times * size) < ROUNDING * divided:
        return f"/ √({size}·{times})"
    return f"· {document['scale']:.4g}"


def title(document: dict[str, Any]) -> str:
    """Which head and which query, and where the query comes from; two lines where its input is not known."""
    name, query = printable(document["model"]["name"]), document["query"]
    which = f"layer {document['layer']} head {document['head']}"
    kind = [f"{document['kind']} attention"] if "kind" in document else []
    lines = [" · ".join([name, *kind, which, f"mask {document['mask']}", f"query {named(query)}"])]
    if "x" in query:
        lines.append(f"x = {vector(query['x'])}, the attention's input")
    elif "output" in document:
        lines.append(UNKNOWN)
    if "group" in document:
        lines.append(f"heads {document['group'][0]}-{document['group'][-1]} share their keys and values")
    made = "q = W_Q x + b_Q" if "x" in query else "q"
    if "rotary" not in document:
        return "\n".join([*lines, f"{made} = {vector(query['q'])}"])
    rotary = document["rotary"]
    pair = "2i and 2i+1" if rotary["interleaved"] else f"i and i+{rotary['rotated'] // 2}"
    stretched = "" if rotary["stretch"] == 1 else f" / {rotary['stretch']:.4g}"
    angle = f"{query['index']}{stretched} · {rotary['base']:g}^(-2i/{rotary['rotated']})"
    others = "key and value j" if rotary["values"] else "key j"
    turned = f"elements {pair} turned by {angle}, {others}'s by j instead of {query['index']}"
    return "\n".join([*lines, f"{made} = {vector(query['before'])}", f"q = {vector(query['q'])}, {turned}"])


def sink(document: dict[str, Any]) -> Sink:
    """Return a document's sink as it is written."""
    score, raised = document["sink"]["score"], document["sink"]["raised"]
    return Sink(f"{score:.3f}", f"{raised:.4f}", f"{raised / document['total']:.3f}")


def end(document: dict[str, Any]) -> str:
    """The output, and who brought most of it; two lines, or one where there is nothing, or values are not known.

    A sink has a line of its own.
    """
    if "sink" in document:
        rest = {name: value for name, value in document.items() if name != "sink"}
        own = sink(document)
        return f"{end(rest)}\nthe head's sink takes {own.weight} of the row, which goes to no token"
    keys = [key for key in document["keys"] if key["weight"] > 0]
    if not keys:
        return "this query may attend to nothing: its weights and its output are 0"
    by_weight = max(keys, key=lambda key: key["weight"])
    if "output" not in document:
        return f"most weight: {named(by_weight)} {by_weight['weight']:.3f}"
    by_norm = max(keys, key=lambda key: key["contribution"])
    said = f"most weight: {named(by_weight)} {by_weight['weight']:.3f}"
    said += f"; brings most: {named(by_norm)}, |weight v| {by_norm['contribution']:.3f}"
    return f"output = Σ weight v = {vector(document['output'])}\n{said}"


def named(place: dict[str, Any]) -> str:
    """A query or a key by its number and token."""
    return f'{place["index"]} "{printable(place["shown"])}"'


def vector(numbers: Sequence[float]) -> str:
    """The first elements of a vector, its size and its length."""
    more = ", ..." if len(numbers) > FIRST else ""
    shown = ", ".join(f"{number:.3f}" for number in numbers[:FIRST])
    return f"({shown}{more}) [{len(numbers)}]"
