"""How the layers of a network score their keys, by what its family says of positions."""

from torch import nn

from attncli.attention import Disentangled, PositionalScore, RelativeBias, Rotary, RotaryScore
from attncli.models.config import ModelConfig
from attncli.models.families.parts import Biased, Disentangling, Turned
from attncli.models.linear import Embedding, Linear

# What a term needs of the positions: content's queries meet their keys, and the other way round.
PROJECTION = {"content to position": "key", "position to content": "query"}


def layer_scores(config: ModelConfig) -> list[PositionalScore]:
    """One for each layer. A bias is one module for all of them, and so is a table of offsets' vectors."""
    size = config.hidden_size
    tables: dict[Disentangling, tuple[nn.Embedding, nn.Module | None]] = {}
    biases: dict[Biased, RelativeBias] = {}
    made: list[PositionalScore] = []
    for positions in config.positions:
        match positions:
            case None:
                made.append(PositionalScore())
            case Turned():
                made.append(RotaryScore(Rotary(positions.rotated, positions.base, positions.interleaved)))
            case Biased():
                if positions not in biases:
                    biases[positions] = RelativeBias(config.heads, positions.buckets, positions.furthest, Embedding)
                made.append(biases[positions])
            case Disentangling():
                if positions not in tables:
                    norm = nn.LayerNorm(size, eps=config.layer_norm_eps) if positions.normed else None
                    tables[positions] = Embedding(2 * positions.span, size), norm
                names = [PROJECTION[kind] for kind in positions.kinds]
                own = None if positions.shared else {name: Linear(size, size) for name in names}
                near, furthest = positions.near, positions.furthest
                made.append(Disentangled(*tables[positions], own, positions.kinds, near, furthest))
    return made
