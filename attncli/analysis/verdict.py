"""Whether attention explains an output, in sentences made of the figures that stand in the table."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attncli.analysis.trust import Trust

HARDLY = 0.01  # of what erasing tokens changes: other weights that change less hardly matter
NOTHING = 1e-6  # of a number: what rounding does to it


def verdict(found: "Trust") -> str:
    """Say what the figures do and no more, of this output and this text."""
    if max(found.most_erased, most_shuffled(found)) <= NOTHING * max(1.0, abs(found.answer.value)):
        return f"Neither other weights nor erased tokens change this {found.answer.kind}: there is nothing to explain."
    begin = f"{shuffled(found)}, where erasing tokens changes it by up to {figure(found.most_erased)}"
    if most_shuffled(found) <= HARDLY * found.most_erased:
        return f"{begin}: attention's weights hardly matter to this output, and no ranking by them explains it."
    return f"{begin}. {compared(found)} {rankings(found)}"


def most_shuffled(found: "Trust") -> float:
    """The most that permuted weights, by their median, or uniform ones change, in all layers or one."""
    return float(max(found.shuffles.medians.max(), abs(found.shuffles.uniform).max()))


def shuffled(found: "Trust") -> str:
    permuted, uniform = found.shuffles.medians[0], abs(found.shuffles.uniform[0])
    return (
        f"Permuting all weights changes this {found.answer.kind} by {figure(permuted)} (median), "
        f"uniform weights by {figure(uniform)}"
    )


def compared(found: "Trust") -> str:
    """Say how much permuting weights changes beside the same tokens in random order, and whether that is more."""
    control = found.shuffles.control()
    if control is None:
        return "All its tokens are the same, so that no other order of them shows what is usual."
    more, draws = control["more"], len(found.shuffles.reordered)
    begin = (
        f"With its tokens in random order, permuting changes it by {figure(control['permuted'])}. "
        f"The text itself is changed more in {more} of {draws} draws, and less in {control['less']}."
    )
    if found.shuffles.matters_more is None:
        return f"{begin} No difference can be told from so many: nothing shows that the weights matter more here."
    how = "more" if found.shuffles.matters_more else "less"
    return f"{begin} Attention's weights matter {how} to this text than to its tokens in random order."


def rankings(found: "Trust") -> str:
    """Say which methods beat random rankings, that none does, or that it can't be told."""
    if not found.tellable:
        return f"{len(found.erasable)} tokens are too few to tell a ranking of them from a random one."
    shares = dict(zip(found.methods, found.as_good, strict=True))
    level = f"at {found.level:.1%}, which is 5% over all {len(shares)}"
    better, still_open = found.better, found.open
    rest = [name for name in shares if name not in (*better, *still_open)]
    said = []
    if better:
        said.append(
            f"Tokens ranked by {listed(better)} beat random rankings {level} (as good are: {told(shares, better)})."
        )
    if still_open:
        said.append(
            f"Whether those by {listed(still_open)} beat random ones {level}, {found.random} of these leave open "
            f"(as good are: {told(shares, still_open)}). More --rankings may settle it."
        )
    if rest and said:
        said.append(f"Those by {listed(rest)} can't be told from them.")
    if not said:
        lowest = min(shares, key=shares.__getitem__)
        said.append(
            f"No ranking of its tokens can be told from random ones {level}: as good as the best of them, by {lowest}, "
            f"are {percent(shares[lowest])} of random ones."
        )
    return " ".join(said)


def told(shares: Mapping[str, float], names: Sequence[str]) -> str:
    """The shares of these methods, by name."""
    return ", ".join(f"{name} {percent(shares[name])}" for name in names)


def percent(share: float) -> str:
    """Return a share in %, and never 0.0% where it is more than 0."""
    return f"{share:.1%}" if share >= 0.001 or share == 0 else f"{100 * share:.1g}%"


def listed(names: Sequence[str]) -> str:
    """ "a, b and c" """
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def figure(number: float) -> str:
    """Three digits that matter; 0 for what rounding leaves."""
    return "0" if abs(number) < NOTHING else f"{number:.3g}"
