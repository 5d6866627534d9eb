"""Two records beside each other as a page: the maps of A and B, and B - A around 0, with one cursor."""

from dataclasses import replace
from typing import Any

from attncli import __version__
from attncli.analysis.difference import Difference
from attncli.render.captions.difference import MEANING, about, told_apart
from attncli.render.captions.records import model_name
from attncli.render.page.document import assembled
from attncli.render.page.modules import script
from attncli.render.page.pack import pick_scale
from attncli.render.page.payload import Chunks, describe, text_entry
from attncli.render.palette import CHANGES_DARK, CHANGES_LIGHT

MAIN = "compare"
DIGITS = 6  # of how much moved


def difference_page(found: Difference) -> str:
    """One HTML document with all heads that both records have, opened at that which differs most. The same two give
    the same document.
    """
    description, chunks = payload(found)
    title = " · ".join(f"{name}: {side}" for name, side in zip("AB", told_apart(found), strict=True))
    return assembled("compare.html", ["style.css", "compare.css"], script(MAIN), title, description, chunks)


def payload(found: Difference) -> tuple[dict[str, Any], dict[str, str]]:
    """What the page holds: a description as that of a page of one record, with two texts, and chunks by name."""
    both = [replace(record, vectors=None) for record in (found.first, found.second)]
    scale, chunks = pick_scale([record.weights for record in both]), Chunks()
    layer, head = found.heads()[0]
    texts = [text_entry([record], scale, chunks) for record in both]
    description = describe(both[0], texts, {"view": "matrix", "layer": layer, "head": head}) | {
        "signed": {"light": CHANGES_LIGHT, "dark": CHANGES_DARK},
        "sides": [*told_apart(found), ""],
        "moved": found.moved.round(DIGITS).tolist(),
        "about": [
            *(
                " · ".join([f"{name}: {model_name(one.model.shown)}", *about(one)])
                for name, one in zip("AB", both, strict=True)
            ),
            MEANING,
            f"A and B are stored within {scale.error:.1g} of the true numbers, B − A within {2 * scale.error:.1g}",
            f"made by attncli {__version__}",
        ],
    }
    return description, chunks.texts
