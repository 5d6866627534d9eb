"""Compute what heads add to a logit directly, and what the vectors of every layer would predict.

    logit = f(x + Σ_h o_h W_O,h + Σ feed-forward)

f is the final norm and then the output head. With the scale of every norm frozen, and every activation of the output
head frozen as a factor, the direct path from a head's output o_h to the logit is linear: the residual connection, the
norms on it, and f. A head adds o_h · ∂ logit / ∂ o_h along that path (direct logit attribution; Elhage et al. 2021, "A
Mathematical Framework for Transformer Circuits"). It excludes the effect through later heads and feed-forward networks,
which the effect of silencing the head includes.

The logit lens applies f to the vectors of an earlier layer (nostalgebraist 2020, "interpreting GPT: the logit lens").
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncli.attention import FeedForward, GatedFeedForward
from attncli.base.errors import RequestError
from attncli.effects.asking import Asking
from attncli.effects.question import LabelQuestion, RemainingTokens, make_question
from attncli.models.block import Block, Tap
from attncli.models.engine import Engine
from attncli.models.model import own_network
from attncli.models.network import NO_ACTIVATION, Linear
from attncli.models.output import Output
from attncli.models.outputs import HeadNetwork
from attncli.text.tokens import Tokens, mask_positions

_VOCABULARY = ("next", "words")  # outputs that predict tokens
_ROUNDINGS = 100  # tolerance of a frozen norm, in eps
_LINEAR = 0.05  # tolerance of a linear head in half precision, as a share of the largest logit


def token_output(model: Engine) -> tuple[str, Output]:
    """Return the output that predicts tokens, and its name. Raises RequestError if there is none."""
    outputs, refused = model.available_outputs
    for name, output in outputs.items():
        if output.kind in _VOCABULARY:
            return name, output
    why = next((refused[name] for name in _VOCABULARY if name in refused), "its files have no such output head")
    raise RequestError(
        f"{model.place.name} predicts no tokens ({why}): use a decoder (-m smollm2) or a network for words at [MASK] "
        "(-m bert-base)"
    )


def check_place(model: Engine, output: Output, tokens: Tokens, at: str | None, option: str) -> None:
    """Raises RequestError if words are predicted, unless a token is named or the text has one [MASK].

    option: the option that names a token.
    """
    if output.kind == "words" and at is None and (count := len(mask_positions(tokens))) != 1:
        raise RequestError(
            f"{model.place.name} predicts the word at [MASK], and this text has {count}: write one, or name a token "
            f"with {option}"
        )


def logit_question(model: Engine, text: str, asking: Asking, option: str = "--at") -> LabelQuestion:
    """Return the question for the logit of the target, or of the likeliest token.

    It is measured at the token `asking.at`; by default at the last token, or at [MASK]. option: the option that names
    that token.

    Raises RequestError for a model that predicts no tokens, and as `make_question` does.
    """
    name, output = token_output(model)
    check_place(model, output, model.tokenizer.encode(text, asking.pair), asking.at, option)
    question = make_question(model, text, replace(asking, ask="logit", task=name))
    assert isinstance(question, LabelQuestion)
    return question


# --- direct logit attribution ---------------------------------------------------------------------------


class DirectPath(NamedTuple):
    """The outputs of one layer's heads, and the derivatives of the logit with respect to them, `[head, token,
    head_dim]` each.
    """

    outputs: Tensor
    slopes: Tensor

    @property
    def adds(self) -> list[float]:
        """The contribution of each head to the logit."""
        return (self.outputs.double() * self.slopes.double()).sum(dim=(1, 2)).tolist()


class _Detach(Tap):
    """Detaches the outputs of all heads from their inputs, and keeps them. kept: `[1, head, token, head_dim]`."""

    def __init__(self) -> None:
        self.kept: dict[int, Tensor] = {}

    def output(self, block: Block, output: Tensor) -> Tensor:
        kept = self.kept[block.layer] = output.detach().requires_grad_()
        return kept


def direct_paths(question: LabelQuestion) -> dict[int, DirectPath]:
    """Return the direct path from the heads of every layer to a logit, by layer.

    Raises RequestError for a network of transformers whose direct paths are unknown.
    """
    [text] = question.texts
    model, cut = text.model, _Detach()
    with torch.inference_mode(False), torch.enable_grad(), _frozen(model, question.output):
        last = torch.stack(model.last_hidden([text.tokens], text.mask, [cut]))
        logit = question([last])[0]
        if own_network(model) is None:  # transformers runs the output head
            vectors = last[0].detach()
            with torch.no_grad():
                none, once, back = question.logits_of(
                    [RemainingTokens(one, range(len(one))) for one in (0 * vectors, vectors, -8 * vectors)]
                )
            if (back - none + 8 * (once - none)).abs().max() > _LINEAR * (8 * (once - none)).abs().max():
                raise _unknown(model, "its output head is not linear")
        leaves = list(cut.kept.values())
        slopes = torch.autograd.grad(logit, leaves, allow_unused=True) if logit.requires_grad else [None] * len(leaves)
    ways = {}
    for (layer, outputs), slope in zip(cut.kept.items(), slopes, strict=True):
        if slope is None:
            raise _unknown(model, f"the path from layer {layer} to a logit is more than the residual connection")
        ways[layer] = DirectPath(outputs[0].detach(), slope[0])
    return ways


def _unknown(model: Engine, why: str) -> RequestError:
    return RequestError(f"the contribution of a head of {model.place.name} to a logit is unknown: {why}")


@contextmanager
def _frozen(model: Engine, output: Output) -> Iterator[None]:
    """Leave only the residual connection, frozen norms and the frozen output head between heads and logit."""
    own = own_network(model)
    if own is not None:
        hooks = [(one, _hook_of(one)) for part in (own.network, output.network) for one in part.modules()]
    else:
        hooks = list(_hooks_in_theirs(model))
    with ExitStack() as stack:
        for module, hook in hooks:
            if hook is not None:
                stack.callback(module.register_forward_hook(hook).remove)
        yield


_Hook = Callable[[nn.Module, Any, Tensor], Tensor]


def _hook_of(module: nn.Module) -> _Hook | None:
    """Return the hook that freezes a module or detaches its output; None if nothing needs to be done."""
    match module:
        case FeedForward() | GatedFeedForward():
            return _detached
        case Linear() if module.activation != NO_ACTIVATION:
            return _frozen_activation
        case HeadNetwork() if module.softcap is not None:
            return _frozen_cap
    return _frozen_norm if "Norm" in type(module).__name__ else None


def _hooks_in_theirs(model: Engine) -> Iterator[tuple[nn.Module, _Hook]]:
    """Yield the modules of a network of transformers with their hooks: norms to freeze, and linear layers other than
    W_O to detach.

    Raises RequestError for a layer with parameters of an unknown kind.
    """
    from transformers.pytorch_utils import Conv1D

    theirs: Any = model
    kept = set(map(id, theirs.places.projections.values()))
    inside = {id(one) for half in ("encoder", "decoder") for one in theirs.stack(half).modules()}
    for module in theirs.network.modules():
        if "Norm" in type(module).__name__:
            yield module, _frozen_norm
        elif isinstance(module, nn.Linear | Conv1D):
            if id(module) in inside and id(module) not in kept:
                yield module, _detached
        elif id(module) in inside and not isinstance(module, nn.Embedding) and list(module.parameters(recurse=False)):
            raise _unknown(model, f"transformers computes its {type(module).__name__} in an unknown way")


def _detached(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
    return output.detach()


def _frozen_activation(module: Any, inputs: Any, output: Tensor) -> Tensor:
    """Return z · f(z)/z with the factor f(z)/z frozen, which is the gate of GELU and SiLU."""
    z = F.linear(inputs[0], module.weight, module.bias)
    return z * (output / z).detach().nan_to_num(0.0)


def _frozen_cap(module: Any, inputs: Any, output: Tensor) -> Tensor:
    """Return the scores times the frozen factor of their softcap."""
    scores = module.scores(module.parts(inputs[0]))
    return scores * (output / scores).detach().nan_to_num(1.0)


def _frozen_norm(module: Any, inputs: Any, output: Tensor) -> Tensor:
    """Return (x - mean(x)) g s + b, or x g s + b, with the scale s frozen: a LayerNorm or an RMSNorm of any class.

    g, b and whether the mean is subtracted follow from the norm's outputs for three vectors. Raises RequestError for a
    norm of another form.
    """
    [x] = inputs
    with torch.no_grad():
        signs = torch.ones_like(x[..., :1, :].flatten(0, -2)[0])
        signs[1::2] = -1
        if len(signs) % 2:
            signs[-3:] = signs.new_tensor([1, 1, -2])  # so that their mean is 0
        bias, made, moved = (module.forward(one) for one in (0 * signs, signs, signs + 1))
        gain = (made - bias) / signs
        centred = torch.allclose(made, moved, rtol=0.1, atol=0.1 * float(gain.abs().max()))
    line = (x - x.mean(dim=-1, keepdim=True) if centred else x) * gain
    with torch.no_grad():
        wide = line.double()
        scale = ((output - bias) * wide).sum(dim=-1, keepdim=True)
        scale = scale / wide.square().sum(dim=-1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
        frozen = line * scale.to(line.dtype) + bias
        off = (frozen - output).abs().max()
        step = max(torch.finfo(output.dtype).eps, torch.finfo(torch.float32).eps)  # transformers normalises in float32
        if off > _ROUNDINGS * step * max(1.0, float(output.abs().max())):
            raise RequestError(
                f"the contribution of a head to a logit is unknown: {type(module).__name__} is neither a LayerNorm nor "
                "an RMSNorm"
            )
    return line * scale.to(line.dtype) + bias


# --- the logit lens -------------------------------------------------------------------------------------


def lens(
    model: Engine, output: Output, tokens: Tokens, places: Iterable[int], mask: str | None = None
) -> Iterator[Tensor]:
    """Yield log P of every token at each position, as predicted after the embeddings and after each layer.

    `[layer + 1, label]`, float64: the final norm and the output head, applied to each. The last row is the model's
    prediction. Raises RequestError if transformers runs the network and its final norm is unknown.
    """
    with torch.inference_mode():
        own = own_network(model)
        if own is not None:
            states, norm = model.hidden_states(tokens, mask), own.network.final_norm
        else:
            states, norm = _states_of_theirs(model, tokens, mask)
        for place in places:
            vectors = torch.stack([one[place] for one in states])
            if norm is not None:
                vectors = torch.cat([norm(vectors[:-1]), vectors[-1:]])
            [logits] = output([vectors], [tokens])
            yield logits.double().log_softmax(dim=-1)


def _states_of_theirs(model: Any, tokens: Tokens, mask: str | None) -> tuple[list[Tensor], nn.Module | None]:
    """Return the vectors after every layer of a network of transformers, and its final norm, unless that belongs to the
    last layer.

    Raises RequestError if the last vectors do not come from a norm.
    """
    seen: list[tuple[str, nn.Module, Tensor]] = []
    with ExitStack() as stack:
        for name, module in model.stack(model.part).named_modules():
            if "Norm" in type(module).__name__:
                hook = module.register_forward_hook(lambda one, _, made, name=name: seen.append((name, one, made)))
                stack.callback(hook.remove)
        states = model.hidden_states(tokens, mask)
    name, norm, made = seen[-1] if seen else ("", None, states[-1][None, :0])
    if not torch.equal(made.reshape(-1, made.shape[-1]), states[-1]):
        raise RequestError(f"a lens needs the final norm, which is unknown in {model.place.name}: use another model")
    of_layer = any(part.isdigit() for part in name.split("."))
    return states, None if of_layer else norm
