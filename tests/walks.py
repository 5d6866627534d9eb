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
ALL, REAL = 30, 27  # tokens of a made-up text; the others are [PAD]


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


def as_transformers(
    family: str, mask: str, changes: dict[str, Any], rows: int = REAL
) -> tuple[Network, Tokens, Tensor]:
    """A small random network of a family with these changes, whose weights and states are transformers' to 1e-10, in
    float64: of the first `rows` tokens, those that are real, or of [PAD] too. Gives the network, the text, and
    transformers' weights `[layer, head, query, key]`.
    """
    theirs = make_network(make_config(family, **changes))
    network, reference = network_of(theirs, torch.float64), Reference(theirs, CPU, torch.float64)
    segments = [0] * 9 + [int(network.config.segments > 1)] * (ALL - 9)
    text = made_up(list(range(3, 3 + ALL)), [True] * REAL + [False] * (ALL - REAL), segments)
    [weights], [states] = walked(network, [text], mask, whole=True)[:2]
    expected, their_states = map(torch.stack, reference.run(text, mask))
    torch.testing.assert_close(weights[:, :, :rows], expected[:, :, :rows], rtol=0, atol=1e-10)
    torch.testing.assert_close(states[:, :rows], their_states[:, :rows], rtol=0, atol=1e-10)
    return network, text, expected
