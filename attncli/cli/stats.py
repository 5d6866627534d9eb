"""attncli stats: what every head does in general, over a corpus."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.files import PICTURES, check_suffix
from attncli.cli import corpora, hints, options, output
from attncli.cli.given import refuse
from attncli.cli.texts import stdin_is_piped

if TYPE_CHECKING:
    from attncli.corpus.statistics import Statistics

# What counts a corpus: with --from it is counted already.
COUNTING = (
    "files", "paragraphs", "jsonl", "skip_bad", "limit", "stride", "model", "mask", "measure", "words", "distances",
    "field", "sample", "seed", *corpora.WHERE, "engine", "without", "which", "device", "dtype",
)  # fmt: skip
OF_MAPS = ("words", "distances")  # of those, what is asked of maps: it has an effect on a saved record

Files = Annotated[
    list[str] | None,
    options.argument("FILES", "Files, folders, patterns, addresses; - is stdin."),
]


def stats(
    context: typer.Context,
    files: Files = None,
    paragraphs: Annotated[
        bool, options.option(options.TEXT, "--paragraphs", rare=True, help="A text goes on until an empty line.")
    ] = False,
    jsonl: Annotated[
        str | None,
        options.option(options.TEXT, "--jsonl", metavar="FIELD", help="JSON lines, each with its text in FIELD."),
    ] = None,
    field: corpora.Field = None,
    skip_bad: corpora.SkipBad = False,
    limit: Annotated[
        int | None, options.option(options.TEXT, "--limit", min=1, metavar="N", help="Only the first N texts.")
    ] = None,
    sample: corpora.Sample = None,
    seed: corpora.Seed = 0,
    stride: Annotated[
        int | None,
        options.option(
            options.TEXT,
            "--stride",
            rare=True,
            metavar="N",
            help="Of a text longer than the model: tokens from one window to the next.",
            show_default="side by side",
        ),
    ] = None,
    model: options.ModelName = "minilm",
    mask: options.Mask = None,
    measure: options.Measure = "weight",
    words: options.Words = False,
    by: Annotated[
        choices.Figure,
        options.choice(options.OUTPUT, choices.Figure, "--by", help="What colours the heads: "),
    ] = "entropy",
    distances: Annotated[
        bool,
        options.option(
            options.OUTPUT,
            "--distances",
            rare=True,
            help="Also how far all heads are from each other (Jensen-Shannon, mean over tokens, not smoothed), and "
            "clusters by its root.",
        ),
    ] = False,
    output_paths: Annotated[
        list[Path] | None,
        options.into(".csv .json .npz .png .svg .pdf .pgf .tex; or several -o."),
    ] = None,
    state: corpora.State = None,
    shard_mb: corpora.ShardMb = None,
    saved: options.Saved = None,
    engine: options.Engine = "auto",
    without: options.Without = None,
    which: options.OwnWhich = None,
    workers: corpora.Workers = None,
    on: corpora.On = "here",
    worker_gpus: corpora.WorkerGpus = 0.0,
    json: options.Json = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Say what every head does in general, over a corpus.

    Means over all tokens (Clark et al. 2019: over documents): entropy, strongest weight, distance, the weight on the
    token itself, previous, next, first, [CLS] (cls), [SEP] (separator), punctuation (any; theirs: . and ,), the same
    word elsewhere (same_word); the pattern that takes most. For each the clearest head, which gives it twice what
    looking at everything alike gives. Ctrl-C shows what there is. --from takes statistics, or counts maps.

    \b
    Examples:
      attncli stats sample_inputs/coreference.txt sample_inputs/agreement.txt
      attncli stats --by previous -o atlas.pdf sample_inputs/paragraph.txt
      echo '{"text": "The cat sat."}' | attncli stats --jsonl text --json -
    """
    from attncli.corpus.statistics import SUFFIXES, document
    from attncli.corpus.sums import Counting
    from attncli.corpus.texts import Reading

    for path in output_paths or []:
        check_suffix(path, (*SUFFIXES, *PICTURES), "what is counted")
    table = not json and not output_paths
    if not json and state is None and all(path.suffix.lower() == ".csv" for path in output_paths or []):
        refuse(context, "without --json, or -o with .json, .npz or a picture, which show them", "distances")
    if not table and not any(path.suffix.lower() in PICTURES for path in output_paths or []):
        refuse(context, "without a table or an atlas to colour", "by")
    if jsonl is not None:
        refuse(context, "with --jsonl, which names the field", "field")
    if saved is None:
        from attncli.cli.source import open_part
        from attncli.models.opening import Opening

        reading, counting = (
            Reading(
                paragraphs=paragraphs,
                field=jsonl or field,
                json=jsonl is not None,
                skip_bad=skip_bad,
                limit=limit,
                sample=sample,
                seed=seed,
            ),
            Counting(mask, distances, measure, words, which),
        )
        where = corpora.where_of(context)
        texts = files or piped()
        opened = open_part(Opening(model, device, dtype, engine, without), which)
        from attncli.cli.long_texts import tell_sinks
        from attncli.corpus.reducer import count_files

        tell_sinks(opened, which, measure)

        with corpora.progress() as show:
            statistics = count_files(opened, texts, reading, stride, counting, where, show)
    else:
        statistics = load(saved, context)
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
    one = max(statistics.heads, key=lambda head: head.figures["strongest" if by == "entropy" else by])
    made = {"saved": None, "model": statistics.model.name, "mask": statistics.mask} if saved else {}
    hints.offer(context, f"head {one.layer}.{one.head} on a sentence", "run", layer=one.layer, head=one.head, **made)


def load(path: Path, context: typer.Context) -> "Statistics":
    """Saved statistics; or those of the texts of a saved record, whose maps are counted here.

    Raises RequestError when the file is neither, and for options that have no effect on it.
    """
    from attncli.corpus.statistics import LOADED, load_statistics, record_statistics
    from attncli.record import load_records

    taken = "with --from, which takes what was saved"
    if path.suffix.lower() in LOADED:
        try:
            found = load_statistics(path)
        except RequestError as error:
            try:
                records = load_records(path)
            except RequestError:
                raise error from None  # it is no record either
        else:
            refuse(context, taken, *COUNTING)
            return found
    else:
        records = load_records(path)
    refuse(context, taken, *(name for name in COUNTING if name not in OF_MAPS))
    return record_statistics(records, *(context.params[name] for name in OF_MAPS))


def save(statistics: "Statistics", path: Path, by: str) -> None:
    """As a file of numbers or as a picture, by its suffix."""
    from attncli.corpus.statistics import save_statistics

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
