"""attncli mechanisms: a real head under every scoring function and normaliser, and the tutorials' claims on it."""

from typing import Annotated

import typer

from attncli.base.documents import DOCUMENTS, save_document
from attncli.base.files import PICTURES, check_suffix
from attncli.cli import hints, options, output
from attncli.cli.texts import check_one, read_inputs


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
    mask: options.Mask = "padding",
    pad_to: options.PadTo = None,
    output_path: options.Picture = None,
    json: options.Json = False,
    device: options.Device = "auto",
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Put one head under every scoring function and normaliser.

    Its own queries and keys. Scoring functions whose parameters this model never learned are drawn from the seed and
    labelled "untrained". Then each of the tutorials' claims is measured on the head, or on random vectors where it is
    about those, and marked as it came out. A trained head need not do what a tutorial says: a claim that does not
    hold is a finding, and the exit code is 0.

    \b
    Examples:
      attncli mechanisms -l 4 -H 3
      attncli mechanisms "The cat sat on the mat." -l 2 -H 9 --temperature 0.5
      attncli mechanisms "The cat sat on the mat." -l 4 -H 3 -o mechanisms.png
    """
    if output_path is not None:
        check_suffix(output_path, (*PICTURES, *DOCUMENTS), "what is measured")
    from attncli.cli.source import open_own

    inputs = read_inputs(text, pair, file)
    check_one(len(inputs), "give the one to measure as TEXT")
    # In float32: where a claim says that two ways give the same, their difference is measured against its rounding.
    loaded = open_own(model, device, "float32", "mechanisms")
    from attncli.checks import mechanisms as measuring
    from attncli.models.head import one_head
    from attncli.record.selection import select_one

    measuring.check_temperature(temperature)
    tokens = loaded.tokenizer.encode(*inputs[0], pad_to)
    numbers = (select_one(layer, loaded.config.layers, "layer"), select_one(head, loaded.config.heads, "head"))
    found = measuring.mechanisms(loaded, one_head(loaded, tokens, *numbers, mask), temperature, seed)
    if json:
        output.json_document(found.document())
    elif output_path is None:
        from rich.text import Text

        from attncli.render.terminal import mechanisms as view

        canvas = output.canvas()
        output.show(
            view.about(found.record, canvas),
            view.claims_count(found.claims),
            view.claims_table(found.claims),
            Text(),
            *view.variant_maps(found.record, found.variants, temperature, seed, canvas),
            view.variants_table(found.variants, temperature, seed),
            view.variants_legend(),
        )
    if output_path is not None:
        if output_path.suffix.lower() in DOCUMENTS:
            document = found.document()
            save_document(document, document["variants"], output_path)
        else:
            from attncli.render.figures.mechanisms import mechanisms_figure
            from attncli.render.figures.saving import save_figure

            save_figure(mechanisms_figure(found.record, found.variants, temperature, seed), output_path)
        output.file(output_path, json)
    hints.offer(context, "one row of this head, number by number", "explain")
