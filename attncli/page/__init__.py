"""The page: one HTML file with every head of one or more texts. It needs no network and no notebook.

`document` assembles the file from templates, style sheets, JavaScript modules and records. `payload` describes the
records, `packing` stores their numbers. Nothing here imports torch or matplotlib.
"""

from attncli.page.document import MEAN, Start, page, save_page

__all__ = ["MEAN", "Start", "page", "save_page"]
