"""What -o writes where it takes pictures, documents, and it may be pages."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attncli.base.files import DOCUMENTS, PAGE, PICTURES, check_suffix, save_document

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def check(path: Path, what: str, page: bool = False) -> str:
    """The suffix in lower case. Raises RequestError for one that is no picture's, no document's and no `page`'s."""
    return check_suffix(path, (*PICTURES, *([PAGE] if page else []), *DOCUMENTS), what)


def save(
    path: Path,
    document: Callable[[], dict[str, Any]],
    rows: Callable[[dict[str, Any]], Iterable[dict[str, Any]]],
    figure: Callable[[], "Figure"],
    page: Callable[[], str] | None = None,
) -> None:
    """A picture, a page, or what --json prints, by the suffix; the others are not made.

    rows: of the document, what a .csv has a row for.
    """
    suffix = path.suffix.lower()
    if suffix in DOCUMENTS:
        made = document()
        save_document(made, rows(made), path)
    elif suffix == PAGE and page is not None:
        from attncli.page import save_page

        save_page(page(), path)
    else:
        from attncli.report.figure.saving import save_figure

        save_figure(figure(), path)
