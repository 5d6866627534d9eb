"""Two records compared: one line each in the terminal; maps A, B and B - A in a picture and on a page."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from textwrap import shorten
from typing import TYPE_CHECKING

import numpy as np

from attncli.analysis.difference import ChangedCell, Difference
from attncli.base.printable import printable, visible
from attncli.record import AttentionRecord
from attncli.record.display import model_name, record_size
from attncli.report.parts import Part

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

    from attncli.report.canvas import Canvas
    from attncli.report.paper import Paper

MEANING = "moved: how much weight must move to turn one map into the other (total variation), mean over tokens; 0 to 1"
BEGINNING = 70  # characters of a text
DIGITS = 6  # of the numbers of heads in a page


@dataclass(frozen=True)
class TwoRecords(Part):
    """The two records of a difference. cells: those that have frames in a picture."""

    found: Difference
    cells: Sequence[ChangedCell]

    def terminal(self, canvas: "Canvas") -> "list[RenderableType]":
        from attncli.report.terminal import title

        both = (("A", self.found.first), ("B", self.found.second))
        return [title([f"{name}  {model_name(one.model.full_name)}", *_about(one)], canvas) for name, one in both]

    def figure(self, title: Sequence[str], paper: "Paper") -> "Figure":
        from attncli.report.figure.difference import Picture

        return Picture(self.found, self.cells, title, *token_pairs(self.found), paper).draw()

    def page(self) -> str:
        """Return a page with all heads that both have, opened at the one that differs most. The same two records give
        the same page.
        """
        from attncli.page.packing import TEXTS, Chunks, error_of, pick_levels
        from attncli.page.payload import describe, text_entry
        from attncli.report.page import BETWEEN, compared_page

        found = self.found
        both = [replace(record, vectors=None) for record in (found.first, found.second)]
        levels, chunks = pick_levels([record.weights for record in both]), Chunks(TEXTS)
        texts = [text_entry([record], levels, chunks) for record in both]
        layer, head = found.heads()[0]
        start = {"view": "matrix", "layer": layer, "head": head}
        sides = list(zip("AB", name_sides(found), strict=True))
        description = describe(both[0], texts, start) | {
            "panels": [*({"name": name, "about": side} for name, side in sides), {"name": "B − A", "signed": True}],
            "moved": np.where(np.isnan(found.moved), 0, found.moved).round(DIGITS).tolist(),
            "between": BETWEEN["tokens"],
        }
        about = [
            *(
                " · ".join([f"{name}: {model_name(one.model.full_name)}", *_about(one)])
                for name, one in zip("AB", both, strict=True)
            ),
            MEANING,
            f"weights of A and B are stored to within {error_of(levels):.8f}",
        ]
        return compared_page(" · ".join(f"{name}: {side}" for name, side in sides), description, about, chunks)


def name_sides(found: Difference) -> tuple[str, str]:
    """Name the two by what differs: the model, the mask, the measure, or the beginning of the text."""
    first, second = found.first, found.second
    for one, other in (
        (model_name(first.model.full_name), model_name(second.model.full_name)),
        (f"mask {first.mask_name}", f"mask {second.mask_name}"),
        (first.measure, second.measure),
    ):
        if one != other:
            return printable(one), printable(other)
    return _about(first)[-1], _about(second)[-1]


def token_pairs(found: Difference) -> tuple[list[str], list[str]]:
    """Return the queries and the keys: "cat", or "cat / dog" where the two have different tokens in one position."""
    sides = (found.first.tokens, found.second.tokens), (found.first.keys, found.second.keys)
    both = [zip(map(visible, one.shown), map(visible, other.shown), strict=True) for one, other in sides]
    queries, keys = ([one if one == other else f"{one} / {other}" for one, other in pairs] for pairs in both)
    return queries, keys


def _about(record: AttentionRecord) -> list[str]:
    """Return anything unusual of a record, its mask, its size, and the beginning of its text."""
    text = [token for token, special in zip(record.tokens.shown, record.tokens.special, strict=True) if not special]
    beginning = printable(shorten(" ".join(text), BEGINNING, placeholder=" ..."))
    return [*record.unusual, f"mask {record.mask_name}", record_size(record), beginning]
