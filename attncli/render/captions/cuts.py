"""What is said of cut edges: where they were cut and how, and how weights and effects go together."""

from attncli.analysis.cuts import CutIn
from attncli.analysis.ranks import RankCorrelation
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


def token_name(where: CutIn, place: int) -> str:
    return visible(name_of(place, where.tokens))


def together(found: RankCorrelation | None) -> str:
    """Whether edges with larger weights have larger effects, beside luck."""
    if found is None:
        return "weights and sizes of effects have no rank correlation: there are too few edges, or all are the same"
    if found.rho > found.high:
        says = "edges with larger weights matter more"
    else:
        says = "edges with larger weights matter less" if found.rho < found.low else "weights don't tell what matters"
    return (
        f"weights and sizes of effects: Spearman's rank correlation {found.rho:+.2f} over {found.count} edges; "
        f"with permuted effects {found.low:+.2f} to {found.high:+.2f}, 19 times of 20: {says}"
    )
