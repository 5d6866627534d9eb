"""Send one text through this program and through another.

Against transformers, both run the whole network, so that a difference in one layer goes on into the next.
Against `torch.nn.MultiheadAttention`, every layer stands by itself: both get that layer's input from our pass.
Some rows of transformers have no numbers (`Lost`); nothing can be compared with these.
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attncli.attention import MultiHeadAttention
from attncli.base.errors import RequestError
from attncli.models.block import Block, Tap
from attncli.models.devices import as_tensor
from attncli.models.model import Model
from attncli.models.transformers_peer import Reference
from attncli.record import Request
from attncli.text.tokens import Tokens


class Lost(NamedTuple):
    """Rows of real tokens that transformers gives NaN in.

    layer: the first one that has such rows; rows: how many have NaN in that layer or a later one. in_float32: whether
    transformers gives numbers there when it runs in float32.
    """

    mask: str
    layer: int
    rows: int
    in_float32: bool

    def __str__(self) -> str:
        instead = "its float32 numbers were taken instead" if self.in_float32 else "nothing was proven there"
        return (
            f"transformers is at fault: from layer {self.layer} on it gives NaN in {self.rows} rows of real tokens "
            f"(mask {self.mask}); {instead}"
        )


def lost_rows(tokens: Tokens, mask: str, weights: Iterable[Tensor], states: Iterable[Tensor]) -> Lost | None:
    """Return the rows of real tokens in which transformers gives NaN; None when there are none."""
    real = torch.tensor([not padding for padding in tokens.padding])
    after = list(states)[1:]
    bad = torch.stack(
        [
            real & (one.isnan().any(dim=-1).any(dim=0) | state.isnan().any(dim=-1)).cpu()
            for one, state in zip(weights, after, strict=True)
        ]
    )
    layers = bad.any(dim=1).nonzero()
    return Lost(mask, int(layers[0]), int(bad.any(dim=0).sum()), False) if len(layers) else None


def run_finite(
    reference: Reference, tokens: Tokens, mask: str
) -> tuple[tuple[list[Tensor], list[Tensor]], Lost | None]:
    """Run the reference; in float32 where that gives numbers in rows of real tokens, and float64 gives NaN."""
    made = reference.run(tokens, mask)
    lost = lost_rows(tokens, mask, *made)
    if lost is not None and reference.dtype == torch.float64:
        instead = reference.in_float32.run(tokens, mask)
        if lost_rows(tokens, mask, *instead) is None:
            return instead, lost._replace(in_float32=True)
    return made, lost


def merge_lost(lost: Iterable[Lost]) -> tuple[Lost, ...]:
    """Merge them to one for each mask and each way of going on, with its first layer and all rows."""
    found: dict[tuple[str, bool], Lost] = {}
    for one in lost:
        before = found.get((one.mask, one.in_float32), one._replace(rows=0))
        found[one.mask, one.in_float32] = one._replace(layer=min(one.layer, before.layer), rows=one.rows + before.rows)
    return tuple(found.values())


class TextPass(NamedTuple):
    """The output of one program on one text, for each of the layers compared.

    weights: `[head, query, key]` each; hidden: `[token, hidden_size]` each; embeddings: `[token, hidden_size]`.
    """

    weights: Sequence[Tensor]
    hidden: Sequence[Tensor]
    embeddings: Tensor | None = None

    def only(self, rows: list[int]) -> "TextPass":
        """Return the pass for these tokens only."""
        return TextPass(
            [weights[:, rows] for weights in self.weights],
            [hidden[rows] for hidden in self.hidden],
            None if self.embeddings is None else self.embeddings[rows],
        )


class Passes(NamedTuple):
    """The passes of one text.

    exact: the other program's pass in float32, with the same weights, where both run in half precision. lost: the rows
    in which transformers gives NaN.
    """

    ours: TextPass
    theirs: TextPass
    exact: TextPass | None = None
    lost: Lost | None = None


BothPasses = Callable[[Tokens], Passes]


def beside_transformers(model: Model, layers: Sequence[int], mask: str, reference: Reference) -> BothPasses:
    """Return the function that sends a text through our network and through transformers'."""
    after = [layer + 1 for layer in layers]  # vectors before the first layer come first

    def chosen(weights: Sequence[Tensor], hidden: Sequence[Tensor]) -> TextPass:
        return TextPass([weights[layer] for layer in layers], [hidden[number] for number in after], hidden[0])

    def both(tokens: Tokens) -> Passes:
        [taken] = model.take([tokens], Request(list(layers), mask=mask))
        hidden = model.hidden_states(tokens, mask)
        theirs, lost = run_finite(reference, tokens, mask)
        exact = chosen(*reference.in_float32.run(tokens, mask)) if is_half(model.dtype) else None
        ours = TextPass(list(taken.weights), [hidden[number] for number in after], hidden[0])
        return Passes(ours, chosen(*theirs), exact, lost)

    return both


def is_half(dtype: torch.dtype) -> bool:
    """Return whether a dtype is smaller than float32."""
    return dtype.itemsize < torch.float32.itemsize


def beside_torch(model: Model, layers: Sequence[int], mask: str) -> BothPasses:
    """Return the function that sends each layer's input from our pass through our attention and torch's.

    Raises RequestError where positions have a part in the scores, which torch's module knows nothing of.
    """
    if any(model.config.positions[layer] is not None for layer in layers):
        kind = model.config.model_type
        raise RequestError(
            f"the scores of {kind} depend on positions, and torch's module has no such scores: leave --against out"
        )
    model.need(model.config.layers)
    theirs = [torch_attention(model.network.layer(layer).attention) for layer in layers]

    exact = [copy.deepcopy(one).float() for one in theirs] if is_half(model.dtype) else None

    def both(tokens: Tokens) -> Passes:
        ours = AttentionInputs(model)
        [taken] = model.take([tokens], Request(list(layers), mask=mask), [ours])

        def made_by(modules: Sequence[nn.MultiheadAttention]) -> TextPass:
            made = [
                torch_attend(one, ours.inputs[layer].to(one.out_proj.weight.dtype), allowed)
                for one, layer, allowed in zip(modules, layers, as_tensor(taken.masks, model.device), strict=True)
            ]
            return TextPass([weights for weights, _ in made], [output for _, output in made])

        with torch.inference_mode():
            outputs = [ours.joined(layer) for layer in layers]
            return Passes(
                TextPass(list(taken.weights), outputs), made_by(theirs), None if exact is None else made_by(exact)
            )

    return both


class AttentionInputs(Tap):
    """Keeps what every layer's attention is given on one text, and the outputs of its heads.

    inputs: by layer `[1, token, hidden_size]`; made: by layer `[1, head, token, head_dim]`.
    """

    def __init__(self, model: Model) -> None:
        self.network = model.network
        self.inputs: dict[int, Tensor] = {}
        self.made: dict[int, Tensor] = {}

    def output(self, block: Block, output: Tensor) -> Tensor:
        self.inputs[block.layer], self.made[block.layer] = block.inputs, output
        return output

    def attention(self, layer: int) -> MultiHeadAttention:
        """Return a layer's attention."""
        return self.network.layer(layer).attention

    def joined(self, layer: int) -> Tensor:
        """Return the output of a layer's attention, `[token, hidden_size]`."""
        attention = self.attention(layer)
        made: Tensor = attention.output(attention.join_heads(self.made[layer]))
        return made[0]


def torch_attend(attention: nn.MultiheadAttention, x: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    """Return weights `[head, query, key]` and output `[token, hidden_size]` by torch, which takes an inverted mask."""
    output, weights = attention(x, x, x, attn_mask=~allowed, average_attn_weights=False)
    return weights[0], output[0]


def torch_attention(attention: MultiHeadAttention) -> nn.MultiheadAttention:
    """Make torch's module with copies of these weights; it keeps the three projections in one matrix."""
    parts = (attention.query, attention.key, attention.value)
    like = attention.query.weight
    biased = attention.output.bias is not None
    theirs = nn.MultiheadAttention(
        like.shape[1], attention.heads, bias=biased, batch_first=True, device=like.device, dtype=like.dtype
    )
    tensors = {
        "in_proj_weight": torch.cat([part.weight for part in parts]),
        "out_proj.weight": attention.output.weight,
    }
    if biased:
        biases: list[Tensor] = [like.new_zeros(len(part.weight)) if part.bias is None else part.bias for part in parts]
        tensors["in_proj_bias"] = torch.cat(biases)
        tensors["out_proj.bias"] = attention.output.bias
    theirs.load_state_dict(tensors)
    return theirs.eval()
