"""Reports: the result of a feature, in parts that every medium can show.

`report` has the parts, `terminal`, `figure` and `page` each show any report, `document` writes .json and .csv.
"""

from attncli.report.report import (
    Axis,
    Cell,
    Column,
    HeadGrid,
    Maps,
    NextCommand,
    Panel,
    Part,
    Report,
    Sentence,
    Table,
)

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
