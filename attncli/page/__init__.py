"""The page: one HTML file with every head of one text or many, that needs neither network nor notebook.

`document` assembles the file from templates, style sheets, modules of JavaScript and the records, which `payload`
describes and `packing` stores. `start` decides how it opens. Nothing of this imports torch or matplotlib.
"""

from attncli.page.document import expected_size, page, save_page
from attncli.page.start import MEAN, Start

__all__ = ["MEAN", "Start", "expected_size", "page", "save_page"]
