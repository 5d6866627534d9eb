"""Vectors, norms and one head, beside transformers (see `attncli.checks.ways`)."""

import torch
from torch import Tensor

from attncli.checks.agreement import difference, worst
from attncli.checks.beside import Both, NothingToCompare
from attncli.models.head import one_head
from attncli.models.model import Model
from attncli.models.taken import Taken
from attncli.record import Request


def vectors(both: Both) -> float:
    """Queries and keys as they meet, which are transformers'; and softmax(q·k / √d) of them, with what positions add,
    which are the weights.
    """
    differences = []
    for one in both.taken(both.texts, vectors="all"):
        rows, theirs = both.rows(one.tokens), both.theirs(one.tokens)
        # [layer, head, token, head_dim]
        query, key = (part.unflatten(0, (len(both.layers), -1)).double() for part in one.vectors)
        for part, ours in (("query", query), ("key", key)):
            expected = both.their_meeting(one.tokens, part)[both.layers]
            differences.append(difference(ours[:, :, rows], expected[:, :, rows]))
        weights = weights_by_vectors(one)
        differences.append(difference(weights[..., rows, :], theirs.weights[both.layers][..., rows, :]))
    return worst(differences)


def weights_by_vectors(taken: Taken) -> Tensor:
    """The weights `[layer, head, query, key]` by what a record tells of all heads: vectors, scale, terms and mask."""
    layers = taken.asked.layers
    query, key, scale = (
        one.unflatten(0, (len(layers), -1)).double() for one in (*taken.vectors, torch.from_numpy(taken.scales))
    )
    scores = query @ key.mT * scale.to(query.device)[..., None, None]
    for term in taken.terms.values():
        scores = scores + term.unflatten(0, (len(layers), -1))
    return scores.masked_fill(~taken.masks[:, None], -torch.inf).softmax(dim=-1).nan_to_num(0.0)


def half_precision(both: Both) -> float:
    """The maps of the first layer in bfloat16: softmax(q·k / √d) of its own vectors, as exact as in float32."""
    like = both.model
    if like.device.type != "cpu":
        raise NothingToCompare(f"on {like.device.type} maps have the precision of the model")
    model = Model(like.place, like.config, like.tokenizer, like.checkpoint, like.sha256, like.device, torch.bfloat16)
    taken = model.take(both.texts, Request([0], mask=both.mask, vectors="all"))
    return worst(difference(one.weights, weights_by_vectors(one)) for one in taken)


def norms(both: Both) -> float:
    """`--measure norm`: all heads in one walk, and two heads alone."""
    differences = []
    for heads in ("all", both.outer_heads):
        for one in both.taken(both.texts, heads=heads, measure="norm"):
            rows = both.rows(one.tokens)
            expected = both.their_norms(one.tokens)[both.layers][:, one.asked.heads]
            differences.append(difference(one.weights[..., rows, :], expected[..., rows, :]))
    return worst(differences)


def taken_apart(both: Both) -> float:
    """One head with what goes into it, its projections and its vectors: x W + b, which are transformers'."""
    text, differences = both.texts[0], []
    theirs = both.theirs(text)
    rows = both.rows(text)
    for layer in both.ends:
        number = layer % both.model.config.heads
        head = one_head(both.model, text, layer, number, both.mask)
        expected = theirs.weights[layer, number]
        differences.append(difference(torch.from_numpy(head.record.weights[0, 0, rows]), expected[rows]))
        for part, kept in (("query", head.query), ("key", head.key), ("value", head.value)):
            weight, bias = head.projections[part]
            for made, wanted in (
                (kept, both.their_meeting(text, part)),
                (head.x @ weight.T + bias, theirs.parts[part]),
            ):
                differences.append(difference(torch.from_numpy(made[rows]), wanted[layer, number][rows]))
    return worst(differences)
