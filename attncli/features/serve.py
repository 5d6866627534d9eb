"""Serve the page of `view` with a text box, from a server on this machine (`attncli.live.server`)."""

import webbrowser
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.features import options
from attncli.features.inputs import default_model, names_of, notify, read_inputs
from attncli.features.measure import measure
from attncli.features.options import OUTPUT, option
from attncli.models.opening import Opening
from attncli.record.selection import Grouping, Request
from attncli.report import Report, Result, TextLine

if TYPE_CHECKING:
    from socket import socket

    from attncli.live.server.app import Site

MOST_TEXTS = 200  # texts of a file that fit the menu
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
    unit: options.LiveUnit = None,
    engine: options.EngineOption = "auto",
    without: options.Without = None,
    host: Annotated[
        str, option(OUTPUT, "--host", rare=True, metavar="NAME", help="The address to listen on; others may see it.")
    ] = "127.0.0.1",
    port: Annotated[
        int, option(OUTPUT, "--port", min=0, max=LARGEST_PORT, metavar="N", help="The port; 0 picks a free one.")
    ] = 0,
    open_it: Annotated[bool, option(OUTPUT, "--open", help="Open the page in the browser.")] = False,
    device: options.DeviceOption = "auto",
    dtype: options.DtypeOption = "float32",
) -> "Serving":
    """Serve view's page, with a text box.

    Every view follows what you type. The command prints the page's address, with the access token, when the server is
    ready. Ctrl-C ends it, with exit code 0. The page offers the models named by -m and your earlier texts. It can save
    its current view as an offline page, like that of view. Only this machine can reach it, unless --host changes that.

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
        raise RequestError(f"the menu has room for {MOST_TEXTS} texts, and there are {len(texts)}: give fewer lines")
    listening = bind(host, port)
    from attncli.live import Session, check_models

    check_models(names)
    from attncli.live.server.app import Site

    session = Session([Opening(name, device, dtype, engine, without) for name in names])
    merged = "token" if unit in (None, "word") else unit  # the page has words and their pieces
    request = Request(measure=measure, grouping=Grouping(unit=merged, stretches=True))
    site = Site(session, texts, request, tuple(shown), words=unit == "word")
    return Serving(site, listening, host, open_it)


@dataclass(frozen=True)
class Serving(Result):
    """A site that is served while the result is shown. listening: the socket of its address."""

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
