"""A progress bar for what takes over a second: on stderr, on a terminal only."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from attncli.base.progress import Advance, silent
from attncli.cli import output

PATIENCE = 1.0  # seconds until the user sees a bar


@contextmanager
def progress(total: int | None, what: str) -> Iterator[Advance]:
    """Show a bar once the work takes PATIENCE seconds. Without a total it moves to and fro."""
    if not output.shows_progress():
        with silent(total, what) as nothing:
            yield nothing
        return
    from rich.console import Console
    from rich.progress import Progress

    begun = time.monotonic()
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total, visible=False)

        def advance(steps: int = 1, of: int | None = None, text: str | None = None) -> None:
            visible = time.monotonic() - begun > PATIENCE
            bar.update(task, advance=steps, total=of, description=text, visible=visible)

        yield advance
