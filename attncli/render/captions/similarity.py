"""What is said of a cosine that is taken apart: what a cell is, what the sum is, what can't be said."""

from attncli.analysis.similarity import Similarity

VECTORS = (
    "a cell is what the last vectors of two tokens contribute to the cosine. Each is contextual: the whole text has "
    "gone into it, so the cell is no statement about the two words by themselves"
)
INPUTS = (
    "a cell is what two input tokens contribute to the cosine, by Jacobians integrated from a reference: the same text "
    "with [PAD]'s vector in place of every token that is not special (those are the same in it, and have 0)"
)
ONE_VECTOR = "reads one vector of a text: the sum has one term, and of other tokens it says nothing (--inputs does)"
POOLINGS = {
    "cls": f"[CLS] pooling {ONE_VECTOR}",
    "lasttoken": f"last-token pooling {ONE_VECTOR}",
    "max": "max pooling takes every dimension from the token where it is largest: a cell is of the dimensions that its "
    "two tokens give, and a token that is second everywhere counts for nothing",
}
SHARED = (
    "the bias of Dense, which no token makes, is shared out as the pooling weighs tokens (1/n each in a mean): a "
    "convention"
)
HUNDREDTHS = 100  # what one pair of many contributes is read so
UP = "above 0 a pair makes the two texts more alike, below 0 less"


def credited(found: Similarity) -> list[str]:
    """What a cell is, and what it can't say."""
    if found.references is not None:
        return [f"{INPUTS}; {UP}"]
    said = [f"{VECTORS}; {UP}", *(POOLINGS[name] for name in found.pooling if name in POOLINGS)]
    return [*said, SHARED] if found.biased else said


def summed(found: Similarity) -> list[str]:
    """That the cells sum to the cosine, or what is between them."""
    cells, references = float(found.contributions.sum()), found.references
    close = f"cosine {found.cosine:.6f}, difference {found.difference:.1e}"
    if references is None:
        return [f"sum of all cells {found.sum:.6f}, {close}"]
    terms = (
        f"cos(reference of A, B) {references.first:+.6f}, cos(A, reference of B) {references.second:+.6f}, "
        f"cos(both references) {references.both:+.6f}"
    )
    whole = f"cells {cells:+.6f}, with the first two terms added and the third taken away {found.sum:.6f}, {close}"
    return [terms, f"{whole} with {references.steps} steps, {references.half_difference:.1e} with half of them"]
