"""What `attncli bench` measured, as a table."""

from itertools import groupby
from typing import Any

from rich.table import Table
from rich.text import Text

from attncli.base.printable import printable
from attncli.render.terminal.tables import Prose, plain_table

COLUMNS = (
    *("attncli\nms", "eager\nms", "SDPA\nms"),
    *("of\neager", "of\nSDPA"),
    *("attncli\nMB", "eager\nMB", "SDPA\nMB"),
    "of\nrate",
)
# What a narrow terminal does without first.
GOES = ("eager\nMB", "SDPA\nMB", "of\nrate", "attncli\nMB", "eager\nms", "SDPA\nms")
PROGRAMS = ("attncli", "eager", "sdpa")


def bench_table(document: dict[str, Any]) -> Table:
    """A line for a model and a shape, and under it one for each thing that is kept.

    `document` is what `bench --json` prints.
    """
    table = plain_table("texts x tokens\n  maps kept", *COLUMNS, goes=GOES)
    for shape, rows in groupby(document["rows"], shape_of):
        table.add_row(Text(shape))
        for row in rows:
            table.add_row(*map(Text, row_texts(row)))
        table.add_section()
    return table


def shape_of(row: dict[str, Any]) -> str:
    return printable(f"{row['model']} {row['texts']} x {row['tokens']}")


def row_texts(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        f"  {row['kept']}",
        *(three_digits(row["seconds"][name] * 1e3) for name in PROGRAMS),
        *(three_digits(row["ratio"][name]) for name in PROGRAMS[1:]),
        *(megabytes(row["peak_bytes"][name]) for name in PROGRAMS),
        f"{row['matrix_product_share']:.0%}",
    )


def bench_legend(document: dict[str, Any]) -> Prose:
    """What the columns mean, and what it was all measured on."""
    versions = document["versions"]
    rates = document["matrix_product"]["flops_per_second"]
    rows, width, out = document["matrix_product"]["shape"]
    return Prose(
        "\nms: median time. of eager: attncli's time over that of transformers with output_attentions, which "
        "keeps all maps; of SDPA: without, which keeps none.\n"
        "MB: the peak of what a call adds to the memory in use, its result included.\n"
        "of rate: attncli's matrix products a second, as a share of what a product of "
        f"{rows} x {width} x {out} reaches here: {max(rates.values()) / 1e9:.0f} GFLOP/s.\n"
        f"Random weights, float32, {document['device']}, {document['threads']} threads; "
        + ", ".join(f"{name} {number}" for name, number in versions.items())
        + "."
    )


def stats_lines(document: dict[str, Any]) -> Text:
    """What `attncli bench stats` measured, in words; `document` is what its --json prints."""
    speed, memory, long = document["speed"], document["memory"], document["long"]
    lines = [
        f"{printable(document['model'])}, {document['weights']} weights: {speed['texts']:,} texts of "
        f"{document['lengths'][0]} to {document['lengths'][1]} tokens, {speed['tokens']:,} tokens"
    ]
    for name, seconds in speed["seconds"].items():
        lines.append(f"  {name:<13}{seconds:8.2f} s{speed['tokens'] / seconds:10,.0f} tokens/s")
    lines += [
        f"  {speed['ratio']:.2f} x as fast as transformers and numpy; figures at most "
        f"{speed['largest_difference']:.0e} apart",
        "",
        "peak memory of a whole process",
    ]
    corpora = [f"{one['lines']:,} lines, {one['tokens']:,} tokens" for one in memory]
    for corpus, one in zip(corpora, memory, strict=True):
        lines.append(f"  {corpus:<{max(map(len, corpora))}}{megabytes(one['peak_bytes']):>6} MB")
    few, many = (one["peak_bytes"] for one in memory)
    if few and many:
        lines.append(f"  {many / few:.2f} x")
    lines += [
        "",
        f"one text of {long['tokens']:,} tokens, {long['layers']} layers x {long['heads']} heads, random weights",
        f"  {long['seconds']:.1f} s, peak of the process {megabytes(long['peak_bytes'])} MB; one layer's maps would be "
        f"{megabytes(long['map_bytes'])} MB",
        "",
        f"float32, {document['device']}, {document['threads']} threads; "
        + ", ".join(f"{name} {number}" for name, number in document["versions"].items())
        + f"; medians of {speed['rounds']} rounds",
    ]
    return Text("\n".join(lines))


def three_digits(value: float) -> str:
    """About three digits: 1234, 56.7, 1.06, 0.004."""
    if value >= 100:
        return f"{value:.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def megabytes(count: int | None) -> str:
    return "?" if count is None else f"{count / 1e6:.0f}"
