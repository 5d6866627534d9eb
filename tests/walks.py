"""Walks through a network in memory: texts of token numbers, and what is kept of them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from checkpoints import make_config, make_network
from torch import Tensor

from attncli.models.config import ModelConfig
from attncli.models.model import as_rows, load_parameters
from attncli.models.network import Network, empty_network
from attncli.models.taps import KeptMaps, QueriesAndKeys
from attncli.models.transformers_peer import Reference
from attncli.models.walk import Ending, walk
from attncli.models.weights import Checkpoint, StateDict, check_shapes
from attncli.text.tokens import Tokens

CPU = torch.device("cpu")


def loaded(config: ModelConfig, tensors: dict[str, Tensor], dtype: torch.dtype = torch.float32) -> Network:
    """A network with these tensors of a checkpoint, all of which it uses."""
    checkpoint = Checkpoint([StateDict(tensors)], "a network in memory", config.family.prefixes)
    network = empty_network(config)
    assert check_shapes(checkpoint, network) == []
    for module in network.parts_of(network.config.layers):
        load_parameters(checkpoint, network, module, dtype, CPU)
    return network


def network_of(theirs: Any, dtype: torch.dtype = torch.float32) -> Network:
    """Ours, with what transformers' network holds."""
    return loaded(ModelConfig.from_dict(theirs.config.to_dict()), theirs.state_dict(), dtype)


def made_up(ids: Sequence[int], real: Sequence[bool] | None = None, segments: Sequence[int] | None = None) -> Tokens:
    """Tokens of these numbers; those that are not `real` are hidden as [PAD] is."""
    count = len(ids)
    return Tokens(
        text=[str(number) for number in ids],
        ids=list(ids),
        segments=list(segments or [0] * count),
        words=list(range(count)),
        offsets=[(0, 0)] * count,
        special=[False] * count,
        padding=[not one for one in real or [True] * count],
    )


class Walked(NamedTuple):
    """weights of each text `[layer, head, query, key]`; states, if the walk was whole, of each `[state, token, size]`;
    vectors of each `[2, head, token, head_dim]`.
    """

    weights: list[Tensor]
    states: list[Tensor]
    vectors: list[Tensor]


def walked(
    network: Network,
    texts: Sequence[Tokens],
    mask: str = "padding",
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    vectors: Sequence[tuple[int, int]] = (),
    whole: bool = False,
    positions: bool = True,
) -> Walked:
    """Go through the network, as far as is asked for; `layers` and `heads` are all by default."""
    config = network.config
    layers = range(config.layers) if layers is None else layers
    heads = range(config.heads) if heads is None else heads
    like = next(network.parameters()).new_empty(0)
    with torch.inference_mode():
        rows = as_rows(texts, config, mask, CPU, positions)
        kept = QueriesAndKeys(rows.runs, vectors, config.head_dim, like.new_empty)
        maps = KeptMaps(rows.runs, layers, heads, like.new_empty)
        states = list(walk(network, rows, [kept, maps], None if whole else Ending(max(layers), heads)))
    parts = [rows.texts(state) for state in states]
    return Walked(
        rows.in_order(maps.kept),
        [torch.stack(one) for one in zip(*parts, strict=True)] if whole else [],
        rows.in_order(torch.stack(one).transpose(0, 1) for one in kept.kept),
    )


def run_both(
    family: str,
    mask: str,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
    batch: int = 2,
    length: int = 9,
    **changes: Any,
) -> tuple[Walked, Walked]:
    """One pass of each, over random tokens and segments; [PAD] stands among the tokens too. Without the rows of [PAD],
    where transformers has none.
    """
    reference = Reference(make_network(make_config(family, **changes), seed=seed), CPU, torch.float32)
    network = network_of(reference.network, dtype)
    reference = Reference(reference.network, CPU, dtype)
    config = reference.network.config
    random = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, config.vocab_size, (batch, length), generator=random)
    ids[:, 2] = config.pad_token_id
    real = torch.rand(batch, length, generator=random) < 0.7
    real[:, 0] = True  # no row is without anything to attend to: there transformers' numbers mean nothing
    segments = torch.randint(0, max(1, network.config.segments), (batch, length), generator=random)
    texts = [made_up(*of_text) for of_text in zip(ids.tolist(), real.tolist(), segments.tolist(), strict=True)]
    theirs = [tuple(map(torch.stack, reference.run(text, mask))) for text in texts]
    expected = Walked([weights for weights, _ in theirs], [states for _, states in theirs], [])
    ours, without = walked(network, texts, mask, whole=True), walked(network, texts, mask)
    torch.testing.assert_close(without.weights, ours.weights)
    rows = [torch.full_like(one, True) if reference.has_padding_rows else one for one in real]
    return of_rows(ours, rows), of_rows(expected, rows)


def of_rows(found: Walked, rows: Sequence[Tensor]) -> Walked:
    return found._replace(
        weights=[one[:, :, some] for one, some in zip(found.weights, rows, strict=True)],
        states=[one[:, some] for one, some in zip(found.states, rows, strict=True)],
    )


def close(ours: Walked, theirs: Walked, weights: float, hidden: float) -> None:
    torch.testing.assert_close(ours.weights, theirs.weights, rtol=0, atol=weights)
    torch.testing.assert_close(ours.states, theirs.states, rtol=0, atol=hidden)
