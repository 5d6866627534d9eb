"""What is said of other weights, erased tokens and rankings: what the figures are, in which unit, which way is up."""

from attncli.analysis.trust import Trust

WAYS = {"mask": "[MASK]", "deletion": "deleted"}
CHANGE = {
    "divergence": "change: nats by which the prediction of what is left changes; 0 is no change",
    "distance": "change: how far the last vectors of the tokens that are left move, as a share of their lengths",
}


def weights_note(found: Trust) -> str:
    """What the table of other weights has."""
    count = found.shuffles.permuted.shape[1]
    note = (
        f"permuted: size of what permuting every row's weights changes, median of {count}, and where 95% of them are; "
        f"uniform: {found.answer.kind} with the same weight for every key minus without; put in afterwards, not trained"
    )
    if not len(found.shuffles.reordered):
        return note
    return (
        f"{note}; random order: all layers permuted, with the text's tokens in another order in each of {count} draws"
    )


def change_note(found: Trust) -> str:
    """What it means that erasing tokens changes the output."""
    kind = found.answer.kind
    return CHANGE.get(
        kind, f"change: {kind} of the whole text minus {kind} without the tokens; above 0 they speak for it"
    )


def aopc_note(found: Trust) -> str:
    """What is erased, and what % are of."""
    counts = ", ".join(map(str, found.sizes))
    ways = " or ".join({"mask": "[MASK] in their place", "deletion": "deletion"}[one.way] for one in found.erased)
    note = (
        f"compr.: mean change when the first {counts} of {len(found.erasable)} tokens are erased ({ways}), more is "
        "better; suff.: when all others are, less is better"
    )
    if found.beam is None:
        return f"{note}. How much any order could reach was not sought (--beam)"
    how = "all were tried" if found.beam == 0 else f"a search that keeps {found.beam} found them"
    return f"{note}; in %: from the least to the most that any order reaches ({how})"


def tau_note(found: Trust) -> str:
    alike = "as what each token alone changes" + (", and as gradient x input" if "gradient" in found.taus else "")
    return f"tau: how far a ranking is the same {alike}, by sizes (Kendall's: 1 the same, 0 by chance, -1 the reverse)"


def random_note(found: Trust) -> str:
    orders = f"{found.random} random rankings" if found.exact is None else f"all {found.chains:,} orders, exactly,"
    note = (
        f"random as good: share of {orders} with as large a compr. minus suff. (mean of the ways of "
        f"erasing); at most {found.level:.1%} is better than random, 5% over all rankings here"
    )
    if found.exact is None:
        return f"{note}; it counts as better, or not better, where its 95% interval lies on one side of that"
    return note
