"""attncli bench: how fast attncli is, and how much memory it takes, beside transformers."""

from typing import Annotated

import typer

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.printable import quoted
from attncli.cli import hints, options, output
from attncli.cli.given import refuse
from attncli.cli.progress import progress
from attncli.features import completion

MOST_DIGITS = 10  # of a length


def bench(
    context: typer.Context,
    subject: Annotated[
        choices.Subject,
        options.argument("SUBJECT", "The maps of texts, stats (statistics) over a corpus, or long texts."),
    ] = "maps",
    model: Annotated[
        str | None,
        options.option(
            options.MODEL,
            "--model",
            "-m",
            metavar="NAME",
            envvar="ATTNCLI_MODEL",
            help="Only this model: an alias or a directory.",
            show_default="minilm, and bert-base for maps; modernbert for long",
            complete=completion.model,
        ),
    ] = None,
    quick: Annotated[
        bool, options.option(options.MODEL, "--quick", help="Fewer rounds, not the largest: about a minute.")
    ] = False,
    tokens: Annotated[
        str | None,
        options.option(
            options.MODEL, "--tokens", metavar="N,N", help="long: of these lengths.", show_default="2048,8192"
        ),
    ] = None,
    json: options.Json = False,
    device: options.Device = "auto",
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Measure attncli beside transformers: time and memory.

    maps: four shapes, texts of mixed lengths, and half precision; four things to keep; random weights, since only
    arithmetic matters. stats: all statistics over a corpus of mixed lengths beside the same in numpy, and in half
    precision; memory, of few lines and of many; and a text of 8,192 tokens. All programs take turns in every round; the
    times are medians. On a machine that does something else meanwhile they mean little. long: one text without maps, in
    time of the processor; and what a layer's window saves. Nothing is fetched.

    \b
    Examples:
      attncli bench --quick
      attncli bench --quick -m minilm --json
      attncli bench stats --quick
      attncli bench long -m modernbert --tokens 512,1024
    """
    if subject == "long":
        if tokens is not None:
            refuse(context, "where --tokens says how long texts are", "quick")
        bench_long(model or "modernbert", tokens, quick, json, device)
        return
    refuse(context, f"on {subject}, whose texts are of lengths of their own", "tokens")
    if subject == "maps":
        bench_maps(model, quick, json, device)
        hints.offer(context, "and over a corpus", "bench", subject="stats")
    else:
        bench_stats(model or "minilm", quick, json, device)


def bench_maps(model: str | None, quick: bool, json: bool, device: str) -> None:
    from attncli.checks import bench_maps as measuring

    cases = measuring.plan([model] if model else measuring.MODELS, quick)
    with progress(sum(case.runs for case in cases), "runs") as done:
        document = measuring.bench_maps(cases, device, done).document()
    if json:
        output.json_document(document)
        return
    from attncli.render.terminal.bench_table import bench_legend, bench_table

    output.show(bench_table(document), bench_legend(document))


def bench_stats(model: str, quick: bool, json: bool, device: str) -> None:
    from attncli.checks import bench_stats as measuring

    plan = measuring.QUICK if quick else measuring.WHOLE
    with progress(plan.steps, "steps") as done:
        document = measuring.bench_stats(model, plan, device, done)
    if json:
        output.json_document(document)
        return
    from attncli.render.terminal.bench_table import stats_lines

    output.show(stats_lines(document))


def bench_long(model: str, tokens: str | None, quick: bool, json: bool, device: str) -> None:
    from attncli.checks import bench_long as measuring

    lengths = written_lengths(tokens) if tokens is not None else measuring.QUICK_TOKENS if quick else measuring.TOKENS
    with progress(len(lengths) * len(measuring.PROGRAMS), "runs") as done:
        document = measuring.bench_long(model, lengths, device, done)
    if json:
        output.json_document(document)
        return
    from attncli.render.terminal.long_table import long_legend, long_table

    output.show(long_table(document), long_legend(document))


def written_lengths(tokens: str) -> list[int]:
    """ "512,2048" -> [512, 2048], each once. Raises RequestError for what is no number."""
    parts = tokens.split(",")
    if not all(part.strip().isdecimal() and len(part) < MOST_DIGITS for part in parts):
        raise RequestError(f"--tokens {quoted(tokens)} is no list of lengths: write --tokens 2048,8192")
    return list(dict.fromkeys(map(int, parts)))
