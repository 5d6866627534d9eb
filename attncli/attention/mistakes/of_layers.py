"""The mistakes that people make around attention, in layers. A change says what becomes of the step that stands there.

Those of attention itself (`known`) are made in a layer's self-attention, or in its cross-attention.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations
from typing import Any

from torch import Tensor

from attncli.attention.mistakes.formula import Formula, Linear, same
from attncli.attention.mistakes.known import MISTAKES, Change, Mistake
from attncli.attention.mistakes.layer_formula import Around, Function, LayerFormula, Parts, Terms
from attncli.attention.mistakes.variants import after, changed

AROUND = ("around_attention", "around_cross", "around_feed_forward")


def always(step: Any) -> Callable[[Any], Any]:
    """Whatever stood there."""
    return lambda before: step


def behind(step: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """After what stood there."""
    return lambda before: after(before, step)


def around(**other: Any) -> Callable[[Around], Around]:
    return lambda before: replace(before, **other)


def each_and_all(change: Callable[[Any], Any]) -> tuple[Change, ...]:
    """Around one of the sublayers, or around all."""
    return (*({name: change} for name in AROUND), dict.fromkeys(AROUND, change))


def without_norm(parts: Parts, places: Sequence[int]) -> Parts:
    """places: -1 is the feed-forward network's."""
    norms = list(parts.norms)
    for place in places:
        norms[place] = None
    return parts._replace(norms=tuple(norms))


def same_norm(parts: Parts, of: int, at: Sequence[int]) -> Parts:
    norms = list(parts.norms)
    for place in at:
        norms[place] = norms[of]
    return parts._replace(norms=tuple(norms))


def without_bias(parts: Parts, names: Sequence[str]) -> Parts:
    made: dict[str, Any] = {name: Linear(getattr(parts, name).weight) for name in names}
    return parts._replace(**made)


def function_last(x: Tensor, parts: Parts, function: Function) -> Tensor:
    return function(parts.down(parts.up(x)))


def function_twice(x: Tensor, parts: Parts, function: Function) -> Tensor:
    return function(parts.down(function(parts.up(x))))


def other_side(before: Around) -> Around:
    return replace(before, norms=("after",) if before.norms == ("before",) else ("before",))


def not_residual(terms: Terms) -> Tensor:
    return terms.given


LAYER_MISTAKES: tuple[Mistake, ...] = (
    Mistake(
        "residual forgotten",
        "without a residual connection",
        "x = norm(sublayer(x)): what came in is overwritten before it is added",
        "add what the sublayer took in: x + sublayer(x)",
        "around_attention",
        each_and_all(around(add=not_residual)),
    ),
    Mistake(
        "residual from the wrong place",
        "with a residual connection from the wrong place",
        "x = norm(x) before it is kept, or the layer's first input is kept for all sublayers",
        "add the x that came into this sublayer, before its norm, and nothing else",
        "around_attention",
        (
            *each_and_all(around(add=lambda terms: terms.taken + terms.given)),
            *each_and_all(around(add=lambda terms: terms.start + terms.given)),
            *each_and_all(around(add=lambda terms: terms.x + terms.start + terms.given)),
            *each_and_all(around(add=lambda terms: terms.x + terms.taken + terms.given)),
        ),
    ),
    Mistake(
        "norm forgotten",
        "without the norm of a sublayer",
        "it is made and never called, or there is one norm for all",
        "each sublayer has a norm of its own",
        "norm",
        tuple({"parts": behind(partial(without_norm, places=places))} for places in ((0,), (-1,), (1,), (0, 1, -1))),
    ),
    Mistake(
        "one norm used for both",
        "with one norm in two places",
        "self.norm1 is copied, and the number stays",
        "each sublayer has a norm of its own: norm1, norm2",
        "norm",
        (
            *({"parts": behind(partial(same_norm, of=of, at=(at,)))} for of, at in permutations((0, 1, -1), 2)),
            *({"parts": behind(partial(same_norm, of=of, at=(0, 1, -1)))} for of in (0, 1, -1)),
        ),
    ),
    Mistake(
        "norm before and after mixed",
        "with norms before one sublayer and after the other, or on both sides",
        "a post-norm layer and a pre-norm layer are read side by side",
        "norm(x + sublayer(x)) throughout, or x + sublayer(norm(x)) throughout",
        "norm",
        (*each_and_all(other_side)[:3], *each_and_all(around(norms=("before", "after")))),
    ),
    Mistake(
        "activation forgotten",
        "without the function between the feed-forward network's two projections",
        "self.activation is made and never called: two linear layers are one",
        "down(relu(up(x)))",
        "function",
        ({"function": always(same)},),
    ),
    Mistake(
        "activation after the second linear",
        "with the feed-forward network's function behind its second projection",
        "relu(down(up(x))): the brackets are closed too late, or it is called twice",
        "down(relu(up(x)))",
        "function",
        ({"feed_forward": always(function_last)}, {"feed_forward": always(function_twice)}),
    ),
    Mistake(
        "feed-forward bias forgotten",
        "without a bias of the feed-forward network that is among the weights",
        "weights are multiplied by hand, and the bias is forgotten",
        "add the bias, or call the layer",
        "feed_forward",
        tuple({"parts": behind(partial(without_bias, names=names))} for names in (("up", "down"), ("up",), ("down",))),
    ),
    Mistake(
        "cross-attention's queries are the memory",
        "whose cross-attention looks from the memory at the text",
        "cross(memory, x, x): arguments in another order than the attention takes them",
        "queries are of x, keys and values of the memory",
        "meeting",
        (
            {"meeting": always(lambda x, memory: (memory, x))},
            {"meeting": always(lambda x, memory: (memory, memory))},
        ),
    ),
    Mistake(
        "the self-attention's mask used for the memory",
        "whose masks of the text and of the memory are mixed up",
        "mask is in both calls, or the two are given in the wrong order",
        "the text's mask for self-attention, the memory's for cross-attention",
        "masks",
        (
            {"masks": always(lambda own, memory: (own, own))},
            {"masks": always(lambda own, memory: (memory, memory))},
            {"masks": always(lambda own, memory: (memory, own))},
        ),
    ),
    Mistake(
        "not causal",
        "whose self-attention sees the future, and takes no mask that would hide it",
        "the decoder's layer is copied from the encoder's",
        "give self-attention a causal mask",
        "masks",
        (),
    ),
    Mistake(
        "position added twice",
        "that adds positions which its input has already",
        "the embedding adds them, and the layer once more",
        "add them once, to the embeddings",
        "position",
        ({"positions": lambda before: after(before, before)},),
    ),
)


def with_change(formula: LayerFormula, change: Change) -> LayerFormula:
    return replace(formula, **{name: step(getattr(formula, name)) for name, step in change.items()})


def own_variants(formula: LayerFormula, decoder: bool) -> Iterator[tuple[Mistake, LayerFormula]]:
    """The layer with one mistake that is not its attention's."""
    for mistake in LAYER_MISTAKES:
        for change in mistake.changes:
            if decoder or not {"around_cross", "meeting", "masks"} >= set(change):
                yield mistake, with_change(formula, change)


def layer_variants(formula: LayerFormula, decoder: bool) -> Iterator[tuple[Mistake, LayerFormula]]:
    """The layer with one mistake: of its own, then of its attention."""
    yield from own_variants(formula, decoder)
    for mistake in MISTAKES:
        yield from ((mistake, made) for made in in_attention(formula, mistake, decoder))


def in_attention(formula: LayerFormula, mistake: Mistake, decoder: bool) -> Iterator[LayerFormula]:
    """With a mistake of attention in one of the two, or in both."""
    for change in mistake.changes:
        made: list[Formula | None] = [changed(one, change) for one in (formula.attention, formula.cross)]
        if made[0] is not None:
            yield replace(formula, attention=made[0])
        if decoder and made[1] is not None:
            yield replace(formula, cross=made[1])
        if decoder and made[0] is not None and made[1] is not None:
            yield replace(formula, attention=made[0], cross=made[1])
