"""One sentence on whether attention explains an output, made of the figures that stand in the table."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attncli.analysis.trust import Trust

HARDLY = 0.01  # of what erasing tokens changes: other weights that change less hardly matter
NOTHING = 1e-6  # of a number: what rounding does to it


def verdict(found: "Trust") -> str:
    """What the figures say and no more: of this output and this text."""
    if max(found.most_erased, most_shuffled(found)) <= NOTHING * max(1.0, abs(found.answer.value)):
        return f"Neither other weights nor erased tokens change this {found.answer.kind}: there is nothing to explain."
    begin = f"{shuffled(found)}, where erasing tokens changes it by up to {figure(found.most_erased)}"
    if most_shuffled(found) <= HARDLY * found.most_erased:
        return f"{begin}: attention's weights hardly matter to this output, and no ranking by them explains it."
    return f"{begin}: attention's weights matter here, and {rankings(found)}."


def most_shuffled(found: "Trust") -> float:
    """The most that permuted weights, by their median, or uniform ones change, in all layers or one."""
    return float(max(found.shuffles.medians.max(), abs(found.shuffles.uniform).max()))


def shuffled(found: "Trust") -> str:
    permuted, uniform = found.shuffles.medians[0], abs(found.shuffles.uniform[0])
    return (
        f"Permuting all weights changes this {found.answer.kind} by {figure(permuted)} (median), "
        f"uniform weights by {figure(uniform)}"
    )


def rankings(found: "Trust") -> str:
    """Which methods beat random rankings; or that none does, or that it can't be told."""
    random = len(found.gaps) - len(found.methods)
    if 1 / (1 + random) > found.level:
        return f"{random} random rankings are too few to tell {len(found.methods)} from them"
    if not found.tellable:
        return f"{len(found.erasable)} tokens are too few to tell a ranking of them from a random one"
    shares = dict(zip(found.methods, found.as_good, strict=True))
    level = f"at {found.level:.1%}, which is 5% over all {len(shares)}"
    better = found.better
    if not better:
        lowest = min(shares, key=shares.__getitem__)
        return (
            f"no ranking of its tokens can be told from random ones {level}: as good as the best of them, by {lowest}, "
            f"are {shares[lowest]:.1%} of random ones"
        )
    told = ", ".join(f"{name} {shares[name]:.1%}" for name in better)
    rest = [name for name in shares if name not in better]
    others = f", and those by {listed(rest)} can't be told from them" if rest else ""
    return f"tokens ranked by {listed(better)} beat random rankings {level} (as good are: {told}){others}"


def listed(names: Sequence[str]) -> str:
    """ "a, b and c" """
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def figure(number: float) -> str:
    """Three digits that matter; 0 for what rounding leaves."""
    return "0" if abs(number) < NOTHING else f"{number:.3g}"
