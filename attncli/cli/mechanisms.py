"""attncli mechanisms: a real head under every scoring function and normaliser, and the tutorials' claims on it."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attncli.cli import options, output
from attncli.errors import RequestError
from attncli.files import PICTURES, check_suffix

if TYPE_CHECKING:
    from attncli.checks.mechanisms import Claim, Variant
    from attncli.record import AttentionRecord

COLDEST, HOTTEST = 0.001, 1000.0  # beyond, every row is hard or uniform, and at last scores overflow


def mechanisms(
    text: options.Text = None,
    pair: options.Pair = None,
    file: options.File = None,
    model: options.ModelName = "minilm",
    layer: Annotated[str, typer.Option("--layer", "-l", metavar="N", help="The layer, from 0; -1 is the last.")] = "-1",
    head: Annotated[str, typer.Option("--head", "-H", metavar="N", help="The head, from 0; -1 is the last.")] = "0",
    temperature: Annotated[
        float, typer.Option("--temperature", metavar="T", help="Of softmax: below 1 is harder, above 1 is softer.")
    ] = 1.0,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, max=2**63 - 1, help="What is random is drawn from it.")
    ] = 0,
    mask: options.Mask = "padding",
    pad_to: options.PadTo = None,
    output_path: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="PATH", help="Draw the maps as .png, .svg or .pdf.")
    ] = None,
    json: options.Json = False,
    device: options.Device = "auto",
    debug: options.Debug = False,
) -> None:
    """Put one head's queries and keys under every scoring function and normaliser, and measure the tutorials' claims.

    Scoring functions whose parameters this model never learned are drawn from the seed and labelled "untrained".
    Each claim is measured on the head, or on random vectors where it is about those, and marked as it came out. A
    trained head need not do what a tutorial says: a claim that does not hold is a finding, and the exit code is 0.

    \b
    Examples:
      attncli mechanisms "The trophy does not fit in the suitcase because it is too big." -l 4 -H 3
      attncli mechanisms "The cat sat on the mat." -l 2 -H 9 --temperature 0.5 --mask causal
      attncli mechanisms "The cat sat on the mat." -l 4 -H 3 -o mechanisms.png
    """
    if output_path is not None:
        check_suffix(output_path, PICTURES, "a picture")
    check_temperature(temperature)
    inputs = options.read_inputs(text, pair, file)
    options.check_one_text(len(inputs), "give the one to measure as TEXT")
    from attncli.models.model import check_mask_name

    check_mask_name(mask)
    # In float32: where a claim says that two ways give the same, their difference is measured against its rounding.
    loaded = options.open_model(model, device, "float32")
    from attncli.checks.mechanisms import check_claims, variants
    from attncli.models.head import one_head
    from attncli.selection import select_one

    tokens = loaded.tokenizer.encode(*inputs[0], pad_to)
    numbers = (select_one(layer, loaded.config.layers, "layer"), select_one(head, loaded.config.heads, "head"))
    taken = one_head(loaded, tokens, *numbers, mask)
    found, claims = variants(taken, temperature, seed), check_claims(loaded, taken, seed)
    if json:
        output.json_document(document(taken.record, found, claims, temperature, seed))
    elif output_path is None:
        from attncli.render import mechanisms as view

        output.show(
            *view.variant_maps(taken.record, found, temperature, seed, output.canvas()),
            view.variants_table(found, temperature, seed),
            view.variants_legend(),
            view.claims_table(claims),
            view.claims_end(claims),
        )
    if output_path is not None:
        from attncli.render.figure import save_figure
        from attncli.render.mechanisms_figure import mechanisms_figure

        save_figure(mechanisms_figure(taken.record, found, temperature, seed), output_path)
        output.words(f"attncli: saved {output_path}") if json else output.data(str(output_path))


def check_temperature(temperature: float) -> None:
    """Raises RequestError when softmax can't be computed at this temperature."""
    if not COLDEST <= temperature <= HOTTEST:  # NaN is not either
        raise RequestError(
            f"--temperature {temperature:g} is out of range: give one from {COLDEST:g} to {HOTTEST:g}, 1 as it is"
        )


def document(
    record: "AttentionRecord", found: "list[Variant]", claims: "list[Claim]", temperature: float, seed: int
) -> dict[str, Any]:
    """What --json prints: the head's own map, its variants with their maps, and the claims."""
    [layer], [head] = record.layers, record.heads
    return {
        "model": asdict(record.model),
        "layer": layer,
        "head": head,
        "mask": record.mask_name,
        "temperature": temperature,
        "seed": seed,
        "tokens": record.tokens.text,
        "weights": record.map(layer, head).tolist(),
        "variants": [{**asdict(variant), "weights": variant.weights.tolist()} for variant in found],
        "claims": [asdict(claim) for claim in claims],
    }
