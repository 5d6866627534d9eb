"""Reports: the result of a feature, in parts that every medium can show.

`parts` has the parts and `report` the report; `terminal`, `figure` and `page` each draw any part.
"""

from attncli.report.parts import (
    Axis,
    Cell,
    Column,
    HeadGrid,
    Maps,
    Panel,
    Part,
    Sentence,
    Table,
)
from attncli.report.report import NextCommand, Report

__all__ = [
    "Axis",
    "Cell",
    "Column",
    "HeadGrid",
    "Maps",
    "NextCommand",
    "Panel",
    "Part",
    "Report",
    "Sentence",
    "Table",
]
