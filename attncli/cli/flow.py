"""attncli flow: what a token of any layer is made of, in input tokens; by rollout and by maximum flow."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attncli.base import choices
from attncli.base.files import PICTURES, check_suffix, save_document
from attncli.cli import hints, options, output
from attncli.cli.given import refuse
from attncli.features import completion

if TYPE_CHECKING:
    from attncli.analysis.following import Followed

DOCUMENT = ".json"  # what --json prints; a record in other files


def flow(
    context: typer.Context,
    text: options.Text = None,
    pair: options.Pair = None,
    file: options.File = None,
    saved: options.Saved = None,
    model: options.ModelName = "minilm",
    layer: options.Layer = None,
    query: options.Query = None,
    method: Annotated[
        str,
        options.option(
            options.MODEL,
            "--method",
            metavar="NAMES",
            help="Some of raw, rollout, flow.",
            complete=completion.several(choices.Method),
        ),
    ] = "raw,rollout,flow",
    measure: options.Measure = "weight",
    words: options.Words = False,
    mask: options.Mask = None,
    pad_to: options.PadTo = None,
    engine: options.Engine = "auto",
    which: options.Which = None,
    target: options.Target = None,
    output_path: Annotated[
        Path | None,
        options.into(".png .svg .pdf .safetensors .npz .json .csv."),
    ] = None,
    json: options.Json = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Follow attention down to the input tokens: rollout and flow.

    Above layer 0 a token is a mixture, and its weights say little about the text. Both ways (Abnar and Zuidema 2020)
    take the mean over heads (of norms before rows are made to sum to 1), and half of every step for the residual
    connection. Rollout adds up all paths; flow is the most that can flow when weights are capacities. Beside them the
    raw weights, to the layer below. Without -l: from the last layer. In a saved record every method is a head.

    \b
    Examples:
      attncli flow --query it -l all
      attncli flow -l 0,2,5 -o flow.png "The cat sat on the mat."
      attncli flow -l all -o flow.npz "The cat sat on the mat."
      attncli run -l all -o maps.npz "A cat sat." && attncli flow --from maps.npz
    """
    from attncli.cli.source import Source, Texts
    from attncli.record.captions import SINKS
    from attncli.record.files import SUFFIXES

    methods = choices.several("method", method, choices.Method)
    if output_path is not None:
        check_suffix(output_path, (*PICTURES, *SUFFIXES), "what is followed")
        if output_path.suffix.lower() in set(SUFFIXES) - {DOCUMENT} and not json:
            refuse(context, "on a saved record, which has every row", "query")
    otherwise = "give the one to follow as TEXT"
    if saved is not None:
        otherwise = "save the one to follow by itself (attncli run -l all -o one.npz TEXT)"
    # -l says where to begin; what is followed are all layers.
    source = Source.of(context, layers="all").every_layer()
    if isinstance(source, Texts):
        from attncli.models.tapped import check_every_layer

        check_every_layer(source.engine, which, "flow")
    record = source.one(otherwise)
    if record.sinks and record.measure == "weight":
        output.say(f"attncli: {SINKS}; flow divides each row of the mean by its sum")
    if words:
        from attncli.analysis.words import merge_words

        record = merge_words(record)
    from attncli.analysis.following import follow, layers_followed
    from attncli.cli.progress import progress
    from attncli.record.selection import select_token

    held = None if query is None else select_token(query, record.tokens)
    # A picture or a record has every row.
    some = output_path is None or output_path.suffix.lower() == DOCUMENT
    queries = [held] if held is not None and some else range(len(record.tokens))
    steps = len(layers_followed(record, layer)) * len(queries) if "flow" in methods else 0
    with progress(steps, "tokens") as advance:
        found = follow(record, layer, queries, methods, advance)
    if json:
        output.json_document(found.document(held))
    elif output_path is None:
        from attncli.render.terminal import flow as view

        shown = view.layer_views if held is None else view.token_tables
        output.show(*shown(found, output.canvas()))
    if output_path is not None:
        draw_or_save(found, held, words, output_path)
        output.file(output_path, json)
    elif held is None:
        hints.offer(context, "one token, with numbers", "flow", query=hints.last_word(record.tokens))
    else:
        hints.offer(context, "as a picture", "flow", output_path="flow.svg")


def draw_or_save(found: "Followed", held: int | None, words: bool, path: Path) -> None:
    """A picture, what --json prints, or a record, by the suffix."""
    if path.suffix.lower() in PICTURES:
        from attncli.render.figures.flow import flow_figure
        from attncli.report.figure.saving import save_figure

        save_figure(flow_figure(found, held, words), path)
    elif path.suffix.lower() == DOCUMENT:
        save_document(found.document(held), (), path)
    else:
        found.as_record().save(path)
