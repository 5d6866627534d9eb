"""What tests of the terminal's views share: canvases of all kinds, and a table's rows as text."""

from hypothesis import strategies as st

from attncli.render.terminal.canvas import Canvas

PLAIN = Canvas(100, colour=False, unicode=True)


def canvases(narrowest=30, widest=200):
    """Of any width between these, with and without colour and blocks."""
    return st.builds(Canvas, width=st.integers(narrowest, widest), colour=st.booleans(), unicode=st.booleans())


def rows(table):
    """The table's rows, a text a column."""
    columns = [[str(cell) for cell in column.cells] for column in table.columns]
    return list(zip(*columns, strict=True))
