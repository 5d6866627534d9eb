"""Agreement: the project's own forward pass beside another program's, on the same tokens and the same weights.

Against transformers, both run the whole network, so that whatever differs in one layer goes on into the next.
Against `torch.nn.MultiheadAttention`, every layer stands by itself: both get that layer's input from our pass.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attncli.attention import MultiHeadAttention
from attncli.models.model import Model, check_mask_name
from attncli.models.reference import Reference
from attncli.selection import Selection, select
from attncli.text import Tokens


class Tolerance(NamedTuple):
    """The largest absolute difference that rounding explains, of a weight and of a number in a vector."""

    weights: float
    hidden: float


# Two correct programs that round at different places differ about as much as either differs from the exact
# numbers. Measured with minilm on 67 texts of 3 to 512 tokens: in bfloat16 transformers' weights are up to 0.12
# from its own in float32, and its hidden states 0.09; ours are up to 0.12 and 0.12 from its own in bfloat16. In
# float16, which has 3 bits more, all of it is an eighth. (With random weights: 0.02 and 0.12.) So the half
# precisions get twice that, STEPS steps of the dtype at 1, and for hidden states, which run to 10 and above, twice
# more. That finds gross mistakes only: small ones show in float32 and float64.
STEPS = 32
TOLERANCES = {
    "float64": Tolerance(1e-10, 1e-10),
    "float32": Tolerance(1e-5, 1e-4),
    "float16": Tolerance(STEPS * 2**-10, 2 * STEPS * 2**-10),
    "bfloat16": Tolerance(STEPS * 2**-7, 2 * STEPS * 2**-7),
}


@dataclass(frozen=True)
class LayerAgreement:
    """One layer, over all texts.

    weights, hidden: the largest absolute difference of a weight, and of a number in the vectors after the layer
    (against torch: in the output of its attention); NaN where either side has one.
    agreement: the share of queries, of all heads, whose strongest key is the same (see `same_strongest`).
    """

    layer: int
    weights: float
    hidden: float
    agreement: float


@dataclass(frozen=True)
class Agreement:
    """What `compare` found.

    tokens: all of them; queries: those whose rows were compared (see `rows_that_count`).
    embeddings: as `hidden` of a layer, before the first; None against torch.
    """

    against: str
    dtype: str
    mask: str
    texts: int
    tokens: int
    queries: int
    tolerance: Tolerance
    embeddings: float | None
    layers: list[LayerAgreement]

    @property
    def same(self) -> bool:
        return not self.faults()

    def faults(self) -> list[str]:
        """What is past the tolerance, in the order of the computation. NaN is past every tolerance."""
        weights, hidden = self.tolerance
        measured = [] if self.embeddings is None else [("the embeddings", self.embeddings, hidden)]
        for layer in self.layers:
            measured.append((f"layer {layer.layer} weights", layer.weights, weights))
            measured.append((f"layer {layer.layer} {self.vectors}", layer.hidden, hidden))
        return [
            f"{what} are not numbers" if math.isnan(most) else f"{what} differ by {most:.1e}, past {short(allowed)}"
            for what, most, allowed in measured
            if not most <= allowed
        ]

    @property
    def vectors(self) -> str:
        """What is compared beside the weights."""
        return "hidden states" if self.against == "transformers" else "attention outputs"

    @property
    def verdict(self) -> str:
        """One line. Only the first fault is described: in a network, the others follow from it."""
        faults = self.faults()
        if not faults:
            weights, hidden = self.tolerance
            return f"the same: weights within {short(weights)}, {self.vectors} within {short(hidden)}"
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        return f"NOT the same: {faults[0]}{more}"

    def document(self) -> dict[str, Any]:
        """What `compare --json` prints, without the model. A difference that is no finite number is null."""
        return {
            "against": self.against,
            "dtype": self.dtype,
            "mask": self.mask,
            "texts": self.texts,
            "tokens": self.tokens,
            "queries": self.queries,
            "tolerance": self.tolerance._asdict(),
            "embeddings": finite(self.embeddings),
            "layers": [
                {
                    "layer": layer.layer,
                    "weights": finite(layer.weights),
                    "hidden": finite(layer.hidden),
                    "agreement": layer.agreement,
                }
                for layer in self.layers
            ],
            "same": self.same,
        }


class Pass(NamedTuple):
    """What one program makes of one text, for each of the layers compared.

    weights: `[head, query, key]` each; hidden: `[token, hidden_size]` each; embeddings: `[token, hidden_size]`.
    """

    weights: Sequence[Tensor]
    hidden: Sequence[Tensor]
    embeddings: Tensor | None = None

    def only(self, rows: list[int]) -> "Pass":
        """The same for these tokens."""
        return Pass(
            [weights[:, rows] for weights in self.weights],
            [hidden[rows] for hidden in self.hidden],
            None if self.embeddings is None else self.embeddings[rows],
        )


def compare(
    model: Model,
    texts: Iterable[Tokens],
    mask: str = "padding",
    layers: Selection = "all",
    reference: Reference | None = None,
) -> Agreement:
    """Hold the model's layers against those of `reference`; without one, against `torch.nn.MultiheadAttention`.

    Raises RequestError for an unknown mask or a layer out of range, ValueError when there is no text.
    """
    check_mask_name(mask)
    chosen = select(layers, model.config.layers, "layer")
    against = "torch" if reference is None else "transformers"
    if reference is None:
        both = beside_torch(model, chosen, mask)
    else:
        both = beside_transformers(model, chosen, mask, reference)
    embeddings: list[float] = []
    weights: list[list[float]] = [[] for _ in chosen]
    hidden: list[list[float]] = [[] for _ in chosen]
    agreeing = [0 for _ in chosen]
    texts_seen = tokens_seen = queries = 0
    for tokens in texts:
        rows = rows_that_count(tokens, model.dtype, against)
        ours, theirs = (one.only(rows) for one in both(tokens))
        if ours.embeddings is not None and theirs.embeddings is not None:
            embeddings.append(difference(ours.embeddings, theirs.embeddings))
        for place in range(len(chosen)):
            weights[place].append(difference(ours.weights[place], theirs.weights[place]))
            hidden[place].append(difference(ours.hidden[place], theirs.hidden[place]))
            agreeing[place] += same_strongest(ours.weights[place], theirs.weights[place])
        texts_seen += 1
        tokens_seen += len(tokens)
        queries += len(rows)
    if not texts_seen:
        raise ValueError("there is no text to compare on")
    return Agreement(
        against=against,
        dtype=model.dtype_name,
        mask=mask,
        texts=texts_seen,
        tokens=tokens_seen,
        queries=queries,
        tolerance=TOLERANCES[model.dtype_name],
        embeddings=worst(embeddings) if embeddings else None,
        layers=[
            LayerAgreement(
                layer, worst(weights[place]), worst(hidden[place]), agreeing[place] / (queries * model.config.heads)
            )
            for place, layer in enumerate(chosen)
        ],
    )


def rows_that_count(tokens: Tokens, dtype: torch.dtype, against: str) -> list[int]:
    """The tokens whose rows of weights and whose vectors are compared: all, with one exception.

    Training has never shaped what becomes of the rows of [PAD] itself, and layer upon layer of it can blow
    rounding up. In minilm, transformers' own hidden states in float32 are up to 1.6e-4 from exact ones at a [PAD],
    past the tolerance, and about 5e-6 at other tokens. So these rows count in float64, where there is room for it,
    and against torch, layer by layer.
    """
    if dtype == torch.float64 or against == "torch":
        return list(range(len(tokens)))
    return [place for place, padding in enumerate(tokens.padding) if not padding]


Both = Callable[[Tokens], tuple[Pass, Pass]]


def beside_transformers(model: Model, layers: Sequence[int], mask: str, reference: Reference) -> Both:
    """Our pass and transformers'."""

    def both(tokens: Tokens) -> tuple[Pass, Pass]:
        weights, hidden = model.hidden_states(tokens, model.mask([tokens], mask), layers)
        their_weights, their_hidden = reference.run(tokens, mask)
        after = [layer + 1 for layer in layers]  # vectors before the first layer come first
        return (
            Pass(list(weights), [hidden[number] for number in after], hidden[0]),
            Pass(
                [their_weights[layer] for layer in layers],
                [their_hidden[number] for number in after],
                their_hidden[0],
            ),
        )

    return both


def beside_torch(model: Model, layers: Sequence[int], mask: str) -> Both:
    """Our attention and torch's, layer by layer, both on that layer's input from our pass."""
    model.need(model.config.layers)
    ours: list[Any] = [model.encoder.layers[layer].attention for layer in layers]
    theirs = [torch_attention(attention) for attention in ours]

    def both(tokens: Tokens) -> tuple[Pass, Pass]:
        allowed = model.mask([tokens], mask)
        _, hidden = model.hidden_states(tokens, allowed)
        inputs = [hidden[layer][None] for layer in layers]
        with torch.inference_mode():
            made = [attend(one, x, allowed) for one, x in zip(ours, inputs, strict=True)]
            torchs = [torch_attend(one, x, tokens, mask) for one, x in zip(theirs, inputs, strict=True)]
        return (
            Pass([weights for weights, _ in made], [output for _, output in made]),
            Pass([weights for weights, _ in torchs], [output for _, output in torchs]),
        )

    return both


def attend(attention: MultiHeadAttention, x: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    """Weights `[head, query, key]` and output `[token, hidden_size]`, as the model's own pass computes them."""
    maps = x.new_empty(1, attention.heads, x.shape[1], x.shape[1])
    output = attention.forward_keeping(x, mask=allowed, heads=range(attention.heads), maps=maps)
    return maps[0], output[0]


def torch_attend(attention: nn.MultiheadAttention, x: Tensor, tokens: Tokens, mask: str) -> tuple[Tensor, Tensor]:
    """The same by torch, which is told of masks in its own way: True = may not."""
    padding = torch.tensor([tokens.padding], device=x.device) if mask != "none" else None
    length = len(tokens)
    future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1) if mask == "causal" else None
    output, weights = attention(x, x, x, key_padding_mask=padding, attn_mask=future, average_attn_weights=False)
    return weights[0], output[0]


def torch_attention(attention: MultiHeadAttention) -> nn.MultiheadAttention:
    """torch's module with copies of these weights; it keeps the three projections in one matrix."""
    parts = (attention.query, attention.key, attention.value)
    like = attention.query.weight
    theirs = nn.MultiheadAttention(
        like.shape[1], attention.heads, batch_first=True, device=like.device, dtype=like.dtype
    )
    theirs.load_state_dict(
        {
            "in_proj_weight": torch.cat([part.weight for part in parts]),
            "in_proj_bias": torch.cat([part.bias for part in parts]),
            "out_proj.weight": attention.output.weight,
            "out_proj.bias": attention.output.bias,
        }
    )
    return theirs.eval()


def difference(ours: Tensor, theirs: Tensor) -> float:
    """max |ours - theirs|; NaN where either has one, or both are infinite."""
    return float((ours.cpu().double() - theirs.cpu().double()).abs().max())


def same_strongest(ours: Tensor, theirs: Tensor) -> int:
    """In how many rows our strongest key is a strongest of theirs.

    A row may have several: all [PAD] of RoBERTa are one vector. So keys whose weights differ by no more than STEPS
    are equally strong.
    """
    at_ours = theirs.gather(-1, ours.argmax(dim=-1, keepdim=True)).squeeze(-1)
    return int((at_ours >= theirs.amax(dim=-1) * (1 - STEPS * torch.finfo(theirs.dtype).eps)).sum())


def worst(differences: Iterable[float]) -> float:
    """The largest; NaN if any is."""
    return float(torch.tensor(list(differences), dtype=torch.float64).max())


def finite(number: float | None) -> float | None:
    """JSON has no NaN and no infinity."""
    return number if number is not None and math.isfinite(number) else None


def short(tolerance: float) -> str:
    """1e-05, 0.25"""
    return f"{tolerance:.0e}" if tolerance < 0.01 else f"{tolerance:g}"
