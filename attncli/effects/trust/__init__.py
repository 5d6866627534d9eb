"""Is attention an explanation here? What other weights do to an output, and which tokens rankings say that it is from.

Of one output of one text: `shuffling` gives other weights, `rankings` says how important each token is by maps and by
gradients, `erasing` takes tokens away, `aopc` and `limits` measure what the rankings are worth by that, beside random
ones. `evidence` is all of it. Definitions and sources: `attncli/effects/README.md`.
"""
