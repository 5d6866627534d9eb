"""Save pictures as files."""

import io
import math
import warnings
from pathlib import Path

from matplotlib.figure import Figure

from attncli.base.errors import Notice, RequestError
from attncli.base.files import LATEX, PICTURES, check_suffix, write_whole
from attncli.report.figure import fonts
from attncli.report.figure.drawing import drawing

DPI = 150
DEPRECATED = "{} is deprecated and goes in attncli 0.4: save the picture as .svg or .pdf"
MOST_PIXELS = 200_000_000
NO_DATE = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def save_figure(figure: Figure, path: str | Path, dpi: int = DPI) -> None:
    """Save by suffix: .png, .svg or .pdf; and, deprecated, .pgf or .tex. A file appears whole or not at all.

    The same picture gives the same bytes. dpi: dots an inch, of a PNG and of the maps in an SVG or PDF.

    Raises RequestError for another suffix, an unwritable place, or more dots than fit into memory or lines into TeX.
    """
    path = Path(path)
    suffix = check_suffix(path, PICTURES, "a picture")
    drawn = io.BytesIO()  # matplotlib does not end well on a full disk
    with drawing([fonts.DEFAULT]):
        if suffix in LATEX:
            from attncli.report.figure import latex

            warnings.warn(DEPRECATED.format(suffix), Notice, stacklevel=2)
            figure.savefig(drawn, format=suffix[1:], dpi=latex.POINTS, backend=f"module://{latex.__name__}")
        else:
            check_dots(figure, path, dpi)
            figure.savefig(drawn, format=suffix[1:], dpi=dpi, metadata=NO_DATE[suffix])
    write_whole(path, lambda file: file.write_bytes(drawn.getvalue()))


def check_dots(figure: Figure, path: Path, dpi: int) -> None:
    """Raises RequestError for a picture with more dots than fit into memory."""
    width, height = (round(side * dpi) for side in figure.get_size_inches())
    if width * height > MOST_PIXELS:
        raise RequestError(
            f"{path}: at {dpi} dpi the picture has {width} x {height} pixels, which is too many; "
            f"--dpi {int(dpi * math.sqrt(MOST_PIXELS / (width * height)))} fits"
        )
