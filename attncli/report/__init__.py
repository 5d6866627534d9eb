"""Reports: the result of a feature as a title, parts that any medium can show, and a document.

`attncli.report.parts` has the parts; `terminal`, `figure` and `page` each draw any part.
"""

import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from attncli.base.errors import RequestError
from attncli.base.files import DOCUMENTS, PAGE, PICTURES, as_dataframe, as_text, check_suffix, save_document, table_of
from attncli.report.parts import Cell, Column, HeadGrid, MapAxis, Maps, Panel, Part, Ranking, Table, TextLine

if TYPE_CHECKING:
    from pandas import DataFrame

    from attncli.record import AttentionRecord

__all__ = [
    "Cell",
    "Column",
    "HeadGrid",
    "MapAxis",
    "Maps",
    "NextCommand",
    "Panel",
    "Part",
    "Ranking",
    "Report",
    "Result",
    "Table",
    "TextLine",
]


class NextCommand(NamedTuple):
    """A command to type next: its name, and options by name.

    alone: it takes no other options from the last command.
    """

    command: str
    options: Mapping[str, Any]
    alone: bool = False


@dataclass(frozen=True)
class Report:
    """The result of a feature.

    title: its pieces, from the model to the size of the text. document: returns the document of --json. pieces: returns
    the JSON text of a large one, piece by piece. rows: returns the rows of a .csv, given the document. picture: the
    parts of a picture, if they differ from those of the report, or a function that returns them. A page shows them
    after the other parts. files: functions that save other kinds of files, such as records, by suffix. records: returns
    the maps whose cells are the rows of its table, in place of `rows`. verbatim: the text for stdout that replaces the
    parts. holds: False if a check said no. verdict: the line for stderr when the report is saved. code: the exit code.
    partial: True if it was interrupted and is incomplete. next: the command to type next; after_saving: returns the one
    after a file was saved.
    """

    title: Sequence[str]
    parts: Sequence[Part]
    document: Callable[[], Mapping[str, Any]]
    rows: Callable[[Mapping[str, Any]], Iterable[Mapping[str, Any]]] = lambda document: [document]
    picture: Sequence[Part] | Callable[[], Sequence[Part]] | None = None
    files: Mapping[str, Callable[[Path], object]] = field(default_factory=dict)
    records: Callable[[], "Iterable[AttentionRecord]"] | None = None
    verbatim: str | None = None
    holds: bool | None = None
    verdict: str | None = None
    code: int = 0
    partial: bool = False
    next: NextCommand | None = None
    pieces: Callable[[], Iterable[str]] | None = None
    after_saving: Callable[[Path], NextCommand | None] | None = None

    def __str__(self) -> str:
        """Return the report as it is printed into a pipe."""
        from attncli.report.terminal import text_of

        return text_of(self.title, self.parts) if self.verbatim is None else self.verbatim

    def __repr__(self) -> str:
        """<Report: minilm · cosine 0.8123>"""
        return f"<Report: {' · '.join(self.title)}>"

    def json(self) -> Iterable[str]:
        """Return what --json prints, piece by piece."""
        return [as_text(self.document())] if self.pieces is None else self.pieces()

    def to_dataframe(self) -> "DataFrame":
        """Return a pandas DataFrame with the rows and columns of its .csv. Raises RequestError without pandas."""
        if self.records is not None:
            from attncli.record.record import cells_of

            return cells_of(self.records())
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
            return
        if suffix == ".csv" and self.records is not None:
            from attncli.record import save_records

            save_records(list(self.records()), path)
            return
        if suffix in DOCUMENTS:
            document = self.document()
            save_document(document, self.rows(document), path)
            return
        drawn = self.picture() if callable(self.picture) else self.picture
        if suffix == PAGE:
            from attncli.page.document import save_page
            from attncli.report.page import page_of

            save_page(page_of(self.title, [*self.parts, *(drawn or ())]), path)
        else:
            from attncli.report.figure import figure_of, title_of
            from attncli.report.figure.drawing import has_dots, save_figure
            from attncli.report.paper import paper

            sheet = paper(**printed)
            figure = figure_of(self.title, self.parts if drawn is None else drawn, sheet)
            if sheet.dpi is not None and suffix != ".png" and not has_dots(figure):
                raise RequestError(f"--dpi has no effect on {path}: it has no part made of dots; omit it")
            save_figure(figure, path, sheet.dots, title_of(self.title))


class Result:
    """The result of a measure, as data. A subclass describes in `report` how media show it."""

    def document(self) -> Mapping[str, Any]:
        """Return what --json prints."""
        raise NotImplementedError

    def report(self) -> Report:
        """Return its title, and the parts that any medium can show."""
        raise NotImplementedError

    def reports(self) -> Iterator[Report]:
        """Yield the reports that are printed, as soon as each is ready; by default only `report`."""
        yield self.report()

    def __str__(self) -> str:
        """Return the result as it is printed into a pipe."""
        return "".join(map(str, self.reports()))

    def _repr_html_(self) -> str:
        """Show it in a notebook as it is printed."""
        return f"<pre>{html.escape(str(self))}</pre>"

    def to_dataframe(self) -> "DataFrame":
        """Return a pandas DataFrame with the rows and columns of its .csv. Raises RequestError without pandas."""
        return self.report().to_dataframe()

    def save(self, path: str | Path, **printed: Any) -> None:
        """Save by suffix: a picture, a page, .json or .csv. Options and errors are those of `Report.save`."""
        self.report().save(path, **printed)
