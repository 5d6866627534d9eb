"""Put the weights of a real layer into somebody's attention, and compare its maps on a real sentence."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attncli.attention.mistakes import Affine, Inputs, Projections
from attncli.attention.mistakes.formula import share, split
from attncli.base.errors import RequestError
from attncli.checks.code.calling import difference
from attncli.checks.code.conventions import is_causal
from attncli.checks.code.fitting import FilledSubject, Fit, describe_failure
from attncli.checks.code.names import ModuleSizes
from attncli.checks.code.result import Finding
from attncli.checks.code.weights import WeightLayout
from attncli.checks.tolerance import TOLERANCES
from attncli.models.model import Model
from attncli.models.taken import as_record
from attncli.models.taps import InputsAndOutputs
from attncli.record import AttentionRecord, Request
from attncli.text.tokens import Tokens

TOLERANCE = TOLERANCES["float32"]  # in which the model is computed


@dataclass(frozen=True)
class RealLayer:
    """A layer of a model on a text.

    x: the input of its attention `[token, d_model]`; heads_output `[1, head, token, head_dim]`; output
    `[token, d_model]`. weights: of all heads, `[head, query, key]`; record: the map of one head.
    """

    number: int
    x: Tensor
    projections: Projections
    heads: int
    weights: Tensor
    heads_output: Tensor
    output: Tensor
    record: AttentionRecord


RealLayers = Callable[[str], RealLayer]  # from the name of a mask


def real_layer(model: Model, tokens: Tokens, layer: int, head: int, mask: str) -> RealLayer:
    """Raises RequestError for a layer whose scores depend on positions."""
    if model.config.positions[layer] is not None or model.config.goes_by_order:
        raise RequestError(
            f"the scores of {model.config.model_type} depend on positions: "
            "use a model whose scores don't, such as minilm"
        )
    tap = InputsAndOutputs()
    [taken] = model.take([tokens], Request([layer], mask=mask), [tap])
    [one] = model.take([tokens], Request([layer], [head], mask))
    attention = model.network.layer(layer).attention
    linears = [
        Affine(one.weight.detach().double(), None if one.bias is None else one.bias.detach().double())
        for one in (attention.query, attention.key, attention.value, attention.output)
    ]
    return RealLayer(
        layer,
        tap.inputs[layer].reshape(-1, model.config.hidden_size).double(),
        Projections(*linears),
        model.config.heads,
        taken.weights[0].double(),
        tap.kept[layer][0][None].double(),
        tap.attended(layer, attention).double(),
        as_record(model, one, Request([layer], [head], mask)),
    )


def check_with_layer(attention: FilledSubject, fit: Fit, layers: RealLayers) -> tuple[list[Finding], dict[str, Any]]:
    """Compare the output, and the maps of all heads if they can be recovered, in a new instance of the attention.

    Returns the checks, and the data of one head's own map ("ours") and of the one that the subject gives ("theirs").
    """
    layer = layers("causal" if is_causal(fit.conventions) else "padding")
    [head] = layer.record.heads
    tokens = layer.record.tokens
    maps = {"layer": layer.number, "head": head, "tokens": list(tokens.text), "shown": list(tokens.shown)}
    maps |= {"ours": layer.record.map(layer.number, head).tolist(), "theirs": None}
    output_name, maps_name = (f"with layer {layer.number}'s weights: its {what}" for what in ("output", "maps"))
    try:
        attention, reading, inputs = put_in(attention, fit, layer)
    except RequestError as error:
        return [Finding(name, None, note=str(error)) for name in (output_name, maps_name)], maps
    run = partial(attention.run, fit.form, reading, dtype=fit.dtype)
    trial = run(inputs)
    if trial.result is None:
        return [Finding(name, False, note=describe_failure(trial.returned)) for name in (output_name, maps_name)], maps
    gap = difference(trial.result.output, layer.heads_output if fit.reading is None else layer.output[None])
    checks = [Finding(output_name, gap <= TOLERANCE.hidden, gap)]
    theirs, ours, note = trial.result.weights, layer.weights, ""
    if not theirs.numel():
        seen = inputs_that_show_maps(attention, reading, inputs, layer) if fit.dtype == "float64" else None
        shown = None if seen is None else run(seen).result
        if shown is not None:
            output = shown.output if reading is None else split(shown.output, layer.heads)
            theirs, note = output[..., : len(layer.x)], "seen through its values"
    if not theirs.numel():
        note = "it returns none, and the text has too many tokens to see them"
        return [*checks, Finding(maps_name, None, note=note)], maps
    if theirs.shape[1] == layer.heads:
        maps["theirs"] = theirs[0, head].float().tolist()
    else:
        ours, note = ours.mean(0, keepdim=True), "their mean over heads"
    gap = difference(theirs[0], ours)
    return [*checks, Finding(maps_name, gap <= TOLERANCE.weights, gap, note)], maps


def put_in(attention: FilledSubject, fit: Fit, layer: RealLayer) -> tuple[FilledSubject, WeightLayout | None, Inputs]:
    """Make a module as large as the model and give it the layer's weights. Give a function the layer's heads.

    Returns the attention, its reading and its inputs.

    Raises RequestError if that is impossible.
    """
    x = layer.x[None]
    if fit.reading is None:
        projected = [(by(x), by.weight.shape[0] * layer.heads // x.shape[-1]) for by in layer.projections[:3] if by]
        query, key, value = (split(vectors, heads) for vectors, heads in projected)
        inputs = Inputs(query, share(key, layer.heads), share(value, layer.heads), layer.heads)
        if not fit.form.can_express(inputs):
            raise RequestError("it has no dimension for heads")
        return attention, None, inputs
    sizes = ModuleSizes(x.shape[-1], layer.heads, layer.heads, max(64, x.shape[1]))
    larger = FilledSubject(attention.subject, sizes)
    larger.dropout = attention.dropout
    reading = next((one for one in larger.readings if one is not None and one.note == fit.reading.note), None)
    if reading is None or reading.heads != layer.heads:
        raise RequestError("it can't be made as large as the model")
    larger.subject.fill(reading.write(layer.projections))
    return larger, reading, Inputs(x, x, x, layer.heads, layer.projections)


def inputs_that_show_maps(
    attention: FilledSubject, reading: WeightLayout | None, inputs: Inputs, layer: RealLayer
) -> Inputs | None:
    """Change values so that the output is the maps. Return None if the text has more tokens than a head has values.

    With values that are 1 at the key's own place and 0 elsewhere, the output of a head is its weights. So W_V maps
    every token of this text to such a vector, by the pseudoinverse of the layer's input, and W_O changes nothing.
    """
    tokens, head_dim = len(layer.x), layer.heads_output.shape[-1]
    if tokens > head_dim:
        return None
    ones = torch.eye(tokens, head_dim, dtype=torch.float64)
    if reading is None:
        return inputs._replace(value=ones.expand_as(inputs.value))
    places = (torch.linalg.pinv(layer.x) @ ones).mT.repeat(layer.heads, 1)  # [heads · head_dim, d_model]
    identity = Affine(torch.eye(len(places), dtype=torch.float64))
    by = layer.projections._replace(value=Affine(places), output=identity)
    attention.subject.fill(reading.write(by))
    return inputs._replace(projections=by)
