"""Measure the time and memory of a model beside transformers, on this machine.

What is measured is in `measuring`, which computes with torch and is imported when a report is made.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

from attncli.base.errors import RequestError
from attncli.base.printable import quoted
from attncli.base.progress import Progress, silent
from attncli.features import options
from attncli.features.feature import Feature
from attncli.report import Cell, Column, Report, Sentence, Table

if TYPE_CHECKING:
    from attncli.features.bench.measuring import Row

MOVED = {"stats": "tests/bench/corpus.py", "long": "tests/bench/long_texts.py"}  # former subjects, now scripts


@dataclass(eq=False)
class Bench(Feature):
    """Measure the time and memory of a model beside transformers.

    One text, several texts, texts of mixed lengths, and half precision; four things to keep. Weights are random, since
    only arithmetic matters, and nothing is fetched. All programs take turns in every round; times are medians. On a
    machine that does something else meanwhile they mean little.

    \b
    Examples:
      attncli bench --quick
      attncli bench -m bert-base --json
    """

    group = "The program itself"
    saves = ()

    subject: Annotated[str, options.argument("SUBJECT", "maps, the only one.")] = "maps"
    model: options.ModelName = "minilm"
    quick: Annotated[
        bool, options.option(options.MODEL, "--quick", help="Fewer rounds, not the largest: about a minute.")
    ] = False
    device: options.Device = "auto"

    def report(self, progress: Progress = silent) -> Report:
        if self.subject in MOVED:
            raise RequestError(f"bench {self.subject} is a script of the repository now: python {MOVED[self.subject]}")
        if self.subject != "maps":
            raise RequestError(f"no benchmark {quoted(self.subject)}: leave it out, and name a model with -m")
        from attncli.features.bench.measuring import bench_maps, plan

        cases = plan([self.model], self.quick)
        with progress(sum(case.runs for case in cases), "runs") as advance:
            found = bench_maps(cases, self.device, advance)
        document = found.document()
        return Report([], [_table(found.rows, document), *_legend(document)], lambda: document)


# --- the report -----------------------------------------------------------------------------------------

COLUMNS = (
    *(Column(f"{name}\nms", leaves=place) for name, place in (("attncli", 0), ("eager", 7), ("SDPA", 8))),
    *(Column("of\neager"), Column("of\nSDPA")),
    *(Column(f"{name}\nMB", leaves=place) for name, place in (("attncli", 3), ("eager", 1), ("SDPA", 2))),
    *(Column(f"{name}\nms", leaves=place) for name, place in (("products", 6), ("weights", 5), ("maps", 4))),
)


def _table(rows: "Sequence[Row]", document: dict[str, Any]) -> Table:
    """Return a line for a model and a shape, and below it one for each thing that is kept."""
    lines: list[list[str | Cell] | None] = []
    entries = zip(rows, document["rows"], strict=True)
    for shape, some in groupby(entries, key=lambda both: both[0].case):
        lines.append([_shape(shape.model, shape.shape), *[""] * len(COLUMNS)])
        for row, entry in some:
            seconds, ratios, peaks = entry["seconds"].values(), entry["ratio"].values(), entry["peak_bytes"].values()
            lines.append(
                [
                    f"  {row.kept}",
                    *("-" if one is None else three_digits(one * 1e3) for one in seconds),
                    *("-" if one is None else three_digits(one) for one in ratios),
                    *(megabytes(one) for one in peaks),
                    *(three_digits(one * 1e3) for one in entry["floor"].values()),
                ]
            )
        lines.append(None)
    return Table([Column("texts x tokens\n  maps kept"), *COLUMNS], lines)


def _shape(model: str, shape: Any) -> str:
    """ "minilm 256 x 6-62 bfloat16" """
    lengths = f"{shape.tokens}" if shape.shortest is None else f"{shape.shortest}-{shape.tokens}"
    return f"{model} {shape.texts} x {lengths}" + ("" if shape.dtype == "float32" else f" {shape.dtype}")


def _legend(document: dict[str, Any]) -> list[Sentence]:
    """Say what the columns mean, and what it was measured on."""
    rates = document["matrix_product"]["flops_per_second"]
    rows, width, out = document["matrix_product"]["shape"]
    mixed = any(row["shortest"] < row["tokens"] for row in document["rows"])
    versions = ", ".join(f"{name} {number}" for name, number in document["versions"].items())
    return [
        Sentence(
            "ms: median time. of eager: attncli's time divided by that of transformers with output_attentions, which "
            "keeps all maps. of SDPA: divided by that of transformers without, which keeps none. -: transformers does "
            "not have it for this architecture."
        ),
        Sentence("MB: the memory that a call adds at its peak, its result included."),
        Sentence(
            f"products, weights, maps: the least time for the matrix products, at the rate of one of {rows} x {width} "
            f"x {out} on this machine, for reading the layers' weights once, and for writing the maps."
        ),
        *([Sentence("Texts of mixed lengths are in random order; transformers takes padded batches.")] * mixed),
        Sentence(f"GFLOP/s: {', '.join(f'{name} {rate / 1e9:.0f}' for name, rate in rates.items())}."),
        Sentence(
            f"Random weights, float32 unless said, {document['device']}, {document['threads']} threads; "
            f"{machine_text(document['machine'])}; {versions}."
        ),
    ]


def machine_text(machine: dict[str, Any]) -> str:
    """Describe the machine of a measurement."""
    rates = machine["bytes_per_second"]
    instructions = f" ({', '.join(machine['instructions'])})" if machine["instructions"] else ""
    return (
        f"{machine['processor']}{instructions}, memory read at {rates['read'] / 1e9:.1f} GB/s "
        f"and written at {rates['write'] / 1e9:.1f}"
    )


def three_digits(value: float) -> str:
    """Return about three digits: 1234, 56.7, 1.06, 0.004."""
    if value >= 100:
        return f"{value:.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def megabytes(count: int | None) -> str:
    """Return bytes as megabytes; "?" where they are not known."""
    return "?" if count is None else f"{count / 1e6:.0f}"


# The fields of its document (`attncli.features.document`).
FIELDS = """
### bench

versions | {str} | | by program
device | str
machine | machine
dtype | str | | unless a row says otherwise
threads | int
weights | str | | random
models | [model] | | the measured models
matrix_product | object | | the speed of the machine
matrix_product.shape | [int] | `[rows, in, out]`
matrix_product.flops_per_second | {float} | 1/s | the best measured, by implementation
rows | [object] | | one for each model, shape and choice of maps
rows.model | str | | the name of one of `models`
rows.texts | int
rows.tokens | int | | of the longest text
rows.shortest | int | tokens | of the shortest text
rows.dtype | str | | of the computation
rows.kept | str | | the maps that are kept
rows.rounds | int
rows.seconds | program | s | median
rows.ratio | object | | attncli's time divided by the other's: below 1 attncli is faster
rows.ratio.eager | float
rows.ratio.sdpa | float
rows.peak_bytes | program | bytes | memory that a run adds at its peak
rows.flops | int | | computed by attncli
rows.matrix_product_share | float | | attncli's rate as a share of `matrix_product`
rows.floor | object | | the least time possible at the rates measured here
rows.floor.products | float | s | for the matrix products alone
rows.floor.weights | float | s | to read the layers' weights once
rows.floor.maps | float | s | to write the maps once

### program

Seconds or bytes for each program that `bench` runs.

attncli | float or null | | null: not known on this machine; the same below
eager | float or null | | transformers' eager attention; with maps
sdpa | float or null | | transformers without maps, with torch's fused kernel

### machine

processor | str
instructions | [str] | `[set]` | instruction sets for matrix products, as Linux names them
bytes_per_second | object | | the best measured
bytes_per_second.read | float | 1/s
bytes_per_second.write | float | 1/s | into memory already in use
"""
