"""The page: one HTML file with every head of one text or many, that needs neither network nor notebook.

document.py puts the file together from frame.html, template.html, style.css, the modules of JavaScript (modules.py) and
the records (payload.py, with the numbers packed by pack.py and vectors.py); start.py says how it opens, size.py how
large it will be.
Nothing of this imports torch or matplotlib.
"""

from attncli.render.page.document import page, save_page
from attncli.render.page.size import expected_size
from attncli.render.page.start import Start

__all__ = ["Start", "expected_size", "page", "save_page"]
