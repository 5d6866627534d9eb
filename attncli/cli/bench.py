"""attncli bench: how fast attncli is, and how much memory it takes, beside transformers."""

from typing import Annotated

import typer

from attncli.cli import options, output


def bench(
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="NAME",
            envvar="ATTNCLI_MODEL",
            help="Only this model's architecture: an alias or a directory. Without it: minilm and bert-base.",
            show_default=False,
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer rounds, and not the largest: within about a minute.")
    ] = False,
    json: options.Json = False,
    device: options.Device = "auto",
    debug: options.Debug = False,
) -> None:
    """Measure attncli beside transformers: time and memory, for four shapes and four things to keep.

    The weights are random, since only arithmetic matters: nothing is fetched. All programs take turns in
    every round; the times are medians. On a machine that does something else meanwhile they mean little.

    \b
    Examples:
      attncli bench --quick
      attncli bench --quick -m minilm --json
      attncli bench
    """
    from attncli.checks import bench as measuring

    cases = measuring.plan([model] if model else measuring.MODELS, quick)
    with options.progress(sum(case.runs for case in cases), "runs") as done:
        document = measuring.bench(cases, device, done).document()
    if json:
        output.json_document(document)
        return
    from attncli.render.bench_table import bench_legend, bench_table

    output.show(bench_table(document), bench_legend(document))
