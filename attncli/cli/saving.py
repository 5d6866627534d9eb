"""What -o writes where it takes pictures and documents."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attncli.base.documents import DOCUMENTS, save_document
from attncli.base.files import PICTURES, check_suffix

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def check(path: Path, what: str) -> str:
    """The suffix in lower case. Raises RequestError for one that is neither a picture's nor a document's."""
    return check_suffix(path, (*PICTURES, *DOCUMENTS), what)


def save(
    path: Path,
    document: Callable[[], dict[str, Any]],
    rows: Callable[[dict[str, Any]], Iterable[dict[str, Any]]],
    figure: Callable[[], "Figure"],
) -> None:
    """A picture, or what --json prints, by the suffix; the other one is not made.

    rows: of the document, what a .csv has a row for.
    """
    if path.suffix.lower() in DOCUMENTS:
        made = document()
        save_document(made, rows(made), path)
        return
    from attncli.render.figures.saving import save_figure

    save_figure(figure(), path)
