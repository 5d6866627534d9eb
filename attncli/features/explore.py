"""Type a sentence and see all its heads, full screen in the terminal (`attncli.live.explorer`)."""

import os
import sys
from typing import Annotated

from attncli.base.errors import RequestError, install_hint
from attncli.features import options
from attncli.features.inputs import SAMPLE, default_model, names_of
from attncli.features.measure import measure, no_effect
from attncli.models.opening import Opening
from attncli.record.selection import Input

INSTEAD = "use attncli run, which prints the same heads"


@measure(saves=(), json=False)
def explore(
    text: options.Text = None,
    *,
    pair: options.Pair = None,
    model: options.ModelNames = None,
    layer: Annotated[str | None, options.layer("The layer to begin with, from 0.", "a head that stands out")] = None,
    head: Annotated[
        str | None,
        options.head("The head to begin with, from 0; or 3.1.", "a head that stands out"),
    ] = None,
    mask: options.MaskOption = None,
    pad_to: options.PadTo = None,
    measure: options.MeasureOption = "weight",
    unit: options.LiveUnit = None,
    words: options.Words = False,
    engine: options.EngineOption = "auto",
    without: options.Without = None,
    device: options.DeviceOption = "auto",
    dtype: options.DtypeOption = "float32",
) -> None:
    """Type a sentence and see all its heads, full screen.

    It opens with findings: the heads that stand out, each with its weight and the usual weight. n and p go through
    them. Other panes show the map, all heads with their patterns, and each token with its strongest keys. All of it
    follows what you type. g lets a decoder continue the text, and n and p then go through what it wrote. G writes again
    from a token, without the heads that x silenced; s shows what a token rests on. ? lists all keys. Needs the extra
    live: pip install ".[live]" in a clone of attncli.

    \b
    Examples:
      attncli explore
      attncli explore "The trophy does not fit in the suitcase because it is too big."
      attncli explore -m smollm2 "The capital of France is"
      attncli explore -l 3 -H 1 --mask causal "The cat sat on the mat."
    """
    if unit is not None:
        no_effect("with --unit, which says what is merged", words=words)
    _check_terminal()
    try:
        from attncli.live.explorer.app import Explorer
    except ModuleNotFoundError as error:
        raise RequestError(f"explore needs Textual: {install_hint('live')}") from error
    from attncli.live import Session, check_models
    from attncli.live.explorer.panes import ScreenState

    names = names_of(default_model() if model is None else model)
    check_models(names)  # a wrong name is refused before the screen is filled
    session = Session([Opening(name, device, dtype, engine, without) for name in names])
    shown = Input(SAMPLE if text is None else text, pair)
    state = ScreenState(names[0], shown, mask, measure, unit or ("word" if words else "token"))
    explorer = Explorer(session, state, pad_to, (layer, head))
    explorer.run()
    if explorer.return_code:
        raise SystemExit(explorer.return_code)


def _check_terminal() -> None:
    """Raises RequestError without a terminal that can show a full screen."""
    for name, stream in (("stdin", sys.stdin), ("stdout", sys.stdout), ("stderr", sys.stderr)):  # drawn on the last
        if not stream.isatty():
            raise RequestError(f"explore needs a terminal, and {name} is not one: {INSTEAD}")
    if os.environ.get("TERM", "dumb") in ("dumb", "unknown", ""):
        raise RequestError(f"explore needs a terminal with a full screen, and this one (TERM) has none: {INSTEAD}")
