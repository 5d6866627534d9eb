"""What `attncli bench` measured, as a table."""

from itertools import groupby
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from attncli.printable import printable

COLUMNS = (
    *("attncli\nms", "eager\nms", "SDPA\nms"),
    *("of\neager", "of\nSDPA"),
    *("attncli\nMB", "eager\nMB", "SDPA\nMB"),
    "of\nrate",
)
PROGRAMS = ("attncli", "eager", "sdpa")


def bench_table(document: dict[str, Any]) -> Table:
    """A line for a model and a shape, and under it one for each thing that is kept; 80 columns.

    `document` is what `bench --json` prints.
    """
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)
    table.add_column("texts x tokens\n  maps kept", overflow="fold")
    for name in COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for shape, rows in groupby(document["rows"], shape_of):
        table.add_row(Text(shape))
        for row in rows:
            table.add_row(*map(Text, cells(row)))
        table.add_section()
    return table


def shape_of(row: dict[str, Any]) -> str:
    return printable(f"{row['model']} {row['texts']} x {row['tokens']}")


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        f"  {row['kept']}",
        *(number(row["seconds"][name] * 1e3) for name in PROGRAMS),
        *(number(row["ratio"][name]) for name in PROGRAMS[1:]),
        *(megabytes(row["peak_bytes"][name]) for name in PROGRAMS),
        f"{row['matrix_product_share']:.0%}",
    )


def bench_legend(document: dict[str, Any]) -> Text:
    """What the columns mean, and what it was all measured on."""
    versions = document["versions"]
    rates = document["matrix_product"]["flops_per_second"]
    rows, width, out = document["matrix_product"]["shape"]
    return Text(
        "\nms: median time. of eager: attncli's time over that of transformers with output_attentions, which "
        "keeps all maps; of SDPA: without, which keeps none.\n"
        "MB: the peak of what a call adds to the memory in use, its result included.\n"
        "of rate: attncli's matrix products a second, as a share of what a product of "
        f"{rows} x {width} x {out} reaches here: {max(rates.values()) / 1e9:.0f} GFLOP/s.\n"
        f"Random weights, float32, {document['device']}, {document['threads']} threads; "
        + ", ".join(f"{name} {number}" for name, number in versions.items())
        + "."
    )


def number(value: float) -> str:
    """About three digits: 1234, 56.7, 1.06, 0.004."""
    if value >= 100:
        return f"{value:.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def megabytes(count: int | None) -> str:
    return "?" if count is None else f"{count / 1e6:.0f}"
