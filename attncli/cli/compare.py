"""attncli compare: is what this program computes what BERT computes?"""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attncli.base import choices
from attncli.base.errors import Notice
from attncli.base.files import DOCUMENTS, check_suffix, save_document
from attncli.cli import hints, options, output
from attncli.cli.given import refuse
from attncli.cli.texts import read_inputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attncli.checks.agreement import Agreement
    from attncli.models.model import Model
    from attncli.models.tapped import TappedModel
    from attncli.models.transformers_engine import TransformersModel
    from attncli.models.transformers_peer import Reference
    from attncli.record import Input


def compare(
    context: typer.Context,
    text: options.Text = None,
    pair: options.Pair = None,
    file: options.File = None,
    target: options.Target = None,
    model: options.ModelName = "minilm",
    layer: options.Layer = None,
    which: options.Which = None,
    mask: options.Mask = None,
    pad_to: options.PadTo = None,
    against: Annotated[
        choices.Against,
        options.option(
            options.MODEL,
            "--against",
            metavar="NAME",
            help="transformers, or torch: each layer's attention alone.",
        ),
    ] = "transformers",
    weights: Annotated[
        choices.Weights,
        options.option(
            options.MODEL,
            "--weights",
            rare=True,
            metavar="NAME",
            help="pretrained, random, auto (its own if they are here).",
        ),
    ] = "auto",
    engine: options.Engine = "auto",
    without: options.Without = None,
    output_path: Annotated[Path | None, options.into("Save what is found as .json or .csv.")] = None,
    json: options.Json = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Compare what attncli computes with transformers, or with torch.

    For each layer: the largest absolute difference of weights and of hidden states, and the share of queries whose
    strongest key is the same. Then, beside transformers, on at most 3 texts: single layers, heads, masks, --without,
    vectors, norms, gradients and more. [PAD]'s own rows count in float64. Exit code 1 beyond rounding: 32 x eps x
    layers x the size of the numbers; in half precision, errors larger than transformers' own. A network of transformers
    (GPT-2, Llama, T5) is run with attncli's attention in it and with its own eager attention.

    \b
    Examples:
      attncli compare
      attncli compare --mask causal --pad-to 24 --dtype float64 "The cat sat."
      attncli compare --against torch -l 0-2 "The cat sat on the mat."
      attncli compare -m bert-base --weights random "The cat sat on the mat."
    """
    if output_path is not None:
        check_suffix(output_path, DOCUMENTS, "a comparison")
    if against == "torch":
        refuse(context, "beside torch's module, which is one attention and no network", "without")
    inputs = read_inputs(text, pair, file)
    loaded, reference = open_both(context.params, weights)
    random = reference is not None
    from attncli.models.model import Model
    from attncli.models.transformers_engine import TransformersModel
    from attncli.record import Request

    # A bad request is refused before transformers is loaded, which takes seconds.
    loaded.check(Request(mask=mask, which=which))
    if target is not None:  # what the decoder writes is compared beside the encoder's maps too
        loaded.check(Request(target=target, which="decoder" if len(loaded.parts) > 1 else which))
    if without is not None:
        loaded = loaded.without(without)
    layers = loaded.select_layers("all" if layer is None else layer)
    if isinstance(loaded, Model):
        found = beside_peer(loaded, inputs, pad_to, mask, layers, against, reference)
    else:
        assert isinstance(loaded, TransformersModel)
        refuse(context, f"on {model}, which transformers runs", "against", "weights")
        found = beside_eager(loaded, inputs, pad_to, mask, layers, target)
    nowhere = {"path": None, "sha256": None} if random else {}
    document = {
        "model": {**loaded.info.document(), **nowhere},
        "weights": "random" if random else "pretrained",
        **found.document(),
    }
    if output_path is not None:
        save_document(document, document["layers"], output_path)
        output.file(output_path, json)
        output.say(f"attncli: {found.verdict}")
    if json:
        output.json_document(document)
    elif output_path is None:
        from attncli.render.terminal.agreement import agreement_table, agreement_title, ways_table

        of_ways = [ways_table(document)] if found.ways else []
        output.show(agreement_title(document), agreement_table(document), *of_ways)
        if found.unseen:
            output.data(found.unseen)
        output.data(found.verdict)
    if not found.same:
        if found.may_be_rounding:
            output.say("attncli: --dtype float64 tells a mistake, which stays, from rounding, which goes")
        raise typer.Exit(1)
    if against == "torch":
        hints.offer(context, "how fast both are", "bench", quick=True)
    else:
        hints.offer(context, "beside torch's attention", "compare", against="torch")


def beside_peer(
    model: "Model",
    inputs: "Sequence[Input]",
    pad_to: int | None,
    mask: str | None,
    layers: "Sequence[int]",
    against: choices.Against,
    reference: "Reference | None",
) -> "Agreement":
    """Hold attncli's own network against torch, or against transformers and then in every way."""
    from dataclasses import replace

    from attncli.checks import agreement
    from attncli.checks.beside import Both, fitting_threads
    from attncli.checks.lost import merge_lost
    from attncli.checks.ways import WAYS, by_every_way
    from attncli.cli.progress import one_by_one, progress
    from attncli.models.transformers_peer import load_reference

    texts = list(model.tokenize(inputs, pad_to))
    if against == "torch":
        reference = None
    elif reference is None:
        reference = load_reference(model.place.path, model.device, model.dtype)
    if reference is not None:
        reference.silence(model.config, model.network.silenced)
    with fitting_threads(model.config, texts):
        found = agreement.compare(model, one_by_one(texts, len(texts)), mask, layers, reference)
    if reference is None:
        return found
    with progress(len(WAYS), "ways") as advance, fitting_threads(model.config, texts):
        both = Both(model, reference, inputs, texts, pad_to, mask, layers)
        ways = tuple(by_every_way(both, advance))
        return replace(found, ways=ways, lost=merge_lost([*found.lost, *both.lost]))


def beside_eager(
    model: "TransformersModel",
    inputs: "Sequence[Input]",
    pad_to: int | None,
    mask: str | None,
    layers: "Sequence[int]",
    target: str | None,
) -> "Agreement":
    """Hold our place inside a network of transformers against its own eager attention, and then in every way."""
    from dataclasses import replace

    from attncli.checks.eager import BesideEager, Eager, compare_eager
    from attncli.checks.ways_of_eager import WAYS, by_every_way_of_eager
    from attncli.cli.progress import one_by_one, progress

    eager = Eager(model)
    texts = [eager.ready(one, target) for one in model.tokenize(inputs, pad_to)]
    found = compare_eager(eager, one_by_one(texts, len(texts)), mask, layers)
    with progress(len(WAYS), "ways") as advance:
        return replace(found, ways=tuple(by_every_way_of_eager(BesideEager(eager, texts, mask, layers), advance)))


def open_both(options: dict[str, Any], weights: str) -> "tuple[TappedModel, Reference | None]":
    """Open the model with its own weights; or make it with random ones, and transformers' network with the same.

    Raises RequestError as `open_tapped` does, except that with "auto" an alias needs no files.
    """
    from attncli.cli.source import open_tapped
    from attncli.models.aliases import find_alias
    from attncli.models.hub import NotOnThisMachine

    name, why = options["model"], "as asked"
    if weights != "random":
        try:
            return open_tapped({**options, "without": None}), None
        except NotOnThisMachine:
            if weights == "pretrained" or find_alias(name) is None:
                raise
            why = "because its own are not on this machine and can't be fetched"
    from attncli.models.random import random_model

    both = random_model(name, options["device"], options["dtype"])
    warnings.warn(
        f"{name}'s architecture gets RANDOM WEIGHTS (seed 0), {why}: this compares the programs, and says nothing "
        "of the published model",
        Notice,
        stacklevel=2,
    )
    return both
