"""Measure the time and memory of a model beside transformers, on this machine.

What is measured is in `measuring`, which computes with torch and is imported when a report is made.
"""

from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any

from attncli.base.errors import RequestError
from attncli.base.printable import quoted
from attncli.base.progress import Progress, silent
from attncli.features import options
from attncli.features.feature import Feature
from attncli.features.options import MODEL, argument, option
from attncli.report import Cell, Column, Report, Sentence, Table

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

    subject: Annotated[str, argument("SUBJECT", "maps, the only one.")] = "maps"
    model: options.ModelName = "minilm"
    quick: Annotated[bool, option(MODEL, "--quick", help="Fewer rounds, not the largest: about a minute.")] = False
    device: options.Device = "auto"

    def report(self, progress: Progress = silent) -> Report:
        if self.subject in MOVED:
            raise RequestError(f"bench {self.subject} is a script of the repository now: python {MOVED[self.subject]}")
        if self.subject != "maps":
            raise RequestError(f"no benchmark {quoted(self.subject)}: leave it out, and name a model with -m")
        from attncli.features.bench.measuring import measure, plan

        cases = plan(self.model, self.quick)
        with progress(sum(case.runs for case in cases), "runs") as advance:
            document = measure(cases, self.device, advance)
        return Report([], [_table(document["rows"]), *_legend(document)], lambda: document)


# --- the report -----------------------------------------------------------------------------------------

COLUMNS = (
    *(Column(f"{name}\nms", leaves=place) for name, place in (("attncli", 0), ("eager", 4), ("SDPA", 5))),
    *(Column("of\neager"), Column("of\nSDPA")),
    *(Column(f"{name}\nMB", leaves=place) for name, place in (("attncli", 3), ("eager", 1), ("SDPA", 2))),
)


def _table(rows: list[dict[str, Any]]) -> Table:
    """Return a line for a model and a shape, and below it one for each thing that is kept."""
    lines: list[list[str | Cell] | None] = []
    for shape, some in groupby(rows, key=_shape):
        lines.append([shape, *[""] * len(COLUMNS)])
        for row in some:
            seconds = [None if one is None else one * 1e3 for one in row["seconds"].values()]
            lines.append(
                [
                    f"  {row['kept']}",
                    *("-" if one is None else three_digits(one) for one in (*seconds, *row["ratio"].values())),
                    *(megabytes(one) for one in row["peak_bytes"].values()),
                ]
            )
        lines.append(None)
    return Table([Column("texts x tokens\n  maps kept"), *COLUMNS], lines)


def _shape(row: dict[str, Any]) -> str:
    """ "minilm 256 x 6-62 bfloat16" """
    lengths = f"{row['shortest']}-" * (row["shortest"] < row["tokens"]) + f"{row['tokens']}"
    return f"{row['model']} {row['texts']} x {lengths}" + f" {row['dtype']}" * (row["dtype"] != "float32")


def _legend(document: dict[str, Any]) -> list[Sentence]:
    """Say what the columns mean, and what it was measured on."""
    mixed = any(row["shortest"] < row["tokens"] for row in document["rows"])
    machine = document["machine"]
    instructions = f" ({', '.join(machine['instructions'])})" if machine["instructions"] else ""
    versions = ", ".join(f"{name} {number}" for name, number in document["versions"].items())
    return [
        Sentence(
            "ms: median time. of eager: attncli's time divided by that of transformers with output_attentions, which "
            "keeps all maps. of SDPA: divided by that of transformers without, which keeps none. -: transformers does "
            "not have it for this architecture."
        ),
        Sentence("MB: the memory that a call adds at its peak, its result included."),
        *([Sentence("Texts of mixed lengths are in random order; transformers takes padded batches.")] * mixed),
        Sentence(
            f"Random weights, float32 unless said, {document['device']}, {document['threads']} threads; "
            f"{machine['processor']}{instructions}; {versions}."
        ),
    ]


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

### program

Seconds or bytes for each program that `bench` runs.

attncli | float or null | | null: not known on this machine; the same below
eager | float or null | | transformers' eager attention; with maps
sdpa | float or null | | transformers without maps, with torch's fused kernel

### machine

processor | str
instructions | [str] | `[set]` | instruction sets for matrix products, as Linux names them
"""
