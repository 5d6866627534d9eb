"""The weights of a real layer in somebody's attention, on a real sentence: does it give that layer's maps?"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attncli.attention.mistakes import Inputs, Linear, Projections
from attncli.attention.mistakes.formula import share, split
from attncli.base.errors import RequestError
from attncli.checks.code.subject import Description, Made, Subject
from attncli.checks.passes import AttentionInputs
from attncli.checks.theirs.attention.asking import make
from attncli.checks.theirs.attention.conventions import is_causal
from attncli.checks.theirs.attention.fitting import Fit
from attncli.checks.theirs.attention.trial import Trial, no_output
from attncli.checks.theirs.calling.forms import Form
from attncli.checks.theirs.calling.making import Sizes
from attncli.checks.theirs.calling.readings import Reading
from attncli.checks.theirs.comparing import difference
from attncli.checks.theirs.found import Check, Maps, Wanted
from attncli.checks.tolerance import TOLERANCES
from attncli.models.model import Model
from attncli.models.taken import as_record
from attncli.record import AttentionRecord, Request
from attncli.text.tokens import Tokens

WITHIN = TOLERANCES["float32"]  # in which the model is computed


@dataclass(frozen=True)
class RealLayer:
    """A layer of a model on a text.

    x: what its attention is given `[token, d_model]`; of_heads: what its heads give `[1, head, token, head_dim]`;
    output `[token, d_model]`. record: the map of one head; weights: of all, `[head, query, key]`.
    """

    number: int
    x: Tensor
    by: Projections
    heads: int
    weights: Tensor
    of_heads: Tensor
    output: Tensor
    record: AttentionRecord


def real_layer(model: Model, tokens: Tokens, layer: int, head: int, mask: str) -> RealLayer:
    """Raises RequestError for a layer whose scores are more than a scaled dot product of what is projected."""
    if model.config.positions[layer] is not None or model.config.goes_by_order:
        raise RequestError(
            f"the scores of {model.config.model_type} depend on positions: -m takes a model whose don't, such as minilm"
        )
    kept = AttentionInputs(model)
    [taken] = model.take([tokens], Request([layer], mask=mask), [kept])
    [one] = model.take([tokens], Request([layer], [head], mask))
    attention = kept.attention(layer)
    by = Projections(*map(doubled, (attention.query, attention.key, attention.value, attention.output)))
    return RealLayer(
        layer,
        kept.given[layer].reshape(-1, model.config.hidden_size).double(),
        by,
        model.config.heads,
        taken.weights[0].double(),
        kept.made[layer].double(),
        kept.joined(layer).double(),
        as_record(model, one, Request([layer], [head], mask)),
    )


def doubled(linear: nn.Linear) -> Linear:
    bias = linear.bias
    return Linear(linear.weight.detach().double(), None if bias is None else bias.detach().double())


def mask_for(fit: Fit) -> str:
    """The mask of the model under which the subject should give the same, being given none."""
    return "causal" if is_causal(fit.conventions) else "padding"


def check_with_layer(
    subject: Subject, description: Description, wanted: Wanted, fit: Fit, real: RealLayer, dropout: bool = True
) -> tuple[list[Check], Maps]:
    """The output, and the maps of all heads, where they can be seen. dropout: False runs it without."""
    [head] = real.record.heads
    maps = Maps(real.record, None, real.record.map(real.number, head))
    names = (f"with layer {real.number}'s weights: its output", f"with layer {real.number}'s weights: its maps")
    try:
        there = put_there(subject, description, wanted, fit, real)._replace(dropout=dropout)
    except RequestError as error:
        return [Check(name, None, note=str(error)) for name in names], maps
    trial = there.run(subject, there.inputs)
    if trial.result is None:
        return [Check(name, False, note=no_output(trial.answer)) for name in names], maps
    gap = difference(trial.result.output, real.of_heads if fit.reading is None else real.output[None])
    checks = [Check(names[0], gap <= WITHIN.hidden, gap)]
    theirs, note = trial.result.weights, ""
    if not theirs.numel():
        theirs, note = seen_through_values(subject, there, real), "seen through its values"
    if not theirs.numel():
        return [*checks, Check(names[1], None, note="it gives none, and there are too many tokens to see them")], maps
    if theirs.shape[1] != real.heads:
        gap = difference(theirs[0, 0], real.weights.mean(0))
        return [*checks, Check(names[1], gap <= WITHIN.weights, gap, "their mean over heads")], maps
    gap = difference(theirs[0], real.weights)
    checks.append(Check(names[1], gap <= WITHIN.weights, gap, note))
    return checks, maps._replace(theirs=theirs[0, head].float().numpy())


class There(NamedTuple):
    """A subject with the layer's weights; reading: of a module that is as large as the model."""

    inputs: Inputs
    form: Form
    reading: Reading | None
    made: Made | None
    dtype: str
    dropout: bool = True

    def run(self, subject: Subject, inputs: Inputs) -> Trial:
        answer = subject.call(self.form.call(inputs, self.dtype, dropout=self.dropout))
        return Trial(self.form, self.reading, inputs, answer, self.dtype)


def put_there(subject: Subject, description: Description, wanted: Wanted, fit: Fit, real: RealLayer) -> There:
    """A module, made as large as the model, with the layer's weights; a function is given the layer's heads.

    Raises RequestError where it can't be made so.
    """
    x = real.x[None]
    if fit.reading is None:
        parts = (real.by.query, real.by.key, real.by.value)
        query, key, value = (split(by(x), by.weight.shape[0] * real.heads // x.shape[-1]) for by in parts)
        inputs = Inputs(query, share(key, real.heads), share(value, real.heads), real.heads)
        if not fit.form.can(inputs):
            raise RequestError("it has no dimension for heads")
        return There(inputs, fit.form, None, None, fit.dtype)
    sizes = Sizes(x.shape[-1], real.heads, real.heads, 4 * x.shape[-1], max(64, x.shape[1]))
    asked = make(subject, description, wanted, sizes)
    reading = next((one for one in asked.readings if one is not None and one.note == fit.reading.note), None)
    if reading is None or reading.heads != real.heads:
        raise RequestError("it can't be made as large as the model")
    subject.fill(reading.write(real.by, asked.made.weights))
    return There(Inputs(x, x, x, real.heads, real.by), fit.form, reading, asked.made, fit.dtype)


def seen_through_values(subject: Subject, there: There, real: RealLayer) -> Tensor:
    """Maps `[1, head, query, key]` of what gives none; empty where the text has more tokens than a head has values.

    With values that are 1 at the key's own place and 0 elsewhere, a head's output is its weights. So W_V maps every
    token of this text to such a vector, by the pseudoinverse of the layer's input, and W_O changes nothing.
    """
    tokens, head_dim = len(real.x), real.of_heads.shape[-1]
    if tokens > head_dim or there.dtype != "float64":
        return torch.empty(0)
    ones = torch.eye(tokens, head_dim, dtype=torch.float64)
    if there.reading is None or there.made is None:
        made = there.run(subject, there.inputs._replace(value=ones.expand_as(there.inputs.value))).result
        return torch.empty(0) if made is None else made.output[..., :tokens]
    places = (torch.linalg.pinv(real.x) @ ones).mT.repeat(real.heads, 1)  # [heads · head_dim, d_model]
    by = real.by._replace(value=Linear(places), output=Linear(torch.eye(len(places), dtype=torch.float64)))
    subject.fill(there.reading.write(by, there.made.weights))
    made = there.run(subject, there.inputs._replace(projections=by)).result
    return torch.empty(0) if made is None else split(made.output, real.heads)[..., :tokens]
