"""The records of several masks beside each other, and whose queries and keys there is room for: what a page holds."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from attncli.base.errors import RequestError
from attncli.models.block import Tap
from attncli.models.engine import Engine
from attncli.models.tapped import TappedModel, tapped
from attncli.record import AttentionRecord, Input, Request
from attncli.record.selection import select
from attncli.text.tokens import Tokens

NEURONS = 75_000  # numbers of q and k in a page of long texts, where nobody says of which heads: 0.2 MB
SHORT = 128  # tokens of a text, at most, all of whose heads bring their queries and keys
ALWAYS = 600_000  # of their numbers in a page, whose maps may be as many more


def under_masks(
    engine: Engine,
    inputs: Sequence[Input],
    request: Request,
    masks: Sequence[str | None],
    most: float,
    copies: float = 0,
    taps: Sequence[Tap] = (),
) -> Iterator[list[AttentionRecord]]:
    """Every text's records, one a mask, in the order of `masks`; a text is cut into tokens once.

    Of weights for which the request names no vectors, those heads bring theirs that `vectors_within` finds. Norms have
    none, nor has another engine. taps: as for `Model.take`.

    Raises RequestError as the engine does, and for several masks of a model that can't be tapped.
    """
    part = tapped(engine, request.which)
    if part is not None:
        engine.check(request)
        texts = [part.ready(one, request.target) for one in engine.tokenize(inputs, request.pad_to)]
        if request.vectors is None and request.measure == "weight":
            request = replace(request, vectors=vectors_within(part, texts, request, most, len(masks)))
        texts = list(part.fitting([texts], request, len(masks), copies))
        runs = [part.attend_tokens(texts, replace(request, mask=mask), taps) for mask in masks]
    elif len(masks) > 1:
        raise RequestError(f"{engine.place.name} can have one mask a page: its own")
    else:
        runs = [engine.answer(inputs, replace(request, mask=mask), together=True, copies=copies) for mask in masks]
    for records in zip(*runs, strict=True):
        yield list(records)


def vectors_within(model: TappedModel, texts: Sequence[Tokens], request: Request, most: float, masks: int = 1) -> str:
    """The heads, from the first on, whose queries and keys, with terms, are no more than `most` numbers under all these
    masks; one at least. Of SHORT texts they may be as many as their weights, and ALWAYS, which are all heads of BERT.

    Written as `Request.vectors` takes it.
    """
    layers = model.select_layers(request.layers)
    heads = select(request.heads, model.heads, "head")
    every = [f"{layer}.{head}" for layer in layers for head in heads]
    terms = max(sum(model.term_numbers(layer, text) for text in texts) for layer in layers)
    of_one = masks * (2 * sum(map(len, texts)) * model.head_dim + terms)
    if max(map(len, texts), default=0) <= SHORT:
        most = max(most, ALWAYS + masks * len(every) * sum(len(text) ** 2 for text in texts))
    return ",".join(every[: max(1, int(most / of_one))])
