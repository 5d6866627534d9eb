"""Options of features that process corpora: the texts, the workers, and the folder of the sums.

All except the device and the dtype are refused if nothing is counted.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, TypedDict

from attncli.base.progress import progress
from attncli.features import options
from attncli.features.measure import no_effect
from attncli.features.options import MODEL, OUTPUT, TEXT, option

if TYPE_CHECKING:
    from attncli.corpus.running import HowFar, Workplace

FieldOption = Annotated[
    str | None, option(TEXT, "--field", metavar="NAME", help="The field of JSON lines or tables that has the text.")
]
SkipBad = Annotated[bool, option(TEXT, "--skip-bad", rare=True, help="Report texts that can't be read, and skip them.")]


Limit = Annotated[int | None, option(TEXT, "--limit", min=1, metavar="N", help="Only the first N texts.")]
SampleOption = Annotated[
    float | None, option(TEXT, "--sample", rare=True, metavar="SHARE", help="A random share of the texts: 0.01.")
]
State = Annotated[
    str | None,
    option(OUTPUT, "--state", metavar="DIR", help="Keep sums in DIR (or a URL); resume from there."),
]
WorkersOption = Annotated[
    int | None,
    option(MODEL, "--workers", rare=True, metavar="N", min=1, help="Count in N processes.", show_default="this one"),
]
On = Annotated[
    str,
    option(
        MODEL,
        "--on",
        rare=True,
        metavar="WHERE",
        help="Where to count: here, ray, or ray://ADDRESS of a cluster.",
        show_default="here",
    ),
]
WorkerGpus = Annotated[
    float,
    option(
        MODEL,
        "--worker-gpus",
        rare=True,
        metavar="X",
        min=0,
        help="GPUs per worker on Ray: 1, or 0.25.",
        show_default="0.0",
    ),
]


class CorpusOptions(TypedDict, total=False):
    """The options of a measure over a corpus: the workers, and how the model computes."""

    workers: WorkersOption
    on: On
    worker_gpus: WorkerGpus
    device: options.DeviceOption
    dtype: options.DtypeOption


def workplace_of(state: str | None, given: CorpusOptions) -> "Workplace":
    """Return the machines that count shards, and the folder of their sums.

    Raises RequestError for options that have no effect, and as `Workplace` does.
    """
    from attncli.corpus.running import Workplace

    where = Workplace(given.get("on") or "here", given.get("workers"), given.get("worker_gpus") or 0.0, state)
    if where.on_ray:
        no_effect("with --on ray: use --worker-gpus", device=given.get("device"))
    return where


def file_names(files: str | Sequence[str] | None) -> list[str]:
    """Return a list of file names. A single name makes a list of one."""
    return [files] if isinstance(files, str) else list(files or ())


@contextmanager
def show_counts(texts: str = "texts", tokens: str = "tokens") -> "Iterator[Callable[[HowFar], None]]":
    """Show shards, texts, tokens, and tokens per second of all workers. texts, tokens: the words for the units."""
    begun = time.monotonic()
    shards = 0
    with progress(None, texts) as advance:

        def show(now: "HowFar") -> None:
            nonlocal shards
            rate = (now.seen.tokens - now.before.tokens) / (time.monotonic() - begun)
            several = f"{now.shards:,} shards  " if now.shards > 1 else ""
            text = f"{several}{now.seen.texts:,} {texts}  {now.seen.tokens:,} {tokens}  {rate:,.0f} {tokens}/s"
            advance(now.shards - shards, text=text)
            shards = now.shards

        yield show
