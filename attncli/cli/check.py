"""attncli check: is somebody's attention right, and if not, which mistake is it?"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.printable import quoted
from attncli.checks.behaviour.naming import names_model
from attncli.cli import completion, options, output
from attncli.cli.check_models import check_model
from attncli.cli.given import refuse

if TYPE_CHECKING:
    from attncli.checks.theirs.attention.check import RealLayers
    from attncli.checks.theirs.found import Found

WRONG = 1
SECONDS, GIGABYTES = 60.0, 4.0
SHORTEST, LONGEST = 0.1, 86_400.0  # seconds
SMALLEST, LARGEST = 0.1, 10_000.0  # gigabytes


def check(
    context: typer.Context,
    what: Annotated[
        str | None, options.argument("WHAT", "FILE.py:NAME, MODULE:NAME or transformers:TYPE. Without it: -m alone.")
    ] = None,
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
    ] = "zero-or-nan",
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

    Runs it in a process of its own, on inputs, masks and precisions of many kinds, beside the formula; finds out how it
    is called and what its masks mean. Where it differs, the known mistake that gives the same numbers is named. Exit
    code 0: right, 1: wrong, 2: can't be checked.

    \b
    An adapter, for what can't be found out, at the end of its file:
      class Adapter(MyAttention):
          def __init__(self, dim, heads): super().__init__({"n": heads, "d": dim})
          def forward(self, x): return super().forward({"x": x})["out"]

    A model of transformers or a checkpoint is checked by what it does, on each backend: does it look ahead, does [PAD]
    leak, are windows, key heads, cached steps and packed documents what they should be?

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
    roles, given = pairs("--map", map), {name: value(said) for name, said in pairs("--give", give).items()}
    from attncli.checks.theirs.subjects.process import Process

    process = Process(what, seconds, gigabytes)  # it imports torch while this one does
    from attncli.checks.theirs.checking import check_subject
    from attncli.checks.theirs.found import Wanted
    from attncli.checks.theirs.subjects.apart import Apart
    from attncli.cli.progress import progress

    with progress(None, "checks") as advance, Apart(process, advance) as subject:
        real = None if model is None else layer_of(model, text, layer, head)
        found = check_subject(subject, Wanted(layout, means, roles, given, nowhere), real)
    if not found.right and all(one.holds is not False for one in found.checks):
        raise RequestError(f"nothing of {quoted(what)} could be checked: {found.checks[0].note}")
    show(found, json)
    if not found.right:
        raise typer.Exit(WRONG)


def show(found: "Found", json: bool) -> None:
    document = found.document()
    if json:
        output.json_document(document)
        return
    from attncli.render.terminal.checked import checks_table, checks_title, diagnosis_lines, layer_maps

    canvas = output.canvas()
    output.show(*checks_title(document, canvas), checks_table(document))
    if found.maps is not None:
        maps = found.maps
        output.show(*layer_maps(maps.record, found.name, maps.theirs, maps.ours, canvas))
    output.show(*diagnosis_lines(document, canvas))


def layer_of(model: str, text: str | None, layer: str, head: str) -> "RealLayers":
    """Of the model on the text, the layer under a mask; what is asked for is refused at once."""
    from attncli.checks.theirs.attention.transplant import real_layer
    from attncli.cli.source import open_own
    from attncli.cli.texts import read_inputs
    from attncli.record.selection import select_one

    [one] = read_inputs(text, None, None)
    loaded = open_own(model, "cpu", "float32")
    numbers = (select_one(layer, loaded.config.layers, "layer"), select_one(head, loaded.config.heads, "head"))
    tokens = loaded.tokenizer.encode(*one, None)
    return lambda mask: real_layer(loaded, tokens, *numbers, mask)


def pairs(option: str, said: list[str] | None) -> dict[str, str]:
    """NAME=VALUE, each. Raises RequestError for what is none."""
    found = {}
    for one in said or ():
        name, equals, value = one.partition("=")
        if not (name and equals and value):
            raise RequestError(f"{option} {quoted(one)} is no NAME=VALUE")
        found[name] = value
    return found


def value(said: str) -> Any:
    """A number, True, False, None, or the word itself."""
    words: dict[str, Any] = {"True": True, "False": False, "None": None}
    for kind in (int, float):
        try:
            return kind(said)
        except ValueError:
            continue
    return words.get(said, said)


def check_number(option: str, number: float, least: float, most: float) -> None:
    if not least <= number <= most:  # NaN is not either
        raise RequestError(f"{option} {number:g} is out of range: give one from {least:g} to {most:g}")
