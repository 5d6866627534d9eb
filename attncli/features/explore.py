"""Type a sentence and see all its heads, full screen in the terminal (`attncli.live.explorer`)."""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from attncli.base.errors import RequestError, install_hint
from attncli.features import options
from attncli.features.feature import Feature
from attncli.features.inputs import SAMPLE, names_of
from attncli.models.opening import Opening
from attncli.record.selection import Input
from attncli.report import Report

INSTEAD = "attncli run shows the same heads in lines"


@dataclass(eq=False)
class Explore(Feature):
    """Type a sentence and see all its heads, full screen.

    It opens with findings: the heads that stand out, each with its weight and the usual weight. n and p go through
    them. Other panes show the map, all heads by their patterns, and each token with its strongest keys. All of it
    follows what you type. g lets a decoder write on, and n and p go through what it wrote. G writes again from a token,
    without the heads that x silenced. ? lists all keys. Needs the extra live: pip install ".[live]" in a clone of
    attncli.

    \b
    Examples:
      attncli explore
      attncli explore "The trophy does not fit in the suitcase because it is too big."
      attncli explore -m smollm2 "The capital of France is"
      attncli explore -l 3 -H 1 --mask causal "The cat sat on the mat."
    """

    group = "Look"
    saves = ()
    json = False

    text: options.Text = None
    pair: options.Pair = None
    model: options.ModelNames = "minilm"
    layer: Annotated[str | None, options.layer("The layer to begin with, from 0.", "a head that stands out")] = None
    head: Annotated[
        str | None,
        options.head("The head to begin with, from 0; or 3.1.", "a head that stands out"),
    ] = None
    mask: options.MaskOption = None
    pad_to: options.PadTo = None
    measure: options.MeasureOption = "weight"
    words: options.Words = False
    engine: options.EngineOption = "auto"
    without: options.Without = None
    device: options.DeviceOption = "auto"
    dtype: options.DtypeOption = "float32"

    def reports(self) -> Iterator[Report]:
        """Fill the screen until the user leaves. There is nothing to report."""
        _check_terminal()
        try:
            from attncli.live.explorer.app import Explorer
        except ModuleNotFoundError as error:
            raise RequestError(f"explore needs Textual: {install_hint('live')}") from error
        from attncli.live import Session, check_models
        from attncli.live.explorer.panes import ScreenState

        names = names_of(self.model)
        check_models(names)  # a wrong name is refused before the screen is filled
        session = Session([Opening(name, self.device, self.dtype, self.engine, self.without) for name in names])
        text = Input(SAMPLE if self.text is None else self.text, self.pair)
        look = ScreenState(names[0], text, self.mask, self.measure, self.words)
        explorer = Explorer(session, look, self.pad_to, (self.layer, self.head))
        explorer.run()
        if explorer.return_code:
            raise SystemExit(explorer.return_code)
        return
        yield


def _check_terminal() -> None:
    """Raises RequestError where there is no terminal whose screen can be filled."""
    for name, stream in (("stdin", sys.stdin), ("stdout", sys.stdout), ("stderr", sys.stderr)):  # drawn on the last
        if not stream.isatty():
            raise RequestError(f"explore fills the screen of a terminal, and {name} is none: {INSTEAD}")
    if os.environ.get("TERM", "dumb") in ("dumb", "unknown", ""):
        raise RequestError(f"explore fills the screen, which this terminal (TERM) does not do: {INSTEAD}")
