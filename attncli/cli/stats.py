"""attncli stats: what every head does in general, over a corpus."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attncli.cli import options, output
from attncli.errors import RequestError
from attncli.files import PICTURES, check_suffix

if TYPE_CHECKING:
    from attncli.analysis.statistics import Counted, Statistics, Sums
    from attncli.corpus import Reading

SAVED_EVERY = 60.0  # seconds: what a power cut costs

Files = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILES", help="Texts, one a line; - is stdin.", show_default=False),
]


def stats(
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
    by: Annotated[str, typer.Option("--by", metavar="FIGURE", help="The figure that colours the heads.")] = "entropy",
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
    json: options.Json = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    debug: options.Debug = False,
) -> None:
    """Say what every head of a model does in general, over all texts of a corpus.

    Means over all tokens: entropy, strongest weight, distance, and how much of the weight goes to the token itself,
    previous, next, first, [CLS] (cls), [SEP] (separator), punctuation, the same word elsewhere (same_word); the label
    of the pattern that takes most of it; the spread between texts. Ctrl-C shows what there is so far. With --measure
    norm: of norms, each as a share of its row. With --words, tokens are words.

    \b
    Examples:
      attncli stats sample_inputs/coreference.txt sample_inputs/agreement.txt
      attncli stats --by previous -o stats.csv -o atlas.pdf sample_inputs/paragraph.txt
      echo '{"text": "The cat sat."}' | attncli stats --jsonl text --resume state.npz --json -
    """
    from attncli.analysis.statistics import check_figure
    from attncli.analysis.statistics_files import SUFFIXES, document, load_statistics
    from attncli.corpus import Reading

    check_figure(by)
    for path in output_paths or []:
        check_suffix(path, (*SUFFIXES, *PICTURES), "statistics")
    if saved is None:
        reading = Reading(paragraphs, jsonl, skip_bad, limit)
        asked = {"mask": mask, "distances": distances, "measure": measure, "words": words}
        statistics = count(files or piped(), reading, stride, model, device, dtype, asked, resume)
    else:
        options.check_as_saved(
            text=files[0] if files else None,
            resume=None if resume is None else str(resume),
            jsonl=jsonl,
            limit=limit,
            stride=stride,
            measure=measure,
            words="" if words else None,
        )
        statistics = load_statistics(saved)
    if not statistics.partial or saved:
        for path in output_paths or []:
            save(statistics, path, by)
            output.words(f"attncli: saved {path}")
    if json:
        output.json_document(document(statistics))
    elif not output_paths or statistics.partial:
        from attncli.render.stats import stats_view

        output.show(*stats_view(statistics, by, output.canvas()))
    if statistics.partial and not saved:
        raise typer.Exit(output.INTERRUPTED)


def save(statistics: "Statistics", path: Path, by: str) -> None:
    """As a file of numbers or as a picture, by its suffix."""
    from attncli.analysis.statistics_files import save_statistics

    if path.suffix.lower() in PICTURES:
        from attncli.render.atlas import atlas
        from attncli.render.figure import save_figure

        save_figure(atlas(statistics, by), path)
    else:
        save_statistics(statistics, path)


def piped() -> list[str]:
    """stdin, where no file is given. Raises RequestError when nothing is piped into it."""
    if not options.stdin_is_piped():
        raise RequestError("no corpus: name files with one text a line, or pipe texts in")
    return ["-"]


def count(
    files: list[str],
    reading: "Reading",
    stride: int | None,
    model: str,
    device: str,
    dtype: str,
    asked: dict[str, Any],
    resume: Path | None,
) -> "Statistics":
    """Run the corpus through the model; of what there is after Ctrl-C, the statistics are partial.

    `asked` is what a Reducer takes: mask, distances, measure, words.

    Raises RequestError as reading and the model do, and when there is no text.
    """
    if asked["distances"]:
        from attncli.analysis.distances import check_installed

        check_installed()
    options.check_measure(asked["measure"])
    opened = options.open_model(model, device, dtype)
    from attncli.corpus import shown
    from attncli.models.statistics import Reducer

    reducer = Reducer(opened, **asked)
    keeper = Keeper(resume, {
        "model": opened.sha256, "--dtype": dtype, "--stride": stride, **{f"--{name}": asked[name] for name in asked},
        "corpus": files, "--paragraphs": reading.paragraphs, "--jsonl": reading.field,
    })  # fmt: skip
    begun = counted = keeper.load(reducer.nothing())
    partial = False
    texts = reading.windows(files, opened.tokenizer, stride, begun.wants)
    with progress(begun.sums, reading.limit) as show:
        try:
            for counted in reducer.count(texts, begun):
                show(counted.sums)
                keeper.offer(counted)
        except KeyboardInterrupt:
            if not counted.sums.texts:
                raise
            partial = True
        finally:
            keeper.save(counted)
    if not counted.sums.texts:
        raise RequestError(f"no text in {', '.join(map(shown, files))}: put one text on a line")
    if partial:
        more = "" if resume is None else "; the same command goes on from here"
        output.words(f"attncli: interrupted: these figures are PARTIAL, of {counted.sums.texts} texts{more}")
    return reducer.statistics(counted.sums, partial)


class Keeper:
    """Keeps the file of --resume up to date, where there is one."""

    def __init__(self, path: Path | None, asked: dict[str, Any]) -> None:
        self.path = path
        self.asked = asked
        self.saved = time.monotonic()

    def load(self, nothing: "Counted") -> "Counted":
        """What to go on from. Raises RequestError as `load_counted` does."""
        from attncli.analysis.statistics_files import load_counted

        return nothing if self.path is None else load_counted(self.path, self.asked, nothing)

    def offer(self, counted: "Counted") -> None:
        """Save it if the last time was long ago."""
        if time.monotonic() - self.saved > SAVED_EVERY:
            self.save(counted)

    def save(self, counted: "Counted") -> None:
        from attncli.analysis.statistics_files import save_counted

        if self.path is not None:
            save_counted(counted, self.asked, self.path)
            self.saved = time.monotonic()


@contextmanager
def progress(before: "Sums", limit: int | None) -> Iterator[Callable[["Sums"], None]]:
    """A progress bar on stderr, on a terminal only: texts, tokens, and tokens a second since it began.

    Yields what to call with the sums so far.
    """
    if not sys.stderr.isatty():
        yield lambda sums: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(), TextColumn("{task.completed:,.0f} texts  {task.fields[tokens]}"))
    begun = time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=limit, completed=before.texts, tokens="")

        def show(sums: "Sums") -> None:
            rate = (sums.queries - before.queries) / (time.monotonic() - begun)
            bar.update(task, completed=sums.texts, tokens=f"{sums.queries:,} tokens  {rate:,.0f} tokens/s")

        yield show
