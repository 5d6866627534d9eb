"""attncli stats: what every head does in general, over a corpus."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.files import PICTURES, check_suffix
from attncli.cli import options, output
from attncli.cli.given import refuse
from attncli.cli.texts import stdin_is_piped

if TYPE_CHECKING:
    from attncli.analysis.statistics import Statistics, Sums

# What counts a corpus: with --from it is counted already.
COUNTING = (
    "files", "paragraphs", "jsonl", "skip_bad", "limit", "stride", "model", "mask", "measure", "words", "distances",
    "resume", "engine", "which", "device", "dtype",
)  # fmt: skip

Files = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILES", help="Texts, one a line; - is stdin.", show_default=False),
]


def stats(
    context: typer.Context,
    files: Files = None,
    paragraphs: Annotated[bool, typer.Option("--paragraphs", help="A text goes on until an empty line.")] = False,
    jsonl: Annotated[
        str | None, typer.Option("--jsonl", metavar="FIELD", help="Each line is a JSON object with the text in FIELD.")
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Report lines that hold no text, and go on without them.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="Only the first N texts.", show_default=False)
    ] = None,
    stride: Annotated[
        int | None,
        typer.Option(
            "--stride",
            metavar="N",
            help="Of a text longer than the model: tokens from one window to the next.  [default: side by side]",
            show_default=False,
        ),
    ] = None,
    model: options.ModelName = "minilm",
    mask: options.Mask = "padding",
    measure: options.Measure = "weight",
    words: options.Words = False,
    by: Annotated[
        choices.Figure,
        typer.Option(
            "--by",
            metavar="FIGURE",
            help="The figure that colours the heads: " + ", ".join(choices.names(choices.Figure)) + ".",
        ),
    ] = "entropy",
    distances: Annotated[
        bool, typer.Option("--distances", help="Also how far all heads are from each other, and their clusters.")
    ] = False,
    output_paths: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="Save as .csv, .json or .npz, or draw an atlas: .png, .svg, .pdf. Can be given again.",
            show_default=False,
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option("--resume", metavar="FILE", help="Go on from FILE where it is there, and keep it up to date."),
    ] = None,
    saved: options.Saved = None,
    engine: options.Engine = "auto",
    which: options.OwnWhich = None,
    json: options.Json = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    debug: options.Debug = False,
) -> None:
    """Say what every head of a model does in general, over all texts of a corpus.

    Means over all tokens: entropy, strongest weight, distance, and how much of the weight goes to the token itself,
    previous, next, first, [CLS] (cls), [SEP] (separator), punctuation, the same word elsewhere (same_word); the label
    of the pattern that takes most of it; the spread between texts. Ctrl-C shows what there is so far. With --measure
    norm: of norms, each as a share of its row. With --words, tokens are words. With --which decoder: of what an
    encoder-decoder writes.

    \b
    Examples:
      attncli stats sample_inputs/coreference.txt sample_inputs/agreement.txt
      attncli stats --by previous -o stats.csv -o atlas.pdf sample_inputs/paragraph.txt
      echo '{"text": "The cat sat."}' | attncli stats --jsonl text --resume state.npz --json -
    """
    from attncli.analysis.statistics import Counting
    from attncli.analysis.statistics_files import SUFFIXES, document, load_statistics
    from attncli.corpus.reading import Reading

    for path in output_paths or []:
        check_suffix(path, (*SUFFIXES, *PICTURES), "statistics")
    table = not json and not output_paths
    if not json and resume is None and all(path.suffix.lower() == ".csv" for path in output_paths or []):
        refuse(context, "without --json, or -o with .json, .npz or a picture, which show them", "distances")
    if not table and not any(path.suffix.lower() in PICTURES for path in output_paths or []):
        refuse(context, "without a table or an atlas to colour", "by")
    if saved is None:
        from attncli.cli.source import Opening, open_part

        reading, counting = (
            Reading(paragraphs, jsonl, skip_bad, limit),
            Counting(mask, distances, measure, words, which),
        )
        texts = files or piped()
        opened = open_part(Opening(model, device, dtype, engine), which)
        if opened.kind(which) == "decoder":
            refuse(context, "on a decoder, which hides the future and no more", "mask")
        from attncli.corpus.statistics import count_files

        with progress(limit) as show:
            statistics = count_files(opened, texts, reading, stride, counting, resume, show)
    else:
        refuse(context, "with --from, which takes what was saved", *COUNTING)
        statistics = load_statistics(saved)
    if not statistics.partial or saved:
        for path in output_paths or []:
            save(statistics, path, by)
            output.say(f"attncli: saved {path}")
    if json:
        output.json_document(document(statistics))
    elif not output_paths or statistics.partial:
        from attncli.render.terminal.stats import stats_view

        output.show(*stats_view(statistics, by, output.canvas()))
    if statistics.partial and not saved:
        raise typer.Exit(output.INTERRUPTED)


def save(statistics: "Statistics", path: Path, by: str) -> None:
    """As a file of numbers or as a picture, by its suffix."""
    from attncli.analysis.statistics_files import save_statistics

    if path.suffix.lower() in PICTURES:
        from attncli.render.figures.atlas import atlas
        from attncli.render.figures.saving import save_figure

        save_figure(atlas(statistics, by), path)
    else:
        save_statistics(statistics, path)


def piped() -> list[str]:
    """stdin, where no file is given. Raises RequestError when nothing is piped into it."""
    if not stdin_is_piped():
        raise RequestError("no corpus: name files with one text a line, or pipe texts in")
    return ["-"]


@contextmanager
def progress(limit: int | None) -> Iterator[Callable[["Sums"], None]]:
    """A progress bar on stderr, on a terminal only: texts, tokens, and tokens a second since it began.

    Yields what to call with the sums so far, first with those that it goes on from.
    """
    if not sys.stderr.isatty():
        yield lambda sums: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(), TextColumn("{task.completed:,.0f} texts  {task.fields[tokens]}"))
    begun = time.monotonic()
    before: list[int] = []  # how many tokens it goes on from
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=limit, tokens="")

        def show(sums: "Sums") -> None:
            if not before:
                before.append(sums.queries)
            rate = (sums.queries - before[0]) / (time.monotonic() - begun)
            bar.update(task, completed=sums.texts, tokens=f"{sums.queries:,} tokens  {rate:,.0f} tokens/s")

        yield show
