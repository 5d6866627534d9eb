"""attncli flow: what a token of any layer is made of, in input tokens; by rollout and by maximum flow."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attncli.cli import options, output
from attncli.errors import RequestError
from attncli.files import PICTURES, check_suffix

if TYPE_CHECKING:
    from attncli.analysis.rollout import Doubles
    from attncli.record import AttentionRecord

METHODS = ("raw", "rollout", "flow")


def flow(
    text: options.Text = None,
    pair: options.Pair = None,
    file: options.File = None,
    saved: options.Saved = None,
    model: options.ModelName = "minilm",
    layer: options.Layer = None,
    query: options.Query = None,
    method: Annotated[
        str, typer.Option("--method", metavar="NAMES", help="Some of raw, rollout, flow.")
    ] = "raw,rollout,flow",
    measure: options.Measure = "weight",
    words: options.Words = False,
    mask: options.Mask = "padding",
    pad_to: options.PadTo = None,
    engine: options.Engine = "attncli",
    which: options.Which = None,
    target: options.Target = None,
    output_path: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="Draw as .png, .svg, .pdf, or save as .safetensors, .npz, .json, .csv.",
        ),
    ] = None,
    json: options.Json = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    debug: options.Debug = False,
) -> None:
    """Follow attention down to the input tokens: attention rollout and attention flow (Abnar and Zuidema 2020).

    Above layer 0 a token is a mixture, and its weights say little about the text. Both ways take the mean over
    heads, and half of every step for the residual connection. Rollout adds up all paths; flow is the most that
    can flow when weights are capacities, as shares of its sum. Beside them the raw weights, to the tokens of the
    layer below. Without -l: from the last layer.

    A saved record has a head a method, in their order: "minilm (raw, rollout, flow)" has heads 0, 1 and 2.

    \b
    Examples:
      attncli flow "The trophy does not fit in the suitcase because it is too big."
      attncli flow --query it -l all "The trophy does not fit in the suitcase because it is too big."
      attncli flow -l 0,2,5 -o flow.png "The cat sat on the mat."
      attncli flow -l all -o flow.npz "The cat sat on the mat."
      attncli run -l all -o maps.npz "The cat sat." && attncli flow --from maps.npz
    """
    from attncli.record import SUFFIXES

    methods = method_names(method)
    if output_path is not None:
        check_suffix(output_path, (*PICTURES, *SUFFIXES), "what is followed")
    if saved is None:
        inputs = options.read_inputs(text, pair, file)
        options.check_one_text(len(inputs), "give the one to follow as TEXT")
        [record] = options.attend(
            inputs,
            engine,
            model,
            device,
            dtype,
            which,
            target,
            measure=measure,
            layers="all",
            heads="all",
            mask=mask,
            pad_to=pad_to,
        )
    else:
        options.check_as_saved(
            text=text,
            pair=pair,
            file=file,
            pad_to=pad_to,
            which=which,
            target=target,
            measure=measure,
        )
        otherwise = "save the one to follow by itself (attncli run -l all -o one.npz TEXT)"
        record = options.open_one_saved(saved, None, None, mask, otherwise)
    if words:
        from attncli.analysis.words import merge_words

        record = merge_words(record)
    from attncli.selection import select_token

    deepest = max(record.layers)
    layers = [deepest] if layer is None else record.chosen("layer", layer, record.layers, record.model.layers)
    held = None if query is None else select_token(query, record.tokens.text)
    # A picture or a record has every row.
    queries = [held] if held is not None and output_path is None else list(range(len(record.tokens)))
    shares, flows = follow(record, layers, queries, methods)
    if json:
        output.json_document(document(record, layers, queries, shares, flows, held))
    elif output_path is None:
        from attncli.render import flow as view

        shown = view.layer_views if held is None else view.token_tables
        output.show(*shown(record, layers, queries, shares, output.canvas()))
    if output_path is not None:
        draw_or_save(record, layers, shares, held, words, output_path)
        output.words(f"attncli: saved {output_path}") if json else output.data(str(output_path))


def method_names(names: str) -> list[str]:
    """ "flow,raw" -> the two. Raises RequestError for a name that is no method's."""
    chosen = list(dict.fromkeys(name.strip() for name in names.split(",")))
    for name in chosen:
        if name not in METHODS:
            raise RequestError(f"no method {name!r}: --method is some of {','.join(METHODS)}")
    return chosen


def follow(
    record: "AttentionRecord", layers: Sequence[int], queries: Sequence[int], methods: Sequence[str]
) -> "tuple[dict[str, Doubles], Doubles | None]":
    """By method the shares `[layer, query, input token]`; and the maximum flows, where flow is among the methods."""
    import numpy as np

    from attncli.analysis.flow import flow_shares, maximum_flows
    from attncli.analysis.rollout import mean_maps, residual_steps, rollout

    steps, shares, flows = residual_steps(record), {}, None
    record = record.select(layers=sorted(record.layers))
    for method in methods:
        if method == "raw":
            shares[method] = mean_maps(record)[layers][:, queries]
        elif method == "rollout":
            shares[method] = rollout(steps)[layers][:, queries]
        else:
            with options.progress(len(layers) * len(queries), "tokens") as advance:
                flows = np.stack([maximum_flows(steps, layer, queries, advance) for layer in layers])
            shares[method] = flow_shares(flows)
    return shares, flows


def draw_or_save(
    record: "AttentionRecord",
    layers: Sequence[int],
    shares: "dict[str, Doubles]",
    held: int | None,
    words: bool,
    path: Path,
) -> None:
    """A picture or a record, by the suffix."""
    if path.suffix.lower() in PICTURES:
        from attncli.render.figure import save_figure
        from attncli.render.flow_figure import flow_figure

        save_figure(flow_figure(record, layers, shares, held, words), path)
    else:
        from attncli.analysis.rollout import shares_record

        shares_record(record, layers, shares).save(path)


def document(
    record: "AttentionRecord",
    layers: Sequence[int],
    queries: Sequence[int],
    shares: "dict[str, Doubles]",
    flows: "Doubles | None",
    held: int | None,
) -> dict[str, Any]:
    """What --json prints: for every layer and query, or for the one that is held, a share of each input token."""
    rows = dict(shares) if flows is None else {**shares, "maximum_flow": flows}
    return {
        "model": asdict(record.model),
        "measure": record.measure,
        "mask": record.mask_name,
        "heads": record.heads,
        "tokens": record.tokens.text,
        "layers": [
            {
                "layer": layer,
                "queries": [
                    {
                        "query": query,
                        "token": record.tokens.text[query],
                        **{name: values[number, place].tolist() for name, values in rows.items()},
                    }
                    for place, query in enumerate(queries)
                    if held in (None, query)
                ],
            }
            for number, layer in enumerate(layers)
        ],
    }
