"""Options of features that go through corpora: which texts, who counts them, and where the sums are kept.

A feature takes the options that it has from here and derives from `CorpusFeature`, whose `where` makes a `Workplace` of
them. All of them have `use="files"`: they have no effect where nothing is counted.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from attncli.base.progress import progress
from attncli.features.feature import Feature
from attncli.features.options import MODEL, OUTPUT, TEXT, of_files

if TYPE_CHECKING:
    from attncli.corpus.running import HowFar, Workplace

FieldOption = Annotated[
    str | None, of_files(TEXT, "--field", metavar="NAME", help="JSON lines or tables, whose text is in NAME.")
]
SkipBad = Annotated[
    bool, of_files(TEXT, "--skip-bad", rare=True, help="Report texts that can't be read, and skip them.")
]


Limit = Annotated[int | None, of_files(TEXT, "--limit", min=1, metavar="N", help="Only the first N texts.")]
SampleOption = Annotated[
    float | None, of_files(TEXT, "--sample", rare=True, metavar="SHARE", help="A random share of the texts: 0.01.")
]
State = Annotated[
    str | None,
    of_files(OUTPUT, "--state", metavar="DIR", help="Keep sums in DIR, or at its address; resume from there."),
]
WorkersOption = Annotated[
    int | None,
    of_files(MODEL, "--workers", rare=True, metavar="N", min=1, help="Count in N processes.", show_default="this one"),
]
On = Annotated[
    str,
    of_files(
        MODEL, "--on", rare=True, metavar="WHERE", help="Where to count: here, ray, or ray://ADDRESS of a cluster."
    ),
]
WorkerGpus = Annotated[
    float, of_files(MODEL, "--worker-gpus", rare=True, metavar="X", min=0, help="GPUs per worker on Ray: 1, or 0.25.")
]


class CorpusFeature(Feature):
    """A feature that goes through corpora. Its dataclass has these options as fields, each in its place."""

    state: str | None
    workers: int | None
    on: str
    worker_gpus: float

    def where(self) -> "Workplace":
        """Return the machines that count shards, and the folder of their sums.

        Raises RequestError for options that have no effect, and as `Workplace` does.
        """
        from attncli.corpus.running import Workplace

        where = Workplace(self.on, self.workers, self.worker_gpus, self.state)
        if where.on_ray:
            self.refuse("with --on ray, where --worker-gpus says it", "device")
        return where


@contextmanager
def show_counts(texts: str = "texts", tokens: str = "tokens") -> "Iterator[Callable[[HowFar], None]]":
    """Show shards, texts, tokens, and tokens per second of all workers together, in these words."""
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
