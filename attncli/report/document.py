"""A report as a file: a picture, a page, or its document as .json and .csv."""

from pathlib import Path

from attncli.base.documents import DOCUMENTS, save_document
from attncli.base.files import PAGE, PICTURES, check_suffix
from attncli.report.report import Report


def save_report(report: Report, path: Path) -> None:
    """Save a report by the suffix of `path`; a file appears whole or not at all. Raises RequestError for no suffix of
    these, and for a picture or a page of a report that has none.
    """
    suffix = check_suffix(path, (*PICTURES, PAGE, *DOCUMENTS), "a report")
    if suffix in DOCUMENTS:
        document = report.document()
        save_document(document, report.rows(document), path)
    elif suffix == PAGE:
        from attncli.render.page.document import save_page
        from attncli.report.page import page_of

        save_page(page_of(report), path)
    else:
        from attncli.render.figures.saving import save_figure
        from attncli.report.figure import figure_of

        save_figure(figure_of(report), path)
