"""Which heads' queries and keys are meant: "4.7", "4.0-3", "4.all", "-1.0,2.5", "all", "none", or pairs of numbers."""

import reprlib
from collections.abc import Sequence
from operator import index

from attncli.base.errors import RequestError
from attncli.base.printable import quoted
from attncli.record.selection import number_list, parse, position

NamedHeads = str | Sequence[tuple[int, int]] | None

WRITTEN = '"4.7" (layer 4, head 7), "4.0-3", "4.all", "-1.0,2.5", "all" or "none"'


def select_heads(
    selection: NamedHeads, layers: Sequence[int], heads: Sequence[int], model_layers: int, model_heads: int
) -> list[tuple[int, int]]:
    """The heads meant, as (layer, head) counted from 0, in the order given, each once.

    selection: LAYERS.HEADS, several of them with commas between; each side is a number, a range or "all" as in
    `attncli.record.selection`, so that "4.0-3" is four heads of layer 4, and a negative number counts from the model's
    end. Or pairs of such numbers. "all" means all that are kept: "4.all" is every kept head of layer 4. None and
    "none" are no head.
    layers, heads: those whose weights are kept; what is named must be among them.
    model_layers, model_heads: how many the model has.

    Raises RequestError for what is written otherwise, out of the model's range, or not kept.
    """
    if selection is None:
        return []
    if isinstance(selection, str):
        named = parse_heads(selection, layers, heads, model_layers, model_heads)
    else:
        try:
            pairs = [(index(layer), index(head)) for layer, head in selection]
        except (TypeError, ValueError) as error:
            raise RequestError(
                f"heads {reprlib.repr(selection)} are no pairs: write [(4, 7)] for layer 4, head 7, or {WRITTEN}"
            ) from error
        named = [(position(layer, model_layers, "layer"), position(head, model_heads, "head")) for layer, head in pairs]
    for layer, head in named:
        if layer not in layers or head not in heads:
            kept = f"layers {number_list(layers)}, heads {number_list(heads)}"
            raise RequestError(f"head {layer}.{head} is not kept ({kept}): ask for it with -l and -H too")
    return list(dict.fromkeys(named))


def heads_list(heads: Sequence[tuple[int, int]]) -> str:
    """(3, 1), (4, 0), (4, 1) -> "3.1,4.0-1", as `select_heads` takes it."""
    of_layers: dict[int, list[int]] = {}
    for layer, head in heads:
        of_layers.setdefault(layer, []).append(head)
    runs = [f"{layer}.{run}" for layer, numbers in of_layers.items() for run in number_list(numbers).split(",")]
    return ",".join(runs)


def parse_heads(
    text: str, layers: Sequence[int], heads: Sequence[int], model_layers: int, model_heads: int
) -> list[tuple[int, int]]:
    word = text.strip().lower()
    if word == "none":
        return []
    if word == "all":
        return [(layer, head) for layer in layers for head in heads]
    named: list[tuple[int, int]] = []
    for part in text.split(","):
        layer_text, dot, head_text = part.partition(".")
        if not dot:
            raise RequestError(f"heads {quoted(part.strip())} is no LAYER.HEAD: write {WRITTEN}")
        of_layers = numbers(layer_text, layers, model_layers, "layer")
        of_heads = numbers(head_text, heads, model_heads, "head")
        named.extend((layer, head) for layer in of_layers for head in of_heads)
    return named


def numbers(text: str, kept: Sequence[int], count: int, what: str) -> Sequence[int]:
    """One side of the dot."""
    return kept if text.strip().lower() == "all" else parse(text, count, what)
