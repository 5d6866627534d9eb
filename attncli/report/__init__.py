"""Reports: the result of a feature as a title, parts that any medium can show, and a document.

`attncli.report.parts` has the parts; `terminal`, `figure` and `page` each draw any part.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from attncli.base.errors import RequestError
from attncli.base.files import DOCUMENTS, PAGE, PICTURES, as_dataframe, as_text, check_suffix, save_document, table_of
from attncli.report.parts import Cell, Column, HeadGrid, MapAxis, Maps, Panel, Part, Table, TextLine

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "Cell",
    "Column",
    "HeadGrid",
    "MapAxis",
    "Maps",
    "NextCommand",
    "Panel",
    "Part",
    "Report",
    "Result",
    "Table",
    "TextLine",
]


class NextCommand(NamedTuple):
    """A command to type next: its name, and options by name. Others are taken from the last command."""

    command: str
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Report:
    """The result of a feature.

    title: its pieces, from the model to the size of the text. document: makes what --json prints. rows: returns the
    rows of a .csv, given the document. picture: the parts of a picture, where it has others than the report, and of a
    page, where the report has no map. files:
    how it is saved in files of other kinds, such as records, by their suffixes. verbatim: text that stdout gets as it
    is, in place of the parts. holds: False where a check said no. partial: it was interrupted, and holds what there
    was by then.
    """

    title: Sequence[str]
    parts: Sequence[Part]
    document: Callable[[], Mapping[str, Any]]
    rows: Callable[[Mapping[str, Any]], Iterable[Mapping[str, Any]]] = lambda document: [document]
    picture: Sequence[Part] | None = None
    files: Mapping[str, Callable[[Path], object]] = field(default_factory=dict)
    verbatim: str | None = None
    holds: bool | None = None
    partial: bool = False
    next: NextCommand | None = None

    def __str__(self) -> str:
        """Return the report as a pipe gets it."""
        from attncli.report.terminal import text_of

        return text_of(self.title, self.parts)

    def __repr__(self) -> str:
        """<Report: minilm · cosine 0.8123>"""
        return f"<Report: {' · '.join(self.title)}>"

    def json(self) -> Iterator[str]:
        """Yield what --json prints, piece by piece."""
        yield as_text(self.document())

    def to_dataframe(self) -> "DataFrame":
        """Return a pandas DataFrame with the rows and columns of its .csv. Raises RequestError without pandas."""
        return as_dataframe(table_of(self.rows(self.document())))

    def save(self, path: str | Path, **printed: Any) -> None:
        """Save by suffix: a picture, a page, .json, .csv or one of `files`; a file appears whole or not at all.

        printed: width ("8cm"), font, font_size, title and dpi of a picture.

        Raises RequestError for another suffix, for a picture or a page of a report that has none, and for a picture
        that has no room in its width.
        """
        path = Path(path)
        suffix = check_suffix(path, (*PICTURES, PAGE, *dict.fromkeys([*DOCUMENTS, *self.files])), "a report")
        if suffix in self.files:
            self.files[suffix](path)
        elif suffix in DOCUMENTS:
            document = self.document()
            save_document(document, self.rows(document), path)
        elif suffix == PAGE:
            from attncli.page.document import save_page
            from attncli.report.page import page_of

            save_page(page_of(self.title, [*self.parts, *(self.picture or ())]), path)
        else:
            from attncli.report.figure import figure_of
            from attncli.report.figure.drawing import has_dots, save_figure
            from attncli.report.paper import paper

            sheet = paper(**printed)
            drawn = figure_of(self.title, self.parts if self.picture is None else self.picture, sheet)
            if sheet.dpi is not None and suffix != ".png" and not has_dots(drawn):
                raise RequestError(f"--dpi has no effect on {path}: its lines have no dots; leave it out")
            save_figure(drawn, path, sheet.dots)


class Result:
    """What a measure found, as data. A subclass says in `report` how any medium shows it."""

    def document(self) -> Mapping[str, Any]:
        """Return what --json prints."""
        raise NotImplementedError

    def report(self) -> Report:
        """Return its title, and the parts that any medium can show."""
        raise NotImplementedError

    def reports(self) -> Iterator[Report]:
        """Yield what a person is shown, one after the other as it is found; by default the report."""
        yield self.report()

    def __str__(self) -> str:
        """Return the result as a pipe gets it."""
        return str(self.report())

    def to_dataframe(self) -> "DataFrame":
        """Return a pandas DataFrame with the rows and columns of its .csv. Raises RequestError without pandas."""
        return self.report().to_dataframe()

    def save(self, path: str | Path, **printed: Any) -> None:
        """Save by suffix: a picture, a page, .json or .csv. Options and errors are those of `Report.save`."""
        self.report().save(path, **printed)
