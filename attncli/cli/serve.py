"""attncli serve: the page of view with a field to type in, from a server on this machine."""

import sys
import webbrowser
from dataclasses import replace
from typing import Annotated

import typer

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.cli import options, output

MOST_TEXTS = 200  # of a file, in the menu
LARGEST_PORT = 65535


def serve(
    context: typer.Context,
    text: options.Text = None,
    pair: options.Pair = None,
    file: options.File = None,
    model: options.ModelNames = "minilm",
    masks: options.Masks = None,
    measure: options.Measure = "weight",
    engine: options.Engine = "auto",
    without: options.Without = None,
    host: Annotated[
        str,
        options.option(options.OUTPUT, "--host", rare=True, metavar="NAME", help="Where to listen; others may see it."),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        options.option(
            options.OUTPUT, "--port", min=0, max=LARGEST_PORT, metavar="N", help="Its port; 0 is any free one."
        ),
    ] = 0,
    open_it: Annotated[bool, options.option(options.OUTPUT, "--open", help="Open the page in the browser.")] = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Serve the page of view with a field to type in.

    Every view follows what is typed. Prints the page's address, with the token that opens it, as soon as it
    answers; Ctrl-C ends it, with exit code 0. The page has the models named by -m and the texts looked at
    before, and saves what is on the screen as the page of view. Only this machine can reach it, unless --host
    says otherwise.

    \b
    Examples:
      attncli serve --open "The cat sat on the mat."
      attncli serve -m minilm,bert-base --mask padding,causal --port 8000
      attncli serve -f sample_inputs/coreference.txt
    """
    from attncli.cli.texts import names_of, read_inputs
    from attncli.live.server.running import bind, check_installed
    from attncli.live.server.running import serve as answer

    check_installed()
    names = [None] if masks is None else choices.several("mask", masks, choices.Mask)
    models = names_of(model)
    texts = read_inputs(text, pair, file)
    if len(texts) > MOST_TEXTS:
        raise RequestError(f"there are {len(texts)} texts and the menu has room for {MOST_TEXTS}: give fewer lines")
    listening = bind(host, port)

    from attncli.live import Session, check_models

    check_models(models)
    from attncli.live.server.app import WHOLE_TEXT, Site
    from attncli.models.opening import Opening

    session = Session([Opening(name, device, dtype, engine, without) for name in models])
    site = Site(session, texts, replace(WHOLE_TEXT, measure=measure), tuple(names))

    def ready(address: str) -> None:
        output.data(address)
        sys.stdout.flush()
        output.say("attncli: open this address; Ctrl-C ends the server")
        if open_it and not webbrowser.open(address):
            output.say("attncli: no browser could be opened: open the address yourself")

    answer(site, listening, host, ready)
