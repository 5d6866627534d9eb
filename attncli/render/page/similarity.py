"""Why two texts are similar, as a page: a signed map of A's tokens by B's that needs no script and no network."""

import html
from collections.abc import Sequence

import numpy as np

from attncli.analysis.similarity import Similarity
from attncli.base.arrays import Doubles
from attncli.base.printable import printable, visible
from attncli.render.captions.effects import which_way
from attncli.render.captions.similarity import HUNDREDTHS, credited, summed
from attncli.render.page.document import filled, policy
from attncli.render.page.modules import FOLDER
from attncli.render.palette import ABOVE, BELOW
from attncli.report.captions import model_name

STEPS = 20  # of a colour, from nothing to all of it
DARK = 14  # of these, from which on numbers are white


def similarity_page(found: Similarity) -> str:
    """One HTML document with the map, its sum and what it can say, and the effect of each head. The same result gives
    the same document; texts in it are texts and nothing else.
    """
    heading = f"{model_name(found.model.shown)}: cosine {found.cosine:.4f}"
    style = (FOLDER / "similarity.css").read_text(encoding="utf-8") + colours()
    effects = found.effects
    heads = [str(head) for head in effects.heads]
    return filled(
        "similarity.html",
        {
            "policy": policy(style, ""),
            "title": html.escape(heading),
            "heading": html.escape(heading),
            "style": style,
            "said": "\n".join(f"<p>{html.escape(printable(line))}</p>" for line in [*summed(found), *credited(found)]),
            "caption": "rows: A, columns: B, in hundredths",
            "grid": table(tokens(found.tokens.shown), tokens(found.key_tokens.shown), found.contributions),
            "effect": html.escape(which_way("cosine")),
            "heads": table([str(layer) for layer in effects.layers], heads, effects.mean[0]),
        },
    )


def tokens(shown: Sequence[str]) -> list[str]:
    return [f"{place} {name}" for place, name in enumerate(map(visible, shown))]


def table(rows: Sequence[str], columns: Sequence[str], values: Doubles) -> str:
    """A signed map `[row, column]`: numbers in hundredths, coloured from what is largest in size."""
    most = float(np.abs(values).max()) or 1.0
    names = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in columns)
    lines = [f"<thead><tr><th></th>{names}</tr></thead>", "<tbody>"]
    for name, row in zip(rows, values.tolist(), strict=True):
        cells = (
            f'<td class="{shade(value / most)}" title="{html.escape(name)}, {html.escape(column)}: {value:+.6f}">'
            f"{value * HUNDREDTHS:.2f}</td>"
            for column, value in zip(columns, row, strict=True)
        )
        lines.append(f'<tr><th scope="row">{html.escape(name)}</th>{"".join(cells)}</tr>')
    return "\n".join([*lines, "</tbody>"])


def shade(share: float) -> str:
    """The class of a share from -1 to 1 of the full colour."""
    return f"{'a' if share > 0 else 'b'}{round(abs(share) * STEPS)}"


def colours() -> str:
    """The style of these classes, on a light ground as on a dark one."""
    ends = (("a", " ".join(map(str, ABOVE))), ("b", " ".join(map(str, BELOW))))
    return "".join(
        f".{name}{step} {{ background: rgb({colour} / {step / STEPS:.2f}){'; color: white' * (step >= DARK)} }}\n"
        for name, colour in ends
        for step in range(STEPS + 1)
    )
