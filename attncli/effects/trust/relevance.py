"""How important tokens are by gradients of what is asked: by the input's, and by those of the weights.

gradient x input: x_i · ∂ number / ∂ x_i, where x_i is what goes into the first layer for token i (Denil et al. 2014,
"Extraction of Salient Sentences from Labelled Documents"; Shrikumar et al. 2017). Of a distance, which is least where
nothing is changed and has a corner there, the slope in that direction: mean over t of ‖J_ti x_i‖ / ‖x_t‖. A divergence
is flat there, and nothing can be said.

gradient x attention: R = I, then R += mean over heads of max(0, ∂ number / ∂ A ⊙ A) R, layer by layer (Chefer et al.
2021, "Generic Attention-model Explainability", ICCV, equations 5 and 6).
"""

from typing import NamedTuple

import torch
from torch import Tensor

from attncli.base.arrays import Doubles
from attncli.effects.copies import Unchanged
from attncli.effects.gradients import ByFormula, Weights
from attncli.effects.questions import Question
from attncli.models.walk import Beginning


class Slopes(NamedTuple):
    """inputs: gradient x input, `[token]`; relevance: R after the last layer, `[token, input token]`."""

    inputs: Doubles
    relevance: Doubles


def slopes(asked: Question) -> Slopes:
    """Of a number that has a gradient: neither a divergence nor a distance. Of its first text."""
    text, *others = asked.texts
    keep = Weights()
    with torch.enable_grad():
        x = text.states[0].clone().requires_grad_()
        rows = text.model.rows([text.tokens], text.mask)
        *_, last = text.model.walk(rows, [keep], beginning=Beginning(0, x))
        number = asked([torch.stack(rows.last(last)), *(other.last.clone() for other in others)])[0]
        of_input, *of_weights = torch.autograd.grad(number, [x, *keep.kept])
    inputs = (of_input * x).detach().double().sum(dim=-1)
    pairs = [(weights[0].detach(), gradient[0]) for weights, gradient in zip(keep.kept, of_weights, strict=True)]
    return Slopes(inputs.cpu().numpy(), relevance(pairs).cpu().numpy())


def relevance(layers: list[tuple[Tensor, Tensor]]) -> Tensor:
    """R, `[token, token]` float64, from each layer's weights and gradients, `[head, query, key]` each."""
    found = torch.eye(layers[0][0].shape[-1], dtype=torch.float64, device=layers[0][0].device)
    for weights, gradient in layers:
        found = found + (gradient.double() * weights.double()).clamp(min=0).mean(dim=0) @ found
    return found


def input_slopes(text: Unchanged) -> Doubles:
    """mean over t of ‖J_ti x_i‖ / ‖x_t‖ for each token i, where x_t is what comes out of the last layer and J its
    Jacobian by what goes into the first, `[token]`: on copies, each with another token's x_i as its direction.

    J u is the gradient of Jᵀ v by v, along u: two ways back.
    """
    count, model = len(text.tokens), text.model
    together = max(1, model.batch_tokens // count)
    lengths = text.last[0].double().norm(dim=-1)
    found = []
    for start in range(0, count, together):
        some = range(start, min(start + together, count))
        with torch.enable_grad():
            x = text.states[0].clone().repeat(len(some), 1).requires_grad_()
            direction = torch.zeros_like(x)
            for copy, place in enumerate(some):
                direction[copy * count + place] = text.states[0][place]
            rows = model.rows([text.tokens] * len(some), text.mask)
            *_, last = model.walk(rows, [ByFormula()], beginning=Beginning(0, x))
            back = torch.zeros_like(last, requires_grad=True)
            [pulled] = torch.autograd.grad(last, x, back, create_graph=True)
            [pushed] = torch.autograd.grad(pulled, back, direction)
        moved = rows.runs[0].tokens(pushed)
        found.append((moved.double().norm(dim=-1) / lengths).mean(dim=-1))
    return torch.cat(found).cpu().numpy()
