"""What `attncli bench` measured, as a table."""

from itertools import groupby
from typing import Any

from rich.table import Table
from rich.text import Text

from attncli.base.printable import printable
from attncli.report.terminal import Prose, plain_table

COLUMNS = (
    *("attncli\nms", "eager\nms", "SDPA\nms"),
    *("of\neager", "of\nSDPA"),
    *("attncli\nMB", "eager\nMB", "SDPA\nMB"),
    *("products\nms", "weights\nms", "maps\nms"),
)
# What a narrow terminal does without first.
GOES = ("eager\nMB", "SDPA\nMB", "attncli\nMB", "maps\nms", "weights\nms", "products\nms", "eager\nms", "SDPA\nms")
PROGRAMS = ("attncli", "eager", "sdpa")
FLOOR = ("products", "weights", "maps")
MIXED = "Texts of several lengths are in no order; transformers takes them in padded batches.\n"


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
    lengths = f"{row['tokens']}" if row["shortest"] == row["tokens"] else f"{row['shortest']}-{row['tokens']}"
    dtype = "" if row["dtype"] == "float32" else f" {row['dtype']}"
    return printable(f"{row['model']} {row['texts']} x {lengths}{dtype}")


def row_texts(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        f"  {row['kept']}",
        *(milliseconds(row["seconds"][name]) for name in PROGRAMS),
        *("-" if row["ratio"][name] is None else three_digits(row["ratio"][name]) for name in PROGRAMS[1:]),
        *(megabytes(row["peak_bytes"][name]) for name in PROGRAMS),
        *(three_digits(row["floor"][name] * 1e3) for name in FLOOR),
    )


def bench_legend(document: dict[str, Any]) -> Prose:
    """What the columns mean, and what it was all measured on."""
    versions, machine = document["versions"], document["machine"]
    rates = document["matrix_product"]["flops_per_second"]
    rows, width, out = document["matrix_product"]["shape"]
    return Prose(
        "\nms: median time. of eager: attncli's time over that of transformers with output_attentions, which "
        "keeps all maps; of SDPA: without, which keeps none (-: it has none of this architecture).\n"
        "MB: the peak of what a call adds to the memory in use, its result included.\n"
        "products, weights, maps: what the matrix products alone take at the rate that one of "
        f"{rows} x {width} x {out} reaches here, what reading the layers' weights once takes, and writing the maps.\n"
        f"{MIXED if any(row['shortest'] < row['tokens'] for row in document['rows']) else ''}"
        f"GFLOP/s: {', '.join(f'{name} {rate / 1e9:.0f}' for name, rate in rates.items())}.\n"
        f"Random weights, float32 unless said, {document['device']}, {document['threads']} threads; "
        f"{machine_text(machine)}; " + ", ".join(f"{name} {number}" for name, number in versions.items()) + "."
    )


def machine_text(machine: dict[str, Any]) -> str:
    """What it was measured on."""
    rates = machine["bytes_per_second"]
    does = f" ({', '.join(machine['instructions'])})" if machine["instructions"] else ""
    return (
        f"{printable(machine['processor'])}{does}, memory read at {rates['read'] / 1e9:.1f} GB/s "
        f"and written at {rates['write'] / 1e9:.1f}"
    )


def stats_lines(document: dict[str, Any]) -> Text:
    """What `attncli bench stats` measured, in words; `document` is what its --json prints."""
    speed, half, memory, long = (document[name] for name in ("speed", "half", "memory", "long"))
    lines = [
        f"{printable(document['model'])}, {document['weights']} weights: {speed['texts']:,} texts of "
        f"{document['lengths'][0]} to {document['lengths'][1]} tokens, {speed['tokens']:,} tokens"
    ]
    for name, seconds in speed["seconds"].items():
        lines.append(f"  {name:<13}{seconds:8.2f} s{speed['tokens'] / seconds:10,.0f} tokens/s")
    lines += [
        f"  {speed['ratio']:.2f} x as fast as transformers and numpy; figures at most "
        f"{speed['largest_difference']:.0e} apart",
        f"  {half['dtype']:<13}{half['seconds']:8.2f} s",
        f"  {half['ratio']:.2f} x as fast as float32, and at most so far from it:",
        *("    " + ", ".join(f"{name} {moved:.1e}" for name, moved in some) for some in lines_of(half["moved"])),
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
        f"float32 unless said, {document['device']}, {document['threads']} threads",
        machine_text(document["machine"]),
        ", ".join(f"{name} {number}" for name, number in document["versions"].items())
        + f"; medians of {speed['rounds']} rounds",
    ]
    return Text("\n".join(lines))


def lines_of(values: dict[str, float], most: int = 4) -> list[list[tuple[str, float]]]:
    """Names and values, so many in a line."""
    every = list(values.items())
    return [every[start : start + most] for start in range(0, len(every), most)]


def three_digits(value: float) -> str:
    """About three digits: 1234, 56.7, 1.06, 0.004."""
    if value >= 100:
        return f"{value:.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else three_digits(seconds * 1e3)


def megabytes(count: int | None) -> str:
    return "?" if count is None else f"{count / 1e6:.0f}"
