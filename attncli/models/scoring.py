"""How the layers of a network score their keys, by what its family says of positions."""

from torch import nn

from attncli.attention import Disentangled, PositionalScore, RelativeBias, Rotary, RotaryScore
from attncli.attention.relative import PROJECTIONS
from attncli.models.config import ModelConfig
from attncli.models.families.parts import Biased, Disentangling, Positions, Turned
from attncli.models.linear import Embedding, Linear


def layer_scores(config: ModelConfig) -> list[PositionalScore]:
    """One for each layer. Those of one kind are one module for all layers; of disentangled ones, which have projections
    of their own, the table of offsets' vectors is.
    """
    size = config.hidden_size
    shared: dict[Positions | None, PositionalScore] = {}
    tables: dict[Disentangling, tuple[nn.Embedding, nn.Module | None]] = {}
    made: list[PositionalScore] = []
    for positions in config.positions:
        if isinstance(positions, Disentangling):
            if positions not in tables:
                norm = nn.LayerNorm(size, eps=config.layer_norm_eps) if positions.normed else None
                tables[positions] = Embedding(2 * positions.span, size), norm
            names = [PROJECTIONS[kind] for kind in positions.kinds]
            own = None if positions.shared else {name: Linear(size, size) for name in names}
            near, furthest = positions.near, positions.furthest
            made.append(Disentangled(*tables[positions], own, positions.kinds, near, furthest))
        else:
            if positions not in shared:
                shared[positions] = shared_score(config, positions)
            made.append(shared[positions])
    return made


def shared_score(config: ModelConfig, positions: Turned | Biased | None) -> PositionalScore:
    match positions:
        case Turned():
            return RotaryScore(Rotary(positions.rotated, positions.base, positions.interleaved, positions.stretch))
        case Biased():
            return RelativeBias(config.heads, positions.buckets, positions.furthest, Embedding)
    return PositionalScore()
