"""What `attncli bench long` measured, as a table."""

from typing import Any

from rich.table import Table

from attncli.base.printable import printable
from attncli.render.terminal.bench_table import PROGRAMS, machine_text, megabytes, milliseconds, three_digits
from attncli.report.terminal import Prose, plain_table

COLUMNS = (
    *("attncli\ns", "eager\ns", "SDPA\ns"),
    *("attncli\nMB", "eager\nMB", "SDPA\nMB"),
    *("local\nms", "global\nms", "global\nof local"),
)


def long_table(document: dict[str, Any]) -> Table:
    """A line for each length; `document` is what `bench long --json` prints."""
    table = plain_table("tokens", *COLUMNS, goes=("eager\nMB", "SDPA\nMB", "attncli\nMB"))
    for row in document["rows"]:
        seconds, peaks, layers = row["seconds"], row["peak_bytes"], row["layer_seconds"]
        table.add_row(
            f"{row['tokens']:,}",
            *(number(seconds[name]) for name in PROGRAMS),
            *("-" if seconds[name] is None else megabytes(peaks[name]) for name in PROGRAMS),
            *(milliseconds(layers[name]) for name in ("local", "global")),
            number(row["saved"]),
        )
    return table


def number(value: float | None) -> str:
    return "-" if value is None else three_digits(value)


def long_legend(document: dict[str, Any]) -> Prose:
    """What the columns mean, and what it was all measured on."""
    [model], windows = document["models"], document["windows"]
    near = f", of which {len(windows)} see {max(windows)} tokens to each side" if windows else ""
    largest = max(row["eager_score_bytes"] for row in document["rows"])
    whose = "of the processor" if document["device"] == "cpu" else "of the clock"
    return Prose(
        f"\n{printable(document['model'])}, {model['layers']} layers x {model['heads']} heads{near}. "
        f"s: seconds {whose}, for one whole walk that keeps no maps; MB: the peak of what it adds to the memory in "
        "use. -: the model has none, or there is no memory for it: eager attention has several copies of a layer's "
        f"scores, {largest / 1e9:.2g} GB each at the longest.\n"
        "local, global: one layer's attention with a window and without one, median over layers; of local: how many "
        "times as long a global one takes.\n"
        f"One run each, random weights, float32, {document['device']}, 1 thread; {machine_text(document['machine'])}; "
        + ", ".join(f"{name} {release}" for name, release in document["versions"].items())
        + "."
    )
