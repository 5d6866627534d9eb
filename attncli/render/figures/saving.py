"""Pictures as files."""

import io
import math
from pathlib import Path

from matplotlib.figure import Figure

from attncli.base.errors import RequestError
from attncli.base.files import LATEX, PICTURES, check_suffix, write_whole
from attncli.render.figures import fonts, latex
from attncli.render.figures.drawing import drawing
from attncli.render.figures.pgf import POINTS

DPI = 150
MOST_PIXELS = 200_000_000
NO_DATE = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def save_figure(figure: Figure, path: str | Path, dpi: int = DPI) -> None:
    r"""Save by suffix: .png, .svg, .pdf, .pgf (for \input) or .tex (a document with that).

    Whole or not at all; the same picture gives the same bytes.

    dpi: dots an inch, of a PNG and of the maps in an SVG or PDF; PGF has none.

    Raises RequestError for another suffix, an unwritable place, or more dots than fit into memory or lines into TeX.
    """
    path = Path(path)
    suffix = check_suffix(path, PICTURES, "a picture")
    drawn = io.BytesIO()  # matplotlib does not end well on a full disk
    with drawing([fonts.DEFAULT]):
        if suffix in LATEX:
            figure.savefig(drawn, format=suffix[1:], dpi=POINTS, backend=f"module://{latex.__name__}")
        else:
            check_dots(figure, path, dpi)
            figure.savefig(drawn, format=suffix[1:], dpi=dpi, metadata=NO_DATE[suffix])
    write_whole(path, lambda file: file.write_bytes(drawn.getvalue()))


def check_dots(figure: Figure, path: Path, dpi: int) -> None:
    width, height = (round(side * dpi) for side in figure.get_size_inches())
    if width * height > MOST_PIXELS:
        raise RequestError(
            f"{path}: at {dpi} dpi the picture has {width} x {height} pixels, which is too many; "
            f"--dpi {int(dpi * math.sqrt(MOST_PIXELS / (width * height)))} fits"
        )
