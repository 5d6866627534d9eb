"""What is said of cut edges: where they were cut and how, and how weights and effects go together."""

import numpy as np

from attncli.analysis.cuts import CutIn, Edge, EdgeEffects
from attncli.base.printable import visible
from attncli.record.selection import name_of, number_list

EDGE, EDGES = "the edge", "the edges"
CONTROL = "others: as many other edges from the same queries, drawn alike 20 times; their mean, least and most"
NO_CONTROL = "no control: these queries have not as many other edges"
KEPT = "the weight is 0, and the row's others stay as they are"
SHARED = "the row's other weights sum to 1 again"


def cut_where(where: CutIn) -> str:
    """In which layers and heads, and what becomes of the other weights."""
    every = where.model.layers, where.model.heads
    names = []
    for what, numbers, count in zip(("layer", "head"), (where.layers, where.heads), every, strict=True):
        several = f"{what}s" if len(numbers) > 1 else what
        names.append(f"all {several}" if len(numbers) == count else f"{several} {number_list(numbers)}")
    return f"cut in {' and '.join(names)}: {KEPT if where.keep_rest else SHARED}"


def edge_names(where: CutIn, edge: Edge) -> tuple[str, str]:
    """The tokens that an edge leads from and to."""
    query, key = edge
    return visible(name_of(query, where.tokens)), visible(name_of(key, where.keys))


def together(found: EdgeEffects) -> str:
    """Say whether edges with larger weights have larger effects, compared with chance."""
    count, can = found.effects.size - int(np.isnan(found.effects).sum()), int(found.can_matter.sum())
    if not can:
        return f"none of these {count} edges can have an effect: no path leads from their queries to the output"
    edges = f"{count} edges" if can == count else f"the {can} of {count} edges that can have an effect"
    ranked = found.correlation()
    if ranked is None:
        return f"weights and sizes of effects have no rank correlation over {edges}: they are too few, or all the same"
    if ranked.rho > ranked.high:
        says = "edges with larger weights matter more"
    else:
        says = "edges with larger weights matter less" if ranked.rho < ranked.low else "weights don't tell what matters"
    return (
        f"weights and sizes of effects: Spearman's rank correlation {ranked.rho:+.2f} over {edges}; with the effects "
        f"freely permuted over these edges {ranked.low:+.2f} to {ranked.high:+.2f}, 19 times of 20: {says}"
    )
