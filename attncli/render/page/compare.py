"""Two records and B - A side by side as a page, with one cursor and a scale around 0."""

from dataclasses import replace
from typing import Any

from attncli.analysis.difference import Difference
from attncli.base.printable import printable
from attncli.base.version import __version__
from attncli.render.captions.difference import MEANING, about, told_apart
from attncli.render.page.chunks import TEXTS, Chunks
from attncli.render.page.document import assembled
from attncli.render.page.levels import Scale
from attncli.render.page.modules import script
from attncli.render.page.pack import pick_scale
from attncli.render.page.payload import describe, text_entry
from attncli.render.palette import CHANGES_DARK, CHANGES_LIGHT
from attncli.report.captions import model_name

MAIN = "compare"
TO = " → "  # between a query and a key
DIGITS = 6  # of how much moved
START = {"view": "matrix"}


def difference_page(found: Difference) -> str:
    """One HTML document with all heads that both records have, opened at that which differs most. The same two give
    the same document.
    """
    both = [replace(record, vectors=None) for record in (found.first, found.second)]
    scale, chunks = pick_scale([record.weights for record in both]), Chunks(TEXTS)
    texts = [text_entry([record], scale, chunks) for record in both]
    layer, head = found.heads()[0]
    start = {**START, "layer": layer, "head": head}
    sides = list(zip("AB", told_apart(found), strict=True))
    description = describe(both[0].model, (both[0].layers, both[0].heads), both[0].measure, texts, start) | {
        "panels": [*({"name": name, "about": side} for name, side in sides), {"name": "B − A", "signed": True}],
        "moved": found.moved.round(DIGITS).tolist(),
        "between": TO,
        "about": [
            *(
                " · ".join([f"{name}: {model_name(one.model.shown)}", *about(one)])
                for name, one in zip("AB", both, strict=True)
            ),
            MEANING,
            stored(scale, max(len(one.keys) for one in both)),
        ],
    }
    return document(" · ".join(f"{name}: {side}" for name, side in sides), description, chunks)


def stored(scale: Scale, keys: int) -> str:
    """How exact the weights of both are, of which the page makes their difference."""
    strongest = f"within {100 * scale.error:.2g} % of themselves"
    if keys <= scale.strongest:
        return f"weights of A and B are stored {strongest}"
    others = f"the others within {100 * scale.rest:.2g} %, and not if they are below {scale.least(keys):.1g}"
    return f"the strongest {scale.strongest} weights of a row of A and B are stored {strongest}, {others}"


def document(title: str, description: dict[str, Any], chunks: Chunks[str]) -> str:
    """The page of a description, with the colours around 0, and who made it."""
    description["signed"] = {"light": CHANGES_LIGHT, "dark": CHANGES_DARK}
    description["about"] = [*map(printable, description["about"]), f"made by attncli {__version__}"]
    styles = ["style.css", "compare.css"]
    return assembled(["compare.html"], styles, script(MAIN), title, description, chunks.there)
