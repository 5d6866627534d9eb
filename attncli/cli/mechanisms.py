"""attncli mechanisms: a real head under every score, in other designs and with mistakes, and the claims on it."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from attncli.base import choices
from attncli.cli import hints, options, output, saving
from attncli.cli.given import refuse
from attncli.cli.texts import check_one, read_inputs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attncli.checks.mechanisms import Mechanisms
    from attncli.checks.planted import Mistakes
    from attncli.report.canvas import Canvas

WINDOWS: tuple[choices.Design, ...] = ("window", "causal-window")
SHARED: tuple[choices.Design, ...] = ("grouped", "multi-query")


def mechanisms(
    context: typer.Context,
    text: options.Text = None,
    pair: options.Pair = None,
    file: options.File = None,
    model: options.ModelName = "minilm",
    layer: options.OneLayer = "-1",
    head: options.OneHead = "0",
    temperature: Annotated[
        float,
        options.option(
            options.MODEL, "--temperature", metavar="T", help="Of softmax: below 1 is harder, above 1 is softer."
        ),
    ] = 1.0,
    design: Annotated[
        choices.Design | None,
        options.choice(options.MODEL, choices.Design, "--design", help="One design alone, with its map: "),
    ] = None,
    mistakes: Annotated[
        bool,
        options.option(options.MODEL, "--mistakes", help="What known mistakes in attention do to it, and no more."),
    ] = False,
    reach: Annotated[
        int,
        options.option(
            options.MODEL, "--reach", rare=True, metavar="N", min=0, help="Of a window, in tokens to each side."
        ),
    ] = 2,
    seed: Annotated[
        int,
        options.option(
            options.MODEL,
            "--seed",
            rare=True,
            metavar="N",
            min=0,
            max=2**63 - 1,
            help="What is random is drawn from it.",
        ),
    ] = 0,
    which: options.Which = None,
    target: options.Target = None,
    mask: options.Mask = None,
    pad_to: options.PadTo = None,
    output_path: options.Picture = None,
    json: options.Json = False,
    device: options.Device = "auto",
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Put one head under every score and in other designs.

    Other positions, windows, shared keys: what this model never learned is drawn from the seed and labelled
    "untrained". Claims of tutorials and papers are measured; one that does not hold is a finding, and the exit code
    is 0.

    \b
    Examples:
      attncli mechanisms "The cat sat on the mat." -l 2 -H 9 --temperature 0.5
      attncli mechanisms -l 4 -H 3 -o mechanisms.png
      attncli mechanisms "The cat sat on the mat." -l 4 -H 3 --design alibi
    """
    if mistakes:
        refuse(
            context, "with --mistakes, which are made in the head as it is", "design", "temperature", "reach", "seed"
        )
    if design is not None and design not in WINDOWS:
        refuse(context, f"with --design {design}, which is no window", "reach")
    if design in SHARED:
        refuse(context, f"with --design {design}, where nothing is random", "seed")
    if output_path is not None:
        saving.check(output_path, "what is measured")
        if design is None and not json and output_path.suffix.lower() != ".json":
            refuse(context, f"with -o {output_path.suffix}, which has scores and no designs", "reach")

    inputs = read_inputs(text, pair, file)
    check_one(len(inputs), "give the one to measure as TEXT")
    from attncli.cli.source import open_tapped

    # In float32: where a claim says that two ways give the same, their difference is measured against its rounding.
    loaded = open_tapped({**context.params, "dtype": "float32"})
    from attncli.checks import mechanisms as measuring
    from attncli.models.head import one_head, read_text
    from attncli.record.selection import select_one

    measuring.check_temperature(temperature)
    tokens = read_text(loaded, inputs[0], context.params)
    numbers = (select_one(layer, loaded.layers, "layer"), select_one(head, loaded.heads, "head"))
    taken = one_head(loaded, tokens, *numbers, mask)
    if mistakes:
        found = measuring.with_mistakes(loaded, taken)
    else:
        found = measuring.mechanisms(loaded, taken, temperature, seed, reach, design)
    if json:
        output.json_document(found.document())
    elif output_path is None:
        canvas = output.canvas()
        output.show(*shown(found, canvas))
    if output_path is not None:
        saving.save(output_path, found.document, rows, lambda: figure(found))
        output.file(output_path, json)
    hints.offer(context, "one row of this head, number by number", "explain")


def rows(document: dict[str, Any]) -> list[dict[str, Any]]:
    """What a .csv has a row for: mistakes or designs where nothing else was asked for, else variants."""
    if document["mistakes"] is not None:
        return list(document["mistakes"]["made"])
    return list(document["variants"] or document["designs"])


def figure(found: "Mechanisms") -> "Figure":
    """What -o draws: the maps of all scores, of all mistakes, or of one design alone."""
    from attncli.render.figures.mechanisms import design_figure, mechanisms_figure, mistakes_figure

    if found.mistakes is not None:
        return mistakes_figure(found.record, found.mistakes)
    if not found.variants:
        return design_figure(found.record, found.designs[0])
    return mechanisms_figure(found.record, found.variants, found.temperature, found.seed)


def shown(found: "Mechanisms", canvas: "Canvas") -> list[Any]:
    """Mistakes alone, one design alone, or everything else."""
    if found.mistakes is not None:
        return wrong(found, found.mistakes, canvas)
    return whole(found, canvas) if found.variants else alone(found, canvas)


def whole(found: "Mechanisms", canvas: "Canvas") -> list[Any]:
    """Claims, the maps of all scores, and tables."""
    from rich.text import Text

    from attncli.render.terminal import designs
    from attncli.render.terminal import mechanisms as view

    return [
        view.about(found.record, canvas),
        view.claims_count(found.claims),
        view.claims_table(found.claims),
        Text(),
        *view.variant_maps(found.record, found.variants, found.temperature, found.seed, canvas),
        view.variants_table(found.variants, found.temperature, found.seed),
        view.variants_legend(),
        *([designs.designs_table(found.own, found.designs), designs.designs_legend()] if found.designs else []),
        *([] if found.projections else [view.left_out()]),
    ]


def alone(found: "Mechanisms", canvas: "Canvas") -> list[Any]:
    """One design: its map between the head's own and a control, and its figures."""
    from attncli.render.terminal import designs
    from attncli.render.terminal import mechanisms as view

    return [
        view.about(found.record, canvas),
        *designs.design_maps(found.record, found.designs[0], canvas),
        designs.designs_table(found.own, found.designs),
        designs.designs_legend(),
    ]


def wrong(found: "Mechanisms", mistakes: "Mistakes", canvas: "Canvas") -> list[Any]:
    """Every mistake: the maps that it changes, and what it changes in figures."""
    from attncli.render.terminal import mechanisms as view
    from attncli.render.terminal import mistakes as planted

    return [
        view.about(found.record, canvas),
        *planted.mistake_maps(found.record, mistakes, canvas),
        planted.mistakes_table(mistakes),
        planted.mistakes_legend(),
    ]
