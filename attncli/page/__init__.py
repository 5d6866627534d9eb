"""The page: one HTML file with every head of one text or many, that needs neither network nor notebook.

`document` says how it opens, and assembles the file from templates, style sheets, modules of JavaScript and the
records, which `payload` describes and `packing` stores. Nothing of this imports torch or matplotlib.
"""

from attncli.page.document import MEAN, Start, page, save_page

__all__ = ["MEAN", "Start", "page", "save_page"]
