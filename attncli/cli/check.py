"""attncli check: find out whether somebody's attention is right, and if not, which mistake it has."""

import ast
from typing import Annotated, Any

import typer

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.printable import printable, quoted
from attncli.cli import options, output
from attncli.cli.check_models import check_model, names_model
from attncli.cli.given import refuse
from attncli.features import completion as completion

WRONG = 1
SECONDS, GIGABYTES = 60.0, 4.0
SHORTEST, LONGEST = 0.1, 86_400.0  # seconds
SMALLEST, LARGEST = 0.1, 10_000.0  # gigabytes


def check(
    context: typer.Context,
    what: Annotated[str | None, options.argument("WHAT", "FILE.py:NAME, MODULE:NAME or transformers:TYPE.")] = None,
    text: Annotated[str | None, options.argument("TEXT", "With -m: the sentence. Without it: a sample.")] = None,
    means: Annotated[
        choices.MaskMeans | None,
        options.choice(options.SELECTION, choices.MaskMeans, "--mask-means", help="What True says: "),
    ] = None,
    layout: Annotated[
        str | None,
        options.option(options.SELECTION, "--layout", metavar="DIMS", help='Of arrays, as "batch token head d".'),
    ] = None,
    map: Annotated[
        list[str] | None,
        options.option(
            options.SELECTION, "--map", metavar="NAME=ROLE", help="W_q=query, src=x, ...; may be given again."
        ),
    ] = None,
    give: Annotated[
        list[str] | None,
        options.option(
            options.SELECTION, "--give", metavar="NAME=VALUE", help="To its constructor; may be given again."
        ),
    ] = None,
    nowhere: Annotated[
        choices.Nowhere,
        options.choice(
            options.SELECTION, choices.Nowhere, "--nowhere", rare=True, help="A query that may see nothing gives: "
        ),
    ] = "any",
    model: Annotated[
        str | None,
        options.option(
            options.MODEL,
            "--model",
            "-m",
            metavar="NAME",
            help="Put a layer's weights into it.",
            complete=completion.model,
        ),
    ] = None,
    layer: options.OneLayer = "-1",
    head: options.OneHead = "0",
    seconds: Annotated[
        float,
        options.option(
            options.MORE,
            "--time-limit",
            rare=True,
            metavar="SECONDS",
            help="After which it is ended, whatever it does.",
        ),
    ] = SECONDS,
    gigabytes: Annotated[
        float,
        options.option(
            options.MORE, "--memory-limit", rare=True, metavar="GB", help="That it may take beside what torch does."
        ),
    ] = GIGABYTES,
    json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Check your own attention, and find the mistake.

    Your code runs in its own process on many kinds of inputs, masks and precisions, and is compared with the formula.
    The known mistake that gives the same numbers is named. Exit code 0: right, 1: wrong, 2: can't be checked.

    \b
    An adapter at the end of the file, if its names don't explain how it is called:
      class Adapter(MyAttention):
          def __init__(self, dim, heads): super().__init__({"n": heads, "d": dim})
          def forward(self, x): return super().forward({"x": x})["out"]

    Of a model: does it look ahead, does [PAD] leak, are cached steps right?

    \b
    Examples:
      attncli check transformers:llama
      attncli check my_attention.py:MyAttention
      attncli check my_attention.py:MyAttention -m minilm -l 3 -H 1 "The cat sat."
    """
    if what is None or names_model(what):
        check_model(context, what, model, json)
        return
    if model is None:
        refuse(context, "without -m", "text", "layer", "head")
    check_number("--time-limit", seconds, SHORTEST, LONGEST)
    check_number("--memory-limit", gigabytes, SMALLEST, LARGEST)
    arguments = {name: parse_value(text) for name, text in parse_pairs("--give", give).items()}
    mapped = parse_pairs("--map", map)
    real = None if model is None else locate_layer(model, text, layer, head)
    from attncli.checks.code.process import Checking
    from attncli.cli.progress import progress

    chosen = {"layout": layout, "means": means, "map": mapped, "give": arguments, "nowhere": nowhere}
    with progress(None, "checks") as advance, Checking(what, chosen, real, seconds, gigabytes) as checking:
        from attncli.render.terminal import checked  # while the other process imports torch

        try:
            document = checking.result(advance)
        except RequestError as error:
            reason, *adapter = str(error).split("\n")
            for line in adapter:
                output.say(line)
            raise RequestError(reason.rstrip(":")) from error
    verdicts = [one["holds"] for one in document["checks"]]
    if not document["right"] and False not in verdicts:
        why = document["checks"][0]["note"] if verdicts else document["verdict"]
        raise RequestError(printable(f"nothing of {quoted(what)} could be checked: {why}"))
    if json:
        output.json_document(document)
    else:
        output.show(*checked.report(document, output.canvas()))
    if not document["right"]:
        raise typer.Exit(WRONG)


def locate_layer(model: str, text: str | None, layer: str, head: str) -> dict[str, Any]:
    """Find the model's files. Return what the other process needs to load the layer."""
    from attncli.cli.texts import read_inputs
    from attncli.models.hub import locate

    [one] = read_inputs(text, None, None)
    place = locate(model)
    files = {"name": place.name, "path": str(place.path), "origin": place.origin, "sha256": place.sha256}
    return {"place": files, **one._asdict(), "layer": layer, "head": head}


def parse_pairs(option: str, given: list[str] | None) -> dict[str, str]:
    """Split each NAME=VALUE. Raises RequestError for anything else."""
    pairs = {}
    for one in given or ():
        name, equals, value = one.partition("=")
        if not (name and equals and value):
            raise RequestError(f"{option} {quoted(one)} is no NAME=VALUE")
        pairs[name] = value
    return pairs


def parse_value(text: str) -> Any:
    """Return a number, True, False or None, or the word itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def check_number(option: str, number: float, least: float, most: float) -> None:
    if not least <= number <= most:  # NaN is not either
        raise RequestError(f"{option} {number:g} is out of range: give one from {least:g} to {most:g}")
