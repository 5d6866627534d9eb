"""What the commands for corpora have in common: what is read, who counts, and where the sums are kept."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from attncli.base.errors import RequestError
from attncli.cli import options, output
from attncli.cli.given import refuse

if TYPE_CHECKING:
    from typer import Context

    from attncli.corpus.running import HowFar, Where

# The options that `where_of` reads.
WHERE = ("state", "workers", "on", "worker_gpus", "shard_mb")

Field = Annotated[
    str | None,
    options.option(
        options.TEXT,
        "--field",
        rare=True,
        metavar="NAME",
        help="Which field of .jsonl, which column of .parquet, is the text.",
        show_default="text",
    ),
]
SkipBad = Annotated[
    bool,
    options.option(options.TEXT, "--skip-bad", rare=True, help="Report what can't be read, and go on without it."),
]
Sample = Annotated[
    float | None,
    options.option(options.TEXT, "--sample", rare=True, metavar="SHARE", help="A share of the texts, by chance: 0.01."),
]
Seed = Annotated[
    int, options.option(options.TEXT, "--seed", rare=True, metavar="N", min=0, help="Of --sample: another draw.")
]


def state(*names: str, rare: bool = False) -> Any:
    """The option that names the folder with the sums; names: that it has beside --state."""
    told = "Keep sums in DIR, or at its address; go on from there."
    return options.option(options.OUTPUT, "--state", *names, rare=rare, metavar="DIR", help=told)


def shard_mb(usual: str) -> Any:
    """The option that says how large a shard is; usual: what it is else."""
    told = "Text of a shard, in MB."
    return options.option(options.OUTPUT, "--shard-mb", rare=True, metavar="X", min=0, help=told, show_default=usual)


State = Annotated[str | None, state("--resume")]
Workers = Annotated[
    int | None,
    options.option(
        options.MODEL,
        "--workers",
        rare=True,
        metavar="N",
        min=1,
        help="Count in so many processes.",
        show_default="this one",
    ),
]
On = Annotated[
    str,
    options.option(
        options.MODEL, "--on", rare=True, metavar="WHERE", help="Who counts: here, ray, or ray://ADDRESS of a cluster."
    ),
]
WorkerGpus = Annotated[
    float,
    options.option(
        options.MODEL, "--worker-gpus", rare=True, metavar="X", min=0, help="GPUs of each worker on Ray: 1, or 0.25."
    ),
]
ShardMb = Annotated[float | None, shard_mb("1")]


def where_of(context: "Context") -> "Where":
    """What these options say. Raises RequestError for shards of nothing, options without an effect, and as `Where`."""
    from attncli.corpus.running import Where

    params = context.params
    if params["sample"] is None:
        refuse(context, "without --sample, whose draw it is", "seed")
    megabytes = params["shard_mb"]
    size = None if megabytes is None else round(megabytes * 2**20)
    if size == 0:
        raise RequestError(f"--shard-mb {megabytes:g}: a shard has a byte at the least")
    where = Where(params["on"], params["workers"], params["worker_gpus"], params["state"], size)
    if where.on_ray:
        refuse(context, "with --on ray, where --worker-gpus says it", "device")
        where.check_cluster()  # before a model is opened, which takes a while
    return where


@contextmanager
def progress(texts: str = "texts", tokens: str = "tokens") -> Iterator[Callable[["HowFar"], None]]:
    """A progress bar on stderr, on a terminal only: shards, texts, tokens, and tokens a second since it began, of all
    workers; in these words.
    """
    if not output.shows_progress():
        yield lambda now: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(), TextColumn("{task.fields[said]}"))
    begun = time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, said="")

        def show(now: "HowFar") -> None:
            rate = (now.seen.tokens - now.before.tokens) / (time.monotonic() - begun)
            shards = f"{now.shards:,} of {now.of:,} shards  " if now.of > 1 else ""
            said = f"{shards}{now.seen.texts:,} {texts}  {now.seen.tokens:,} {tokens}  {rate:,.0f} {tokens}/s"
            bar.update(task, completed=now.shards, total=now.of if now.of > 1 else None, said=said)

        yield show
