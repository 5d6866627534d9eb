"""attncli explore: type a sentence, and see, full screen in the terminal."""

import os
import sys
from typing import Annotated

import typer

from attncli.base.errors import RequestError, install_hint
from attncli.cli import options
from attncli.features import completion


def explore(
    context: typer.Context,
    text: options.Text = None,
    pair: options.Pair = None,
    model: options.ModelNames = "minilm",
    layer: Annotated[
        str | None,
        options.option(
            options.SELECTION,
            "--layer",
            "-l",
            metavar="N",
            help="The layer to begin with, from 0.",
            show_default="a telling one",
            complete=completion.one_layer,
        ),
    ] = None,
    head: Annotated[
        str | None,
        options.option(
            options.SELECTION,
            "--head",
            "-H",
            metavar="N",
            help="The head to begin with, from 0.",
            show_default="a telling one",
            complete=completion.one_head,
        ),
    ] = None,
    mask: options.Mask = None,
    pad_to: options.PadTo = None,
    measure: options.Measure = "weight",
    words: options.Words = False,
    engine: options.Engine = "auto",
    without: options.Without = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Type a sentence and see all its heads, full screen.

    All heads as a grid of patterns, the map of one, its tokens with their strongest keys, and the numbers of a cell,
    anew with every letter. ? shows the keys: heads, masks, words, silence a head, compare with the sentence before,
    save, copy the command that gives this view. Needs the extra live: pip install ".[live]" in a clone of attncli.

    \b
    Examples:
      attncli explore
      attncli explore "The trophy does not fit in the suitcase because it is too big."
      attncli explore -l 3 -H 1 --mask causal "The cat sat on the mat."
    """
    check_terminal()
    try:
        from attncli.live.explorer.app import Explorer
    except ModuleNotFoundError as error:
        raise RequestError(f"explore needs Textual: {install_hint('live')}") from error
    from dataclasses import replace

    from attncli.cli.source import opening_of
    from attncli.cli.texts import SAMPLE, names_of
    from attncli.live import Session, check_models
    from attncli.live.explorer.panes import Look
    from attncli.record.request import Input

    opening = opening_of(context.params)
    names = names_of(model)
    check_models(names)  # what is wrong with a name is said before the screen is filled
    session = Session([replace(opening, name=name) for name in names])
    look = Look(names[0], Input(SAMPLE if text is None else text, pair), mask, measure, words)
    explorer = Explorer(session, look, pad_to, (layer, head))
    explorer.run()
    raise typer.Exit(explorer.return_code or 0)


def check_terminal() -> None:
    """Raises RequestError where there is no terminal that can be filled."""
    instead = "attncli run shows the same heads in lines"
    for name, stream in (("stdin", sys.stdin), ("stdout", sys.stdout), ("stderr", sys.stderr)):  # drawn on the last
        if not stream.isatty():
            raise RequestError(f"explore fills the screen of a terminal, and {name} is none: {instead}")
    if os.environ.get("TERM", "dumb") in ("dumb", "unknown", ""):
        raise RequestError(f"explore fills the screen, which this terminal (TERM) does not do: {instead}")
