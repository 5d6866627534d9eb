"""Serve the page of `view` with a field to type in, from a server on this machine (`attncli.live.server`)."""

import webbrowser
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.features import options
from attncli.features.inputs import default_model, names_of, notify, read_inputs
from attncli.features.measure import measure
from attncli.features.options import OUTPUT, option
from attncli.models.opening import Opening
from attncli.report import Report, Result, TextLine

if TYPE_CHECKING:
    from socket import socket

    from attncli.live.server.app import Site

MOST_TEXTS = 200  # texts of a file in the menu
LARGEST_PORT = 65535


@measure(saves=(), json=False)
def serve(
    text: options.Text = None,
    *,
    pair: options.Pair = None,
    file: options.File = None,
    whole: options.Whole = False,
    model: options.ModelNames = None,
    masks: options.MasksOption = None,
    measure: options.MeasureOption = "weight",
    engine: options.EngineOption = "auto",
    without: options.Without = None,
    host: Annotated[
        str, option(OUTPUT, "--host", rare=True, metavar="NAME", help="The address to listen on; others may see it.")
    ] = "127.0.0.1",
    port: Annotated[
        int, option(OUTPUT, "--port", min=0, max=LARGEST_PORT, metavar="N", help="The port; 0 is any free one.")
    ] = 0,
    open_it: Annotated[bool, option(OUTPUT, "--open", help="Open the page in the browser.")] = False,
    device: options.DeviceOption = "auto",
    dtype: options.DtypeOption = "float32",
) -> "Serving":
    """Serve the page of view with a field to type in.

    Every view follows what you type. The command prints the page's address, with the token that opens it, as soon as
    the server answers. Ctrl-C ends it, with exit code 0. The page has the models named by -m and your earlier texts.
    It saves what is on the screen as the page of view. Only this machine can reach it, unless --host says otherwise.

    \b
    Examples:
      attncli serve --open "The cat sat on the mat."
      attncli serve -m minilm,bert-base --mask padding,causal --port 8000
      attncli serve -f sample_inputs/coreference.txt
    """
    from attncli.live.server.running import bind, check_installed

    check_installed()
    shown = [None] if masks is None else choices.several("mask", masks, choices.MaskName)
    names = names_of(default_model() if model is None else model)
    texts = read_inputs(text, pair, file, whole=whole)
    if len(texts) > MOST_TEXTS:
        raise RequestError(f"there are {len(texts)} texts and the menu has room for {MOST_TEXTS}: give fewer lines")
    listening = bind(host, port)
    from attncli.live import Session, check_models

    check_models(names)
    from attncli.live.server.app import WHOLE_TEXT, Site

    session = Session([Opening(name, device, dtype, engine, without) for name in names])
    site = Site(session, texts, replace(WHOLE_TEXT, measure=measure), tuple(shown))
    return Serving(site, listening, host, open_it)


@dataclass(frozen=True)
class Serving(Result):
    """A site that is served while it is shown. listening: the socket of its address."""

    site: "Site"
    listening: "socket"
    host: str
    open_it: bool

    def reports(self) -> Iterator[Report]:
        """Yield the address as soon as the server answers, then serve until Ctrl-C."""
        from attncli.live.server.running import serve

        for address in serve(self.site, self.listening, self.host):
            yield Report([], [TextLine(address)], dict)
            notify("open this address; Ctrl-C ends the server")
            if self.open_it and not webbrowser.open(address):
                notify("no browser could be opened: open the address yourself")
